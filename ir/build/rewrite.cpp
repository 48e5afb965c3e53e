// Both are one pass over the equations in order, with a table from old to new values. Nothing
// recurses over the depth of a graph; only the nesting of subgraphs does.
#include "ir/build/rewrite.h"

#include <algorithm>

#include "ir/base/error.h"
#include "ir/build/effect.h"

namespace tandem::ir {
namespace {

void check_replacement(const Graph& graph, EquationId e, std::span<const ValueId> values) {
  TANDEM_CHECK(values.size() == graph.results(e).size(),
               std::string(name(graph.op(e))) + ": a replacement has one value per result");
}

}  // namespace

Rewriter::Rewriter(const Graph& source)
    : source_(source),
      target_(source.name, source.level),
      sink_(target_),
      builder_(sink_),
      map_(source),
      subgraphs_(source.subgraphs().size()) {
  target_.reserve(source);
  target_.add_locations(source);  // so that their ids are the same
}

ValueId Rewriter::operator[](ValueId source_value) const {
  const ValueId v = map_[source_value];
  TANDEM_CHECK(v.valid(), "a value was used before it was rewritten");
  return v;
}

ValueList Rewriter::operands(EquationId e) const {
  ValueList out;
  for (ValueId v : source_.operands(e)) out.push_back((*this)[v]);
  return out;
}

std::vector<AttrValue> Rewriter::attrs(EquationId e) {
  const auto source = source_.attrs(e);
  std::vector<AttrValue> out(source.begin(), source.end());
  for (AttrValue& value : out)
    if (auto* id = std::get_if<SubgraphId>(&value)) *id = subgraph(*id);
  return out;
}

SubgraphId Rewriter::subgraph(SubgraphId source_subgraph) {
  const SubgraphId id = subgraphs_[source_subgraph.index];
  return id.valid() ? id : set_subgraph(source_subgraph, source_.subgraph(source_subgraph));
}

SubgraphId Rewriter::set_subgraph(SubgraphId source_subgraph, Graph replacement) {
  return subgraphs_[source_subgraph.index] = target_.add_subgraph(std::move(replacement));
}

void Rewriter::copy_inputs() {
  for (const Input& input : source_.inputs())
    set(input.value, target_.add_input(input, source_.type(input.value)));
}

void Rewriter::copy(EquationId e) {
  const EquationId id = target_.append_copy(source_, e, map_);
  if (!subgraphs_.empty()) rename_subgraphs(e, id);
}

void Rewriter::rename_subgraphs(EquationId from, EquationId to) {
  const auto& names = info(source_.op(from)).attrs;
  for (size_t i = 0; i < names.size(); ++i)
    if (const auto* id = std::get_if<SubgraphId>(&source_.attrs(from)[i]))
      target_.set_attr(to, names[i], subgraph(*id));
}

void Rewriter::at(EquationId e) { sink_.at(source_.equation(e)); }

void Rewriter::replace(EquationId e, std::span<const ValueId> values) {
  const auto results = source_.results(e);
  check_replacement(source_, e, values);
  for (size_t i = 0; i < values.size(); ++i) {
    set(results[i], values[i]);
    target_.inherit(values[i], source_, results[i]);
  }
}

void Rewriter::copy_outputs() {
  for (Output output : source_.outputs()) {
    output.value = (*this)[output.value];
    target_.add_output(std::move(output));
  }
  target_.epilogue = source_.epilogue;
}

Graph rewrite(const Graph& graph, const RewriteRule& rule) {
  Rewriter rewriter(graph);
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    rewriter.set_subgraph({i}, rewrite(graph.subgraph({i}), rule));
  rewriter.copy_inputs();
  for (size_t i = 0; i < graph.num_equations(); ++i) {
    const EquationId e = graph.equation_id(i);
    rewriter.at(e);
    if (const Replacement values = rule(rewriter, e))
      rewriter.replace(e, *values);
    else
      rewriter.copy(e);
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

namespace {

/// Those of `order` that must stay, in this order.
std::vector<EquationId> live_equations(const Graph& graph, std::span<const EquationId> order) {
  ValueMap<uint8_t> used(graph);
  for (const Output& output : graph.outputs()) used[output.value] = 1;
  const auto is_used = [&](ValueId v) { return used[v] != 0; };
  std::vector<EquationId> live(order.size());  // from the back
  size_t first = order.size();
  for (size_t i = order.size(); i-- > 0;) {
    const Equation& e = graph.equation(order[i]);
    if (std::ranges::none_of(graph.results(e), is_used) && !must_run(effect_of(graph, e))) continue;
    for (ValueId v : graph.operands(e)) used[v] = 1;
    live[--first] = order[i];
  }
  live.erase(live.begin(), live.begin() + static_cast<ptrdiff_t>(first));
  return live;
}

/// Leaves the subgraphs that equations name, without dead code.
void clean_subgraphs(Graph& graph) {
  std::vector<Graph> subgraphs = graph.take_subgraphs();
  std::vector<SubgraphId> moved(subgraphs.size());
  for (uint32_t i = 0; i < graph.num_equations(); ++i)
    for (Attr attr : info(graph.op({i})).attrs) {
      if (type_of(attr) != AttrType::Graph) continue;
      const auto from = graph.attr<SubgraphId>({i}, attr);
      SubgraphId& to = moved[from.index];
      if (!to.valid()) to = graph.add_subgraph(remove_dead_code(std::move(subgraphs[from.index])));
      graph.set_attr({i}, attr, to);
    }
}

}  // namespace

Graph remove_dead_code(Graph graph) {
  std::vector<EquationId> order(graph.num_equations());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = {i};
  const std::vector<EquationId> live = live_equations(graph, order);
  if (live.size() < order.size()) graph.keep_only(live);
  if (!graph.subgraphs().empty()) clean_subgraphs(graph);
  return graph;
}

Splicer::Splicer(Graph graph)
    : graph_(std::move(graph)),
      sink_(graph_),
      builder_(sink_),
      stands_for_(graph_.num_values()),
      is_replaced_(graph_.num_equations()) {
  for (uint32_t v = 0; v < stands_for_.size(); ++v) stands_for_[v] = {v};
  first_new_.reserve(is_replaced_.size() + 1);
}

void Splicer::at(EquationId e) {
  TANDEM_CHECK(e.index == first_new_.size(), "equations are visited in order");
  first_new_.push_back(static_cast<uint32_t>(graph_.num_equations()));
  graph_.rename_operands(e, stands_for_);
  sink_.at(graph_.equation(e));
}

void Splicer::replace(EquationId e, std::span<const ValueId> values) {
  check_replacement(graph_, e, values);
  is_replaced_[e.index] = true;
  for (size_t i = 0; i < values.size(); ++i) {
    const ValueId old = graph_.results(e)[i];
    stands_for_[old.index] = values[i];
    graph_.inherit(values[i], graph_, old);
  }
}

Graph Splicer::take() {
  TANDEM_CHECK(first_new_.size() == num_equations(), "all equations are visited");
  first_new_.push_back(static_cast<uint32_t>(graph_.num_equations()));
  std::vector<EquationId> order(graph_.num_equations());
  auto next = order.begin();
  for (uint32_t i = 0; i < num_equations(); ++i) {
    for (uint32_t k = first_new_[i]; k < first_new_[i + 1]; ++k) *next++ = {k};
    if (!is_replaced_[i]) *next++ = {i};
  }
  order.erase(next, order.end());
  for (Output& output : graph_.outputs()) output.value = stands_for_[output.value.index];
  graph_.keep_only(live_equations(graph_, order));
  if (!graph_.subgraphs().empty()) clean_subgraphs(graph_);
  return std::move(graph_);
}

Graph remove_unread_inputs(const Graph& graph) {
  const std::vector<uint32_t> uses = use_counts(graph);
  Rewriter rewriter(graph);
  std::vector<int> moved(graph.inputs().size(), -1);
  for (size_t i = 0; i < graph.inputs().size(); ++i) {
    Input input = graph.inputs()[i];
    if (uses[input.value.index] == 0) continue;
    moved[i] = static_cast<int>(rewriter.target().inputs().size());
    if (input.alias_of) {
      const int to = moved[static_cast<size_t>(input.alias_of->input)];
      to < 0 ? input.alias_of.reset() : void(input.alias_of->input = to);
    }
    rewriter.set(input.value, rewriter.target().add_input(input, graph.type(input.value)));
  }
  for (size_t i = 0; i < graph.num_equations(); ++i) rewriter.copy(graph.equation_id(i));
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace tandem::ir
