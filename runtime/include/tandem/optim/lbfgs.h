// L-BFGS: steps along the gradient times an approximate inverse Hessian.
#ifndef TANDEM_OPTIM_LBFGS_H
#define TANDEM_OPTIM_LBFGS_H

#include <tandem/optim/optimizer.h>

#include <functional>

namespace tandem::optim {

enum class LineSearch { None, StrongWolfe };

struct LbfgsOptions {
  double lr = 1;
  int64_t max_iter = 20;
  std::optional<int64_t> max_eval = {};  // 5/4 max_iter
  double tolerance_grad = 1e-7;
  double tolerance_change = 1e-9;
  int64_t history_size = 100;
  LineSearch line_search = LineSearch::None;
};

/// torch.optim.LBFGS. A step takes up to max_iter iterations; `closure` clears the gradients,
/// computes the loss and calls backward. It may be called several times, so that no step can be
/// part of a compiled function; the loss can. All parameters are in one group, of one dtype; one
/// without a gradient counts as with zeros. Copies do not share their state.
class TANDEM_API LBFGS final : public Optimizer {
 public:
  explicit LBFGS(const ParamGroups& parameters, const LbfgsOptions& options = {});
  explicit LBFGS(std::initializer_list<ParamGroup> groups, const LbfgsOptions& options = {})
      : LBFGS(ParamGroups(groups), options) {}

  /// Returns the first loss.
  Tensor step(const std::function<Tensor()>& closure);

  NamedTensors state_dict() const override;
  void load_state_dict(const NamedTensors& state) override;

 private:
  class Pass;

  LbfgsOptions options_;
  /// What the steps so far have found out.
  struct Found {
    int64_t func_evals = 0, n_iter = 0;
    double step = 0, prev_loss = 0, h_diag = 1;
    Tensor direction, prev_gradient;         // [all elements]
    std::vector<Tensor> old_dirs, old_stps;  // differences of gradients, and steps
    std::vector<double> ro;                  // 1 / their products
  } found_;
};

}  // namespace tandem::optim

#endif  // TANDEM_OPTIM_LBFGS_H
