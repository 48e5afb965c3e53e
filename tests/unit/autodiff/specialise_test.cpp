// A backward graph reduced to some tangents and gradients, against the full one with zeros.
#include "autodiff/specialise.h"

#include <gtest/gtest.h>

#include "ir/interpreter/interpret.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "tests/support/graph_testing.h"

namespace tandem::autodiff {
namespace {

using ir::Graph;
using ir::Op;

constexpr const char* kBackward = R"(graph @g backward {
  in %a: f64[2] saved of output 2
  in %b: f64[2] saved of output 3
  in %t0: f64[2] tangent of output 0
  in %t1: f64[2] tangent of output 1
  %m: f64[2] = mul %t0, %a [backward]
  %n: f64[2] = fma %t1, %b, %m [backward]
  %s: f64[2] = sub %m, %t1 [backward]
  %c: f64[4] = cat %t0, %t1 {dim=0} [backward]
  out %n: gradient of input 0
  out %s: gradient of input 1
  out %c: gradient of input 2
}
)";

Graph specialised(std::array<bool, 2> defined, std::array<bool, 3> wanted) {
  Graph g = specialise_backward(ir::parse(kBackward), defined, wanted);
  ir::verify(g);
  return g;
}

int count(const Graph& g, Op op) { return graph_testing::count(g, op); }

TEST(Specialise, EverythingDefinedAndWantedIsTheSameGraph) {
  EXPECT_EQ(specialised({true, true}, {true, true, true}), ir::parse(kBackward));
}

TEST(Specialise, SumsKeepWhatIsDefined) {
  const Graph first = specialised({true, false}, {true, true, false});
  EXPECT_EQ(first.num_equations(), 1u);  // t0 * a is all that is left of both
  EXPECT_EQ(first.inputs().size(), 2u);
  EXPECT_EQ(first.outputs()[0].value, first.outputs()[1].value);
  const Graph second = specialised({false, true}, {true, true, false});
  EXPECT_EQ(count(second, Op::mul) + count(second, Op::neg), 2);
  EXPECT_EQ(second.inputs()[0].name, "b");
}

TEST(Specialise, OtherOperandsBecomeZeros) {
  const Graph g = specialised({false, true}, {false, false, true});
  EXPECT_EQ(count(g, Op::full), 1);
  EXPECT_EQ(count(g, Op::cat), 1);
  EXPECT_EQ(g.inputs().size(), 1u);
}

TEST(Specialise, NothingDefinedOrWantedIsNothing) {
  EXPECT_EQ(specialised({false, false}, {true, true, true}).outputs().size(), 0u);
  EXPECT_EQ(specialised({true, true}, {false, false, false}).num_equations(), 0u);
}

}  // namespace
}  // namespace tandem::autodiff
