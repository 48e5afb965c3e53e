// The engine: walks the tape from the outputs, later nodes first, each once all gradients of its
// results are known. The order is fixed, and nothing recurses.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <unordered_set>
#include <utility>

#include "ir/base/error.h"
#include "ir/buffer.h"
#include "runtime/levels/levels.h"
#include "runtime/ops/call.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/anomaly.h"
#include "runtime/tape/gradient_sum.h"
#include "runtime/tape/nodes.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {
namespace {

/// Where the gradient at an edge is asked for by grad().
struct Capture {
  const Node* node;
  int result;
  size_t output;
};

/// A node to visit, and what its results have received so far.
struct Pending {
  std::shared_ptr<Node> node;
  std::vector<GradientSum> grads;
};

std::atomic<uint64_t> passes = 0;
thread_local uint64_t t_pass = 0;

/// A pass has its number while it lives; those that its nodes begin have others.
class Pass {
 public:
  Pass() : outer_(std::exchange(t_pass, ++passes)) {}
  ~Pass() { t_pass = outer_; }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

 private:
  uint64_t outer_;
};

class Engine {
 public:
  Engine(bool retain_graph, bool create_graph)
      : retain_graph_(retain_graph), grad_mode_(create_graph) {}

  void add_root(const Edge& edge, const Tensor& gradient) { receive(edge, gradient); }

  /// Only gradients of these are computed, and no leaf's grad is touched.
  void capture(std::vector<Capture> captures, size_t outputs) {
    captures_ = std::move(captures);
    restricted_ = true;
    captured_.resize(outputs);
    find_needed();
  }

  void run() {
    if (Trace* const trace = Trace::current()) trace->note_backward();
    while (!pending_.empty()) {
      auto latest = pending_.extract(pending_.begin());
      std::vector<Tensor> grads;
      for (GradientSum& sum : latest.mapped().grads) grads.push_back(sum.take());
      visit(*latest.mapped().node, std::move(grads));
    }
  }

  std::vector<Tensor> take_captured() { return std::move(captured_); }

 private:
  /// Adds into what a node's result has received so far: a tensor, or the gradient of a part.
  template <class Gradient>
  void receive(const Edge& edge, Gradient gradient) {
    auto [it, is_new] = pending_.try_emplace(edge.node->sequence);
    Pending& pending = it->second;
    if (is_new)
      pending = {edge.node, std::vector<GradientSum>(static_cast<size_t>(edge.node->results))};
    pending.grads[static_cast<size_t>(edge.result)].add(std::move(gradient));
  }

  void visit(Node& node, std::vector<Tensor> grads) {
    const LocationScope at(node.made_at);
    run_hooks(node, grads);
    if (checks_gradients()) check_arrived(node, grads);
    for (const Node::RetainedGrad& r : node.retained) store_retained(r, grads);
    for (const Capture& c : captures_)
      if (c.node == &node) captured_[c.output] = grads[static_cast<size_t>(c.result)];
    if (restricted_ && needed_.count(&node) == 0) return;
    Flags asked(node.edges.size());
    for (size_t i = 0; i < node.edges.size(); ++i)
      asked[i] = node.edges[i].node && wanted(node.edges[i]);
    if (pass_on_as_part(node, grads, asked.all())) return;
    std::vector<Tensor> out = apply(node, std::move(grads), asked.all());
    if (checks_gradients()) check_given(node, out);
    if (!retain_graph_) node.release();
    TANDEM_CHECK(out.size() == node.edges.size(), "a node gives one gradient per operand");
    for (size_t i = 0; i < out.size(); ++i) {
      const Edge& edge = node.edges[i];
      if (out[i].defined() && asked[i]) receive(edge, std::move(out[i]));
    }
  }

  /// The gradient of a view of a part, as that: what other parts' gradients are comes later. (One
  /// that is itself differentiated or recorded is brought between zeros by itself.)
  bool pass_on_as_part(const Node& node, const std::vector<Tensor>& grads,
                       std::span<const bool> asked) {
    if (grad_enabled() || checks_gradients() || Trace::current() || level_depth() != 0)
      return false;
    const std::optional<Part> part = node.shown_part();
    if (!part || !asked[0] || !grads[0].defined()) return false;
    const bool keeps_dim = grads[0].dim() == part->whole.rank();
    receive(node.edges[0],
            PartGradient{keeps_dim ? grads[0] : grads[0].unsqueeze(part->dim), *part});
    return true;
  }

  static std::vector<Tensor> apply(Node& node, std::vector<Tensor> grads,
                                   std::span<const bool> asked) {
    const MatmulPrecisionScope precision(node.matmul_precision);
    return node.apply(std::move(grads), asked);
  }

  bool wanted(const Edge& edge) const {
    return !restricted_ || needed_.count(edge.node.get()) != 0 ||
           captured_nodes_.count(edge.node.get()) != 0;
  }

  static void run_hooks(const Node& node, std::vector<Tensor>& grads) {
    for (const Node::ResultHook& hook : node.hooks) {
      Tensor& grad = grads[static_cast<size_t>(hook.result)];
      if (!grad.defined()) continue;
      Tensor replaced = hook.call(grad);
      if (!replaced.defined()) continue;
      if (replaced.sizes() != grad.sizes() || replaced.dtype() != grad.dtype())
        ir::fail(Errc::Autograd,
                 fmt::format("hook: the gradient it gives does not fit; expected {}, got {}",
                             ir::to_string(grad.impl()->type()),
                             ir::to_string(replaced.impl()->type())));
      grad = std::move(replaced);
    }
  }

  static void store_retained(const Node::RetainedGrad& retained, const std::vector<Tensor>& grads) {
    const auto impl = retained.tensor.lock();
    const Tensor& grad = grads[static_cast<size_t>(retained.result)];
    if (!impl || !grad.defined()) return;
    AutogradMeta& meta = *impl->autograd;
    meta.grad = meta.grad.defined() ? add_tensors(meta.grad, grad) : grad;
  }

  /// The nodes from which a captured one is reached. Edges lead to smaller sequence numbers, so one
  /// pass in ascending order decides them all.
  void find_needed() {
    for (const Capture& c : captures_) captured_nodes_.insert(c.node);
    std::vector<const Node*> reached;
    std::unordered_set<const Node*> seen;
    std::vector<const Node*> stack;
    for (const auto& [sequence, pending] : pending_) stack.push_back(pending.node.get());
    while (!stack.empty()) {
      const Node* node = stack.back();
      stack.pop_back();
      if (!seen.insert(node).second) continue;
      reached.push_back(node);
      for (const Edge& edge : node->edges)
        if (edge.node) stack.push_back(edge.node.get());
    }
    std::ranges::sort(reached, {}, [](const Node* n) { return n->sequence; });
    for (const Node* node : reached)
      for (const Edge& edge : node->edges)
        if (edge.node && wanted(edge)) {
          needed_.insert(node);
          break;
        }
  }

  const Pass pass_;
  const bool retain_graph_;
  const GradMode grad_mode_;
  const UncheckedResults unchecked_;
  bool restricted_ = false;
  std::map<uint64_t, Pending, std::greater<>> pending_;  // by sequence number, which no two share
  std::vector<Capture> captures_;
  std::vector<Tensor> captured_;
  std::unordered_set<const Node*> needed_, captured_nodes_;
};

std::string place(const std::source_location& at) {
  return fmt::format(" ({}:{})", at.file_name(), at.line());
}

/// A one of the only element's sizes. Outside of a trace nobody records where it came from.
Tensor one_like(const Tensor& output) {
  if (Trace::current() != nullptr) return full_tensor(output.sizes(), output.dtype(), 1.0);
  Tensor one = empty_tensor(output.sizes(), output.dtype());
  ir::store_element(one.impl()->data(), output.dtype(), 1.0);
  return one;
}

/// The gradient that flows into an output: the given one, checked, or one.
Tensor root_gradient(const Tensor& output, const Tensor& gradient, const char* what,
                     const std::source_location& at) {
  if (!gradient.defined()) {
    if (output.numel() != 1)
      ir::fail(Errc::Autograd, fmt::format("{}: the output needs a gradient; expected one element, "
                                           "got {}{}",
                                           what, to_string(output.sizes()), place(at)));
    return one_like(output);
  }
  if (gradient.sizes() != output.sizes() || gradient.dtype() != output.dtype())
    ir::fail(Errc::Shape, fmt::format("{}: the gradient does not fit the output; expected {}, got "
                                      "{}{}",
                                      what, ir::to_string(output.impl()->type()),
                                      ir::to_string(gradient.impl()->type()), place(at)));
  if (Trace::current() == nullptr) require_operand(gradient, what);
  return in_current_trace(gradient);
}

Edge root_edge(const Tensor& output, const char* what, const std::source_location& at) {
  const Edge edge = gradient_edge(output);
  if (!edge.node)
    ir::fail(Errc::Autograd, fmt::format("{}: the output does not require grad; expected one "
                                         "computed in grad mode from tensors that do{}",
                                         what, place(at)));
  return edge;
}

}  // namespace

uint64_t current_pass() { return t_pass; }

void backward(const Tensor& output, const Tensor& gradient, bool retain_graph, bool create_graph,
              const std::source_location& at) {
  const LocationScope location(at);
  if (!output.defined())
    ir::fail(Errc::Argument, "backward: undefined tensor; expected a tensor, got none");
  const Edge edge = root_edge(output, "backward", at);
  Engine engine(retain_graph, create_graph);
  engine.add_root(edge, root_gradient(output, gradient, "backward", at));
  engine.run();
}

}  // namespace tandem::runtime

namespace tandem {

using runtime::Capture;
using runtime::Edge;
using runtime::Engine;
using runtime::gradient_edge;
using runtime::LocationScope;
using runtime::root_edge;
using runtime::root_gradient;

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options, SourceLocation at) {
  const LocationScope location(at);
  if (!options.grad_outputs.empty() && options.grad_outputs.size() != outputs.size())
    ir::fail(Errc::Argument, fmt::format("grad: expected one gradient per output, {}, got {}",
                                         outputs.size(), options.grad_outputs.size()));
  std::vector<Capture> captures;
  std::vector<Edge> kept;  // accumulators live as long as somebody holds them
  for (size_t i = 0; i < inputs.size(); ++i) {
    kept.push_back(gradient_edge(inputs[i]));
    if (!runtime::requires_grad(inputs[i]))
      ir::fail(Errc::Autograd,
               fmt::format("grad: input {} does not require grad; expected one that does", i));
    if (kept.back().node) captures.push_back({kept.back().node.get(), kept.back().result, i});
  }
  Engine engine(options.retain_graph || options.create_graph, options.create_graph);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor given = options.grad_outputs.empty() ? Tensor() : options.grad_outputs[i];
    const Edge edge = root_edge(outputs[i], "grad", at);
    engine.add_root(edge, root_gradient(outputs[i], given, "grad", at));
  }
  engine.capture(std::move(captures), inputs.size());
  engine.run();
  std::vector<Tensor> out = engine.take_captured();
  for (size_t i = 0; i < out.size(); ++i)
    if (!out[i].defined() && !options.allow_unused)
      ir::fail(Errc::Autograd,
               fmt::format("grad: input {} was not used to compute the outputs; expected one that "
                           "was, or allow_unused",
                           i));
  return out;
}

}  // namespace tandem
