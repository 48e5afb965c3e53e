// The rules of PyTorch's min-cut partitioner (version 2.13, CPU), constants included. Op lists
// become classes of the op table.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <queue>

#include "partition/flow/min_cut.h"
#include "partition/policies.h"

namespace tandem::partition {
namespace {

using ir::EquationId;
using ir::Op;
using ir::OpClass;
using ir::ValueId;

constexpr int kFar = 1'000'000'000;

template <class T>
using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

class Reference {
 public:
  explicit Reference(const Analysis& a)
      : a_(a), distance_(a.graph), banned_(a.graph, nullptr), written_in_backward_(a.graph) {
    find_distances();
    find_written_in_backward();
    for (ValueId v : a.all_values())
      if (a.forward[v]) banned_[v] = own_ban(v);
    ban_used_far_apart();
    ban_long_chains();
  }

  const char* ban(ValueId v) const { return banned_[v]; }

  /// bytes * 1.1^distance, twice that if the value need not exist in memory otherwise.
  int64_t price(ValueId v) const {
    if (a_.graph.type(v).is_token) return kInfinite;
    if (is_parameter(v)) return 0;
    const double weight = std::pow(1.1, std::clamp(distance_[v], 1, 100));
    const auto bytes = static_cast<double>(a_.bytes(v));
    const auto cost = static_cast<int64_t>(bytes * weight);
    return is_materialised(v) ? cost : 2 * cost;
  }

 private:
  bool is_view(EquationId e) const { return a_.cls(e) == OpClass::View; }

  bool is_parameter(ValueId v) const {
    const int input = a_.input[v];
    return input >= 0 && a_.graph.inputs()[static_cast<size_t>(input)].role == ir::Role::Parameter;
  }

  bool in_forward(EquationId e) const { return a_.forward[a_.graph.result(e)]; }

  bool is_recomputable(EquationId e) const {
    const OpClass cls = a_.cls(e);
    const bool reads_at_positions =
        cls == OpClass::Index && ir::info(a_.graph.op(e)).operands.size() == 2;
    return cls == OpClass::Pointwise || cls == OpClass::Reduction || cls == OpClass::View ||
           cls == OpClass::Factory || reads_at_positions;
  }

  bool fuses(EquationId e) const { return is_recomputable(e) || a_.cls(e) == OpClass::Random; }

  bool may_fuse(ValueId v, EquationId user) const {
    const EquationId producer = a_.producer(v);
    if (!producer.valid()) return false;
    if (a_.graph.op(user) == Op::cat) return true;
    return fuses(producer) && fuses(user);
  }

  bool is_materialised(ValueId v) const {
    return !a_.producer(v).valid() ||
           !std::ranges::all_of(a_.users[v], [&](EquationId user) { return may_fuse(v, user); });
  }

  // Hops to the nearest equation outside the forward half.
  void find_distances() {
    for (uint32_t i = static_cast<uint32_t>(a_.graph.num_values()); i-- > 0;) {
      const ValueId v{i};
      if (!a_.forward[v]) continue;
      int nearest = kFar;
      for (EquationId user : a_.users[v])
        nearest = std::min(nearest, distance_[a_.graph.result(user)] + 1);
      distance_[v] = nearest;
    }
  }

  // Some user outside the forward half, perhaps behind views, cannot fuse with the value.
  void find_written_in_backward() {
    for (uint32_t i = static_cast<uint32_t>(a_.graph.num_values()); i-- > 0;) {
      const ValueId v{i};
      written_in_backward_[v] = std::ranges::any_of(a_.users[v], [&](EquationId user) {
        return (!in_forward(user) && !may_fuse(v, user)) ||
               (is_view(user) && written_in_backward_[a_.graph.result(user)]);
      });
    }
  }

  const char* own_ban(ValueId v) const {
    const EquationId e = a_.producer(v);
    if (!e.valid() || is_view(e)) return nullptr;
    if (a_.runs_once(e)) return "effect: runs once";
    if (a_.cls(e) == OpClass::Contraction) return "contraction: not recomputed";
    if (a_.cls(e) == OpClass::Random) return "random: not recomputed";
    if (!is_recomputable(e)) return "not in the list of what may be recomputed";
    if (written_in_backward_[v]) return "would be written to memory again in backward";
    if (reads_much(e)) return "much smaller than what it reads";
    return nullptr;
  }

  bool reads_much(EquationId e) const {
    int64_t read = 0;
    for (ValueId v : a_.graph.operands(e)) read += a_.bytes(v);
    return 4 * a_.bytes(a_.graph.result(e)) < read;
  }

  void ban_if_allowed(EquationId e, const char* reason) {
    ValueId result = a_.graph.result(e);
    if (!is_view(e) && !banned_[result]) banned_[result] = reason;
  }

  // A value that feeds something near and something behind an equation that does not fuse should
  // not draw the far user into backward.
  void ban_used_far_apart() {
    ir::ValueMap<uint32_t> seen(a_.graph, ~uint32_t{0});
    for (ValueId v : a_.all_values()) {
      if (!a_.forward[v]) continue;
      std::vector<EquationId> users;
      for (EquationId user : a_.users[v])
        if (in_forward(user)) users.push_back(user);
      if (users.size() < 2) continue;
      const uint32_t limit = first_unfusible(users, seen, v.index);
      for (EquationId user : users)
        if (user.index > limit && may_fuse(v, user))
          ban_if_allowed(user, "used far from its operand's other users");
    }
  }

  /// The first equation that does not fuse on a walk from `users` no further than the last of them.
  uint32_t first_unfusible(std::span<const EquationId> users, ir::ValueMap<uint32_t>& seen,
                           uint32_t stamp) const {
    const uint32_t last = users.back().index;
    MinHeap<std::pair<uint32_t, bool>> open;  // equation, fuses with the one before
    for (EquationId user : users) open.emplace(user.index, true);
    while (!open.empty()) {
      const auto [index, fusible] = open.top();
      open.pop();
      if (!fusible) return index;
      const ValueId result = a_.graph.result(EquationId{index});
      if (seen[result] == stamp) continue;
      seen[result] = stamp;
      for (EquationId user : a_.users[result])
        if (in_forward(user) && user.index <= last)
          open.emplace(user.index, may_fuse(result, user));
    }
    return std::numeric_limits<uint32_t>::max();
  }

  // Keeps residual streams from being recomputed from end to end.
  void ban_long_chains() {
    constexpr uint32_t kLength = 100;
    std::vector<bool> visited(a_.graph.num_equations());
    for (uint32_t start = 0; start < a_.graph.num_equations(); ++start) {
      if (!in_forward({start})) continue;
      MinHeap<uint32_t> chain;
      chain.push(start);
      while (!chain.empty()) {
        const uint32_t current = chain.top();
        chain.pop();
        if (visited[current]) continue;
        visited[current] = true;
        if (current > start + kLength && chain.empty()) {
          ban_if_allowed({current}, "end of a long chain");
          break;
        }
        const ValueId result = a_.graph.result(EquationId{current});
        for (EquationId user : a_.users[result])
          if (in_forward(user) && may_fuse(result, user) && !banned_[a_.graph.result(user)])
            chain.push(user.index);
      }
    }
  }

  const Analysis& a_;
  ir::ValueMap<int> distance_;
  ir::ValueMap<const char*> banned_;
  ir::ValueMap<bool> written_in_backward_;
};

}  // namespace

Policy reference_policy(const Analysis& a) {
  const auto reference = std::make_shared<const Reference>(a);
  return {.price = [reference](ValueId v) { return reference->price(v); },
          .ban = [reference](ValueId v) { return reference->ban(v); }};
}

}  // namespace tandem::partition
