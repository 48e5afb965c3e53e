#include "runtime/control/equation.h"

#include <tandem/autograd.h>
#include <tandem/ops.h>

#include <algorithm>

#include "autodiff/control/gradient.h"
#include "autodiff/joint.h"
#include "ir/build/body_graph.h"
#include "ir/build/builder.h"
#include "runtime/control/body.h"
#include "runtime/control/levels.h"
#include "runtime/levels/batched.h"
#include "runtime/levels/dual.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/nodes.h"
#include "runtime/trace/dispatch_graph.h"
#include "runtime/trace/trace.h"

namespace tandem::control {

using runtime::TensorList;
using runtime::Trace;
namespace {

using ir::Graph;
using ir::Role;

/// That of a custom function is recorded without grad mode; a gradient of it is asked of its
/// equations all the same.
bool is_backward_half(const Graph& graph) {
  return std::ranges::find(graph.inputs(), Role::Tangent, &ir::Input::role) != graph.inputs().end();
}

class ControlEquation {
 public:
  ControlEquation(const ir::Graph& graph, ir::EquationId e, const Tensors& operands)
      : g_(graph), e_(e), operands_(operands) {}

  Tensors record() const {
    std::vector<ir::AttrValue> attrs(g_.attrs(e_).begin(), g_.attrs(e_).end());
    for (ir::AttrValue& attr : attrs)
      if (auto* id = std::get_if<ir::SubgraphId>(&attr))
        *id = Trace::current()->graph().add_subgraph(g_.subgraph(*id));
    std::vector<ir::Type> types;
    for (const ir::ValueId v : g_.results(e_)) types.push_back(g_.type(v));
    const GradMode mode(grad_enabled() || is_backward_half(Trace::current()->graph()));
    const TensorList results = runtime::dispatch(g_.op(e_), operands_, attrs, false, types);
    return {results.begin(), results.end()};
  }

  Tensors run() const {
    if (g_.op(e_) == ir::Op::cond) return cond();
    return g_.op(e_) == ir::Op::scan ? scan() : while_loop();
  }

 private:
  Tensors call(ir::Attr body, std::span<const Tensor> inputs) const {
    return runtime::dispatch_graph(g_.subgraph(g_.attr<ir::SubgraphId>(e_, body)), inputs);
  }
  size_t count(ir::Attr attr) const { return static_cast<size_t>(g_.attr<int64_t>(e_, attr)); }
  Tensors part(size_t begin, size_t end) const {
    return {operands_.begin() + static_cast<ptrdiff_t>(begin),
            operands_.begin() + static_cast<ptrdiff_t>(end)};
  }

  Tensors cond() const {
    const auto operands = std::span(operands_).subspan(1);
    return run_cond(
        operands_[0], [&](const Tensors&) { return call(ir::Attr::then, operands); },
        [&](const Tensors&) { return call(ir::Attr::otherwise, operands); });
  }

  Tensors while_loop() const {
    const size_t carries = count(ir::Attr::carries);
    const auto with_constants = [&](Tensors t) {
      t.insert(t.end(), operands_.begin() + static_cast<ptrdiff_t>(carries), operands_.end());
      return t;
    };
    return run_while(
        [&](const Tensors& t) { return call(ir::Attr::condition, with_constants(t))[0]; },
        [&](Tensors t) { return call(ir::Attr::body, with_constants(std::move(t))); },
        part(0, carries), {});
  }

  Tensors scan() const {
    const size_t carries = count(ir::Attr::carries), whole = carries + count(ir::Attr::constants);
    const Tensors constants = part(carries, whole);
    Tensors tensors = part(0, carries);
    tensors.insert(tensors.end(), operands_.begin() + static_cast<ptrdiff_t>(whole),
                   operands_.end());
    return run_scan(
        [&](Tensors t) {
          t.insert(t.begin() + static_cast<ptrdiff_t>(carries), constants.begin(), constants.end());
          return call(ir::Attr::body, t);
        },
        std::move(tensors), carries,
        {.length = int64_t{g_.attr<ir::Dim>(e_, ir::Attr::length)},
         .reverse = g_.attr<bool>(e_, ir::Attr::reverse)});
  }

  const ir::Graph& g_;
  const ir::EquationId e_;
  const Tensors& operands_;
};

/// Which operands a gradient flows to.
std::vector<bool> needed(const Tensors& operands) {
  std::vector<bool> needs;
  for (const Tensor& t : operands)
    needs.push_back(ir::is_differentiable(t.dtype()) && runtime::requires_grad(t));
  return needs;
}

/// An equation of a trace on its tape: its halves, and what backward reads.
struct ControlNode final : runtime::Node {
  ControlNode(autodiff::Halves halves, std::vector<bool> needs, const Tensors& operands,
              runtime::Edges next, size_t result_count)
      : Node(std::move(next), static_cast<int>(result_count)),
        halves_(std::move(halves)),
        needs_(std::move(needs)) {
    for (const Tensor& t : operands) operands_.emplace_back(t);
  }

  std::string name() const override { return halves_.forward.name; }
  const Graph& forward() const { return halves_.forward; }

  /// `results`: all that forward gives but what it saves. Those that are not batched where operands
  /// are were put on the tape of the levels around, and are none of this node's.
  void save(const Tensors& results, const std::vector<bool>& own) {
    const std::vector<ir::Output>& outputs = halves_.forward.outputs();
    for (const ir::Output& output : outputs) {
      if (output.role != Role::Saved) continue;
      if (const int input = halves_.forward.input_index(output.value); input >= 0) {
        results_.push_back(-1);
        saved_.push_back(operands_[static_cast<size_t>(input)]);
        continue;
      }
      const auto result = std::ranges::find(outputs, output.value, &ir::Output::value);
      const auto number = static_cast<size_t>(result - outputs.begin());
      results_.push_back(static_cast<int>(number));
      saved_.push_back(
          own[number] ? runtime::SavedTensor::of_result(results[number], static_cast<int>(number))
                      : runtime::SavedTensor(results[number]));
    }
  }

  /// Tangents of the results were made since.
  void renew_tangents(const Tensors& results) const {
    for (size_t k = 0; k < saved_.size(); ++k)
      if (results_[k] >= 0) saved_[k].share_tangents(results[static_cast<size_t>(results_[k])]);
  }

  Tensors apply(Tensors grads, std::span<const bool>) override {
    if (released_) fail_released(*this);
    return arrives_beside(grads) ? differentiate_forward(grads) : run_backward(grads);
  }

  void release() override {
    released_ = true;
    operands_.clear();
    saved_.clear();
  }

 private:
  Tensor unpack(const runtime::SavedTensor& t) { return t.unpack(*this, shared_from_this()); }

  static Tensor or_zeros(const Tensor& gradient, const ir::Type& type) {
    return gradient.defined() ? gradient : zeros(type.sizes, type.dtype);
  }

  /// Whether one arrives at a result that nobody but backward reads.
  bool arrives_beside(const Tensors& grads) const {
    std::vector<bool> taken(grads.size());
    for (const ir::Input& input : halves_.backward.inputs())
      if (input.role == Role::Tangent) taken[static_cast<size_t>(input.target)] = true;
    for (size_t i = 0; i < grads.size(); ++i)
      if (grads[i].defined() && !taken[i]) return true;
    return false;
  }

  Tensors run_backward(const Tensors& grads) {
    const Graph& backward = halves_.backward;
    Tensors inputs;
    for (const ir::Input& input : backward.inputs())
      inputs.push_back(
          input.role == Role::Saved
              ? unpack(saved_[inputs.size()])
              : or_zeros(grads[static_cast<size_t>(input.target)], backward.type(input.value)));
    return gradients_among(backward, inputs);
  }

  Tensors differentiate_forward(const Tensors& grads) {
    std::vector<bool> arrives(halves_.forward.outputs().size());
    for (size_t i = 0; i < grads.size(); ++i) arrives[i] = grads[i].defined();
    const Graph joint = autodiff::joint_for(halves_.forward, needs_, arrives);
    Tensors inputs;
    for (const ir::Input& input : joint.inputs())
      inputs.push_back(input.role == Role::Tangent ? grads[static_cast<size_t>(input.target)]
                                                   : unpack(operands_[inputs.size()]));
    return gradients_among(joint, inputs);
  }

  Tensors gradients_among(const Graph& graph, const Tensors& inputs) const {
    const Tensors values = runtime::dispatch_graph(graph, inputs);
    Tensors gradients(edges.size());
    for (size_t k = 0; k < values.size(); ++k)
      if (graph.outputs()[k].role == Role::Gradient)
        gradients[static_cast<size_t>(graph.outputs()[k].target)] = values[k];
    return gradients;
  }

  const autodiff::Halves halves_;
  const std::vector<bool> needs_;
  std::vector<runtime::SavedTensor> operands_, saved_;
  std::vector<int> results_;  // which result each saved one is, or -1: an operand
  bool released_ = false;
};

/// What a forward half gives, without its history here; out of vmap it has one.
Tensors forward_of(const Graph& forward, const Tensors& operands) {
  if (const size_t depth = runtime::batch_depth(operands); depth != 0)
    return dispatch_graph_of_all(forward, operands, depth);
  Tensors twins;
  for (const Tensor& t : operands) twins.push_back(runtime::without_history(t));
  return runtime::dispatch_graph(forward, twins);
}

/// The forward half recorded, at the level `depth` of vmap and those around it, and the equation on
/// the tape.
struct Recorded {
  std::shared_ptr<ControlNode> node;
  Tensors results;  // with those that backward alone reads
};

Recorded record_halves(const Graph& graph, ir::EquationId e, const Tensors& operands,
                       size_t depth) {
  std::vector<bool> needs = needed(operands);
  std::vector<bool> active = autodiff::active_results(graph, e, needs);
  autodiff::Halves halves = autodiff::halves_of(graph, e, needs);
  runtime::Edges edges;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (needs[i]) runtime::require_clear_history(operands[i]);
    edges.push_back(needs[i] ? runtime::gradient_edge(operands[i]) : runtime::Edge());
  }
  const runtime::LevelDepth around(depth);
  Tensors results = forward_of(halves.forward, operands);
  const auto is_saved = [](const ir::Output& o) { return o.role == Role::Saved; };
  results.resize(results.size() -
                 static_cast<size_t>(std::ranges::count_if(halves.forward.outputs(), is_saved)));
  const auto node = runtime::make_node<ControlNode>(std::move(halves), std::move(needs), operands,
                                                    std::move(edges), results.size());
  std::vector<bool> own;
  for (const Tensor& t : results)
    own.push_back(runtime::batch_depth({&t, 1}) == runtime::batch_depth(operands));
  node->save(results, own);
  active.resize(results.size(), true);  // those that backward alone reads
  for (size_t i = 0; i < results.size(); ++i)
    if (own[i] && active[i] && ir::is_differentiable(results[i].dtype()))
      runtime::set_history(results[i], node, static_cast<int>(i));
  return {node, std::move(results)};
}

/// `e` and no other equation.
Graph alone(const Graph& graph, ir::EquationId e) {
  std::vector<Graph> bodies;
  std::vector<ir::AttrValue> others;
  for (const ir::AttrValue& attr : graph.attrs(e)) {
    if (const auto* id = std::get_if<ir::SubgraphId>(&attr))
      bodies.push_back(graph.subgraph(*id));
    else
      others.push_back(attr);
  }
  const auto types = [&](std::span<const ir::ValueId> values) {
    std::vector<ir::Type> all;
    for (const ir::ValueId v : values) all.push_back(graph.type(v));
    return all;
  };
  return equation_graph(graph.op(e), types(graph.operands(e)), std::move(bodies), others,
                        types(graph.results(e)));
}

/// An equation of a trace on operands that carry tangents inside level `depth` of vmap. One that
/// has a gradient is recorded apart from its tangents, which its halves' tangents are too.
Tensors record_moving(const Graph& graph, ir::EquationId e, const Tensors& operands, size_t depth) {
  const auto moves_at = [&](size_t level) {
    return std::ranges::any_of(
        operands, [&](const Tensor& t) { return runtime::tangent_at(t, level).defined(); });
  };
  if (autodiff::has_halves(graph.op(e)) && wants_gradient(operands)) {
    auto [node, results] = record_halves(graph, e, operands, depth);
    for (size_t level = depth + 1; level <= runtime::level_depth(); ++level) {
      if (!moves_at(level)) continue;
      const Moved moved = dispatch_moving(node->forward(), operands, level);
      for (size_t i = 0; i < results.size(); ++i)
        if (moved.tangents[i].defined()) runtime::set_tangent(results[i], level, moved.tangents[i]);
    }
    node->renew_tangents(results);
    results.resize(graph.results(e).size());
    return results;
  }
  size_t level = runtime::level_depth();
  while (!moves_at(level)) --level;
  const Moved moved = dispatch_moving(alone(graph, e), operands, level);
  for (size_t i = 0; i < moved.values.size(); ++i)
    if (moved.tangents[i].defined())
      runtime::set_tangent(moved.values[i], level, moved.tangents[i]);
  return moved.values;
}

}  // namespace

Graph equation_graph(ir::Op op, const std::vector<ir::Type>& operands, std::vector<Graph> bodies,
                     const std::vector<ir::AttrValue>& others,
                     const std::vector<ir::Type>& results) {
  BodyGraph graph{std::string(ir::name(op))};
  std::vector<ir::ValueId> inputs;
  for (const ir::Type& type : operands) inputs.push_back(graph.input(type, "x"));
  std::vector<ir::AttrValue> attrs;
  for (Graph& body : bodies) attrs.emplace_back(graph.graph().add_subgraph(std::move(body)));
  attrs.insert(attrs.end(), others.begin(), others.end());
  ir::GraphSink sink(graph.graph());
  for (const ir::ValueId v : ir::Builder(sink).emit_call(op, inputs, attrs, results))
    graph.output(v, "y");
  return graph.take();
}

bool wants_gradient(const Tensors& operands) {
  const std::vector<bool> needs = needed(operands);
  return grad_enabled() && std::ranges::find(needs, true) != needs.end();
}

Tensors dispatch_control(const Graph& graph, ir::EquationId e, const Tensors& given) {
  Tensors operands;
  for (const Tensor& t : given) operands.push_back(runtime::in_current_trace(t));
  if (graph.op(e) == ir::Op::cond && runtime::is_batched(operands[0]))
    return select_branches(graph, e, operands);
  const ControlEquation equation(graph, e, operands);
  if (Trace::current() == nullptr) return equation.run();
  const size_t depth = runtime::batch_depth(operands);
  if (runtime::any_moves(operands, depth)) return record_moving(graph, e, operands, depth);
  if (autodiff::has_halves(graph.op(e)) && wants_gradient(operands)) {
    Tensors results = record_halves(graph, e, operands, runtime::level_depth()).results;
    results.resize(graph.results(e).size());
    return results;
  }
  return depth != 0 ? dispatch_examples(graph, e, operands, depth) : equation.record();
}

}  // namespace tandem::control
