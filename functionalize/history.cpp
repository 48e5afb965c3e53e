#include "functionalize/history.h"

#include <algorithm>

namespace tandem::functionalize {

using ir::ValueId;

bool History::carries_gradient(ValueId v) {
  carries_.resize(graph_.num_values());
  for (; inputs_seen_ < graph_.inputs().size(); ++inputs_seen_) {
    const ir::Input& input = graph_.inputs()[inputs_seen_];
    carries_[input.value.index] = input.requires_grad;
  }
  for (; equations_seen_ < graph_.num_equations(); ++equations_seen_) {
    const ir::Equation& e = graph_.equations()[equations_seen_];
    const auto carries = [&](ValueId operand) { return bool{carries_[operand.index]}; };
    const bool stops = e.op == ir::Op::stop_gradient || e.op == ir::Op::stop_backward;
    if (stops || std::ranges::none_of(graph_.operands(e), carries)) continue;
    for (ValueId result : graph_.results(e))
      carries_[result.index] = ir::is_differentiable(graph_.type(result));
  }
  return carries_[v.index];
}

ValueId History::without(Cut cut, ValueId v) {
  const bool carries = carries_gradient(v);
  if (cut == Cut::Gradients && carries) return b_.stop_backward(v);
  if (cut == Cut::History && (carries || may_move(v))) return b_.stop_gradient(v);
  return v;
}

ValueId History::hidden_write(Cut cut, ValueId old, ValueId data) {
  const bool carries = carries_gradient(old);
  if (cut == Cut::Gradients && carries) return b_.keep_backward(old, data);
  if (cut == Cut::History && (carries || may_move(old))) return b_.keep_history(old, data);
  return without(cut, data);
}

}  // namespace tandem::functionalize
