// Norms of rows and what is made of them: normalize, renorm, distances.
#include <tandem/ops/linalg.h>
#include <tandem/ops/reductions.h>
#include <tandem/ops/shapes.h>

#include <cmath>
#include <limits>

#include "runtime/networks/losses.h"

namespace tandem {
namespace {

using runtime::Call;
using runtime::V;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string function() { return ir::ErrorScope::function(); }

void require_floating(Call& c, V x) {
  if (!ir::is_floating(c.b.dtype(x)))
    ir::fail(Errc::DType, fmt::format("{}: expected a floating dtype, got {}", function(),
                                      ir::name(c.b.dtype(x))));
}

/// size^p; of positive p without a gradient of any order at 0, where some are infinite.
V powers_of(Call& c, V size, double p) {
  if (p < 0) return c.b.pow(size, p);
  const V is_zero = c.b.eq(size, 0);
  return c.b.where(is_zero, 0.0, c.b.pow(c.b.where(is_zero, 1.0, size), p));
}

/// The p-norm over `dims`; its gradient at 0 is 0.
V norm_over(Call& c, V x, double p, const ir::Axes& dims, bool keepdim) {
  const V size = c.b.abs(x);
  if (p == kInfinity) return c.b.reduce(ir::Op::amax, size, dims, keepdim);
  if (p == -kInfinity) return c.b.reduce(ir::Op::amin, size, dims, keepdim);
  if (p == 0) {  // with a gradient of zeros
    const V ones = c.b.convert(c.b.ne(x, 0), c.b.dtype(x));
    return c.b.sum(c.b.pointwise(ir::Op::copy, {x, ones}), dims, keepdim);
  }
  if (p == 1) return c.b.sum(size, dims, keepdim);
  const V powers = c.b.sum(p == 2 ? c.b.square(x) : powers_of(c, size, p), dims, keepdim);
  const V is_zero = c.b.eq(powers, 0), safe = c.b.where(is_zero, 1.0, powers);
  const V root = p == 2 ? c.b.sqrt(safe) : c.b.pow(safe, 1 / p);
  return c.b.where(is_zero, p < 0 ? c.b.reciprocal(powers) : powers, root);
}

/// The norms of differences along the last dim; of no elements 0, whatever p.
V distances(Call& c, V differences, double p) {
  const bool has_none = c.b.sizes(differences).back() == 0;
  return norm_over(c, differences, has_none ? 1 : p, ir::Axes{-1}, false);
}

// --- cdist

constexpr Dim kFewRows = 25;

bool uses_product(std::string_view mode, double p, Dim n, Dim m) {
  if (mode == "use_mm_for_euclid_dist") return p == 2;
  if (mode == "use_mm_for_euclid_dist_if_necessary")
    return p == 2 && (n > kFewRows || m > kFewRows);
  if (mode == "donot_use_mm_for_euclid_dist") return false;
  ir::fail(Errc::Argument,
           fmt::format("{}: compute_mode is not there; expected \"use_mm_for_euclid_dist\", "
                       "\"use_mm_for_euclid_dist_if_necessary\" or "
                       "\"donot_use_mm_for_euclid_dist\", got \"{}\"",
                       function(), mode));
}

/// |x - y| from x.x - 2 x.y + y.y
V distances_by_product(Call& c, V x, V y) {
  const auto squares = [&](V v) { return c.b.sum(c.b.square(v), {-1}, true); };
  const V products = c.b.matmul(c.b.mul(x, -2), c.b.transpose(y, -2, -1));
  const V sums = c.b.add(c.b.add(squares(x), c.b.transpose(squares(y), -2, -1)), products);
  const V is_zero = c.b.le(sums, 0);
  return c.b.where(is_zero, 0.0, c.b.sqrt(c.b.where(is_zero, 1.0, sums)));
}

}  // namespace

Tensor cdist(const Tensor& x1, const Tensor& x2, double p, std::string_view compute_mode,
             SourceLocation at) {
  Call c(at);
  const V x = c.in(x1, "x1"), y = c.in(x2, "x2");
  require_floating(c, x);
  const Shape m = c.b.sizes(x), n = c.b.sizes(y);
  if (m.rank() < 2 || n.rank() < 2 || m.back() != n.back() || c.b.dtype(x) != c.b.dtype(y) ||
      !(p >= 0))
    ir::fail(Errc::Argument, fmt::format("{}: expected rows of one length and dtype and p of at "
                                         "least 0, got {} {}, {} {} and {}",
                                         function(), ir::name(c.b.dtype(x)), to_string(m),
                                         ir::name(c.b.dtype(y)), to_string(n), p));
  const Dim rows = m[m.rank() - 2], columns = n[n.rank() - 2];
  if (uses_product(compute_mode, p, rows, columns)) return c.out(distances_by_product(c, x, y));
  const V differences = c.b.sub(c.b.unsqueeze(x, -2), c.b.unsqueeze(y, -3));
  return c.out(distances(c, differences, p));
}

Tensor normalize(const Tensor& self, double p, const DimList& dims, double eps, SourceLocation at) {
  Call c(at);
  const V x = c.in(self);
  require_floating(c, x);
  const V norm = norm_over(c, x, p, dims.dims, true);
  return c.out(c.b.div(x, c.b.clamp(norm, Number(eps), std::nullopt)));
}

Tensor renorm(const Tensor& self, double p, int64_t dim, double maxnorm, SourceLocation at) {
  Call c(at);
  const V x = c.in(self);
  require_floating(c, x);
  if (!(p > 0) || !(maxnorm >= 0))
    ir::fail(Errc::Argument, fmt::format("{}: expected p above 0 and a maxnorm of at least 0, got "
                                         "{} and {}",
                                         function(), p, maxnorm));
  if (c.b.rank(x) < 2)
    ir::fail(Errc::Shape, fmt::format("{}: expected at least 2 dimensions, got {}", function(),
                                      to_string(c.b.sizes(x))));
  const int kept = c.b.wrap_dim(dim, c.b.rank(x), "renorm");
  ir::Axes dims;
  for (int d = 0; d < c.b.rank(x); ++d)
    if (d != kept) dims.push_back(d);
  const V norm = norm_over(c, x, p, dims, true);
  const V factor = c.b.mul(c.b.reciprocal(c.b.add(norm, 1e-7)), maxnorm);
  return c.out(c.b.mul(x, c.b.where(c.b.gt(norm, maxnorm), factor, 1.0)));
}

Tensor Tensor::renorm(double p, int64_t dim, double maxnorm, SourceLocation at) const {
  return tandem::renorm(*this, p, dim, maxnorm, at);
}
const Tensor& Tensor::renorm_(double p, int64_t dim, double maxnorm, SourceLocation at) const {
  const ir::ErrorScope errors(at, "renorm", true);
  return copy_(Located(tandem::renorm(*this, p, dim, maxnorm, at), at));
}

// x1 . x2 / (max(|x1|, eps) max(|x2|, eps))
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim, double eps,
                         SourceLocation at) {
  Call c(at);
  V both[] = {c.in(x1, "x1"), c.in(x2, "x2")};
  const auto [a, b] = [&] {
    const auto promoted = c.b.promote(both, true);
    return std::pair(promoted[0], promoted[1]);
  }();
  const ir::Axes dims{c.b.wrap_dim(dim, std::max(c.b.rank(a), 1), "cosine_similarity")};
  const auto unit = [&](V x) {
    return c.b.div(x, c.b.clamp(norm_over(c, x, 2, dims, true), Number(eps), std::nullopt));
  };
  return c.out(c.b.sum(c.b.mul(unit(a), unit(b)), dims));
}

Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim,
                         SourceLocation at) {
  Call c(at);
  const V d = c.b.add(c.b.sub(c.in(x1, "x1"), c.in(x2, "x2")), eps);
  return c.out(norm_over(c, d, p, ir::Axes{-1}, keepdim));
}

// --- pdist

namespace {

/// How pairs of rows (i, j), i < j, are found: rows in bands, each beside all rows from its first
/// on. What is computed for nothing lies in its square on the diagonal. (To gather both rows of
/// each pair takes twice as long, and to add gradients at them several times.)
class Bands {
 public:
  explicit Bands(int64_t rows)
      : rows_(rows), height_(std::max(kLeast, (rows + kMost - 1) / kMost)) {}

  /// f(first row, behind the last row)
  template <class F>
  void for_each(F f) const {
    for (int64_t start = 0; start < rows_; start += height_)
      f(start, std::min(start + height_, rows_));
  }

  /// Where the pairs in order are in the distances of one band after the other.
  Tensor places() const {
    const Tensor t = runtime::empty_tensor({rows_ * (rows_ - 1) / 2}, i64);
    auto* to = static_cast<int64_t*>(t.impl()->data());
    int64_t of_row = 0;
    for_each([&](int64_t start, int64_t end) {
      for (int64_t i = start; i < end; ++i, of_row += rows_ - start)
        for (int64_t j = i + 1; j < rows_; ++j) *to++ = of_row + j - start;
    });
    return t;
  }

 private:
  static constexpr int64_t kMost = 4, kLeast = 32;
  int64_t rows_, height_;
};

/// |x_i - x_j| of rows i in [start, end) and j from start on, flat. That of a row and itself, which
/// nobody asks for, is 0 without a gradient, be it infinite.
V band_of_distances(Call& c, V x, Dim start, Dim end, double p) {
  const V upper = c.b.slice(x, 0, start, end), all = c.b.slice(x, 0, start, std::nullopt);
  const auto numbers = [&](V v, int dim) {
    return c.b.unsqueeze(c.b.unsqueeze(c.b.iota(c.b.sizes(v)[0], i64, 0, 1), dim), 2);
  };
  const V is_same = c.b.eq(numbers(upper, 1), numbers(all, 0));
  const V differences = c.b.sub(c.b.unsqueeze(upper, 1), c.b.unsqueeze(all, 0));
  return c.b.reshape(distances(c, c.b.where(is_same, 0.0, differences), p), Shape{-1});
}

}  // namespace

Tensor pdist(const Tensor& self, double p, SourceLocation at) {
  Call c(at);
  const V x = c.in(self);
  require_floating(c, x);
  if (c.b.rank(x) != 2 || !(p >= 0))
    ir::fail(Errc::Argument, fmt::format("{}: expected a matrix and p of at least 0, got {} and {}",
                                         function(), to_string(c.b.sizes(x)), p));
  const Dim rows = c.b.sizes(x)[0];
  if (rows <= 1) return c.out(distances(c, c.b.slice(x, 0, 0, 0), p));
  c.expect(rows * (rows - 1) / 2 * c.b.sizes(x)[1]);
  const Bands bands(rows);
  std::vector<V> parts;
  bands.for_each(
      [&](Dim start, Dim end) { parts.push_back(band_of_distances(c, x, start, end, p)); });
  return c.out(c.b.index_select(c.b.cat(parts, 0), 0, c.in(bands.places())));
}

}  // namespace tandem
