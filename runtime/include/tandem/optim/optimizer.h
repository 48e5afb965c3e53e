// What all optimizers are: groups of parameters with options and state, and one compiled sweep over
// all of them per step.
#ifndef TANDEM_OPTIM_OPTIMIZER_H
#define TANDEM_OPTIM_OPTIMIZER_H

#include <tandem/named_tensors.h>
#include <tandem/scalar.h>
#include <tandem/structure.h>

#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace tandem::optim {

/// How Muon scales its learning rate: Original by sqrt(max(1, rows / columns)), MatchRmsAdamW by
/// 0.2 sqrt(max(rows, columns)).
enum class AdjustLr { Original, MatchRmsAdamW };

/// Parameters with options of their own: `{.parameters = p, .lr = 0.1}`. What is left out is as the
/// optimizer's options say. An option that the optimizer does not have is an Error.
struct ParamGroup {
  std::vector<Tensor> parameters;
  std::optional<double> lr = {}, momentum = {}, dampening = {}, alpha = {}, rho = {}, lr_decay = {},
                        beta1 = {}, beta2 = {}, eps = {}, weight_decay = {}, momentum_decay = {},
                        initial_accumulator_value = {};
  std::optional<bool> nesterov = {}, amsgrad = {}, centered = {}, decoupled_weight_decay = {},
                      maximize = {};
  std::optional<std::array<double, 3>> ns_coefficients = {};
  std::optional<int64_t> ns_steps = {};
  std::optional<AdjustLr> adjust_lr = {};
};

/// What an optimizer is made of: parameters, or groups of them.
struct TANDEM_API ParamGroups {
  ParamGroups(std::vector<Tensor> parameters);            // NOLINT(google-explicit-constructor)
  ParamGroups(std::initializer_list<Tensor> parameters);  // NOLINT(google-explicit-constructor)
  ParamGroups(std::vector<ParamGroup> list);              // NOLINT(google-explicit-constructor)
  ParamGroups(std::initializer_list<ParamGroup> list);    // NOLINT(google-explicit-constructor)
  std::vector<ParamGroup> groups;
};

struct Recipe;  // what one optimizer does

/// One group of an optimizer, with its state. Numbers are read and written by their names among the
/// options ("lr", "beta1"); no change of a number recompiles anything.
struct TANDEM_API Group {
  /// Error for a name that the optimizer does not have; inside a trace.
  double get(std::string_view name) const;
  bool has(std::string_view name) const;
  /// Error also for what the optimizer's constructor would refuse, and for a number that was zero
  /// at first where the state that it needs was never made (SGD's momentum).
  void set(std::string_view name, double value) const;

  std::vector<Tensor> parameters;
  Tensor numbers;                          // f64 [numbers of the recipe]
  std::vector<std::vector<Tensor>> state;  // by kind; each empty, or one for each parameter
  std::vector<Tensor> counts;              // f64 [parameters]: "step" and the like
  std::vector<int64_t> flags;
  TANDEM_LAZY_FIELDS(Group, parameters, numbers, state, counts, flags)

  const Recipe* recipe = nullptr;
  std::optional<double> initial_lr = {};  // where a schedule began
};

/// Constructed with the parameters; all state is made then. `step` reads the parameters' grad() and
/// writes parameters and state in place, without grad mode, in one compiled sweep; a parameter
/// without a gradient is left alone, and the step is not counted as one of its own. A parameter
/// that is listed twice in a group is one parameter.
///
/// A compiled function may step an optimizer that it captures or takes as an argument (by
/// reference). Copies share parameters and state, as those of tensors do.
class TANDEM_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = default;
  Optimizer& operator=(const Optimizer&) = default;

  void step() { step_unless({}); }
  /// A step that changes nothing where `skip` (of one element; undefined: no) is not zero. The data
  /// decide, so it can be part of a compiled function: what a GradScaler does there.
  void step_unless(const Tensor& skip);
  /// Makes the gradients undefined, or zero.
  void zero_grad(bool set_to_none = true) const;

  /// Of all groups.
  std::vector<Tensor> parameters() const;
  const std::vector<Group>& param_groups() const { return groups_; }
  std::vector<Group>& param_groups() { return groups_; }
  /// Error for a parameter that another group has.
  void add_param_group(const ParamGroup& group);

  /// As PyTorch's, names joined by dots: "state.0.exp_avg", "state.0.step", "param_groups.0.lr".
  /// Numbers are 0-d (f64; flags i64), lists of them vectors ("param_groups.0.betas",
  /// "param_groups.0.params"). The tensors of the state are the optimizer's own.
  virtual NamedTensors state_dict() const;
  /// Copies from such a state, also one of PyTorch's; state that is missing starts anew. Error, and
  /// nothing changes, for other groups, sizes or state than this optimizer has.
  virtual void load_state_dict(const NamedTensors& state);

  TANDEM_LAZY_FIELDS(Optimizer, groups_)

  Scalar lr;  // the first group's

 protected:
  /// `defaults`: every option that the recipe has.
  Optimizer(const Recipe& recipe, const ParamGroup& defaults, const ParamGroups& parameters);

 private:
  struct Sweep;
  std::vector<Group> groups_;
  const Recipe* recipe_;
  ParamGroup defaults_;
  std::shared_ptr<const Sweep> sweep_;
};

}  // namespace tandem::optim

#endif  // TANDEM_OPTIM_OPTIMIZER_H
