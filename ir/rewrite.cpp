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
      subgraphs_(source.subgraphs().size()) {}

ValueId Rewriter::operator[](ValueId source_value) const {
  const ValueId v = map_[source_value];
  TANDEM_CHECK(v.valid(), "a value was used before it was rewritten");
  return v;
}

std::vector<ValueId> Rewriter::operands(EquationId e) const {
  std::vector<ValueId> out;
  out.reserve(source_.operands(e).size());
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
  const Equation& from = source_.equation(e);
  std::vector<Type> types;
  types.reserve(from.result_count);
  for (ValueId v : source_.results(e)) types.push_back(source_.type(v));
  const EquationId id = target_.append(from.op, operands(e), attrs(e), types, from.in_place);
  Equation& to = target_.equation(id);
  to.grad_enabled = from.grad_enabled;
  to.is_backward = from.is_backward;
  to.region = from.region;
  if (const Location* location = source_.location(e)) to.location = target_.add_location(*location);
  replace(e, target_.results(id));
}

void Rewriter::at(EquationId e) {
  const Equation& from = source_.equation(e);
  const Location* location = source_.location(e);
  sink_.location = location ? target_.add_location(*location) : LocationId{};
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
    if (target_.hint(values[i]).empty()) target_.set_hint(values[i], source_.hint(results[i]));
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
  return e.in_place || std::ranges::any_of(graph.operands(e), is_token) ||
         std::ranges::any_of(graph.results(e), is_token);
}

/// Which equations must stay, by index.
std::vector<bool> live_equations(const Graph& graph) {
  ValueMap<bool> used(graph);
  for (const Output& output : graph.outputs()) used[output.value] = true;
  std::vector<bool> live(graph.num_equations());
  for (size_t i = graph.num_equations(); i-- > 0;) {
    const Equation& e = graph.equations()[i];
    const auto is_used = [&](ValueId v) { return bool{used[v]}; };
    live[i] = has_effects(graph, e) || std::ranges::any_of(graph.results(e), is_used);
    if (!live[i]) continue;
    for (ValueId v : graph.operands(e)) used[v] = true;
  }
  return live;
}

/// Carries over, without dead code, the subgraphs that `e` names.
void clean_subgraphs(Rewriter& rewriter, EquationId e, std::vector<bool>& done) {
  const Graph& graph = rewriter.source();
  for (const AttrValue& value : graph.attrs(e)) {
    const auto* id = std::get_if<SubgraphId>(&value);
    if (!id || done[id->index]) continue;
    done[id->index] = true;
    rewriter.set_subgraph(*id, remove_dead_code(graph.subgraph(*id)));
  }
}

}  // namespace

Graph remove_dead_code(const Graph& graph) {
  Rewriter rewriter(graph);
  std::vector<bool> done(graph.subgraphs().size());
  const std::vector<bool> live = live_equations(graph);
  rewriter.copy_inputs();
  for (size_t i = 0; i < graph.num_equations(); ++i) {
    if (!live[i]) continue;
    clean_subgraphs(rewriter, graph.equation_id(i), done);
    rewriter.copy(graph.equation_id(i));
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace tandem::ir
