#include "partition/network.h"

#include <fmt/format.h>

#include "ir/error.h"
#include "partition/min_cut.h"

namespace tandem::partition {

using ir::EquationId;
using ir::Graph;
using ir::ValueId;

namespace {

class NetworkBuilder {
 public:
  NetworkBuilder(const Analysis& analysis, const Policy& policy)
      : analysis_(analysis), policy_(policy), node_(analysis.graph, -1) {
    for (ValueId v : analysis.all_values())
      if (analysis.backward[v]) {
        node_[v] = 2 * static_cast<int>(values_.size());
        values_.push_back(v);
      }
    network_.source = 2 * static_cast<int>(values_.size());
    network_.sink = network_.source + 1;
    network_.nodes = network_.source + 2;
    for (ValueId v : values_) add(v);
  }

  const FlowNetwork& network() const { return network_; }

  std::vector<ValueId> saved(const Cut& cut) const {
    std::vector<ValueId> out;
    for (ValueId v : values_)
      if (!cut.sink_side[index(in(v))] && cut.sink_side[index(this->out(v))]) out.push_back(v);
    return out;
  }

  /// The values along a path of nodes, each once.
  std::string chain(std::span<const int> path) const {
    std::string text;
    ValueId last;
    for (int node : path) {
      if (node >= network_.source) continue;
      const ValueId v = values_[index(node / 2)];
      if (v != last) text += (text.empty() ? "" : " -> ") + value_name(analysis_.graph, v);
      last = v;
    }
    return text;
  }

 private:
  static size_t index(int node) { return static_cast<size_t>(node); }
  int in(ValueId v) const { return node_[v]; }
  int out(ValueId v) const { return node_[v] + 1; }
  void edge(int from, int to, int64_t capacity) { network_.edges.push_back({from, to, capacity}); }

  bool starts_in_forward(ValueId v) const {
    return analysis_.is_primal(v) || (analysis_.forward[v] && policy_.ban(v));
  }

  void add(ValueId v) {
    if (analysis_.needs_tangent[v]) return edge(in(v), network_.sink, kInfinite);
    if (analysis_.gradient[v]) edge(out(v), network_.sink, kInfinite);
    if (starts_in_forward(v))
      edge(network_.source, in(v), kInfinite);
    else if (const int64_t cost = analysis_.forward[v] ? policy_.cost(v) : 0; cost > 0)
      edge(network_.source, in(v), cost);
    edge(in(v), out(v), policy_.price(v));
    for (EquationId user : analysis_.users[v])
      for (ValueId result : analysis_.graph.results(user))
        if (analysis_.backward[result]) edge(out(v), in(result), kInfinite);
  }

  const Analysis& analysis_;
  const Policy& policy_;
  ir::ValueMap<int> node_;  // of a value's in; its out is the next
  std::vector<ValueId> values_;
  FlowNetwork network_;
};

}  // namespace

std::vector<ValueId> cheapest_saved_set(const Analysis& analysis, const Policy& policy) {
  const NetworkBuilder builder(analysis, policy);
  if (const auto cut = min_cut(builder.network())) return builder.saved(*cut);
  ir::fail(ir::Errc::Partition,
           fmt::format("partition: backward needs a value that can be neither saved nor "
                       "recomputed; expected one of either on every path, got {}",
                       impossible_chain(analysis, policy)));
}

std::optional<std::vector<ValueId>> cheapest_saved_set_if_any(const Analysis& analysis,
                                                              const Policy& policy) {
  const NetworkBuilder builder(analysis, policy);
  const auto cut = min_cut(builder.network());
  if (!cut) return std::nullopt;
  return builder.saved(*cut);
}

std::string impossible_chain(const Analysis& analysis, const Policy& policy) {
  const NetworkBuilder builder(analysis, policy);
  return builder.chain(infinite_path(builder.network()));
}

std::string value_name(const Graph& graph, ValueId v) {
  const int input = graph.input_index(v);
  if (input >= 0) return graph.inputs()[static_cast<size_t>(input)].name;
  return graph.hint(v).empty() ? fmt::format("v{}", v.index) : graph.hint(v);
}

}  // namespace tandem::partition
