#include "partition/report/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "partition/flow/network.h"

namespace tandem::partition {

using ir::EquationId;
using ir::ValueId;

namespace {

/// Marks the equations that stand in the half that computes `wanted` from `given`.
std::vector<bool> equations_for(const Analysis& a, ir::ValueMap<bool> wanted,
                                const ir::ValueMap<bool>& given) {
  std::vector<bool> used(a.graph.num_equations());
  for (size_t i = used.size(); i-- > 0;) {
    const auto results = a.graph.results(a.graph.equation_id(i));
    used[i] = std::ranges::any_of(results, [&](ValueId v) { return wanted[v] && !given[v]; });
    if (!used[i]) continue;
    for (ValueId v : a.graph.operands(a.graph.equation_id(i))) wanted[v] = true;
  }
  return used;
}

}  // namespace

Halves::Halves(const Analysis& a, std::span<const ValueId> saved) {
  ir::ValueMap<bool> given(a.graph), wanted = a.forward;
  for (ValueId v : saved) given[v] = wanted[v] = true;
  forward = equations_for(a, wanted, ir::ValueMap<bool>(a.graph));
  backward = equations_for(a, a.gradient, given);
}

bool Halves::are_given(const Analysis& a, ValueId v) const {
  return a.gradient[v] ||
         std::ranges::any_of(a.users[v], [&](EquationId user) { return backward[user.index]; });
}

Alternatives::Alternatives(const Analysis& a, const Estimate& estimate,
                           std::span<const ValueId> saved)
    : a_(a), estimate_(estimate), halves_(a, saved), given_(a.graph) {
  for (ValueId v : saved) given_[v] = true;
}

template <class Visit>
void Alternatives::for_each_needed(ValueId v, Visit visit) const {
  std::unordered_set<uint32_t> seen{v.index};
  std::vector<ValueId> open{v};
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    visit(next);
    const EquationId e = a_.producer(next);
    if (!e.valid()) continue;
    for (ValueId w : a_.graph.operands(e)) {
      const bool is_there =
          given_[w] || (a_.producer(w).valid() && halves_.backward[a_.producer(w).index]);
      if (!is_there && seen.insert(w.index).second) open.push_back(w);
    }
  }
}

double Alternatives::recompute_seconds(ValueId v) const {
  double seconds = 0;
  for_each_needed(v, [&](ValueId w) {
    if (a_.producer(w).valid())
      seconds += estimate_.recompute_seconds(w);
    else
      seconds += estimate_.save_seconds(w);
  });
  return seconds;
}

std::string Alternatives::reason(ValueId v, const std::function<const char*(ValueId)>& ban,
                                 const char* otherwise) const {
  if (const char* own = a_.forward[v] ? ban(v) : nullptr) return own;
  ValueId banned;
  for_each_needed(v, [&](ValueId w) {
    if (!banned.valid() && a_.producer(w).valid() && a_.forward[w] && ban(w)) banned = w;
  });
  if (banned.valid())
    return fmt::format("computed from {}, which is not saved ({})", op_and_name(a_, banned),
                       ban(banned));
  const bool is_cheaper = estimate_.known() && estimate_.save_seconds(v) <= recompute_seconds(v);
  return is_cheaper ? "cheaper to save than to compute again" : otherwise;
}

std::string_view op_name(const Analysis& a, ValueId v) {
  return a.producer(v).valid() ? ir::name(a.graph.op(a.producer(v))) : "input";
}

std::string op_and_name(const Analysis& a, ValueId v) {
  return fmt::format("{} {}", op_name(a, v), value_name(a.graph, v));
}

}  // namespace tandem::partition
