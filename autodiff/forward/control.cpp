#include "autodiff/forward/control.h"

#include <algorithm>

#include "autodiff/forward/forward_graph.h"
#include "ir/build/body_graph.h"

namespace tandem::autodiff {
namespace {

using ir::Attr;
using ir::BodyGraph;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::Type;
using ir::ValueId;
using Flags = std::vector<bool>;
using Types = std::vector<Type>;
using Values = std::vector<ValueId>;

/// A body, and how what it gives moves with those of its inputs that do.
class BodyTangents {
 public:
  BodyTangents(Graph body, const Flags& moving) : outputs_(body.outputs().size()) {
    for (size_t i = 0; i < moving.size(); ++i) body.inputs()[i].requires_grad = moving[i];
    for (size_t i = 0, next = outputs_; i < outputs_; ++i)
      at_.push_back(ir::is_differentiable(body.type(body.outputs()[i].value)) ? next++ : 0);
    graph_ = jvp(body);
  }

  bool moves(size_t output) const {
    return at_[output] != 0 && graph_.outputs()[at_[output]].requires_grad;
  }

  /// Values of the outputs, then their tangents (zeros where it does not move; invalid: of
  /// integers). `tangents`: of the inputs that move.
  std::pair<Values, Values> add_to(BodyGraph& graph, Values inputs, const Values& tangents) const {
    inputs.insert(inputs.end(), tangents.begin(), tangents.end());
    const Values all = graph.add(graph_, inputs);
    std::pair<Values, Values> made{{all.begin(), all.begin() + static_cast<ptrdiff_t>(outputs_)},
                                   {}};
    for (const size_t at : at_) made.second.push_back(at != 0 ? all[at] : ValueId());
    return made;
  }

 private:
  size_t outputs_;
  std::vector<size_t> at_;  // by output: where its tangent is; 0: nowhere
  Graph graph_;
};

/// The values in parts that each begin where one of `begins` does, each part followed by the
/// tangents of those in it that move.
template <class T>
std::vector<T> with_tangents(const std::vector<T>& values, const std::vector<T>& tangents,
                             const Flags& moving, const std::vector<size_t>& ends) {
  std::vector<T> all;
  size_t begin = 0;
  for (const size_t end : ends) {
    all.insert(all.end(), values.begin() + static_cast<ptrdiff_t>(begin),
               values.begin() + static_cast<ptrdiff_t>(end));
    for (size_t i = begin; i < end; ++i)
      if (moving[i]) all.push_back(tangents[i]);
    begin = end;
  }
  return all;
}

int64_t count(const Flags& moving, size_t begin, size_t end) {
  return std::count(moving.begin() + static_cast<ptrdiff_t>(begin),
                    moving.begin() + static_cast<ptrdiff_t>(end), true);
}

class Equation {
 public:
  Equation(ir::Rewriter& rewriter, EquationId e, std::span<const ValueId> tangents)
      : r_(rewriter), g_(rewriter.source()), e_(e), tangents_(tangents.begin(), tangents.end()) {
    for (const ValueId v : g_.operands(e)) {
      operands_.push_back(rewriter[v]);
      types_.push_back(g_.type(v));
    }
    for (const ValueId v : g_.results(e)) results_.push_back(g_.type(v));
    for (const ValueId v : tangents_) moving_.push_back(v.valid());
  }

  MovedEquation cond() {
    const Flags moving(moving_.begin() + 1, moving_.end());
    const BodyTangents then(body(Attr::then), moving), otherwise(body(Attr::otherwise), moving);
    Flags given;
    for (size_t i = 0; i < results_.size(); ++i)
      given.push_back(then.moves(i) || otherwise.moves(i));
    std::vector<ir::AttrValue> attrs;
    for (const BodyTangents* branch : {&then, &otherwise})
      attrs.emplace_back(r_.target().add_subgraph(moved(
          "branch", *branch, drop_first(types_), moving, {moving.size()}, given, {given.size()})));
    return emit(attrs, {operands_.size()}, given, {given.size()});
  }

  MovedEquation scan() {
    const size_t carries = number(Attr::carries), whole = carries + number(Attr::constants);
    const BodyTangents step = settled(Attr::body, carries);
    Flags given(moving_.begin(), moving_.begin() + static_cast<ptrdiff_t>(carries));
    for (size_t i = carries; i < results_.size(); ++i) given.push_back(step.moves(i));
    const std::vector<size_t> in{carries, whole, operands_.size()}, out{carries, given.size()};
    Types types = types_;
    for (size_t i = whole; i < types.size(); ++i) types[i] = ir::slice_of(types[i]);
    const ir::SubgraphId body =
        r_.target().add_subgraph(moved("body", step, types, moving_, in, given, out));
    return emit({body, static_cast<int64_t>(carries) + count(moving_, 0, carries),
                 static_cast<int64_t>(whole - carries) + count(moving_, carries, whole),
                 g_.attr<ir::Dim>(e_, Attr::length), g_.attr<bool>(e_, Attr::reverse)},
                in, given, out);
  }

  MovedEquation while_loop() {
    const size_t carries = number(Attr::carries);
    const BodyTangents step = settled(Attr::body, carries);
    const Flags given(moving_.begin(), moving_.begin() + static_cast<ptrdiff_t>(carries));
    const std::vector<size_t> in{carries, operands_.size()}, out{carries};
    const ir::SubgraphId condition = r_.target().add_subgraph(unmoved(Attr::condition, in)),
                         body = r_.target().add_subgraph(
                             moved("body", step, types_, moving_, in, given, out));
    return emit({condition, body, static_cast<int64_t>(carries) + count(moving_, 0, carries)}, in,
                given, out);
  }

 private:
  const Graph& body(Attr attr) const { return g_.subgraph(g_.attr<ir::SubgraphId>(e_, attr)); }
  size_t number(Attr attr) const { return static_cast<size_t>(g_.attr<int64_t>(e_, attr)); }
  static Types drop_first(const Types& types) { return {types.begin() + 1, types.end()}; }

  /// A step, once the carries that it moves are among those that move.
  BodyTangents settled(Attr attr, size_t carries) {
    for (;;) {
      BodyTangents step(body(attr), moving_);
      bool is_settled = true;
      for (size_t i = 0; i < carries; ++i) {
        is_settled = is_settled && (moving_[i] || !step.moves(i));
        moving_[i] = moving_[i] || step.moves(i);
      }
      if (is_settled) return step;
    }
  }

  struct Inputs {
    Values values, tangents;  // invalid where it does not move
  };
  static Inputs add_inputs(BodyGraph& graph, const Types& types, const Flags& moving,
                           const std::vector<size_t>& ends) {
    Inputs inputs{Values(types.size()), Values(types.size())};
    size_t begin = 0;
    for (const size_t end : ends) {
      for (size_t i = begin; i < end; ++i) inputs.values[i] = graph.input(types[i], "x");
      for (size_t i = begin; i < end; ++i)
        if (moving[i]) inputs.tangents[i] = graph.input(types[i], "d");
      begin = end;
    }
    return inputs;
  }

  static Graph moved(const char* name, const BodyTangents& body, const Types& types,
                     const Flags& moving, const std::vector<size_t>& in, const Flags& given,
                     const std::vector<size_t>& out) {
    BodyGraph graph(name);
    const Inputs inputs = add_inputs(graph, types, moving, in);
    Values along;
    for (const ValueId v : inputs.tangents)
      if (v.valid()) along.push_back(v);
    const auto [values, tangents] = body.add_to(graph, inputs.values, along);
    for (const ValueId v : with_tangents(values, tangents, given, out)) graph.output(v, "y");
    return graph.take();
  }

  /// A body that no tangent goes through.
  Graph unmoved(Attr attr, const std::vector<size_t>& in) const {
    BodyGraph graph(body(attr).name);
    const Inputs inputs = add_inputs(graph, types_, moving_, in);
    for (const ValueId v : graph.add(body(attr), inputs.values)) graph.output(v, "y");
    return graph.take();
  }

  MovedEquation emit(const std::vector<ir::AttrValue>& attrs, const std::vector<size_t>& in,
                     const Flags& given, const std::vector<size_t>& out) {
    for (size_t i = 0; i < operands_.size(); ++i)
      if (moving_[i] && !tangents_[i].valid())
        tangents_[i] = r_.builder().full(types_[i].sizes, types_[i].dtype, 0);
    const Values operands = with_tangents(operands_, tangents_, moving_, in);
    const Types types = with_tangents(results_, results_, given, out);
    const Values all = r_.builder().emit_call(g_.op(e_), operands, attrs, types);
    MovedEquation made{{}, Tangents(results_.size())};
    size_t next = 0, begin = 0;
    for (const size_t end : out) {
      for (size_t i = begin; i < end; ++i) made.results.push_back(all[next++]);
      for (size_t i = begin; i < end; ++i)
        if (given[i]) made.tangents[i] = all[next++];
      begin = end;
    }
    return made;
  }

  ir::Rewriter& r_;
  const Graph& g_;
  const EquationId e_;
  Values operands_, tangents_;  // by operand; invalid: zero
  Types types_, results_;
  Flags moving_;
};

}  // namespace

bool has_bodies(Op op) { return op == Op::cond || op == Op::while_loop || op == Op::scan; }

MovedEquation move_bodies(ir::Rewriter& rewriter, EquationId e, std::span<const ValueId> tangents) {
  Equation equation(rewriter, e, tangents);
  switch (rewriter.source().op(e)) {
    case Op::cond:
      return equation.cond();
    case Op::scan:
      return equation.scan();
    default:
      return equation.while_loop();
  }
}

}  // namespace tandem::autodiff
