// Schedulers that move the momentum against the learning rate: OneCycleLR, CyclicLR.
#include <fmt/format.h>
#include <tandem/optim/schedulers.h>

#include <cmath>
#include <numbers>

#include "ir/base/error.h"
#include "runtime/optim/scheduler_checks.h"

namespace tandem::optim {
namespace {

/// What plays the momentum's part in a group.
const char* momentum_name(const Group& group, const char* scheduler) {
  if (group.has("beta1")) return "beta1";
  if (!group.has("momentum"))
    ir::fail(Errc::Argument, fmt::format("{}: cycle_momentum expected an optimizer with a momentum "
                                         "or beta1",
                                         scheduler));
  return "momentum";
}

double anneal(Anneal how, double from, double to, double share) {
  if (how == Anneal::Linear) return (to - from) * share + from;
  return to + (from - to) / 2 * (std::cos(std::numbers::pi * share) + 1);
}

int64_t steps_of(const OneCycleLROptions& o) {
  const int64_t steps = o.total_steps != 0 ? o.total_steps : o.epochs * o.steps_per_epoch;
  require_option(steps > 0, "OneCycleLR", "total_steps, or epochs times steps_per_epoch,",
                 "a number > 0", static_cast<double>(steps));
  return steps;
}

}  // namespace

OneCycleLR::OneCycleLR(Optimizer& optimizer, const OneCycleLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  options_.total_steps = steps_of(options);
  const double steps = static_cast<double>(options_.total_steps), share = options.pct_start;
  require_option(share >= 0 && share <= 1, "OneCycleLR", "pct_start", "a number from 0 to 1",
                 share);
  const auto most = options.max_lr.of(groups(), "OneCycleLR: max_lr"),
             low = options.base_momentum.of(groups(), "OneCycleLR: base_momentum"),
             high = options.max_momentum.of(groups(), "OneCycleLR: max_momentum");
  std::vector<double> least;
  for (size_t i = 0; i < groups(); ++i) {
    base_lrs[i] = most[i] / options.div_factor;
    least.push_back(base_lrs[i] / options.final_div_factor);
    if (options.cycle_momentum) group(i).set(momentum_name(group(i), "OneCycleLR"), high[i]);
    group(i).initial_lr = base_lrs[i];
  }
  phases_.push_back({share * steps - 1, base_lrs, most, high, low});
  if (options.three_phase) {
    phases_.push_back({2 * share * steps - 2, most, base_lrs, low, high});
    phases_.push_back({steps - 1, base_lrs, least, high, high});
  } else {
    phases_.push_back({steps - 1, most, least, low, high});
  }
  start();
}

double OneCycleLR::next(size_t i) {
  const double step = static_cast<double>(epoch);
  require_option(epoch <= options_.total_steps, "OneCycleLR", "the number of steps",
                 "at most total_steps", step);
  size_t k = 0;
  while (k + 1 < phases_.size() && step > phases_[k].end) ++k;
  const double begin = k == 0 ? 0 : phases_[k - 1].end;
  const double share = (step - begin) / (phases_[k].end - begin);
  const Phase& phase = phases_[k];
  if (options_.cycle_momentum)
    group(i).set(
        momentum_name(group(i), "OneCycleLR"),
        anneal(options_.anneal_strategy, phase.from_momentum[i], phase.to_momentum[i], share));
  return anneal(options_.anneal_strategy, phase.from_lr[i], phase.to_lr[i], share);
}

CyclicLR::CyclicLR(Optimizer& optimizer, const CyclicLROptions& options)
    : LRScheduler(optimizer),
      options_(options),
      max_lrs_(options.max_lr.of(groups(), "CyclicLR: max_lr")),
      base_momentums_(options.base_momentum.of(groups(), "CyclicLR: base_momentum")),
      max_momentums_(options.max_momentum.of(groups(), "CyclicLR: max_momentum")) {
  require_count("CyclicLR", "step_size_up", options.step_size_up);
  if (options.step_size_down) require_count("CyclicLR", "step_size_down", *options.step_size_down);
  base_lrs = options.base_lr.of(groups(), "CyclicLR: base_lr");
  for (size_t i = 0; i < groups(); ++i) {
    group(i).set("lr", base_lrs[i]);
    if (options.cycle_momentum)
      group(i).set(momentum_name(group(i), "CyclicLR"), max_momentums_[i]);
  }
  start();
}

double CyclicLR::next(size_t i) {
  const double up = static_cast<double>(options_.step_size_up),
               down = static_cast<double>(options_.step_size_down.value_or(options_.step_size_up)),
               step = static_cast<double>(epoch);
  const double cycle = std::floor(1 + step / (up + down)), at = 1 + step / (up + down) - cycle,
               ratio = up / (up + down);
  const double height = at <= ratio ? at / ratio : (at - 1) / (ratio - 1);
  double scale = 1;
  if (options_.mode == CyclicMode::Triangular2) scale = 1 / std::pow(2.0, cycle - 1);
  if (options_.mode == CyclicMode::ExpRange) scale = std::pow(options_.gamma, step);
  if (options_.cycle_momentum)
    group(i).set(momentum_name(group(i), "CyclicLR"),
                 max_momentums_[i] - (max_momentums_[i] - base_momentums_[i]) * height * scale);
  return base_lrs[i] + (max_lrs_[i] - base_lrs[i]) * height * scale;
}

}  // namespace tandem::optim
