// Rules of views, their inverses and shape ops: each moves the gradient back to where the elements
// came from. Nothing but types is read.
#include "autodiff/rules.h"
#include "ir/strides.h"

namespace tandem::autodiff {
namespace {

using ir::Axes;
using ir::Dims;

/// `v` on the fresh storage that as_strided needs.
V as_strided(Args a, V v) {
  return a.b.emit(
      Op::as_strided, {a.b.clone(v)},
      {a.attr<Dims>(Attr::sizes), a.attr<Dims>(Attr::strides), a.attr<Dim>(Attr::offset)});
}

/// g placed at [start, ..) of dimension dim, zeros around it, in `sizes`.
V embed(Builder& b, V g, const Shape& sizes, int dim, Dim start) {
  Dims padding(2 * static_cast<size_t>(sizes.rank()));
  padding[2 * dim] = start;
  padding[2 * dim + 1] = sizes[dim] - start - b.sizes(g)[dim];
  return b.pad(g, padding, 0);
}

V as_operand(Args a) { return a.b.reshape(a.g, a.sizes()); }

V zeros(Args a, int operand) { return a.b.zeros_like(a.x(operand)); }

}  // namespace

const VjpRule vjp_view = rule(wrt<kNothing>([](Args a) { return as_operand(a); }));
const VjpRule vjp_permute = rule(
    wrt<kNothing>([](Args a) { return a.b.permute(a.g, ir::inverse(a.attr<Axes>(Attr::dims))); }));
const VjpRule vjp_expand = rule(wrt<kNothing>([](Args a) { return a.b.sum_to(a.g, a.sizes()); }));
const VjpRule vjp_slice = rule(wrt<kNothing>([](Args a) {
  const int dim = static_cast<int>(a.attr<int64_t>(Attr::dim));
  const Dim start = a.attr<Dim>(Attr::start), step = a.attr<Dim>(Attr::step);
  return step == 1 ? embed(a.b, a.g, a.sizes(), dim, start)
                   : a.b.slice_scatter(zeros(a, 0), a.g, dim, start, a.attr<Dim>(Attr::end), step);
}));
const VjpRule vjp_diagonal = rule(wrt<kNothing>([](Args a) {
  return a.b.emit(
      Op::diagonal_scatter, {zeros(a, 0), a.g},
      {a.attr<Dim>(Attr::offset), a.attr<int64_t>(Attr::dim0), a.attr<int64_t>(Attr::dim1)});
}));

namespace {

/// A view of the storage of a contiguous operand.
struct Strided {
  Shape sizes;
  ir::Strides strides;
  Dim offset;
};

/// For each element of the view, row-major, its position in the storage: [numel].
V strided_positions(Builder& b, const Strided& view) {
  V positions = b.full(view.sizes, ir::DType::I64, view.offset);
  for (int d = 0; d < view.sizes.rank(); ++d) {
    Shape along = Shape::filled(view.sizes.rank(), 1);
    along[d] = view.sizes[d];
    const V steps = b.iota(view.sizes[d], ir::DType::I64, 0, view.strides[d]);
    positions = b.add(positions, b.reshape(steps, along));
  }
  return b.reshape(positions, {ir::numel(view.sizes)});
}

/// The gradient of what `view` shows. Elements that it shows several times add up.
V from_strided(Args a, const Strided& view) {
  if (!ir::self_overlaps(view.sizes, view.strides))
    return a.b.emit(Op::as_strided_scatter, {zeros(a, 0), a.g},
                    {view.sizes, view.strides, view.offset});
  const V flat = a.b.full({ir::numel(a.sizes())}, a.b.dtype(a.g), 0);
  const V grads = a.b.reshape(a.g, {ir::numel(view.sizes)});
  return a.b.reshape(a.b.index_add(flat, 0, strided_positions(a.b, view), grads), a.sizes());
}

}  // namespace
const VjpRule vjp_as_strided = rule(wrt<kNothing>([](Args a) {
  return from_strided(a, {Shape(a.attr<Dims>(Attr::sizes)),
                          ir::Strides(a.attr<Dims>(Attr::strides)), a.attr<Dim>(Attr::offset)});
}));
const VjpRule vjp_unfold = rule(wrt<kNothing>([](Args a) {
  const int dim = static_cast<int>(a.attr<int64_t>(Attr::dim));
  ir::Strides strides = ir::contiguous_strides(a.sizes());
  const Dim inside = strides[dim];
  strides[dim] *= a.attr<Dim>(Attr::step);
  strides.push_back(inside);
  return from_strided(a, {a.b.sizes(a.g), strides, 0});
}));
const VjpRule vjp_view_dtype = kZeroGradient;
const VjpRule vjp_select = rule(wrt<kNothing>([](Args a) {
  const int dim = static_cast<int>(a.attr<int64_t>(Attr::dim));
  return embed(a.b, a.b.unsqueeze(a.g, dim), a.sizes(), dim, a.attr<Dim>(Attr::index));
}));
const VjpRule vjp_squeeze = rule(wrt<kNothing>([](Args a) { return as_operand(a); }));
const VjpRule vjp_unsqueeze = rule(wrt<kNothing>([](Args a) { return as_operand(a); }));
const VjpRule vjp_transpose = rule(wrt<kNothing>([](Args a) {
  return a.b.transpose(a.g, static_cast<int>(a.attr<int64_t>(Attr::dim0)),
                       static_cast<int>(a.attr<int64_t>(Attr::dim1)));
}));
const VjpRule vjp_alias = rule(wrt<kNothing>([](Args a) { return a.g; }));
const VjpRule vjp_detach = kZeroGradient;

// --- views as values
const VjpRule vjp_view_copy = vjp_view;
const VjpRule vjp_permute_copy = vjp_permute;
const VjpRule vjp_expand_copy = vjp_expand;
const VjpRule vjp_slice_copy = vjp_slice;
const VjpRule vjp_diagonal_copy = vjp_diagonal;
const VjpRule vjp_as_strided_copy = vjp_as_strided;
const VjpRule vjp_select_copy = vjp_select;
const VjpRule vjp_squeeze_copy = vjp_squeeze;
const VjpRule vjp_unsqueeze_copy = vjp_unsqueeze;
const VjpRule vjp_transpose_copy = vjp_transpose;
const VjpRule vjp_unfold_copy = vjp_unfold;
const VjpRule vjp_view_dtype_copy = vjp_view_dtype;
const VjpRule vjp_alias_copy = vjp_alias;
const VjpRule vjp_detach_copy = vjp_detach;

// --- view inverses: self's gradient without the replaced part, src's from that part
namespace {

/// The scatter op of the rule on (g, zeros like src).
V without_replaced(Args a) { return a.b.emit(a.c.op, {a.g, zeros(a, 1)}, a.c.attrs); }

/// The view `op`, which has the scatter's attributes, of g.
V replaced_part(Args a, Op op) { return a.b.emit(op, {a.g}, a.c.attrs); }

}  // namespace
const VjpRule vjp_slice_scatter =
    rule(wrt<kNothing>([](Args a) { return without_replaced(a); }),
         wrt<kNothing>([](Args a) { return replaced_part(a, Op::slice); }));
const VjpRule vjp_diagonal_scatter =
    rule(wrt<kNothing>([](Args a) { return without_replaced(a); }),
         wrt<kNothing>([](Args a) { return replaced_part(a, Op::diagonal); }));
const VjpRule vjp_as_strided_scatter =
    rule(wrt<kNothing>([](Args a) { return without_replaced(a); }),
         wrt<kNothing>([](Args a) { return as_strided(a, a.g); }));
const VjpRule vjp_select_scatter =
    rule(wrt<kNothing>([](Args a) { return without_replaced(a); }),
         wrt<kNothing>([](Args a) { return replaced_part(a, Op::select); }));

// --- shape ops
namespace {

// Each tensor's part of g.
Gradients cat(VjpContext& c) {
  Gradients gradients(c.operands.size());
  const int dim = static_cast<int>(c.attr<int64_t>(Attr::dim));
  Dim start = 0;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const Dim end = start + c.b.sizes(c.operands[i])[dim];
    if (c.needs_grad[i]) gradients[i] = c.b.slice(c.grads[0], dim, start, end);
    start = end;
  }
  return gradients;
}

}  // namespace
const VjpRule vjp_cat{VjpRule::Kind::Differentiable, cat, read_nothing};
const VjpRule vjp_pad = rule(wrt<kNothing>([](Args a) {
  const auto& padding = a.attr<Dims>(Attr::padding);
  const Shape sizes = a.sizes();
  V g = a.g;
  for (int d = 0; d < sizes.rank(); ++d)
    g = a.b.slice(g, d, padding[2 * d], padding[2 * d] + sizes[d]);
  return g;
}));
const VjpRule vjp_flip = rule(wrt<kNothing>([](Args a) {  //
  return a.b.flip(a.g, a.attr<Axes>(Attr::dims));
}));

// --- factories have no operands
const VjpRule vjp_full = kZeroGradient;
const VjpRule vjp_iota = kZeroGradient;

}  // namespace tandem::autodiff
