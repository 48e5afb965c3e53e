#include "codegen/fusion/updates.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "codegen/nodes/checks.h"

namespace tandem::codegen {
namespace {

constexpr int64_t kFewNumbers = 8192;

/// Groups are known by where they stand in the order that they came in.
class Updates {
 public:
  Updates(const Program& p, std::vector<Group> groups, const std::vector<int>& targets)
      : p_(p),
        groups_(std::move(groups)),
        targets_(targets),
        group_of_(groups_of_nodes(p, groups_)),
        readers_(p.roots.size()),
        target_(p.roots.size()),
        is_update_(groups_.size()),
        done_(groups_.size()) {}

  std::vector<Group> run() {
    if (reads_what_is_written_on()) return std::move(groups_);
    find_places();
    std::vector<size_t> order(groups_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {},
                      [&](size_t g) { return std::tuple(places_[g], is_update_[g], g); });
    for (size_t g : order) append(g);
    return std::move(out_);
  }

 private:
  const Node& node(NodeId n) const { return p_.nodes[n]; }

  template <class F>
  void for_each_read(size_t g, F f) const {
    for (NodeId n : groups_[g].nodes) {
      for (const View& v : node(n).operands) f(v.root);
      if (node(n).table.root.valid()) f(node(n).table.root);
    }
  }

  /// f(group) for all that must run before group `g`, some more than once.
  template <class F>
  void for_each_needed(size_t g, F f) const {
    for_each_read(g, [&](RootId read) {
      for (NodeId w : p_.roots[read].writers)
        if (group_of_[w] != g) f(group_of_[w]);
    });
    for (NodeId n : groups_[g].nodes)
      if (node(n).after.valid() && group_of_[node(n).after] != g) f(group_of_[node(n).after]);
  }

  /// Whether a group reads memory that a later one writes more of: then the order says what it
  /// sees, and nothing may move.
  bool reads_what_is_written_on() const {
    bool any = false;
    for (size_t g = 0; g < groups_.size(); ++g)
      for_each_needed(g, [&](size_t needed) { any |= needed > g; });
    return any;
  }

  /// f(root) for the inputs whose new contents group `g` writes.
  template <class F>
  void for_each_target(size_t g, F f) const {
    for (NodeId n : groups_[g].nodes)
      node(n).for_each_written([&](RootId r) {
        if (target_[r].valid()) f(target_[r]);
      });
  }

  /// What `r` was a copy of before parts of it were written.
  RootId begun_as(RootId r) const {
    const Node* const begun = begun_as_copy(p_.nodes, p_.roots[r]);
    return begun != nullptr && p_.roots[r].writers.size() > 1 ? begun->operands[0].root : RootId();
  }

  /// Of new contents, and of those before some part was written: the input.
  void find_targets() {
    for (size_t o = 0; o < targets_.size(); ++o) {
      const auto input = inputs_.find(targets_[o]);
      RootId r = p_.outputs[o].root;
      if (targets_[o] < 0 || input == inputs_.end() || !r.valid()) continue;
      target_[r] = input->second;
      for (r = begun_as(r); r.valid() && begun_as(r).valid(); r = begun_as(r))
        target_[r] = input->second;
    }
  }

  /// The last group that reads a value, and the last other one.
  struct Readers {
    size_t last = 0, other = 0;
    size_t beside(size_t g) const { return last == g ? other : last; }
  };

  void find_readers() {
    for (RootId r : p_.roots.ids())
      if (p_.roots[r].kind == Root::Kind::Input) inputs_[p_.roots[r].index] = r;
    find_targets();
    for (size_t g = 0; g < groups_.size(); ++g)
      for_each_read(g, [&](RootId root) {
        Readers& r = readers_[root];
        if (r.last != g) r.other = std::exchange(r.last, g);
      });
  }

  /// What an update that only copies a value waits for: the others that read this. It then need not
  /// be a copy, but go on in the value's memory.
  size_t last_beside_copy(size_t g) const {
    const Node& first = node(groups_[g].nodes[0]);
    const bool only_copies = groups_[g].nodes.size() == 1 && first.is_copy();
    return only_copies ? readers_[first.operands[0].root].beside(g) : 0;
  }

  size_t last_that_can_fail() const {
    Checks checks;
    size_t last = 0;
    for (size_t g = 0; g < groups_.size(); ++g)
      for (NodeId n : groups_[g].nodes)
        if (checks.can_fail(node(n))) last = g;
    return last;
  }

  /// Finds the group behind which each belongs: itself, or what an update must wait for.
  void find_places() {
    find_readers();
    const size_t safe = last_that_can_fail();
    std::vector<bool> numbers(groups_.size());  // few, and made of inputs alone
    for (size_t g = 0; g < groups_.size(); ++g) {
      numbers[g] = groups_[g].domain.total <= kFewNumbers && is_made_by_kernel(g);
      size_t place = safe;
      for_each_needed(g, [&](size_t before) {
        numbers[g] = numbers[g] && numbers[before];
        if (!numbers[before]) place = std::max(place, places_[before]);
      });
      bool is_update = false;
      for_each_target(g, [&](RootId input) {
        is_update = true;
        place = std::max({place, readers_[input].beside(g), last_beside_copy(g)});
      });
      is_update_[g] = is_update && !numbers[g];
      places_.push_back(is_update_[g] ? place : g);
    }
  }

  bool is_made_by_kernel(size_t g) const {
    return std::ranges::all_of(groups_[g].nodes,
                               [&](NodeId n) { return makes(node(n)) != Makes::Alone; });
  }

  /// Appends group `g` behind what it needs.
  void append(size_t g) {
    stack_ = {g};
    while (!stack_.empty()) {
      const size_t top = stack_.back(), before = stack_.size();
      if (!done_[top])
        for_each_needed(top, [&](size_t needed) {
          if (!done_[needed]) stack_.push_back(needed);
        });
      if (stack_.size() > before) continue;
      stack_.pop_back();
      if (!std::exchange(done_[top], true)) out_.push_back(std::move(groups_[top]));
    }
  }

  const Program& p_;
  std::vector<Group> groups_;
  const std::vector<int>& targets_;
  Table<NodeId, size_t> group_of_;
  std::map<int, RootId> inputs_;
  Table<RootId, Readers> readers_;
  Table<RootId, RootId> target_;
  std::vector<size_t> places_;
  std::vector<uint8_t> is_update_, done_;
  std::vector<size_t> stack_;
  std::vector<Group> out_;
};

}  // namespace

namespace {

/// The groups with those that only check as soon as what they check is known: behind a check that
/// can fail nothing is written in place before it.
std::vector<Group> with_checks_first(const Program& p, std::vector<Group> groups) {
  const Table<NodeId, size_t> group_of = groups_of_nodes(p, groups);
  const auto behind = [&](const Group& group) {
    size_t place = 0;
    for (NodeId n : group.nodes)
      for (const View& v : p.nodes[n].operands)
        for (NodeId w : p.roots[v.root].writers) place = std::max(place, group_of[w] + 1);
    return place;
  };
  std::vector<std::tuple<size_t, bool, size_t>> order;  // checks stand in front of others
  for (size_t g = 0; g < groups.size(); ++g) {
    const bool only_checks =
        std::ranges::all_of(groups[g].nodes, [&](NodeId n) { return p.nodes[n].only_checks; });
    order.emplace_back(only_checks ? behind(groups[g]) : g, !only_checks, g);
  }
  std::ranges::sort(order);
  std::vector<Group> out;
  for (const auto& [place, computes, g] : order) out.push_back(std::move(groups[g]));
  return out;
}

}  // namespace

std::vector<Group> with_updates_in_place(const Program& program, std::vector<Group> groups,
                                         const std::vector<int>& targets) {
  if (std::ranges::none_of(targets, [](int t) { return t >= 0; })) return groups;
  return Updates(program, with_checks_first(program, std::move(groups)), targets).run();
}

}  // namespace tandem::codegen
