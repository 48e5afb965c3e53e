// The gradient of a scan or cond is one that computes again what the first computed, a scan from
// the carries that the steps began with. What products are part of is not worth computing twice:
// the first gives it as a further result (a scan for all steps, a cond from whichever branch was
// taken), and the second takes that as a further operand.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "decomps/loops/shared_values.h"
#include "decomps/simplify.h"
#include "ir/build/body_graph.h"
#include "ir/build/rewrite.h"

namespace tandem::decomps {
namespace {

using ir::Attr;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::Type;
using ir::ValueId;

/// How many times as much as what it takes of each step anyway the second may be given.
constexpr int64_t kMostGiven = 8;

bool has_gradient(Op op) { return op == Op::scan || op == Op::cond; }

std::vector<Attr> bodies_of(Op op) {
  return op == Op::scan ? std::vector{Attr::body} : std::vector{Attr::then, Attr::otherwise};
}

/// An equation with bodies, which read its operands from `first_read` on.
struct Bodied {
  Bodied(const Graph& graph, EquationId e)
      : op(graph.op(e)), operands(graph.operands(e)), results(graph.results(e)) {
    for (const Attr attr : bodies_of(op))
      bodies.push_back(&graph.subgraph(graph.attr<ir::SubgraphId>(e, attr)));
    if (op == Op::cond) return;
    carries = static_cast<size_t>(graph.attr<int64_t>(e, Attr::carries));
    whole = carries + static_cast<size_t>(graph.attr<int64_t>(e, Attr::constants));
    length = graph.attr<ir::Dim>(e, Attr::length);
  }

  bool is_scan() const { return op == Op::scan; }
  size_t first_read() const { return is_scan() ? 0 : 1; }
  bool varies(size_t input) const { return !is_scan() || input < carries || input >= whole; }
  /// Of a result or operand for all steps: that of one.
  Type of_step(const Type& type) const { return is_scan() ? ir::slice_of(type) : type; }
  Type of_all(const Type& type) const { return is_scan() ? ir::stack_of(type, length) : type; }

  Op op;
  std::span<const ValueId> operands, results;
  std::vector<const Graph*> bodies;
  size_t carries = 0, whole = 0;  // of a scan: carries; carries and constants
  ir::Dim length = 0;
};

/// What input `i` of body `b` of the second is in that body of the first; or invalid.
ValueId input_of_first(const Bodied& first, const Bodied& second, size_t b, size_t i) {
  const Graph& body = *first.bodies[b];
  if (second.is_scan() && i < second.carries) return {};
  const ValueId operand = second.operands[i + second.first_read()];
  for (size_t k = 0; k < body.inputs().size(); ++k) {
    const bool is_alike =
        !first.is_scan() || (k >= first.carries && (k < first.whole) == (i < second.whole));
    if (is_alike && first.operands[k + first.first_read()] == operand)
      return body.inputs()[k].value;
  }
  if (second.is_scan() && i < second.whole) return {};
  for (size_t r = first.carries; r < first.results.size(); ++r)
    if (first.results[r] == operand) return body.outputs()[r].value;
  return {};
}

/// What the second takes, by body.
using Shared = std::vector<std::vector<SharedValue>>;

Shared find_shared(const Bodied& first, const Bodied& second) {
  int64_t taken = 0;
  for (size_t i = second.first_read() + second.whole; i < second.operands.size(); ++i)
    taken += ir::size_in_bytes(
        second.bodies[0]->type(second.bodies[0]->inputs()[i - second.first_read()].value));
  Shared shared;
  for (size_t b = 0; b < second.bodies.size(); ++b) {
    BodyPair pair{*first.bodies[b], *second.bodies[b], {}, {}};
    for (size_t i = 0; i < pair.second.inputs().size(); ++i) {
      pair.inputs.push_back(input_of_first(first, second, b, i));
      pair.varies.push_back(second.varies(i));
    }
    shared.push_back(choose_shared_values(pair, kMostGiven * taken));
  }
  return shared;
}

/// Copies a graph, its scans and conds with what they give and take.
class Sharer {
 public:
  explicit Sharer(const Graph& graph) : source_(graph), rewriter_(graph) {
    for (uint32_t i = 0; i < graph.num_equations(); ++i)
      if (has_gradient(graph.op({i}))) find_first({i});
  }

  bool changes() const { return !taken_.empty(); }

  Graph run() {
    rewriter_.copy_inputs();
    for (uint32_t i = 0; i < source_.num_equations(); ++i)
      taken_.contains(i) || wanted_.contains(i) ? write({i}) : rewriter_.copy({i});
    rewriter_.copy_outputs();
    return ir::remove_dead_code(rewriter_.take());
  }

 private:
  struct Taken {
    EquationId from;
    Shared shared;
  };
  /// A further result: of each body a value, or none (then zeros).
  struct Slot {
    Type type;
    std::vector<ValueId> values;
  };
  /// Of an equation's body a value.
  using Place = std::tuple<uint32_t, size_t, ValueId>;

  /// One that the equation takes results of and may share more with.
  void find_first(EquationId e) {
    const Bodied second(source_, e);
    for (const EquationId from : second.is_scan() ? scans_before(second) : conds_before(second)) {
      Shared shared = find_shared(Bodied(source_, from), second);
      if (std::ranges::all_of(shared, [](const auto& values) { return values.empty(); })) continue;
      for (size_t b = 0; b < shared.size(); ++b)
        for (const SharedValue& v : shared[b]) want(from, second.bodies.size(), b, v.given);
      taken_.emplace(e.index, Taken{from, std::move(shared)});
      return;
    }
    if (!second.is_scan()) conds_[second.operands[0].index].push_back(e);
  }

  /// Scans of as many steps, of which `second` takes results.
  std::vector<EquationId> scans_before(const Bodied& second) const {
    std::vector<EquationId> scans;
    for (const ValueId operand : second.operands) {
      const EquationId from = source_.producer(operand);
      if (!from.valid() || source_.op(from) != Op::scan || std::ranges::count(scans, from) != 0)
        continue;
      if (source_.attr<ir::Dim>(from, Attr::length) == second.length) scans.push_back(from);
    }
    return scans;
  }

  /// Conds that chose by the predicate of `second`.
  std::vector<EquationId> conds_before(const Bodied& second) const {
    const auto known = conds_.find(second.operands[0].index);
    return known == conds_.end() ? std::vector<EquationId>() : known->second;
  }

  void want(EquationId from, size_t bodies, size_t b, ValueId v) {
    auto& wanted = wanted_[from.index];
    wanted.resize(bodies);
    wanted[b].insert(v);
  }

  void write(EquationId e) {
    rewriter_.at(e);
    const Bodied equation(source_, e);
    const std::vector<ValueId> takes = results_taken(e);
    const size_t own = equation.results.size();
    const std::vector<Slot> slots = slots_of(e, equation);

    ir::ValueList operands = rewriter_.operands(e);
    for (const ValueId v : takes) operands.push_back(v);
    std::vector<Type> types;
    for (const ValueId v : equation.results) types.push_back(source_.type(v));
    for (const Slot& slot : slots) types.push_back(equation.of_all(slot.type));
    std::vector<ir::AttrValue> attrs(source_.attrs(e).begin(), source_.attrs(e).end());
    const std::vector<Attr> names = bodies_of(equation.op);
    for (size_t b = 0; b < names.size(); ++b)
      attrs[static_cast<size_t>(ir::attr_index(equation.op, names[b]))] =
          rewriter_.target().add_subgraph(body(e, equation, b, takes, slots));

    const ir::ValueList results =
        rewriter_.builder().emit_call(equation.op, operands, attrs, types);
    rewriter_.replace(e, std::span(results).first(own));
    note_given(e, equation, slots, results);
  }

  /// The results that the equation takes beside its operands.
  std::vector<ValueId> results_taken(EquationId e) const {
    const auto found = taken_.find(e.index);
    std::vector<ValueId> results;
    if (found == taken_.end()) return results;
    for (size_t b = 0; b < found->second.shared.size(); ++b)
      for (const SharedValue& v : found->second.shared[b]) {
        const ValueId result = given_.at({found->second.from.index, b, v.given});
        if (std::ranges::count(results, result) == 0) results.push_back(result);
      }
    return results;
  }

  /// Which of its results a body's value is for all steps; the number of results if it is none.
  static size_t result_that_is(const Bodied& equation, size_t b, ValueId v) {
    size_t r = equation.carries;
    while (r < equation.results.size() && equation.bodies[b]->outputs()[r].value != v) ++r;
    return r;
  }

  /// What others want of the equation and it does not give yet. Branches share the slots.
  std::vector<Slot> slots_of(EquationId e, const Bodied& equation) const {
    std::vector<Slot> slots;
    const auto found = wanted_.find(e.index);
    if (found == wanted_.end()) return slots;
    for (size_t b = 0; b < found->second.size(); ++b)
      for (const ValueId v : found->second[b]) {
        if (result_that_is(equation, b, v) < equation.results.size()) continue;
        const Type type = equation.bodies[b]->type(v);
        const auto is_free = [&](const Slot& s) { return s.type == type && !s.values[b].valid(); };
        auto slot = std::ranges::find_if(slots, is_free);
        if (slot == slots.end())
          slot = slots.insert(slot, {type, std::vector<ValueId>(found->second.size())});
        slot->values[b] = v;
      }
    return slots;
  }

  void note_given(EquationId e, const Bodied& equation, const std::vector<Slot>& slots,
                  std::span<const ValueId> results) {
    const auto found = wanted_.find(e.index);
    if (found == wanted_.end()) return;
    for (size_t b = 0; b < found->second.size(); ++b)
      for (const ValueId v : found->second[b]) {
        size_t r = result_that_is(equation, b, v);
        if (r == equation.results.size())
          while (slots[r - equation.results.size()].values[b] != v) ++r;
        given_[{e.index, b, v}] = results[r];
      }
  }

  Graph body(EquationId e, const Bodied& equation, size_t b, std::span<const ValueId> takes,
             const std::vector<Slot>& slots) {
    const Graph& source = *equation.bodies[b];
    ir::Rewriter body(source);
    body.copy_inputs();
    for (const ValueId v : takes) take(e, equation, b, v, body);
    for (uint32_t i = 0; i < source.num_equations(); ++i) {
      const auto results = source.results(EquationId{i});
      const auto is_taken = [&](ValueId v) { return body.has(v); };
      if (results.empty() || !std::ranges::all_of(results, is_taken)) body.copy({i});
    }
    body.copy_outputs();
    for (const Slot& slot : slots) give(slot, b, body);
    return ir::remove_dead_code(body.take());
  }

  /// An input for result `v` of another equation, and the values of body `b` that it is.
  void take(EquationId e, const Bodied& equation, size_t b, ValueId v, ir::Rewriter& body) {
    const Type type = equation.of_step(rewriter_.target().type(v));
    ir::Input input;
    input.name = "given" + std::to_string(body.target().inputs().size());
    input.strides = ir::contiguous_strides(type.sizes);
    const ValueId value = body.target().add_input(std::move(input), type);
    const Taken& taken = taken_.at(e.index);
    for (const SharedValue& s : taken.shared[b])
      if (given_.at({taken.from.index, b, s.given}) == v) body.set(s.taken, value);
  }

  static void give(const Slot& slot, size_t b, ir::Rewriter& body) {
    ir::Output output;
    output.value = slot.values[b].valid()
                       ? body[slot.values[b]]
                       : body.builder().full(slot.type.sizes, slot.type.dtype, 0);
    output.name = "given" + std::to_string(body.target().outputs().size());
    output.strides = ir::contiguous_strides(slot.type.sizes);
    body.target().add_output(std::move(output));
  }

  const Graph& source_;
  ir::Rewriter rewriter_;
  std::map<uint32_t, Taken> taken_;                            // by the equation that takes
  std::map<uint32_t, std::vector<std::set<ValueId>>> wanted_;  // by that which gives, by body
  std::map<uint32_t, std::vector<EquationId>> conds_;          // by predicate
  std::map<Place, ValueId> given_;                             // results of the target
};

}  // namespace

Graph share_between_bodies(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = share_between_bodies(std::move(graph.subgraph({i})));
  const auto has = [](const ir::Equation& e) { return has_gradient(e.op); };
  if (std::ranges::none_of(graph.equations(), has)) return graph;
  Sharer sharer(graph);
  if (!sharer.changes()) return graph;
  return sharer.run();
}

}  // namespace tandem::decomps
