#include <tandem/ops/reductions.h>
#include <tandem/optim/adam.h>

#include "runtime/optim/recipe.h"

namespace tandem::optim {
namespace {

/// What the rules of Adam's kin share.
struct Moments {
  explicit Moments(const GroupUpdate& group)
      : steps(group.next_step()),
        lr(group.number("lr")),
        correction1(1.0 - pow(group.number("beta1"), steps)),
        correction2(1.0 - pow(group.number("beta2"), steps)),
        beta1(group.scalar("beta1")),
        rest1(1.0 - group.number("beta1")),
        beta2(group.scalar("beta2")),
        rest2(1.0 - group.number("beta2")),
        eps(group.scalar("eps")),
        weight_decay(group.scalar("weight_decay")),
        kept(1.0 - lr * group.number("weight_decay")),
        decoupled(group.flag("decoupled_weight_decay") != 0) {}

  /// With the decay of the weights that is part of it, if it is.
  Tensor gradient(const Update& u) const {
    return decoupled ? u.gradient : u.gradient + u.parameter * weight_decay;
  }
  Tensor decayed(const Update& u) const { return decoupled ? u.parameter * kept : u.parameter; }

  Tensor first(const Update& u, const Tensor& g) const {
    const Tensor m = u.state("exp_avg"), next = averaged(m, g, beta1, rest1);
    u.set(m, next);
    return next;
  }
  Tensor second(const Update& u, const Tensor& g) const {
    const Tensor v = u.state("exp_avg_sq"), next = averaged(v, g * g, beta2, rest2);
    u.set(v, next);
    return next;
  }

  Tensor steps, lr, correction1, correction2;  // of all parameters [n]; lr []
  Scalar beta1, rest1, beta2, rest2, eps, weight_decay, kept;
  bool decoupled;
};

constexpr std::string_view kNumbers[] = {"lr", "beta1", "beta2", "eps", "weight_decay"};
constexpr std::string_view kMaximize[] = {"maximize"};
constexpr std::string_view kDecouplable[] = {"maximize", "decoupled_weight_decay"};
constexpr StateKind kMoments[] = {{"exp_avg"}, {"exp_avg_sq"}};
constexpr Count kSteps[] = {{"step"}};

// --- Adam

struct AdamRule : Moments {
  explicit AdamRule(const GroupUpdate& group)
      : Moments(group), step_sizes(lr / correction1), roots2(sqrt(correction2)) {}

  void operator()(const Update& u) const {
    const Tensor g = gradient(u), m = first(u, g);
    const Tensor denominator = sqrt(largest(u, second(u, g))) / u.of(roots2) + eps;
    u.set_parameter(decayed(u) - m * u.of(step_sizes) / denominator);
  }

  /// amsgrad: of the second moments so far.
  static Tensor largest(const Update& u, const Tensor& v) {
    const Tensor so_far = u.state("max_exp_avg_sq");
    if (!so_far.defined()) return v;
    const Tensor next = maximum(so_far, v);
    u.set(so_far, next);
    return next;
  }

  Tensor step_sizes, roots2;
};

constexpr std::string_view kAdamFlags[] = {"amsgrad", "maximize", "decoupled_weight_decay"};
constexpr StateKind kAdamState[] = {{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq", "amsgrad"}};
constexpr Recipe kAdam{"Adam", kNumbers, kAdamFlags, kAdamState, kSteps, &sweep<AdamRule>};
constexpr Recipe kAdamW{"AdamW", kNumbers, kAdamFlags, kAdamState, kSteps, &sweep<AdamRule>};

// --- NAdam

struct NAdamRule : Moments {
  explicit NAdamRule(const GroupUpdate& group) : Moments(group), roots2(sqrt(correction2)) {
    const Tensor mu = mu_at(group, steps), next_mu = mu_at(group, steps + 1.0);
    const Tensor& product = group.set_count("mu_product", group.count("mu_product") * mu);
    of_gradient = lr * (1.0 - mu) / (1.0 - product);
    of_average = lr * next_mu / (1.0 - product * next_mu);
  }

  static Tensor mu_at(const GroupUpdate& group, const Tensor& step) {
    const Tensor decay = pow(0.96, step * group.number("momentum_decay"));
    return group.number("beta1") * (1.0 - 0.5 * decay);
  }

  void operator()(const Update& u) const {
    const Tensor g = gradient(u), m = first(u, g);
    const Tensor denominator = sqrt(second(u, g)) / u.of(roots2) + eps;
    u.set_parameter(decayed(u) - (g * u.of(of_gradient) + m * u.of(of_average)) / denominator);
  }

  Tensor roots2, of_gradient, of_average;
};

constexpr std::string_view kNAdamNumbers[] = {"lr",  "beta1",        "beta2",
                                              "eps", "weight_decay", "momentum_decay"};
constexpr Count kNAdamCounts[] = {{"step"}, {"mu_product", 1}};
constexpr Recipe kNAdam{"NAdam",  kNAdamNumbers, kDecouplable,
                        kMoments, kNAdamCounts,  &sweep<NAdamRule>};

// --- RAdam

struct RAdamRule : Moments {
  explicit RAdamRule(const GroupUpdate& group) : Moments(group), step_sizes(lr / correction1) {
    const Tensor rate2 = group.number("beta2"), limit = 2.0 / (1.0 - rate2) - 1.0;
    const Tensor length = limit - 2.0 * steps * pow(rate2, steps) / correction2;
    is_known = length > 5.0;
    const Tensor share =
        (length - 4.0) * (length - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * length);
    rectification = sqrt(correction2 * where(is_known, share, 1.0));
  }

  void operator()(const Update& u) const {
    const Tensor g = gradient(u), m = first(u, g);
    const Tensor adapted = u.of(rectification) / (sqrt(second(u, g)) + eps);
    u.set_parameter(decayed(u) - m * u.of(step_sizes) * where(u.element(is_known), adapted, 1.0));
  }

  Tensor step_sizes, is_known, rectification;
};

constexpr Recipe kRAdam{"RAdam", kNumbers, kDecouplable, kMoments, kSteps, &sweep<RAdamRule>};

// --- Adamax

struct AdamaxRule : Moments {
  explicit AdamaxRule(const GroupUpdate& group) : Moments(group), step_sizes(lr / correction1) {}

  void operator()(const Update& u) const {
    const Tensor g = gradient(u), m = first(u, g);
    const Tensor norm = u.state("exp_inf"), next = maximum(norm * beta2, abs(g) + eps);
    u.set(norm, next);
    u.set_parameter(u.parameter - m * u.of(step_sizes) / next);
  }

  Tensor step_sizes;
};

constexpr StateKind kAdamaxState[] = {{"exp_avg"}, {"exp_inf"}};
constexpr Recipe kAdamax{"Adamax", kNumbers, kMaximize, kAdamaxState, kSteps, &sweep<AdamaxRule>};

// --- LAMB

struct LambRule : Moments {
  explicit LambRule(const GroupUpdate& group) : Moments(group), roots2(sqrt(correction2)) {}

  void operator()(const Update& u) const {
    const Tensor& p = u.parameter;
    const Tensor m = first(u, u.gradient) / u.of(correction1);
    const Tensor direction =
        m / (sqrt(second(u, u.gradient)) / u.of(roots2) + eps) + p * weight_decay;
    const Tensor size = norm(p), length = norm(direction);
    const Tensor ratio = where(logical_and(size > 0, length > 0), size / length, 1.0);
    u.set_parameter(p - direction * (ratio * Scalar(lr)));
  }

  Tensor roots2;
};

constexpr Recipe kLamb{"LAMB", kNumbers, kMaximize, kMoments, kSteps, &sweep<LambRule>};

/// The options that all have.
template <class Options>
ParamGroup options_of(const Options& o) {
  return {.lr = o.lr,
          .beta1 = o.beta1,
          .beta2 = o.beta2,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .maximize = o.maximize};
}

template <class Options>
ParamGroup adam_options_of(const Options& o, bool decoupled) {
  ParamGroup all = options_of(o);
  all.amsgrad = o.amsgrad;
  all.decoupled_weight_decay = decoupled;
  return all;
}

template <class Options>
ParamGroup decouplable_options_of(const Options& o) {
  ParamGroup all = options_of(o);
  all.decoupled_weight_decay = o.decoupled_weight_decay;
  return all;
}

ParamGroup nadam_options_of(const NAdamOptions& o) {
  ParamGroup all = decouplable_options_of(o);
  all.momentum_decay = o.momentum_decay;
  return all;
}

}  // namespace

Adam::Adam(const ParamGroups& parameters, const AdamOptions& o)
    : Optimizer(kAdam, adam_options_of(o, o.decoupled_weight_decay), parameters) {}

AdamW::AdamW(const ParamGroups& parameters, const AdamWOptions& o)
    : Optimizer(kAdamW, adam_options_of(o, true), parameters) {}

NAdam::NAdam(const ParamGroups& parameters, const NAdamOptions& o)
    : Optimizer(kNAdam, nadam_options_of(o), parameters) {}

RAdam::RAdam(const ParamGroups& parameters, const RAdamOptions& o)
    : Optimizer(kRAdam, decouplable_options_of(o), parameters) {}

Adamax::Adamax(const ParamGroups& parameters, const AdamaxOptions& o)
    : Optimizer(kAdamax, options_of(o), parameters) {}

LAMB::LAMB(const ParamGroups& parameters, const LambOptions& o)
    : Optimizer(kLamb, options_of(o), parameters) {}

}  // namespace tandem::optim
