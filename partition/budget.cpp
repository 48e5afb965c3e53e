#include "partition/budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "ir/base/error.h"
#include "partition/marks.h"
#include "partition/policies.h"

namespace tandem::partition {
namespace {

using ir::ValueId;
using Values = std::vector<ValueId>;

/// Dearer than any arithmetic: as few bytes as possible, time only between equals.
constexpr double kByteAboveAll = 1e-6;  // seconds

/// What a branch of the search has decided.
enum class Fixed : uint8_t { Free, Saved, NotSaved };

struct SavedSet {
  bool feasible = false;
  Values saved;
  Cost cost;
};

class Search {
 public:
  Search(const Analysis& a, const Estimate& estimate, int64_t max_bytes)
      : a_(a), estimate_(estimate), fixed_(a.graph, Fixed::Free), max_bytes_(max_bytes) {
    for (ValueId v : a.all_values())
      if (a.forward[v] && a.backward[v] && a.saved_bytes(v) > 0) ++candidates_;
    round_limit_down();
  }

  BudgetedSet run() {
    const double bound = relax().bound;
    if (!best_) refuse();
    const bool small = candidates_ <= kSmall;
    if (!small) mix();
    branches_left_ = small ? kBranchesIfSmall : kBranchesIfLarge;
    const bool finished = branch();
    const double least = finished ? best_->cost.seconds() : bound;
    return {best_->saved, best_->cost, least, finished};
  }

 private:
  static constexpr int kSmall = 40, kBranchesIfSmall = 20'000, kBranchesIfLarge = 8;

  struct Relaxed {
    double bound = 0;       // of every set that the branch allows
    SavedSet above, below;  // around the limit; equal if the bound is met
    bool feasible = false;
  };

  // Every saved set's bytes are a multiple of this.
  void round_limit_down() {
    int64_t unit = 0;
    for (ValueId v : a_.all_values())
      if (a_.backward[v] && !a_.graph.type(v).is_token) unit = std::gcd(unit, a_.saved_bytes(v));
    if (unit > 0) max_bytes_ = max_bytes_ / unit * unit;
  }

  SavedSet solve(double seconds_per_byte) const {
    const Policy base = heeding_marks(
        a_, time_policy(a_, estimate_, {.seconds_per_byte = seconds_per_byte, .anything = true}));
    const Policy policy{
        [&](ValueId v) { return fixed_[v] == Fixed::NotSaved ? kInfinite : base.price(v); },
        [&](ValueId v) { return fixed_[v] == Fixed::Saved ? "kept" : base.ban(v); }, base.cost};
    auto saved = CheapestSets(a_, policy).find_if_any();
    SavedSet set;
    set.feasible = saved.has_value();
    if (!saved) return set;
    set.saved = std::move(saved->values);
    set.cost = cost_of(a_, estimate_, set.saved);
    return set;
  }

  bool fits(const SavedSet& set) const {
    return set.feasible && set.cost.saved_bytes <= max_bytes_;
  }

  void offer(const SavedSet& set) {
    if (!fits(set)) return;
    const auto rank = [](const Cost& c) { return std::pair(c.seconds(), c.saved_bytes); };
    if (!best_ || rank(set.cost) < rank(best_->cost)) best_ = set;
  }

  double lagrangian(const SavedSet& set, double price) const {
    return set.cost.seconds() + price * static_cast<double>(set.cost.saved_bytes - max_bytes_);
  }

  /// The best bound over all prices of a byte: the sets that meet on the hull at the limit.
  Relaxed relax() {
    Relaxed r;
    r.above = solve(0);
    offer(r.above);
    r.feasible = r.above.feasible;
    if (!r.feasible) return r;
    r.bound = r.above.cost.seconds();
    r.below = r.above;
    if (fits(r.above)) return r;
    r.below = solve(kByteAboveAll);
    offer(r.below);
    r.feasible = fits(r.below);
    for (int round = 0; r.feasible && round < 40; ++round) {
      const auto bytes = static_cast<double>(r.above.cost.saved_bytes - r.below.cost.saved_bytes);
      const double price = (r.below.cost.seconds() - r.above.cost.seconds()) / bytes;
      if (price <= 0) break;
      const SavedSet between = solve(price);
      offer(between);
      r.bound = std::max(r.bound, lagrangian(between, price));
      const double gain = lagrangian(r.above, price) - lagrangian(between, price);
      const bool is_new = between.cost.saved_bytes != r.above.cost.saved_bytes &&
                          between.cost.saved_bytes != r.below.cost.saved_bytes;
      if (!is_new || gain <= tolerance()) break;
      (fits(between) ? r.below : r.above) = between;
    }
    return r;
  }

  // Prices are whole picoseconds.
  double tolerance() const { return 1e-12 * static_cast<double>(1 + candidates_); }

  /// Saves what `r.above` saves and `r.below` does not, or excludes it. True if the branch was
  /// searched to its end.
  bool branch() {
    if (branches_left_-- <= 0) return false;
    const Relaxed r = relax();
    if (!r.feasible || r.bound >= best_->cost.seconds() - tolerance()) return true;
    const std::optional<ValueId> v = undecided(r);
    if (!v) return true;
    bool finished = true;
    for (Fixed choice : {Fixed::Saved, Fixed::NotSaved}) {
      fixed_[*v] = choice;
      finished = branch() && finished;
    }
    fixed_[*v] = Fixed::Free;
    return finished;
  }

  std::optional<ValueId> undecided(const Relaxed& r) const {
    std::optional<ValueId> best;
    for (ValueId v : r.above.saved) {
      if (fixed_[v] != Fixed::Free || a_.saved_bytes(v) == 0) continue;
      const bool in_both = std::ranges::binary_search(r.below.saved, v);
      if (in_both) continue;
      if (!best || a_.saved_bytes(v) > a_.saved_bytes(*best)) best = v;
    }
    if (best) return best;
    for (ValueId v : r.above.saved)
      if (fixed_[v] == Fixed::Free && a_.saved_bytes(v) > 0) return v;
    return std::nullopt;
  }

  /// Between the two sets of the hull: the one's values up to a place in the graph, the other's
  /// after it. The place is found by halving, from both ends.
  void mix() {
    const Relaxed r = relax();
    if (fits(r.above) || !r.feasible) return;
    for (const bool keep_early : {true, false}) {
      size_t kept = 0, all = r.above.saved.size();
      for (size_t step = std::bit_ceil(all + 1) / 2; step > 0; step /= 2) {
        if (kept + step > all) continue;
        const SavedSet set = with_kept(r, kept + step, keep_early);
        offer(set);
        if (fits(set)) kept += step;
      }
    }
  }

  SavedSet with_kept(const Relaxed& r, size_t count, bool early) {
    const auto bytes = static_cast<double>(r.above.cost.saved_bytes - r.below.cost.saved_bytes);
    const double price = (r.below.cost.seconds() - r.above.cost.seconds()) / bytes;
    const size_t first = early ? 0 : r.above.saved.size() - count;
    for (size_t i = first; i < first + count; ++i) fixed_[r.above.saved[i]] = Fixed::Saved;
    SavedSet set = solve(price * (1 + 1e-6));
    for (size_t i = first; i < first + count; ++i) fixed_[r.above.saved[i]] = Fixed::Free;
    return set;
  }

  [[noreturn]] void refuse() const {
    const SavedSet least = solve(kByteAboveAll);
    if (!least.feasible) fewest_bytes(a_, estimate_);  // throws: names the chain of values
    std::string names;
    for (ValueId v : least.saved)
      if (a_.saved_bytes(v) > 0)
        names += fmt::format("{}{} ({} bytes)", names.empty() ? "" : ", ", value_name(a_.graph, v),
                             a_.saved_bytes(v));
    ir::fail(ir::Errc::Partition,
             fmt::format("saved_bytes: expected at least {} bytes, which must be saved in any "
                         "case: {} (on the chain {}); got {}",
                         least.cost.saved_bytes, names, chain_that_must_be_saved(), max_bytes_));
  }

  std::string chain_that_must_be_saved() const {
    Policy policy = heeding_marks(a_, time_policy(a_, estimate_, {.anything = true}));
    policy.price = [this, price = policy.price](ValueId v) {
      return a_.saved_bytes(v) > 0 ? kInfinite : price(v);
    };
    return impossible_chain(a_, policy);
  }

  const Analysis& a_;
  const Estimate& estimate_;
  ir::ValueMap<Fixed> fixed_;
  int64_t max_bytes_;
  int candidates_ = 0, branches_left_ = 0;
  std::optional<SavedSet> best_;
};

}  // namespace

BudgetedSet cheapest_within(const Analysis& a, const Estimate& estimate, int64_t max_bytes) {
  return Search(a, estimate, max_bytes).run();
}

Values fewest_bytes(const Analysis& a, const Estimate& estimate) {
  return cheapest_saved_set(
      a, heeding_marks(
             a, time_policy(a, estimate, {.seconds_per_byte = kByteAboveAll, .anything = true})));
}

}  // namespace tandem::partition
