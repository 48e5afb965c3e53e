// The rewriter: one pass over the equations in order, with a table from source to target values.
// Nothing recurses over the depth of a graph; only the nesting of subgraphs does.
#include "ir/rewrite.h"

#include <algorithm>

#include "ir/error.h"

namespace tandem::ir {

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
  operands_.clear();
  for (ValueId v : source_.operands(e)) operands_.push_back((*this)[v]);
  const EquationId id = target_.append_copy(source_, e, operands_);
  if (!subgraphs_.empty()) rename_subgraphs(e, id);
  target_.set_location(id, source_.equation(e).location);
  for (size_t i = 0; i < source_.results(e).size(); ++i)
    set(source_.results(e)[i], target_.results(id)[i]);
}

void Rewriter::rename_subgraphs(EquationId from, EquationId to) {
  const auto& names = info(source_.op(from)).attrs;
  for (size_t i = 0; i < names.size(); ++i)
    if (const auto* id = std::get_if<SubgraphId>(&source_.attrs(from)[i]))
      target_.set_attr(to, names[i], subgraph(*id));
}

void Rewriter::at(EquationId e) {
  const Equation& from = source_.equation(e);
  sink_.location = from.location;
  sink_.grad_enabled = from.grad_enabled;
  sink_.is_backward = from.is_backward;
  sink_.region = from.region;
}

void Rewriter::replace(EquationId e, std::span<const ValueId> values) {
  const auto results = source_.results(e);
  TANDEM_CHECK(values.size() == results.size(),
               std::string(name(source_.op(e))) + ": a replacement has one value per result");
  for (size_t i = 0; i < values.size(); ++i) {
    set(results[i], values[i]);
    const EquationId producer = target_.producer(values[i]);
    if (!producer.valid()) continue;
    const std::string& hint = source_.hint(results[i]);
    if (!hint.empty() && target_.hint(values[i]).empty()) target_.set_hint(values[i], hint);
    Mark& mark = target_.equation(producer).mark;
    if (mark == Mark::Auto) mark = source_.equation(e).mark;
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

bool has_effects(const Graph& graph, const Equation& e) {
  const auto is_token = [&](ValueId v) { return graph.type(v).is_token; };
  return e.in_place || std::ranges::any_of(graph.results(e), is_token) ||
         std::ranges::any_of(graph.operands(e), is_token);
}

/// Which equations must stay, by index.
std::vector<bool> live_equations(const Graph& graph) {
  ValueMap<bool> used(graph);
  for (const Output& output : graph.outputs()) used[output.value] = true;
  std::vector<bool> live(graph.num_equations());
  for (size_t i = graph.num_equations(); i-- > 0;) {
    const Equation& e = graph.equations()[i];
    const auto is_used = [&](ValueId v) { return bool{used[v]}; };
    live[i] = std::ranges::any_of(graph.results(e), is_used) || has_effects(graph, e);
    if (!live[i]) continue;
    for (ValueId v : graph.operands(e)) used[v] = true;
  }
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
  const std::vector<bool> live = live_equations(graph);
  if (std::ranges::find(live, false) != live.end()) graph.keep_only(live);
  if (!graph.subgraphs().empty()) clean_subgraphs(graph);
  return graph;
}

}  // namespace tandem::ir
