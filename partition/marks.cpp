#include "partition/marks.h"

#include <algorithm>
#include <memory>

#include "partition/flow/min_cut.h"

namespace tandem::partition {
namespace {

using ir::EquationId;
using ir::Mark;
using ir::OpClass;
using ir::ValueId;

class Requests {
 public:
  Requests(const Analysis& a, Policy policy)
      : a_(a),
        policy_(std::move(policy)),
        mark_(a.graph, Mark::Auto),
        constant_(a.graph),
        handed_out_(a.graph),
        stands_for_(a.graph) {
    for (uint32_t i = 0; i < a.graph.num_values(); ++i) find_constant({i});
    for (uint32_t i = static_cast<uint32_t>(a.graph.num_values()); i-- > 0;) read({i});
    for (uint32_t i = 0; i < a.graph.num_values(); ++i) find_what_it_stands_for({i});
  }

  const char* ban(ValueId v) const {
    if (mark_[v] == Mark::Save) return "marked: save";
    if (handed_out_[v] && mark_[v] == Mark::Auto && !runs_once(v))
      return "handed out by a checkpoint region";
    return must_be_recomputed(v) ? nullptr : policy_.ban(v);
  }

  int64_t price(ValueId v) const { return must_be_recomputed(v) ? kInfinite : policy_.price(v); }

  int64_t cost(ValueId v) const { return policy_.cost(v); }

 private:
  bool runs_once(ValueId v) const { return a_.producer(v).valid() && a_.runs_once(a_.producer(v)); }

  uint32_t region(ValueId v) const {
    const EquationId e = a_.producer(v);
    return e.valid() && !a_.needs_tangent[v] ? a_.graph.equation(e).region : 0;
  }

  bool must_be_recomputed(ValueId v) const {
    if (mark_[v] == Mark::Recompute) return true;
    if (mark_[v] == Mark::Save || handed_out_[v] || runs_once(v)) return false;
    return region(v) != 0 || (stands_for_[v] > 0 && a_.bytes(v) >= stands_for_[v]);
  }

  void find_constant(ValueId v) {
    const EquationId e = a_.producer(v);
    constant_[v] =
        e.valid() && !a_.runs_once(e) &&
        std::ranges::all_of(a_.graph.operands(e), [&](ValueId w) { return constant_[w]; });
  }

  void read(ValueId v) {
    const EquationId e = a_.producer(v);
    if (!e.valid() || a_.needs_tangent[v]) return;
    const ValueId base = a_.base(v);
    const Mark mark = a_.graph.equation(e).mark;
    if (mark != Mark::Auto && mark_[base] == Mark::Auto) mark_[base] = mark;
    if (region(v) == 0 || constant_[v]) return;
    const bool leaves = std::ranges::any_of(a_.users[v], [&](EquationId user) {
      const ir::Equation& u = a_.graph.equation(user);
      return u.region != region(v) && !u.is_backward;
    });
    if (leaves) handed_out_[base] = true;
  }

  /// What is marked `recompute` stands for its own bytes; what is computed from it element by
  /// element, for those too.
  void find_what_it_stands_for(ValueId v) {
    const EquationId e = a_.producer(v);
    if (!e.valid() || a_.needs_tangent[v] || mark_[v] == Mark::Save || handed_out_[v]) return;
    if (mark_[v] == Mark::Recompute) stands_for_[v] = a_.bytes(v);
    const OpClass cls = a_.cls(e);
    if (cls != OpClass::Pointwise && cls != OpClass::View && cls != OpClass::Shape) return;
    for (ValueId w : a_.graph.operands(e))
      stands_for_[v] = std::max<int64_t>(stands_for_[v], stands_for_[w]);
  }

  const Analysis& a_;
  const Policy policy_;
  ir::ValueMap<Mark> mark_;
  ir::ValueMap<bool> constant_;  // computed from nothing
  ir::ValueMap<bool> handed_out_;
  ir::ValueMap<int64_t> stands_for_;  // bytes that are not to be held; 0: none
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
