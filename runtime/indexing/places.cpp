#include "runtime/indexing/places.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/indexing/positions.h"
#include "runtime/indexing/true_places.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {

bool is_mask(const Tensor& index) { return index.defined() && index.dtype() == boolean; }

std::vector<int> masked_dims(const Shape& self, const Tensor& mask, int first) {
  std::vector<int> dims;
  bool fits = mask.dim() > 0 && first + mask.dim() <= self.rank();
  for (int d = 0; fits && d < mask.dim(); ++d) {
    dims.push_back(first + d);
    fits = mask.sizes()[d] == self[first + d];
  }
  if (!fits)
    ir::fail(Errc::Shape, fmt::format("index: the mask does not fit; expected the sizes of one or "
                                      "more dimensions of {} from {} on, got {}",
                                      to_string(self), first, to_string(mask.sizes())));
  return dims;
}

std::vector<Tensor> without_masks(const Shape& self, const std::vector<Tensor>& tensors) {
  std::vector<Tensor> positions;
  for (const Tensor& t : tensors) {
    if (!is_mask(t)) {
      positions.push_back(t);
      continue;
    }
    masked_dims(self, t, static_cast<int>(positions.size()));
    if (Trace::current() != nullptr)
      ir::fail(Errc::Trace,
               "index: a mask chooses elements whose number depends on data, which a trace cannot "
               "hold; expected where or masked_fill in its place, or the positions that "
               "nonzero_static finds, of a given number; got a mask inside a trace");
    std::ranges::copy(true_positions(t), std::back_inserter(positions));
  }
  return positions;
}

std::vector<int> indexed_dims(const std::vector<Tensor>& indices) {
  std::vector<int> dims;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    if (indices[d].dtype() != i64 && indices[d].dtype() != i32)
      ir::fail(
          Errc::DType,
          fmt::format("{}: an index is not an integer; expected i64, i32 or a mask of bool, got {}",
                      ir::ErrorScope::function(), ir::name(indices[d].dtype())));
    dims.push_back(static_cast<int>(d));
  }
  return dims;
}

Shape common_sizes(Call& c, const std::vector<Tensor>& indices, const std::vector<int>& dims) {
  Shape sizes;
  for (int d : dims)
    sizes =
        c.b.broadcast(sizes, indices[static_cast<size_t>(d)].sizes(), ir::ErrorScope::function());
  return sizes;
}

std::vector<Dim> steps_along(const std::vector<int>& counted, const Shape& self) {
  std::vector<Dim> steps(static_cast<size_t>(self.rank()));
  Dim step = 1;
  for (size_t k = counted.size(); k-- > 0; step *= self[counted[k]])
    steps[static_cast<size_t>(counted[k])] = step;
  return steps;
}

namespace {

/// `index` [n], which lies in a dim of `size`, times `step`. A table refuses what lies outside: of
/// all places, or if these are many of one zero that is seen as many.
V places_along(Call& c, V index, Dim size, Dim step) {
  constexpr int64_t kMany = 4096;
  if (size < kMany) return c.b.index_select(c.b.iota(size, i64, 0, int64_t{step}), 0, index);
  const V zeros = c.b.expand(c.b.full({}, i64, Number(0)), {size});
  const V wide = c.b.convert(index, i64);
  const V place = step == 1 ? wide : c.b.mul(wide, Number(int64_t{step}));
  return c.b.add(place, c.b.index_select(zeros, 0, index));
}

}  // namespace

V places(Call& c, V self, const std::vector<Tensor>& indices, const std::vector<int>& dims,
         const std::vector<Dim>& steps) {
  const Shape sizes = c.b.sizes(self), positions = common_sizes(c, indices, dims);
  if (dims.size() == 1) {
    const V only = c.in(indices[static_cast<size_t>(dims[0])], "index");
    return c.b.reshape(wrapped(c, only, sizes[dims[0]]), {ir::numel(positions)});
  }
  V sum{};
  for (size_t k = dims.size(); k-- > 0;) {
    const auto d = static_cast<size_t>(dims[k]);
    const Dim size = sizes[dims[k]];
    const V flat = c.b.reshape(wrapped(c, c.in(indices[d], "index"), size), {indices[d].numel()});
    const V found = c.b.view(places_along(c, flat, size, steps[d]), indices[d].sizes());
    const V here = c.b.expand(found, positions);
    sum = sum.valid() ? c.b.add(sum, here) : here;
  }
  return c.b.reshape(sum, {ir::numel(positions)});
}

bool are_adjacent(const std::vector<int>& dims) {
  return dims.back() - dims.front() + 1 == static_cast<int>(dims.size());
}

}  // namespace tandem::runtime
