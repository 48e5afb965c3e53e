// Schedulers made of others, and the one that follows a metric.
#include <fmt/format.h>
#include <tandem/optim/schedulers.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/base/error.h"
#include "runtime/optim/scheduler_checks.h"
#include "runtime/optim/state_numbers.h"

namespace tandem::optim {

SchedulerList::SchedulerList(Optimizer& optimizer, std::vector<SchedulerPart> schedulers,
                             std::string_view name)
    : LRScheduler(optimizer), parts(std::move(schedulers)) {
  if (parts.empty())
    ir::fail(Errc::Argument, fmt::format("{}: expected schedulers, got an empty list", name));
  for (const SchedulerPart& part : parts)
    if (&(*part).optimizer() != &optimizer)
      ir::fail(
          Errc::Argument,
          fmt::format("{}: expected schedulers of its own optimizer, got one of another", name));
  epoch = 0;
}

NamedTensors SchedulerList::state_dict() const {
  NamedTensors out = {{"last_epoch", full({}, epoch, i64)}, {"_last_lr", vector_of(last_lr)}};
  for (size_t i = 0; i < parts.size(); ++i)
    for (auto& item : with_prefix(fmt::format("_schedulers.{}", i), (*parts[i]).state_dict()))
      out.push_back(std::move(item));
  return out;
}

void SchedulerList::load_state_dict(const NamedTensors& state) {
  for (size_t i = 0; i < parts.size(); ++i)
    (*parts[i]).load_state_dict(parts_of(state, fmt::format("_schedulers.{}", i)));
  if (const auto now = number_of(state, "last_epoch")) epoch = static_cast<int64_t>(*now);
  if (const auto last = numbers_of(state, "_last_lr"); last.size() == groups()) last_lr = last;
}

// --- one after the other

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<SchedulerPart> schedulers,
                           std::vector<int64_t> milestones)
    : SchedulerList(optimizer, std::move(schedulers), "SequentialLR"),
      milestones_(std::move(milestones)) {
  if (milestones_.size() + 1 != parts.size())
    ir::fail(Errc::Argument,
             fmt::format("SequentialLR: expected a milestone between each two of {} schedulers, "
                         "got {}",
                         parts.size(), milestones_.size()));
  if (!std::ranges::is_sorted(milestones_))
    ir::fail(Errc::Argument, fmt::format("SequentialLR: expected milestones in ascending order, "
                                         "got {}",
                                         fmt::join(milestones_, ", ")));
  start();
}

/// All have had their first step when they were made, which only the first one keeps.
void SequentialLR::start() {
  std::vector<double> initial;
  for (const Group& g : optimizer().param_groups()) initial.push_back(*g.initial_lr);
  set_rates(initial);
  epoch = 0;
  const auto current = std::ranges::upper_bound(milestones_, 0) - milestones_.begin();
  start_part(*parts[static_cast<size_t>(current)]);
  keep_last();
}

void SequentialLR::step() {
  ++epoch;
  const auto passed = std::ranges::upper_bound(milestones_, epoch);
  LRScheduler& current = *parts[static_cast<size_t>(passed - milestones_.begin())];
  if (passed != milestones_.begin() && *(passed - 1) == epoch)
    restart_part(current);
  else
    current.step();
  keep_last();
}

// --- all at once

ChainedScheduler::ChainedScheduler(Optimizer& optimizer, std::vector<SchedulerPart> schedulers)
    : SchedulerList(optimizer, std::move(schedulers), "ChainedScheduler") {
  keep_last();
}

void ChainedScheduler::start() {
  epoch = 0;
  for (const SchedulerPart& part : parts) start_part(*part);
  keep_last();
}

void ChainedScheduler::restart() {
  epoch = 0;
  for (const SchedulerPart& part : parts) restart_part(*part);
  keep_last();
}

void ChainedScheduler::step() {
  ++epoch;
  for (const SchedulerPart& part : parts) (*part).step();
  keep_last();
}

// --- by a metric

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options)
    : optimizer_(&optimizer),
      options_(options),
      min_lrs_(options.min_lr.of(optimizer.param_groups().size(), "ReduceLROnPlateau: min_lr")),
      best_(options.mode == PlateauMode::Min ? std::numeric_limits<double>::infinity()
                                             : -std::numeric_limits<double>::infinity()) {
  require_option(options.factor < 1, "ReduceLROnPlateau", "factor", "a number < 1", options.factor);
  for (const Group& g : optimizer.param_groups()) last_lr_.push_back(g.get("lr"));
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const bool is_relative = options_.threshold_mode == ThresholdMode::Rel;
  if (options_.mode == PlateauMode::Min)
    return metric < (is_relative ? best_ * (1 - options_.threshold) : best_ - options_.threshold);
  return metric > (is_relative ? best_ * (1 + options_.threshold) : best_ + options_.threshold);
}

void ReduceLROnPlateau::reduce() {
  const auto& groups = optimizer_->param_groups();
  for (size_t i = 0; i < groups.size(); ++i) {
    const double old = groups[i].get("lr"), least = min_lrs_[std::min(i, min_lrs_.size() - 1)],
                 next = std::max(old * options_.factor, least);
    if (old - next > options_.eps) groups[i].set("lr", next);
  }
}

void ReduceLROnPlateau::step(double metric) {
  ++last_epoch_;
  ++num_bad_epochs_;
  if (is_better(metric)) {
    best_ = metric;
    num_bad_epochs_ = 0;
  }
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  if (num_bad_epochs_ > options_.patience) {
    reduce();
    cooldown_counter_ = options_.cooldown;
    num_bad_epochs_ = 0;
  }
  last_lr_.clear();
  for (const Group& g : optimizer_->param_groups()) last_lr_.push_back(g.get("lr"));
}

NamedTensors ReduceLROnPlateau::state_dict() const {
  return {{"best", full({}, best_, f64)},
          {"last_epoch", full({}, last_epoch_, i64)},
          {"cooldown_counter", full({}, cooldown_counter_, i64)},
          {"num_bad_epochs", full({}, num_bad_epochs_, i64)},
          {"_last_lr", vector_of(last_lr_)}};
}

void ReduceLROnPlateau::load_state_dict(const NamedTensors& state) {
  const auto number = [&](const char* name) {
    return require_number("ReduceLROnPlateau", state, name);
  };
  const double best = number("best"), epoch = number("last_epoch"),
               cooldown = number("cooldown_counter"), bad = number("num_bad_epochs");
  best_ = best;
  last_epoch_ = static_cast<int64_t>(epoch);
  cooldown_counter_ = static_cast<int64_t>(cooldown);
  num_bad_epochs_ = static_cast<int64_t>(bad);
  last_lr_ = numbers_of(state, "_last_lr");
}

}  // namespace tandem::optim
