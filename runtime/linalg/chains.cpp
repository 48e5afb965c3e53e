// Contractions over pairs of dimensions, and products of many matrices.
#include <tandem/ops/linalg.h>

#include <limits>

#include "runtime/linalg/checks.h"
#include "runtime/linalg/contraction.h"

namespace tandem {
namespace {

using runtime::Call;
using runtime::Labelled;
using runtime::Labels;
using runtime::reject;
using runtime::V;

// --- tensordot

/// Where one has size 1, the other's elements are summed first.
void sum_broadcast(Call& c, V& x, V& y, const ir::Axes& dims_x, const ir::Axes& dims_y) {
  ir::Axes ones_x, ones_y;
  for (size_t i = 0; i < dims_x.size(); ++i) {
    const Dim n = c.b.sizes(x)[static_cast<int>(dims_x[i])],
              m = c.b.sizes(y)[static_cast<int>(dims_y[i])];
    if (n == m) continue;
    if (n != 1 && m != 1)
      reject(Errc::Shape,
             "summed dimensions differ; expected equal sizes or 1, got {} of {} and "
             "{} of {}",
             int64_t{n}, to_string(c.b.sizes(x)), int64_t{m}, to_string(c.b.sizes(y)));
    (n == 1 ? ones_y : ones_x).push_back(n == 1 ? dims_y[i] : dims_x[i]);
  }
  const DType dtype = c.b.dtype(x);
  if (!ones_x.empty()) x = c.b.convert(c.b.sum(x, ones_x, true), dtype);
  if (!ones_y.empty()) y = c.b.convert(c.b.sum(y, ones_y, true), dtype);
}

Tensor tensordot_over(Call& c, const Tensor& self, const Tensor& other, const ir::Axes& given_self,
                      const ir::Axes& given_other) {
  V x = c.in(self), y = c.in(other, "other");
  runtime::require_dtype_of(c, y, x, "other");
  if (given_self.size() != given_other.size())
    reject(Errc::Argument, "expected as many dimensions of both, got {} and {}", given_self.size(),
           given_other.size());
  const ir::Axes dims_x = c.b.wrap_dims(given_self, c.b.rank(x), "tensordot"),
                 dims_y = c.b.wrap_dims(given_other, c.b.rank(y), "tensordot");
  sum_broadcast(c, x, y, dims_x, dims_y);
  Labelled a{x, {}}, b{y, {}};
  Labels kept;
  for (int d = 0; d < c.b.rank(x); ++d) a.dims.push_back(d);
  for (int d = 0; d < c.b.rank(y); ++d) b.dims.push_back(c.b.rank(x) + d);
  for (int d = 0; d < c.b.rank(x) + c.b.rank(y); ++d) kept.set(static_cast<size_t>(d));
  for (size_t i = 0; i < dims_x.size(); ++i) {
    b.dims[static_cast<size_t>(dims_y[i])] = static_cast<int>(dims_x[i]);
    kept.reset(static_cast<size_t>(dims_x[i]));
  }
  return c.out(runtime::contracted(c, a, b, kept).value);
}

// --- chains

/// Where to cut each part [i, j] of a chain of matrices [n[i], n[i + 1]].
std::vector<std::vector<size_t>> cuts_of(const std::vector<double>& n) {
  const size_t count = n.size() - 1;
  std::vector<std::vector<double>> least(count, std::vector<double>(count, 0));
  std::vector<std::vector<size_t>> cuts(count, std::vector<size_t>(count, 0));
  for (size_t length = 1; length < count; ++length)
    for (size_t i = 0; i + length < count; ++i) {
      const size_t j = i + length;
      least[i][j] = std::numeric_limits<double>::infinity();
      for (size_t cut = i; cut < j; ++cut) {
        const double cost = least[i][cut] + least[cut + 1][j] + n[i] * n[cut + 1] * n[j + 1];
        if (cost < least[i][j]) least[i][j] = cost, cuts[i][j] = cut;
      }
    }
  return cuts;
}

V product(Call& c, const std::vector<V>& matrices) {
  std::vector<double> sizes;
  for (const V m : matrices) sizes.push_back(static_cast<double>(int64_t{c.b.sizes(m)[0]}));
  sizes.push_back(static_cast<double>(int64_t{c.b.sizes(matrices.back())[1]}));
  const auto cuts = cuts_of(sizes);
  const auto made = [&](const auto& self, size_t i, size_t j) -> V {
    if (i == j) return matrices[i];
    const V left = self(self, i, cuts[i][j]);
    return c.b.mm(left, self(self, cuts[i][j] + 1, j));
  };
  return made(made, 0, matrices.size() - 1);
}

std::vector<V> matrices_of(Call& c, const std::vector<Tensor>& tensors, bool vectors_at_ends) {
  std::vector<V> matrices;
  for (size_t i = 0; i < tensors.size(); ++i) {
    V m = c.in(tensors[i], "a matrix");
    const bool is_end = i == 0 || i + 1 == tensors.size();
    if (vectors_at_ends && is_end && c.b.rank(m) == 1) m = c.b.unsqueeze(m, i == 0 ? 0 : 1);
    if (c.b.rank(m) != 2)
      reject(Errc::Shape, "operand {} is no matrix; expected 2 dimensions, got {}", i,
             to_string(c.b.sizes(m)));
    if (i > 0 && c.b.sizes(matrices.back())[1] != c.b.sizes(m)[0])
      reject(Errc::Shape, "operand {} does not fit; expected {} rows, got {}", i,
             int64_t{c.b.sizes(matrices.back())[1]}, to_string(c.b.sizes(m)));
    matrices.push_back(m);
    runtime::require_dtype_of(c, m, matrices[0], fmt::format("operand {}", i));
  }
  return matrices;
}

}  // namespace

Tensor tensordot(const Tensor& self, const Tensor& other, int64_t dims, SourceLocation at) {
  Call c(at);
  if (dims < 0 || dims > self.dim() || dims > other.dim())
    reject(Errc::Argument, "dims out of range; expected 0 to {}, got {}",
           std::min(self.dim(), other.dim()), dims);
  ir::Axes last, first;
  for (int64_t d = 0; d < dims; ++d) last.push_back(self.dim() - dims + d), first.push_back(d);
  return tensordot_over(c, self, other, last, first);
}
Tensor tensordot(const Tensor& self, const Tensor& other, const DimList& dims_self,
                 const DimList& dims_other, SourceLocation at) {
  Call c(at);
  return tensordot_over(c, self, other, dims_self.dims, dims_other.dims);
}

Tensor chain_matmul(const std::vector<Tensor>& matrices, SourceLocation at) {
  Call c(at);
  if (matrices.empty()) reject(Errc::Argument, "no matrices; expected at least one, got none");
  return c.out(product(c, matrices_of(c, matrices, false)));
}

Tensor linalg::multi_dot(const std::vector<Tensor>& tensors, SourceLocation at) {
  Call c(at);
  if (tensors.size() < 2)
    reject(Errc::Argument, "too few tensors; expected at least 2, got {}", tensors.size());
  const V result = product(c, matrices_of(c, tensors, true));
  Shape sizes = c.b.sizes(result);
  if (tensors.back().dim() == 1) sizes.erase(1);
  if (tensors.front().dim() == 1) sizes.erase(0);
  return c.out(c.b.view(result, sizes));
}

}  // namespace tandem
