#include "ir/build/effect.h"

#include <algorithm>
#include <array>

#include "ir/build/rewrite.h"

namespace tandem::ir {
namespace {

bool has_order(const Graph& graph, const Equation& e);

bool has_order(const Graph& graph) {
  return std::ranges::any_of(graph.equations(),
                             [&](const Equation& e) { return has_order(graph, e); });
}

/// (A gradient's own order begins where the gradient is put.)
bool has_order_in_body(const Graph& graph, const Equation& e) {
  return std::ranges::any_of(std::array{Attr::body, Attr::forward}, [&](Attr attr) {
    if (!has_attr(e.op, attr)) return false;
    const AttrValue& body = graph.attrs(e)[static_cast<size_t>(attr_index(e.op, attr))];
    return has_order(graph.subgraph(std::get<SubgraphId>(body)));
  });
}

bool has_order(const Graph& graph, const Equation& e) {
  const OpInfo& op = info(e.op);
  if (op.effect == Effect::Ordered || op.cls != OpClass::Control)
    return op.effect == Effect::Ordered;
  const auto is_token = [&](ValueId v) { return graph.type(v).is_token; };
  return std::ranges::any_of(graph.operands(e), is_token) ||
         std::ranges::any_of(graph.results(e), is_token) || has_order_in_body(graph, e);
}

class Joiner {
 public:
  explicit Joiner(const Graph& graph) : g_(graph), rewriter_(graph), is_joined_(graph) {}

  Graph run() {
    rewriter_.copy_inputs();
    for (size_t i = 0; i < g_.num_equations(); ++i) {
      const EquationId e = g_.equation_id(i);
      rewriter_.at(e);
      if (g_.op(e) == Op::first_token)
        begin(e);
      else
        pass(e);
    }
    rewriter_.copy_outputs();
    return rewriter_.take();
  }

 private:
  /// By half: the target's last token of its order so far.
  ValueId& last(EquationId e) { return last_[g_.equation(e).is_backward]; }

  void begin(EquationId e) {
    ValueId& token = last(e);
    if (!token.valid()) token = first_of_half(e);
    if (!rewriter_.has(g_.result(e))) rewriter_.replace(e, {&token, 1});
    is_joined_[g_.result(e)] = true;
  }

  ValueId first_of_half(EquationId e) {
    const auto tangent = std::ranges::find(g_.inputs(), Role::Tangent, &Input::role);
    if (g_.equation(e).is_backward && g_.operands(e).empty() && tangent != g_.inputs().end())
      return rewriter_.builder().emit(Op::first_token, {rewriter_[tangent->value]});
    rewriter_.copy(e);
    return rewriter_[g_.result(e)];
  }

  void pass(EquationId e) {
    bool joins = false;
    for (const ValueId v : g_.operands(e)) {
      if (!is_joined_[v]) continue;
      rewriter_.set(v, last(e));
      joins = true;
    }
    rewriter_.copy(e);
    for (const ValueId v : g_.results(e)) {
      if (!joins || !g_.type(v).is_token) continue;
      is_joined_[v] = true;
      last(e) = rewriter_[v];
    }
  }

  const Graph& g_;
  Rewriter rewriter_;
  ValueMap<bool> is_joined_;  // a token of an order that a first_token began
  ValueId last_[2];
};

}  // namespace

Effect effect_of(const Graph& graph, const Equation& e) {
  return e.in_place || has_order(graph, e) ? Effect::Ordered : info(e.op).effect;
}

Graph join_orders(Graph graph) {
  const bool begins = std::ranges::count(graph.equations(), Op::first_token, &Equation::op) != 0;
  if (begins) graph = Joiner(graph).run();
  return graph;
}

}  // namespace tandem::ir
