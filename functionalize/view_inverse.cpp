#include "functionalize/view_inverse.h"

#include <string>

#include "ir/base/error.h"
#include "ir/shape/shape_rules.h"
#include "ir/strides.h"

namespace tandem::functionalize {
namespace {

using ir::AttrValue;
using ir::Dim;
using ir::Dims;
using ir::Op;
using ir::ValueId;

struct InverseContext {
  ir::Builder& b;
  std::span<const AttrValue> attrs;
  const ir::Type& type;  // the parent's
  ValueId parent, value;

  ValueId scatter(Op op) const { return b.emit(op, {parent, value}, attrs); }
};
using Inverse = ValueId (*)(const InverseContext&);

// One inverse per View op, named inverse_OP.
ValueId inverse_view(const InverseContext& c) { return c.b.reshape(c.value, c.type.sizes); }
ValueId inverse_squeeze(const InverseContext& c) { return c.b.reshape(c.value, c.type.sizes); }
ValueId inverse_unsqueeze(const InverseContext& c) { return c.b.reshape(c.value, c.type.sizes); }
// Where elements are repeated, all copies are equal: the first stands for them.
ValueId inverse_expand(const InverseContext& c) {
  const ir::Shape shown = c.b.sizes(c.value);
  if (ir::numel(shown) == 0) return c.parent;
  ValueId first = c.value;
  for (int d = 0; d < shown.rank(); ++d) {
    const int from = d - (shown.rank() - c.type.rank());
    if (from < 0 || c.type.sizes[from] == 1) first = c.b.slice(first, d, 0, 1);
  }
  return c.b.reshape(first, c.type.sizes);
}
ValueId inverse_alias(const InverseContext& c) { return c.value; }
ValueId inverse_detach(const InverseContext& c) { return c.value; }
ValueId inverse_permute(const InverseContext& c) {
  const auto& order = std::get<ir::Axes>(c.attrs[0]);
  ir::Axes inverse(order.size());
  for (size_t d = 0; d < order.size(); ++d)
    inverse[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  return c.b.permute(c.value, inverse);
}
ValueId inverse_transpose(const InverseContext& c) {
  return c.b.transpose(c.value, static_cast<int>(std::get<int64_t>(c.attrs[0])),
                       static_cast<int>(std::get<int64_t>(c.attrs[1])));
}
ValueId inverse_slice(const InverseContext& c) { return c.scatter(Op::slice_scatter); }
ValueId inverse_select(const InverseContext& c) { return c.scatter(Op::select_scatter); }
ValueId inverse_diagonal(const InverseContext& c) { return c.scatter(Op::diagonal_scatter); }
// Where windows overlap, they agree.
ValueId inverse_unfold(const InverseContext& c) {
  const auto dim = static_cast<int>(std::get<int64_t>(c.attrs[0]));
  ir::Strides strides = ir::contiguous_strides(c.type.sizes);
  const Dim inside = strides[dim];
  strides[dim] *= std::get<Dim>(c.attrs[2]);
  strides.push_back(inside);
  const ir::Shape windows = c.b.sizes(c.value);
  return c.b.emit(ir::Op::as_strided_scatter, {c.parent, c.value}, {windows, strides, Dim(0)});
}
ValueId inverse_view_dtype(const InverseContext& c) {
  return c.b.emit(Op::view_dtype, {c.value}, {c.type.dtype});
}
ValueId inverse_as_strided(const InverseContext& c) { return c.scatter(Op::as_strided_scatter); }

// A View op without an inverse does not compile.
#define ROW_View(name) inverse_##name
#define ROW_Pointwise(name) nullptr
#define ROW_Reduction(name) nullptr
#define ROW_Scan(name) nullptr
#define ROW_Linalg(name) nullptr
#define ROW_Contraction(name) nullptr
#define ROW_Shape(name) nullptr
#define ROW_Factory(name) nullptr
#define ROW_Index(name) nullptr
#define ROW_Random(name) nullptr
#define ROW_Control(name) nullptr
#define ROW_External(name) nullptr
constexpr Inverse kInverses[] = {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) ROW_##class_(name),
#include "ir/ops.def"
};

}  // namespace

ValueId apply(ir::Builder& b, const ViewOp& view, ValueId parent) {
  const bool identity = view.op == Op::alias || view.op == Op::detach;
  return identity ? parent : b.emit(view.op, {parent}, view.attrs);
}

bool keeps_rest(Op view, const ir::Type& shown) {
  return view == Op::slice || view == Op::select || view == Op::diagonal ||
         view == Op::as_strided || view == Op::unfold ||
         (view == Op::expand && ir::numel(shown.sizes) == 0);
}

ValueId invert(ir::Builder& b, const ViewOp& view, const ir::Type& type, ValueId parent,
               ValueId value) {
  const Inverse inverse = kInverses[static_cast<size_t>(view.op)];
  TANDEM_CHECK(inverse, std::string(ir::name(view.op)) + " is not a view");
  return inverse({b, view.attrs, type, parent, value});
}

std::optional<ir::ViewGeometry> as_one_view(const ir::Type& base, std::span<const ViewOp> chain) {
  ir::ViewGeometry place{ir::contiguous_strides(base.sizes), 0};
  ir::Type type = base;
  for (const ViewOp& view : chain) {
    const ir::Type next = ir::infer_type(view.op, {&type, 1}, view.attrs);
    if (next.dtype != base.dtype) return std::nullopt;
    try {
      place = ir::placed_view(view.op, type, place.strides, place.offset, view.attrs, next);
    } catch (const ir::Error&) {
      return std::nullopt;
    }
    type = next;
  }
  return place;
}

ValueId first_copies(ir::Builder& b, ValueId v, const ir::Strides& strides) {
  for (int d = 0; d < strides.rank(); ++d)
    if (strides[d] == 0 && b.sizes(v)[d] > 1) v = b.slice(v, d, 0, 1);
  return v;
}

bool cuts_history(Op view) { return view == Op::detach || view == Op::view_dtype; }

bool repeats_elements(const ViewOp& view, const ir::Type& parent, const ir::Type& result) {
  if (view.op == Op::as_strided)
    return ir::self_overlaps(ir::Shape(std::get<Dims>(view.attrs[0])),
                             ir::Strides(std::get<Dims>(view.attrs[1])));
  if (view.op == Op::unfold)
    return std::get<Dim>(view.attrs[1]) > std::get<Dim>(view.attrs[2]) &&
           result.sizes[static_cast<int>(std::get<int64_t>(view.attrs[0]))] > 1;
  if (view.op == Op::view_dtype) return false;
  return ir::numel(result.sizes) > ir::numel(parent.sizes);
}

}  // namespace tandem::functionalize
