// Splitting a joint graph at a given set of saved values. Each half is a copy of the equations that
// it needs; backward emits what it recomputes just before the first use.
#include "partition/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <ranges>
#include <unordered_set>

#include "ir/base/error.h"
#include "ir/build/rewrite.h"
#include "ir/verify/verify.h"
#include "partition/flow/network.h"
#include "partition/partition.h"

namespace tandem::partition {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::Input;
using ir::Output;
using ir::Role;
using ir::ValueId;

/// Where inputs and outputs of the joint graph went in a half; -1: not there.
using Positions = std::vector<int>;

std::vector<ValueId> in_graph_order(std::span<const ValueId> values) {
  std::vector<ValueId> out(values.begin(), values.end());
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

void require_computable_in_forward(const Analysis& a, std::span<const ValueId> saved) {
  for (ValueId v : saved)
    if (a.needs_tangent[v])
      ir::fail(ir::Errc::Partition,
               fmt::format("split: saved value {} depends on a tangent; expected a value that "
                           "forward can compute",
                           value_name(a.graph, v)));
}

/// Names that are unique within one half, from the joint graph's.
class Names {
 public:
  std::string unique(std::string wanted) {
    if (taken_.insert(wanted).second) return wanted;
    for (int i = 1;; ++i)
      if (std::string name = fmt::format("{}_{}", wanted, i); taken_.insert(name).second)
        return name;
  }

 private:
  std::unordered_set<std::string> taken_;
};

/// Copies equations from the joint graph into one half.
class Half {
 public:
  Half(const Analysis& analysis, std::string_view suffix, ir::Level level)
      : a_(analysis), rewriter_(analysis.graph) {
    target().name = fmt::format("{}_{}", a_.graph.name, suffix);
    target().level = level;
  }

  Graph& target() { return rewriter_.target(); }

  void add_input(Input input, ValueId v) {
    input.name = names_.unique(std::move(input.name));
    rewriter_.set(v, target().add_input(std::move(input), a_.graph.type(v)));
  }

  void add_output(Output output) {
    const ValueId value = rewriter_[output.value];
    add_output(std::move(output), value);
  }

  /// Saves `v`; an input that the epilogue writes is copied before.
  void save(ValueId v) {
    const bool copied = a_.is_primal(v) && !a_.is_free_to_save(v);
    add_output({v, Role::Saved, value_name(a_.graph, v), false, a_.saved_strides(v), -1},
               copied ? rewriter_.builder().clone(rewriter_[v]) : rewriter_[v]);
  }

  /// Emits what `wanted` are computed from and is not there yet: first what the first of them
  /// needs, then what the second needs beyond that, and so on, each in the joint graph's order.
  void compute(std::span<const ValueId> wanted) {
    std::vector<size_t> turn(a_.graph.num_equations(), kNever);  // the first of them that needs it
    const auto require = [&](ValueId v, size_t when) {
      if (rewriter_.has(v)) return;
      require_computable(v);
      size_t& known = turn[a_.producer(v).index];
      known = std::min(known, when);
    };
    for (size_t i = 0; i < wanted.size(); ++i) require(wanted[i], i);
    for (size_t i = turn.size(); i-- > 0;)
      if (turn[i] != kNever)
        for (ValueId operand : a_.graph.operands(a_.graph.equation_id(i)))
          require(operand, turn[i]);
    for (EquationId e : in_turn(turn, wanted.size())) copy(e);
  }

  Graph take() { return rewriter_.take(); }

 private:
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();

  /// The equations that have a turn, by that; those of one in order.
  static std::vector<EquationId> in_turn(std::span<const size_t> turn, size_t turns) {
    std::vector<size_t> next(turns + 1);
    for (size_t t : turn)
      if (t != kNever) ++next[t + 1];
    for (size_t t = 1; t < next.size(); ++t) next[t] += next[t - 1];
    std::vector<EquationId> equations(next.back());
    for (uint32_t i = 0; i < turn.size(); ++i)
      if (turn[i] != kNever) equations[next[turn[i]]++] = {i};
    return equations;
  }

  void add_output(Output output, ValueId value) {
    output.value = value;
    output.name = names_.unique(std::move(output.name));
    target().add_output(std::move(output));
  }

  void require_computable(ValueId v) const {
    if (!a_.producer(v).valid())
      ir::fail(ir::Errc::Partition,
               fmt::format("split: backward needs input {}, which is not saved; expected it or "
                           "what is computed from it among the saved values",
                           value_name(a_.graph, v)));
  }

  // A saved value of an equation with several results keeps the half's own copy.
  void copy(EquationId e) {
    std::vector<std::pair<ValueId, ValueId>> own;
    for (ValueId v : a_.graph.results(e))
      if (rewriter_.has(v)) own.emplace_back(v, rewriter_[v]);
    rewriter_.copy(e);
    mark_half();
    for (const auto& [v, value] : own) rewriter_.set(v, value);
  }

  // Forward has no backward half: what it computes for backward is its own.
  void mark_half() {
    if (target().level != ir::Level::Forward) return;
    target().equation(target().equation_id(target().num_equations() - 1)).is_backward = false;
  }

  const Analysis& a_;
  ir::Rewriter rewriter_;
  Names names_;
};

int moved(const Positions& positions, int index) {
  if (index < 0) return index;
  const int position = positions[static_cast<size_t>(index)];
  TANDEM_CHECK(position >= 0, "forward's epilogue refers to a gradient or a tangent");
  return position;
}

ir::Epilogue moved(ir::Epilogue epilogue, const Positions& inputs, const Positions& outputs) {
  using Kind = ir::ResultSource::Kind;
  for (auto& write : epilogue.writes) {
    write.input = moved(inputs, write.input);
    write.output = moved(outputs, write.output);
  }
  for (auto& result : epilogue.results) {
    if (result.kind == Kind::Output) result.index = moved(outputs, result.index);
    if (result.kind == Kind::Input || result.kind == Kind::ViewOfInput)
      result.index = moved(inputs, result.index);
    result.history = moved(outputs, result.history);
  }
  for (auto& change : epilogue.changes) change.input = moved(inputs, change.input);
  for (auto& grad : epilogue.grads) {
    grad.input = moved(inputs, grad.input);
    grad.output = moved(outputs, grad.output);
  }
  return epilogue;
}

/// Where forward's inputs (all but the tangents) and outputs (before what it saves) stand.
Positions forward_inputs(const Graph& core) {
  Positions positions;
  int next = 0;
  for (const Input& input : core.inputs()) positions.push_back(is_tangent(input) ? -1 : next++);
  return positions;
}

Positions forward_outputs(const Analysis& a) {
  Positions positions;
  int next = 0;
  for (bool of_backward : a.of_backward) positions.push_back(of_backward ? -1 : next++);
  return positions;
}

/// The joint graph's outputs that one half returns.
auto outputs_of(const Analysis& a, bool backward) {
  const auto is_of_half = [&a, backward](size_t i) { return a.of_backward[i] == backward; };
  return std::views::iota(size_t{0}, a.of_backward.size()) | std::views::filter(is_of_half) |
         std::views::transform([&a](size_t i) -> const Output& { return a.graph.outputs()[i]; });
}

/// What passes from forward to backward.
struct SavedSet {
  std::vector<ValueId> values;
  std::vector<int> output;  // by value: the output of forward that it is
};

/// Saved values follow forward's own outputs, but for those that are among these.
SavedSet saved_set(const Analysis& a, std::vector<ValueId> values) {
  const Positions positions = forward_outputs(a);
  auto next = static_cast<int>(std::ranges::count(a.of_backward, false));
  SavedSet saved{std::move(values), {}};
  for (ValueId v : saved.values) {
    const int result = a.held_result[v];
    saved.output.push_back(result >= 0 ? positions[static_cast<size_t>(result)] : next++);
  }
  return saved;
}

Graph make_forward(const Analysis& a, const SavedSet& saved) {
  const Graph& core = a.graph;
  const Positions inputs = forward_inputs(core), outputs = forward_outputs(a);
  Half half(a, "forward", ir::Level::Forward);
  for (Input input : core.inputs()) {
    if (is_tangent(input)) continue;
    if (input.alias_of) input.alias_of->input = moved(inputs, input.alias_of->input);
    half.add_input(input, input.value);
  }
  std::vector<ValueId> wanted;
  for (const Output& output : outputs_of(a, false)) wanted.push_back(output.value);
  const size_t results = wanted.size();
  for (ValueId token : a.tokens)
    if (!a.needs_tangent[token]) wanted.push_back(token);
  wanted.insert(wanted.end(), saved.values.begin(), saved.values.end());
  half.compute(wanted);
  for (Output output : outputs_of(a, false)) {
    output.target = moved(inputs, output.target);
    half.add_output(std::move(output));
  }
  for (size_t i = 0; i < saved.values.size(); ++i)
    if (saved.output[i] >= static_cast<int>(results)) half.save(saved.values[i]);
  half.target().epilogue = moved(core.epilogue, inputs, outputs);
  return half.take();
}

// The equations that depend on a tangent keep their order; before each stands what it recomputes.
Graph make_backward(const Analysis& a, const SavedSet& saved) {
  const Graph& core = a.graph;
  const Positions outputs = forward_outputs(a);
  Half half(a, "backward", ir::Level::Backward);
  for (size_t i = 0; i < saved.values.size(); ++i) {
    const ValueId v = saved.values[i];
    half.add_input(
        {v, Role::Saved, value_name(core, v), false, a.saved_strides(v), {}, saved.output[i]}, v);
  }
  for (Input input : core.inputs()) {
    if (!is_tangent(input)) continue;
    input.target = moved(outputs, input.target);
    half.add_input(input, input.value);
  }
  std::vector<ValueId> wanted;
  for (size_t i = 0; i < core.num_equations(); ++i) {
    const ValueId result = core.result(core.equation_id(i));
    if (a.needs_tangent[result] && a.backward[result]) wanted.push_back(result);
  }
  for (const Output& output : outputs_of(a, true)) wanted.push_back(output.value);
  half.compute(wanted);
  for (const Output& output : outputs_of(a, true)) half.add_output(output);
  return half.take();
}

// The contract: of joint (p, t) -> (o, g), forward is p -> (o, saved), backward (saved, t) -> g.

template <class Items, class Keep>
std::vector<ir::Type> types_of(const Graph& graph, Items&& items, Keep keep) {
  std::vector<ir::Type> types;
  for (const auto& item : items)
    if (keep(item)) types.push_back(graph.type(item.value));
  return types;
}

/// A Saved input of backward whose target is no output of forward of its type, or null.
const Input* unmatched_saved_input(const ir::Partition& partition) {
  const Graph &forward = partition.forward, &backward = partition.backward;
  for (const Input& input : backward.inputs()) {
    if (input.role != Role::Saved) continue;
    const auto output = static_cast<size_t>(input.target);
    if (input.target < 0 || output >= forward.outputs().size() ||
        forward.type(forward.outputs()[output].value) != backward.type(input.value))
      return &input;
  }
  return nullptr;
}

/// What is not as the contract says; null if all is.
const char* violation(const Analysis& a, const ir::Partition& partition) {
  const Graph &core = a.graph, &forward = partition.forward, &backward = partition.backward;
  const auto all = [](const auto&) { return true; };
  const auto not_saved = [](const auto& item) { return item.role != Role::Saved; };
  const auto primal = [](const Input& input) { return !is_tangent(input); };
  if (forward.level != ir::Level::Forward || backward.level != ir::Level::Backward)
    return "graphs of the levels forward and backward";
  if (types_of(forward, forward.inputs(), all) != types_of(core, core.inputs(), primal))
    return "forward's inputs: the graph's, without tangents";
  if (types_of(forward, forward.outputs(), not_saved) != types_of(core, outputs_of(a, false), all))
    return "forward's outputs: the graph's without gradients, and saved values";
  if (unmatched_saved_input(partition))
    return "as target of each saved input of backward an output of forward of its type";
  if (types_of(backward, backward.inputs(), not_saved) != types_of(core, core.inputs(), is_tangent))
    return "backward's inputs: saved values and the graph's tangents";
  if (types_of(backward, backward.outputs(), all) != types_of(core, outputs_of(a, true), all))
    return "backward's outputs: the graph's gradients";
  return nullptr;
}

}  // namespace

void require_contract(const Graph& core, const ir::Partition& partition,
                      std::string_view partitioner) {
  const auto refuse = [&](const std::string& why) {
    ir::fail(ir::Errc::Partition, fmt::format("partitioner {}: {}", partitioner, why));
  };
  try {
    ir::verify(partition.forward);
    ir::verify(partition.backward);
  } catch (const ir::Error& error) {
    refuse(error.what());
  }
  if (const char* expected = violation(Analysis(core), partition))
    refuse(fmt::format("its halves do not fit the graph; expected {}", expected));
}

ir::Partition split(const Graph& core, std::span<const ValueId> saved,
                    const std::vector<bool>& held_outputs) {
  return split(Analysis(core, held_outputs), saved);
}

ir::Partition split(const Analysis& analysis, std::span<const ValueId> saved_values) {
  std::vector<ValueId> bases;
  for (ValueId v : saved_values) bases.push_back(analysis.base(v));
  const SavedSet saved = saved_set(analysis, in_graph_order(bases));
  require_computable_in_forward(analysis, saved.values);
  ir::Partition partition;
  partition.forward = make_forward(analysis, saved);
  partition.backward = make_backward(analysis, saved);
  const char* broken = violation(analysis, partition);
  TANDEM_CHECK(broken == nullptr, broken);
  return partition;
}

}  // namespace tandem::partition
