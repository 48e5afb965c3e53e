// Reductions of what steps unevenly from dim to dim reduce rows first; others stay as they are.
#include "decomps/simplify.h"
#include "tests/support/graph_testing.h"

namespace tandem::graph_testing {
namespace {

using ir::Axes;

/// Of the sums of `body`, dims by dims, in order, after which they mean the same.
std::vector<Axes> sums_of(const std::vector<Type>& types, const Body& body,
                          const ir::Strides& strides = {}) {
  Graph before = make_graph(types, body, ir::Level::Core);
  if (strides.rank() > 0) before.inputs()[0].strides = strides;
  const Graph after = decomps::split_reductions(before);
  ir::verify(after);
  const Buffers inputs = random_inputs(before, 1);
  expect_close(run(after, inputs, true), run(before, inputs, true), 1e-12,
               ir::print(before) + ir::print(after));
  std::vector<Axes> sums;
  for (size_t i = 0; i < after.num_equations(); ++i)
    if (after.op(after.equation_id(i)) == Op::sum)
      sums.push_back(after.attr<Axes>(after.equation_id(i), ir::Attr::dims));
  return sums;
}

using Cuts = std::vector<Axes>;

TEST(SplitReductions, OfWhatIsRepeated) {
  const auto of = [](const Shape& repeated) {
    return sums_of({f32({20, 30, 40}), f32(repeated)}, [&](Builder& b, const Values& x) {
      return Values{b.sum(b.exp(b.mul(x[0], b.expand(x[1], {20, 30, 40}))))};
    });
  };
  EXPECT_EQ(of({20, 30, 40}), (Cuts{{0, 1, 2}}));
  EXPECT_EQ(of({1, 1, 1}), (Cuts{{0, 1, 2}}));
  EXPECT_EQ(of({30, 40}), (Cuts{{1, 2}, {0}}));
  EXPECT_EQ(of({40}), (Cuts{{2}, {0, 1}}));
  EXPECT_EQ(of({20, 30, 1}), (Cuts{{2}, {0, 1}}));
  EXPECT_EQ(of({20, 1, 1}), (Cuts{{1, 2}, {0}}));
  EXPECT_EQ(of({20, 1, 40}), (Cuts{{2}, {0, 1}}));
}

TEST(SplitReductions, OfWhatIsSlicedOrPermuted) {
  const Type x = f32({50, 60, 7});
  EXPECT_EQ(sums_of({x},
                    [](Builder& b, const Values& v) {
                      return Values{b.sum(b.slice(v[0], 0, Dim(3), Dim(40))),
                                    b.sum(b.slice(v[0], 1, Dim(3), Dim(40))),
                                    b.sum(b.neg(b.slice(v[0], 2, Dim(3), Dim(7))))};
                    }),
            (Cuts{{0, 1, 2}, {1, 2}, {0}, {2}, {0, 1}}));
  EXPECT_EQ(sums_of({x},
                    [](Builder& b, const Values& v) {
                      return Values{b.sum(b.permute(v[0], {1, 0, 2})),
                                    b.sum(b.permute(v[0], {2, 0, 1}))};
                    }),
            (Cuts{{2}, {0, 1}, {1, 2}, {0}}));
}

// What is computed lies nowhere if it is reduced; a view shows what was written.
TEST(SplitReductions, OfViewsOfComputedValues) {
  EXPECT_EQ(sums_of({f32({80, 90})},
                    [](Builder& b, const Values& v) {
                      const ValueId t = b.exp(b.permute(v[0], {1, 0}));
                      return Values{b.sum(t), b.sum(b.view(t, {60, 120})),
                                    b.sum(b.permute(t, {1, 0}))};
                    }),
            (Cuts{{1}, {0}, {0, 1}, {1}, {0}}));
}

TEST(SplitReductions, OfInputsByTheirStrides) {
  const auto of = [](const ir::Strides& strides) {
    return sums_of(
        {f32({70, 80})}, [](Builder& b, const Values& v) { return Values{b.sum(b.exp(v[0]))}; },
        strides);
  };
  EXPECT_EQ(of({80, 1}), (Cuts{{0, 1}}));
  EXPECT_EQ(of({100, 1}), (Cuts{{1}, {0}}));
  EXPECT_EQ(of({1, 70}), (Cuts{{1}, {0}}));
}

TEST(SplitReductions, OnlyWhereRowsAreReduced) {
  EXPECT_EQ(sums_of({f32({20, 30, 40}), f32({30, 1})},
                    [](Builder& b, const Values& x) {
                      const ValueId y = b.mul(x[0], b.expand(x[1], {20, 30, 40}));
                      return Values{b.sum(y, {0, 1}), b.sum(y, {2}), b.sum(y, {1, 2}, true)};
                    }),
            (Cuts{{0, 1}, {2}, {2}, {1}}));
  // few elements may as well be written
  EXPECT_EQ(sums_of({f32({20, 30}), f32({30})},
                    [](Builder& b, const Values& x) {
                      return Values{b.sum(b.mul(x[0], b.expand(x[1], {20, 30})))};
                    }),
            (Cuts{{0, 1}}));
}

TEST(SplitReductions, OfEveryKind) {
  const Graph before = make_graph(
      {f32({80, 90}), f32({80, 1}), Type{DType::I64, {80, 90}}, Type{DType::I64, {1, 90}}},
      [](Builder& b, const Values& x) {
        const ValueId y = b.mul(x[0], b.expand(x[1], {80, 90}));
        const ValueId n = b.add(x[2], b.expand(x[3], {80, 90}));
        const ValueId is = b.lt(y, 3.0);
        return Values{b.reduce(Op::amax, y, Axes{0, 1}),
                      b.reduce(Op::amin, y, Axes{0, 1}),
                      b.reduce(Op::prod, b.exp(b.mul(y, 1e-3)), Axes{0, 1}),
                      b.sum(n),
                      b.reduce(Op::any, is, Axes{0, 1}, true),
                      b.reduce(Op::all, is, Axes{0, 1})};
      },
      ir::Level::Core);
  const Graph after = decomps::split_reductions(before);
  ir::verify(after);
  const Buffers inputs = random_inputs(before, 1);
  expect_close(run(after, inputs, true), run(before, inputs, true), 1e-12, ir::print(after));
  for (const Op op : {Op::amax, Op::amin, Op::prod, Op::sum, Op::any, Op::all})
    EXPECT_EQ(count(after, op), 2) << ir::name(op);
}

}  // namespace
}  // namespace tandem::graph_testing
