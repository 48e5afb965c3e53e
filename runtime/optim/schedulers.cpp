// Each scheduler's rate, in PyTorch's form: from what the group's rate is now.
#include <fmt/format.h>
#include <tandem/optim/schedulers.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ir/base/error.h"
#include "runtime/optim/scheduler_checks.h"
#include "runtime/optim/state_numbers.h"

namespace tandem::optim {

void require_option(bool fits, const char* scheduler, const char* name, const char* expected,
                    double value) {
  if (!fits)
    ir::fail(Errc::Argument, fmt::format("{}: {} out of range; expected {}, got {}", scheduler,
                                         name, expected, value));
}

std::vector<double> PerGroup::of(size_t groups, std::string_view what) const {
  if (values_.size() == groups) return values_;
  if (values_.size() != 1)
    ir::fail(Errc::Argument, fmt::format("{}: expected one value, or one for each of {} groups, "
                                         "got {}",
                                         what, groups, values_.size()));
  return std::vector<double>(groups, values_[0]);
}

// --- what all do

LRScheduler::LRScheduler(Optimizer& optimizer) : optimizer_(&optimizer) {
  for (Group& g : optimizer.param_groups()) {
    if (!g.initial_lr) g.initial_lr = g.get("lr");
    base_lrs.push_back(*g.initial_lr);
  }
}

LRScheduler::~LRScheduler() = default;

void LRScheduler::keep_last() {
  last_lr.clear();
  for (const Group& g : optimizer().param_groups()) last_lr.push_back(g.get("lr"));
}

void LRScheduler::set_rates(const std::vector<double>& rates) {
  if (optimizer().param_groups().size() != rates.size())
    ir::fail(Errc::Argument,
             fmt::format("scheduler: expected an optimizer of {} groups, as when it was made, got "
                         "{}",
                         rates.size(), optimizer().param_groups().size()));
  // Roundings may lead below zero, which Group::set refuses.
  for (size_t i = 0; i < rates.size(); ++i) group(i).numbers.select(0, 0).fill_(rates[i]);
  keep_last();
}

void LRScheduler::start() {
  epoch = -1;
  step_count_ = 0;
  is_initial = true;
  step();
  is_initial = false;
}

void LRScheduler::step() {
  ++step_count_;
  ++epoch;
  std::vector<double> rates;
  for (size_t i = 0; i < groups(); ++i) rates.push_back(next(i));
  set_rates(rates);
}

void LRScheduler::restart() {
  epoch = 0;
  std::vector<double> rates;
  for (size_t i = 0; i < groups(); ++i) rates.push_back(first(i));
  set_rates(rates);
}

NamedTensors LRScheduler::state_dict() const {
  return {{"base_lrs", vector_of(base_lrs)},
          {"last_epoch", full({}, epoch, i64)},
          {"_step_count", full({}, step_count_, i64)},
          {"_last_lr", vector_of(last_lr)}};
}

void LRScheduler::load_state_dict(const NamedTensors& state) {
  const double last_epoch = require_number("scheduler", state, "last_epoch");
  const std::vector<double> base = numbers_of(state, "base_lrs"),
                            last = numbers_of(state, "_last_lr");
  for (const auto* list : {&base, &last})
    if (!list->empty() && list->size() != groups())
      ir::fail(Errc::Argument, fmt::format("scheduler: expected a state of {} groups, got {}",
                                           groups(), list->size()));
  epoch = static_cast<int64_t>(last_epoch);
  step_count_ = static_cast<int64_t>(
      number_of(state, "_step_count").value_or(static_cast<double>(step_count_)));
  if (!base.empty()) base_lrs = base;
  if (!last.empty()) last_lr = last;
}

// --- steps and powers

StepLR::StepLR(Optimizer& optimizer, const StepLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  require_count("StepLR", "step_size", options.step_size);
  start();
}

double StepLR::next(size_t group) {
  const bool falls = epoch != 0 && epoch % options_.step_size == 0;
  return falls ? lr(group) * options_.gamma : lr(group);
}

MultiStepLR::MultiStepLR(Optimizer& optimizer, MultiStepLROptions options)
    : LRScheduler(optimizer), options_(std::move(options)) {
  std::ranges::sort(options_.milestones);
  start();
}

double MultiStepLR::next(size_t group) {
  const auto times = std::ranges::count(options_.milestones, epoch);
  return times == 0 ? lr(group) : lr(group) * std::pow(options_.gamma, static_cast<double>(times));
}

double MultiStepLR::first(size_t group) {
  const auto passed = std::ranges::upper_bound(options_.milestones, epoch);
  return base_lrs[group] *
         std::pow(options_.gamma, static_cast<double>(passed - options_.milestones.begin()));
}

ConstantLR::ConstantLR(Optimizer& optimizer, const ConstantLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  require_option(options.factor >= 0 && options.factor <= 1, "ConstantLR", "factor",
                 "a number from 0 to 1", options.factor);
  start();
}

double ConstantLR::next(size_t group) {
  if (epoch == 0) return lr(group) * options_.factor;
  return epoch == options_.total_iters ? lr(group) * (1 / options_.factor) : lr(group);
}

double ConstantLR::first(size_t group) {
  return options_.total_iters <= 0 ? base_lrs[group] : base_lrs[group] * options_.factor;
}

LinearLR::LinearLR(Optimizer& optimizer, const LinearLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  require_option(options.start_factor > 0 && options.start_factor <= 1, "LinearLR", "start_factor",
                 "a number above 0, at most 1", options.start_factor);
  require_option(options.end_factor >= 0 && options.end_factor <= 1, "LinearLR", "end_factor",
                 "a number from 0 to 1", options.end_factor);
  require_count("LinearLR", "total_iters", options.total_iters);
  start();
}

double LinearLR::next(size_t group) {
  const double start = options_.start_factor, rise = options_.end_factor - start;
  if (epoch == 0) return lr(group) * start;
  if (is_initial || epoch > options_.total_iters) return lr(group);
  const double before = static_cast<double>(epoch - 1) * rise;
  return lr(group) * (1 + rise / (static_cast<double>(options_.total_iters) * start + before));
}

ExponentialLR::ExponentialLR(Optimizer& optimizer, const ExponentialLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  start();
}

double ExponentialLR::next(size_t group) {
  return is_initial ? lr(group) : lr(group) * options_.gamma;
}

PolynomialLR::PolynomialLR(Optimizer& optimizer, const PolynomialLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  require_count("PolynomialLR", "total_iters", options.total_iters);
  start();
}

double PolynomialLR::next(size_t group) {
  if (is_initial || epoch > options_.total_iters) return lr(group);
  const double total = static_cast<double>(options_.total_iters), now = static_cast<double>(epoch);
  const double share = (1 - now / total) / (1 - (now - 1) / total);
  return lr(group) * std::pow(share, options_.power);
}

// --- cosines

CosineAnnealingLR::CosineAnnealingLR(Optimizer& optimizer, const CosineAnnealingLROptions& options)
    : LRScheduler(optimizer), options_(options) {
  require_count("CosineAnnealingLR", "t_max", options.t_max);
  start();
}

double CosineAnnealingLR::next(size_t group) {
  if (is_initial) return lr(group);
  const double half = static_cast<double>(options_.t_max), least = options_.eta_min;
  const auto height = [&](int64_t at) {
    return 1 + std::cos(std::numbers::pi * static_cast<double>(at) / half);
  };
  if ((epoch - 1 - options_.t_max) % (2 * options_.t_max) == 0)  // it was at the least
    return lr(group) + (base_lrs[group] - least) * (1 - std::cos(std::numbers::pi / half)) / 2;
  return height(epoch) / height(epoch - 1) * (lr(group) - least) + least;
}

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(
    Optimizer& optimizer, const CosineAnnealingWarmRestartsOptions& options)
    : LRScheduler(optimizer), options_(options), t_i_(options.t_0) {
  require_count("CosineAnnealingWarmRestarts", "t_0", options.t_0);
  require_count("CosineAnnealingWarmRestarts", "t_mult", options.t_mult);
  start();
}

void CosineAnnealingWarmRestarts::step() {
  if (epoch < 0) {
    t_cur_ = 0;
    t_i_ = options_.t_0;
  } else if (++t_cur_ >= t_i_) {
    t_cur_ -= t_i_;
    t_i_ *= options_.t_mult;
  }
  LRScheduler::step();
}

double CosineAnnealingWarmRestarts::next(size_t group) {
  const double at = static_cast<double>(t_cur_) / static_cast<double>(t_i_);
  return options_.eta_min +
         (base_lrs[group] - options_.eta_min) * (1 + std::cos(std::numbers::pi * at)) / 2;
}

double CosineAnnealingWarmRestarts::first(size_t group) {
  t_cur_ = 0;
  t_i_ = options_.t_0;
  return next(group);
}

NamedTensors CosineAnnealingWarmRestarts::state_dict() const {
  NamedTensors out = LRScheduler::state_dict();
  out.emplace_back("T_cur", full({}, t_cur_, i64));
  out.emplace_back("T_i", full({}, t_i_, i64));
  return out;
}

void CosineAnnealingWarmRestarts::load_state_dict(const NamedTensors& state) {
  const double t_cur = require_number("CosineAnnealingWarmRestarts", state, "T_cur"),
               t_i = require_number("CosineAnnealingWarmRestarts", state, "T_i");
  LRScheduler::load_state_dict(state);
  t_cur_ = static_cast<int64_t>(t_cur);
  t_i_ = static_cast<int64_t>(t_i);
}

// --- functions of the user's

namespace {

std::vector<Factor> for_each_group(const Optimizer& optimizer, const Factor& factor) {
  return std::vector<Factor>(optimizer.param_groups().size(), factor);
}

void require_for_each(const char* scheduler, size_t groups, const std::vector<Factor>& factors) {
  if (factors.size() != groups)
    ir::fail(Errc::Argument, fmt::format("{}: expected a function for each of {} groups, got {}",
                                         scheduler, groups, factors.size()));
  if (!std::ranges::all_of(factors, [](const Factor& f) { return f != nullptr; }))
    ir::fail(Errc::Argument, fmt::format("{}: expected functions, got an empty one", scheduler));
}

}  // namespace

LambdaLR::LambdaLR(Optimizer& optimizer, const Factor& factor)
    : LambdaLR(optimizer, for_each_group(optimizer, factor)) {}

LambdaLR::LambdaLR(Optimizer& optimizer, std::vector<Factor> factors)
    : LRScheduler(optimizer), factors_(std::move(factors)) {
  require_for_each("LambdaLR", groups(), factors_);
  start();
}

double LambdaLR::next(size_t group) { return base_lrs[group] * factors_[group](epoch); }

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, const Factor& factor)
    : MultiplicativeLR(optimizer, for_each_group(optimizer, factor)) {}

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, std::vector<Factor> factors)
    : LRScheduler(optimizer), factors_(std::move(factors)) {
  require_for_each("MultiplicativeLR", groups(), factors_);
  start();
}

double MultiplicativeLR::next(size_t group) {
  return is_initial ? lr(group) : lr(group) * factors_[group](epoch);
}

}  // namespace tandem::optim
