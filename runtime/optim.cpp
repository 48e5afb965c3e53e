// The optimizers' updates are functions over lists of tensors, compiled like any other: one graph
// for all parameters.
#include <tandem/ops.h>
#include <tandem/optim.h>

namespace tandem::optim {

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
  std::vector<Tensor> parameters, gradients, m, v;
  Scalar lr, weight_decay, step;
  double beta1, beta2, eps;
  TANDEM_FIELDS(AdamWArguments, parameters, gradients, m, v, lr, weight_decay, step, beta1, beta2,
                eps)
};

void adamw(const AdamWArguments& a) {
  const Tensor& step = a.step.tensor();
  step.add_(1.0);
  const Tensor step_size = a.lr.tensor() / (1.0 - pow(a.beta1, step));
  const Tensor root2 = sqrt(1.0 - pow(a.beta2, step));
  const Tensor decay = 1.0 - a.lr.tensor() * a.weight_decay.tensor();
  for (size_t i = 0; i < a.parameters.size(); ++i) {
    const Tensor &p = a.parameters[i], &g = a.gradients[i];
    a.m[i].copy_(a.m[i] * a.beta1 + g * (1 - a.beta1));
    a.v[i].copy_(a.v[i] * a.beta2 + g * g * (1 - a.beta2));
    p.copy_(p * Scalar(decay) -
            a.m[i] * Scalar(step_size) / (sqrt(a.v[i]) / Scalar(root2) + a.eps));
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
    : Optimizer(std::move(parameters)), lr(options.lr), state_(std::make_unique<State>()) {
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
  Scalar step{0.0};
  Compiled<void (*)(const AdamWArguments&), void, const AdamWArguments&> update =
      compile(&adamw, named("adamw"));
};

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& options)
    : Optimizer(std::move(parameters)),
      lr(options.lr),
      weight_decay(options.weight_decay),
      state_(std::make_unique<State>()) {
  state_->options = options;
  state_->m = zeros_like_each(this->parameters());
  state_->v = zeros_like_each(this->parameters());
}
AdamW::~AdamW() = default;

void AdamW::update(const std::vector<int>& which, const std::vector<Tensor>& gradients) {
  const AdamWOptions& o = state_->options;
  state_->update({pick(parameters(), which), gradients, pick(state_->m, which),
                  pick(state_->v, which), lr, weight_decay, state_->step, o.beta1, o.beta2, o.eps});
}

}  // namespace tandem::optim
