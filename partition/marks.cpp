#include "partition/marks.h"

#include <algorithm>
#include <memory>

#include "partition/min_cut.h"

namespace tandem::partition {
namespace {

using ir::EquationId;
using ir::Mark;
using ir::ValueId;

class Requests {
 public:
  Requests(const Analysis& a, Policy policy)
      : a_(a), policy_(std::move(policy)), mark_(a.graph, Mark::Auto), handed_out_(a.graph) {
    for (uint32_t i = static_cast<uint32_t>(a.graph.num_values()); i-- > 0;) read({i});
  }

  const char* ban(ValueId v) const {
    if (mark_[v] == Mark::Save) return "marked: save";
    if (region(v) != 0 && mark_[v] == Mark::Auto) {
      if (a_.has_effects(a_.producer(v))) return policy_.ban(v);
      return handed_out_[v] ? "handed out by a checkpoint region" : nullptr;
    }
    if (mark_[v] == Mark::Recompute) return nullptr;
    return policy_.ban(v);
  }

  int64_t price(ValueId v) const {
    const bool inside = region(v) != 0 && !handed_out_[v] && mark_[v] != Mark::Save;
    return inside || mark_[v] == Mark::Recompute ? kInfinite : policy_.price(v);
  }

  int64_t cost(ValueId v) const { return policy_.cost(v); }

 private:
  uint32_t region(ValueId v) const {
    const EquationId e = a_.producer(v);
    return e.valid() && !a_.needs_tangent[v] ? a_.graph.equation(e).region : 0;
  }

  void read(ValueId v) {
    const EquationId e = a_.producer(v);
    if (!e.valid() || a_.needs_tangent[v]) return;
    const ValueId base = a_.base(v);
    const Mark mark = a_.graph.equation(e).mark;
    if (mark != Mark::Auto && mark_[base] == Mark::Auto) mark_[base] = mark;
    if (region(v) == 0) return;
    const bool leaves = std::ranges::any_of(a_.users[v], [&](EquationId user) {
      const ir::Equation& u = a_.graph.equation(user);
      return u.region != region(v) && !u.is_backward;
    });
    if (leaves) handed_out_[base] = true;
  }

  const Analysis& a_;
  const Policy policy_;
  ir::ValueMap<Mark> mark_;
  ir::ValueMap<bool> handed_out_;
};

}  // namespace

Policy heeding_marks(const Analysis& a, Policy policy) {
  const auto is_marked = [](const ir::Equation& e) {
    return e.mark != Mark::Auto || e.region != 0;
  };
  if (std::ranges::none_of(a.graph.equations(), is_marked)) return policy;
  const auto requests = std::make_shared<const Requests>(a, policy);
  return {[requests](ValueId v) { return requests->price(v); },
          [requests](ValueId v) { return requests->ban(v); },
          [requests](ValueId v) { return requests->cost(v); }};
}

}  // namespace tandem::partition
