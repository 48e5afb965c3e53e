// Views and view inverses by view, permute, slice and slice_scatter. Below the Traced level they
// are values like any other.
#include <numeric>

#include "decomps/rules/rules.h"

namespace tandem::decomps::rules {

V select(Context& c) {
  const Dim index = c.attr<Dim>(Attr::index);
  const int dim = static_cast<int>(c.attr<int64_t>(Attr::dim));
  return c.b.view(c.b.slice(c[0], dim, index, index + 1), c.result().sizes);
}

V squeeze(Context& c) { return c.b.view(c[0], c.result().sizes); }
V unsqueeze(Context& c) { return c.b.view(c[0], c.result().sizes); }

V transpose(Context& c) {
  ir::Axes dims(static_cast<size_t>(c.b.rank(c[0])));
  std::iota(dims.begin(), dims.end(), int64_t{0});
  const auto at = [&](Attr a) -> ir::Axis& {
    return dims[static_cast<size_t>(c.attr<int64_t>(a))];
  };
  if (!dims.empty()) std::swap(at(Attr::dim0), at(Attr::dim1));
  return c.b.permute(c[0], dims);
}

V alias(Context& c) { return c[0]; }
V detach(Context& c) { return c.b.stop_gradient(c[0]); }

V unfold(Context& c) {
  const int dim = static_cast<int>(c.attr<int64_t>(Attr::dim));
  ir::Strides strides = ir::contiguous_strides(c.b.sizes(c[0]));
  const Dim inside = strides[dim];
  strides[dim] *= c.attr<Dim>(Attr::step);
  strides.push_back(inside);
  return c.b.as_strided(c[0], c.result().sizes, strides, 0);
}

namespace {

/// `v` (integers of `wide` bytes) as integers of `narrow` bytes: [.., n] -> [.., n * wide /
/// narrow]. Element k of a group is what a shift by its bits leaves of the low end.
V split_integers(Builder& b, V v, int64_t wide, int64_t narrow, const Shape& sizes) {
  Shape parts = b.sizes(v);
  parts.push_back(wide / narrow);
  const V shifts = b.iota(wide / narrow, b.dtype(v), 0, 8 * narrow);
  const V shifted = b.shift_right(b.unsqueeze(v, b.rank(v)), shifts);
  return b.reshape(b.convert(b.expand(shifted, parts), ir::integer_of(narrow)), sizes);
}

/// The inverse: the bits of a group's elements, each at its place, are disjoint and so add up.
V join_integers(Builder& b, V v, int64_t narrow, int64_t wide, const Shape& sizes) {
  Shape parts = sizes;
  parts.push_back(wide / narrow);
  const V low = b.full({}, DType::I64, (int64_t{1} << (8 * narrow)) - 1);
  const V bits = b.bitwise_and(b.convert(b.reshape(v, parts), DType::I64), low);
  const V placed = b.shift_left(bits, b.iota(wide / narrow, DType::I64, 0, 8 * narrow));
  return b.convert(b.sum(placed, {Dim(parts.rank() - 1)}), ir::integer_of(wide));
}

}  // namespace

V view_dtype(Context& c) {
  const int64_t from = ir::size_of(c.b.dtype(c[0])), to = ir::size_of(c.result().dtype);
  if (from == to) return c.b.bitcast(c[0], c.result().dtype);
  const V bits = c.b.bitcast(c[0], ir::integer_of(from));
  const V moved = from > to ? split_integers(c.b, bits, from, to, c.result().sizes)
                            : join_integers(c.b, bits, from, to, c.result().sizes);
  return c.b.bitcast(moved, c.result().dtype);
}

// --- views as values
namespace {

/// Other sizes than strides allow are a copy already.
template <Op op>
V copy_of_view(Context& c) {
  const V viewed =
      op == Op::view ? c.b.reshape(c[0], c.result().sizes) : V(c.b.emit(op, c.operands, c.attrs));
  return c.b.clone(viewed);
}

}  // namespace
#define VIEW(op) \
  V op##_copy(Context& c) { return copy_of_view<Op::op>(c); }
#include "ir/view_ops.def"

V select_scatter(Context& c) {
  const Dim index = c.attr<Dim>(Attr::index);
  const int dim = static_cast<int>(c.attr<int64_t>(Attr::dim));
  Shape sizes = c.b.sizes(c[1]);
  sizes.insert(dim, 1);
  return c.b.slice_scatter(c[0], c.b.reshape(c[1], sizes), dim, index, index + 1, 1);
}

}  // namespace tandem::decomps::rules
