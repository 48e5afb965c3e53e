// Products of vectors and matrices.
#include <tandem/ops/linalg.h>
#include <tandem/ops/reductions.h>

#include "runtime/linalg/checks.h"

namespace tandem {
namespace {

using ir::Op;
using runtime::Call;
using runtime::operand_of_rank;
using runtime::reject;
using runtime::V;

// --- sums with products

void require_fitting_scale(Call& c, V v, const Number& scale, std::string_view name) {
  const DType dtype = c.b.dtype(v);
  if (ir::is_integral(dtype) && scale.is_float())
    reject(Errc::Argument, "{} is floating; expected an integer beside integers, got {}", name,
           scale.to_double());
  (void)ir::checked_constant(ir::is_half(dtype) ? f32 : dtype, scale);
}

bool is_number(const Number& n, double value) { return n.to_double() == value; }

/// In the dtype of v.
V scaled(Call& c, V v, const Number& scale) {
  return is_number(scale, 1) ? v : c.b.convert(c.b.mul(v, scale), c.b.dtype(v));
}

/// beta * self + alpha * product.
V scaled_sum(Call& c, V self, V product, const ScaledSum& s) {
  require_fitting_scale(c, product, s.beta, "beta");
  require_fitting_scale(c, product, s.alpha, "alpha");
  const V wide = c.b.expand(self, c.b.sizes(product)), term = scaled(c, product, s.alpha);
  if (is_number(s.beta, 0)) return c.b.pointwise(Op::copy, {wide, term});
  return c.b.add(scaled(c, wide, s.beta), term);
}

/// With matrices, of which one call makes the plain sum.
V matrix_sum(Call& c, V self, V a, V b, const ScaledSum& s) {
  runtime::require_dtype_of(c, self, a, "mat1");
  if (is_number(s.beta, 1) && is_number(s.alpha, 1)) return c.b.addmm(self, a, b);
  return scaled_sum(c, self, c.b.mm(a, b), s);
}

struct Batches {
  V self, first, second;
};
Batches batches(Call& c, const Tensor& self, const Tensor& batch1, const Tensor& batch2) {
  const V v = c.in(self), a = operand_of_rank(c, batch1, 3, "batch1"),
          b = operand_of_rank(c, batch2, 3, "batch2");
  runtime::require_dtype_of(c, a, v, "batch1");
  runtime::require_dtype_of(c, b, v, "batch2");
  const Shape &m = c.b.sizes(a), &n = c.b.sizes(b);
  if (m[0] != n[0] || m[2] != n[1])
    reject(Errc::Shape,
           "sizes do not fit; expected batch1 [b, n, m] and batch2 [b, m, p], got {} "
           "and {}",
           to_string(m), to_string(n));
  return {v, a, b};
}

// --- vectors

V product_of_vectors(Call& c, const Tensor& self, const Tensor& other, const char* name) {
  const V a = operand_of_rank(c, self, 1, "self"), b = operand_of_rank(c, other, 1, name);
  runtime::require_dtype_of(c, b, a, name);
  if (c.b.numel(a) != c.b.numel(b))
    reject(Errc::Shape, "lengths differ; expected {} of the length of self, {}, got {}", name,
           int64_t{c.b.numel(a)}, int64_t{c.b.numel(b)});
  return c.b.matmul(a, b);
}

V outer_product(Call& c, const Tensor& self, const Tensor& vec2, const char* first) {
  const V a = operand_of_rank(c, self, 1, first), b = operand_of_rank(c, vec2, 1, "vec2");
  return c.b.mul(c.b.unsqueeze(a, 1), c.b.unsqueeze(b, 0));
}

V matrix_times_vector(Call& c, const Tensor& mat, const Tensor& vec, const char* name) {
  const V m = operand_of_rank(c, mat, 2, name), v = operand_of_rank(c, vec, 1, "vec");
  runtime::require_dtype_of(c, v, m, "vec");
  if (c.b.sizes(m)[1] != c.b.sizes(v)[0])
    reject(Errc::Shape,
           "sizes do not fit; expected a matrix [n, m] and a vector [m], got {} and {}",
           to_string(c.b.sizes(m)), to_string(c.b.sizes(v)));
  return c.b.matmul(m, v);
}

// --- cross products

/// Elements by, by + 1, ... of three along dim.
V turned(Call& c, V v, int dim, Dim by) {
  const V parts[] = {c.b.slice(v, dim, by, 3), c.b.slice(v, dim, 0, by)};
  return c.b.cat(parts, dim);
}

Tensor cross_along(Call& c, V self, V other, int64_t given) {
  if (c.b.rank(self) != c.b.rank(other))
    reject(Errc::Shape, "expected as many dimensions of both, got {} and {}",
           to_string(c.b.sizes(self)), to_string(c.b.sizes(other)));
  V both[] = {self, other};
  const auto [a, b] = [&] {
    const auto promoted = c.b.promote(both);
    return std::pair(promoted[0], promoted[1]);
  }();
  const int dim = c.b.wrap_dim(given, c.b.rank(a), "cross");
  if (c.b.sizes(self)[dim] != 3 || c.b.sizes(other)[dim] != 3)
    reject(Errc::Shape, "expected 3 elements along dimension {}, got {} and {}", dim,
           to_string(c.b.sizes(self)), to_string(c.b.sizes(other)));
  return c.out(c.b.sub(c.b.mul(turned(c, a, dim, 1), turned(c, b, dim, 2)),
                       c.b.mul(turned(c, a, dim, 2), turned(c, b, dim, 1))));
}

int64_t first_of_three(Call& c, V v) {
  const Shape& sizes = c.b.sizes(v);
  for (int d = 0; d < sizes.rank(); ++d)
    if (sizes[d] == 3) return d;
  reject(Errc::Shape, "expected a dimension of size 3, got {}", to_string(sizes));
}

}  // namespace

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const ScaledSum& scales,
             SourceLocation at) {
  Call c(at);
  const V v = c.in(self), a = operand_of_rank(c, mat1, 2, "mat1");
  return c.out(matrix_sum(c, v, a, operand_of_rank(c, mat2, 2, "mat2"), scales));
}

// The batch is a part of what is summed over.
Tensor addbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2,
              const ScaledSum& scales, SourceLocation at) {
  Call c(at);
  const auto [v, a, b] = batches(c, self, batch1, batch2);
  const Shape m = c.b.sizes(a), n = c.b.sizes(b);
  const V rows = c.b.reshape(c.b.permute(a, {1, 0, 2}), {m[1], m[0] * m[2]});
  return c.out(matrix_sum(c, v, rows, c.b.reshape(b, {n[0] * n[1], n[2]}), scales));
}
Tensor baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2,
               const ScaledSum& scales, SourceLocation at) {
  Call c(at);
  const auto [v, a, b] = batches(c, self, batch1, batch2);
  return c.out(scaled_sum(c, v, c.b.bmm(a, b), scales));
}
Tensor addmv(const Tensor& self, const Tensor& mat, const Tensor& vec, const ScaledSum& scales,
             SourceLocation at) {
  Call c(at);
  const V v = c.in(self), product = matrix_times_vector(c, mat, vec, "mat");
  runtime::require_dtype_of(c, product, v, "mat");
  return c.out(scaled_sum(c, v, product, scales));
}
Tensor addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const ScaledSum& scales,
            SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  return c.out(scaled_sum(c, v, outer_product(c, vec1, vec2, "vec1"), scales));
}

Tensor mv(const Tensor& self, const Tensor& vec, SourceLocation at) {
  Call c(at);
  return c.out(matrix_times_vector(c, self, vec, "self"));
}
Tensor dot(const Tensor& self, const Tensor& tensor, SourceLocation at) {
  Call c(at);
  return c.out(product_of_vectors(c, self, tensor, "tensor"));
}
Tensor vdot(const Tensor& self, const Tensor& other, SourceLocation at) {
  Call c(at);
  return c.out(product_of_vectors(c, self, other, "other"));
}
Tensor inner(const Tensor& self, const Tensor& other, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (self.dim() == 0 || other.dim() == 0) return mul(Located(self, at), Located(other, at));
  return tensordot(self, other, DimList{-1}, DimList{-1}, at);
}
Tensor outer(const Tensor& self, const Tensor& vec2, SourceLocation at) {
  Call c(at);
  return c.out(outer_product(c, self, vec2, "self"));
}
Tensor ger(const Tensor& self, const Tensor& vec2, SourceLocation at) {
  Call c(at);
  return c.out(outer_product(c, self, vec2, "self"));
}

// [a0, 1, a1, 1, ...] times [1, b0, 1, b1, ...]
Tensor kron(const Tensor& self, const Tensor& other, SourceLocation at) {
  Call c(at);
  const V a = c.in(self), b = c.in(other, "other");
  const Shape x = c.b.sizes(a), y = c.b.sizes(b);
  Shape first, second, result;
  for (int d = std::max(x.rank(), y.rank()); d > 0; --d) {
    const Dim n = d <= x.rank() ? x[x.rank() - d] : Dim(1),
              m = d <= y.rank() ? y[y.rank() - d] : Dim(1);
    first.push_back(n), first.push_back(1);
    second.push_back(1), second.push_back(m);
    result.push_back(n * m);
  }
  return c.out(c.b.reshape(c.b.mul(c.b.reshape(a, first), c.b.reshape(b, second)), result));
}

Tensor cross(const Tensor& self, const Tensor& other, std::optional<int64_t> dim,
             SourceLocation at) {
  Call c(at);
  const V a = c.in(self), b = c.in(other, "other");
  return cross_along(c, a, b, dim ? *dim : first_of_three(c, a));
}
Tensor linalg::cross(const Tensor& self, const Tensor& other, int64_t dim, SourceLocation at) {
  Call c(at);
  const V a = c.in(self);
  return cross_along(c, a, c.in(other, "other"), dim);
}
Tensor linalg::vecdot(const Tensor& x, const Tensor& y, int64_t dim, SourceLocation at) {
  Call c(at);
  const V a = c.in(x, "x"), product = c.b.mul(a, c.in(y, "y"));
  runtime::require_floating(c, product);
  const V sum = c.b.sum(product, {runtime::as_int(dim)});
  return c.out(c.b.convert(sum, c.b.dtype(product)));
}

// x1 @ weight as [..., out, m], then its rows times x2
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias,
                SourceLocation at) {
  Call c(at);
  const V a = c.in(x1, "x1"), b = c.in(x2, "x2"), w = operand_of_rank(c, weight, 3, "weight");
  const Shape s = c.b.sizes(a), t = c.b.sizes(b), n = c.b.sizes(w);
  bool fits = s.rank() >= 1 && s.rank() == t.rank() && s.back() == n[1] && t.back() == n[2];
  for (int d = 0; fits && d + 1 < s.rank(); ++d) fits = s[d] == t[d];
  if (!fits || (bias.defined() && bias.sizes() != Shape{n[0]}))
    reject(Errc::Shape,
           "sizes do not fit; expected x1 [..., n], x2 [..., m], weight [out, n, m] "
           "and bias [out], got {}, {}, {} and {}",
           to_string(s), to_string(t), to_string(n),
           bias.defined() ? to_string(bias.sizes()) : "none");
  Shape batch = s;
  batch.erase(batch.rank() - 1);
  Shape result = batch;
  result.push_back(n[0]);
  const Dim count = ir::numel(batch);
  const V columns = c.b.reshape(c.b.permute(w, {1, 0, 2}), {n[1], n[0] * n[2]});
  const V rows = c.b.view(c.b.mm(c.b.reshape(a, {count, n[1]}), columns), {count, n[0], n[2]});
  const V products = c.b.bmm(rows, c.b.reshape(b, {count, n[2], 1}));
  const V y = c.b.view(products, result);
  return c.out(bias.defined() ? c.b.add(y, c.in(bias, "bias")) : y);
}

// --- powers of elements

namespace {
Tensor powers(const Tensor& x, Dim n, const SourceLocation& at) {
  const Tensor column = unsqueeze(x, -1, at);
  const DType dtype = ir::is_integral(x.dtype()) ? i64 : x.dtype();
  Shape first = x.sizes(), rest = x.sizes();
  first.push_back(std::min<Dim>(n, 1));
  rest.push_back(std::max<Dim>(n - 1, 0));
  return cat({ones(first, dtype, at), cumprod(expand(column, rest, at), -1, {}, at)}, -1, at);
}
}  // namespace

Tensor vander(const Tensor& x, std::optional<Dim> n, bool increasing, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (x.dim() != 1) reject(Errc::Shape, "expected a vector, got {}", to_string(x.sizes()));
  const Dim count = n.value_or(x.size(0));
  if (count < 0)
    reject(Errc::Argument, "n out of range; expected at least 0, got {}", int64_t{count});
  const Tensor ascending = powers(x, count, at);
  return increasing ? ascending : flip(ascending, {1}, at);
}
Tensor linalg::vander(const Tensor& x, std::optional<Dim> n, SourceLocation at) {
  const ir::ErrorScope errors(at);
  const Tensor values = x.dim() == 0 ? unsqueeze(x, 0, at) : x;
  const Dim count = n.value_or(values.size(-1));
  if (count <= 1)
    reject(Errc::Argument, "N out of range; expected at least 2, got {}", int64_t{count});
  return powers(values, count, at);
}

}  // namespace tandem
