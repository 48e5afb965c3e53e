// What a variant's graphs say about its calls on the tape, as tables; and the gradients of a joint
// graph as a function of their own.
#include <algorithm>

#include "ir/base/error.h"
#include "ir/build/ancestors.h"
#include "ir/build/effect.h"
#include "ir/build/rewrite.h"
#include "runtime/compile/variant.h"

namespace tandem::runtime {
namespace {

/// The input at the root of `input`'s aliases.
int root_of(const ir::Graph& graph, int input) {
  while (const auto& alias = graph.inputs()[static_cast<size_t>(input)].alias_of)
    input = alias->input;
  return input;
}

/// By input: whether the call writes memory that it shares, or moves it.
std::vector<bool> written_inputs(const ir::Graph& forward) {
  std::vector<bool> written_root(forward.inputs().size()), written;
  for (const ir::InputWrite& write : forward.epilogue.writes)
    written_root[static_cast<size_t>(root_of(forward, write.input))] = true;
  for (const ir::InputChange& change : forward.epilogue.changes)
    if (change.resized) written_root[static_cast<size_t>(root_of(forward, change.input))] = true;
  for (size_t i = 0; i < forward.inputs().size(); ++i)
    written.push_back(written_root[static_cast<size_t>(root_of(forward, static_cast<int>(i)))]);
  return written;
}

/// Whether an output is what the function itself assigned to a `.grad`.
bool is_grad_slot(const ir::Graph& graph, int output) {
  return std::ranges::any_of(graph.epilogue.grads,
                             [&](const ir::GradWrite& w) { return w.output == output; });
}

void add_saved(const Variant& variant, const std::vector<bool>& written, TapeTable& table) {
  for (const ir::Input& saved : variant.graphs.backward.inputs()) {
    if (saved.role != ir::Role::Saved) continue;
    const int input = variant.halves.forward->output_from_input(saved.target);
    const bool copy = input >= 0 && written[static_cast<size_t>(input)];
    table.saved.push_back({saved.target, input, copy, saved.strides});
  }
}

bool is_gradient(const ir::Graph& joint, size_t output) {
  return joint.outputs()[output].role == ir::Role::Gradient &&
         !is_grad_slot(joint, static_cast<int>(output));
}

/// By value: whether some gradient is computed from it.
ir::ValueMap<bool> needed_by_gradients(const ir::Graph& joint) {
  ir::ValueMap<bool> needed(joint);
  for (size_t k = 0; k < joint.outputs().size(); ++k)
    if (is_gradient(joint, k)) needed[joint.outputs()[k].value] = true;
  ir::mark_ancestors(joint, needed);
  return needed;
}

void add_kept_inputs(const Variant& variant, const std::vector<bool>& written, TapeTable& table) {
  const ir::Graph& joint = variant.graphs.joint;
  const ir::ValueMap<bool> needed = needed_by_gradients(joint);
  for (size_t i = 0; i < joint.inputs().size(); ++i) {
    const ir::Input& input = joint.inputs()[i];
    if (input.role == ir::Role::Tangent || !needed[input.value]) continue;
    const int number = static_cast<int>(i);
    const auto saved = std::ranges::find(table.saved, number, &TapeTable::Saved::input);
    if (!written[i])
      table.kept_by_handle.push_back(number);
    else if (saved == table.saved.end())
      table.kept_by_value.push_back(number);
    else
      table.kept_as_saved.emplace_back(number, saved - table.saved.begin());
  }
}

}  // namespace

TapeTable make_tape_table(const Variant& variant) {
  const ir::Graph &forward = variant.graphs.forward, &backward = variant.graphs.backward;
  TapeTable table;
  table.result_of_output.assign(forward.outputs().size(), -1);
  for (const ir::Output& output : forward.outputs())
    table.is_result.push_back(output.role == ir::Role::Result);
  for (const ir::Input& input : backward.inputs()) {
    if (input.role != ir::Role::Tangent) continue;
    table.result_of_output[static_cast<size_t>(input.target)] =
        static_cast<int>(table.tangents.size());
    table.tangents.push_back(backward.type(input.value));
  }
  for (const ir::Output& gradient : backward.outputs())
    table.input_of_gradient.push_back(gradient.target);
  if (table.input_of_gradient.empty()) return table;
  const std::vector<bool> written = written_inputs(forward);
  add_saved(variant, written, table);
  if (variant.options.higher_order) add_kept_inputs(variant, written, table);
  return table;
}

namespace {

/// Of forward, what must run has run.
bool has_run(const ir::Graph& joint, ir::EquationId e, const ir::ValueMap<bool>& needed) {
  if (joint.equation(e).is_backward || !ir::must_run(ir::effect_of(joint, e))) return false;
  const auto is_needed = [&](ir::ValueId v) { return needed[v] && !joint.type(v).is_token; };
  if (std::ranges::any_of(joint.results(e), is_needed))
    ir::fail(ir::Errc::Unsupported,
             "gradients of gradients: they would compute the results of an ordered operator again; "
             "expected a function whose gradients do not need these");
  return true;
}

}  // namespace

ir::Graph gradients_of(const ir::Graph& joint) {
  const ir::ValueMap<bool> needed = needed_by_gradients(joint);
  ir::Rewriter rewriter(joint);
  rewriter.copy_inputs();
  for (size_t i = 0; i < joint.num_equations(); ++i)
    if (!has_run(joint, joint.equation_id(i), needed)) rewriter.copy(joint.equation_id(i));
  for (size_t k = 0; k < joint.outputs().size(); ++k) {
    ir::Output output = joint.outputs()[k];
    if (!is_gradient(joint, k)) continue;
    output.value = rewriter[output.value];
    rewriter.target().add_output(std::move(output));
  }
  return ir::remove_dead_code(rewriter.take());
}

ir::Graph as_function(ir::Graph graph) {
  graph.name += "_backward";
  graph.level = ir::Level::Functional;
  for (ir::Input& input : graph.inputs()) {
    input.alias_of.reset();  // some are kept by value, and nothing is written
    if (input.role != ir::Role::Tangent) continue;
    input.role = ir::Role::Primal;
    input.target = -1;
    input.requires_grad = true;
  }
  for (size_t i = 0; i < graph.num_equations(); ++i)
    graph.equation(graph.equation_id(i)).is_backward = false;
  for (size_t k = 0; k < graph.outputs().size(); ++k) {
    ir::Output& result = graph.outputs()[k];
    result.role = ir::Role::Result;
    result.requires_grad = true;
    result.target = -1;
    // (Requires grad only if it depends on what does.)
    graph.epilogue.results.push_back(
        {ir::ResultSource::Kind::Output, static_cast<int>(k), {}, false});
  }
  return graph;
}

}  // namespace tandem::runtime
