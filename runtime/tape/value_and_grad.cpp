// Functions that give gradients of functions.
#include <fmt/format.h>
#include <tandem/autograd/forward.h>
#include <tandem/autograd/value_and_grad.h>
#include <tandem/ops.h>

#include <algorithm>
#include <unordered_set>

#include "ir/base/error.h"
#include "runtime/levels/batched.h"
#include "runtime/ops/call.h"
#include "runtime/tape/nodes.h"

namespace tandem::runtime {

bool leads_elsewhere(const Tensor& value, const std::unordered_set<const Node*>& accumulators) {
  std::vector<const Node*> open{gradient_edge(value).node.get()};
  std::unordered_set<const Node*> seen;
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (dynamic_cast<const AccumulateGrad*>(node) != nullptr && !accumulators.contains(node))
      return true;
    for (const Edge& edge : node->edges) open.push_back(edge.node.get());
  }
  return false;
}

Tensor watched_tensor(const Tensor& t, bool outer_mode) {
  if (!outer_mode || !is_differentiated(t)) return moving_detached(t).requires_grad_();
  // (Of one example the leaf: all examples keep their history.)
  return t.requires_grad() ? t.alias() : without_history(t).requires_grad_();
}

Differentiation::Differentiation() : outer_mode_(grad_enabled()) {}
Differentiation::~Differentiation() = default;

Tensor Differentiation::watch(const Tensor& t) {
  if (!t.defined() || !ir::is_floating(t.dtype())) return t;
  for (const Watched& w : watched_)
    if (w.given.impl() == t.impl()) return w.seen;
  const Tensor seen = watched_tensor(t, outer_mode_);
  watched_.push_back({t, seen, {}});
  return seen;
}

void Differentiation::run(Tensor& value, const SourceLocation& at) {
  if (!value.defined() || value.numel() != 1 || !ir::is_floating(value.dtype()))
    ir::fail(
        Errc::Shape,
        fmt::format("grad: expected a function that gives one floating element, got {}",
                    value.defined() ? ir::to_string(value.impl()->type()) : "an undefined tensor"));
  std::vector<Tensor> inputs;
  std::unordered_set<const Node*> accumulators;  // of tensors that nobody else sees
  std::vector<Edge> alive;
  for (const Watched& w : watched_) {
    inputs.push_back(w.seen);
    alive.push_back(gradient_edge(w.seen));
    if (is_leaf(w.seen)) accumulators.insert(alive.back().node.get());
  }
  const bool is_outside = is_batched(value) && is_differentiated(value.impl()->batched->physical);
  kept_ = outer_mode_ && (is_outside || leads_elsewhere(value, accumulators));
  std::vector<Tensor> gradients(inputs.size());
  if (value.requires_grad() && !inputs.empty())
    gradients = grad({value}, inputs, {.create_graph = kept_, .allow_unused = true}, at);
  for (size_t i = 0; i < watched_.size(); ++i)
    watched_[i].gradient =
        gradients[i].defined() ? gradients[i] : zeros_like(watched_[i].given.detach());
  if (!kept_) value = moving_detached(value);
}

Tensor Differentiation::besides(const Tensor& t) const {
  return kept_ || !t.defined() || !t.requires_grad() ? t : moving_detached(t);
}

Tensor Differentiation::gradient(const Tensor& watched) const {
  const auto found = std::ranges::find_if(watched_, [&](const Watched& w) {
    return watched.defined() && w.seen.impl() == watched.impl();
  });
  return found == watched_.end() ? Tensor() : found->gradient;
}

}  // namespace tandem::runtime
