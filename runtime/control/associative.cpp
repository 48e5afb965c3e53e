// Prefixes by an associative function: of pairs, then of what lies between them.
#include <fmt/format.h>
#include <tandem/control_flow.h>
#include <tandem/ops.h>
#include <tandem/ops/shapes.h>

#include "ir/base/error.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::control {
namespace {

class Prefixes {
 public:
  Prefixes(Combine fn, int dim) : fn_(fn), dim_(dim) {}

  Tensors of(const Tensors& xs) const {
    const int64_t length = xs[0].sizes()[dim_];
    if (length < 2) return xs;
    // The prefixes that end at odd places are those of pairs; one more element ends at an even one.
    const Tensors odd = of(combined(every_other(xs, 0, length - 1), every_other(xs, 1, length)));
    const int64_t pairs = length / 2, evens = length - pairs;
    const Tensors even =
        evens == 1 ? Tensors() : combined(part(odd, 0, evens - 1), every_other(xs, 2, length));
    Tensors all;
    for (size_t i = 0; i < xs.size(); ++i) {
      const Tensor first = xs[i].slice(dim_, 0, 1);
      all.push_back(
          interleaved(even.empty() ? first : cat({first, even[i]}, dim_), odd[i], pairs, evens));
    }
    return all;
  }

 private:
  static Tensors sliced(const Tensors& xs, int dim, int64_t begin, int64_t end, int64_t step) {
    Tensors parts;
    for (const Tensor& x : xs) parts.push_back(x.slice(dim, begin, end, step));
    return parts;
  }
  Tensors every_other(const Tensors& xs, int64_t begin, int64_t end) const {
    return sliced(xs, dim_, begin, end, 2);
  }
  Tensors part(const Tensors& xs, int64_t begin, int64_t end) const {
    return sliced(xs, dim_, begin, end, 1);
  }

  /// Elements of `even` and `odd` in turn, `evens` and `odds` of them: as many, or one more.
  Tensor interleaved(const Tensor& even, const Tensor& odd, int64_t odds, int64_t evens) const {
    Shape sizes = odd.sizes();
    sizes[dim_] = 2 * odds;
    const Tensor both = reshape(stack({even.slice(dim_, 0, odds), odd}, dim_ + 1), sizes);
    return evens == odds ? both : cat({both, even.slice(dim_, odds, evens)}, dim_);
  }

  Tensors combined(const Tensors& a, const Tensors& b) const {
    Tensors made = fn_(a, b);
    for (size_t i = 0; i < made.size(); ++i) {
      const ir::Type expected = a[i].impl()->type(), got = made[i].impl()->type();
      if (expected != got)
        ir::fail(Errc::Shape,
                 fmt::format("associative_scan: fn gives another type than its operands have; "
                             "expected {}, got {}",
                             ir::to_string(expected), ir::to_string(got)));
    }
    return made;
  }

  const Combine fn_;
  const int dim_;
};

int common_dim(const Tensors& xs, int64_t dim) {
  const int rank = xs[0].dim();
  for (const Tensor& x : xs)
    if (dim < -x.dim() || dim >= x.dim())
      ir::fail(Errc::Index,
               fmt::format("associative_scan: dim out of range; expected {} <= dim < {}, got {}",
                           -x.dim(), x.dim(), dim));
  const int wrapped = static_cast<int>(dim < 0 ? dim + rank : dim);
  for (const Tensor& x : xs) {
    const int own = static_cast<int>(dim < 0 ? dim + x.dim() : dim);
    if (own != wrapped || x.sizes()[own] != xs[0].sizes()[wrapped])
      ir::fail(
          Errc::Shape,
          fmt::format("associative_scan: xs differ along the dimension; expected a length of "
                      "{} in dimension {} of each, got {}",
                      int64_t{xs[0].sizes()[wrapped]}, wrapped, ir::to_string(x.impl()->type())));
  }
  return wrapped;
}

}  // namespace

Tensors run_associative_scan(Combine fn, Tensors xs, const AssociativeScanOptions& options) {
  if (xs.empty()) ir::fail(Errc::Argument, "associative_scan: expected xs with a tensor");
  const int dim = common_dim(xs, options.dim);
  const auto flipped = [&](Tensors tensors) {
    for (Tensor& t : tensors)
      if (options.reverse) t = flip(t, {dim});
    return tensors;
  };
  return flipped(Prefixes(fn, dim).of(flipped(std::move(xs))));
}

}  // namespace tandem::control
