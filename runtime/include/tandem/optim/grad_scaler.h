// Losses scaled up, so that their gradients do not vanish in f16.
#ifndef TANDEM_OPTIM_GRAD_SCALER_H
#define TANDEM_OPTIM_GRAD_SCALER_H

#include <tandem/optim/optimizer.h>

namespace tandem::amp {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  bool enabled = true;
};

/// torch.amp.GradScaler:
///
///   scaler.scale(loss).backward();
///   scaler.unscale_(optimizer);  // only to read or clip the gradients
///   scaler.step(optimizer);      // not if a gradient is infinite or NaN
///   scaler.update();             // then the scale shrinks; it grows after growth_interval good
///   steps
///
/// All of it may be part of a compiled function, where the data decide what is written. Not
/// enabled, it does nothing but optimizer.step().
class TANDEM_API GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});

  Tensor scale(const Tensor& output) const;
  /// Divides the gradients by the scale. Error for f16 gradients, which that would empty, and where
  /// it was done since the last update.
  void unscale_(optim::Optimizer& optimizer);
  /// Error for a second step since the last update.
  void step(optim::Optimizer& optimizer);
  /// Error if no step was checked since the last update.
  void update();
  void update(double new_scale);

  /// Whether a gradient was not finite: 1 or 0, []; undefined before unscale_ or step.
  Tensor found_inf(const optim::Optimizer& optimizer) const;
  double get_scale() const;
  bool is_enabled() const { return options_.enabled; }

  /// scale, growth_factor, backoff_factor, growth_interval, _growth_tracker; nothing if not
  /// enabled.
  NamedTensors state_dict() const;
  void load_state_dict(const NamedTensors& state);

 private:
  struct Checked {
    const optim::Optimizer* optimizer;
    Tensor found_inf;
    bool is_stepped;
  };
  Checked* checked(const optim::Optimizer& optimizer);

  GradScalerOptions options_;
  Tensor scale_, growth_tracker_;  // f32, i32 []
  std::vector<Checked> checked_;   // since the last update
};

}  // namespace tandem::amp

#endif  // TANDEM_OPTIM_GRAD_SCALER_H
