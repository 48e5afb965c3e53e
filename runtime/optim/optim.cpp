// The optimizers' updates are functions over lists of tensors, compiled like any other: one graph
// for all parameters.
#include <fmt/format.h>
#include <tandem/ops.h>
#include <tandem/optim.h>

#include <unordered_set>

#include "ir/base/error.h"

namespace tandem::optim {

Optimizer::Optimizer(std::vector<Tensor> parameters) {
  std::unordered_set<const void*> seen;
  for (Tensor& t : parameters) {
    if (!t.defined())
      ir::fail(Errc::Argument, fmt::format("optimizer: parameter {} is undefined; expected tensors",
                                           &t - parameters.data()));
    if (seen.insert(t.impl().get()).second) parameters_.push_back(std::move(t));
  }
}

Optimizer::~Optimizer() = default;

void Optimizer::step() {
  std::vector<int> which;
  std::vector<Tensor> gradients;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor gradient = parameters_[i].grad();
    if (!gradient.defined()) continue;
    which.push_back(static_cast<int>(i));
    gradients.push_back(gradient);
  }
  if (which.empty()) return;
  const NoGrad no_grad;
  update(which, gradients);
}

void Optimizer::zero_grad() const {
  for (const Tensor& p : parameters_) p.set_grad(Tensor());
}

namespace {

std::vector<Tensor> zeros_like_each(const std::vector<Tensor>& tensors) {
  const NoGrad no_grad;
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(zeros_like(t));
  return out;
}

std::vector<Tensor> pick(const std::vector<Tensor>& from, const std::vector<int>& which) {
  std::vector<Tensor> out;
  for (int i : which) out.push_back(from[static_cast<size_t>(i)]);
  return out;
}

CompileOptions named(const char* name) {
  CompileOptions options;
  options.name = name;
  return options;
}

/// Refuses what a recipe does not allow.
void require(bool fits, const char* optimizer, const char* name, const char* expected,
             double value) {
  if (!fits)
    ir::fail(Errc::Argument, fmt::format("{}: {} out of range; expected {}, got {}", optimizer,
                                         name, expected, value));
}

void require_not_negative(const char* optimizer, const char* name, double value) {
  require(!(value < 0), optimizer, name, "a number >= 0", value);
}

void require_rate(const char* optimizer, const char* name, double value) {
  require(value >= 0 && value < 1, optimizer, name, "0 <= beta < 1", value);
}

const SgdOptions& checked(const SgdOptions& o) {
  require_not_negative("SGD", "lr", o.lr);
  require_not_negative("SGD", "momentum", o.momentum);
  require_not_negative("SGD", "weight_decay", o.weight_decay);
  if (o.nesterov && (o.momentum <= 0 || o.dampening != 0))
    ir::fail(Errc::Argument, fmt::format("SGD: nesterov expected a momentum > 0 and no dampening, "
                                         "got {} and {}",
                                         o.momentum, o.dampening));
  return o;
}

const AdamWOptions& checked(const AdamWOptions& o) {
  require_not_negative("AdamW", "lr", o.lr);
  require_rate("AdamW", "beta1", o.beta1);
  require_rate("AdamW", "beta2", o.beta2);
  require_not_negative("AdamW", "eps", o.eps);
  require_not_negative("AdamW", "weight_decay", o.weight_decay);
  return o;
}

// --- SGD

struct SgdArguments {
  std::vector<Tensor> parameters, gradients, velocities;
  std::vector<Tensor> started;  // one after the parameter's first step, zero before
  Scalar lr;
  double momentum, dampening, weight_decay;
  bool nesterov;
  TANDEM_FIELDS(SgdArguments, parameters, gradients, velocities, started, lr, momentum, dampening,
                weight_decay, nesterov)
};

void sgd(const SgdArguments& a) {
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    const Tensor& p = a.parameters[i];
    Tensor g = a.gradients[i];
    if (a.weight_decay != 0) g = g + p * a.weight_decay;
    if (a.momentum != 0) {
      const Tensor& v = a.velocities[i];
      if (a.dampening == 0) {
        v.copy_(v * a.momentum + g);
      } else {  // not of the first gradient
        v.copy_(v * a.momentum + g * Scalar(1 - a.started[i] * a.dampening));
        a.started[i].fill_(1);
      }
      g = a.nesterov ? g + v * a.momentum : v;
    }
    p.sub_(g * a.lr);
  }
}

// --- AdamW

struct AdamWArguments {
  std::vector<Tensor> parameters, gradients, m, v;  // of those that are updated
  std::vector<int64_t> which;                       // their numbers, ascending
  Tensor steps;                                     // taken so far by all parameters, f64 [n]
  Scalar lr, weight_decay;
  double beta1, beta2, eps;
  TANDEM_FIELDS(AdamWArguments, parameters, gradients, m, v, which, steps, lr, weight_decay, beta1,
                beta2, eps)
};

/// Adds 1 to the elements numbered `which`, a run of neighbours at a time.
void count_step(const Tensor& steps, const std::vector<int64_t>& which) {
  for (size_t i = 0; i < which.size();) {
    const int64_t first = which[i];
    int64_t end = first;
    while (i < which.size() && which[i] == end) ++i, ++end;
    steps.slice(0, first, end).add_(1.0);
  }
}

/// The number of a Scalar as an f64 tensor: numbers among themselves are f32, as ATen has it.
Tensor in_f64(const Scalar& s) { return ones({}, f64) * s; }

void adamw(const AdamWArguments& a) {
  count_step(a.steps, a.which);
  const Tensor step_sizes = a.lr / (1.0 - pow(a.beta1, a.steps));
  const Tensor roots2 = sqrt(1.0 - pow(a.beta2, a.steps));
  const Tensor decay = 1.0 - in_f64(a.lr) * a.weight_decay;
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    const Tensor &p = a.parameters[i], &g = a.gradients[i];
    const Scalar step_size(step_sizes.select(0, a.which[i])), root2(roots2.select(0, a.which[i]));
    a.m[i].copy_(a.m[i] * a.beta1 + g * (1 - a.beta1));
    a.v[i].copy_(a.v[i] * a.beta2 + g * g * (1 - a.beta2));
    p.copy_(p * Scalar(decay) - a.m[i] * step_size / (sqrt(a.v[i]) / root2 + a.eps));
  }
}

}  // namespace

struct SGD::State {
  SgdOptions options;
  std::vector<Tensor> velocities, started;
  Compiled<void (*)(const SgdArguments&), void, const SgdArguments&> update =
      compile(&sgd, named("sgd"));
};

SGD::SGD(std::vector<Tensor> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters)), lr(checked(options).lr), state_(std::make_unique<State>()) {
  state_->options = options;
  if (options.momentum == 0) return;
  state_->velocities = zeros_like_each(this->parameters());
  if (options.dampening == 0) return;
  for (const Tensor& v : state_->velocities) state_->started.push_back(zeros({}, v.dtype()));
}
SGD::~SGD() = default;

void SGD::update(const std::vector<int>& which, const std::vector<Tensor>& gradients) {
  const SgdOptions& o = state_->options;
  const auto state_of = [&](const std::vector<Tensor>& state) {
    return state.empty() ? state : pick(state, which);
  };
  state_->update({pick(parameters(), which), gradients, state_of(state_->velocities),
                  state_of(state_->started), lr, o.momentum, o.dampening, o.weight_decay,
                  o.nesterov});
}

struct AdamW::State {
  AdamWOptions options;
  std::vector<Tensor> m, v;
  Tensor steps;
  Compiled<void (*)(const AdamWArguments&), void, const AdamWArguments&> update =
      compile(&adamw, named("adamw"));
};

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& options)
    : Optimizer(std::move(parameters)),
      lr(checked(options).lr),
      weight_decay(options.weight_decay),
      state_(std::make_unique<State>()) {
  state_->options = options;
  state_->m = zeros_like_each(this->parameters());
  state_->v = zeros_like_each(this->parameters());
  state_->steps = zeros({static_cast<int64_t>(this->parameters().size())}, f64);
}
AdamW::~AdamW() = default;

void AdamW::update(const std::vector<int>& which, const std::vector<Tensor>& gradients) {
  const AdamWOptions& o = state_->options;
  state_->update({pick(parameters(), which), gradients, pick(state_->m, which),
                  pick(state_->v, which), std::vector<int64_t>(which.begin(), which.end()),
                  state_->steps, lr, weight_decay, o.beta1, o.beta2, o.eps});
}

}  // namespace tandem::optim
