#include <tandem/optim/adaptive.h>

#include "runtime/optim/recipe.h"

namespace tandem::optim {
namespace {

constexpr std::string_view kMaximize[] = {"maximize"};
constexpr Count kSteps[] = {{"step"}};

// --- RMSprop

struct RMSpropRule {
  explicit RMSpropRule(const GroupUpdate& group)
      : lr(group.scalar("lr")),
        alpha(group.scalar("alpha")),
        rest(1.0 - group.number("alpha")),
        eps(group.scalar("eps")),
        weight_decay(group.scalar("weight_decay")),
        momentum(group.scalar("momentum")) {
    group.next_step();
  }

  void operator()(const Update& u) const {
    const Tensor g = u.gradient + u.parameter * weight_decay;
    Tensor direction = g / (sqrt(variance(u, g)) + eps);
    if (const Tensor buffer = u.state("momentum_buffer"); buffer.defined()) {
      direction = buffer * momentum + direction;
      u.set(buffer, direction);
    }
    u.set_parameter(u.parameter - direction * lr);
  }

  Tensor variance(const Update& u, const Tensor& g) const {
    const Tensor squares = u.state("square_avg"), next = averaged(squares, g * g, alpha, rest);
    u.set(squares, next);
    const Tensor mean = u.state("grad_avg");
    if (!mean.defined()) return next;
    const Tensor next_mean = averaged(mean, g, alpha, rest);
    u.set(mean, next_mean);
    return next - next_mean * next_mean;
  }

  Scalar lr, alpha, rest, eps, weight_decay, momentum;
};

constexpr std::string_view kRMSpropNumbers[] = {"lr", "alpha", "eps", "weight_decay", "momentum"};
constexpr std::string_view kRMSpropFlags[] = {"centered", "maximize"};
constexpr StateKind kRMSpropState[] = {
    {"square_avg"}, {"momentum_buffer", "momentum"}, {"grad_avg", "centered"}};
constexpr Recipe kRMSprop{"RMSprop",     kRMSpropNumbers, kRMSpropFlags,
                          kRMSpropState, kSteps,          &sweep<RMSpropRule>};

// --- Adagrad

struct AdagradRule {
  explicit AdagradRule(const GroupUpdate& group)
      : eps(group.scalar("eps")), weight_decay(group.scalar("weight_decay")) {
    const Tensor& steps = group.next_step();
    step_sizes = group.number("lr") / (1.0 + (steps - 1.0) * group.number("lr_decay"));
  }

  void operator()(const Update& u) const {
    const Tensor g = u.gradient + u.parameter * weight_decay;
    const Tensor sum = u.state("sum"), next = sum + g * g;
    u.set(sum, next);
    u.set_parameter(u.parameter - g * u.of(step_sizes) / (sqrt(next) + eps));
  }

  Scalar eps, weight_decay;
  Tensor step_sizes;
};

constexpr std::string_view kAdagradNumbers[] = {"lr", "lr_decay", "weight_decay",
                                                "initial_accumulator_value", "eps"};
constexpr StateKind kAdagradState[] = {{"sum", "", "initial_accumulator_value"}};
constexpr Recipe kAdagrad{"Adagrad",     kAdagradNumbers, kMaximize,
                          kAdagradState, kSteps,          &sweep<AdagradRule>};

// --- Adadelta

struct AdadeltaRule {
  explicit AdadeltaRule(const GroupUpdate& group)
      : lr(group.scalar("lr")),
        rho(group.scalar("rho")),
        rest(1.0 - group.number("rho")),
        eps(group.scalar("eps")),
        weight_decay(group.scalar("weight_decay")) {
    group.next_step();
  }

  void operator()(const Update& u) const {
    const Tensor g = u.gradient + u.parameter * weight_decay;
    const Tensor squares = u.state("square_avg"), next = averaged(squares, g * g, rho, rest);
    const Tensor deltas = u.state("acc_delta");
    const Tensor delta = sqrt(deltas + eps) / sqrt(next + eps) * g;
    u.set(squares, next);
    u.set(deltas, averaged(deltas, delta * delta, rho, rest));
    u.set_parameter(u.parameter - delta * lr);
  }

  Scalar lr, rho, rest, eps, weight_decay;
};

constexpr std::string_view kAdadeltaNumbers[] = {"lr", "rho", "eps", "weight_decay"};
constexpr StateKind kAdadeltaState[] = {{"square_avg"}, {"acc_delta"}};
constexpr Recipe kAdadelta{"Adadelta",     kAdadeltaNumbers, kMaximize,
                           kAdadeltaState, kSteps,           &sweep<AdadeltaRule>};

}  // namespace

RMSprop::RMSprop(const ParamGroups& parameters, const RMSpropOptions& o)
    : Optimizer(kRMSprop,
                {.lr = o.lr,
                 .momentum = o.momentum,
                 .alpha = o.alpha,
                 .eps = o.eps,
                 .weight_decay = o.weight_decay,
                 .centered = o.centered,
                 .maximize = o.maximize},
                parameters) {}

Adagrad::Adagrad(const ParamGroups& parameters, const AdagradOptions& o)
    : Optimizer(kAdagrad,
                {.lr = o.lr,
                 .lr_decay = o.lr_decay,
                 .eps = o.eps,
                 .weight_decay = o.weight_decay,
                 .initial_accumulator_value = o.initial_accumulator_value,
                 .maximize = o.maximize},
                parameters) {}

Adadelta::Adadelta(const ParamGroups& parameters, const AdadeltaOptions& o)
    : Optimizer(kAdadelta,
                {.lr = o.lr,
                 .rho = o.rho,
                 .eps = o.eps,
                 .weight_decay = o.weight_decay,
                 .maximize = o.maximize},
                parameters) {}

}  // namespace tandem::optim
