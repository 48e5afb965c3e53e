#include "functionalize/history.h"

#include <algorithm>
#include <utility>

#include "ir/build/body_flow.h"

namespace tandem::functionalize {

using ir::ValueId;

namespace {

std::vector<bool> carrying_outputs(const ir::Graph& body, const std::vector<bool>& given);

/// `carries`, by value: whether gradients flow through it. Adds the results of `e`.
void carry_on(const ir::Graph& graph, ir::EquationId e, std::vector<bool>& carries) {
  const ir::Op op = graph.op(e);
  const auto is_carrying = [&](ValueId v) { return bool{carries[v.index]}; };
  const bool stops = op == ir::Op::stop_gradient || op == ir::Op::stop_backward;
  if (stops || std::ranges::none_of(graph.operands(e), is_carrying)) return;
  for (const ValueId v : graph.results(e)) carries[v.index] = ir::is_differentiable(graph.type(v));
  if (op != ir::Op::cond && op != ir::Op::scan) return;
  std::vector<bool> given;
  for (const ValueId v : graph.operands(e)) given.push_back(is_carrying(v));
  const auto depends = ir::dependent_results(graph, e, std::move(given), carrying_outputs);
  for (size_t k = 0; k < depends.size(); ++k)
    if (!depends[k]) carries[graph.results(e)[k].index] = false;
}

std::vector<bool> carrying_outputs(const ir::Graph& body, const std::vector<bool>& given) {
  std::vector<bool> carries(body.num_values());
  for (size_t i = 0; i < given.size(); ++i) carries[body.inputs()[i].value.index] = given[i];
  for (size_t i = 0; i < body.num_equations(); ++i) carry_on(body, body.equation_id(i), carries);
  std::vector<bool> outputs;
  for (const ir::Output& output : body.outputs()) outputs.push_back(carries[output.value.index]);
  return outputs;
}

}  // namespace

bool History::carries_gradient(ValueId v) {
  carries_.resize(graph_.num_values());
  for (; inputs_seen_ < graph_.inputs().size(); ++inputs_seen_) {
    const ir::Input& input = graph_.inputs()[inputs_seen_];
    carries_[input.value.index] = input.requires_grad;
  }
  for (; equations_seen_ < graph_.num_equations(); ++equations_seen_)
    carry_on(graph_, graph_.equation_id(equations_seen_), carries_);
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
