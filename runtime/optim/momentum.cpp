#include <fmt/format.h>
#include <tandem/optim/momentum.h>

#include <cmath>

#include "ir/base/error.h"
#include "runtime/optim/recipe.h"

namespace tandem::optim {
namespace {

// --- SGD

struct SgdRule {
  explicit SgdRule(const GroupUpdate& group)
      : lr(group.scalar("lr")),
        momentum(group.scalar("momentum")),
        weight_decay(group.scalar("weight_decay")),
        nesterov(group.flag("nesterov") != 0) {
    if (!group.has_state("momentum_buffer")) return;
    const Tensor& started = group.count("");
    shares = 1.0 - started * group.number("dampening");  // not of the first gradient
    group.set_count("", ones_like(started));
  }

  void operator()(const Update& u) const {
    Tensor g = u.gradient + u.parameter * weight_decay;
    if (const Tensor v = u.state("momentum_buffer"); v.defined()) {
      const Tensor next = v * momentum + g * u.of(shares);
      u.set(v, next);
      g = nesterov ? g + next * momentum : next;
    }
    u.set_parameter(u.parameter - g * lr);
  }

  Scalar lr, momentum, weight_decay;
  bool nesterov;
  Tensor shares;
};

void check_sgd(const Group& group) {
  const double momentum = group.get("momentum"), dampening = group.get("dampening");
  if (flag(group, "nesterov") != 0 && (momentum <= 0 || dampening != 0))
    ir::fail(Errc::Argument, fmt::format("SGD: nesterov expected a momentum > 0 and no dampening, "
                                         "got {} and {}",
                                         momentum, dampening));
}

constexpr std::string_view kSgdNumbers[] = {"lr", "momentum", "dampening", "weight_decay"};
constexpr std::string_view kSgdFlags[] = {"nesterov", "maximize"};
constexpr StateKind kSgdState[] = {{"momentum_buffer", "momentum"}};
constexpr Count kSgdCounts[] = {{""}};
constexpr Recipe kSgd{"SGD",      kSgdNumbers,     kSgdFlags, kSgdState,
                      kSgdCounts, &sweep<SgdRule>, &check_sgd};

// --- Lion

struct LionRule {
  explicit LionRule(const GroupUpdate& group)
      : lr(group.scalar("lr")),
        weight_decay(group.scalar("weight_decay")),
        beta1(group.scalar("beta1")),
        rest1(1.0 - group.number("beta1")),
        beta2(group.scalar("beta2")),
        rest2(1.0 - group.number("beta2")) {}

  void operator()(const Update& u) const {
    const Tensor m = u.state("exp_avg"), &g = u.gradient, &p = u.parameter;
    const Tensor direction = sign(averaged(m, g, beta1, rest1));
    u.set(m, averaged(m, g, beta2, rest2));
    u.set_parameter(p - (direction + p * weight_decay) * lr);
  }

  Scalar lr, weight_decay, beta1, rest1, beta2, rest2;
};

constexpr std::string_view kLionNumbers[] = {"lr", "beta1", "beta2", "weight_decay"};
constexpr std::string_view kMaximize[] = {"maximize"};
constexpr StateKind kLionState[] = {{"exp_avg"}};
constexpr Recipe kLion{"Lion", kLionNumbers, kMaximize, kLionState, {}, &sweep<LionRule>};

// --- Muon

struct MuonRule {
  explicit MuonRule(const GroupUpdate& group)
      : lr(group.number("lr")),
        momentum(group.scalar("momentum")),
        rest(1.0 - group.number("momentum")),
        decay(1.0 - lr * group.number("weight_decay")),
        a(group.scalar("ns_a")),
        b(group.scalar("ns_b")),
        c(group.scalar("ns_c")),
        eps(group.scalar("eps")),
        nesterov(group.flag("nesterov") != 0),
        steps(group.flag("ns_steps")),
        adjust_lr(static_cast<AdjustLr>(group.flag("adjust_lr"))) {}

  void operator()(const Update& u) const {
    const Tensor buffer = u.state("momentum_buffer"), &p = u.parameter;
    const Tensor next = averaged(buffer, u.gradient, momentum, rest);
    const Tensor direction = nesterov ? averaged(next, u.gradient, momentum, rest) : next;
    u.set(buffer, next);
    u.set_parameter(p * decay - orthogonal(direction) * Scalar(lr * adjustment(p)));
  }

  double adjustment(const Tensor& p) const {
    const double rows = static_cast<double>(int64_t{p.size(0)}),
                 columns = static_cast<double>(int64_t{p.size(1)});
    return adjust_lr == AdjustLr::Original ? std::sqrt(std::max(1.0, rows / columns))
                                           : 0.2 * std::sqrt(std::max(rows, columns));
  }

  /// Newton-Schulz steps, on the side where the square is smaller.
  Tensor orthogonal(const Tensor& direction) const {
    const bool is_half = direction.dtype() == bf16 || direction.dtype() == f16;
    Tensor x = is_half ? direction.to(f32) : direction;
    const bool is_tall = x.size(0) > x.size(1);
    if (is_tall) x = x.t();
    x = x / maximum(norm(x), eps);
    for (int64_t i = 0; i < steps; ++i) {
      const Tensor gram = matmul(x, x.t());
      x = x * a + matmul(gram * b + matmul(gram, gram) * c, x);
    }
    return (is_tall ? x.t() : x).to(direction.dtype());
  }

  Tensor lr;
  Scalar momentum, rest, decay, a, b, c, eps;
  bool nesterov;
  int64_t steps;
  AdjustLr adjust_lr;
};

void check_muon(const Group& group) {
  for (const Tensor& p : group.parameters)
    if (p.dim() != 2)
      ir::fail(Errc::Argument, fmt::format("Muon: expected parameters of two dimensions, got {}",
                                           to_string(p.sizes())));
  const int64_t steps = flag(group, "ns_steps");
  if (steps < 0 || steps >= 100)
    ir::fail(Errc::Argument,
             fmt::format("Muon: ns_steps expected to be from 0 to 99, got {}", steps));
}

constexpr std::string_view kMuonNumbers[] = {"lr",   "weight_decay", "momentum", "ns_a",
                                             "ns_b", "ns_c",         "eps"};
constexpr std::string_view kMuonFlags[] = {"nesterov", "ns_steps", "adjust_lr"};
constexpr StateKind kMuonState[] = {{"momentum_buffer"}};
constexpr Recipe kMuon{"Muon", kMuonNumbers,     kMuonFlags, kMuonState,
                       {},     &sweep<MuonRule>, &check_muon};

}  // namespace

SGD::SGD(const ParamGroups& parameters, const SgdOptions& o)
    : Optimizer(kSgd,
                {.lr = o.lr,
                 .momentum = o.momentum,
                 .dampening = o.dampening,
                 .weight_decay = o.weight_decay,
                 .nesterov = o.nesterov,
                 .maximize = o.maximize},
                parameters) {}

Lion::Lion(const ParamGroups& parameters, const LionOptions& o)
    : Optimizer(kLion,
                {.lr = o.lr,
                 .beta1 = o.beta1,
                 .beta2 = o.beta2,
                 .weight_decay = o.weight_decay,
                 .maximize = o.maximize},
                parameters) {}

Muon::Muon(const ParamGroups& parameters, const MuonOptions& o)
    : Optimizer(kMuon,
                {.lr = o.lr,
                 .momentum = o.momentum,
                 .eps = o.eps,
                 .weight_decay = o.weight_decay,
                 .nesterov = o.nesterov,
                 .ns_coefficients = o.ns_coefficients,
                 .ns_steps = o.ns_steps,
                 .adjust_lr = o.adjust_lr},
                parameters) {}

}  // namespace tandem::optim
