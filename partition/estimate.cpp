#include "partition/estimate.h"

#include <algorithm>
#include <limits>

namespace tandem::partition {

using ir::EquationId;
using ir::OpClass;
using ir::ValueId;

namespace {

/// Which values go through memory when one half runs in kernels. Each equation has a depth: how
/// many boundaries between kernels lie on the longest way to it. A value is computed where it is
/// needed; if kernels of several depths need it, or one across a boundary, it is stored.
class Kernels {
 public:
  enum Half : uint8_t { Forward, Backward };

  Kernels(const Analysis& a, const ir::CostModel& costs, Half half)
      : a_(a),
        costs_(costs),
        half_(half),
        depth_(a.graph),
        first_need_(a.graph, kNever),
        last_need_(a.graph, -1),
        stored_(a.graph) {
    for (size_t i = 0; i < a.graph.num_equations(); ++i) find_depth(a.graph.equation_id(i));
    for (uint32_t i = static_cast<uint32_t>(a.graph.num_values()); i-- > 0;) find_needs({i});
  }

  bool stores(ValueId v) const { return stored_[v]; }

 private:
  static constexpr int kNever = std::numeric_limits<int>::max();

  bool is_in_half(ValueId v) const { return half_ == Forward ? a_.forward[v] : a_.backward[v]; }

  /// What backward recomputes starts when it is needed; only what needs a tangent has to wait.
  bool has_depth(ValueId v) const { return half_ == Forward || a_.needs_tangent[v]; }

  bool is_boundary(ValueId v, EquationId user) const {
    const ValueId base = a_.base(v);
    return a_.cls(user) != OpClass::View && a_.producer(base).valid() &&
           !costs_.may_fuse(a_.graph, a_.producer(base), user);
  }

  void find_depth(EquationId e) {
    if (!is_in_half(a_.graph.result(e)) || !has_depth(a_.graph.result(e))) return;
    int depth = 0;
    for (ValueId v : a_.graph.operands(e))
      if (has_depth(v)) depth = std::max(depth, depth_[v] + is_boundary(v, e));
    for (ValueId v : a_.graph.results(e)) depth_[v] = depth;
  }

  // What a view shows goes where the view goes. A contraction of forward is not repeated in
  // backward, so it does not ask for its operands there.
  void find_needs(ValueId v) {
    if (!a_.producer(v).valid() || (half_ == Backward && a_.needs_tangent[v])) return;
    for (EquationId user : a_.users[v]) {
      const ValueId result = a_.graph.result(user);
      if (!is_in_half(result)) continue;
      if (half_ == Backward && a_.forward[result] && a_.cls(user) == OpClass::Contraction) continue;
      const bool boundary = is_boundary(v, user);
      if (boundary || (a_.cls(user) == OpClass::View && stored_[result])) stored_[v] = true;
      add_need(v, result, boundary);
    }
    if (last_need_[v] > first_need_[v]) stored_[v] = true;
  }

  /// A stored value is computed once, where the first of its users is.
  void add_need(ValueId v, ValueId result, bool boundary) {
    int first = depth_[result], last = first;
    if (!a_.needs_tangent[result] && last_need_[result] >= 0) {
      first = first_need_[result];
      last = stored_[result] ? first : last_need_[result];
    }
    first_need_[v] = std::min(first_need_[v], first - boundary);
    last_need_[v] = std::max(last_need_[v], last - boundary);
  }

  const Analysis& a_;
  const ir::CostModel& costs_;
  const Half half_;
  ir::ValueMap<int> depth_, first_need_, last_need_;
  ir::ValueMap<bool> stored_;
};

}  // namespace

Estimate::Estimate(const Analysis& a, const ir::CostModel* costs)
    : costs_(costs), save_(a.graph), recompute_(a.graph) {
  if (!costs) return;
  const Kernels forward(a, *costs, Kernels::Forward), backward(a, *costs, Kernels::Backward);
  for (ValueId v : a.all_values()) {
    if (a.graph.type(v).is_token || a.needs_tangent[v]) continue;
    const EquationId e = a.producer(v);
    if (!e.valid() && a.is_free_to_save(v)) continue;
    const double once = costs->transfer_seconds(static_cast<double>(a.saved_bytes(v)));
    const bool free_write =
        e.valid() && (a.held_result[v] >= 0 || forward.stores(v) || a.is(v, OpClass::Contraction));
    save_[v] = free_write ? once : 2 * once;
    if (!e.valid() || !a.forward[v] || a.graph.result(e) != v) continue;
    const bool is_view = a.is(v, OpClass::View) || a.is(v, OpClass::Factory);
    recompute_[v] = costs->compute_seconds(a.graph, e);
    if (!is_view && (backward.stores(v) || a.is(v, OpClass::Contraction)))
      recompute_[v] += 2 * once;
  }
}

}  // namespace tandem::partition
