// Optimizers: constructed with the parameters, all state made then. `step` reads the parameters'
// grad() and writes the parameters in place, without grad mode; a parameter without a gradient is
// left alone. Learning rates are Scalars: changing one recompiles nothing.
#ifndef TANDEM_OPTIM_H
#define TANDEM_OPTIM_H

#include <tandem/compile.h>
#include <tandem/scalar.h>

#include <memory>
#include <vector>

namespace tandem::optim {

class TANDEM_API Optimizer {
 public:
  virtual ~Optimizer();
  void step();
  /// Makes the gradients undefined.
  void zero_grad() const;
  const std::vector<Tensor>& parameters() const { return parameters_; }

 protected:
  /// A parameter that is listed twice is one parameter. Error for an undefined one.
  explicit Optimizer(std::vector<Tensor> parameters);
  /// Updates the parameters numbered `which` from `gradients` (same order).
  virtual void update(const std::vector<int>& which, const std::vector<Tensor>& gradients) = 0;

 private:
  std::vector<Tensor> parameters_;
};

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

/// torch.optim.SGD: g += weight_decay p; v = momentum v + (1 - dampening) g (v starts as g); p -=
/// lr (nesterov: g + momentum v; else v).
class TANDEM_API SGD final : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> parameters, const SgdOptions& options = {});
  ~SGD() override;
  Scalar lr;

 private:
  void update(const std::vector<int>& which, const std::vector<Tensor>& gradients) override;
  struct State;
  std::unique_ptr<State> state_;
};

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
};

/// torch.optim.AdamW (Loshchilov & Hutter 2019): p -= lr weight_decay p; m, v are moving averages
/// of g and g^2, corrected for their zero start by 1 - beta^step; p -= lr m / (sqrt(v) + eps). A
/// step without a gradient for a parameter does not count as one of that parameter's.
class TANDEM_API AdamW final : public Optimizer {
 public:
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& options = {});
  ~AdamW() override;
  Scalar lr, weight_decay;

 private:
  void update(const std::vector<int>& which, const std::vector<Tensor>& gradients) override;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem::optim

#endif  // TANDEM_OPTIM_H
