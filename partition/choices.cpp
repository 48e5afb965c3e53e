#include "partition/choices.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "partition/budget.h"
#include "partition/flow/relax.h"
#include "partition/marks.h"
#include "partition/policies.h"
#include "partition/split.h"

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

/// A set that may be chosen, and what it was found by.
struct SavedSet {
  SavedSet(const Problem& p, Values values, Policy by, const char* why)
      : saved(bases_of(p.analysis, std::move(values))),
        bytes(p.analysis.saved_bytes(saved)),
        policy(std::move(by)),
        otherwise(why) {}

  Values saved;
  int64_t bytes;
  Policy policy;
  const char* otherwise;  // why a value is saved that is neither banned nor cheaper to save
};

Choices explained(const Problem& p, SavedSet set) {
  const auto reason = [&p, policy = std::move(set.policy),
                       otherwise = set.otherwise](const Alternative& alternative) -> std::string {
    const ValueId v = alternative.saved;
    if (p.analysis.is_primal(v)) return reason_of_input(p.analysis, v);
    return reason_against(alternative, p.analysis, p.estimate, policy.ban, otherwise);
  };
  return {std::move(set.saved), reason};
}

constexpr char kOfReference[] = "by the reference rules", kFewerBytes[] = "fewer bytes",
               kWithinLimit[] = "within the limit on bytes";

SavedSet relaxed(const Problem& p, const Policy& policy, int64_t max_bytes) {
  const Policy asked = heeding_marks(p.analysis, policy);
  const Policy relaxed = relaxed_to(p.analysis, asked, max_bytes);
  return {p, cheapest_saved_set(p.analysis, relaxed), relaxed, kFewerBytes};
}

/// Prices of a byte and the cheapest sets at them. Only the price of a byte changes, so that what
/// a set costs is a line over that price.
class PricedSets {
 public:
  struct Set {
    double price = 0;  // seconds per byte
    CheapestSet saved;
    int64_t bytes = 0;
    /// What it costs where bytes cost nothing, in picoseconds.
    double base() const {
      return static_cast<double>(saved.cost) - price * 1e12 * static_cast<double>(bytes);
    }
  };

  /// `any_price`: the network is the same at all that are not 0.
  PricedSets(const Problem& p, double any_price) : p_(p), sets_(p.analysis, policy(any_price)) {}

  Policy policy(double price) const {
    return heeding_marks(p_.analysis,
                         time_policy(p_.analysis, p_.estimate, {.seconds_per_byte = price}));
  }
  Set at(double price) const {
    CheapestSet saved = sets_.find_at(policy(price).price);
    const int64_t bytes = p_.analysis.saved_bytes(saved.values);
    return {price, std::move(saved), bytes};
  }
  /// The cheapest set at the price at which these two cost the same.
  Set between(const Set& over, const Set& within) const {
    const auto bytes = static_cast<double>(over.bytes - within.bytes);
    return at((within.base() - over.base()) / bytes * 1e-12);
  }

 private:
  const Problem& p_;
  CheapestSets sets_;
};

/// The least price of a byte whose set keeps to the limit: raised until one does, then the price
/// at which it and the last one that does not cost the same, until no other set is cheaper there.
class FastestWithin {
 public:
  // A saved byte also displaces another from the caches: once more what its traffic costs.
  explicit FastestWithin(const Problem& p) : p_(p), least_(byte_seconds(p)), priced_(p, least_) {}

  /// Nothing if no price is enough.
  std::optional<SavedSet> find(int64_t max_bytes) const {
    std::optional<PricedSets::Set> over;
    PricedSets::Set within = priced_.at(least_);
    for (int i = 0; i < kRaises && within.bytes > max_bytes; ++i) {
      over = std::move(within);
      within = priced_.at(over->price * 8);
    }
    if (within.bytes > max_bytes) return std::nullopt;
    for (int i = 0; i < kCrossings && over; ++i) {
      PricedSets::Set other = priced_.between(*over, within);
      if (other.bytes == over->bytes || other.bytes == within.bytes) break;
      (other.bytes <= max_bytes ? within : *over) = std::move(other);
    }
    return SavedSet(p_, within.saved.values, priced_.policy(within.price), kWithinLimit);
  }

  /// The same; bans are lifted if no price is enough.
  SavedSet find_in_any_case(int64_t max_bytes) const {
    if (auto set = find(max_bytes)) return std::move(*set);
    const TimePolicy dearest{.seconds_per_byte = least_ * std::pow(8, kRaises)};
    return relaxed(p_, time_policy(p_.analysis, p_.estimate, dearest), max_bytes);
  }

 private:
  static constexpr int kRaises = 7, kCrossings = 4;

  static double byte_seconds(const Problem& p) {
    constexpr double kBeyondCaches = 1e15;
    return p.context.costs->transfer_seconds(1, kBeyondCaches);
  }

  const Problem& p_;
  const double least_;
  const PricedSets priced_;
};

std::optional<SavedSet> reference_if_any(const Problem& p) {
  const Policy asked = heeding_marks(p.analysis, reference_policy(p.analysis));
  auto set = CheapestSets(p.analysis, asked).find_if_any();
  if (!set) return std::nullopt;
  return SavedSet(p, std::move(set->values), asked, kOfReference);
}

/// Seconds of a step by the kernels of both halves.
double step_seconds(const Problem& p, const SavedSet& set) {
  const ir::Partition parts = split(p.analysis, set.saved);
  return p.context.costs->run_seconds(parts.forward) + p.context.costs->run_seconds(parts.backward);
}

/// Of `candidates`, the one with the fewest bytes whose predicted time is within 3% of the least.
SavedSet worth_its_bytes(const Problem& p, std::vector<SavedSet> candidates) {
  constexpr double kLeastGain = 0.03;
  std::ranges::stable_sort(candidates, {}, &SavedSet::bytes);
  const auto again = std::ranges::unique(candidates, {}, &SavedSet::saved);
  candidates.erase(again.begin(), again.end());
  if (candidates.size() == 1) return std::move(candidates[0]);
  std::vector<double> seconds;
  for (const SavedSet& set : candidates) seconds.push_back(step_seconds(p, set));
  const double least = *std::ranges::min_element(seconds);
  const auto best =
      std::ranges::find_if(seconds, [&](double s) { return (1 - kLeastGain) * s <= least; });
  return std::move(candidates[static_cast<size_t>(best - seconds.begin())]);
}

}  // namespace

Choices choose_default(const Problem& p) {
  const int64_t everything = p.analysis.saved_bytes(choose_everything(p).values);
  const int64_t limit = std::min(p.context.tape_bytes, everything);
  if (!p.estimate.known()) return explained(p, relaxed(p, default_policy(p.analysis), limit));
  const FastestWithin fastest(p);
  std::vector<SavedSet> candidates{fastest.find_in_any_case(limit)};
  const int64_t bytes = candidates[0].bytes;
  std::optional<SavedSet> reference = reference_if_any(p);
  const int64_t reference_bytes = reference ? reference->bytes : limit;
  if (reference && reference_bytes <= limit) candidates.push_back(std::move(*reference));
  if (reference_bytes < bytes)
    if (auto smaller = fastest.find(reference_bytes)) candidates.push_back(std::move(*smaller));
  return explained(p, worth_its_bytes(p, std::move(candidates)));
}

Choices choose_reference(const Problem& p) {
  const Policy asked = heeding_marks(p.analysis, reference_policy(p.analysis));
  return explained(p, {p, cheapest_saved_set(p.analysis, asked), asked, kOfReference});
}

Choices choose_fewest(const Problem& p) {
  const Policy asked =
      heeding_marks(p.analysis, time_policy(p.analysis, p.estimate, {.anything = true}));
  return explained(p, {p, fewest_bytes(p.analysis, p.estimate), asked, kWithinLimit});
}

namespace {

/// The user's requests alone: what may not be saved has no price, what is not computed again a ban.
Policy requests(const Analysis& a) {
  return heeding_marks(a, {.price = [](ValueId) { return int64_t{0}; },
                           .ban = [](ValueId) -> const char* { return nullptr; }});
}

/// What backward reads of forward; in place of what it is to compute again, what that reads.
Values read_beside(const Analysis& a, const Policy& asked) {
  ir::ValueMap<bool> reached(a.graph);
  Values left = read_by_backward(a), read;
  while (!left.empty()) {
    const ValueId v = a.base(left.back());
    left.pop_back();
    if (reached[v]) continue;
    reached[v] = true;
    if (asked.price(v) != kInfinite) {
      read.push_back(v);
      continue;
    }
    const std::span<const ValueId> operands = a.graph.operands(a.producer(v));
    left.insert(left.end(), operands.begin(), operands.end());
  }
  return read;
}

}  // namespace

// Views as their bases; constants are written again.
Choices choose_everything(const Problem& p) {
  const Analysis& a = p.analysis;
  const Policy asked = requests(a);
  Values values = bases_of(a, read_beside(a, asked));
  std::erase_if(
      values, [&](ValueId v) { return a.is(v, ir::OpClass::Factory) || a.graph.type(v).is_token; });
  return {std::move(values), [asked](const Alternative& alternative) -> std::string {
            const char* request = asked.ban(alternative.saved);
            return request != nullptr ? request : "read by backward";
          }};
}

// Also what runs once, and what is asked for.
Choices choose_inputs(const Problem& p) {
  const Analysis& a = p.analysis;
  const Policy asked = requests(a);
  Values values;
  for (ValueId v : a.all_values()) {
    const bool is_kept = !a.is_primal(v) && a.is_written_in_forward(v) &&
                         !a.graph.type(v).is_token &&
                         (a.runs_once(a.producer(v)) || asked.ban(v) != nullptr);
    if (a.backward[v] && (a.is_primal(v) || is_kept)) values.push_back(v);
  }
  return {std::move(values), [&a, asked](const Alternative& alternative) -> std::string {
            const ValueId v = alternative.saved;
            if (a.is_primal(v)) return reason_of_input(a, v);
            const char* request = asked.ban(v);
            return request != nullptr ? request : "effect: runs once";
          }};
}

Choices choose_within(const Problem& p, int64_t max_bytes, double& least_seconds) {
  BudgetedSet set = cheapest_within(p.analysis, p.estimate, max_bytes);
  least_seconds = set.least_seconds;
  const Policy asked =
      heeding_marks(p.analysis, time_policy(p.analysis, p.estimate, {.anything = true}));
  return explained(p, {p, std::move(set.saved), asked, kWithinLimit});
}

}  // namespace tandem::partition
