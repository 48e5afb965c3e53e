// Products and selections of vectors, positions in shapes.
#include <fmt/format.h>
#include <tandem/indexing.h>
#include <tandem/ops/shapes.h>

#include <cstring>

#include "runtime/ops/call.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem {
namespace {

using ir::ErrorScope;

void require_vectors(std::span<const Tensor> tensors) {
  if (tensors.empty())
    ir::fail(Errc::Argument, ErrorScope::function() + ": expected at least one tensor, got none");
  for (const Tensor& t : tensors)
    if (t.dim() != 1 || t.dtype() != tensors[0].dtype())
      ir::fail(Errc::Shape,
               fmt::format("{}: expected vectors of one dtype, got {} {}", ErrorScope::function(),
                           ir::name(t.dtype()), to_string(t.sizes())));
}

/// The next of the ascending choices of r numbers below n in lexicographic order; false if there
/// is none.
bool advance(std::vector<int64_t>& choice, int64_t n, bool with_replacement) {
  const auto r = static_cast<int64_t>(choice.size());
  for (int64_t i = r; i-- > 0;) {
    const int64_t most = with_replacement ? n - 1 : n - r + i;
    if (choice[static_cast<size_t>(i)] >= most) continue;
    const int64_t next = ++choice[static_cast<size_t>(i)];
    for (int64_t k = i + 1; k < r; ++k)
      choice[static_cast<size_t>(k)] = with_replacement ? next : next + k - i;
    return true;
  }
  return false;
}

std::vector<int64_t> choices(int64_t n, int64_t r, bool with_replacement) {
  std::vector<int64_t> all;
  if (n == 0 || (r > n && !with_replacement)) return all;
  std::vector<int64_t> choice(static_cast<size_t>(r));
  for (int64_t i = 0; i < r && !with_replacement; ++i) choice[static_cast<size_t>(i)] = i;
  do all.insert(all.end(), choice.begin(), choice.end());
  while (advance(choice, n, with_replacement));
  return all;
}

}  // namespace

Tensor cartesian_prod(std::span<const Tensor> tensors, SourceLocation at) {
  const ErrorScope errors(at);
  require_vectors(tensors);
  if (tensors.size() == 1) return tensors[0];
  std::vector<Tensor> columns = meshgrid(tensors, "ij", at);
  for (Tensor& column : columns) column = reshape(column, {-1}, at);
  return stack(columns, 1, at);
}
Tensor cartesian_prod(std::initializer_list<Tensor> tensors, SourceLocation at) {
  return cartesian_prod(std::span(tensors.begin(), tensors.size()), at);
}

Tensor combinations(const Tensor& self, int64_t r, bool with_replacement, SourceLocation at) {
  const ErrorScope errors(at);
  require_vectors({&self, 1});
  if (r < 0)
    ir::fail(Errc::Argument, fmt::format("combinations: expected r of at least 0, got {}", r));
  if (r == 0) return empty({0}, self.dtype(), at);
  const std::vector<int64_t> all = choices(int64_t{self.numel()}, r, with_replacement);
  const auto count = static_cast<int64_t>(all.size());
  const Tensor places = runtime::empty_tensor({count}, i64);
  if (count > 0) std::memcpy(places.impl()->data(), all.data(), all.size() * sizeof(int64_t));
  return view(index_select(self, 0, places, at), {count / r, r}, at);
}

std::vector<Tensor> unravel_index(const Tensor& indices, const Shape& shape, SourceLocation at) {
  const ErrorScope errors(at);
  if (!ir::is_integral(indices.dtype()) || indices.dtype() == boolean)
    ir::fail(Errc::DType,
             fmt::format("unravel_index: expected integers, got {}", ir::name(indices.dtype())));
  std::vector<Tensor> places(static_cast<size_t>(shape.rank()));
  const Tensor wide = to(indices, i64, at);
  int64_t stride = 1;
  for (int d = shape.rank(); d-- > 0; stride *= shape[d]) {
    if (shape[d] < 0)
      ir::fail(Errc::Argument, fmt::format("unravel_index: expected sizes of at least 0, got {}",
                                           to_string(shape)));
    const Tensor lines = floor_divide(Located(wide, at), Located(stride, at));
    places[static_cast<size_t>(d)] = remainder(Located(lines, at), Located(int64_t{shape[d]}, at));
  }
  return places;
}

Shape broadcast_shapes(const std::vector<Shape>& shapes, SourceLocation at) {
  runtime::Call c(at);
  Shape all;
  for (const Shape& sizes : shapes) all = c.b.broadcast(all, sizes, "broadcast_shapes");
  return all;
}

}  // namespace tandem
