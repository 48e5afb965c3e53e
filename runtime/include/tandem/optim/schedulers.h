// Learning rates over time. A scheduler sets the groups' lr when it is made and at each step();
// none of it recompiles anything. The optimizer must outlive it. Constructed in PyTorch's order,
// schedulers of one optimizer work on each other's rates as there.
#ifndef TANDEM_OPTIM_SCHEDULERS_H
#define TANDEM_OPTIM_SCHEDULERS_H

#include <tandem/optim/optimizer.h>

#include <concepts>
#include <functional>

namespace tandem::optim {

/// One number for all groups, or one for each.
class TANDEM_API PerGroup {
 public:
  PerGroup(double one) : values_{one} {}  // NOLINT(google-explicit-constructor)
  PerGroup(std::initializer_list<double> each) : values_(each) {}   // NOLINT
  PerGroup(std::vector<double> each) : values_(std::move(each)) {}  // NOLINT
  /// One for each of `groups`; Error, which names `what`, if there are others.
  std::vector<double> of(size_t groups, std::string_view what) const;

 private:
  std::vector<double> values_;
};

/// torch.optim.lr_scheduler.LRScheduler.
class TANDEM_API LRScheduler {
 public:
  virtual ~LRScheduler();
  LRScheduler(const LRScheduler&) = default;
  LRScheduler& operator=(const LRScheduler&) = default;

  /// Call it after optimizer.step().
  virtual void step();
  /// Of each group.
  const std::vector<double>& get_last_lr() const { return last_lr; }
  int64_t last_epoch() const { return epoch; }
  Optimizer& optimizer() const { return *optimizer_; }

  /// What changes over time, by PyTorch's names ("last_epoch", "base_lrs", "_last_lr"). The options
  /// come from the constructor.
  virtual NamedTensors state_dict() const;
  virtual void load_state_dict(const NamedTensors& state);

 protected:
  explicit LRScheduler(Optimizer& optimizer);
  /// The first step. To be called at the end of a constructor.
  virtual void start();
  /// The rate of a group at last_epoch, which may follow from what it is now.
  virtual double next(size_t group) = 0;
  /// The rate at epoch 0 of what starts in the middle of a SequentialLR.
  virtual double first(size_t group) { return next(group); }
  virtual void restart();

  Group& group(size_t i) const { return optimizer_->param_groups()[i]; }
  size_t groups() const { return base_lrs.size(); }
  double lr(size_t group) const { return this->group(group).get("lr"); }
  void set_rates(const std::vector<double>& rates);
  void keep_last();

  std::vector<double> base_lrs, last_lr;
  int64_t epoch = -1;
  bool is_initial = false;  // in the first step

 private:
  friend class SchedulerList;
  Optimizer* optimizer_;
  int64_t step_count_ = 0;
};

struct StepLROptions {
  int64_t step_size;
  double gamma = 0.1;
};
/// lr *= gamma every step_size steps.
class TANDEM_API StepLR final : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, const StepLROptions& options);

 private:
  double next(size_t group) override;
  double first(size_t group) override { return base_lrs[group]; }
  StepLROptions options_;
};

struct MultiStepLROptions {
  std::vector<int64_t> milestones;
  double gamma = 0.1;
};
/// lr *= gamma at each milestone (once for each time that it is listed).
class TANDEM_API MultiStepLR final : public LRScheduler {
 public:
  MultiStepLR(Optimizer& optimizer, MultiStepLROptions options);

 private:
  double next(size_t group) override;
  double first(size_t group) override;
  MultiStepLROptions options_;
};

struct ConstantLROptions {
  double factor = 1.0 / 3;
  int64_t total_iters = 5;
};
/// lr times factor for the first total_iters steps.
class TANDEM_API ConstantLR final : public LRScheduler {
 public:
  explicit ConstantLR(Optimizer& optimizer, const ConstantLROptions& options = {});

 private:
  double next(size_t group) override;
  double first(size_t group) override;
  ConstantLROptions options_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3, end_factor = 1;
  int64_t total_iters = 5;
};
/// lr times a factor that goes from start_factor to end_factor in total_iters steps: a warm-up,
/// with SequentialLR.
class TANDEM_API LinearLR final : public LRScheduler {
 public:
  explicit LinearLR(Optimizer& optimizer, const LinearLROptions& options = {});

 private:
  double next(size_t group) override;
  double first(size_t group) override { return base_lrs[group] * options_.start_factor; }
  LinearLROptions options_;
};

struct ExponentialLROptions {
  double gamma;
};
/// lr *= gamma at each step.
class TANDEM_API ExponentialLR final : public LRScheduler {
 public:
  ExponentialLR(Optimizer& optimizer, const ExponentialLROptions& options);

 private:
  double next(size_t group) override;
  double first(size_t group) override { return base_lrs[group]; }
  ExponentialLROptions options_;
};

struct PolynomialLROptions {
  int64_t total_iters = 5;
  double power = 1;
};
/// lr (1 - step / total_iters)^power, then zero.
class TANDEM_API PolynomialLR final : public LRScheduler {
 public:
  explicit PolynomialLR(Optimizer& optimizer, const PolynomialLROptions& options = {});

 private:
  double next(size_t group) override;
  double first(size_t group) override { return base_lrs[group]; }
  PolynomialLROptions options_;
};

struct CosineAnnealingLROptions {
  int64_t t_max;
  double eta_min = 0;
};
/// Half a cosine from lr to eta_min in t_max steps, then back.
class TANDEM_API CosineAnnealingLR final : public LRScheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options);

 private:
  double next(size_t group) override;
  double first(size_t group) override { return base_lrs[group]; }
  CosineAnnealingLROptions options_;
};

struct CosineAnnealingWarmRestartsOptions {
  int64_t t_0;
  int64_t t_mult = 1;
  double eta_min = 0;
};
/// Half cosines from lr to eta_min, of t_0, t_0 t_mult, t_0 t_mult^2, ... steps.
class TANDEM_API CosineAnnealingWarmRestarts final : public LRScheduler {
 public:
  CosineAnnealingWarmRestarts(Optimizer& optimizer,
                              const CosineAnnealingWarmRestartsOptions& options);
  void step() override;
  NamedTensors state_dict() const override;
  void load_state_dict(const NamedTensors& state) override;

 private:
  double next(size_t group) override;
  double first(size_t group) override;
  CosineAnnealingWarmRestartsOptions options_;
  int64_t t_cur_ = -1, t_i_;
};

using Factor = std::function<double(int64_t epoch)>;

/// The first lr times factor(epoch): one for all groups, or one for each.
class TANDEM_API LambdaLR final : public LRScheduler {
 public:
  LambdaLR(Optimizer& optimizer, const Factor& factor);
  LambdaLR(Optimizer& optimizer, std::vector<Factor> factors);

 private:
  double next(size_t group) override;
  std::vector<Factor> factors_;
};

/// lr *= factor(epoch) at each step.
class TANDEM_API MultiplicativeLR final : public LRScheduler {
 public:
  MultiplicativeLR(Optimizer& optimizer, const Factor& factor);
  MultiplicativeLR(Optimizer& optimizer, std::vector<Factor> factors);

 private:
  double next(size_t group) override;
  std::vector<Factor> factors_;
};

enum class Anneal { Cos, Linear };

struct OneCycleLROptions {
  PerGroup max_lr;
  int64_t total_steps = 0;  // or epochs and steps_per_epoch
  int64_t epochs = 0, steps_per_epoch = 0;
  double pct_start = 0.3;
  Anneal anneal_strategy = Anneal::Cos;
  bool cycle_momentum = true;
  PerGroup base_momentum = 0.85, max_momentum = 0.95;
  double div_factor = 25, final_div_factor = 1e4;
  bool three_phase = false;
};
/// Smith & Topin 2017: from max_lr / div_factor up to max_lr in pct_start of all steps, then down
/// (three_phase: back, then down) to the first lr / final_div_factor; momentum, or beta1, the other
/// way.
class TANDEM_API OneCycleLR final : public LRScheduler {
 public:
  OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options);

 private:
  struct Phase {
    double end;  // step
    std::vector<double> from_lr, to_lr, from_momentum, to_momentum;
  };
  double next(size_t group) override;
  OneCycleLROptions options_;
  std::vector<Phase> phases_;
};

enum class CyclicMode { Triangular, Triangular2, ExpRange };

struct CyclicLROptions {
  PerGroup base_lr, max_lr;
  int64_t step_size_up = 2000;
  std::optional<int64_t> step_size_down = {};
  CyclicMode mode = CyclicMode::Triangular;
  double gamma = 1;
  bool cycle_momentum = true;
  PerGroup base_momentum = 0.8, max_momentum = 0.9;
};
/// Smith 2017: up from base_lr to max_lr and down again, of which Triangular2 halves the height at
/// each cycle and ExpRange multiplies it by gamma^step; momentum, or beta1, the other way.
class TANDEM_API CyclicLR final : public LRScheduler {
 public:
  CyclicLR(Optimizer& optimizer, const CyclicLROptions& options);

 private:
  double next(size_t group) override;
  CyclicLROptions options_;
  std::vector<double> max_lrs_, base_momentums_, max_momentums_;
};

/// Schedulers as parts of another: `{LinearLR(optimizer), CosineAnnealingLR(optimizer, {10})}`.
class TANDEM_API SchedulerPart {
 public:
  template <std::derived_from<LRScheduler> Scheduler>
  SchedulerPart(Scheduler scheduler)  // NOLINT(google-explicit-constructor)
      : scheduler_(std::make_shared<Scheduler>(std::move(scheduler))) {}
  LRScheduler& operator*() const { return *scheduler_; }

 private:
  std::shared_ptr<LRScheduler> scheduler_;
};

class TANDEM_API SchedulerList : public LRScheduler {
 public:
  NamedTensors state_dict() const override;
  void load_state_dict(const NamedTensors& state) override;

 protected:
  SchedulerList(Optimizer& optimizer, std::vector<SchedulerPart> schedulers, std::string_view name);
  double next(size_t group) override { return lr(group); }
  static void start_part(LRScheduler& part) { part.start(); }
  static void restart_part(LRScheduler& part) { part.restart(); }
  std::vector<SchedulerPart> parts;
};

/// Each scheduler until its milestone, then the next one from its start.
class TANDEM_API SequentialLR final : public SchedulerList {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<SchedulerPart> schedulers,
               std::vector<int64_t> milestones);
  void step() override;

 private:
  void start() override;
  void restart() override { start(); }
  std::vector<int64_t> milestones_;
};

/// All at each step, in order.
class TANDEM_API ChainedScheduler final : public SchedulerList {
 public:
  ChainedScheduler(Optimizer& optimizer, std::vector<SchedulerPart> schedulers);
  void step() override;

 private:
  void start() override;
  void restart() override;
};

enum class PlateauMode { Min, Max };
enum class ThresholdMode { Rel, Abs };

struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::Min;
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::Rel;
  int64_t cooldown = 0;
  PerGroup min_lr = 0.0;
  double eps = 1e-8;
};
/// lr *= factor where the metric has not become better for more than `patience` steps.
class TANDEM_API ReduceLROnPlateau final {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});
  void step(double metric);
  const std::vector<double>& get_last_lr() const { return last_lr_; }

  NamedTensors state_dict() const;
  void load_state_dict(const NamedTensors& state);

 private:
  bool is_better(double metric) const;
  void reduce();

  Optimizer* optimizer_;
  ReduceLROnPlateauOptions options_;
  std::vector<double> min_lrs_, last_lr_;
  double best_;
  int64_t last_epoch_ = 0, cooldown_counter_ = 0, num_bad_epochs_ = 0;
};

}  // namespace tandem::optim

#endif  // TANDEM_OPTIM_SCHEDULERS_H
