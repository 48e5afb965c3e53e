#include "ir/build/body_flow.h"

namespace tandem::ir {
namespace {

const Graph& body_of(const Graph& graph, EquationId e, Attr attr) {
  return graph.subgraph(graph.attr<SubgraphId>(e, attr));
}

std::vector<bool> of_cond(const Graph& graph, EquationId e, std::vector<bool> given,
                          DependentOutputs outputs) {
  given.erase(given.begin());  // the predicate's
  std::vector<bool> depends = outputs(body_of(graph, e, Attr::then), given);
  const std::vector<bool> other = outputs(body_of(graph, e, Attr::otherwise), given);
  for (size_t i = 0; i < depends.size(); ++i) depends[i] = depends[i] || other[i];
  return depends;
}

/// What a step makes of a carry the next one takes.
std::vector<bool> of_scan(const Graph& graph, EquationId e, std::vector<bool> given,
                          DependentOutputs outputs) {
  const auto carries = static_cast<size_t>(graph.attr<int64_t>(e, Attr::carries));
  std::vector<bool> depends, before;
  do {
    before = given;
    depends = outputs(body_of(graph, e, Attr::body), given);
    for (size_t i = 0; i < carries; ++i) given[i] = given[i] || depends[i];
  } while (given != before);
  for (size_t i = 0; i < carries; ++i) depends[i] = given[i];  // there may be no step
  return depends;
}

}  // namespace

std::vector<bool> dependent_results(const Graph& graph, EquationId e, std::vector<bool> given,
                                    DependentOutputs outputs) {
  return graph.op(e) == Op::cond ? of_cond(graph, e, std::move(given), outputs)
                                 : of_scan(graph, e, std::move(given), outputs);
}

}  // namespace tandem::ir
