// Functions of functions: gradients pulled back many times, Jacobians, modules as functions.
#include <fmt/format.h>
#include <tandem/autograd/transforms.h>
#include <tandem/ops.h>
#include <tandem/ops/shapes.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/levels/batched.h"
#include "runtime/ops/call.h"
#include "runtime/tape/nodes.h"

namespace tandem::runtime {
namespace {

bool takes_gradient(const Tensor& t) { return t.defined() && ir::is_floating(t.dtype()); }

/// While a level of its own lives, compiled functions run uncompiled: their operations, which
/// levels inside it need, are on the tape.
class Uncompiled {
 public:
  Uncompiled() { enter_level(); }
  ~Uncompiled() { leave_level(); }
  Uncompiled(const Uncompiled&) = delete;
  Uncompiled& operator=(const Uncompiled&) = delete;
};

void check_count(const char* what, size_t expected, size_t got) {
  if (expected != got)
    ir::fail(Errc::Argument,
             fmt::format("{}: expected one for each tensor, {}, got {}", what, expected, got));
}

}  // namespace

// --- pulling back

Pullback::Pullback() : outer_mode_(grad_enabled()) {}

Tensor Pullback::watch(const Tensor& t) {
  Tensor seen = t;
  for (size_t i = 0; takes_gradient(t) && i < given_.size(); ++i)
    if (given_[i].defined() && given_[i].impl() == t.impl()) seen = seen_[i];
  if (takes_gradient(t) && seen.impl() == t.impl()) seen = watched_tensor(t, outer_mode_);
  given_.push_back(t);
  seen_.push_back(seen);
  return seen;
}

bool Pullback::is_kept(const Tensor& y) const {
  if (!outer_mode_) return false;
  if (is_batched(y) && is_differentiated(y.impl()->batched->physical)) return true;
  std::unordered_set<const Node*> accumulators;
  std::vector<Edge> alive;
  for (const Tensor& t : seen_) {
    if (!takes_gradient(t)) continue;
    alive.push_back(gradient_edge(t));
    if (is_leaf(t)) accumulators.insert(alive.back().node.get());
  }
  return leads_elsewhere(y, accumulators);
}

Tensor Pullback::note(const Tensor& y) {
  results_.push_back(y);
  return !y.defined() || !y.requires_grad() || is_kept(y) ? y : moving_detached(y);
}

std::vector<Tensor> Pullback::gradients_of(const std::vector<Tensor>& outputs,
                                           const std::vector<Tensor>& gradients, bool create_graph,
                                           const SourceLocation& at) const {
  std::vector<Tensor> inputs, all(seen_.size());
  for (const Tensor& t : seen_)
    if (takes_gradient(t)) inputs.push_back(t);
  if (outputs.empty() || inputs.empty()) return all;
  const std::vector<Tensor> found = grad(outputs, inputs,
                                         {.grad_outputs = gradients,
                                          .retain_graph = true,
                                          .create_graph = create_graph,
                                          .allow_unused = true},
                                         at);
  for (size_t i = 0, next = 0; i < seen_.size(); ++i)
    if (takes_gradient(seen_[i])) all[i] = found[next++];
  return all;
}

std::vector<Tensor> Pullback::pull(const std::vector<Tensor>& gradients,
                                   const SourceLocation& at) const {
  check_count("vjp: gradients", results_.size(), gradients.size());
  std::vector<Tensor> outputs, of_outputs;
  bool is_followed = false;
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!gradients[i].defined() || !results_[i].defined() || !results_[i].requires_grad()) continue;
    outputs.push_back(results_[i]);
    of_outputs.push_back(gradients[i]);
    is_followed = is_followed || is_differentiated(gradients[i]) || is_kept(results_[i]);
  }
  std::vector<Tensor> all = gradients_of(outputs, of_outputs, grad_enabled() && is_followed, at);
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].defined() && takes_gradient(given_[i])) all[i] = zeros_like(given_[i].detach());
  return all;
}

namespace {

/// What is multiplied with the gradients, each tensor once.
struct Moving {
  std::vector<Tensor> gradients, along;
};

Moving moving_of(const std::vector<Tensor>& given, const std::vector<Tensor>& gradients,
                 const std::vector<Tensor>& tangents) {
  Moving moving;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto here = given.begin() + static_cast<ptrdiff_t>(i);
    const bool is_twin = std::any_of(given.begin(), here, [&](const Tensor& t) {
      return t.defined() && given[i].defined() && t.impl() == given[i].impl();
    });
    if (is_twin || !tangents[i].defined() || !gradients[i].defined()) continue;
    if (!gradients[i].requires_grad()) continue;
    moving.gradients.push_back(gradients[i]);
    moving.along.push_back(tangents[i]);
  }
  return moving;
}

}  // namespace

// The gradients are linear in those of the results: what these are multiplied with is the
// derivative.
std::vector<Tensor> Pullback::push(const std::vector<Tensor>& tangents,
                                   const SourceLocation& at) const {
  check_count("linearize: tangents", given_.size(), tangents.size());
  const bool outer_mode = grad_enabled();
  const EnableGrad mode;
  std::vector<Tensor> outputs, weights, all(results_.size());
  std::vector<size_t> places;
  for (size_t i = 0; i < results_.size(); ++i) {
    if (!takes_gradient(results_[i])) continue;
    all[i] = zeros_like(results_[i].detach());
    if (!results_[i].requires_grad()) continue;
    outputs.push_back(results_[i]);
    weights.push_back(all[i].detach().requires_grad_());
    places.push_back(i);
  }
  const Moving moving =
      moving_of(given_, gradients_of(outputs, weights, /*create_graph=*/true, at), tangents);
  if (moving.gradients.empty()) return all;
  const bool is_followed =
      std::ranges::any_of(moving.along, is_differentiated) ||
      std::ranges::any_of(outputs, [&](const Tensor& y) { return is_kept(y); });
  const std::vector<Tensor> found = grad(moving.gradients, weights,
                                         {.grad_outputs = moving.along,
                                          .retain_graph = true,
                                          .create_graph = outer_mode && is_followed,
                                          .allow_unused = true},
                                         at);
  for (size_t k = 0; k < places.size(); ++k)
    if (found[k].defined()) all[places[k]] = found[k];
  return all;
}

// --- Jacobians

namespace {

void check_differentiable(const Tensor& y, const char* what) {
  if (!takes_gradient(y))
    ir::fail(Errc::DType,
             fmt::format("{}: expected a function that gives a floating tensor, got {}", what,
                         y.defined() ? ir::to_string(y.impl()->type()) : "an undefined one"));
}

Shape joined(const Shape& a, const Shape& b) {
  Shape sizes = a;
  for (const Dim d : b) sizes.push_back(d);
  return sizes;
}

/// One direction for each element of `t`: [elements, sizes...].
Tensor directions_of(const Tensor& t, const SourceLocation& at) {
  const Dim n = t.numel();
  return eye(n, {}, t.dtype(), at).reshape(joined({n}, t.sizes()), at);
}

}  // namespace

std::vector<Tensor> jacobians_by_rows(const OfTensors& fn, const std::vector<Tensor>& given,
                                      const JacobianOptions& options, const SourceLocation& at) {
  const LocationScope location(at);
  const Uncompiled uncompiled;
  Pullback pullback;
  Tensor y;
  {
    const EnableGrad mode;
    std::vector<Tensor> seen;
    for (const Tensor& t : given) seen.push_back(pullback.watch(t));
    y = fn(seen);
  }
  check_differentiable(y, "jacrev");
  pullback.note(y);
  const auto row = [&](const Tensor& v) { return pullback.pull({v}, at); };
  std::vector<Tensor> rows =
      vmap(row, {.chunk_size = options.chunk_size}, at)(directions_of(y.detach(), at));
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i].defined()) rows[i] = rows[i].reshape(joined(y.sizes(), given[i].sizes()), at);
  return rows;
}

std::vector<Tensor> jacobians_by_columns(const OfTensors& fn, const std::vector<Tensor>& given,
                                         const JacobianOptions& options, const SourceLocation& at) {
  const LocationScope location(at);
  const auto along = [&](const Tensor& moving, const Tensor& v) {
    const DualLevel level;
    const Tensor dual = make_dual(moving, v, at);
    std::vector<Tensor> seen;
    for (const Tensor& t : given)
      seen.push_back(t.defined() && t.impl() == moving.impl() ? dual : t);
    const Tensor y = fn(seen);
    check_differentiable(y, "jacfwd");
    return tangent_or_zeros(y, at);
  };
  std::vector<Tensor> all(given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    if (!takes_gradient(given[i])) continue;
    const auto column = [&](const Tensor& v) { return along(given[i], v); };
    const VmapOptions columns{
        .out_dims = {-1}, .randomness = options.randomness, .chunk_size = options.chunk_size};
    const Tensor jacobian = vmap(column, columns, at)(directions_of(given[i].detach(), at));
    const Shape& sizes = jacobian.sizes();
    const Shape outputs(std::span(sizes.begin(), sizes.end() - 1));
    all[i] = jacobian.reshape(joined(outputs, given[i].sizes()), at);
  }
  return all;
}

// --- modules

void PutNamed::note(Tensor& t, const std::string& path) {
  if (t.defined()) places_.emplace_back(path, &t);
}

void PutNamed::finish() {
  std::vector<std::pair<Tensor*, Tensor>> all;
  for (const auto& [name, tensor] : tensors_) {
    const auto found = std::ranges::find(places_, name, &std::pair<std::string, Tensor*>::first);
    if (found == places_.end())
      ir::fail(Errc::Argument,
               fmt::format("functional_call: the module has no tensor \"{}\"; expected a name of "
                           "named_parameters or named_buffers",
                           name));
    for (const auto& [path, place] : places_)
      if (place->is_same(*found->second)) all.emplace_back(place, tensor);
  }
  for (const auto& [place, tensor] : all) *place = tensor;
}

}  // namespace tandem::runtime
