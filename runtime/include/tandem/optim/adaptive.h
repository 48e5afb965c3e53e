// Gradients over the root of their mean or summed squares: RMSprop, Adagrad, Adadelta.
#ifndef TANDEM_OPTIM_ADAPTIVE_H
#define TANDEM_OPTIM_ADAPTIVE_H

#include <tandem/optim/optimizer.h>

namespace tandem::optim {

struct RMSpropOptions {
  double lr = 1e-2;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  bool maximize = false;
};

/// torch.optim.RMSprop: g += weight_decay p; s is the moving average of g^2 (centered: less the
/// square of g's own); p -= lr g / (sqrt(s) + eps), or with momentum lr b, b = momentum b + g /
/// (sqrt(s) + eps).
class TANDEM_API RMSprop final : public Optimizer {
 public:
  explicit RMSprop(const ParamGroups& parameters, const RMSpropOptions& options = {});
  explicit RMSprop(std::initializer_list<ParamGroup> groups, const RMSpropOptions& options = {})
      : RMSprop(ParamGroups(groups), options) {}
};

struct AdagradOptions {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
};

/// torch.optim.Adagrad (Duchi et al. 2011): g += weight_decay p; s += g^2; p -= lr / (1 + (step -
/// 1) lr_decay) g / (sqrt(s) + eps).
class TANDEM_API Adagrad final : public Optimizer {
 public:
  explicit Adagrad(const ParamGroups& parameters, const AdagradOptions& options = {});
  explicit Adagrad(std::initializer_list<ParamGroup> groups, const AdagradOptions& options = {})
      : Adagrad(ParamGroups(groups), options) {}
};

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
};

/// torch.optim.Adadelta (Zeiler 2012): g += weight_decay p; s, a are moving averages (by rho) of
/// g^2 and d^2; d = sqrt(a + eps) / sqrt(s + eps) g; p -= lr d.
class TANDEM_API Adadelta final : public Optimizer {
 public:
  explicit Adadelta(const ParamGroups& parameters, const AdadeltaOptions& options = {});
  explicit Adadelta(std::initializer_list<ParamGroup> groups, const AdadeltaOptions& options = {})
      : Adadelta(ParamGroups(groups), options) {}
};

}  // namespace tandem::optim

#endif  // TANDEM_OPTIM_ADAPTIVE_H
