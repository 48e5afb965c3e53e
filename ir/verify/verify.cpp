// The rules that verify.h lists, one function each.
#include "ir/verify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_set>

#include "ir/base/error.h"
#include "ir/build/effect.h"
#include "ir/text/text.h"
#include "ir/verify/check_bodies.h"
#include "ir/verify/check_equation.h"
#include "ir/verify/level_rules.h"

namespace tandem::ir {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, int depth) : g_(graph), depth_(depth) {}

  void run() {
    check_subgraphs();
    check_ports();
    check_inputs();
    check_equations();
    check_tokens();
    check_outputs();
    if (has_both_halves(g_.level)) check_halves();
    check_epilogue();
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    ir::fail(Errc::Graph, fmt::format("graph @{} ({}): {}", g_.name, name(g_.level),
                                      fmt::format(format, std::forward<Args>(args)...)));
  }
  [[noreturn]] void fail_at(EquationId e, std::string_view problem) const {
    std::string around = print_around(g_, e);
    if (around.ends_with('\n')) around.pop_back();
    fail("equation {}: {}\n{}", e.index, problem, around);
  }
  /// Runs `check`; what it throws is reported by `report`.
  template <class Check, class Report>
  static void guarded(Check check, Report report) {
    try {
      check();
    } catch (const Error& error) {
      report(error.what());
    }
  }

  const Type& type_of_output(int i) const { return g_.type(g_.outputs()[i].value); }
  const Type& type_of_input(int i) const { return g_.type(g_.inputs()[i].value); }
  bool is_input(int i) const { return i >= 0 && i < static_cast<int>(g_.inputs().size()); }
  bool is_output(int i) const { return i >= 0 && i < static_cast<int>(g_.outputs().size()); }
  bool is_subgraph() const { return depth_ > 1; }

  void check_subgraphs() const;
  void check_ports() const;
  void check_inputs() const;
  void check_input(const Input& input) const;
  void check_alias(size_t input) const;
  Dim alias_offset(const Input& input) const;
  void require_target(const Input& input, const char* what) const;
  void check_tangent(const Input& input) const;
  void check_layout(const Type& type, const Strides& strides, bool requires_grad,
                    const std::string& what) const;
  void check_equations() const;
  void check_equation_of_level(EquationId e) const;
  void check_marks(EquationId e) const;
  void check_control(EquationId e) const;
  void check_call(EquationId e, const Graph& body) const;
  void check_custom_backward(EquationId e) const;
  void check_tokens() const;
  void check_outputs() const;
  void check_output(int i) const;
  void check_halves() const;
  void check_epilogue() const;
  void check_write(const InputWrite& write) const;
  void check_results() const;
  Type type_of_source(const ResultSource& source, std::span<const Type> results) const;
  void check_change(const InputChange& change) const;
  void check_grad_write(const GradWrite& write) const;

  const Graph& g_;
  int depth_;
};

// --- inputs

void Verifier::check_subgraphs() const {
  if (depth_ > kMaxNesting) fail("subgraphs nested deeper than {}", kMaxNesting);
  for (const Graph& subgraph : g_.subgraphs()) {
    if (!may_have_subgraph(g_.level, subgraph.level))
      fail("subgraph @{} may not be of level {}", subgraph.name, name(subgraph.level));
    Verifier(subgraph, depth_ + 1).run();
  }
}

/// Every input is a value of its own, in order; all other values are results; outputs are values.
void Verifier::check_ports() const {
  ValueId last;
  for (const Input& input : g_.inputs()) {
    const bool is_value = input.value.index < g_.num_values();
    if (!is_value || g_.producer(input.value).valid())
      fail("input {} is not a value of its own", input.name);
    if (last.valid() && input.value <= last) fail("input {} is out of order", input.name);
    last = input.value;
  }
  size_t results = 0;
  for (const Equation& e : g_.equations()) results += e.result_count;
  if (g_.inputs().size() + results != g_.num_values())
    fail("a value is neither an input nor a result");
  for (size_t i = 0; i < g_.outputs().size(); ++i)
    if (g_.outputs()[i].value.index >= g_.num_values()) fail("output {} is not a value", i);
}

void Verifier::check_inputs() const {
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < g_.inputs().size(); ++i) {
    const Input& input = g_.inputs()[i];
    if (input.name.empty()) fail("input {} has no name", i);
    if (!names.insert(input.name).second) fail("two inputs are named {}", input.name);
  }
  for (const Input& input : g_.inputs()) check_input(input);
  for (size_t i = 0; i < g_.inputs().size(); ++i) check_alias(i);
}

void Verifier::check_layout(const Type& type, const Strides& strides, bool requires_grad,
                            const std::string& what) const {
  const auto check = [&] {
    check_type(type);
    tandem::ir::check_layout(type, strides);
  };
  guarded(check, [&](const char* problem) { fail("{}: {}", what, problem); });
  if (requires_grad && !is_differentiable(type))
    fail("{}: only floating tensors take part in differentiation; got {}", what, to_string(type));
}

void Verifier::check_input(const Input& input) const {
  const Type& type = g_.type(input.value);
  check_layout(type, input.strides, input.requires_grad, "input " + input.name);
  if (!is_subgraph() && !may_have_input(g_.level, input.role))
    fail("input {}: role {} is not one of this level", input.name, name(input.role));
  if (type.is_token != (input.role == Role::Token))
    fail("input {}: role {} with type {}", input.name, name(input.role), to_string(type));
  if (input.role == Role::Rng && type != Type{DType::I64, {2}})
    fail("input {}: an rng is i64[2]; got {}", input.name, to_string(type));
  if (input.role == Role::Tangent)
    check_tangent(input);
  else if (input.role == Role::Saved && g_.level == Level::Backward && !is_subgraph())
    require_target(input, "saved");
  else if (input.target != -1)
    fail("input {}: only tangents, and saved values of backward, have a target", input.name);
}

void Verifier::require_target(const Input& input, const char* what) const {
  if (input.target < 0) fail("{} {}: has no target", what, input.name);
}

void Verifier::check_tangent(const Input& input) const {
  if (!has_both_halves(g_.level)) return require_target(input, "tangent");
  if (!is_output(input.target)) fail("tangent {}: there is no output {}", input.name, input.target);
  const Role role = g_.outputs()[input.target].role;
  if (role != Role::Result && role != Role::MutatedInput)
    fail("tangent {}: output {} is a {}", input.name, input.target, name(role));
  const ValueId value = g_.outputs()[input.target].value;
  if (value.index < g_.num_values() && g_.type(value) != g_.type(input.value))
    fail("tangent {}: type {} of an output of type {}", input.name, to_string(g_.type(input.value)),
         to_string(g_.type(value)));
}

void Verifier::check_alias(size_t i) const {
  const Input& input = g_.inputs()[i];
  if (!input.alias_of) return;
  const Input* at = &input;
  for (size_t steps = 0; at->alias_of; ++steps) {
    if (!is_input(at->alias_of->input))
      fail("input {}: alias of input {}, which does not exist", at->name, at->alias_of->input);
    if (steps == g_.inputs().size()) fail("input {}: a cycle of aliases", input.name);
    at = &g_.inputs()[at->alias_of->input];
  }
  guarded([&] { check_alias_offset(alias_offset(input), g_.type(input.value), input.strides); },
          [&](const char* problem) { fail("input {}: {}", input.name, problem); });
}

/// From the first byte of the input whose memory `input` shows to its own. Checked.
Dim Verifier::alias_offset(const Input& input) const {
  Dim offset = 0;
  for (const Input* at = &input; at->alias_of;) {
    const Input* next = &g_.inputs()[at->alias_of->input];
    const size_t unit =
        std::min(size_of(g_.type(at->value).dtype), size_of(g_.type(next->value).dtype));
    offset = checked_add(
        offset, checked_mul(at->alias_of->offset, static_cast<int64_t>(unit), "offset"), "offset");
    at = next;
  }
  return offset;
}

// --- equations

void Verifier::check_equations() const {
  std::vector<Type> operands, results;
  for (size_t i = 0; i < g_.num_equations(); ++i) {
    const EquationId e = g_.equation_id(i);
    operands.clear();
    results.clear();
    for (ValueId v : g_.operands(e)) {
      const bool exists = v.index < g_.num_values();
      if (!exists || (g_.producer(v).valid() && g_.producer(v) >= e))
        fail_at(e, fmt::format("operand {} is not defined before", v.index));
      operands.push_back(g_.type(v));
    }
    for (ValueId v : g_.results(e)) results.push_back(g_.type(v));
    const Equation& equation = g_.equation(e);
    guarded([&] { check_equation(equation.op, equation.in_place, operands, g_.attrs(e), results); },
            [&](const char* problem) { fail_at(e, problem); });
    check_equation_of_level(e);
  }
}

void Verifier::check_equation_of_level(EquationId e) const {
  const Equation& equation = g_.equation(e);
  if (equation.in_place && g_.level != Level::Traced)
    fail_at(e, "in-place equations are only in traced graphs");
  if (is_composite(equation.op) && is_core_or_later(g_.level))
    fail_at(e, fmt::format("{} is not a primitive", name(equation.op)));
  const bool has_backward = is_core_or_later(g_.level) || g_.level == Level::Joint;
  if (equation.is_backward && !has_backward) fail_at(e, "this level has no backward half");
  check_marks(e);
  if (info(equation.op).cls == OpClass::Control) check_control(e);
}

void Verifier::check_marks(EquationId e) const {
  const Equation& equation = g_.equation(e);
  if (equation.region > kMaxRegion) fail_at(e, fmt::format("region {}", equation.region));
  if (equation.mark == Mark::Auto) return;
  if (!equation.in_place && must_run(effect_of(g_, e)))
    fail_at(e, fmt::format("marked {}, but it has effects: it runs once", name(equation.mark)));
}

void Verifier::check_control(EquationId e) const {
  for (const AttrValue& value : g_.attrs(e))
    if (const auto* id = std::get_if<SubgraphId>(&value); id && id->index >= g_.subgraphs().size())
      fail_at(e, fmt::format("there is no subgraph {}", id->index));
  if (is_control_flow(g_.op(e)))
    return guarded([&] { check_bodies(g_, e); }, [&](const char* problem) { fail_at(e, problem); });
  if (has_attr(g_.op(e), Attr::body))
    check_call(e, g_.subgraph(g_.attr<SubgraphId>(e, Attr::body)));
  if (has_attr(g_.op(e), Attr::forward))
    check_call(e, g_.subgraph(g_.attr<SubgraphId>(e, Attr::forward)));
  if (has_attr(g_.op(e), Attr::backward)) check_custom_backward(e);
}

void Verifier::check_call(EquationId e, const Graph& body) const {
  const auto operands = g_.operands(e), results = g_.results(e);
  if (operands.size() != body.inputs().size() || results.size() != body.outputs().size())
    fail_at(e, fmt::format("@{} maps {} inputs to {} outputs; got {} operands and {} results",
                           body.name, body.inputs().size(), body.outputs().size(), operands.size(),
                           results.size()));
  const auto check = [&](const Type& got, const Type& expected, const char* what, size_t i) {
    if (got != expected)
      fail_at(e, fmt::format("{} {} of @{} has type {}; expected {}", what, i, body.name,
                             to_string(got), to_string(expected)));
  };
  for (size_t i = 0; i < operands.size(); ++i)
    check(g_.type(operands[i]), body.type(body.inputs()[i].value), "operand", i);
  for (size_t i = 0; i < results.size(); ++i)
    check(g_.type(results[i]), body.type(body.outputs()[i].value), "result", i);
}

/// backward: (the Saved results in order, a tangent for each other result) -> gradients.
void Verifier::check_custom_backward(EquationId e) const {
  const Graph& backward = g_.subgraph(g_.attr<SubgraphId>(e, Attr::backward));
  std::vector<Type> expected, tangents;
  const bool custom = has_attr(g_.op(e), Attr::forward);
  for (size_t i = 0; i < g_.results(e).size(); ++i) {
    const bool saved =
        custom &&
        g_.subgraph(g_.attr<SubgraphId>(e, Attr::forward)).outputs()[i].role == Role::Saved;
    (saved ? expected : tangents).push_back(g_.type(g_.results(e)[i]));
  }
  std::ranges::copy(tangents, std::back_inserter(expected));
  const auto type_of = [&](const auto& port) { return backward.type(port.value); };
  if (!std::ranges::equal(backward.inputs(), expected, {}, type_of))
    fail_at(e, fmt::format("@{} does not take (saved results, tangents)", backward.name));
  const auto operands = g_.operands(e);
  if (!custom && backward.outputs().size() != 1)
    fail_at(e, fmt::format("@{} does not give one gradient", backward.name));
  for (const Output& gradient : backward.outputs()) {
    const int target = custom ? gradient.target : 0;
    if (target < 0 || target >= static_cast<int>(operands.size()) ||
        type_of(gradient) != g_.type(operands[target]))
      fail_at(e, fmt::format("@{} gives a gradient that is of no operand", backward.name));
  }
}

void Verifier::check_tokens() const {
  const std::vector<uint32_t> uses = use_counts(g_);
  for (uint32_t v = 0; v < g_.num_values(); ++v)
    if (g_.type({v}).is_token && uses[v] > 1)
      fail("token {} has {} uses; expected one", v, uses[v]);
}

// --- outputs

void Verifier::check_outputs() const {
  for (size_t i = 0; i < g_.outputs().size(); ++i) check_output(static_cast<int>(i));
}

void Verifier::check_output(int i) const {
  const Output& output = g_.outputs()[i];
  const Type& type = g_.type(output.value);
  check_layout(type, output.strides, output.requires_grad, fmt::format("output {}", i));
  if (!is_subgraph() && !may_have_output(g_.level, output.role))
    fail("output {}: role {} is not one of this level", i, name(output.role));
  if (type.is_token != (output.role == Role::Token))
    fail("output {}: role {} with type {}", i, name(output.role), to_string(type));
  const bool targets = output.role == Role::MutatedInput || output.role == Role::Gradient;
  if (!targets && output.target != -1) fail("output {}: a {} has no target", i, name(output.role));
  if (!targets) return;
  if (g_.level == Level::Backward || is_subgraph()) {
    if (output.target < 0) fail("output {}: has no target", i);
    return;
  }
  if (!is_input(output.target)) fail("output {}: there is no input {}", i, output.target);
  const Input& input = g_.inputs()[output.target];
  if (type != g_.type(input.value))
    fail("output {}: type {} for input {} of type {}", i, to_string(type), input.name,
         to_string(g_.type(input.value)));
}

/// The forward half must be computable before any tangent is there.
void Verifier::check_halves() const {
  ValueMap<bool> dependent(g_);
  for (const Input& input : g_.inputs()) dependent[input.value] = input.role == Role::Tangent;
  for (const Equation& e : g_.equations()) {
    const bool any =
        std::ranges::any_of(g_.operands(e), [&](ValueId v) { return bool{dependent[v]}; });
    for (ValueId v : g_.operands(e))
      if (any && g_.type(v).is_token && !dependent[v])
        fail(
            "{} depends on a tangent and takes token {}, which does not; expected one that a "
            "first_token of the backward half began",
            name(e.op), v.index);
    for (ValueId v : g_.results(e)) dependent[v] = any;
  }
  for (size_t i = 0; i < g_.outputs().size(); ++i) {
    const Output& output = g_.outputs()[i];
    const bool forward = output.role != Role::Gradient && output.role != Role::Token;
    if (forward && dependent[output.value])
      fail("output {}: a {} depends on a tangent", i, name(output.role));
  }
}

// --- the epilogue

void Verifier::check_epilogue() const {
  const Epilogue& epilogue = g_.epilogue;
  if (g_.level == Level::Traced && !(epilogue.writes.empty() && epilogue.results.empty()))
    fail("the epilogue of a traced graph has no writes and no results");
  for (const InputWrite& write : epilogue.writes) check_write(write);
  check_results();
  for (const InputChange& change : epilogue.changes) check_change(change);
  for (const GradWrite& write : epilogue.grads) check_grad_write(write);
  if (epilogue.rng_draws < 0) fail("negative rng_draws {}", int64_t{epilogue.rng_draws});
}

void Verifier::check_write(const InputWrite& write) const {
  if (!is_output(write.output)) fail("write: there is no output {}", write.output);
  if (!is_input(write.input)) fail("write: there is no input {}", write.input);
  const Output& output = g_.outputs()[write.output];
  if (output.role != Role::MutatedInput || output.target != write.input)
    fail("write: output {} is not the final contents of input {}", write.output, write.input);
  if (write.version_bumps < 0) fail("write: negative bumps {}", write.version_bumps);
}

void Verifier::check_results() const {
  std::vector<Type> types;
  for (const ResultSource& source : g_.epilogue.results) {
    guarded([&] { types.push_back(type_of_source(source, types)); },
            [&](const char* problem) { fail("result {}: {}", types.size(), problem); });
    if (source.requires_grad && !is_differentiable(types.back()))
      fail("result {}: only floating tensors take part in differentiation; got {}",
           types.size() - 1, to_string(types.back()));
    if (source.history == -1) continue;
    if (!is_output(source.history) || source.chain.empty() || !source.requires_grad)
      fail("result {}: history of output {}; expected an output, for a view that requires grad",
           types.size() - 1, source.history);
    if (type_of_output(source.history) != types.back())
      fail("result {}: history of output {}, of another type", types.size() - 1, source.history);
  }
}

Type Verifier::type_of_source(const ResultSource& source, std::span<const Type> results) const {
  using Kind = ResultSource::Kind;
  const bool of_input = source.kind == Kind::Input || source.kind == Kind::ViewOfInput;
  const bool exists = source.kind == Kind::Output ? is_output(source.index)
                      : of_input
                          ? is_input(source.index)
                          : source.index >= 0 && source.index < static_cast<int>(results.size());
  if (!exists)
    ir::fail(Errc::Graph, fmt::format("{} {} does not exist", name(source.kind), source.index));
  // (A view of an earlier result without a chain is that tensor again.)
  if (source.kind == Kind::ViewOfInput && source.chain.empty())
    ir::fail(Errc::Graph, "a view without a chain");
  if (source.kind == Kind::Input && !source.chain.empty())
    ir::fail(Errc::Graph, "a chain without a view");
  Type type = source.kind == Kind::Output ? type_of_output(source.index)
              : of_input                  ? type_of_input(source.index)
                                          : results[source.index];
  for (const ViewStep& step : source.chain) type = check_view_step(step.op, type, step.attrs);
  return type;
}

void Verifier::check_change(const InputChange& change) const {
  if (!is_input(change.input)) fail("change: there is no input {}", change.input);
  const auto is_result = [](const Output& o) { return o.role == Role::Result; };
  const auto results = g_.level == Level::Traced
                           ? std::ranges::count_if(g_.outputs(), is_result)
                           : static_cast<ptrdiff_t>(g_.epilogue.results.size());
  if (change.result < -1 || change.result >= results)
    fail("change: there is no result {}", change.result);
  if (change.version_bumps < 0) fail("change: negative bumps {}", change.version_bumps);
  if (change.requires_grad.value_or(false) && !is_differentiable(type_of_input(change.input).dtype))
    fail("change: only floating tensors take part in differentiation");
}

void Verifier::check_grad_write(const GradWrite& write) const {
  if (!is_input(write.input)) fail("grad: there is no input {}", write.input);
  if (write.output == -1) return;
  if (!is_output(write.output)) fail("grad: there is no output {}", write.output);
  if (type_of_output(write.output) != type_of_input(write.input))
    fail("grad: type {} for input {} of type {}", to_string(type_of_output(write.output)),
         g_.inputs()[write.input].name, to_string(type_of_input(write.input)));
}

}  // namespace

void verify(const Graph& graph) { Verifier(graph, 1).run(); }

void verify_after(std::string_view pass, const Graph& graph) {
  try {
    verify(graph);
  } catch (const Error& error) {
    throw InternalError(fmt::format("internal check failed after {}: {}", pass, error.what()));
  }
}

bool verification_enabled() {
#ifdef TANDEM_DEV
  return true;
#else
  static const bool enabled = [] {
    const char* value = std::getenv("TANDEM_VERIFY");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return enabled;
#endif
}

}  // namespace tandem::ir
