#include "functionalize/history.h"

#include <algorithm>

namespace tandem::functionalize {
namespace {

using ir::Graph;
using ir::Role;
using ir::Type;
using ir::ValueId;

ir::Input input(std::string name, Role role, const Type& type, int target = -1) {
  ir::Input input;
  input.name = std::move(name);
  input.role = role;
  input.strides = ir::contiguous_strides(type.sizes);
  input.target = target;
  return input;
}

ir::Output output(std::string name, Role role, ValueId v, const Type& type, int target = -1) {
  ir::Output output;
  output.name = std::move(name);
  output.role = role;
  output.value = v;
  output.strides = ir::contiguous_strides(type.sizes);
  output.target = target;
  return output;
}

// (old, data) -> data
Graph hidden_write_forward(const Type& type) {
  Graph graph("hidden_write", ir::Level::Functional);
  graph.add_input(input("old", Role::Primal, type), type);
  const ValueId data = graph.add_input(input("data", Role::Primal, type), type);
  graph.add_output(output("new", Role::Result, data, type));
  return graph;
}

// the gradient passes to old
Graph hidden_write_backward(const Type& type) {
  Graph graph("hidden_write_backward", ir::Level::Functional);
  const ValueId gradient = graph.add_input(input("d_new", Role::Tangent, type, 0), type);
  graph.add_output(output("d_old", Role::Gradient, gradient, type, 0));
  return graph;
}

}  // namespace

bool History::carries_gradient(ValueId v) {
  carries_.resize(graph_.num_values());
  for (; inputs_seen_ < graph_.inputs().size(); ++inputs_seen_) {
    const ir::Input& input = graph_.inputs()[inputs_seen_];
    carries_[input.value.index] = input.requires_grad;
  }
  for (; equations_seen_ < graph_.num_equations(); ++equations_seen_) {
    const ir::Equation& e = graph_.equations()[equations_seen_];
    const auto carries = [&](ValueId operand) { return bool{carries_[operand.index]}; };
    if (e.op == ir::Op::stop_gradient || std::ranges::none_of(graph_.operands(e), carries))
      continue;
    for (ValueId result : graph_.results(e))
      carries_[result.index] = ir::is_differentiable(graph_.type(result));
  }
  return carries_[v.index];
}

ValueId History::detached(ValueId v) { return carries_gradient(v) ? b_.stop_gradient(v) : v; }

ValueId History::hidden_write(ValueId old, ValueId data) {
  if (!carries_gradient(old)) return detached(data);
  const Type type = graph_.type(old);
  const Pair pair = subgraphs(type);
  const ValueId operands[] = {old, data};
  return b_.emit_call(ir::Op::custom_function, operands, {pair.forward, pair.backward},
                      {&type, 1})[0];
}

const History::Pair& History::subgraphs(const Type& type) {
  const auto known = std::ranges::find(pairs_, type, &Pair::type);
  if (known != pairs_.end()) return *known;
  const ir::SubgraphId forward = graph_.add_subgraph(hidden_write_forward(type));
  const ir::SubgraphId backward = graph_.add_subgraph(hidden_write_backward(type));
  return pairs_.emplace_back(Pair{type, forward, backward});
}

}  // namespace tandem::functionalize
