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
        stored_(a.graph),
        brought_for_(a.graph) {
    for (size_t i = 0; i < a.graph.num_equations(); ++i) find_depth(a.graph.equation_id(i));
    for (uint32_t i = static_cast<uint32_t>(a.graph.num_values()); i-- > 0;) find_needs({i});
  }

  bool stores(ValueId v) const { return stored_[v]; }
  /// Bytes that go through memory only if `v` is computed.
  double brought_for(ValueId v) const { return brought_for_[v]; }

 private:
  static constexpr int kNever = std::numeric_limits<int>::max();

  bool is_in_half(ValueId v) const { return half_ == Forward ? a_.forward[v] : a_.backward[v]; }

  /// What backward recomputes starts when it is needed; only what needs a tangent has to wait.
  bool has_depth(ValueId v) const { return half_ == Forward || a_.needs_tangent[v]; }

  /// Whether `v`, or what it shows a part of, comes to its user through memory.
  bool is_boundary(ValueId v, EquationId user) const {
    if (a_.cls(user) == OpClass::View) return false;
    const EquationId e = a_.producer(a_.shown_by(v));
    return e.valid() && !costs_.may_fuse(a_.graph, e, user);
  }

  void find_depth(EquationId e) {
    if (!is_in_half(a_.graph.result(e)) || !has_depth(a_.graph.result(e))) return;
    int depth = 0;
    for (ValueId v : a_.graph.operands(e))
      if (has_depth(v)) depth = std::max(depth, depth_[v] + is_boundary(v, e));
    for (ValueId v : a_.graph.results(e)) depth_[v] = depth;
  }

  /// A contraction of forward is not repeated in backward, and what has to read `v` from memory is
  /// not likely to be where it is smaller itself: saving it takes less than writing `v` again.
  /// Neither asks for its operands there.
  bool is_not_repeated(ValueId v, EquationId user, bool boundary) const {
    const ValueId result = a_.graph.result(user);
    if (half_ == Forward || !a_.forward[result]) return false;
    return a_.cls(user) == OpClass::Contraction || (boundary && a_.bytes(result) < a_.bytes(v));
  }

  // What a view shows goes where the view goes.
  void find_needs(ValueId v) {
    if (!a_.producer(v).valid() || (half_ == Backward && a_.needs_tangent[v])) return;
    ir::ValueList alone;  // what would read it from memory if it were computed
    for (EquationId user : a_.users[v]) {
      const ValueId result = a_.graph.result(user);
      if (!is_in_half(result)) continue;
      const bool boundary = is_boundary(v, user);
      if (is_not_repeated(v, user, boundary)) {
        if (boundary) alone.push_back(result);
        continue;
      }
      if (boundary || (a_.cls(user) == OpClass::View && stored_[result])) stored_[v] = true;
      add_need(v, result, boundary);
    }
    if (last_need_[v] > first_need_[v]) stored_[v] = true;
    if (stored_[v]) return;
    for (ValueId result : alone) brought_for_[result] += static_cast<double>(a_.bytes(v));
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
  ir::ValueMap<double> brought_for_;
};

/// Whether forward writes `v` to memory, whatever is saved.
bool is_written_anyway(const Analysis& a, const Kernels& forward, ValueId v) {
  return a.held_result[v] >= 0 || forward.stores(v) || a.is(v, OpClass::Contraction);
}

/// What a step touches between forward's use of a value and backward's: the inputs and what forward
/// writes, about.
double bytes_between(const Analysis& a, const Kernels& forward) {
  double bytes = 0;
  for (ValueId v : a.all_values())
    if (a.is_primal(v) || (a.forward[v] && !a.is_free_view(v) && is_written_anyway(a, forward, v)))
      bytes += static_cast<double>(a.bytes(v));
  return bytes;
}

}  // namespace

Estimate::Estimate(const Analysis& a, const ir::CostModel* costs)
    : costs_(costs), save_(a.graph), recompute_(a.graph) {
  if (!costs) return;
  const Kernels forward(a, *costs, Kernels::Forward), backward(a, *costs, Kernels::Backward);
  const double between = bytes_between(a, forward);
  for (ValueId v : a.all_values()) {
    if (a.graph.type(v).is_token || a.needs_tangent[v]) continue;
    const EquationId e = a.producer(v);
    const auto bytes = static_cast<double>(a.bytes(v));
    const double once = costs->transfer_seconds(bytes, std::max(bytes, between));
    const bool is_there = e.valid() ? is_written_anyway(a, forward, v) : a.is_free_to_save(v);
    save_[v] = is_there ? once : 2 * once;
    if (!e.valid() || !a.forward[v] || a.graph.result(e) != v) continue;
    const bool is_view = a.is(v, OpClass::View) || a.is(v, OpClass::Factory);
    double brought = backward.brought_for(v);
    if (!is_view && (backward.stores(v) || a.is(v, OpClass::Contraction))) brought += bytes;
    recompute_[v] =
        costs->compute_seconds(a.graph, e) + 2 * costs->transfer_seconds(brought, 2 * brought);
  }
}

}  // namespace tandem::partition
