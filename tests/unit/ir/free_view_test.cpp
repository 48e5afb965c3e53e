#include "ir/build/free_view.h"

#include "tests/support/graph_testing.h"

namespace tandem::ir {
namespace {

using graph_testing::Values;

TEST(FreeView, IsNoSmallerThanWhatItShows) {
  const auto is_free = [](const graph_testing::Body& body) {
    const Graph graph = graph_testing::make_graph({graph_testing::f32({1, 4})}, body);
    return is_free_view(graph, graph.equation_id(graph.num_equations() - 1));
  };
  EXPECT_TRUE(is_free([](Builder& b, const Values& v) { return Values{b.view(v[0], {4, 1})}; }));
  EXPECT_TRUE(is_free([](Builder& b, const Values& v) { return Values{b.expand(v[0], {3, 4})}; }));
  EXPECT_FALSE(is_free([](Builder& b, const Values& v) { return Values{b.slice(v[0], 1, 0, 2)}; }));
  EXPECT_FALSE(is_free([](Builder& b, const Values& v) { return Values{b.exp(v[0])}; }));
}

}  // namespace
}  // namespace tandem::ir
