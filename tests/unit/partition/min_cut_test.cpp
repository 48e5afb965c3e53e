// The minimum cut, and the network made from a graph.
#include "partition/flow/min_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ir/base/error.h"
#include "partition/flow/network.h"
#include "tests/support/graph_testing.h"

namespace tandem::partition {
namespace {

TEST(MinCut, CutsTheCheapestEdge) {
  // 0 -> 1 -> 3 (capacities 3, 2) and 0 -> 2 -> 3 (1, 5)
  const FlowNetwork network{4, 0, 3, {{0, 1, 3}, {1, 3, 2}, {0, 2, 1}, {2, 3, 5}}};
  const Cut cut = min_cut(network).value();
  EXPECT_EQ(cut.value, 3);
  EXPECT_EQ(cut.edges, (std::vector<size_t>{1, 2}));
}

TEST(MinCut, OfEqualCutsTakesTheOneNearestTheSink) {
  const FlowNetwork chain{4, 0, 3, {{0, 1, 2}, {1, 2, 2}, {2, 3, 2}}};
  EXPECT_EQ(min_cut(chain)->edges, (std::vector<size_t>{2}));
}

TEST(MinCut, InfiniteEdgesAreNotCut) {
  const FlowNetwork chain{
      4, 0, 3, {{0, 1, kInfinite}, {1, 2, int64_t{1} << 60}, {2, 3, kInfinite}}};
  EXPECT_EQ(min_cut(chain)->value, int64_t{1} << 60);
}

/// 8 nodes, from the source 0 to the sink 7; every third edge is infinite, some cost nothing.
FlowNetwork random_network(std::mt19937& gen) {
  FlowNetwork network{8, 0, 7, {}};
  for (int k = 0; k < 14; ++k) {
    const int from = static_cast<int>(gen() % 7), to = 1 + static_cast<int>(gen() % 7);
    const int64_t capacity = gen() % 3 == 0 ? kInfinite : static_cast<int64_t>(gen() % 4);
    if (from != to) network.edges.push_back({from, to, capacity});
  }
  return network;
}

/// What is paid when the nodes in `sink_side` (a set of bits) are the sink's.
int64_t cost_of(const FlowNetwork& network, unsigned sink_side) {
  int64_t cost = 0;
  for (const FlowEdge& e : network.edges) {
    if ((sink_side >> e.from & 1) || !(sink_side >> e.to & 1)) continue;
    if (e.capacity == kInfinite) return kInfinite;
    cost += e.capacity;
  }
  return cost;
}

/// The edges that go to the sink's side.
std::vector<size_t> edges_cut(const FlowNetwork& network, unsigned sink_side) {
  std::vector<size_t> edges;
  for (size_t i = 0; i < network.edges.size(); ++i) {
    const FlowEdge& e = network.edges[i];
    if (!(sink_side >> e.from & 1) && (sink_side >> e.to & 1)) edges.push_back(i);
  }
  return edges;
}

/// Tries every cut. Those of least cost are closed under intersection.
void expect_least_cut(const FlowNetwork& network, const std::optional<Cut>& cut) {
  int64_t least = kInfinite;
  unsigned nearest = 0;
  for (unsigned side = 0x80; side < 0x100; side += 2) {
    const int64_t cost = cost_of(network, side);
    if (cost < least) nearest = side;
    if (cost == least) nearest &= side;
    least = std::min(least, cost);
  }
  ASSERT_EQ(cut.has_value(), least != kInfinite);
  if (!cut) return;
  EXPECT_EQ(cut->value, least);
  EXPECT_EQ(cut->edges, edges_cut(network, nearest));
}

TEST(MinCut, OfRandomNetworksIsWhatTryingAllFinds) {
  std::mt19937 gen(1);
  for (int k = 0; k < 2000; ++k) {
    const FlowNetwork network = random_network(gen);
    expect_least_cut(network, min_cut(network));
  }
}

TEST(MinCut, OfOneNetworkAtManyCapacities) {
  std::mt19937 gen(2);
  for (int k = 0; k < 200; ++k) {
    FlowNetwork network = random_network(gen);
    const MinCut cuts(network);
    for (int round = 0; round < 5; ++round) {
      for (FlowEdge& e : network.edges)
        if (e.capacity != kInfinite) e.capacity = static_cast<int64_t>(gen() % 5);
      expect_least_cut(network, cuts.at(capacities_of(network)));
    }
  }
}

TEST(MinCut, NoneCutsAnInfinitePath) {
  const FlowNetwork network{4, 0, 3, {{0, 1, kInfinite}, {1, 3, kInfinite}, {0, 2, 1}}};
  EXPECT_FALSE(min_cut(network));
}

TEST(Network, ShowsTheChainOfAnImpossibleRequest) {
  ir::Graph graph = graph_testing::make_graph(
      {{ir::DType::F32, {2}}, {ir::DType::F32, {2}}},
      [](ir::Builder& b, const graph_testing::Values& v) {
        return graph_testing::Values{b.exp(v[0]), b.mul(b.exp(v[0]), v[1])};
      },
      ir::Level::Core);
  graph.inputs()[1].role = ir::Role::Tangent;
  graph.inputs()[1].target = 0;
  graph.outputs()[1].role = ir::Role::Gradient;
  graph.outputs()[1].target = 0;
  const Analysis analysis(graph);
  const Policy nothing{[](ir::ValueId) { return kInfinite; }, [](ir::ValueId) { return "no"; }};
  try {
    cheapest_saved_set(analysis, nothing);
    FAIL() << "expected an Error";
  } catch (const ir::Error& error) {
    EXPECT_EQ(error.code(), ir::Errc::Partition);
    EXPECT_NE(std::string(error.what()).find("x0 -> "), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tandem::partition
