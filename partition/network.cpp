#include "partition/network.h"

#include <fmt/format.h>

#include "ir/error.h"

namespace tandem::partition {

using ir::EquationId;
using ir::Graph;
using ir::ValueId;
using Values = std::vector<ValueId>;

namespace {

class NetworkBuilder {
 public:
  NetworkBuilder(const Analysis& analysis, const Policy& policy)
      : analysis_(analysis), policy_(policy), in_(analysis.graph, -1) {
    for (ValueId v : analysis.all_values())
      if (analysis.backward[v] && !analysis.needs_tangent[v]) {
        in_[v] = 2 * static_cast<int>(network_.values.size());
        network_.values.push_back(v);
      }
    flow_.source = 2 * static_cast<int>(network_.values.size());
    flow_.sink = flow_.source + 1;
    flow_.nodes = flow_.source + 2;
    for (ValueId v : network_.values) edge(in_[v], out(v), policy.price(v));
    for (ValueId v : network_.values) connect(v);
  }

  ValueNetwork take() { return std::move(network_); }

 private:
  int out(ValueId v) const { return in_[v] + 1; }
  void edge(int from, int to, int64_t capacity) { flow_.edges.push_back({from, to, capacity}); }

  bool starts_in_forward(ValueId v) const {
    return analysis_.is_primal(v) || (analysis_.forward[v] && policy_.ban(v));
  }

  void connect(ValueId v) {
    if (starts_in_forward(v))
      edge(flow_.source, in_[v], kInfinite);
    else if (const int64_t cost = analysis_.forward[v] ? policy_.cost(v) : 0; cost > 0)
      edge(flow_.source, in_[v], cost);
    bool is_needed = analysis_.gradient[v];
    for (EquationId user : analysis_.users[v])
      for (ValueId result : analysis_.graph.results(user)) {
        if (!analysis_.backward[result]) continue;
        is_needed |= analysis_.needs_tangent[result];
        if (in_[result] >= 0) edge(out(v), in_[result], kInfinite);
      }
    if (is_needed) edge(out(v), flow_.sink, kInfinite);
  }

  const Analysis& analysis_;
  const Policy& policy_;
  ir::ValueMap<int> in_;  // of a value's nodes; -1: it has none
  ValueNetwork network_;
  FlowNetwork& flow_ = network_.flow;
};

/// The values along a path of infinite edges, each once.
std::string infinite_chain(const Analysis& analysis, const ValueNetwork& network) {
  std::string text;
  ValueId last;
  for (int node : infinite_path(network.flow)) {
    if (node >= network.flow.source) continue;
    const ValueId v = network.values[static_cast<size_t>(node / 2)];
    if (v != last) text += (text.empty() ? "" : " -> ") + value_name(analysis.graph, v);
    last = v;
  }
  return text;
}

}  // namespace

ValueNetwork make_network(const Analysis& analysis, const Policy& policy) {
  return NetworkBuilder(analysis, policy).take();
}

Values CheapestSets::find() const { return required(find_if_any()); }

std::optional<Values> CheapestSets::find_if_any() const { return find(capacities_); }

Values CheapestSets::find_at(const Price& price) const {
  std::vector<int64_t> capacities = capacities_;
  for (size_t i = 0; i < network_.values.size(); ++i)
    if (capacities[i] != kInfinite) capacities[i] = price(network_.values[i]);
  return required(find(capacities));
}

std::optional<Values> CheapestSets::find(std::span<const int64_t> capacities) const {
  const std::optional<Cut> cut = min_cut_.at(capacities);
  if (!cut) return std::nullopt;
  Values saved;
  for (size_t edge : cut->edges)
    if (edge < network_.values.size()) saved.push_back(network_.values[edge]);
  return saved;
}

Values CheapestSets::required(std::optional<Values> saved) const {
  if (saved) return std::move(*saved);
  ir::fail(ir::Errc::Partition,
           fmt::format("partition: backward needs a value that can be neither saved nor "
                       "recomputed; expected one of either on every path, got {}",
                       infinite_chain(analysis_, network_)));
}

Values cheapest_saved_set(const Analysis& analysis, const Policy& policy) {
  return CheapestSets(analysis, policy).find();
}

std::string impossible_chain(const Analysis& analysis, const Policy& policy) {
  return infinite_chain(analysis, make_network(analysis, policy));
}

std::string value_name(const Graph& graph, ValueId v) {
  const int input = graph.input_index(v);
  if (input >= 0) return graph.inputs()[static_cast<size_t>(input)].name;
  return graph.hint(v).empty() ? "v" + std::to_string(v.index) : graph.hint(v);
}

}  // namespace tandem::partition
