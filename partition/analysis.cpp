#include "partition/analysis.h"

#include <algorithm>

#include "ir/build/ancestors.h"
#include "ir/build/free_view.h"
#include "ir/geometry.h"

namespace tandem::partition {

using ir::Equation;
using ir::EquationId;
using ir::Graph;
using ir::ValueId;

namespace {

/// `v` stands among `operands` before position `end`.
bool occurs_before(std::span<const ValueId> operands, size_t end, ValueId v) {
  return std::ranges::find(operands.first(end), v) !=
         operands.begin() + static_cast<ptrdiff_t>(end);
}

template <class F>
void for_each_use(const Graph& graph, F use) {
  for (size_t i = 0; i < graph.num_equations(); ++i) {
    const auto operands = graph.operands(graph.equation_id(i));
    for (size_t k = 0; k < operands.size(); ++k)
      if (!occurs_before(operands, k, operands[k])) use(operands[k], graph.equation_id(i));
  }
}

/// An equation gives all of its results where it runs.
void mark_beside(const Graph& graph, ir::ValueMap<bool>& marked) {
  for (const Equation& e : graph.equations()) {
    const auto is_marked = [&](ValueId v) { return bool{marked[v]}; };
    if (e.result_count < 2 || !std::ranges::any_of(graph.results(e), is_marked)) continue;
    for (ValueId v : graph.results(e)) marked[v] = true;
  }
}

/// Marks everything that is computed from marked values.
void mark_descendants(const Graph& graph, ir::ValueMap<bool>& marked) {
  for (const Equation& e : graph.equations()) {
    const auto is_marked = [&](ValueId v) { return bool{marked[v]}; };
    if (!std::ranges::any_of(graph.operands(e), is_marked)) continue;
    for (ValueId v : graph.results(e)) marked[v] = true;
  }
}

void mark_backward(const Graph& step, ir::ValueMap<bool>& marked) {
  for (const Equation& e : step.equations())
    if (e.is_backward)
      for (ValueId v : step.results(e)) marked[v] = true;
}

void mark_overwritten_inputs(const Graph& core, ir::ValueMap<bool>& overwritten) {
  std::vector<bool> written(core.inputs().size());
  const auto written_at = [&](int input) {
    return written[static_cast<size_t>(ir::memory_of(core, input))];
  };
  for (const ir::InputWrite& write : core.epilogue.writes) written_at(write.input) = true;
  for (size_t i = 0; i < written.size(); ++i)
    if (written_at(static_cast<int>(i))) overwritten[core.inputs()[i].value] = true;
}

/// Gradients that the program itself writes to `.grad` belong to forward; so does everything if no
/// tangent arrives.
std::vector<bool> outputs_of_backward(const Graph& core) {
  std::vector<bool> out(core.outputs().size());
  if (std::ranges::none_of(core.inputs(), is_tangent) && !is_step(core)) return out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = core.outputs()[i].role == ir::Role::Gradient;
  for (const ir::GradWrite& write : core.epilogue.grads)
    if (write.output >= 0) out[static_cast<size_t>(write.output)] = false;
  return out;
}

std::vector<ValueId> tokens_of(const Graph& graph) {
  std::vector<ValueId> tokens;
  for (uint32_t i = 0; i < graph.num_values(); ++i)
    if (graph.type({i}).is_token && graph.producer({i}).valid()) tokens.push_back({i});
  return tokens;
}

std::vector<ValueId> values_of(const Graph& graph) {
  std::vector<ValueId> values(graph.num_values());
  for (uint32_t i = 0; i < values.size(); ++i) values[i] = {i};
  return values;
}

ir::ValueMap<int64_t> bytes_of(const Graph& graph) {
  ir::ValueMap<int64_t> bytes(graph);
  for (uint32_t i = 0; i < bytes.size(); ++i)
    bytes[ValueId{i}] = size_in_bytes(graph.type(ValueId{i}));
  return bytes;
}

/// By value: see Analysis::base.
ir::ValueMap<ValueId> bases_of(const Graph& graph) {
  ir::ValueMap<ValueId> bases(graph);
  for (uint32_t i = 0; i < graph.num_values(); ++i) {
    const EquationId e = graph.producer({i});
    const bool is_free_view = e.valid() && ir::is_free_view(graph, e);
    bases[{i}] = is_free_view ? bases[graph.operand(e, 0)] : ValueId{i};
  }
  return bases;
}

}  // namespace

bool is_step(const Graph& core) {
  return std::ranges::none_of(core.inputs(), is_tangent) &&
         std::ranges::any_of(core.equations(), &Equation::is_backward);
}

Users::Users(const Graph& graph) : first_(graph.num_values() + 1) {
  for_each_use(graph, [&](ValueId v, EquationId) { ++first_[v.index + 1]; });
  for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
  users_.resize(first_.back());
  std::vector<uint32_t> next = first_;
  for_each_use(graph, [&](ValueId v, EquationId e) { users_[next[v.index]++] = e; });
}

Needs::Needs(const Graph& joint)
    : graph(joint),
      input(joint, -1),
      of_backward(outputs_of_backward(joint)),
      overwritten(joint),
      needs_tangent(joint),
      tokens(tokens_of(joint)),
      forward(joint),
      backward(joint),
      gradient(joint) {
  for (size_t i = 0; i < joint.inputs().size(); ++i) {
    input[joint.inputs()[i].value] = static_cast<int>(i);
    if (is_tangent(joint.inputs()[i])) needs_tangent[joint.inputs()[i].value] = true;
  }
  for (size_t i = 0; i < joint.outputs().size(); ++i)
    (of_backward[i] ? gradient : forward)[joint.outputs()[i].value] = true;
  mark_overwritten_inputs(joint, overwritten);
  if (is_step(joint)) mark_backward(joint, needs_tangent);
  mark_descendants(joint, needs_tangent);
  backward = gradient;
  for (ValueId token : tokens) (needs_tangent[token] ? backward : forward)[token] = true;
  mark_ancestors(joint, forward);
  mark_beside(joint, forward);
  mark_ancestors(joint, backward);
}

std::vector<ValueId> read_by_backward(const Needs& needs) {
  const Graph& graph = needs.graph;
  ir::ValueMap<bool> read = needs.gradient;
  for (const Equation& e : graph.equations()) {
    const auto is_of_backward = [&](ValueId v) {
      return needs.backward[v] && !needs.is_written_in_forward(v);
    };
    if (!std::ranges::any_of(graph.results(e), is_of_backward)) continue;
    for (ValueId v : graph.operands(e)) read[v] = true;
  }
  std::vector<ValueId> values;
  for (uint32_t i = 0; i < graph.num_values(); ++i)
    if (read[{i}] && needs.backward[{i}] && needs.is_written_in_forward({i})) values.push_back({i});
  return values;
}

Analysis::Analysis(const Graph& core, const std::vector<bool>& held_outputs)
    : Needs(core),
      users(core),
      held_result(core, -1),
      all_values_(values_of(core)),
      bytes_(bytes_of(core)),
      base_(bases_of(core)) {
  find_held_results(held_outputs);
}

// (An input that becomes something else by the call may take over the memory of a result.)
void Analysis::find_held_results(const std::vector<bool>& held_outputs) {
  if (!graph.epilogue.changes.empty()) return;
  for (size_t i = 0; i < held_outputs.size(); ++i) {
    const ir::Output& output = graph.outputs()[i];
    if (held_outputs[i] && !of_backward[i] && output.role == ir::Role::Result &&
        !is_primal(output.value) && output.strides == saved_strides(output.value))
      held_result[output.value] = static_cast<int>(i);
  }
}

int64_t Analysis::saved_bytes(std::span<const ValueId> values) const {
  int64_t bytes = 0;
  for (ValueId v : values) bytes += saved_bytes(v);
  return bytes;
}

ir::Strides Analysis::saved_strides(ValueId v) const {
  return is_free_to_save(v) ? graph.inputs()[static_cast<size_t>(input[v])].strides
                            : ir::contiguous_strides(graph.type(v).sizes);
}

}  // namespace tandem::partition
