// An optimizer's state by name, as PyTorch's, and back.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/base/error.h"
#include "runtime/optim/recipe.h"
#include "runtime/optim/state_numbers.h"

namespace tandem::optim {

// --- numbers

Tensor vector_of(const std::vector<double>& values) {
  const Tensor out = empty({static_cast<int64_t>(values.size())}, f64);
  std::ranges::copy(values, out.data<double>());
  return out;
}

std::vector<double> numbers_of(const NamedTensors& state, const std::string& name) {
  if (const Tensor* all = find(state, name)) return all->to_vector<double>();
  std::vector<double> out;
  while (const Tensor* one = find(state, fmt::format("{}.{}", name, out.size())))
    out.push_back(one->item());
  return out;
}

std::optional<double> number_of(const NamedTensors& state, const std::string& name) {
  const Tensor* found = find(state, name);
  return found == nullptr ? std::nullopt : std::optional(found->item());
}

double require_number(std::string_view what, const NamedTensors& state, const std::string& name) {
  const auto found = number_of(state, name);
  if (!found)
    ir::fail(Errc::Argument, fmt::format("{}: the state has no {}; expected it", what, name));
  return *found;
}

namespace {

// --- writing

/// A parameter without a step has no state, as in PyTorch.
bool is_started(const Group& group, size_t i) {
  return group.counts.empty() || group.counts[0].data<double>()[i] != group.recipe->counts[0].start;
}

void add_state(NamedTensors& out, const Group& group, size_t i, size_t number) {
  const Recipe& recipe = *group.recipe;
  if (!is_started(group, i)) return;
  const std::string prefix = fmt::format("state.{}.", number);
  for (size_t c = 0; c < recipe.counts.size(); ++c)
    if (!recipe.counts[c].name.empty())
      out.emplace_back(prefix + std::string(recipe.counts[c].name),
                       full({}, group.counts[c].data<double>()[i], f64));
  for (size_t k = 0; k < recipe.state.size(); ++k)
    if (!group.state[k].empty())
      out.emplace_back(prefix + std::string(recipe.state[k].name), group.state[k][i]);
}

/// The numbers of one list ("betas") are next to each other.
void add_options(NamedTensors& out, const Group& group, const std::string& prefix) {
  const Recipe& recipe = *group.recipe;
  std::vector<double> list;
  for (const std::string_view name : recipe.numbers) {
    const NumberOption& option = number_option(name);
    const std::string full_name = prefix + std::string(option.key);
    if (option.place < 0) {
      out.emplace_back(full_name, full({}, group.get(name), f64));
    } else if (option.place == 0) {
      list = {group.get(name)};
      out.emplace_back(full_name, Tensor());
    } else {
      list.push_back(group.get(name));
      out.back().second = vector_of(list);
    }
  }
  for (const std::string_view name : recipe.flags)
    out.emplace_back(prefix + std::string(name), full({}, flag(group, name), i64));
  if (group.initial_lr) out.emplace_back(prefix + "initial_lr", full({}, *group.initial_lr, f64));
}

// --- reading

/// What a group is to become.
struct NewGroup {
  std::vector<double> numbers;
  std::vector<int64_t> flags;
  std::vector<std::vector<Tensor>> state;
  std::vector<std::vector<double>> counts;
  std::optional<double> initial_lr;
};

NamedTensors saved_group(const Recipe& recipe, const NamedTensors& state, size_t number) {
  NamedTensors saved = parts_of(state, fmt::format("param_groups.{}", number));
  if (saved.empty())
    ir::fail(Errc::Argument, fmt::format("{}: expected a state of more than {} parameter groups",
                                         recipe.name, number));
  return saved;
}

/// The numbers under which a state has the parameters of a group.
std::vector<int64_t> saved_ids(const Group& group, const NamedTensors& saved, int64_t next) {
  std::vector<int64_t> ids;
  for (const double id : numbers_of(saved, "params")) ids.push_back(static_cast<int64_t>(id));
  if (ids.empty())
    for (size_t i = 0; i < group.parameters.size(); ++i)
      ids.push_back(next + static_cast<int64_t>(i));
  if (ids.size() != group.parameters.size())
    ir::fail(Errc::Argument,
             fmt::format("{}: expected a state of a group of {} parameters, got one of {}",
                         group.recipe->name, group.parameters.size(), ids.size()));
  return ids;
}

void read_options(NewGroup& out, const Group& group, const NamedTensors& saved) {
  const Recipe& recipe = *group.recipe;
  for (const std::string_view name : recipe.numbers) {
    const NumberOption& option = number_option(name);
    const std::vector<double> values = numbers_of(saved, std::string(option.key));
    const size_t place = static_cast<size_t>(std::max(option.place, 0));
    out.numbers.push_back(place < values.size() ? values[place] : group.get(name));
    require_in_range(recipe, option, out.numbers.back());
  }
  for (const std::string_view name : recipe.flags) {
    const auto value = number_of(saved, std::string(name));
    out.flags.push_back(value ? static_cast<int64_t>(*value) : flag(group, name));
  }
  out.initial_lr = number_of(saved, "initial_lr");
}

/// The group with other options, for what they say of its state.
Group with_options(const Group& group, const NewGroup& options) {
  Group out = group;
  out.numbers = vector_of(options.numbers);
  out.flags = options.flags;
  group.recipe->check(out);
  return out;
}

Tensor saved_state(const Group& group, const StateKind& kind, size_t i, const NamedTensors& saved) {
  const Tensor& parameter = group.parameters[i];
  const Tensor* found = find(saved, kind.name);
  if (found == nullptr) return first_state(group, kind, parameter);
  if (found->sizes() != parameter.sizes())
    ir::fail(Errc::Shape,
             fmt::format("{}: expected {} of sizes {}, as parameter {}, got {}", group.recipe->name,
                         kind.name, to_string(parameter.sizes()), i, to_string(found->sizes())));
  return *found;
}

/// States of another kind of optimizer are refused.
void require_known(const Recipe& recipe, const NamedTensors& saved) {
  for (const auto& [name, tensor] : saved)
    if (std::ranges::find(recipe.state, name, &StateKind::name) == recipe.state.end() &&
        std::ranges::find(recipe.counts, name, &Count::name) == recipe.counts.end() &&
        name != "step")
      ir::fail(Errc::Argument, fmt::format("{}: expected the state of this optimizer, got \"{}\"",
                                           recipe.name, name));
}

void read_parameter(NewGroup& out, const Group& group, size_t i, const NamedTensors& saved) {
  const Recipe& recipe = *group.recipe;
  require_known(recipe, saved);
  for (size_t c = 0; c < recipe.counts.size(); ++c) {
    const Count& count = recipe.counts[c];
    const double unnamed = saved.empty() ? 0 : 1;
    out.counts[c].push_back(count.name.empty()
                                ? unnamed
                                : number_of(saved, std::string(count.name)).value_or(count.start));
  }
  for (size_t k = 0; k < recipe.state.size(); ++k)
    if (is_wanted(group, recipe.state[k]))
      out.state[k].push_back(saved_state(group, recipe.state[k], i, saved));
}

/// The tensors of one kind become as those read; those that are there stay the same tensors.
void assign(std::vector<Tensor>& to, const std::vector<Tensor>& parameters,
            const std::vector<Tensor>& from) {
  if (from.empty()) to.clear();
  for (size_t i = 0; i < from.size(); ++i) {
    if (i == to.size()) to.push_back(zeros_like(parameters[i]));
    to[i].copy_(from[i]);
  }
}

void assign(Group& to, const NewGroup& from) {
  to.numbers.copy_(vector_of(from.numbers));
  to.flags = from.flags;
  to.initial_lr = from.initial_lr;
  for (size_t c = 0; c < to.counts.size(); ++c) to.counts[c].copy_(vector_of(from.counts[c]));
  for (size_t k = 0; k < to.state.size(); ++k) assign(to.state[k], to.parameters, from.state[k]);
}

}  // namespace

NamedTensors Optimizer::state_dict() const {
  NamedTensors out;
  size_t number = 0;
  for (const Group& group : groups_)
    for (size_t i = 0; i < group.parameters.size(); ++i) add_state(out, group, i, number++);
  int64_t first = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::string prefix = fmt::format("param_groups.{}.", g);
    const int64_t n = static_cast<int64_t>(groups_[g].parameters.size());
    add_options(out, groups_[g], prefix);
    out.emplace_back(prefix + "params", arange(n) + first);
    first += n;
  }
  return out;
}

void Optimizer::load_state_dict(const NamedTensors& state) {
  if (!parts_of(state, fmt::format("param_groups.{}", groups_.size())).empty())
    ir::fail(Errc::Argument, fmt::format("{}: expected a state of {} parameter groups, got more",
                                         recipe_->name, groups_.size()));
  const NoGrad no_grad;
  std::vector<NewGroup> all;
  int64_t first = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const NamedTensors saved = saved_group(*recipe_, state, g);
    NewGroup& next = all.emplace_back();
    read_options(next, groups_[g], saved);
    const Group group = with_options(groups_[g], next);
    next.state.resize(group.state.size());
    next.counts.resize(group.counts.size());
    const std::vector<int64_t> ids = saved_ids(group, saved, first);
    for (size_t i = 0; i < ids.size(); ++i)
      read_parameter(next, group, i, parts_of(state, fmt::format("state.{}", ids[i])));
    first += static_cast<int64_t>(ids.size());
  }
  for (size_t g = 0; g < groups_.size(); ++g) assign(groups_[g], all[g]);
}

}  // namespace tandem::optim
