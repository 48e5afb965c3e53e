// Steps along the first moment of the gradients, over the root of the second: Adam and its kin.
#ifndef TANDEM_OPTIM_ADAM_H
#define TANDEM_OPTIM_ADAM_H

#include <tandem/optim/optimizer.h>

namespace tandem::optim {

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
  bool decoupled_weight_decay = false;
};

/// torch.optim.Adam (Kingma & Ba 2015): g += weight_decay p; m, v are moving averages of g and g^2,
/// corrected for their zero start by 1 - beta^step; p -= lr m / (sqrt(v) + eps). amsgrad: with the
/// largest v so far. decoupled_weight_decay: as AdamW.
class TANDEM_API Adam final : public Optimizer {
 public:
  explicit Adam(const ParamGroups& parameters, const AdamOptions& options = {});
  explicit Adam(std::initializer_list<ParamGroup> groups, const AdamOptions& options = {})
      : Adam(ParamGroups(groups), options) {}
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool amsgrad = false;
  bool maximize = false;
};

/// torch.optim.AdamW (Loshchilov & Hutter 2019): as Adam, but instead of g += weight_decay p: p -=
/// lr weight_decay p.
class TANDEM_API AdamW final : public Optimizer {
 public:
  explicit AdamW(const ParamGroups& parameters, const AdamWOptions& options = {});
  explicit AdamW(std::initializer_list<ParamGroup> groups, const AdamWOptions& options = {})
      : AdamW(ParamGroups(groups), options) {}
};

struct NAdamOptions {
  double lr = 2e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;
  bool maximize = false;
};

/// torch.optim.NAdam (Dozat 2016): Adam with Nesterov's momentum, whose beta1 grows with the steps:
/// mu = beta1 (1 - 0.96^(step momentum_decay) / 2).
class TANDEM_API NAdam final : public Optimizer {
 public:
  explicit NAdam(const ParamGroups& parameters, const NAdamOptions& options = {});
  explicit NAdam(std::initializer_list<ParamGroup> groups, const NAdamOptions& options = {})
      : NAdam(ParamGroups(groups), options) {}
};

struct RAdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;
  bool maximize = false;
};

/// torch.optim.RAdam (Liu et al. 2020): Adam, rectified by how well v is known, and by m alone
/// while it is not (the first steps).
class TANDEM_API RAdam final : public Optimizer {
 public:
  explicit RAdam(const ParamGroups& parameters, const RAdamOptions& options = {});
  explicit RAdam(std::initializer_list<ParamGroup> groups, const RAdamOptions& options = {})
      : RAdam(ParamGroups(groups), options) {}
};

struct AdamaxOptions {
  double lr = 2e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool maximize = false;
};

/// torch.optim.Adamax (Kingma & Ba 2015): u = max(beta2 u, |g| + eps); p -= lr m / ((1 -
/// beta1^step) u).
class TANDEM_API Adamax final : public Optimizer {
 public:
  explicit Adamax(const ParamGroups& parameters, const AdamaxOptions& options = {});
  explicit Adamax(std::initializer_list<ParamGroup> groups, const AdamaxOptions& options = {})
      : Adamax(ParamGroups(groups), options) {}
};

struct LambOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0.01;
  bool maximize = false;
};

/// LAMB (You et al. 2020): r = m / (sqrt(v) + eps) + weight_decay p, m and v corrected as Adam's; p
/// -= lr r |p| / |r|, by 2-norms of the whole parameter (the quotient is 1 where either is 0).
class TANDEM_API LAMB final : public Optimizer {
 public:
  explicit LAMB(const ParamGroups& parameters, const LambOptions& options = {});
  explicit LAMB(std::initializer_list<ParamGroup> groups, const LambOptions& options = {})
      : LAMB(ParamGroups(groups), options) {}
};

}  // namespace tandem::optim

#endif  // TANDEM_OPTIM_ADAM_H
