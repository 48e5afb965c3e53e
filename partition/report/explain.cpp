#include "partition/report/explain.h"

#include <fmt/format.h>

#include <algorithm>

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

Alternatives::Alternatives(const Analysis& a, const Estimate& estimate, const Halves& halves,
                           std::span<const ValueId> saved)
    : a_(a), estimate_(estimate), halves_(halves), given_(a.graph), seen_(a.graph) {
  for (ValueId v : saved) given_[v] = true;
}

std::vector<ValueId> Alternatives::needed_with(ValueId v) {
  std::vector<ValueId> needed{v};
  seen_[v] = ++searches_;
  for (size_t i = 0; i < needed.size(); ++i) {
    const EquationId e = a_.producer(needed[i]);
    if (!e.valid()) continue;
    for (ValueId w : a_.graph.operands(e)) {
      const bool is_there =
          given_[w] || (a_.producer(w).valid() && halves_.backward[a_.producer(w).index]);
      if (is_there || seen_[w] == searches_) continue;
      seen_[w] = searches_;
      needed.push_back(w);
    }
  }
  return needed;
}

Alternative Alternatives::to(ValueId v) {
  Alternative alternative{.saved = v, .needed = needed_with(v)};
  for (ValueId w : alternative.needed)
    alternative.recompute_seconds +=
        a_.producer(w).valid() ? estimate_.recompute_seconds(w) : estimate_.save_seconds(w);
  return alternative;
}

std::string reason_against(const Alternative& alternative, const Analysis& a,
                           const Estimate& estimate, const std::function<const char*(ValueId)>& ban,
                           const char* otherwise) {
  const ValueId v = alternative.saved;
  if (const char* own = a.forward[v] ? ban(v) : nullptr) return own;
  for (ValueId w : alternative.needed)
    if (const char* why = a.producer(w).valid() && a.forward[w] ? ban(w) : nullptr)
      return fmt::format("computed from {}, which is not saved ({})", op_and_name(a, w), why);
  const bool is_cheaper =
      estimate.known() && estimate.save_seconds(v) <= alternative.recompute_seconds;
  return is_cheaper ? "cheaper to save than to compute again" : otherwise;
}

std::string_view op_name(const Analysis& a, ValueId v) {
  return a.producer(v).valid() ? ir::name(a.graph.op(a.producer(v))) : "input";
}

std::string op_and_name(const Analysis& a, ValueId v) {
  return fmt::format("{} {}", op_name(a, v), value_name(a.graph, v));
}

}  // namespace tandem::partition
