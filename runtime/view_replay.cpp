#include "runtime/view_replay.h"

#include "functionalize/view_inverse.h"

namespace tandem::runtime {
namespace {

using ir::ValueId;

/// `v`, or a contiguous copy if it can't be seen as one row of elements.
ValueId contiguous(ir::Builder& b, ValueId v) {
  return b.sink().can_view(v, {b.numel(v)}) ? v : b.clone(v);
}

/// One step of the chain. Gradients have strides of their own: steps that lean on the base's are
/// made on a contiguous copy where that is needed.
ValueId read_step(ir::Builder& b, ValueId parent, const ir::ViewStep& step) {
  if (step.op == ir::Op::view)
    return b.reshape(parent, ir::Shape(std::get<ir::Dims>(step.attrs[0])));
  if (step.op == ir::Op::as_strided) parent = contiguous(b, parent);
  return functionalize::replay(b, {step.op, step.attrs}, parent);
}

}  // namespace

ValueId read_view(ir::Builder& b, ValueId base, std::span<const ir::ViewStep> chain) {
  for (const ir::ViewStep& step : chain) base = read_step(b, base, step);
  return base;
}

ValueId zero_viewed_part(ir::Builder& b, ValueId base, std::span<const ir::ViewStep> chain) {
  std::vector<ValueId> parents{base};
  for (const ir::ViewStep& step : chain) parents.push_back(read_step(b, parents.back(), step));
  ValueId value = b.zeros_like(parents.back());
  for (size_t i = chain.size(); i-- > 0;)
    value = functionalize::invert(b, {chain[i].op, chain[i].attrs}, b.type(parents[i]), parents[i],
                                  contiguous(b, value));
  return value;
}

}  // namespace tandem::runtime
