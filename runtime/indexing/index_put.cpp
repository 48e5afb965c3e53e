// self is seen as [before..., places, after...], with one dim in place of all from the first
// indexed one to the last. Dims between those are written as wholes at each position, so that no
// dim leaves its place.
#include "runtime/indexing/index_put.h"

#include <fmt/format.h>
#include <tandem/ops.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "ir/base/error.h"
#include "runtime/indexing/places.h"
#include "runtime/indexing/positions.h"

namespace tandem::runtime {
namespace {

/// The dims that the places stand for, as they lie in memory of these strides.
std::vector<int> dims_within(const std::vector<int>& dims, const Strides& strides) {
  std::vector<int> within(static_cast<size_t>(dims.back() - dims.front() + 1));
  std::iota(within.begin(), within.end(), dims.front());
  std::ranges::stable_sort(within, std::greater(), [&](int d) { return int64_t{strides[d]}; });
  return within;
}

/// All dims, with those from `first` on as they stand in `within`.
ir::Axes all_dims(int rank, int first, const std::vector<int>& within) {
  ir::Axes all;
  for (int d = 0; d < rank; ++d) all.push_back(d);
  std::ranges::copy(within, all.begin() + first);
  return all;
}

Shape seen_by_places(const Shape& self, const std::vector<int>& dims) {
  Shape seen;
  for (int d = 0; d < self.rank(); ++d)
    if (d > dims.front() && d <= dims.back())
      seen.back() *= self[d];
    else
      seen.push_back(self[d]);
  return seen;
}

/// All places that the positions name, those of one position side by side: [n].
V written_places(Call& c, V self, const std::vector<Tensor>& indices, const std::vector<int>& dims,
                 const std::vector<int>& within) {
  const Shape sizes = c.b.sizes(self);
  const std::vector<Dim> steps = steps_along(within, sizes);
  V index = places(c, self, indices, dims, steps);
  for (int d = dims.front(); d <= dims.back(); ++d) {
    if (std::ranges::count(dims, d) != 0) continue;
    const V along_it = c.b.iota(sizes[d], i64, 0, int64_t{steps[static_cast<size_t>(d)]});
    const V each = c.b.add(c.b.unsqueeze(index, 1), along_it);
    index = c.b.reshape(each, {c.b.numel(each)});
  }
  return index;
}

/// `values` broadcast to what self[indices] is, as `part` [before..., n, after...]. The positions
/// stand where the indexed dims stood if those are next to each other, else in front.
V rows_of(Call& c, V values, const Shape& self, const Shape& positions,
          const std::vector<int>& dims, const Shape& part) {
  const int before = dims.front(), front = are_adjacent(dims) ? before : 0;
  Shape sizes;
  for (int d = 0; d < self.rank(); ++d)
    if (std::ranges::count(dims, d) == 0) sizes.push_back(self[d]);
  for (int k = 0; k < positions.rank(); ++k) sizes.insert(front + k, positions[k]);
  const int moved = before - front, count = positions.rank();  // dims that go in front of positions
  ir::Axes order;
  for (int d = 0; d < sizes.rank(); ++d)
    order.push_back(d < front || d >= before + count ? d : d < before ? d + count : d - moved);
  return c.b.reshape(c.b.permute(c.b.expand(values, sizes), order), part);
}

/// `strides`: those of self, or of how it is to be seen.
Scattered index_put(Call& c, V self, const Strides& strides, const std::vector<Tensor>& indices,
                    V values, bool accumulate) {
  const std::vector<int> dims = indexed_dims(indices);
  const Shape sizes = c.b.sizes(self), positions = common_sizes(c, indices, dims);
  const std::vector<int> within = dims_within(dims, strides);
  const V index = written_places(c, self, indices, dims, within);
  const Shape seen = seen_by_places(sizes, dims);
  Shape part = seen;
  part[dims.front()] = c.b.numel(index);
  return {.op = accumulate ? ir::Op::index_add : ir::Op::scatter,
          .order = all_dims(sizes.rank(), dims.front(), within),
          .seen = seen,
          .dim = dims.front(),
          .index = accumulate ? index : along(c, index, part, dims.front()),
          .src = rows_of(c, values, sizes, positions, dims, part)};
}

// --- index_put by a mask: a row of values for each true element, or one for all

/// For each place the row of values that is written there, zeros where none is. Every place is out
/// of range if there are not as many rows along `dim` as true elements.
V rows_by_count(Call& c, V rows, int dim, V mask) {
  const Dim given = c.b.sizes(rows)[dim], places = c.b.numel(mask);
  if (places == 0 && given > 0)
    ir::fail(Errc::Index, fmt::format("index_put: a mask without elements; expected no rows of "
                                      "values, got {}",
                                      int64_t{given}));
  if (places == 0) return rows;
  std::vector<Dim> one_more(2 * static_cast<size_t>(c.b.rank(rows)));
  one_more[2 * static_cast<size_t>(dim) + 1] = 1;
  const V table = c.b.pad(rows, one_more, Number(0)), count = counts(c, mask);
  const V total = c.b.slice(count, 0, places - 1, places, 1);
  const Number past(int64_t{given});
  const V number = c.b.where(c.b.reshape(mask, {places}), c.b.sub(count, Number(1)), past);
  const V fits = c.b.eq(total, past);
  return c.b.index_select(table, dim, c.b.where(fits, number, Number(int64_t{given} + 1)));
}

/// A mask, its dims of self, and where it is true of all of self.
struct Masked {
  Masked(Call& c, const Shape& self, const std::vector<Tensor>& indices) {
    const auto given = std::ranges::find_if(indices, is_mask);
    dims = masked_dims(self, *given, static_cast<int>(given - indices.begin()));
    mask = c.in(*given, "mask");
    Shape shown = Shape::filled(self.rank(), 1);
    for (int d : dims) shown[d] = self[d];
    everywhere = c.b.expand(c.b.view(mask, shown), self);
  }
  std::vector<int> dims;
  V mask, everywhere;
};

/// Whether a mask is the only index. (Beside others it is as many positions as are true.)
bool is_one_mask(const std::vector<Tensor>& tensors) {
  const auto is_given = [](const Tensor& t) { return t.defined(); };
  return std::ranges::count_if(tensors, is_given) == 1 && std::ranges::any_of(tensors, is_mask);
}

V masked_put(Call& c, V self, const Masked& masked, V values, bool accumulate) {
  const Shape sizes = c.b.sizes(self), seen = seen_by_places(sizes, masked.dims);
  const int first = masked.dims.front(), after = sizes.rank() - masked.dims.back() - 1,
            axis = c.b.rank(values) - after - 1;
  const Dim given = axis < 0 ? Dim(1) : c.b.sizes(values)[axis];
  Shape part = seen;
  part[first] = given;
  const V rows = rows_of(c, values, sizes, {given}, masked.dims, part);
  const V chosen = given == 1 ? c.b.expand(rows, seen) : rows_by_count(c, rows, first, masked.mask);
  const V all = c.b.reshape(chosen, sizes);
  return c.b.where(masked.everywhere, accumulate ? c.b.add(self, all) : all, self);
}

/// What index_put writes, in self's dtype.
V values_for(Call& c, const Tensor& self, const Located& values) {
  const V from = values.tensor != nullptr ? c.in(*values.tensor, "values")
                                          : c.written(values.number, self.dtype());
  if (c.b.dtype(from) != self.dtype())
    ir::fail(Errc::DType,
             fmt::format("index_put: the values' dtype differs from self's; expected {}, got {}",
                         ir::name(self.dtype()), ir::name(c.b.dtype(from))));
  return from;
}

}  // namespace

Tensor put(const Tensor& self, const std::vector<Tensor>& tensors, const Located& values,
           bool accumulate) {
  Call c(values.location, "index_put");
  const V v = c.in(self), from = values_for(c, self, values);
  const Shape sizes = self.sizes();
  const V written = is_one_mask(tensors)
                        ? masked_put(c, v, Masked(c, sizes, tensors), from, accumulate)
                        : index_put(c, v, ir::contiguous_strides(sizes),
                                    without_masks(sizes, tensors), from, accumulate)
                              .over(c, v);
  return laid_out_like(c.out(written), self, values.location);
}

void put_into(const Tensor& self, const std::vector<Tensor>& tensors, const Located& values,
              bool accumulate) {
  Call c(values.location, "index_put", true);
  const V v = c.in(self), from = values_for(c, self, values);
  if (!is_one_mask(tensors))
    return index_put(c, v, self.strides(), without_masks(self.sizes(), tensors), from, accumulate)
        .write(c, v);
  const Masked masked(c, self.sizes(), tensors);
  if (c.b.rank(from) == 0 && !accumulate)
    return c.b.pointwise_in_place(ir::Op::masked_fill, {v, masked.everywhere, from});
  c.b.pointwise_in_place(ir::Op::copy, {v, masked_put(c, v, masked, from, accumulate)});
}

}  // namespace tandem::runtime
