#include <fmt/format.h>
#include <tandem/ops.h>
#include <tandem/optim/grad_scaler.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/optim/compiled_once.h"
#include "runtime/optim/state_numbers.h"
#include "runtime/trace/trace.h"

namespace tandem::amp {
namespace {

/// Divides by the scale; whether something was not finite, f32 [].
Tensor unscale(const std::vector<Tensor>& gradients, const Tensor& scale) {
  const Scalar inverse((1.0 / scale.to(f64)).to(f32).to(f64));
  Tensor is_finite = ones({}, boolean);
  for (const Tensor& g : gradients) {
    is_finite = logical_and(is_finite, all(isfinite(g)));
    g.copy_(g * inverse);
  }
  return logical_not(is_finite).to(f32);
}

struct Growth {
  Scalar factor, backoff, interval;
  TANDEM_FIELDS(Growth, factor, backoff, interval)
};

void update_scale(const Tensor& scale, const Tensor& tracker, const Tensor& found_inf,
                  const Growth& growth) {
  const Tensor is_bad = found_inf > 0, next = tracker + 1;
  const Tensor is_due = next.to(i64) == growth.interval, grown = scale * growth.factor;
  const Tensor good = where(logical_and(is_due, isfinite(grown)), grown, scale);
  scale.copy_(where(is_bad, scale * growth.backoff, good));
  tracker.copy_(where(logical_or(is_bad, is_due), zeros_like(next), next));
}

const GradScalerOptions& checked_options(const GradScalerOptions& o) {
  const auto require = [](bool fits, const char* name, const char* expected, double value) {
    if (!fits)
      ir::fail(Errc::Argument, fmt::format("GradScaler: {} out of range; expected {}, got {}", name,
                                           expected, value));
  };
  require(o.init_scale > 0, "init_scale", "a number > 0", o.init_scale);
  require(o.growth_factor > 1, "growth_factor", "a number > 1", o.growth_factor);
  require(o.backoff_factor > 0 && o.backoff_factor < 1, "backoff_factor",
          "a number between 0 and 1", o.backoff_factor);
  require(o.growth_interval > 0, "growth_interval", "a number of steps > 0",
          static_cast<double>(o.growth_interval));
  return o;
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(checked_options(options)),
      scale_(full({}, options.init_scale, f32)),
      growth_tracker_(zeros({}, i32)) {}

Tensor GradScaler::scale(const Tensor& output) const {
  return options_.enabled ? output * scale_ : output;
}

GradScaler::Checked* GradScaler::checked(const optim::Optimizer& optimizer) {
  const auto it = std::ranges::find(checked_, &optimizer, &Checked::optimizer);
  return it == checked_.end() ? nullptr : &*it;
}

void GradScaler::unscale_(optim::Optimizer& optimizer) {
  if (!options_.enabled) return;
  if (checked(optimizer) != nullptr)
    ir::fail(Errc::Argument,
             "GradScaler: expected unscale_ once, and before step, between two updates");
  std::vector<Tensor> gradients;
  for (const Tensor& p : optimizer.parameters()) {
    const Tensor g = p.grad();
    if (!g.defined()) continue;
    if (g.dtype() == f16)
      ir::fail(Errc::DType,
               "GradScaler: expected gradients of more range than f16, in which they "
               "would vanish unscaled; parameters are f32 where only the computation "
               "is f16");
    gradients.push_back(g);
  }
  const NoGrad no_grad;
  checked_.push_back(
      {&optimizer, optim::compiled_once<&unscale>("unscale")(gradients, scale_), false});
}

void GradScaler::step(optim::Optimizer& optimizer) {
  if (!options_.enabled) return optimizer.step();
  if (checked(optimizer) == nullptr) unscale_(optimizer);
  Checked& state = *checked(optimizer);
  if (state.is_stepped)
    ir::fail(Errc::Argument, "GradScaler: expected one step of an optimizer between two updates");
  if (runtime::Trace::current() != nullptr)
    optimizer.step_unless(state.found_inf);
  else if (state.found_inf.item() == 0)
    optimizer.step();
  state.is_stepped = true;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  if (checked_.empty())
    ir::fail(Errc::Argument, "GradScaler: expected a step before update, got none");
  const NoGrad no_grad;
  Tensor found = checked_[0].found_inf;
  for (size_t i = 1; i < checked_.size(); ++i) found = found + checked_[i].found_inf;
  const Growth growth{Scalar(options_.growth_factor), Scalar(options_.backoff_factor),
                      Scalar(options_.growth_interval)};
  optim::compiled_once<&update_scale>("update_scale")(scale_, growth_tracker_, found, growth);
  checked_.clear();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  scale_.fill_(new_scale);
  checked_.clear();
}

Tensor GradScaler::found_inf(const optim::Optimizer& optimizer) const {
  const auto it = std::ranges::find(checked_, &optimizer, &Checked::optimizer);
  return it == checked_.end() ? Tensor() : it->found_inf;
}

double GradScaler::get_scale() const { return options_.enabled ? scale_.item() : 1; }

NamedTensors GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  return {{"scale", full({}, get_scale(), f64)},
          {"growth_factor", full({}, options_.growth_factor, f64)},
          {"backoff_factor", full({}, options_.backoff_factor, f64)},
          {"growth_interval", full({}, options_.growth_interval, i64)},
          {"_growth_tracker", growth_tracker_.to(i64)}};
}

void GradScaler::load_state_dict(const NamedTensors& state) {
  if (!options_.enabled) return;
  const auto number = [&](const char* name) {
    return optim::require_number("GradScaler", state, name);
  };
  GradScalerOptions next = options_;
  next.init_scale = number("scale");
  next.growth_factor = number("growth_factor");
  next.backoff_factor = number("backoff_factor");
  next.growth_interval = static_cast<int64_t>(number("growth_interval"));
  const double tracker = number("_growth_tracker");
  options_ = checked_options(next);
  scale_.fill_(next.init_scale);
  growth_tracker_.fill_(static_cast<int64_t>(tracker));
}

}  // namespace tandem::amp
