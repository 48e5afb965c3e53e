// Steps along a moving average of gradients: SGD, Lion, Muon.
#ifndef TANDEM_OPTIM_MOMENTUM_H
#define TANDEM_OPTIM_MOMENTUM_H

#include <tandem/optim/optimizer.h>

namespace tandem::optim {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};

/// torch.optim.SGD: g += weight_decay p; v = momentum v + (1 - dampening) g (v starts as g); p -=
/// lr (nesterov: g + momentum v; else v).
class TANDEM_API SGD final : public Optimizer {
 public:
  explicit SGD(const ParamGroups& parameters, const SgdOptions& options = {});
  explicit SGD(std::initializer_list<ParamGroup> groups, const SgdOptions& options = {})
      : SGD(ParamGroups(groups), options) {}
};

struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9, beta2 = 0.99;
  double weight_decay = 0;
  bool maximize = false;
};

/// Lion (Chen et al. 2023): p -= lr (sign(beta1 m + (1 - beta1) g) + weight_decay p); m = beta2 m +
/// (1 - beta2) g.
class TANDEM_API Lion final : public Optimizer {
 public:
  explicit Lion(const ParamGroups& parameters, const LionOptions& options = {});
  explicit Lion(std::initializer_list<ParamGroup> groups, const LionOptions& options = {})
      : Lion(ParamGroups(groups), options) {}
};

struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.7750, 2.0315};
  double eps = 1e-7;
  int64_t ns_steps = 5;
  AdjustLr adjust_lr = AdjustLr::Original;
};

/// torch.optim.Muon (Jordan 2024), of matrices alone: b = momentum b + (1 - momentum) g; u =
/// nesterov: momentum b + (1 - momentum) g, else b; p -= lr weight_decay p + adjusted lr O(u),
/// where O makes the singular values about 1 by ns_steps Newton-Schulz steps x = a x + (b A + c A
/// A) x, A = x x'. (In the parameter's dtype, f32 for halves; PyTorch computes O in bf16.)
class TANDEM_API Muon final : public Optimizer {
 public:
  explicit Muon(const ParamGroups& parameters, const MuonOptions& options = {});
  explicit Muon(std::initializer_list<ParamGroup> groups, const MuonOptions& options = {})
      : Muon(ParamGroups(groups), options) {}
};

}  // namespace tandem::optim

#endif  // TANDEM_OPTIM_MOMENTUM_H
