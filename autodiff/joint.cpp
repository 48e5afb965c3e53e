// Reverse-mode differentiation of a graph: a copy of the forward equations, then one sweep over
// them from last to first.
#include "autodiff/joint.h"

#include <fmt/format.h>

#include <algorithm>

#include "autodiff/control/gradient.h"
#include "autodiff/vjp.h"
#include "ir/base/error.h"
#include "ir/build/body_flow.h"
#include "ir/build/effect.h"
#include "ir/build/inline.h"
#include "ir/build/rewrite.h"
#include "ir/interfaces/custom_operator.h"
#include "ir/strides.h"

namespace tandem::autodiff {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::Role;
using ir::ValueId;

/// Eager's layout of a gradient: like the tensor's where that has neither gaps nor overlap.
ir::Strides gradient_strides(const ir::Shape& sizes, const ir::Strides& strides) {
  const bool like = strides.rank() == sizes.rank() && ir::is_dense(sizes, strides);
  return like ? strides : ir::contiguous_strides(sizes);
}

std::vector<bool> active_outputs(const Graph& body, const std::vector<bool>& needs);

/// Which values a gradient can flow through on its way to an input that needs one.
ir::ValueMap<bool> find_active(const Graph& graph, const std::vector<bool>& needing) {
  ir::ValueMap<bool> active(graph);
  const auto can = [&](ValueId v) { return ir::is_differentiable(graph.type(v)); };
  for (size_t i = 0; i < needing.size(); ++i) {
    const ValueId v = graph.inputs()[i].value;
    active[v] = needing[i] && can(v);
  }
  for (size_t i = 0; i < graph.num_equations(); ++i) {
    const EquationId e = graph.equation_id(i);
    if (vjp_rule(graph.op(e)).kind == VjpRule::Kind::ZeroGradient) continue;
    const auto is_active = [&](ValueId v) { return bool{active[v]}; };
    if (std::ranges::none_of(graph.operands(e), is_active)) continue;
    for (const ValueId v : graph.results(e)) active[v] = can(v);
    if (!has_halves(graph.op(e))) continue;
    std::vector<bool> needs;
    for (const ValueId v : graph.operands(e)) needs.push_back(is_active(v));
    const auto depends = ir::dependent_results(graph, e, std::move(needs), active_outputs);
    for (size_t k = 0; k < depends.size(); ++k)
      if (!depends[k]) active[graph.results(e)[k]] = false;
  }
  return active;
}

ir::ValueMap<bool> find_active(const Graph& graph) {
  std::vector<bool> needs;
  for (const ir::Input& input : graph.inputs()) needs.push_back(input.requires_grad);
  return find_active(graph, needs);
}

std::vector<bool> active_outputs(const Graph& body, const std::vector<bool>& needs) {
  const ir::ValueMap<bool> active = find_active(body, needs);
  std::vector<bool> outputs;
  for (const ir::Output& output : body.outputs()) outputs.push_back(active[output.value]);
  return outputs;
}

bool takes_tangent(const ir::Output& output) {
  return output.requires_grad && (output.role == Role::Result || output.role == Role::MutatedInput);
}

/// `name`, or with a number after it if an input is called so already.
std::string unused_name(const Graph& graph, const std::string& name) {
  const auto taken = [&](const std::string& s) {
    return std::ranges::any_of(graph.inputs(), [&](const ir::Input& i) { return i.name == s; });
  };
  if (!taken(name)) return name;
  for (int n = 1;; ++n)
    if (std::string numbered = fmt::format("{}_{}", name, n); !taken(numbered)) return numbered;
}

class Differentiator {
 public:
  /// `own`: by equation whether it is a custom_function that with_halves made.
  Differentiator(const Graph& source, const std::vector<bool>& own)
      : source_(source),
        own_(own),
        rewriter_(source),
        active_(find_active(source)),
        cotangents_(source),
        hooked_(source) {
    find_hooked();
  }

  Graph run() {
    rewriter_.target().level = ir::Level::Joint;
    rewriter_.target().reserve(source_, 4);
    rewriter_.copy_inputs();
    const auto tangents = add_tangents();
    for (size_t i = 0; i < source_.num_equations(); ++i) copy_forward(source_.equation_id(i));
    rewriter_.sink().is_backward = true;
    for (const auto& [output, tangent] : tangents) accumulate(output, tangent);
    for (size_t i = source_.num_equations(); i-- > 0;) differentiate(source_.equation_id(i));
    rewriter_.copy_outputs();
    add_gradients();
    return ir::join_orders(ir::remove_dead_code(rewriter_.take()));
  }

 private:
  using Tangents = std::vector<std::pair<ValueId, ValueId>>;  // source's output, target's input

  void find_hooked() {
    for (size_t i = source_.num_equations(); i-- > 0;) {
      const EquationId e = source_.equation_id(i);
      if (source_.op(e) == ir::Op::hook) hooked_[source_.operand(e, 0)] = shown(source_.result(e));
    }
  }

  /// `v` behind the hooks on it: what reads it in backward, too, gives its own gradient to them.
  ValueId shown(ValueId v) const { return hooked_[v].valid() ? hooked_[v] : v; }

  /// Branches and loops stand in the joint graph as themselves, so that it can be differentiated
  /// again.
  void copy_forward(EquationId e) {
    if (!own_[e.index]) return rewriter_.copy(e);
    const ir::Equation& from = source_.equation(e);
    Graph& target = rewriter_.target();
    const size_t first = target.num_equations();
    const Graph& forward = source_.subgraph(source_.attr<ir::SubgraphId>(e, ir::Attr::forward));
    rewriter_.replace(e,
                      ir::inline_graph(target, forward, rewriter_.operands(e), from.is_backward));
    for (size_t i = first; i < target.num_equations(); ++i) {
      ir::Equation& made = target.equation(target.equation_id(i));
      made.location = from.location;
      made.region = from.region;
    }
  }

  Tangents add_tangents() {
    Tangents tangents;
    for (size_t i = 0; i < source_.outputs().size(); ++i) {
      const ir::Output& output = source_.outputs()[i];
      if (!takes_tangent(output)) continue;
      const ir::Type type = source_.type(output.value);
      ir::Input input;
      input.role = Role::Tangent;
      input.name = unused_name(rewriter_.target(), "d_" + output.name);
      input.strides = gradient_strides(type.sizes, output.strides);
      input.target = static_cast<int>(i);
      tangents_.push_back(rewriter_.target().add_input(std::move(input), type));
      tangents.emplace_back(output.value, tangents_.back());
    }
    return tangents;
  }

  /// Adds `gradient` to what has arrived at `v`, in the order of the sweep.
  void accumulate(ValueId v, ValueId gradient) {
    if (!active_[v]) return;
    ValueId& sum = cotangents_[v];
    sum = sum.valid() ? rewriter_.builder().add(sum, gradient) : gradient;
  }

  void differentiate(EquationId e) {
    const auto arrived = [&](ValueId v) { return cotangents_[v].valid(); };
    if (std::ranges::none_of(source_.results(e), arrived)) return;
    rewriter_.at(e);
    rewriter_.sink().is_backward = true;
    rewriter_.sink().grad_enabled = true;
    switch (vjp_rule(source_.op(e)).kind) {
      case VjpRule::Kind::Subgraph:
        return apply_backward_of(e);
      case VjpRule::Kind::NotDifferentiable:
        break;
      default:
        apply_rule_of(e);
    }
    const VjpRule& rule = vjp_rule(source_.op(e));
    for (size_t i = 0; i < source_.operands(e).size(); ++i)
      if (rule.refuses(i)) refuse_gradient(source_.operands(e)[i], not_differentiable(name_of(e)));
  }

  /// As eager, which refuses only what is asked for: a gradient that is an Error when it is
  /// computed, which is after the tangents are there.
  void refuse_gradient(ValueId v, const std::string& why) {
    if (!active_[v]) return;
    std::vector<ValueId> operands = tangents_;
    operands.push_back(rewriter_.builder().zeros_like(rewriter_[v]));
    const ir::Type type = source_.type(v);
    const std::string text = ir::refusal_text(ir::Errc::Autograd, why);
    accumulate(v, rewriter_.builder().emit_call(ir::Op::custom_operator, operands,
                                                {std::string(ir::kRefuse), text}, {&type, 1})[0]);
  }

  std::string name_of(EquationId e) const {
    const ir::Op op = source_.op(e);
    return ir::has_attr(op, ir::Attr::operator_name)
               ? source_.attr<std::string>(e, ir::Attr::operator_name)
               : std::string(ir::name(op));
  }

  void apply_rule_of(EquationId e) {
    const ir::ValueList operands = rewriter_.operands(e);
    ir::ValueList results, arrived;
    for (ValueId v : source_.results(e)) {
      results.push_back(rewriter_[shown(v)]);
      arrived.push_back(cotangents_[v]);
    }
    ir::InlineVector<bool, 8> needs(operands.size());
    for (size_t i = 0; i < operands.size(); ++i)
      needs[i] = active_[source_.operands(e)[i]] && !vjp_rule(source_.op(e)).refuses(i);
    VjpContext context{rewriter_.builder(), source_.op(e), operands, results,
                       source_.attrs(e),    arrived,       needs};
    const VjpRule& rule = vjp_rule(source_.op(e));
    if (const std::string why = rule.refusal != nullptr ? rule.refusal(context) : "";
        !why.empty()) {
      for (ValueId v : source_.operands(e)) refuse_gradient(v, why);
      return;
    }
    const Gradients gradients = apply_vjp(context);
    for (size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i]) accumulate(source_.operands(e)[i], *gradients[i]);
  }

  void apply_backward_of(EquationId e) {
    const Graph& backward = source_.subgraph(source_.attr<ir::SubgraphId>(e, ir::Attr::backward));
    const bool is_hook = source_.op(e) == ir::Op::hook;
    const std::vector<ValueId> arguments =
        is_hook ? std::vector{cotangents_[source_.result(e)]} : backward_arguments(e, backward);
    const auto gradients = ir::inline_graph(rewriter_.target(), backward, arguments, true);
    for (size_t i = 0; i < gradients.size(); ++i) {
      const int operand = is_hook ? 0 : backward.outputs()[i].target;
      accumulate(source_.operands(e)[operand], gradients[i]);
    }
  }

  /// custom_function: the saved results, then a gradient for each of the others.
  std::vector<ValueId> backward_arguments(EquationId e, const Graph& backward) {
    const Graph& forward = source_.subgraph(source_.attr<ir::SubgraphId>(e, ir::Attr::forward));
    const auto is_saved = [](const ir::Output& o) { return o.role == Role::Saved; };
    int next_saved = static_cast<int>(std::ranges::find_if(forward.outputs(), is_saved) -
                                      forward.outputs().begin());
    std::vector<ValueId> arguments;
    for (const ir::Input& input : backward.inputs())
      arguments.push_back(input.role == Role::Saved ? saved_value(e, forward, next_saved++)
                                                    : cotangent(source_.result(e, input.target)));
    return arguments;
  }

  /// What forward saved, as the operand or result that it is where it is one: a gradient of the
  /// gradient flows through those, as on the tape.
  ValueId saved_value(EquationId e, const Graph& forward, int output) const {
    const ValueId saved = forward.outputs()[static_cast<size_t>(output)].value;
    if (const int input = forward.input_index(saved); input >= 0)
      return rewriter_[source_.operand(e, input)];
    const auto is_result = [&](const ir::Output& o) {
      return o.role != Role::Saved && o.value == saved;
    };
    const auto result = std::ranges::find_if(forward.outputs(), is_result);
    const bool found = result != forward.outputs().end();
    return rewriter_[shown(
        source_.result(e, found ? static_cast<int>(result - forward.outputs().begin()) : output))];
  }

  ValueId cotangent(ValueId v) {
    const ValueId sum = cotangents_[v];
    return sum.valid() ? sum : rewriter_.builder().zeros_like(rewriter_[v]);
  }

  void add_gradients() {
    for (size_t i = 0; i < source_.inputs().size(); ++i) {
      const ir::Input& input = source_.inputs()[i];
      if (!cotangents_[input.value].valid()) continue;
      ir::Output output;
      output.value = cotangents_[input.value];
      output.role = Role::Gradient;
      output.name = "d_" + input.name;
      output.strides = gradient_strides(source_.type(input.value).sizes, input.strides);
      output.target = static_cast<int>(i);
      rewriter_.target().add_output(std::move(output));
    }
  }

  const Graph& source_;
  const std::vector<bool>& own_;
  ir::Rewriter rewriter_;
  const ir::ValueMap<bool> active_;
  std::vector<ValueId> tangents_;     // inputs of the target
  ir::ValueMap<ValueId> cotangents_;  // the target's value; invalid: zero
  ir::ValueMap<ValueId> hooked_;      // by value that has hooks: what they give
};

/// Whether a gradient that arrives at `e` goes on to its operand.
bool has_gradient(const Graph& graph, EquationId e, int operand) {
  const VjpRule::Kind kind = vjp_rule(graph.op(e)).kind;
  if (kind != VjpRule::Kind::Subgraph) return kind != VjpRule::Kind::ZeroGradient;
  if (graph.op(e) == ir::Op::hook) return true;
  const Graph& backward = graph.subgraph(graph.attr<ir::SubgraphId>(e, ir::Attr::backward));
  return std::ranges::any_of(backward.outputs(),
                             [&](const ir::Output& o) { return o.target == operand; });
}

/// What the rule of `e` gives by operand if gradients arrive at those of its results only that are
/// `reached`.
Gradients gradients_alone(const Graph& graph, EquationId e, const ir::ValueMap<bool>& reached) {
  Graph alone("rule", ir::Level::Functional);
  ir::GraphSink sink(alone);
  ir::Builder builder(sink);
  const auto stand_in = [&](ValueId v) { return alone.add_input({}, graph.type(v)); };
  ir::ValueList operands, results, grads;
  for (ValueId v : graph.operands(e)) operands.push_back(stand_in(v));
  for (ValueId v : graph.results(e)) {
    results.push_back(stand_in(v));
    grads.push_back(reached[v] ? stand_in(v) : ValueId());
  }
  const ir::InlineVector<bool, 8> needs(operands.size(), true);
  VjpContext context{builder, graph.op(e), operands, results, graph.attrs(e), grads, needs};
  return apply_vjp(context);
}

/// By operand of `e`, at some results of which a gradient arrives: whether it goes on.
ir::InlineVector<bool, 8> passed_on(const Graph& graph, EquationId e,
                                    const ir::ValueMap<bool>& reached) {
  ir::InlineVector<bool, 8> passed;
  const size_t count = graph.operands(e).size();
  const VjpRule& rule = vjp_rule(graph.op(e));
  // (What a rule may refuse goes on: as an Error when it is computed.)
  const bool is_by_rule = rule.kind == VjpRule::Kind::Differentiable && rule.refusal == nullptr;
  if (is_by_rule && graph.results(e).size() > 1)
    for (const auto& gradient : gradients_alone(graph, e, reached))
      passed.push_back(gradient.has_value());
  for (size_t k = passed.size(); k < count; ++k)
    passed.push_back(has_gradient(graph, e, static_cast<int>(k)));
  return passed;
}

bool is_differentiable(const Graph& graph) {
  return std::ranges::any_of(graph.inputs(), &ir::Input::requires_grad) &&
         std::ranges::any_of(graph.outputs(), takes_tangent);
}

}  // namespace

std::vector<bool> active_results(const Graph& graph, ir::EquationId e,
                                 const std::vector<bool>& needs) {
  return ir::dependent_results(graph, e, needs, active_outputs);
}

std::vector<bool> reached_inputs(const Graph& graph, const std::vector<bool>& arrives) {
  const Graph functional = with_halves(ir::inline_calls(graph), &find_active).graph;
  const ir::ValueMap<bool> active = find_active(functional);
  ir::ValueMap<bool> reached(functional);
  for (size_t i = 0; i < functional.outputs().size(); ++i)
    if (arrives[i]) reached[functional.outputs()[i].value] = true;
  for (size_t i = functional.num_equations(); i-- > 0;) {
    const EquationId e = functional.equation_id(i);
    const auto is_reached = [&](ValueId v) { return bool{reached[v]}; };
    if (std::ranges::none_of(functional.results(e), is_reached)) continue;
    const auto passed = passed_on(functional, e, reached);
    for (size_t k = 0; k < passed.size(); ++k) {
      const ValueId operand = functional.operands(e)[k];
      if (passed[k] && active[operand]) reached[operand] = true;
    }
  }
  std::vector<bool> inputs;
  for (const ir::Input& input : functional.inputs()) inputs.push_back(reached[input.value]);
  return inputs;
}

Graph joint(const Graph& functional) {
  TANDEM_CHECK(functional.level == ir::Level::Functional, "joint takes a functional graph");
  if (is_differentiable(functional)) {
    const WithHalves all = with_halves(ir::inline_calls(functional), &find_active);
    return Differentiator(all.graph, all.own).run();
  }
  Graph unchanged = functional;
  unchanged.level = ir::Level::Joint;
  return unchanged;
}

}  // namespace tandem::autodiff
