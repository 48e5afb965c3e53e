// What one optimizer does: which options and state it has, and its rule as a short class, of which
// the sweep over all parameters is made.
#ifndef TANDEM_RUNTIME_OPTIM_RECIPE_H
#define TANDEM_RUNTIME_OPTIM_RECIPE_H

#include <tandem/ops.h>
#include <tandem/optim/optimizer.h>

#include <span>
#include <string_view>

namespace tandem::optim {

/// What a number may be.
enum class Range : uint8_t { Any, NotNegative, Rate, Share };

/// A number among the options. Where the state has a list for it ("betas"), `key` and its place.
struct NumberOption {
  std::string_view name;
  Range range;
  std::optional<double> (*of)(const ParamGroup&);
  std::string_view key = name;
  int place = -1;
};

/// What decides which equations a step has: a flag or a small whole number.
struct FlagOption {
  std::string_view name;
  std::optional<int64_t> (*of)(const ParamGroup&);
};

/// A tensor like the parameter. It exists only where the flag or number named `only_if` is not
/// zero, and starts with the number `start`, or zeros.
struct StateKind {
  std::string_view name;
  std::string_view only_if = {};
  std::string_view start = {};
};

/// A number of each parameter. That of no name is not saved: it is 1 for a parameter that has
/// state.
struct Count {
  std::string_view name;
  double start = 0;
};

class GroupUpdate;

/// The options are named as ParamGroup's fields; those that are numbers, in this order, are the
/// elements of Group::numbers. lr comes first.
struct Recipe {
  std::string_view name;
  std::span<const std::string_view> numbers, flags;
  std::span<const StateKind> state = {};
  std::span<const Count> counts = {};
  void (*sweep)(GroupUpdate&) = nullptr;
  void (*check)(const Group&) = [](const Group&) {};  // throws what single numbers do not show
};

std::span<const NumberOption> number_options();
std::span<const FlagOption> flag_options();
const NumberOption& number_option(std::string_view name);
const FlagOption& flag_option(std::string_view name);
/// The place of `name` in `names`, or -1.
int place_of(std::span<const std::string_view> names, std::string_view name);
/// Error unless the option may have this value.
void require_in_range(const Recipe& recipe, const NumberOption& option, double value);
int64_t flag(const Group& group, std::string_view name);
/// Whether the group has state of this kind.
bool is_wanted(const Group& group, const StateKind& kind);
/// What state of this kind starts as.
Tensor first_state(const Group& group, const StateKind& kind, const Tensor& parameter);

// --- as rules see it, inside the sweep

/// What a step of one group reads and writes.
struct GroupStep {
  std::vector<Tensor> parameters, gradients;  // of those that have a gradient
  std::vector<std::vector<Tensor>> state;     // the same parameters'
  std::vector<int64_t> which;                 // their places in the group, ascending
  std::vector<Tensor> counts;                 // of all parameters of the group
  Tensor numbers;
  std::vector<int64_t> flags;
  TANDEM_FIELDS(GroupStep, parameters, gradients, state, which, counts, numbers, flags)
};

class GroupUpdate {
 public:
  GroupUpdate(const Recipe& recipe, const GroupStep& step, const Tensor& skip)
      : recipe_(recipe), step_(step), skip_(skip) {}

  size_t size() const { return step_.parameters.size(); }
  /// A number as an f64 tensor [], for arithmetic with others.
  Tensor number(std::string_view name) const;
  /// For arithmetic with parameters, whose dtype the result has.
  Scalar scalar(std::string_view name) const { return Scalar(number(name)); }
  int64_t flag(std::string_view name) const;
  bool has_state(std::string_view name) const { return !states(name).empty(); }
  /// A count of all parameters [n], f64.
  const Tensor& count(std::string_view name) const;
  /// Gives those that are updated their elements of `value` [n], and returns the count.
  const Tensor& set_count(std::string_view name, const Tensor& value) const;
  /// Counts this step.
  const Tensor& next_step() const { return set_count("step", count("step") + 1.0); }

 private:
  friend class Update;
  const std::vector<Tensor>& states(std::string_view name) const;

  const Recipe& recipe_;
  const GroupStep& step_;
  const Tensor& skip_;
};

/// The update of one parameter.
class Update {
 public:
  Update(const GroupUpdate& group, size_t i);

  Tensor parameter, gradient;  // the gradient of what is to become small
  /// Undefined if the group has none.
  Tensor state(std::string_view name) const;
  /// This parameter's element of `values` [n].
  Tensor element(const Tensor& values) const;
  /// The same of numbers, for arithmetic with the parameter.
  Scalar of(const Tensor& numbers) const { return Scalar(element(numbers)); }
  void set(const Tensor& target, const Tensor& value) const;
  void set_parameter(const Tensor& value) const { set(parameter, value); }

 private:
  const GroupUpdate& group_;
  size_t i_;
};

/// Rule(const GroupUpdate&) computes what the parameters share; rule(const Update&) updates one.
template <class Rule>
void sweep(GroupUpdate& group) {
  const Rule rule(group);
  for (size_t i = 0; i < group.size(); ++i) rule(Update(group, i));
}

/// The moving average `state` with `value` in it, by `rate` and 1 - rate.
inline Tensor averaged(const Tensor& state, const Tensor& value, const Scalar& rate,
                       const Scalar& rest) {
  return state * rate + value * rest;
}

}  // namespace tandem::optim

#endif  // TANDEM_RUNTIME_OPTIM_RECIPE_H
