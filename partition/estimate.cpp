#include "partition/estimate.h"

#include <algorithm>

namespace tandem::partition {

using ir::EquationId;
using ir::OpClass;
using ir::ValueId;

Estimate::Estimate(const Analysis& a, const ir::CostModel* costs)
    : costs_(costs),
      stored_forward_(a.graph),
      stored_backward_(a.graph),
      save_(a.graph),
      recompute_(a.graph) {
  if (!costs) return;
  for (const ir::Output& output : a.graph.outputs())
    if (!a.gradient[output.value]) stored_forward_[output.value] = true;
  for (uint32_t i = static_cast<uint32_t>(a.graph.num_values()); i-- > 0;) {
    const ValueId v{i};
    if (a.graph.type(v).is_token || a.needs_tangent[v]) continue;
    stored_forward_[v] = stored_forward_[v] || passes_through_memory(a, v, false);
    stored_backward_[v] = passes_through_memory(a, v, true);
    const EquationId e = a.producer(v);
    if (!e.valid() && a.is_free_to_save(v)) continue;
    const double once = costs->transfer_seconds(static_cast<double>(a.saved_bytes(v)));
    const bool free_write = e.valid() && (stored_forward_[v] || a.is(v, OpClass::Contraction));
    save_[v] = free_write ? once : 2 * once;
    if (!e.valid() || !a.forward[v] || a.graph.result(e) != v) continue;
    const bool is_view = a.is(v, OpClass::View) || a.is(v, OpClass::Factory);
    recompute_[v] = costs->compute_seconds(a.graph, e);
    if (!is_view && (stored_backward_[v] || a.is(v, OpClass::Contraction)))
      recompute_[v] += 2 * once;
  }
}

bool Estimate::passes_through_memory(const Analysis& a, ValueId v, bool in_backward) const {
  return a.producer(v).valid() && std::ranges::any_of(a.users[v], [&](EquationId user) {
           return is_boundary(a, v, user, in_backward);
         });
}

// What a view shows goes where the view goes. A contraction of forward is not repeated in backward,
// so it does not ask for its operands there.
bool Estimate::is_boundary(const Analysis& a, ValueId v, EquationId user, bool in_backward) const {
  const ValueId result = a.graph.result(user);
  if (a.cls(user) == OpClass::View)
    return in_backward ? stored_backward_[result] : stored_forward_[result];
  if (in_backward ? !a.backward[result] : !a.forward[result]) return false;
  if (in_backward && a.forward[result] && a.cls(user) == OpClass::Contraction) return false;
  const ValueId base = a.base(v);
  return a.producer(base).valid() && !costs_->may_fuse(a.graph, a.producer(base), user);
}

}  // namespace tandem::partition
