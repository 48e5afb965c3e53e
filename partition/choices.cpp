#include "partition/choices.h"

#include <algorithm>
#include <optional>

#include "partition/budget.h"
#include "partition/marks.h"
#include "partition/policies.h"
#include "partition/relax.h"

namespace tandem::partition {

using ir::ValueId;
using Values = std::vector<ValueId>;

namespace {

/// `values` with views as their bases, each once, in graph order.
Values bases_of(const Analysis& a, Values values) {
  for (ValueId& v : values) v = a.base(v);
  std::ranges::sort(values);
  values.erase(std::ranges::unique(values).begin(), values.end());
  return values;
}

const char* reason_of_input(const Analysis& a, ValueId v) {
  return a.overwritten[v] ? "input that forward overwrites: a copy" : "input: lives anyway";
}

Choices explained(const Analysis& a, Values values, const Policy& policy) {
  Choices choices;
  for (ValueId v : bases_of(a, std::move(values))) {
    const char* ban = a.is_primal(v) || !a.forward[v] ? nullptr : policy.ban(v);
    choices.push_back({v, ban              ? ban
                          : a.is_primal(v) ? reason_of_input(a, v)
                                           : "cheaper to save than to compute again"});
  }
  return choices;
}

Choices cut(const Analysis& a, const Policy& policy) {
  const Policy asked = heeding_marks(a, policy);
  return explained(a, cheapest_saved_set(a, asked), asked);
}

Choices relaxed(const Analysis& a, const Policy& policy, int64_t max_bytes) {
  const Policy asked = heeding_marks(a, policy);
  const Policy relaxed = relaxed_to(a, asked, max_bytes);
  return explained(a, cheapest_saved_set(a, relaxed), relaxed);
}

/// Prices of a byte and the cheapest plans at them. Only the price of a byte changes, so that what
/// a plan costs is a line over that price.
class PricedPlans {
 public:
  struct Plan {
    double price = 0;  // seconds per byte
    CheapestSet saved;
    int64_t bytes = 0;
    /// What it costs where bytes cost nothing, in picoseconds.
    double base() const {
      return static_cast<double>(saved.cost) - price * 1e12 * static_cast<double>(bytes);
    }
  };

  /// `any_price`: the network is the same at all that are not 0.
  PricedPlans(const Problem& p, double any_price) : p_(p), sets_(p.analysis, policy(any_price)) {}

  Policy policy(double price) const {
    return heeding_marks(p_.analysis,
                         time_policy(p_.analysis, p_.estimate, {.seconds_per_byte = price}));
  }
  Plan at(double price) const {
    CheapestSet saved = sets_.find_at(policy(price).price);
    const int64_t bytes = p_.analysis.saved_bytes(saved.values);
    return {price, std::move(saved), bytes};
  }
  /// The cheapest plan at the price at which these two cost the same.
  Plan between(const Plan& over, const Plan& within) const {
    const auto bytes = static_cast<double>(over.bytes - within.bytes);
    return at((within.base() - over.base()) / bytes * 1e-12);
  }

 private:
  const Problem& p_;
  CheapestSets sets_;
};

/// The least price of a byte whose plan keeps to the limit: raised until one does, then the price
/// at which it and the last one that does not cost the same, until no other plan is cheaper there.
/// Bans are lifted only if no price is enough.
Choices fastest_within(const Problem& p, int64_t max_bytes) {
  // A saved byte also displaces another from the caches: once more what its traffic costs.
  const double least = p.context.costs->transfer_seconds(1);
  const PricedPlans plans(p, least);
  std::optional<PricedPlans::Plan> over;
  PricedPlans::Plan within = plans.at(least);
  constexpr int kRaises = 7, kCrossings = 4;
  for (int i = 0; i < kRaises && within.bytes > max_bytes; ++i) {
    over = std::move(within);
    within = plans.at(over->price * 8);
  }
  if (within.bytes > max_bytes) {
    const TimePolicy dearest{.seconds_per_byte = within.price};
    return relaxed(p.analysis, time_policy(p.analysis, p.estimate, dearest), max_bytes);
  }
  for (int i = 0; i < kCrossings && over; ++i) {
    PricedPlans::Plan other = plans.between(*over, within);
    if (other.bytes == over->bytes || other.bytes == within.bytes) break;
    (other.bytes <= max_bytes ? within : *over) = std::move(other);
  }
  return explained(p.analysis, within.saved.values, plans.policy(within.price));
}

}  // namespace

Choices choose_default(const Problem& p) {
  const int64_t limit =
      std::min(p.context.tape_bytes, p.analysis.saved_bytes(values_of(choose_everything(p))));
  if (p.estimate.known()) return fastest_within(p, limit);
  return relaxed(p.analysis, default_policy(p.analysis), limit);
}

Choices choose_reference(const Problem& p) { return cut(p.analysis, reference_policy(p.analysis)); }

// Views as their bases; constants are written again.
Choices choose_everything(const Problem& p) {
  Choices choices;
  for (ValueId v : bases_of(p.analysis, read_by_backward(p.analysis)))
    if (!p.analysis.is(v, ir::OpClass::Factory)) choices.push_back({v, "read by backward"});
  return choices;
}

// Also what runs once.
Choices choose_inputs(const Problem& p) {
  const Analysis& a = p.analysis;
  Choices choices;
  for (ValueId v : a.all_values()) {
    if (!a.backward[v]) continue;
    if (a.is_primal(v))
      choices.push_back({v, reason_of_input(a, v)});
    else if (a.is_written_in_forward(v) && a.has_effects(a.producer(v)) &&
             !a.graph.type(v).is_token)
      choices.push_back({v, "effect: runs once"});
  }
  return choices;
}

Choices choose_within(const Problem& p, int64_t max_bytes, double& least_seconds) {
  BudgetedSet set = cheapest_within(p.analysis, p.estimate, max_bytes);
  least_seconds = set.least_seconds;
  const Policy nothing_banned{.price = {}, .ban = [](ValueId) -> const char* { return nullptr; }};
  return explained(p.analysis, std::move(set.saved), nothing_banned);
}

}  // namespace tandem::partition
