// Marks and checkpoint regions: in text, JSON and the verifier, and through the rewriter.
#include <gtest/gtest.h>

#include "ir/base/error.h"
#include "ir/build/rewrite.h"
#include "ir/json/json.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"

namespace tandem::ir {
namespace {

constexpr std::string_view kMarked = R"(graph @f functional {
  in %x: f32[2] primal requires_grad
  %1: f32[2] = sin %x [save]
  %2: f32[2] = cos %1 [recompute] [region 7]
  %3: f32[2] = exp %2 [region 999999999]
  out %3: result
  epilogue {
    result output 0
  }
}
)";

TEST(Marks, RoundTripThroughTextAndJson) {
  const Graph g = parse(kMarked);
  verify(g);
  EXPECT_EQ(g.equation({0}).mark, Mark::Save);
  EXPECT_EQ(g.equation({1}).region, 7u);
  EXPECT_EQ(print(g), kMarked);
  const std::string json = to_json(g);
  const auto read = from_json(json);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0], g);
  Graph other = g;
  other.equation({1}).region = 8;
  EXPECT_NE(other, g);
}

TEST(Marks, AreReadStrictly) {
  const auto refused = [](std::string_view from, std::string_view to) {
    std::string text = to_json(parse(kMarked));
    text.replace(text.find(from), from.size(), to);
    EXPECT_THROW(from_json(text), Error) << to;
  };
  for (const char* bad : {"region 0", "region 07", "region 1000000000", "region", "region 7 ",
                          "regions 7", "region -1", "auto"})
    refused("region 7", bad);
  refused("\"save\"", "\"save\",\"recompute\"");
  for (const char* bad : {"[region 0]", "[region 1000000000]", "[region]", "[auto]"}) {
    std::string text(kMarked);
    text.replace(text.find("[save]"), 6, bad);
    EXPECT_THROW(parse(text), Error) << bad;
  }
}

TEST(Marks, ARewriterCarriesThemOver) {
  const Graph g = parse(kMarked);
  EXPECT_EQ(remove_dead_code(g), g);
  const Graph twice = rewrite(g, [](Rewriter& r, EquationId e) -> Replacement {
    const ValueId once = r.builder().emit(r.source().op(e), r.operands(e), {});
    return {{r.builder().neg(once)}};
  });
  ASSERT_EQ(twice.num_equations(), 6u);
  EXPECT_EQ(twice.equation({0}).mark, Mark::Auto);  // a mark is the value's
  EXPECT_EQ(twice.equation({1}).mark, Mark::Save);
  EXPECT_EQ(twice.equation({2}).region, 7u);  // a region is everything in it
  EXPECT_EQ(twice.equation({3}).region, 7u);
}

}  // namespace
}  // namespace tandem::ir
