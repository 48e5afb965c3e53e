// The minimum cut, and the network made from a graph.
#include "partition/min_cut.h"

#include <gtest/gtest.h>

#include "ir/error.h"
#include "partition/network.h"
#include "tests/support/graph_testing.h"

namespace tandem::partition {
namespace {

TEST(MinCut, CutsTheCheapestEdge) {
  // 0 -> 1 -> 3 (capacities 3, 2) and 0 -> 2 -> 3 (1, 5)
  const FlowNetwork network{4, 0, 3, {{0, 1, 3}, {1, 3, 2}, {0, 2, 1}, {2, 3, 5}}};
  const Cut cut = min_cut(network).value();
  EXPECT_EQ(cut.value, 3);
  EXPECT_EQ(cut.sink_side, (std::vector<bool>{false, false, true, true}));
}

TEST(MinCut, OfEqualCutsTakesTheOneNearestTheSink) {
  const FlowNetwork chain{4, 0, 3, {{0, 1, 2}, {1, 2, 2}, {2, 3, 2}}};
  EXPECT_EQ(min_cut(chain)->sink_side, (std::vector<bool>{false, false, false, true}));
}

TEST(MinCut, InfiniteEdgesAreNotCut) {
  const FlowNetwork chain{
      4, 0, 3, {{0, 1, kInfinite}, {1, 2, int64_t{1} << 60}, {2, 3, kInfinite}}};
  EXPECT_TRUE(infinite_path(chain).empty());
  EXPECT_EQ(min_cut(chain)->value, int64_t{1} << 60);
}

TEST(MinCut, FindsAnInfinitePath) {
  const FlowNetwork network{4, 0, 3, {{0, 1, kInfinite}, {1, 3, kInfinite}, {0, 2, 1}}};
  EXPECT_EQ(infinite_path(network), (std::vector<int>{0, 1, 3}));
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
