#include "partition/choices.h"

#include <algorithm>

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

/// The least price of a byte whose plan keeps to the limit, found by doubling and halving; bans are
/// lifted only if no price is enough.
Choices fastest_within(const Problem& p, int64_t max_bytes) {
  const Analysis& a = p.analysis;
  const auto at = [&](double seconds_per_byte) {
    return time_policy(a, p.estimate, {.seconds_per_byte = seconds_per_byte});
  };
  // A saved byte also displaces another from the caches: once more what its traffic costs.
  double enough = p.context.costs->transfer_seconds(1), too_little = enough;
  const Policy asked = heeding_marks(a, at(enough));
  const CheapestSets sets(a, asked);
  const auto set_at = [&](double s) { return sets.find_at(heeding_marks(a, at(s)).price); };
  Values saved = sets.find();
  if (a.saved_bytes(saved) <= max_bytes) return explained(a, saved, asked);
  constexpr int kDoublings = 7, kHalvings = 4;
  for (int i = 0; i < kDoublings && a.saved_bytes(saved) > max_bytes; ++i) {
    too_little = enough;
    saved = set_at(enough *= 8);
  }
  if (a.saved_bytes(saved) > max_bytes) return relaxed(a, at(enough), max_bytes);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (enough + too_little) / 2;
    Values other = set_at(middle);
    const bool fits = a.saved_bytes(other) <= max_bytes;
    (fits ? enough : too_little) = middle;
    if (fits) saved = std::move(other);
  }
  return explained(a, saved, asked);
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
