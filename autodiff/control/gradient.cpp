#include "autodiff/control/gradient.h"

#include <algorithm>

#include "autodiff/joint.h"
#include "ir/build/body_graph.h"
#include "ir/build/builder.h"
#include "ir/build/rewrite.h"

namespace tandem::autodiff {
namespace {

using ir::Attr;
using ir::BodyGraph;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::output_types;
using ir::Type;
using ir::ValueId;
using Types = std::vector<Type>;
using Values = std::vector<ValueId>;

std::vector<bool> are_float(const Types& types) {
  std::vector<bool> flags;
  for (const Type& type : types) flags.push_back(ir::is_differentiable(type));
  return flags;
}

/// The gradients of a body: a graph of its inputs and of a tangent for each floating output.
class BodyGradient {
 public:
  BodyGradient(const Graph& body, const std::vector<bool>& needs)
      : inputs_(body.inputs().size()),
        joint_(joint_for(body, needs, are_float(output_types(body)))) {}

  /// Adds them to `graph`: by input of the body its gradient, or none where nothing arrives.
  /// `tangents`: by output of the body.
  Values add_to(BodyGraph& graph, const Values& inputs, const Values& tangents) const {
    Values arguments;
    for (size_t i = 0; i < joint_.inputs().size(); ++i)
      arguments.push_back(i < inputs_ ? inputs[i]
                                      : tangents[static_cast<size_t>(joint_.inputs()[i].target)]);
    const Values outputs = graph.add(joint_, arguments);
    Values gradients(inputs_);
    for (size_t o = 0; o < outputs.size(); ++o)
      if (joint_.outputs()[o].role == ir::Role::Gradient)
        gradients[static_cast<size_t>(joint_.outputs()[o].target)] = outputs[o];
    return gradients;
  }

 private:
  size_t inputs_;
  Graph joint_;
};

/// A graph in the making, with its builder.
struct Half : BodyGraph {
  explicit Half(const std::string& name) : BodyGraph(name), sink(graph()), b(sink) {}

  ValueId input_of(const Type& type, ir::Role role, int target = -1) {
    const ValueId v = input(type, "x");
    graph().inputs().back().role = role;
    graph().inputs().back().target = target;
    return v;
  }
  void output_of(ValueId v, ir::Role role, int target = -1) {
    output(v, "y");
    graph().outputs().back().role = role;
    graph().outputs().back().target = target;
  }
  Types types(const Values& values) const {
    Types types;
    for (const ValueId v : values) types.push_back(b.type(v));
    return types;
  }
  ValueId zeros(const Type& type) { return b.full(type.sizes, type.dtype, 0); }
  ValueId or_zeros(ValueId v, const Type& type) { return v.valid() ? v : zeros(type); }

  /// Without what no output needs, all of one half.
  Graph finished() {
    Graph done = ir::remove_dead_code(take());
    for (size_t i = 0; i < done.num_equations(); ++i)
      done.equation(done.equation_id(i)).is_backward = false;
    return done;
  }

  ir::GraphSink sink;
  ir::Builder b;
};

Values inputs_of(Half& half, const Types& types, ir::Role role) {
  Values values;
  for (const Type& type : types) values.push_back(half.input_of(type, role));
  return values;
}

/// A tangent for each floating result.
Values tangents_of(Half& half, const Types& results) {
  Values tangents(results.size());
  for (size_t i = 0; i < results.size(); ++i)
    if (ir::is_differentiable(results[i]))
      tangents[i] = half.input_of(results[i], ir::Role::Tangent, static_cast<int>(i));
  return tangents;
}

void append_valid(Values& to, const Values& from) {
  for (const ValueId v : from)
    if (v.valid()) to.push_back(v);
}

/// The outputs of a forward half: what backward reads and is neither an operand nor a result is a
/// result too, which nobody else sees.
void give(Half& forward, const Values& results, const Values& kept) {
  for (const ValueId v : results) forward.output_of(v, ir::Role::Result);
  for (const ValueId v : kept)
    if (forward.graph().input_index(v) < 0 && std::ranges::count(results, v) == 0)
      forward.output_of(v, ir::Role::Result);
  for (const ValueId v : kept) forward.output_of(v, ir::Role::Saved);
}

// --- cond

/// (operands, tangents) -> a gradient for each operand that needs one.
Graph branch_gradient(const Graph& branch, const std::vector<bool>& needs) {
  Half half(branch.name + "_backward");
  const Types types = ir::input_types(branch);
  const Values inputs = inputs_of(half, types, ir::Role::Primal);
  Values tangents;
  for (const Type& type : output_types(branch))
    tangents.push_back(ir::is_differentiable(type) ? half.input_of(type, ir::Role::Primal)
                                                   : ValueId());
  const Values gradients = BodyGradient(branch, needs).add_to(half, inputs, tangents);
  for (size_t i = 0; i < types.size(); ++i)
    if (needs[i]) half.output_of(half.or_zeros(gradients[i], types[i]), ir::Role::Result);
  return half.finished();
}

Graph cond_forward(const Types& operands, const Graph& then, const Graph& otherwise) {
  Half half("cond");
  const Values inputs = inputs_of(half, operands, ir::Role::Primal);
  const ir::SubgraphId a = half.graph().add_subgraph(then),
                       b = half.graph().add_subgraph(otherwise);
  give(half, half.b.emit_call(Op::cond, inputs, {a, b}, output_types(then)), inputs);
  return half.take();
}

Graph cond_backward(const Types& operands, const Graph& then, const Graph& otherwise,
                    std::vector<bool> needs) {
  Half half("cond_backward");
  Values inputs = inputs_of(half, operands, ir::Role::Saved);
  append_valid(inputs, tangents_of(half, output_types(then)));
  needs.erase(needs.begin());  // the predicate's
  const Graph gradients = branch_gradient(then, needs);
  const Types types = output_types(gradients);
  const ir::SubgraphId a = half.graph().add_subgraph(gradients),
                       b = half.graph().add_subgraph(branch_gradient(otherwise, needs));
  const Values results = half.b.emit_call(Op::cond, inputs, {a, b}, types);
  size_t next = 0;
  for (size_t i = 0; i < needs.size(); ++i)
    if (needs[i]) half.output_of(results[next++], ir::Role::Gradient, static_cast<int>(i) + 1);
  return half.take();
}

// --- scan

/// A scan's attributes beside its body.
struct ScanShape {
  size_t carries, constants;
  ir::Dim length;
  bool reverse;
};

class ScanGradient {
 public:
  ScanGradient(const Graph& body, const ScanShape& shape, Types operands, Types results,
               const std::vector<bool>& needs)
      : body_(body),
        shape_(shape),
        operands_(std::move(operands)),
        results_(std::move(results)),
        needs_(needs) {
    for (size_t i = 0; i < shape.carries; ++i) needs_[i] = ir::is_differentiable(operands_[i]);
  }

  /// Gives the carries that each step began with, too.
  Graph forward() const {
    Half half("scan");
    const Values inputs = inputs_of(half, operands_, ir::Role::Primal);
    Graph step = body_;
    Types types = results_;
    std::vector<size_t> begun;  // by carry: which result
    for (size_t i = 0; i < shape_.carries; ++i) {
      begun.push_back(given_by(step, step.inputs()[i].value));
      if (begun.back() < step.outputs().size()) continue;
      ir::Output output = step.outputs()[i];
      output.value = step.inputs()[i].value;
      step.add_output(std::move(output));
      types.push_back(stacked(operands_[i]));
    }
    const Values all =
        half.b.emit_call(Op::scan, inputs, attrs(half, std::move(step), shape_), types);
    Values kept;
    for (const size_t result : begun) kept.push_back(all[result]);
    kept.insert(kept.end(), inputs.begin() + static_cast<ptrdiff_t>(shape_.carries), inputs.end());
    give(half, {all.begin(), all.begin() + static_cast<ptrdiff_t>(results_.size())}, kept);
    return half.take();
  }

  Graph backward() const {
    Half half("scan_backward");
    Values begun, constants, xs;
    for (size_t i = 0; i < shape_.carries; ++i)
      begun.push_back(half.input_of(stacked(operands_[i]), ir::Role::Saved));
    for (size_t i = shape_.carries; i < operands_.size(); ++i)
      (i < whole() ? constants : xs).push_back(half.input_of(operands_[i], ir::Role::Saved));
    const Values tangents = tangents_of(half, results_);

    Values inputs;
    Types types;
    for (size_t i = 0; i < whole(); ++i) {  // the sums that go from step to step
      if (!needs_[i]) continue;
      inputs.push_back(i < shape_.carries ? tangents[i] : half.zeros(operands_[i]));
      types.push_back(operands_[i]);
    }
    ScanShape shape{inputs.size(), constants.size(), shape_.length, !shape_.reverse};
    for (const Values* list : {&constants, &begun, &xs})
      inputs.insert(inputs.end(), list->begin(), list->end());
    append_valid(inputs,
                 {tangents.begin() + static_cast<ptrdiff_t>(shape_.carries), tangents.end()});
    for (size_t i = whole(); i < operands_.size(); ++i)
      if (needs_[i]) types.push_back(operands_[i]);
    const Values gradients = half.b.emit_call(Op::scan, inputs, attrs(half, step(), shape), types);
    size_t next = 0;
    for (size_t i = 0; i < operands_.size(); ++i)
      if (needs_[i]) half.output_of(gradients[next++], ir::Role::Gradient, static_cast<int>(i));
    return half.take();
  }

 private:
  /// Which of the ys `value` is; the number of outputs if it is none.
  size_t given_by(const Graph& step, ValueId value) const {
    const auto is_it = [&](const ir::Output& output) { return output.value == value; };
    const auto ys = step.outputs().begin() + static_cast<ptrdiff_t>(shape_.carries);
    return static_cast<size_t>(std::find_if(ys, step.outputs().end(), is_it) -
                               step.outputs().begin());
  }

  size_t whole() const { return shape_.carries + shape_.constants; }

  Type stacked(const Type& slice) const { return ir::stack_of(slice, shape_.length); }

  static std::vector<ir::AttrValue> attrs(Half& half, Graph body, const ScanShape& shape) {
    return {half.graph().add_subgraph(std::move(body)), static_cast<int64_t>(shape.carries),
            static_cast<int64_t>(shape.constants), shape.length, shape.reverse};
  }

  Type input_type(size_t i) const { return body_.type(body_.inputs()[i].value); }

  /// (gradients of the carries, sums of the constants'; constants, carries, slices, tangents of the
  /// ys) -> (the former, gradients of the slices).
  Graph step() const {
    Half half("body_backward");
    Values sums(operands_.size()), inputs(operands_.size()), tangents(results_.size());
    const auto add = [&](const Type& type) { return half.input_of(type, ir::Role::Primal); };
    for (size_t i = 0; i < whole(); ++i)
      if (needs_[i]) sums[i] = add(input_type(i));
    for (size_t i = shape_.carries; i < whole(); ++i) inputs[i] = add(input_type(i));
    for (size_t i = 0; i < shape_.carries; ++i) inputs[i] = add(input_type(i));
    for (size_t i = whole(); i < operands_.size(); ++i) inputs[i] = add(input_type(i));
    const Types outputs = output_types(body_);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (ir::is_differentiable(outputs[i]))
        tangents[i] = i < shape_.carries ? sums[i] : add(outputs[i]);
    const Values gradients = BodyGradient(body_, needs_).add_to(half, inputs, tangents);
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!needs_[i]) continue;
      const bool adds = i >= shape_.carries && i < whole();
      const ValueId gradient = adds && gradients[i].valid() ? half.b.add(sums[i], gradients[i])
                               : adds                       ? sums[i]
                                                            : gradients[i];
      half.output_of(half.or_zeros(gradient, input_type(i)), ir::Role::Result);
    }
    return half.finished();
  }

  const Graph& body_;
  const ScanShape shape_;
  const Types operands_, results_;
  std::vector<bool> needs_;  // by operand; of carries all that are floating
};

Types operand_types(const Graph& graph, EquationId e) {
  Types types;
  for (const ValueId v : graph.operands(e)) types.push_back(graph.type(v));
  return types;
}

const Graph& body_of(const Graph& graph, EquationId e, Attr attr) {
  return graph.subgraph(graph.attr<ir::SubgraphId>(e, attr));
}

Halves cond_halves(const Graph& graph, EquationId e, const std::vector<bool>& needs) {
  const Graph &then = body_of(graph, e, Attr::then), &other = body_of(graph, e, Attr::otherwise);
  const Types operands = operand_types(graph, e);
  return {cond_forward(operands, then, other), cond_backward(operands, then, other, needs)};
}

Halves scan_halves(const Graph& graph, EquationId e, const std::vector<bool>& needs) {
  const auto count = [&](Attr attr) { return static_cast<size_t>(graph.attr<int64_t>(e, attr)); };
  const ScanShape shape{count(Attr::carries), count(Attr::constants),
                        graph.attr<ir::Dim>(e, Attr::length), graph.attr<bool>(e, Attr::reverse)};
  Types results;
  for (const ValueId v : graph.results(e)) results.push_back(graph.type(v));
  const ScanGradient gradient(body_of(graph, e, Attr::body), shape, operand_types(graph, e),
                              std::move(results), needs);
  return {gradient.forward(), gradient.backward()};
}

}  // namespace

bool has_halves(Op op) { return op == Op::cond || op == Op::scan; }

Halves halves_of(const Graph& graph, EquationId e, const std::vector<bool>& needs) {
  return graph.op(e) == Op::cond ? cond_halves(graph, e, needs) : scan_halves(graph, e, needs);
}

namespace {

/// Puts a custom_function in place of `e`, which the rewriter stands at.
void put_halves(ir::Rewriter& rewriter, EquationId e, const std::vector<bool>& needs) {
  const Graph& source = rewriter.source();
  rewriter.at(e);
  Halves halves = halves_of(source, e, needs);
  const Types types = output_types(halves.forward);
  const ir::SubgraphId forward = rewriter.target().add_subgraph(std::move(halves.forward)),
                       backward = rewriter.target().add_subgraph(std::move(halves.backward));
  const Values all = rewriter.builder().emit_call(Op::custom_function, rewriter.operands(e),
                                                  {forward, backward}, types);
  rewriter.replace(e, std::span(all).first(source.results(e).size()));
}

}  // namespace

WithHalves with_halves(Graph functional, ir::ValueMap<bool> (*find_active)(const Graph&)) {
  std::vector<bool> own(functional.num_equations());
  const auto has = [](const ir::Equation& e) { return has_halves(e.op); };
  if (std::ranges::none_of(functional.equations(), has)) return {std::move(functional), own};
  const ir::ValueMap<bool> active = find_active(functional);
  ir::Rewriter rewriter(functional);
  rewriter.copy_inputs();
  for (size_t i = 0; i < functional.num_equations(); ++i) {
    const EquationId e = functional.equation_id(i);
    std::vector<bool> needs;
    for (const ValueId v : functional.operands(e)) needs.push_back(active[v]);
    own[i] = has_halves(functional.op(e)) && std::ranges::count(needs, true) != 0;
    own[i] ? put_halves(rewriter, e, needs) : rewriter.copy(e);
  }
  rewriter.copy_outputs();
  return {rewriter.take(), std::move(own)};
}

Graph joint_for(Graph graph, const std::vector<bool>& needs, const std::vector<bool>& arrives) {
  for (size_t i = 0; i < needs.size(); ++i) graph.inputs()[i].requires_grad = needs[i];
  for (size_t i = 0; i < arrives.size(); ++i) graph.outputs()[i].requires_grad = arrives[i];
  return joint(graph);
}

}  // namespace tandem::autodiff
