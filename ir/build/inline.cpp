#include "ir/build/inline.h"

#include <algorithm>

#include "ir/base/error.h"
#include "ir/build/effect.h"
#include "ir/build/rewrite.h"

namespace tandem::ir {
namespace {

using Values = std::vector<ValueId>;

/// Copies one graph's equations; only the nesting of graphs recurses.
class Inliner {
 public:
  Inliner(Graph& target, const Graph& body, bool in_backward)
      : target_(target), body_(body), in_backward_(in_backward), map_(body) {}

  Values run(std::span<const ValueId> arguments) {
    TANDEM_CHECK(arguments.size() == body_.inputs().size(), body_.name);
    for (size_t i = 0; i < arguments.size(); ++i) map_[body_.inputs()[i].value] = arguments[i];
    for (size_t i = 0; i < body_.num_equations(); ++i) add(body_.equation_id(i));
    Values outputs;
    for (const Output& o : body_.outputs()) outputs.push_back(map_[o.value]);
    return outputs;
  }

 private:
  void add(EquationId e) { body_.op(e) == Op::call ? call(e) : copy(e); }

  void call(EquationId e) {
    Values operands;
    for (ValueId v : body_.operands(e)) operands.push_back(map_[v]);
    const bool in_backward = in_backward_ || body_.equation(e).is_backward;
    const Graph& callee = body_.subgraph(body_.attr<SubgraphId>(e, Attr::body));
    const Values values = inline_graph(target_, callee, operands, in_backward);
    for (size_t i = 0; i < values.size(); ++i) {
      const ValueId result = body_.results(e)[i];
      map_[result] = values[i];
      if (target_.hint(values[i]).empty()) target_.set_hint(values[i], body_.hint(result));
    }
  }

  void copy(EquationId e) {
    const EquationId id = target_.append_copy(body_, e, map_);
    for (Attr attr : info(body_.op(e)).attrs)
      if (type_of(attr) == AttrType::Graph)
        target_.set_attr(id, attr,
                         target_.add_subgraph(body_.subgraph(body_.attr<SubgraphId>(e, attr))));
    Equation& to = target_.equation(id);
    to.is_backward |= in_backward_;
    const auto location = body_.location(e);
    to.location = location ? target_.add_location(*location) : LocationId();
  }

  Graph& target_;
  const Graph& body_;
  const bool in_backward_;
  ValueMap<ValueId> map_;
};

}  // namespace

Values inline_graph(Graph& target, const Graph& body, std::span<const ValueId> arguments,
                    bool in_backward) {
  return Inliner(target, body, in_backward).run(arguments);
}

bool has_calls(const Graph& graph) {
  return std::ranges::find(graph.equations(), Op::call, &Equation::op) != graph.equations().end();
}

Graph inline_calls(const Graph& graph) {
  if (!has_calls(graph)) return graph;
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (size_t i = 0; i < graph.num_equations(); ++i) {
    const EquationId e = graph.equation_id(i);
    if (graph.op(e) != Op::call) {
      rewriter.copy(e);
      continue;
    }
    const Graph& body = graph.subgraph(graph.attr<SubgraphId>(e, Attr::body));
    const Values results =
        inline_graph(rewriter.target(), body, rewriter.operands(e), graph.equation(e).is_backward);
    rewriter.replace(e, results);
  }
  rewriter.copy_outputs();
  return join_orders(rewriter.take());
}

}  // namespace tandem::ir
