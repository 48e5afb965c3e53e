#include "partition/flow/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "ir/base/error.h"

namespace tandem::partition {

using ir::EquationId;
using ir::Graph;
using ir::ValueId;
using Values = std::vector<ValueId>;

namespace {

/// Backward needs `v`, and could be given it.
bool is_in_network(const Analysis& a, ValueId v) { return a.backward[v] && !a.needs_tangent[v]; }

bool starts_in_forward(const Analysis& a, const Policy& policy, ValueId v) {
  return a.is_primal(v) || (a.forward[v] && policy.ban(v));
}

/// A node that infinite edges tie to the source or the sink is that, and one that only leads to
/// another along them is that other: both lie on one side of every cut that is searched for. So
/// does a value that costs nothing to save: forward has it.
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
      if (a_.backward[v]) in_[v] = a_.needs_tangent[v] ? kSink : add(v);
    take_reached();
  }

  ValueNetwork take() { return std::move(network_); }

 private:
  static constexpr int kSource = 0, kSink = 1;

  bool cannot_be_saved(ValueId v) const { return price_[v] == kInfinite; }

  void read(ValueId v) {
    price_[v] = policy_.price(v);
    in_forward_[v] =
        price_[v] == 0 || starts_in_forward(a_, policy_, v) || needs_what_stays_in_forward(v);
  }

  bool needs_what_stays_in_forward(ValueId v) const {
    const EquationId e = a_.producer(v);
    return e.valid() && std::ranges::any_of(a_.graph.operands(e), [&](ValueId operand) {
             return in_forward_[operand] && cannot_be_saved(operand);
           });
  }

  /// Adds the nodes of `v`, after those of what is computed from it. Returns the one it enters by.
  int add(ValueId v) {
    const int out = node_behind(v);
    if (out == kSource) return kSource;
    const int in = in_forward_[v] ? kSource : cannot_be_saved(v) ? out : new_node();
    if (in != out) edge({in, out, price_[v]}, v);
    const int64_t cost = a_.forward[v] && in != kSource ? policy_.cost(v) : 0;
    if (cost > 0) edge({kSource, in, cost});
    return in;
  }

  int node_behind(ValueId v) {
    if (a_.gradient[v]) return kSink;
    ends_.clear();
    for (EquationId user : a_.users[v])
      for (ValueId result : a_.graph.results(user)) {
        if (in_[result] == kSink) return kSink;
        if (in_[result] != kSource) ends_.push_back(in_[result]);
      }
    if (ends_.empty()) return kSource;
    std::ranges::sort(ends_);
    ends_.erase(std::ranges::unique(ends_).begin(), ends_.end());
    if (ends_.size() == 1) return ends_.front();
    const int node = new_node();
    for (int end : ends_) edge({node, end, kInfinite});
    return node;
  }

  /// Hands over the edges that flow can reach. Those that enter a node come after those that leave
  /// it.
  void take_reached() {
    std::vector<bool> is_reached(static_cast<size_t>(network_.flow.nodes));
    is_reached[kSource] = true;
    for (const auto& [edge, saved] : edges_ | std::views::reverse) {
      if (!is_reached[static_cast<size_t>(edge.from)]) continue;
      is_reached[static_cast<size_t>(edge.to)] = true;
      network_.flow.edges.push_back(edge);
      network_.saved.push_back(saved);
    }
  }

  int new_node() { return network_.flow.nodes++; }
  void edge(const FlowEdge& edge, ValueId saved = {}) { edges_.emplace_back(edge, saved); }

  const Analysis& a_;
  const Policy& policy_;
  ir::ValueMap<int64_t> price_;
  ir::ValueMap<bool> in_forward_;  // tied to the source
  ir::ValueMap<int> in_;           // the node
  std::vector<int> ends_;          // of what leaves the node that is being made
  std::vector<std::pair<FlowEdge, ValueId>> edges_;
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
    for (EquationId user : a.users[v])
      for (ValueId result : a.graph.results(user)) {
        is_needed |= a.backward[result] && a.needs_tangent[result];
        if (is_in_network(a, result)) reach(result, v);
      }
    if (is_needed) return chain_to(v, previous, a.graph);
  }
  return "";
}

CheapestSet CheapestSets::find() const { return required(find_if_any()); }

std::optional<CheapestSet> CheapestSets::find_if_any() const { return find(capacities_); }

CheapestSet CheapestSets::find_at(const Price& price) const {
  std::vector<int64_t> capacities = capacities_;
  for (size_t i = 0; i < capacities.size(); ++i)
    if (network_.saved[i].valid()) capacities[i] = price(network_.saved[i]);
  return required(find(capacities));
}

std::optional<CheapestSet> CheapestSets::find(std::span<const int64_t> capacities) const {
  const std::optional<Cut> cut = min_cut_.at(capacities);
  if (!cut) return std::nullopt;
  CheapestSet saved{{}, cut->value};
  for (size_t edge : cut->edges)
    if (network_.saved[edge].valid()) saved.values.push_back(network_.saved[edge]);
  return saved;
}

CheapestSet CheapestSets::required(std::optional<CheapestSet> saved) const {
  if (saved) return std::move(*saved);
  ir::fail(ir::Errc::Partition,
           fmt::format("partition: backward needs a value that can be neither saved nor "
                       "recomputed; expected one of either on every path, got {}",
                       impossible_chain(analysis_, policy_)));
}

Values cheapest_saved_set(const Analysis& analysis, const Policy& policy) {
  return CheapestSets(analysis, policy).find().values;
}

std::string value_name(const Graph& graph, ValueId v) {
  const int input = graph.input_index(v);
  if (input >= 0) return graph.inputs()[static_cast<size_t>(input)].name;
  return graph.hint(v).empty() ? "v" + std::to_string(v.index) : graph.hint(v);
}

}  // namespace tandem::partition
