// Boykov-Kolmogorov maximum flow, then a search backwards from the sink in the residual network.
// Its augmenting paths never carry more than a finite cut's value, so capacities cannot overflow.
// Before, all nodes that infinite edges tie to the source become one node, and so with the sink:
// most of a joint graph is either banned from recomputation or needs a tangent.
#include "partition/min_cut.h"

#include <algorithm>

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

/// The network with one node for the source and all that is tied to it, and one for the sink.
struct Merged {
  explicit Merged(const FlowNetwork& network) : node(index(network.nodes)) {
    const auto from_source =
        InfiniteEdges(network, InfiniteEdges::Leaving).paths_from(network.source);
    const auto to_sink = InfiniteEdges(network, InfiniteEdges::Entering).paths_from(network.sink);
    has_finite_cut = from_source[index(network.sink)] < 0;
    if (!has_finite_cut) return;
    for (size_t i = 0; i < node.size(); ++i)
      node[i] = from_source[i] >= 0 ? kSource : to_sink[i] >= 0 ? kSink : nodes++;
    into_sink_.assign(index(nodes), 0);
    out_of_source_.assign(index(nodes), 0);
    for (const FlowEdge& e : network.edges) {
      infinity = added(infinity, e.capacity == kInfinite ? 0 : e.capacity);
      add(node[index(e.from)], node[index(e.to)], e.capacity);
    }
    for (int v = 2; v < nodes; ++v) {
      if (out_of_source_[index(v)] > 0) edges.push_back({kSource, v, out_of_source_[index(v)]});
      if (into_sink_[index(v)] > 0) edges.push_back({v, kSink, into_sink_[index(v)]});
    }
  }

  static constexpr int kSource = 0, kSink = 1;
  bool has_finite_cut = true;
  int nodes = 2;
  std::vector<int> node;  // what each node of the network became
  std::vector<FlowEdge> edges;
  int64_t direct = 0;    // capacity from source to sink: in every cut
  int64_t infinity = 1;  // no minimum cut can pay it

 private:
  static int64_t added(int64_t a, int64_t b) {
    TANDEM_CHECK(!__builtin_add_overflow(a, b, &a), "capacities overflow");
    return a;
  }

  // What enters the source or leaves the sink is in no minimum cut.
  void add(int from, int to, int64_t capacity) {
    if (from == to || from == kSink || to == kSource || capacity == 0) return;
    if (from == kSource && to == kSink)
      direct += capacity;
    else if (from == kSource)
      out_of_source_[index(to)] += capacity;
    else if (to == kSink)
      into_sink_[index(from)] += capacity;
    else
      edges.push_back({from, to, capacity});
  }

  std::vector<int64_t> out_of_source_, into_sink_;
};

using Graph = boost::compressed_sparse_row_graph<boost::directedS>;
using Edge = Graph::edge_descriptor;
using Vertex = Graph::vertex_descriptor;

/// The merged network with a reverse of each edge; what belongs to edges stands in arrays beside.
class Flow {
 public:
  explicit Flow(const Merged& merged)
      : capacity_(2 * merged.edges.size()),
        residual_(capacity_.size()),
        reverse_(capacity_.size()) {
    std::vector<size_t> next(index(merged.nodes) + 1);
    for (const FlowEdge& e : merged.edges) {
      ++next[index(e.from) + 1];
      ++next[index(e.to) + 1];
    }
    for (size_t v = 1; v < next.size(); ++v) next[v] += next[v - 1];
    std::vector<std::pair<size_t, size_t>> ends(capacity_.size());
    std::vector<size_t> reverse(capacity_.size());
    for (const FlowEdge& e : merged.edges) {
      const size_t there = next[index(e.from)]++, back = next[index(e.to)]++;
      ends[there] = {index(e.from), index(e.to)};
      ends[back] = {index(e.to), index(e.from)};
      capacity_[there] = std::min(e.capacity, merged.infinity);
      reverse[there] = back;
      reverse[back] = there;
    }
    graph_ = Graph(boost::edges_are_sorted, ends.begin(), ends.end(), index(merged.nodes));
    std::vector<Edge> edges(ends.size());
    for (const Edge& e : boost::make_iterator_range(boost::edges(graph_))) edges[at(e)] = e;
    for (size_t i = 0; i < edges.size(); ++i) reverse_[i] = edges[reverse[i]];
  }

  int64_t run() {
    std::vector<Edge> parent(num_vertices(graph_));
    std::vector<boost::default_color_type> color(parent.size());
    std::vector<int64_t> distance(parent.size());
    const auto of_edge = [&](auto& values) {
      return boost::make_iterator_property_map(values.begin(), get(boost::edge_index, graph_));
    };
    const auto of_vertex = [&](auto& values) {
      return boost::make_iterator_property_map(values.begin(), get(boost::vertex_index, graph_));
    };
    return boost::boykov_kolmogorov_max_flow(graph_, of_edge(capacity_), of_edge(residual_),
                                             of_edge(reverse_), of_vertex(parent), of_vertex(color),
                                             of_vertex(distance), get(boost::vertex_index, graph_),
                                             Vertex{Merged::kSource}, Vertex{Merged::kSink});
  }

  /// By node: whether it can still reach the sink.
  std::vector<bool> nodes_that_reach_sink() const {
    std::vector<bool> reaches(num_vertices(graph_));
    std::vector<Vertex> stack = {Merged::kSink};
    reaches[Merged::kSink] = true;
    while (!stack.empty()) {
      const Vertex v = stack.back();
      stack.pop_back();
      for (const Edge& e : boost::make_iterator_range(out_edges(v, graph_))) {
        const Vertex u = target(e, graph_);
        if (reaches[u] || residual_[at(reverse_[at(e)])] == 0) continue;
        reaches[u] = true;
        stack.push_back(u);
      }
    }
    return reaches;
  }

 private:
  size_t at(const Edge& e) const { return get(boost::edge_index, graph_, e); }

  Graph graph_;
  std::vector<int64_t> capacity_, residual_;
  std::vector<Edge> reverse_;
};

}  // namespace

std::optional<Cut> min_cut(const FlowNetwork& network) {
  const Merged merged(network);
  if (!merged.has_finite_cut) return std::nullopt;
  Flow flow(merged);
  Cut cut{std::vector<bool>(index(network.nodes)), merged.direct + flow.run()};
  const std::vector<bool> reaches = flow.nodes_that_reach_sink();
  for (size_t i = 0; i < cut.sink_side.size(); ++i)
    cut.sink_side[i] = reaches[index(merged.node[i])];
  return cut;
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
