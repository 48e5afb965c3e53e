// Boykov-Kolmogorov maximum flow, then a search backwards from the sink in the residual network.
// Its augmenting paths never carry more than a finite cut's value, so capacities cannot overflow.
// Boost's graph depends on the network's shape alone: it is made once for all capacities.
#include "partition/flow/min_cut.h"

#include <algorithm>

// GCC 12 takes the iterators inside Boost's optional for uninitialised.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/range/iterator_range.hpp>

#include "ir/base/error.h"

namespace tandem::partition {
namespace {

using Graph = boost::compressed_sparse_row_graph<boost::directedS>;
using Edge = Graph::edge_descriptor;
using Vertex = Graph::vertex_descriptor;

size_t index(int node) { return static_cast<size_t>(node); }

/// The edges that cuts can contain. Boost wants no two parallel ones from the source or into the
/// sink; the network's share one.
class Arcs {
 public:
  explicit Arcs(const FlowNetwork& network)
      : from_source_(index(network.nodes), kInNoCut), into_sink_(index(network.nodes), kInNoCut) {
    of_edge.reserve(network.edges.size());
    for (const FlowEdge& e : network.edges) of_edge.push_back(arc_of(network, e));
  }

  struct Arc {
    size_t from, to;
  };
  static constexpr int kInNoCut = -1;  // enters the source, leaves the sink, or is a loop
  std::vector<Arc> arcs;
  std::vector<int> of_edge;  // by edge of the network

 private:
  int arc_of(const FlowNetwork& network, const FlowEdge& e) {
    if (e.from == e.to || e.from == network.sink || e.to == network.source) return kInNoCut;
    if (e.from == network.source) return only(from_source_[index(e.to)], e);
    if (e.to == network.sink) return only(into_sink_[index(e.from)], e);
    return add(e);
  }
  int only(int& known, const FlowEdge& e) { return known == kInNoCut ? known = add(e) : known; }
  int add(const FlowEdge& e) {
    arcs.push_back({index(e.from), index(e.to)});
    return static_cast<int>(arcs.size()) - 1;
  }

  std::vector<int> from_source_, into_sink_;  // by the node at the other end
};

/// The arcs and a reverse of each as a graph; what belongs to its edges stands in arrays beside.
class Flows {
 public:
  Flows(const FlowNetwork& network, std::span<const Arcs::Arc> arcs)
      : source_(index(network.source)), sink_(index(network.sink)), position_(arcs.size()) {
    std::vector<size_t> next(index(network.nodes) + 1);
    for (const auto [from, to] : arcs) {
      ++next[from + 1];
      ++next[to + 1];
    }
    for (size_t v = 1; v < next.size(); ++v) next[v] += next[v - 1];
    std::vector<std::pair<size_t, size_t>> ends(2 * arcs.size());
    std::vector<size_t> reverse(ends.size());
    for (size_t i = 0; i < arcs.size(); ++i) {
      const auto [from, to] = arcs[i];
      const size_t there = position_[i] = next[from]++, back = next[to]++;
      ends[there] = {from, to};
      ends[back] = {to, from};
      reverse[there] = back;
      reverse[back] = there;
    }
    graph_ = Graph(boost::edges_are_sorted, ends.begin(), ends.end(), index(network.nodes));
    std::vector<Edge> edges(ends.size());
    for (const Edge& e : boost::make_iterator_range(boost::edges(graph_))) edges[at(e)] = e;
    reverse_.reserve(ends.size());
    for (size_t there : reverse) reverse_.push_back(edges[there]);
  }

  struct Maximum {
    int64_t value;
    std::vector<bool> reaches_sink;  // by node: whether it still can
  };

  /// `capacities`: by arc.
  Maximum maximum(std::span<const int64_t> capacities) const {
    std::vector<int64_t> residual = residual_of(capacities);
    const int64_t value = use_up(residual);
    return {value, nodes_that_reach_sink(residual)};
  }

  bool can_carry_any(std::span<const int64_t> capacities) const {
    return nodes_that_reach_sink(residual_of(capacities))[source_];
  }

 private:
  size_t at(const Edge& e) const { return get(boost::edge_index, graph_, e); }

  std::vector<int64_t> residual_of(std::span<const int64_t> capacities) const {
    std::vector<int64_t> residual(reverse_.size());
    for (size_t i = 0; i < capacities.size(); ++i) residual[position_[i]] = capacities[i];
    return residual;
  }

  /// Sends through the capacities in `residual` what they can carry, and leaves what is unused.
  int64_t use_up(std::vector<int64_t>& residual) const {
    std::vector<Edge> parent(num_vertices(graph_));
    std::vector<boost::default_color_type> color(parent.size());
    std::vector<int64_t> distance(parent.size());
    const auto of_edge = [&](auto& values) {
      return boost::make_iterator_property_map(values.begin(), get(boost::edge_index, graph_));
    };
    const auto of_vertex = [&](auto& values) {
      return boost::make_iterator_property_map(values.begin(), get(boost::vertex_index, graph_));
    };
    return boost::boykov_kolmogorov_max_flow(
        graph_, of_edge(residual), of_edge(residual), of_edge(reverse_), of_vertex(parent),
        of_vertex(color), of_vertex(distance), get(boost::vertex_index, graph_), source_, sink_);
  }

  std::vector<bool> nodes_that_reach_sink(const std::vector<int64_t>& residual) const {
    std::vector<bool> reaches(num_vertices(graph_));
    std::vector<Vertex> stack = {sink_};
    reaches[sink_] = true;
    while (!stack.empty()) {
      const Vertex v = stack.back();
      stack.pop_back();
      for (const Edge& e : boost::make_iterator_range(out_edges(v, graph_))) {
        const Vertex u = target(e, graph_);
        if (reaches[u] || residual[at(reverse_[at(e)])] == 0) continue;
        reaches[u] = true;
        stack.push_back(u);
      }
    }
    return reaches;
  }

  Vertex source_, sink_;
  Graph graph_;
  std::vector<size_t> position_;  // of the arcs among the graph's edges
  std::vector<Edge> reverse_;
};

}  // namespace

struct MinCut::Solver {
  explicit Solver(const FlowNetwork& network) : arcs(network), flows(network, arcs.arcs) {
    std::vector<int64_t> infinite(arcs.arcs.size());
    for (size_t i = 0; i < network.edges.size(); ++i)
      if (const int arc = arcs.of_edge[i]; arc != Arcs::kInNoCut)
        infinite[index(arc)] |= network.edges[i].capacity == kInfinite;
    has_finite_cut = !flows.can_carry_any(infinite);
  }

  /// By arc, with what no minimum cut can pay in place of kInfinite.
  std::vector<int64_t> capacities_of_arcs(std::span<const int64_t> given) const {
    int64_t infinity = 1;
    for (size_t i = 0; i < given.size(); ++i)
      TANDEM_CHECK(arcs.of_edge[i] == Arcs::kInNoCut || given[i] == kInfinite ||
                       !__builtin_add_overflow(infinity, given[i], &infinity),
                   "capacities overflow");
    std::vector<int64_t> capacities(arcs.arcs.size());
    for (size_t i = 0; i < given.size(); ++i) {
      if (arcs.of_edge[i] == Arcs::kInNoCut) continue;
      int64_t& capacity = capacities[index(arcs.of_edge[i])];
      const bool is_infinite = given[i] == kInfinite || capacity == infinity;
      capacity = is_infinite ? infinity : capacity + given[i];
    }
    return capacities;
  }

  Arcs arcs;
  Flows flows;
  bool has_finite_cut = true;
};

MinCut::MinCut(const FlowNetwork& network) : solver_(std::make_unique<Solver>(network)) {}
MinCut::MinCut(MinCut&&) noexcept = default;
MinCut::~MinCut() = default;

std::optional<Cut> MinCut::at(std::span<const int64_t> given) const {
  if (!solver_->has_finite_cut) return std::nullopt;
  const Arcs& arcs = solver_->arcs;
  const auto [value, on_sink_side] = solver_->flows.maximum(solver_->capacities_of_arcs(given));
  Cut cut{{}, value};
  for (size_t i = 0; i < given.size(); ++i) {
    if (arcs.of_edge[i] == Arcs::kInNoCut) continue;
    const auto [from, to] = arcs.arcs[index(arcs.of_edge[i])];
    if (!on_sink_side[from] && on_sink_side[to]) cut.edges.push_back(i);
  }
  return cut;
}

std::vector<int64_t> capacities_of(const FlowNetwork& network) {
  std::vector<int64_t> capacities;
  capacities.reserve(network.edges.size());
  for (const FlowEdge& e : network.edges) capacities.push_back(e.capacity);
  return capacities;
}

std::optional<Cut> min_cut(const FlowNetwork& network) {
  return MinCut(network).at(capacities_of(network));
}

}  // namespace tandem::partition
