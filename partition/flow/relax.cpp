#include "partition/flow/relax.h"

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace tandem::partition {
namespace {

using ir::OpClass;
using ir::ValueId;

/// Equal equations of equal layers: one op with one result type.
std::string kind_of(const Analysis& a, ValueId v) {
  return std::string(ir::name(a.graph.op(a.producer(v)))) + " " + to_string(a.graph.type(v));
}

/// What is dearer to compute again comes later.
int tier_of(const Analysis& a, ValueId v) {
  return a.is(v, OpClass::Contraction) ? 2 : a.is(v, OpClass::Reduction) ? 1 : 0;
}

struct Kind {
  int tier = 0;
  int64_t bytes = 0;
};

class Relaxation {
 public:
  Relaxation(const Analysis& a, const Policy& policy) : a_(a), policy_(policy) {}

  const char* ban(ValueId v) const {
    const char* reason = policy_.ban(v);
    return reason && a_.producer(v).valid() && lifted_.contains(kind_of(a_, v)) ? nullptr : reason;
  }

  int64_t price(ValueId v) const { return policy_.price(v); }

  /// Lifts the bans of one kind among `values`: of the cheapest tier, the smallest kind that is
  /// enough for `excess` bytes, else the largest. False if there is none.
  bool lift_one(std::span<const ValueId> values, int64_t excess) {
    std::unordered_map<std::string, Kind> kinds;
    for (ValueId v : values)
      if (may_lift(v)) {
        Kind& kind = kinds[kind_of(a_, v)];
        kind.tier = tier_of(a_, v);
        kind.bytes += a_.saved_bytes(v);
      }
    const std::string* best = nullptr;
    for (const auto& [name, kind] : kinds)
      if (!best || is_better(name, kind, *best, kinds[*best], excess)) best = &name;
    if (best) lifted_.insert(*best);
    return best != nullptr;
  }

 private:
  bool may_lift(ValueId v) const {
    return a_.forward[v] && a_.backward[v] && a_.producer(v).valid() && ban(v) &&
           !a_.runs_once(a_.producer(v));
  }

  /// The name decides between equals, so that the choice does not depend on hashing.
  static bool is_better(const std::string& name, const Kind& kind, const std::string& best_name,
                        const Kind& best, int64_t excess) {
    if (kind.tier != best.tier) return kind.tier < best.tier;
    const bool enough = kind.bytes >= excess, best_enough = best.bytes >= excess;
    if (enough != best_enough) return enough;
    if (kind.bytes != best.bytes) return (kind.bytes < best.bytes) == enough;
    return name < best_name;
  }

  const Analysis& a_;
  Policy policy_;
  std::unordered_set<std::string> lifted_;
};

}  // namespace

Policy relaxed_to(const Analysis& a, const Policy& policy, int64_t max_bytes) {
  const auto relaxation = std::make_shared<Relaxation>(a, policy);
  const Policy relaxed{[relaxation](ValueId v) { return relaxation->price(v); },
                       [relaxation](ValueId v) { return relaxation->ban(v); }, policy.cost};
  for (;;) {
    const std::vector<ValueId> saved = cheapest_saved_set(a, relaxed);
    const int64_t excess = a.saved_bytes(saved) - max_bytes;
    if (excess <= 0) return relaxed;
    // What is saved because it is banned; else what is banned on the way to it.
    if (!relaxation->lift_one(saved, excess) && !relaxation->lift_one(a.all_values(), excess))
      return relaxed;
  }
}

}  // namespace tandem::partition
