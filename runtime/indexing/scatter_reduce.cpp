// Writes that combine what falls on one place: scatter_reduce, index_reduce, scatter(reduce) and
// index_add(alpha).
#include <fmt/format.h>
#include <tandem/ops.h>

#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "ir/base/error.h"
#include "runtime/indexing/positions.h"

namespace tandem {
namespace {

using ir::ErrorScope;
using ir::Op;
using runtime::as_int;
using runtime::Call;
using runtime::require_apart;
using runtime::V;

enum class Reduction : uint8_t { Sum, Prod, Mean, Amax, Amin };
struct Named {
  std::string_view name;
  Reduction reduction;
};

constexpr Named kOfScatter[] = {{"amax", Reduction::Amax},
                                {"amin", Reduction::Amin},
                                {"mean", Reduction::Mean},
                                {"prod", Reduction::Prod},
                                {"sum", Reduction::Sum}};
constexpr Named kOfIndex[] = {{"amax", Reduction::Amax},
                              {"amin", Reduction::Amin},
                              {"mean", Reduction::Mean},
                              {"prod", Reduction::Prod}};
constexpr Named kOfScatterWith[] = {{"add", Reduction::Sum}, {"multiply", Reduction::Prod}};

Reduction reduction_named(std::span<const Named> allowed, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Named& known : allowed) {
    if (known.name == name) return known.reduction;
    names.push_back(known.name);
  }
  ir::fail(Errc::Argument, fmt::format("{}: unknown reduction; expected one of {}, got {}",
                                       ErrorScope::function(), fmt::join(names, ", "), name));
}

Op scatter_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::Sum:
    case Reduction::Mean:
      return Op::scatter_add;
    case Reduction::Prod:
      return Op::scatter_prod;
    case Reduction::Amax:
      return Op::scatter_amax;
    case Reduction::Amin:
      return Op::scatter_amin;
  }
  return {};
}

/// The smallest number of a dtype, or the largest.
Number extreme_of(DType dtype, bool largest) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (ir::is_floating(dtype)) return largest ? kInfinity : -kInfinity;
  if (dtype == boolean) return largest;
  if (dtype == u8) return largest ? 255 : 0;
  const int bits = static_cast<int>(8 * ir::size_of(dtype));
  const int64_t high = std::numeric_limits<int64_t>::max() >> (64 - bits);
  return largest ? high : -high - 1;
}

/// What changes nothing when it is combined.
Number identity_of(Reduction reduction, DType dtype) {
  if (reduction == Reduction::Amax || reduction == Reduction::Amin)
    return extreme_of(dtype, reduction == Reduction::Amin);
  if (dtype == boolean) return reduction == Reduction::Prod;
  return reduction == Reduction::Prod ? 1 : 0;
}

V ones_like_index(Call& c, V index, DType dtype) {
  return c.b.full(c.b.sizes(index), dtype, dtype == boolean ? Number(true) : Number(1));
}

/// self without what the index names.
V cleared(Call& c, V self, int dim, V index, const Number& value) {
  return c.b.scatter(self, dim, index, c.b.full(c.b.sizes(index), c.b.dtype(self), value));
}

/// Each sum over how many it is of.
V mean_of(Call& c, V sums, int dim, V index, bool include_self) {
  const DType dtype = c.b.dtype(sums);
  const DType counted = dtype == f64 ? f64 : ir::is_floating(dtype) ? f32 : i64;
  const V own = c.b.full(c.b.sizes(sums), counted, include_self ? 1 : 0);
  const V found = c.b.scatter_add(own, dim, index, ones_like_index(c, index, counted));
  const V count = c.b.convert(c.b.clamp(found, Number(1), {}), dtype);
  return ir::is_floating(dtype) ? c.b.div(sums, count) : c.b.floor_divide(sums, count);
}

void check_reducible(DType dtype, Reduction reduction) {
  if (reduction == Reduction::Mean && dtype == boolean)
    ir::fail(Errc::DType, ErrorScope::function() + ": no mean of bool; expected numbers, got bool");
}

V reduced(Call& c, V self, int dim, V index, V src, Reduction reduction, bool include_self) {
  const DType dtype = c.b.dtype(self);
  check_reducible(dtype, reduction);
  const V start = include_self ? self : cleared(c, self, dim, index, identity_of(reduction, dtype));
  const V combined = c.b.scatter_into(scatter_of(reduction), start, dim, index, src);
  return reduction == Reduction::Mean ? mean_of(c, combined, dim, index, include_self) : combined;
}

/// self becomes what `reduced` gives. (Means divide all of self.)
void reduce_into(Call& c, V self, int dim, V index, V src, Reduction reduction, bool include_self) {
  const bool touches_few = include_self && reduction != Reduction::Mean;
  if (touches_few) return c.b.scatter_in_place(scatter_of(reduction), self, dim, index, src);
  c.b.pointwise_in_place(Op::copy,
                         {self, reduced(c, self, dim, index, src, reduction, include_self)});
}

/// src times alpha, of src's dtype.
V scaled(Call& c, V src, const Number& alpha) {
  const DType dtype = c.b.dtype(src);
  if (ir::is_integral(dtype) && alpha.is_float())
    ir::fail(Errc::DType,
             fmt::format("{}: alpha of integers is floating; expected an integer, got {}",
                         ErrorScope::function(), alpha.to_double()));
  return c.b.mul(src, c.given(alpha, dtype));
}

}  // namespace

Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                      std::string_view reduce, bool include_self, SourceLocation at) {
  Call c(at);
  const Reduction reduction = reduction_named(kOfScatter, reduce);
  const V v = c.in(self), i = c.in(index, "index"), from = c.in(src, "src");
  return c.out(reduced(c, v, as_int(dim), i, from, reduction, include_self));
}

Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Located& src,
               std::string_view reduce) {
  Call c(src.location);
  const Reduction reduction = reduction_named(kOfScatterWith, reduce);
  const V v = c.in(self), i = c.in(index, "index");
  const V from = runtime::source_of(c, src, self.dtype(), index);
  return c.out(reduced(c, v, as_int(dim), i, from, reduction, true));
}

Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                    std::string_view reduce, bool include_self, SourceLocation at) {
  Call c(at);
  const Reduction reduction = reduction_named(kOfIndex, reduce);
  const runtime::Parts parts(c, self, dim, index, source, "source");
  return c.out(
      c.b.view(reduced(c, parts.self, parts.dim, parts.index, parts.src, reduction, include_self),
               self.sizes()));
}

Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                 const Number& alpha, SourceLocation at) {
  Call c(at);
  const V v = c.in(self), i = c.in(index, "index"), from = c.in(src, "src");
  return c.out(c.b.index_add(v, as_int(dim), i, scaled(c, from, alpha)));
}

// --- as methods

Tensor Tensor::scatter_reduce(int64_t dim, const Tensor& index, const Tensor& src,
                              std::string_view reduce, bool include_self, SourceLocation at) const {
  return tandem::scatter_reduce(*this, dim, index, src, reduce, include_self, at);
}
Tensor Tensor::scatter(int64_t dim, const Tensor& index, const Located& src,
                       std::string_view reduce) const {
  return tandem::scatter(*this, dim, index, src, reduce);
}
Tensor Tensor::index_reduce(int64_t dim, const Tensor& index, const Tensor& source,
                            std::string_view reduce, bool include_self, SourceLocation at) const {
  return tandem::index_reduce(*this, dim, index, source, reduce, include_self, at);
}
Tensor Tensor::index_add(int64_t dim, const Tensor& index, const Tensor& src, const Number& alpha,
                         SourceLocation at) const {
  return tandem::index_add(*this, dim, index, src, alpha, at);
}
const Tensor& Tensor::scatter_reduce_(int64_t dim, const Tensor& index, const Tensor& src,
                                      std::string_view reduce, bool include_self,
                                      SourceLocation at) const {
  Call c(at, "scatter_reduce", true);
  require_apart(*this, {&index, &src});
  const Reduction reduction = reduction_named(kOfScatter, reduce);
  const V v = c.in(*this), i = c.in(index, "index"), from = c.in(src, "src");
  reduce_into(c, v, as_int(dim), i, from, reduction, include_self);
  return *this;
}
const Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, const Located& src,
                               std::string_view reduce) const {
  Call c(src.location, "scatter", true);
  require_apart(*this, {&index, src.tensor});
  const Reduction reduction = reduction_named(kOfScatterWith, reduce);
  const V v = c.in(*this), i = c.in(index, "index");
  const V from = runtime::source_of(c, src, dtype(), index);
  reduce_into(c, v, as_int(dim), i, from, reduction, true);
  return *this;
}
const Tensor& Tensor::index_reduce_(int64_t dim, const Tensor& index, const Tensor& source,
                                    std::string_view reduce, bool include_self,
                                    SourceLocation at) const {
  Call c(at, "index_reduce", true);
  require_apart(*this, {&index, &source});
  const Reduction reduction = reduction_named(kOfIndex, reduce);
  const runtime::Parts parts(c, *this, dim, index, source, "source");
  reduce_into(c, parts.self, parts.dim, parts.index, parts.src, reduction, include_self);
  return *this;
}
const Tensor& Tensor::index_add_(int64_t dim, const Tensor& index, const Tensor& src,
                                 const Number& alpha, SourceLocation at) const {
  Call c(at, "index_add", true);
  require_apart(*this, {&index, &src});
  const V v = c.in(*this), i = c.in(index, "index"), from = c.in(src, "src");
  c.b.scatter_in_place(Op::index_add, v, as_int(dim), i, scaled(c, from, alpha));
  return *this;
}

}  // namespace tandem
