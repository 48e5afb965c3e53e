// Groups of parameters, and the step: one function over lists of tensors, compiled like any other.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <unordered_set>

#include "ir/base/error.h"
#include "runtime/compile/library_function.h"
#include "runtime/optim/recipe.h"

namespace tandem::optim {

ParamGroups::ParamGroups(std::vector<Tensor> parameters) {
  groups.push_back({.parameters = std::move(parameters)});
}

ParamGroups::ParamGroups(std::initializer_list<Tensor> parameters)
    : ParamGroups(std::vector<Tensor>(parameters)) {}

ParamGroups::ParamGroups(std::vector<ParamGroup> list) : groups(std::move(list)) {}
ParamGroups::ParamGroups(std::initializer_list<ParamGroup> list) : groups(list) {}

// --- groups

bool Group::has(std::string_view name) const { return place_of(recipe->numbers, name) >= 0; }

namespace {

int require_number(const Group& group, std::string_view name) {
  const int place = place_of(group.recipe->numbers, name);
  if (place < 0)
    ir::fail(Errc::Argument,
             fmt::format("{}: expected one of its numbers {}, got \"{}\"", group.recipe->name,
                         fmt::join(group.recipe->numbers, ", "), name));
  return place;
}

/// State that was not made, since the number was zero, is missing where it becomes another.
void require_state_for(const Group& group, std::string_view name, double value) {
  for (size_t k = 0; k < group.state.size(); ++k)
    if (group.recipe->state[k].only_if == name && value != 0 && group.state[k].empty() &&
        !group.parameters.empty())
      ir::fail(Errc::Argument,
               fmt::format("{}: {} was 0 when the optimizer was made, so there is no {}; expected "
                           "it to stay 0, got {}",
                           group.recipe->name, name, group.recipe->state[k].name, value));
}

}  // namespace

double Group::get(std::string_view name) const {
  return numbers.data<double>()[require_number(*this, name)];
}

void Group::set(std::string_view name, double value) const {
  const int place = require_number(*this, name);
  require_in_range(*recipe, number_option(name), value);
  require_state_for(*this, name, value);
  numbers.select(0, place).fill_(value);
}

namespace {

[[noreturn]] void refuse_option(const Recipe& recipe, std::string_view name) {
  ir::fail(Errc::Argument,
           fmt::format("{}: expected a group with some of the options {}{}{}, got {}", recipe.name,
                       fmt::join(recipe.numbers, ", "), recipe.flags.empty() ? "" : ", ",
                       fmt::join(recipe.flags, ", "), name));
}

void require_known_options(const Recipe& recipe, const ParamGroup& group) {
  for (const NumberOption& option : number_options())
    if (option.of(group) && place_of(recipe.numbers, option.name) < 0)
      refuse_option(recipe, option.name);
  for (const FlagOption& option : flag_options())
    if (option.of(group) && place_of(recipe.flags, option.name) < 0)
      refuse_option(recipe, option.name);
}

/// Those given once, in order.
std::vector<Tensor> distinct(const Recipe& recipe, const std::vector<Tensor>& parameters) {
  std::vector<Tensor> out;
  std::unordered_set<const void*> seen;
  for (const Tensor& t : parameters) {
    const auto number = &t - parameters.data();
    if (!t.defined())
      ir::fail(Errc::Argument,
               fmt::format("{}: parameter {} is undefined; expected tensors", recipe.name, number));
    if (!t.is_leaf())
      ir::fail(Errc::Argument, fmt::format("{}: parameter {} {} is the result of an operation; "
                                           "expected leaves",
                                           recipe.name, number, to_string(t.sizes())));
    if (seen.insert(t.impl().get()).second) out.push_back(t);
  }
  return out;
}

void set_options(Group& group, const ParamGroup& given, const ParamGroup& defaults) {
  const Recipe& recipe = *group.recipe;
  group.numbers = zeros({static_cast<int64_t>(recipe.numbers.size())}, f64);
  auto* numbers = group.numbers.data<double>();
  for (const std::string_view name : recipe.numbers) {
    const NumberOption& option = number_option(name);
    *numbers = option.of(given).value_or(*option.of(defaults));
    require_in_range(recipe, option, *numbers++);
  }
  for (const std::string_view name : recipe.flags) {
    const FlagOption& option = flag_option(name);
    group.flags.push_back(option.of(given).value_or(*option.of(defaults)));
  }
  recipe.check(group);
}

void make_state(Group& group) {
  for (const StateKind& kind : group.recipe->state) {
    auto& of_kind = group.state.emplace_back();
    if (!is_wanted(group, kind)) continue;
    for (const Tensor& p : group.parameters) of_kind.push_back(first_state(group, kind, p));
  }
  const int64_t n = static_cast<int64_t>(group.parameters.size());
  for (const Count& count : group.recipe->counts)
    group.counts.push_back(full({n}, count.start, f64));
}

std::string lower_name(const Recipe& recipe) {
  std::string name;
  for (const char c : recipe.name) name += static_cast<char>(std::tolower(c));
  return name;
}

/// The function that is compiled.
struct StepFunction {
  const Recipe* recipe;
  void operator()(const std::vector<GroupStep>& groups, const Tensor& skip) const {
    for (const GroupStep& step : groups) {
      GroupUpdate update(*recipe, step, skip);
      recipe->sweep(update);
    }
  }
};

GroupStep step_of(const Group& group) {
  GroupStep step;
  step.state.resize(group.state.size());
  for (size_t i = 0; i < group.parameters.size(); ++i) {
    Tensor gradient = group.parameters[i].grad();
    if (!gradient.defined()) continue;
    step.parameters.push_back(group.parameters[i]);
    step.gradients.push_back(std::move(gradient));
    step.which.push_back(static_cast<int64_t>(i));
    for (size_t k = 0; k < group.state.size(); ++k)
      if (!group.state[k].empty()) step.state[k].push_back(group.state[k][i]);
  }
  step.counts = group.counts;
  step.numbers = group.numbers;
  step.flags = group.flags;
  return step;
}

}  // namespace

// --- optimizers

struct Optimizer::Sweep {
  Compiled<StepFunction, void, const std::vector<GroupStep>&, const Tensor&> function;
};

Optimizer::Optimizer(const Recipe& recipe, const ParamGroup& defaults,
                     const ParamGroups& parameters)
    : recipe_(&recipe), defaults_(defaults) {
  const auto is_empty = [](const ParamGroup& g) { return g.parameters.empty(); };
  if (std::ranges::all_of(parameters.groups, is_empty))
    ir::fail(Errc::Argument,
             fmt::format("{}: expected parameters, got an empty list", recipe.name));
  for (const ParamGroup& group : parameters.groups) add_param_group(group);
  lr = Scalar(groups_[0].numbers.select(0, 0));
  if (recipe.sweep != nullptr)
    sweep_ = std::make_shared<Sweep>(
        Sweep{runtime::compile_library_function(StepFunction{&recipe}, lower_name(recipe))});
}

Optimizer::~Optimizer() = default;

void Optimizer::add_param_group(const ParamGroup& given) {
  require_known_options(*recipe_, given);
  Group group;
  group.recipe = recipe_;
  group.parameters = distinct(*recipe_, given.parameters);
  for (const Tensor& t : parameters())
    for (const Tensor& p : group.parameters)
      if (p.impl() == t.impl())
        ir::fail(Errc::Argument, fmt::format("{}: expected a parameter in one group, got {} in two",
                                             recipe_->name, to_string(p.sizes())));
  set_options(group, given, defaults_);
  make_state(group);
  groups_.push_back(std::move(group));
}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> out;
  for (const Group& group : groups_)
    out.insert(out.end(), group.parameters.begin(), group.parameters.end());
  return out;
}

void Optimizer::step_unless(const Tensor& skip) {
  if (sweep_ == nullptr)
    ir::fail(Errc::Argument, fmt::format("{}: step expected a closure, got none", recipe_->name));
  std::vector<GroupStep> steps;
  for (const Group& group : groups_)
    if (GroupStep step = step_of(group); !step.which.empty()) steps.push_back(std::move(step));
  if (steps.empty()) return;
  const NoGrad no_grad;
  sweep_->function(steps, skip);
}

void Optimizer::zero_grad(bool set_to_none) const {
  const NoGrad no_grad;
  for (const Group& group : groups_)
    for (const Tensor& p : group.parameters) {
      if (set_to_none)
        p.set_grad(Tensor());
      else if (const Tensor g = p.grad(); g.defined())
        g.detach().zero_();
    }
}

}  // namespace tandem::optim
