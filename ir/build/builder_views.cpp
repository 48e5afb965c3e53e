// Builder: views, shapes and index ops. What changes nothing returns its operand.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ir/base/error.h"
#include "ir/build/builder.h"

namespace tandem::ir {
namespace {

using V = ValueId;

Axes sorted(Axes dims) {
  std::ranges::sort(dims);
  return dims;
}

/// `sizes` with its -1 replaced by what is left of `count` elements.
Shape complete_sizes(const Shape& sizes, Dim count, std::string_view op) {
  Shape out = sizes;
  const auto unknown = std::ranges::find(out, Dim(-1));
  if (unknown == out.end()) return out;
  *unknown = 1;
  const Dim known = numel(out);
  if (std::ranges::count(out, Dim(-1)) || known == 0 || count % known != 0)
    fail(Errc::Shape,
         fmt::format("{}: the size -1 can't be inferred; expected one -1 and sizes that "
                     "divide {} elements, got {}",
                     op, int64_t{count}, to_string(sizes)));
  *unknown = count / known;
  return out;
}

/// Python's meaning of a slice bound: negative counts from the end, then clamped to [low, size].
Dim clamp_bound(Dim bound, Dim low, Dim size) {
  if (bound < 0) bound += size;
  return std::clamp<int64_t>(bound, low, size);
}

struct Range {
  Dim start, end;
};

Range clamp_range(std::optional<Dim> start, std::optional<Dim> end, Dim size) {
  const Dim from = clamp_bound(start.value_or(0), 0, size);
  return {from, clamp_bound(end.value_or(size), from, size)};
}

/// A step past the end is as good as any other: one so long that strides would not be within 64
/// bits is shortened.
Dim step_within(Dim step, Dim size) {
  constexpr int64_t kLongest = std::numeric_limits<int32_t>::max();
  return std::min<int64_t>(step, std::max<int64_t>(size, kLongest));
}

Dim wrap_index(Dim index, Dim size, std::string_view op) {
  if (index < -size || index >= size)
    fail(Errc::Index, fmt::format("{}: index out of range; expected {} <= index < {}, got {}", op,
                                  -size, int64_t{size}, int64_t{index}));
  return index < 0 ? index + size : index;
}

}  // namespace

V Builder::view(V self, const Shape& new_sizes) {
  const Shape completed = complete_sizes(new_sizes, numel(self), "view");
  if (completed == sizes(self)) return self;
  return emit(Op::view, {self}, {completed});
}

V Builder::reshape(V self, const Shape& new_sizes) {
  const Shape completed = complete_sizes(new_sizes, numel(self), "reshape");
  if (completed == sizes(self)) return self;
  return view(sink_.can_view(self, completed) ? self : clone(self), completed);
}

V Builder::permute(V self, std::span<const Axis> dims) {
  const Axes order = wrap_dims(dims, rank(self), "permute");
  const bool identity =
      static_cast<int>(order.size()) == rank(self) && std::ranges::is_sorted(order);
  return identity ? self : emit(Op::permute, {self}, {order});
}

V Builder::transpose(V self, int dim0, int dim1) {
  const int64_t a = wrap_dim(dim0, dims_of(self), "transpose");
  const int64_t b = wrap_dim(dim1, dims_of(self), "transpose");
  return a == b ? self : emit(Op::transpose, {self}, {a, b});
}

V Builder::expand(V self, const Shape& new_sizes) {
  const Shape& from = sizes(self);
  const int added = new_sizes.rank() - from.rank();
  Shape explicit_sizes = new_sizes;
  for (int d = std::max(added, 0); d < new_sizes.rank(); ++d)
    if (new_sizes[d] == -1) explicit_sizes[d] = from[d - added];
  if (explicit_sizes == from) return self;
  return emit(Op::expand, {self}, {explicit_sizes});
}

V Builder::slice(V self, int dim, std::optional<Dim> start, std::optional<Dim> end, Dim step) {
  const int64_t d = wrap_dim(dim, rank(self), "slice");
  const Dim size = sizes(self)[static_cast<int>(d)];
  const Range range = clamp_range(start, end, size);
  if (range.start == 0 && range.end == size && step == 1) return self;
  return emit(Op::slice, {self}, {d, range.start, range.end, step_within(step, size)});
}

V Builder::select(V self, int dim, Dim index) {
  const int d = wrap_dim(dim, rank(self), "select");
  return emit(Op::select, {self}, {int64_t{d}, wrap_index(index, sizes(self)[d], "select")});
}

V Builder::squeeze(V self, std::span<const Axis> dims) {
  const Shape from = sizes(self);
  Axes removed;
  for (Axis d : sorted(wrap_dims(dims, dims_of(self), "squeeze")))
    if (!from.empty() && from[static_cast<int>(d)] == 1) removed.push_back(d);
  return removed.empty() ? self : emit(Op::squeeze, {self}, {removed});
}

V Builder::squeeze(V self) {
  Axes all;
  for (int d = 0; d < rank(self); ++d) all.push_back(d);
  return squeeze(self, all);
}

V Builder::unsqueeze(V self, int dim) {
  return emit(Op::unsqueeze, {self}, {int64_t{wrap_dim(dim, rank(self) + 1, "unsqueeze")}});
}

V Builder::flatten(V self, int start_dim, int end_dim) {
  const Shape from = sizes(self);
  if (from.empty()) return reshape(self, {1});
  const int first = wrap_dim(start_dim, from.rank(), "flatten");
  const int last = wrap_dim(end_dim, from.rank(), "flatten");
  if (first > last)
    fail(Errc::Argument,
         fmt::format("flatten: start_dim comes after end_dim; expected start_dim <= "
                     "end_dim, got {} and {}",
                     first, last));
  const std::span<const Dim> all(from.begin(), from.size());
  Shape to(all.first(first));
  to.push_back(ir::numel(Shape(all.subspan(first, last - first + 1))));
  for (Dim d : all.subspan(last + 1)) to.push_back(d);
  return reshape(self, to);
}

V Builder::diagonal(V self, Dim offset, int dim0, int dim1) {
  const int64_t a = wrap_dim(dim0, rank(self), "diagonal");
  const int64_t b = wrap_dim(dim1, rank(self), "diagonal");
  return emit(Op::diagonal, {self}, {offset, a, b});
}

V Builder::as_strided(V self, const Shape& new_sizes, const Strides& strides, Dim offset) {
  return emit(Op::as_strided, {self}, {new_sizes, strides, offset});
}

// A 0-d tensor has one window, which is the result's only dimension.
V Builder::unfold(V self, int dim, Dim length, Dim step) {
  if (rank(self) == 0) return select(unfold(view(self, {1}), dim, length, step), 0, 0);
  const int d = wrap_dim(dim, rank(self), "unfold");
  return emit(Op::unfold, {self}, {int64_t{d}, length, step_within(step, sizes(self)[d])});
}

V Builder::view_dtype(V self, DType dtype) {
  return this->dtype(self) == dtype ? self : emit(Op::view_dtype, {self}, {dtype});
}

V Builder::bitcast(V v, DType dtype) {
  return this->dtype(v) == dtype ? v : emit(Op::bitcast, {v}, {dtype});
}

V Builder::cat(std::span<const V> tensors, int dim) {
  if (tensors.empty()) fail(Errc::Argument, "cat: no tensors; expected at least one, got none");
  const DType common = result_type(tensors);
  // As in ATen, empty vectors fit beside tensors of any rank: as an empty part of their sizes.
  const auto is_filler = [&](V v) { return sizes(v) == Shape{0}; };
  const auto other = std::ranges::find_if_not(tensors, is_filler);
  Shape empty_part = other == tensors.end() ? Shape{0} : sizes(*other);
  const int64_t d = wrap_dim(dim, empty_part.rank(), "cat");
  if (other != tensors.end()) empty_part[static_cast<int>(d)] = 0;
  std::vector<V> joined;
  for (V v : tensors) {
    const V part = convert(v, common);
    joined.push_back(is_filler(v) ? view(part, empty_part) : part);
  }
  return joined.size() == 1 ? clone(joined[0]) : emit(Op::cat, joined, {d});
}

V Builder::stack(std::span<const V> tensors, int dim) {
  if (tensors.empty()) fail(Errc::Argument, "stack: no tensors; expected at least one, got none");
  const int d = wrap_dim(dim, rank(tensors[0]) + 1, "stack");
  std::vector<V> rows;
  for (V v : tensors) {
    if (sizes(v) != sizes(tensors[0]))
      fail(Errc::Shape, fmt::format("stack: sizes differ; expected equal sizes, got {} and {}",
                                    to_string(sizes(tensors[0])), to_string(sizes(v))));
    rows.push_back(unsqueeze(v, d));
  }
  return cat(rows, d);
}

V Builder::pad(V self, std::span<const Dim> padding, const Number& value) {
  Dims added(padding);
  if (static_cast<int>(added.size()) != 2 * rank(self))
    fail(Errc::Argument, fmt::format("pad: wrong number of paddings; expected {} (before and after "
                                     "each dimension), got {}",
                                     2 * rank(self), added.size()));
  const auto cut_by = [](Dim count) { return count < 0 ? checked_mul(count, -1, "pad") : Dim(0); };
  for (int d = 0; d < rank(self); ++d) {  // negative padding cuts
    const Dim size = sizes(self)[d], start = cut_by(added[2 * d]), cut = cut_by(added[2 * d + 1]);
    if (start > size || cut > size - start)
      fail(Errc::Shape,
           fmt::format("pad: cuts more than there is; expected at most {} in dimension "
                       "{}, got {} and {}",
                       int64_t{size}, d, int64_t{start}, int64_t{cut}));
    self = slice(self, d, start, size - cut);
  }
  for (Dim& count : added) count = std::max<int64_t>(count, 0);
  const bool changes = std::ranges::any_of(added, [](Dim count) { return count != 0; });
  return changes ? emit(Op::pad, {self}, {added, constant_of(dtype(self), value)}) : self;
}

V Builder::flip(V self, std::span<const Axis> dims) {
  const Axes flipped = sorted(wrap_dims(dims, dims_of(self), "flip"));
  return flipped.empty() || rank(self) == 0 ? self : emit(Op::flip, {self}, {flipped});
}

V Builder::slice_scatter(V self, V src, int dim, Dim start, Dim end, Dim step) {
  const int64_t d = wrap_dim(dim, rank(self), "slice_scatter");
  const Dim size = sizes(self)[static_cast<int>(d)];
  const Range range = clamp_range(start, end, size);
  return emit(Op::slice_scatter, {self, convert(src, dtype(self))},
              {d, range.start, range.end, step_within(step, size)});
}

V Builder::select_scatter(V self, V src, int dim, Dim index) {
  const int d = wrap_dim(dim, rank(self), "select_scatter");
  return emit(Op::select_scatter, {self, convert(src, dtype(self))},
              {int64_t{d}, wrap_index(index, sizes(self)[d], "select_scatter")});
}

V Builder::at_least_1d(V v) { return rank(v) > 0 ? v : view(v, {1}); }

V Builder::index_select(V self, int dim, V index) {
  index = at_least_1d(index);
  if (rank(self) > 0)
    return emit(Op::index_select, {self, index},
                {int64_t{wrap_dim(dim, rank(self), "index_select")}});
  if (numel(index) != 1)
    fail(Errc::Shape, fmt::format("index_select: index does not fit a 0-d self; expected one "
                                  "element, got {}",
                                  to_string(sizes(index))));
  return view(index_select(at_least_1d(self), dim, index), {});
}

V Builder::gather(V self, int dim, V index) {
  const Shape result = sizes(index);
  if (rank(self) < 2) self = at_least_1d(self), index = at_least_1d(index);
  const V gathered =
      emit(Op::gather, {self, index}, {int64_t{wrap_dim(dim, rank(self), "gather")}});
  return view(gathered, result);
}

namespace {

/// The operands of a write at positions, of one dimension at least.
ValueList scattered(Builder& b, Op op, V self, V index, V src) {
  if (op != Op::index_add) {
    if (b.rank(self) >= 2) return {self, index, src};
    return {b.at_least_1d(self), b.at_least_1d(index), b.at_least_1d(src)};
  }
  if (b.rank(self) == 0 && b.rank(src) != 0)
    fail(Errc::Shape, fmt::format("index_add: src does not fit; expected src [], got {}",
                                  to_string(b.sizes(src))));
  if (b.rank(self) == 0) src = b.at_least_1d(src);
  return {b.at_least_1d(self), b.at_least_1d(index), src};
}

}  // namespace

V Builder::scatter_into(Op op, V self, int dim, V index, V src) {
  const ValueList operands = scattered(*this, op, self, index, src);
  const int64_t d = wrap_dim(dim, rank(operands[0]), name(op));
  return view(emit(op, operands, {d}), sizes(self));
}

void Builder::scatter_in_place(Op op, V self, int dim, V index, V src) {
  const ValueList operands = scattered(*this, op, self, index, src);
  emit_in_place(op, operands, {int64_t{wrap_dim(dim, rank(operands[0]), name(op))}});
}

V Builder::index_add(V self, int dim, V index, V src) {
  return scatter_into(Op::index_add, self, dim, index, src);
}

V Builder::scatter_add(V self, int dim, V index, V src) {
  return scatter_into(Op::scatter_add, self, dim, index, src);
}

V Builder::scatter(V self, int dim, V index, V src) {
  return scatter_into(Op::scatter, self, dim, index, src);
}

V Builder::embedding(V weight, V indices) { return emit(Op::embedding, {weight, indices}); }

}  // namespace tandem::ir
