// Boykov-Kolmogorov maximum flow, then a search backwards from the sink in the residual network.
// Its augmenting paths never carry more than a finite cut's value, so capacities cannot overflow.
// Before, all nodes that infinite edges tie to the source become one node, and so with the sink:
// most of a joint graph is either banned from recomputation or needs a tangent. Nodes that are
// always on the side of a neighbour, like a view that is not saved, or a saved value that one
// equation reads, become one with it. That, and the graph for Boost, hold for all finite
// capacities.
#include "partition/min_cut.h"

#include <algorithm>
#include <numeric>

// GCC 12 takes the iterators inside Boost's optional for uninitialised.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/range/iterator_range.hpp>

#include "ir/error.h"

namespace tandem::partition {
namespace {

size_t index(int node) { return static_cast<size_t>(node); }

/// The infinite edges that leave each node, or that enter it.
class InfiniteEdges {
 public:
  enum Direction : uint8_t { Leaving, Entering };

  InfiniteEdges(const FlowNetwork& network, Direction direction)
      : first_(index(network.nodes) + 1) {
    const auto near = [&](const FlowEdge& e) {
      return index(direction == Leaving ? e.from : e.to);
    };
    for (const FlowEdge& e : network.edges)
      if (e.capacity == kInfinite) ++first_[near(e) + 1];
    for (size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    far_.resize(first_.back());
    std::vector<size_t> next = first_;
    for (const FlowEdge& e : network.edges)
      if (e.capacity == kInfinite) far_[next[near(e)]++] = direction == Leaving ? e.to : e.from;
  }

  /// By node: the one before it on a path of infinite edges from `start`; -1: there is none.
  std::vector<int> paths_from(int start) const {
    std::vector<int> previous(first_.size() - 1, -1), queue = {start};
    previous[index(start)] = start;
    for (size_t i = 0; i < queue.size(); ++i)
      for (size_t k = first_[index(queue[i])]; k < first_[index(queue[i]) + 1]; ++k) {
        if (previous[index(far_[k])] >= 0) continue;
        previous[index(far_[k])] = queue[i];
        queue.push_back(far_[k]);
      }
    return previous;
  }

 private:
  std::vector<size_t> first_;
  std::vector<int> far_;
};

/// By node: where the only edge into it comes from, if that edge is infinite and so are all that
/// leave the node; negative: there is none. On its leader's side such a node adds nothing to a cut.
std::vector<int> leaders(const FlowNetwork& network) {
  constexpr int kNone = -1, kUnknown = -2;
  std::vector<int> leader(index(network.nodes), kUnknown);
  for (const FlowEdge& e : network.edges) {
    int& of = leader[index(e.to)];
    of = of == kUnknown && e.capacity == kInfinite ? e.from : kNone;
  }
  for (const FlowEdge& e : network.edges)
    if (e.capacity != kInfinite) leader[index(e.from)] = kNone;
  return leader;
}

/// Disjoint sets of nodes.
class Sets {
 public:
  explicit Sets(int nodes) : parent_(index(nodes)) { std::iota(parent_.begin(), parent_.end(), 0); }

  int find(int node) {
    while (parent_[index(node)] != node)
      node = parent_[index(node)] = parent_[index(parent_[index(node)])];
    return node;
  }
  void unite(int a, int b) { parent_[index(find(a))] = find(b); }

 private:
  std::vector<int> parent_;
};

/// The network with one node for the source and all that is tied to it, and one for the sink.
struct Merged {
  explicit Merged(const FlowNetwork& network) : node(index(network.nodes)) {
    const auto from_source =
        InfiniteEdges(network, InfiniteEdges::Leaving).paths_from(network.source);
    const auto to_sink = InfiniteEdges(network, InfiniteEdges::Entering).paths_from(network.sink);
    has_finite_cut = from_source[index(network.sink)] < 0;
    if (!has_finite_cut) return;
    const std::vector<int> leader = leaders(network);
    for (size_t i = 0; i < node.size(); ++i)
      node[i] = from_source[i] >= 0     ? kSource
                : to_sink[i] >= 0       ? kSink
                : follows(leader[i], i) ? node[index(leader[i])]
                                        : nodes++;
    merge_with_followers(network.edges);
    out_of_source_.assign(index(nodes), kInNoCut);
    into_sink_.assign(index(nodes), kInNoCut);
    for (size_t i = 0; i < network.edges.size(); ++i)
      if (const int of = merged(network.edges[i]); of != kInNoCut) parts.push_back({i, of});
  }

  struct Edge {
    int from, to;
  };
  /// An edge of the network that is in cuts: a part of one of `edges`, or kInEveryCut.
  struct Part {
    size_t edge;
    int of;
  };

  static constexpr int kSource = 0, kSink = 1;
  static constexpr int kInNoCut = -1;     // enters the source, leaves the sink, or is inside a node
  static constexpr int kInEveryCut = -2;  // from source to sink
  bool has_finite_cut = true;
  int nodes = 2;
  std::vector<int> node;    // what each node of the network became
  std::vector<Edge> edges;  // no two of them from the source, or into the sink, are parallel
  std::vector<Part> parts;

 private:
  /// Leaders that come later have no node yet.
  static bool follows(int leader, size_t i) { return leader >= 0 && index(leader) < i; }

  /// Where the only edge out of a node is infinite, the node can only add to a cut on the sink's
  /// side if the edge's end is not there. One that nothing leaves is never needed on that side.
  void merge_with_followers(std::span<const FlowEdge> network) {
    constexpr int kNone = -1;
    std::vector<int> follower(index(nodes), kSource);
    for (const FlowEdge& e : network) {
      const int from = node[index(e.from)], to = node[index(e.to)];
      if (is_in_no_cut(from, to)) continue;
      int& of = follower[index(from)];
      of = e.capacity == kInfinite && (of == kSource || of == to) ? to : kNone;
    }
    Sets sets(nodes);
    for (int i = kSink + 1; i < nodes; ++i)
      if (follower[index(i)] != kNone) sets.unite(i, follower[index(i)]);
    std::vector<int> number(index(nodes), kNone);  // by the one that stands for a set
    number[index(sets.find(kSource))] = kSource;
    number[index(sets.find(kSink))] = kSink;
    nodes = 2;
    for (int& i : node) {
      int& known = number[index(sets.find(i))];
      i = known != kNone ? known : known = nodes++;
    }
  }

  static bool is_in_no_cut(int from, int to) {
    return from == to || from == kSink || to == kSource;
  }

  int merged(const FlowEdge& e) {
    const int from = node[index(e.from)], to = node[index(e.to)];
    if (is_in_no_cut(from, to)) return kInNoCut;
    if (from == kSource && to == kSink) return kInEveryCut;
    if (from == kSource) return only(out_of_source_[index(to)], from, to);
    if (to == kSink) return only(into_sink_[index(from)], from, to);
    return add(from, to);
  }

  int only(int& known, int from, int to) {
    if (known == kInNoCut) known = add(from, to);
    return known;
  }

  int add(int from, int to) {
    edges.push_back({from, to});
    return static_cast<int>(edges.size()) - 1;
  }

  std::vector<int> out_of_source_, into_sink_;  // by node: the edge
};

/// What the edges of the merged network can carry.
struct Capacities {
  Capacities(const Merged& merged, std::span<const int64_t> given) : of_edge(merged.edges.size()) {
    int64_t infinity = 1;  // no minimum cut can pay it
    for (const auto& [edge, of] : merged.parts)
      TANDEM_CHECK(
          given[edge] == kInfinite || !__builtin_add_overflow(infinity, given[edge], &infinity),
          "capacities overflow");
    for (const auto& [edge, of] : merged.parts)
      (of == Merged::kInEveryCut ? in_every_cut : of_edge[index(of)]) +=
          std::min(given[edge], infinity);
  }

  std::vector<int64_t> of_edge;
  int64_t in_every_cut = 0;
};

using Graph = boost::compressed_sparse_row_graph<boost::directedS>;
using Edge = Graph::edge_descriptor;
using Vertex = Graph::vertex_descriptor;

/// The merged network with a reverse of each edge; what belongs to edges stands in arrays beside.
class Flows {
 public:
  explicit Flows(const Merged& merged) : position_(merged.edges.size()) {
    std::vector<size_t> next(index(merged.nodes) + 1);
    for (const Merged::Edge& e : merged.edges) {
      ++next[index(e.from) + 1];
      ++next[index(e.to) + 1];
    }
    for (size_t v = 1; v < next.size(); ++v) next[v] += next[v - 1];
    std::vector<std::pair<size_t, size_t>> ends(2 * merged.edges.size());
    std::vector<size_t> reverse(ends.size());
    for (size_t i = 0; i < merged.edges.size(); ++i) {
      const size_t from = index(merged.edges[i].from), to = index(merged.edges[i].to);
      const size_t there = position_[i] = next[from]++, back = next[to]++;
      ends[there] = {from, to};
      ends[back] = {to, from};
      reverse[there] = back;
      reverse[back] = there;
    }
    graph_ = Graph(boost::edges_are_sorted, ends.begin(), ends.end(), index(merged.nodes));
    std::vector<Edge> edges(ends.size());
    for (const Edge& e : boost::make_iterator_range(boost::edges(graph_))) edges[at(e)] = e;
    for (size_t there : reverse) reverse_.push_back(edges[there]);
  }

  struct Maximum {
    int64_t value;
    std::vector<bool> reaches_sink;  // by node: whether it still can
  };

  Maximum maximum(std::span<const int64_t> capacities) const {
    std::vector<int64_t> residual(reverse_.size());
    for (size_t i = 0; i < capacities.size(); ++i) residual[position_[i]] = capacities[i];
    const int64_t value = use_up(residual);
    return {value, nodes_that_reach_sink(residual)};
  }

 private:
  size_t at(const Edge& e) const { return get(boost::edge_index, graph_, e); }

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
    return boost::boykov_kolmogorov_max_flow(graph_, of_edge(residual), of_edge(residual),
                                             of_edge(reverse_), of_vertex(parent), of_vertex(color),
                                             of_vertex(distance), get(boost::vertex_index, graph_),
                                             Vertex{Merged::kSource}, Vertex{Merged::kSink});
  }

  std::vector<bool> nodes_that_reach_sink(const std::vector<int64_t>& residual) const {
    std::vector<bool> reaches(num_vertices(graph_));
    std::vector<Vertex> stack = {Merged::kSink};
    reaches[Merged::kSink] = true;
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

  Graph graph_;
  std::vector<size_t> position_;  // of the merged network's edges among the graph's
  std::vector<Edge> reverse_;
};

}  // namespace

struct MinCut::Solver {
  explicit Solver(const FlowNetwork& network) : merged(network), flows(merged) {}

  Merged merged;
  Flows flows;
};

MinCut::MinCut(const FlowNetwork& network) : solver_(std::make_unique<Solver>(network)) {}
MinCut::MinCut(MinCut&&) noexcept = default;
MinCut::~MinCut() = default;

std::optional<Cut> MinCut::at(std::span<const int64_t> given) const {
  const Merged& merged = solver_->merged;
  if (!merged.has_finite_cut) return std::nullopt;
  const Capacities capacities(merged, given);
  const Flows::Maximum maximum = solver_->flows.maximum(capacities.of_edge);
  const std::vector<bool>& on_sink_side = maximum.reaches_sink;
  Cut cut{{}, capacities.in_every_cut + maximum.value};
  const auto is_cut = [&](const Merged::Edge& e) {
    return !on_sink_side[index(e.from)] && on_sink_side[index(e.to)];
  };
  for (const auto& [edge, of] : merged.parts)
    if (of == Merged::kInEveryCut || is_cut(merged.edges[index(of)])) cut.edges.push_back(edge);
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

std::vector<int> infinite_path(const FlowNetwork& network) {
  const auto previous = InfiniteEdges(network, InfiniteEdges::Leaving).paths_from(network.source);
  if (previous[index(network.sink)] < 0) return {};
  std::vector<int> path = {network.sink};
  while (path.back() != network.source) path.push_back(previous[index(path.back())]);
  std::ranges::reverse(path);
  return path;
}

}  // namespace tandem::partition
