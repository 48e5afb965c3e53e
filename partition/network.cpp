#include "partition/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "ir/error.h"

namespace tandem::partition {

using ir::EquationId;
using ir::Graph;
using ir::ValueId;
using Values = std::vector<ValueId>;

namespace {

/// The half of a joint graph that a network is about: what backward needs and could be given.
bool is_in_network(const Analysis& a, ValueId v) { return a.backward[v] && !a.needs_tangent[v]; }

bool starts_in_forward(const Analysis& a, const Policy& policy, ValueId v) {
  return a.is_primal(v) || (a.forward[v] && policy.ban(v));
}

/// Calls `f` for each value of backward that is computed from `v`.
template <class F>
void for_each_reader(const Analysis& a, ValueId v, F f) {
  for (EquationId user : a.users[v])
    for (ValueId result : a.graph.results(user))
      if (a.backward[result]) f(result);
}

/// A node that infinite edges tie to the source or the sink is that, and one that only leads to
/// another along them is that other: both lie on one side of every cut that is searched for.
class NetworkBuilder {
 public:
  NetworkBuilder(const Analysis& analysis, const Policy& policy)
      : a_(analysis),
        policy_(policy),
        price_(analysis.graph),
        in_forward_(analysis.graph),
        in_(analysis.graph, kSource) {
    const auto values = a_.all_values();
    for (ValueId v : values)
      if (is_in_network(a_, v)) read(v);
    for (ValueId v : values | std::views::reverse)
      if (is_in_network(a_, v)) add(v);
    leave_out_what_nothing_reaches();
  }

  ValueNetwork take() { return std::move(network_); }

 private:
  static constexpr int kSource = 0, kSink = 1;

  bool cannot_be_saved(ValueId v) const { return price_[v] == kInfinite; }

  void read(ValueId v) {
    price_[v] = policy_.price(v);
    in_forward_[v] = starts_in_forward(a_, policy_, v) || needs_what_stays_in_forward(v);
  }

  bool needs_what_stays_in_forward(ValueId v) const {
    const EquationId e = a_.producer(v);
    return e.valid() && std::ranges::any_of(a_.graph.operands(e), [&](ValueId operand) {
             return in_forward_[operand] && cannot_be_saved(operand);
           });
  }

  /// The nodes of what is computed from `v` are there already.
  void add(ValueId v) {
    const int out = node_behind(v);
    const bool is_source = in_forward_[v] || out == kSource || price_[v] == 0;
    in_[v] = is_source ? kSource : cannot_be_saved(v) ? out : network_.flow.nodes++;
    if (in_[v] != out) edge(in_[v], out, price_[v], v);
    const int64_t cost = !is_source && a_.forward[v] ? policy_.cost(v) : 0;
    if (cost > 0) edge(kSource, in_[v], cost);
  }

  int node_behind(ValueId v) {
    ends_.clear();
    if (a_.gradient[v]) ends_.push_back(kSink);
    for_each_reader(a_, v, [&](ValueId reader) {
      const int end = a_.needs_tangent[reader] ? kSink : in_[reader];
      if (end != kSource) ends_.push_back(end);
    });
    if (ends_.empty()) return kSource;
    std::ranges::sort(ends_);
    ends_.erase(std::ranges::unique(ends_).begin(), ends_.end());
    if (ends_.front() == kSink || ends_.size() == 1) return ends_.front();
    const int node = network_.flow.nodes++;
    for (int end : ends_) edge(node, end, kInfinite);
    return node;
  }

  /// What can be computed from nothing, or from what backward has in any case. (An edge into a node
  /// comes later than those that leave it.)
  void leave_out_what_nothing_reaches() {
    ValueNetwork all = std::exchange(network_, {});
    network_.flow = {all.flow.nodes, kSource, kSink, {}};
    std::vector<bool> is_reached(static_cast<size_t>(all.flow.nodes));
    is_reached[kSource] = true;
    for (size_t i = all.flow.edges.size(); i-- > 0;) {
      const auto [from, to, capacity] = all.flow.edges[i];
      if (!is_reached[static_cast<size_t>(from)]) continue;
      is_reached[static_cast<size_t>(to)] = true;
      edge(from, to, capacity, all.saved[i]);
    }
  }

  void edge(int from, int to, int64_t capacity, ValueId saved = {}) {
    network_.flow.edges.push_back({from, to, capacity});
    network_.saved.push_back(saved);
  }

  const Analysis& a_;
  const Policy& policy_;
  ir::ValueMap<int64_t> price_;
  ir::ValueMap<bool> in_forward_;  // tied to the source
  ir::ValueMap<int> in_;           // the node
  std::vector<int> ends_;          // of what leaves the node that is being made
  ValueNetwork network_{{.nodes = 2, .source = kSource, .sink = kSink, .edges = {}}, {}};
};

std::string chain_to(ValueId last, const ir::ValueMap<ValueId>& previous, const Graph& graph) {
  std::string text = value_name(graph, last);
  for (ValueId v = last; previous[v] != v; v = previous[v])
    text = value_name(graph, previous[v]) + " -> " + text;
  return text;
}

}  // namespace

ValueNetwork make_network(const Analysis& analysis, const Policy& policy) {
  return NetworkBuilder(analysis, policy).take();
}

std::string impossible_chain(const Analysis& a, const Policy& policy) {
  ir::ValueMap<ValueId> previous(a.graph);  // on a shortest way; invalid: not reached
  Values reached;
  const auto reach = [&](ValueId v, ValueId from) {
    if (previous[v].valid()) return;
    previous[v] = from;
    reached.push_back(v);
  };
  for (ValueId v : a.all_values())
    if (is_in_network(a, v) && starts_in_forward(a, policy, v)) reach(v, v);
  for (size_t i = 0; i < reached.size(); ++i) {
    const ValueId v = reached[i];
    if (policy.price(v) != kInfinite) continue;
    bool is_needed = a.gradient[v];
    for_each_reader(a, v, [&](ValueId reader) {
      if (a.needs_tangent[reader])
        is_needed = true;
      else
        reach(reader, v);
    });
    if (is_needed) return chain_to(v, previous, a.graph);
  }
  return "";
}

std::vector<ValueId> CheapestSets::find() const { return required(find_if_any()); }

std::optional<Values> CheapestSets::find_if_any() const { return find(capacities_); }

Values CheapestSets::find_at(const Price& price) const {
  std::vector<int64_t> capacities = capacities_;
  for (size_t i = 0; i < capacities.size(); ++i)
    if (network_.saved[i].valid()) capacities[i] = price(network_.saved[i]);
  return required(find(capacities));
}

std::optional<Values> CheapestSets::find(std::span<const int64_t> capacities) const {
  const std::optional<Cut> cut = min_cut_.at(capacities);
  if (!cut) return std::nullopt;
  Values saved;
  for (size_t edge : cut->edges)
    if (network_.saved[edge].valid()) saved.push_back(network_.saved[edge]);
  return saved;
}

Values CheapestSets::required(std::optional<Values> saved) const {
  if (saved) return std::move(*saved);
  ir::fail(ir::Errc::Partition,
           fmt::format("partition: backward needs a value that can be neither saved nor "
                       "recomputed; expected one of either on every path, got {}",
                       impossible_chain(analysis_, policy_)));
}

Values cheapest_saved_set(const Analysis& analysis, const Policy& policy) {
  return CheapestSets(analysis, policy).find();
}

std::string value_name(const Graph& graph, ValueId v) {
  const int input = graph.input_index(v);
  if (input >= 0) return graph.inputs()[static_cast<size_t>(input)].name;
  return graph.hint(v).empty() ? "v" + std::to_string(v.index) : graph.hint(v);
}

}  // namespace tandem::partition
