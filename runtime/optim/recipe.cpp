// The options of all optimizers, and the sweep as rules see it.
#include "runtime/optim/recipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/error.h"

namespace tandem::optim {
namespace {

template <auto Member>
std::optional<double> number_of(const ParamGroup& g) {
  return g.*Member;
}

template <auto Member>
std::optional<int64_t> flag_of(const ParamGroup& g) {
  const auto& value = g.*Member;
  return value ? std::optional(static_cast<int64_t>(*value)) : std::nullopt;
}

template <size_t Place>
std::optional<double> coefficient_of(const ParamGroup& g) {
  return g.ns_coefficients ? std::optional((*g.ns_coefficients)[Place]) : std::nullopt;
}

constexpr NumberOption kNumbers[] = {
    {"lr", Range::NotNegative, number_of<&ParamGroup::lr>},
    {"momentum", Range::NotNegative, number_of<&ParamGroup::momentum>},
    {"dampening", Range::Any, number_of<&ParamGroup::dampening>},
    {"alpha", Range::NotNegative, number_of<&ParamGroup::alpha>},
    {"rho", Range::Share, number_of<&ParamGroup::rho>},
    {"lr_decay", Range::NotNegative, number_of<&ParamGroup::lr_decay>},
    {"beta1", Range::Rate, number_of<&ParamGroup::beta1>, "betas", 0},
    {"beta2", Range::Rate, number_of<&ParamGroup::beta2>, "betas", 1},
    {"eps", Range::NotNegative, number_of<&ParamGroup::eps>},
    {"weight_decay", Range::NotNegative, number_of<&ParamGroup::weight_decay>},
    {"momentum_decay", Range::NotNegative, number_of<&ParamGroup::momentum_decay>},
    {"initial_accumulator_value", Range::NotNegative,
     number_of<&ParamGroup::initial_accumulator_value>},
    {"ns_a", Range::Any, coefficient_of<0>, "ns_coefficients", 0},
    {"ns_b", Range::Any, coefficient_of<1>, "ns_coefficients", 1},
    {"ns_c", Range::Any, coefficient_of<2>, "ns_coefficients", 2},
};

constexpr FlagOption kFlags[] = {
    {"nesterov", flag_of<&ParamGroup::nesterov>},
    {"amsgrad", flag_of<&ParamGroup::amsgrad>},
    {"centered", flag_of<&ParamGroup::centered>},
    {"decoupled_weight_decay", flag_of<&ParamGroup::decoupled_weight_decay>},
    {"maximize", flag_of<&ParamGroup::maximize>},
    {"ns_steps", flag_of<&ParamGroup::ns_steps>},
    {"adjust_lr", flag_of<&ParamGroup::adjust_lr>},
};

struct RangeRow {
  Range range;
  const char* expected;
  bool (*holds)(double);
};

constexpr RangeRow kRanges[] = {
    {Range::Any, "a number", [](double v) { return v == v; }},
    {Range::NotNegative, "a number >= 0", [](double v) { return v >= 0; }},
    {Range::Rate, "0 <= beta < 1", [](double v) { return v >= 0 && v < 1; }},
    {Range::Share, "0 <= rho <= 1", [](double v) { return v >= 0 && v <= 1; }},
};

}  // namespace

std::span<const NumberOption> number_options() { return kNumbers; }
std::span<const FlagOption> flag_options() { return kFlags; }

const NumberOption& number_option(std::string_view name) {
  return *std::ranges::find(kNumbers, name, &NumberOption::name);
}

const FlagOption& flag_option(std::string_view name) {
  return *std::ranges::find(kFlags, name, &FlagOption::name);
}

int place_of(std::span<const std::string_view> names, std::string_view name) {
  const auto it = std::ranges::find(names, name);
  return it == names.end() ? -1 : static_cast<int>(it - names.begin());
}

void require_in_range(const Recipe& recipe, const NumberOption& option, double value) {
  const RangeRow& row = *std::ranges::find(kRanges, option.range, &RangeRow::range);
  if (!row.holds(value))
    ir::fail(Errc::Argument, fmt::format("{}: {} out of range; expected {}, got {}", recipe.name,
                                         option.name, row.expected, value));
}

int64_t flag(const Group& group, std::string_view name) {
  return group.flags[static_cast<size_t>(place_of(group.recipe->flags, name))];
}

bool is_wanted(const Group& group, const StateKind& kind) {
  if (kind.only_if.empty()) return true;
  if (place_of(group.recipe->flags, kind.only_if) >= 0) return flag(group, kind.only_if) != 0;
  return group.get(kind.only_if) != 0;
}

Tensor first_state(const Group& group, const StateKind& kind, const Tensor& parameter) {
  const NoGrad no_grad;
  const Tensor state = zeros_like(parameter);
  if (!kind.start.empty()) state.fill_(group.get(kind.start));
  return state;
}

// --- as rules see it

Tensor GroupUpdate::number(std::string_view name) const {
  return step_.numbers.select(0, place_of(recipe_.numbers, name));
}

int64_t GroupUpdate::flag(std::string_view name) const {
  const int place = place_of(recipe_.flags, name);
  return place < 0 ? 0 : step_.flags[static_cast<size_t>(place)];
}

const Tensor& GroupUpdate::count(std::string_view name) const {
  const auto it = std::ranges::find(recipe_.counts, name, &Count::name);
  return step_.counts[static_cast<size_t>(it - recipe_.counts.begin())];
}

const std::vector<Tensor>& GroupUpdate::states(std::string_view name) const {
  const auto it = std::ranges::find(recipe_.state, name, &StateKind::name);
  return step_.state[static_cast<size_t>(it - recipe_.state.begin())];
}

namespace {

Tensor unless(const Tensor& skip, const Tensor& old, const Tensor& value) {
  return skip.defined() ? where(skip.reshape({}) != 0, old, value) : value;
}

}  // namespace

/// A run of neighbours at a time.
const Tensor& GroupUpdate::set_count(std::string_view name, const Tensor& value) const {
  const Tensor& counts = count(name);
  const auto& which = step_.which;
  for (size_t i = 0; i < which.size();) {
    const int64_t first = which[i];
    int64_t end = first;
    while (i < which.size() && which[i] == end) ++i, ++end;
    const Tensor run = counts.slice(0, first, end);
    run.copy_(unless(skip_, run, value.slice(0, first, end)));
  }
  return counts;
}

Update::Update(const GroupUpdate& group, size_t i)
    : parameter(group.step_.parameters[i]),
      gradient(group.flag("maximize") != 0 ? neg(group.step_.gradients[i])
                                           : group.step_.gradients[i]),
      group_(group),
      i_(i) {}

Tensor Update::state(std::string_view name) const {
  const std::vector<Tensor>& of_all = group_.states(name);
  return of_all.empty() ? Tensor() : of_all[i_];
}

Tensor Update::element(const Tensor& values) const {
  return values.select(0, group_.step_.which[i_]);
}

void Update::set(const Tensor& target, const Tensor& value) const {
  target.copy_(unless(group_.skip_, target, value));
}

}  // namespace tandem::optim
