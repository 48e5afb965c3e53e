#include "ir/inline.h"

#include <algorithm>

#include "ir/error.h"
#include "ir/rewrite.h"

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
  void add(EquationId e) {
    Values operands;
    for (ValueId v : body_.operands(e)) operands.push_back(map_[v]);
    const Values values = body_.op(e) == Op::call ? call(e, operands) : copy(e, operands);
    for (size_t i = 0; i < values.size(); ++i) {
      map_[body_.result(e, static_cast<int>(i))] = values[i];
      if (target_.producer(values[i]).valid() && target_.hint(values[i]).empty())
        target_.set_hint(values[i], body_.hint(body_.result(e, static_cast<int>(i))));
    }
  }

  Values call(EquationId e, const Values& operands) {
    const bool in_backward = in_backward_ || body_.equation(e).is_backward;
    const Graph& callee = body_.subgraph(body_.attr<SubgraphId>(e, Attr::body));
    return inline_graph(target_, callee, operands, in_backward);
  }

  Values copy(EquationId e, const Values& operands) {
    const Equation& from = body_.equation(e);
    std::vector<AttrValue> attrs(body_.attrs(e).begin(), body_.attrs(e).end());
    for (AttrValue& value : attrs)
      if (auto* id = std::get_if<SubgraphId>(&value))
        *id = target_.add_subgraph(body_.subgraph(*id));
    std::vector<Type> types;
    for (ValueId v : body_.results(e)) types.push_back(body_.type(v));
    const EquationId id = target_.append(from.op, operands, attrs, types, from.in_place);
    Equation& to = target_.equation(id);
    to.grad_enabled = from.grad_enabled;
    to.is_backward = in_backward_ || from.is_backward;
    to.region = from.region;
    to.mark = from.mark;
    if (const Location* l = body_.location(e)) to.location = target_.add_location(*l);
    return {target_.results(id).begin(), target_.results(id).end()};
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

Graph inline_calls(const Graph& graph) {
  const auto is_call = [](const Equation& e) { return e.op == Op::call; };
  if (std::ranges::none_of(graph.equations(), is_call)) return graph;
  Rewriter rewriter(graph);
  rewriter.copy_inputs();
  for (size_t i = 0; i < graph.num_equations(); ++i) {
    const EquationId e = graph.equation_id(i);
    if (!is_call(graph.equation(e))) {
      rewriter.copy(e);
      continue;
    }
    const Graph& body = graph.subgraph(graph.attr<SubgraphId>(e, Attr::body));
    const Values results =
        inline_graph(rewriter.target(), body, rewriter.operands(e), graph.equation(e).is_backward);
    rewriter.replace(e, results);
  }
  rewriter.copy_outputs();
  return rewriter.take();
}

}  // namespace tandem::ir
