#include "runtime/trace/through_views.h"

#include <algorithm>

#include "functionalize/view_inverse.h"
#include "ir/base/error.h"
#include "ir/shape/shape_rules.h"

namespace tandem::runtime {
namespace {

using ir::ValueId;

/// `v`, or a contiguous copy if it can't be seen as one row of elements.
ValueId contiguous(ir::Builder& b, ValueId v) {
  return b.sink().can_view(v, {b.numel(v)}) ? v : b.clone(v);
}

ValueId placed_in_memory(ir::Builder& b, ValueId parent, const ir::ViewStep& step) {
  const ir::Type type = memory_type(step, b.dtype(parent));
  return b.emit(step.op, {b.full(type.sizes, type.dtype, 0), parent}, scatter_attrs(step));
}

/// One step of the chain. Gradients have strides of their own: steps that lean on the base's are
/// made on a contiguous copy where that is needed.
ValueId read_step(ir::Builder& b, ValueId parent, const ir::ViewStep& step) {
  if (step.op == ir::Op::view)
    return b.reshape(parent, ir::Shape(std::get<ir::Dims>(step.attrs[0])));
  if (is_memory_step(step)) return placed_in_memory(b, parent, step);
  if (step.op == ir::Op::as_strided) parent = contiguous(b, parent);
  return functionalize::apply(b, {step.op, step.attrs}, parent);
}

/// `parent`, of `type`, with what `step` shows of it replaced by `value`.
ValueId write_step(ir::Builder& b, ValueId parent, const ir::ViewStep& step, ValueId value) {
  const ValueId row = contiguous(b, value);
  if (is_memory_step(step)) return b.emit(ir::Op::as_strided, {row}, scatter_attrs(step));
  return functionalize::invert(b, {step.op, step.attrs}, b.type(parent), parent, row);
}

}  // namespace

ir::ViewStep memory_step(const ir::Shape& sizes, const ir::Strides& strides, ir::Dim offset,
                         ir::Dim length) {
  return {ir::Op::as_strided_scatter, {sizes, strides, offset, length}};
}
bool is_memory_step(const ir::ViewStep& step) { return step.op == ir::Op::as_strided_scatter; }
ir::AttrsRef scatter_attrs(const ir::ViewStep& step) { return std::span(step.attrs).first(3); }
ir::Type memory_type(const ir::ViewStep& step, ir::DType dtype) {
  return {dtype, {std::get<ir::Dim>(step.attrs[3])}};
}

namespace {

ir::Type type_after(const ir::Type& type, const ir::ViewStep& step) {
  return is_memory_step(step) ? memory_type(step, type.dtype)
                              : ir::infer_type(step.op, {&type, 1}, step.attrs);
}

bool repeats(const ir::Type& type, const ir::ViewStep& step) {
  return !is_memory_step(step) &&
         functionalize::repeats_elements({step.op, step.attrs}, type, type_after(type, step));
}

}  // namespace

// The steps up to the first that repeats elements stay as they are; the others become one.
WrittenPart written_part(const ir::Type& base, std::vector<ir::ViewStep> chain) {
  ir::Type type = base, before = base;
  size_t kept = chain.size();
  std::vector<functionalize::ViewOp> rest;
  for (size_t i = 0; i < chain.size(); ++i) {
    if (kept == chain.size() && repeats(type, chain[i])) kept = i, before = type;
    if (i >= kept) rest.push_back({chain[i].op, chain[i].attrs});
    type = type_after(type, chain[i]);
  }
  if (rest.empty()) return {std::move(chain), type.sizes};
  const auto strided = functionalize::as_one_view(before, rest);
  if (!strided)
    ir::fail(ir::Errc::Unsupported,
             "a write in grad mode through views of an expanded tensor that strides over its base "
             "can't express; expected a tensor without repeated elements (clone it first)");
  ir::Shape once = type.sizes;
  for (int d = 0; d < once.rank(); ++d)
    if (strided->strides[d] == 0) once[d] = std::min<int64_t>(once[d], 1);
  chain.resize(kept);
  chain.push_back({ir::Op::as_strided, {once, strided->strides, strided->offset}});
  return {std::move(chain), type.sizes};
}

ValueId read_view(ir::Builder& b, ValueId base, std::span<const ir::ViewStep> chain) {
  for (const ir::ViewStep& step : chain) base = read_step(b, base, step);
  return base;
}

ValueId zero_viewed_part(ir::Builder& b, ValueId base, std::span<const ir::ViewStep> chain) {
  std::vector<ValueId> parents{base};
  for (const ir::ViewStep& step : chain) parents.push_back(read_step(b, parents.back(), step));
  ValueId value = b.zeros_like(parents.back());
  for (size_t i = chain.size(); i-- > 0;) value = write_step(b, parents[i], chain[i], value);
  return value;
}

}  // namespace tandem::runtime
