// Boykov-Kolmogorov maximum flow, then a search backwards from the sink in the residual network.
// Its augmenting paths never carry more than a finite cut's value, so capacities cannot overflow.
#include "partition/min_cut.h"

#include <algorithm>

// GCC 12 takes the iterators inside Boost's optional for uninitialised.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>

#include "ir/error.h"

namespace tandem::partition {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using Edge = Traits::edge_descriptor;
using Vertex = Traits::vertex_descriptor;

struct EdgeState {
  int64_t capacity = 0, residual = 0;
  Edge reverse;
};

struct VertexState {
  boost::default_color_type color = boost::white_color;
  int64_t distance = 0;
  Edge predecessor;
};

using Network =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, VertexState, EdgeState>;

/// Replaces infinity by a finite capacity that no minimum cut contains.
int64_t stand_in_for_infinity(const FlowNetwork& network) {
  int64_t sum = 1;
  for (const FlowEdge& e : network.edges)
    if (e.capacity != kInfinite)
      TANDEM_CHECK(!__builtin_add_overflow(sum, e.capacity, &sum), "capacities overflow");
  return sum;
}

Network to_boost(const FlowNetwork& network) {
  const int64_t infinity = stand_in_for_infinity(network);
  Network out(static_cast<size_t>(network.nodes));
  for (const FlowEdge& e : network.edges) {
    const auto from = static_cast<Vertex>(e.from), to = static_cast<Vertex>(e.to);
    const Edge there = add_edge(from, to, out).first, back = add_edge(to, from, out).first;
    out[there].capacity = std::min(e.capacity, infinity);
    out[there].reverse = back;
    out[back].reverse = there;
  }
  return out;
}

int64_t run_flow(Network& g, Vertex source, Vertex sink) {
  return boost::boykov_kolmogorov_max_flow(
      g, get(&EdgeState::capacity, g), get(&EdgeState::residual, g), get(&EdgeState::reverse, g),
      get(&VertexState::predecessor, g), get(&VertexState::color, g),
      get(&VertexState::distance, g), get(boost::vertex_index, g), source, sink);
}

std::vector<bool> nodes_that_reach(const Network& g, Vertex sink) {
  std::vector<bool> reaches(num_vertices(g));
  std::vector<Vertex> stack = {sink};
  reaches[sink] = true;
  while (!stack.empty()) {
    const Vertex v = stack.back();
    stack.pop_back();
    for (const Edge& e : boost::make_iterator_range(out_edges(v, g))) {
      const Vertex u = target(e, g);
      if (reaches[u] || g[g[e].reverse].residual == 0) continue;
      reaches[u] = true;
      stack.push_back(u);
    }
  }
  return reaches;
}

}  // namespace

Cut min_cut(const FlowNetwork& network) {
  Network g = to_boost(network);
  const auto source = static_cast<Vertex>(network.source);
  const auto sink = static_cast<Vertex>(network.sink);
  const int64_t value = run_flow(g, source, sink);
  return {nodes_that_reach(g, sink), value};
}

std::vector<int> infinite_path(const FlowNetwork& network) {
  std::vector<std::vector<int>> next(static_cast<size_t>(network.nodes));
  for (const FlowEdge& e : network.edges)
    if (e.capacity == kInfinite) next[static_cast<size_t>(e.from)].push_back(e.to);
  std::vector<int> previous(static_cast<size_t>(network.nodes), -1);
  std::vector<int> queue = {network.source};
  previous[static_cast<size_t>(network.source)] = network.source;
  for (size_t i = 0; i < queue.size(); ++i)
    for (int to : next[static_cast<size_t>(queue[i])]) {
      if (previous[static_cast<size_t>(to)] >= 0) continue;
      previous[static_cast<size_t>(to)] = queue[i];
      queue.push_back(to);
    }
  if (previous[static_cast<size_t>(network.sink)] < 0) return {};
  std::vector<int> path = {network.sink};
  while (path.back() != network.source) path.push_back(previous[static_cast<size_t>(path.back())]);
  std::ranges::reverse(path);
  return path;
}

}  // namespace tandem::partition
