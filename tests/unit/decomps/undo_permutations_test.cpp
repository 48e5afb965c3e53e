// What is computed of permuted values is computed as they lie, where nobody needs it permuted.
#include "decomps/simplify.h"
#include "tests/support/graph_testing.h"

namespace tandem::graph_testing {
namespace {

using ir::Axes;

/// How many permutations are left of `body`, of unchanged meaning.
int permutes_left(const std::vector<Type>& types, const Body& body) {
  const Graph before = make_graph(types, body, ir::Level::Core);
  const Graph after = decomps::undo_permutations(before);
  ir::verify(after);
  const Buffers inputs = random_inputs(before, 1);
  expect_close(run(after, inputs, true), run(before, inputs, true), 1e-12,
               ir::print(before) + ir::print(after));
  return count(after, Op::permute);
}

ValueId softmax(Builder& b, ValueId x, int dim) {
  const Shape sizes = b.sizes(x);
  const ValueId e = b.exp(b.sub(x, b.expand(b.reduce(Op::amax, x, Axes{dim}, true), sizes)));
  return b.div(e, b.expand(b.sum(e, {dim}, true), sizes));
}

TEST(UndoPermutations, OfWhatIsPermutedBack) {
  EXPECT_EQ(permutes_left({f32({5, 7})},
                          [](Builder& b, const Values& x) {
                            const ValueId t = b.permute(x[0], {1, 0});
                            return Values{b.permute(softmax(b, t, 1), {1, 0}),
                                          b.permute(softmax(b, t, 0), {1, 0})};
                          }),
            0);
  EXPECT_EQ(permutes_left({f32({2, 3, 4, 5}), f32({3}), f32({3, 4, 5})},
                          [](Builder& b, const Values& x) {
                            const ValueId t = b.permute(x[0], {0, 2, 3, 1});
                            const ValueId scale = b.expand(x[1], {2, 4, 5, 3});
                            const ValueId y = b.mul(softmax(b, t, 3), scale);
                            return Values{b.permute(y, {0, 3, 1, 2})};
                          }),
            0);
}

TEST(UndoPermutations, OfWhatIsReduced) {
  const auto reduced = [](Op op, Axes dims, bool keepdim) {
    return permutes_left({f32({3, 4, 5, 6})}, [&](Builder& b, const Values& x) {
      return Values{b.reduce(op, b.neg(b.permute(x[0], {3, 1, 0, 2})), dims, keepdim)};
    });
  };
  for (const Op op : {Op::sum, Op::prod, Op::amax, Op::amin}) {
    EXPECT_EQ(reduced(op, {0, 1, 2, 3}, false), 0);
    EXPECT_EQ(reduced(op, {0, 1, 2}, false), 0);
    EXPECT_EQ(reduced(op, {0, 1}, true), 0);
    EXPECT_EQ(reduced(op, {3}, true), 1);  // what is left is [6, 4, 3]
    EXPECT_EQ(reduced(op, {2, 3}, false), 1);
    EXPECT_EQ(reduced(op, {1}, false), 1);
  }
  EXPECT_EQ(reduced(Op::argmax, {2}, true), 1);
  EXPECT_EQ(reduced(Op::argmin, {1}, false), 1);
}

TEST(UndoPermutations, WhereAllOperandsHaveTheSameOne) {
  const auto of_two = [](Axes first, Axes second) {
    return permutes_left({f32({4, 4, 4}), f32({4, 4, 4})}, [&](Builder& b, const Values& x) {
      const ValueId y = b.mul(b.permute(x[0], first), b.permute(x[1], second));
      return Values{b.sum(y, {2}), b.sum(y, {0, 1, 2})};
    });
  };
  EXPECT_EQ(of_two({2, 0, 1}, {2, 0, 1}), 1);  // of the sums
  EXPECT_EQ(of_two({2, 0, 1}, {0, 2, 1}), 2);
  EXPECT_EQ(of_two({2, 0, 1}, {0, 1, 2}), 1);  // a permutation that none is
}

// Rows that a product or a result needs lie as rows; what is computed beside them is too.
TEST(UndoPermutations, NotOfWhatIsNeededPermuted) {
  EXPECT_EQ(permutes_left({f32({5, 7}), f32({5, 2})},
                          [](Builder& b, const Values& x) {
                            const ValueId y = softmax(b, b.permute(x[0], {1, 0}), 1);
                            return Values{b.mm(y, x[1])};
                          }),
            1);
  EXPECT_EQ(permutes_left({f32({5, 7})},
                          [](Builder& b, const Values& x) {
                            const ValueId y = b.exp(b.permute(x[0], {1, 0}));
                            return Values{y, b.sum(y, {1})};
                          }),
            1);
  // neighbours stay neighbours in memory
  EXPECT_EQ(permutes_left({f32({2, 3, 4})},
                          [](Builder& b, const Values& x) {
                            return Values{b.sum(b.exp(b.permute(x[0], {1, 0, 2})), {2})};
                          }),
            1);
}

// Of equal sizes nothing else would tell.
TEST(UndoPermutations, NotOfAnotherPermutationOfAPermutation) {
  EXPECT_EQ(permutes_left({f32({4, 4, 4})},
                          [](Builder& b, const Values& x) {
                            const ValueId once = b.permute(x[0], {0, 2, 1});
                            const ValueId twice = b.permute(once, {1, 0, 2});
                            return Values{b.sum(b.exp(once), {2}), b.exp(twice), twice};
                          }),
            1);
  EXPECT_EQ(permutes_left({f32({4, 4, 4})},
                          [](Builder& b, const Values& x) {
                            const ValueId once = b.exp(b.permute(x[0], {0, 2, 1}));
                            return Values{b.permute(once, {1, 0, 2}), b.permute(once, {0, 2, 1})};
                          }),
            3);
}

TEST(UndoPermutations, NotOfMarkedValues) {
  const auto marked = [](Builder& b, const Values& x) {
    return Values{b.sum(b.exp(b.permute(x[0], {1, 0})), {1})};
  };
  Graph graph = make_graph({f32({5, 7})}, marked, ir::Level::Core);
  for (size_t i = 0; i < graph.num_equations(); ++i)
    if (graph.op(graph.equation_id(i)) == Op::exp)
      graph.equation(graph.equation_id(i)).mark = ir::Mark::Save;
  EXPECT_EQ(count(decomps::undo_permutations(graph), Op::permute), 1);
}

TEST(UndoPermutations, OfBothHalvesOfASymmetricLoss) {
  EXPECT_EQ(permutes_left({f32({6, 6})},
                          [](Builder& b, const Values& x) {
                            const ValueId t = b.permute(x[0], {1, 0});
                            const ValueId rows = softmax(b, x[0], 1), columns = softmax(b, t, 1);
                            return Values{b.fma(rows, x[0], b.permute(columns, {1, 0})),
                                          b.sum(columns, {0})};
                          }),
            0);
}

// --- inputs and results that lie across memory

/// The sizes of what `op` computes in `body`, whose inputs and results lie in order `memory`.
Shape computed_sizes(const Body& body, const Axes& memory, Op op, bool results_lie_alike = true) {
  const Shape sizes{5, 7, 3};
  Graph before = make_graph({f32(sizes), f32(sizes), f32({3})}, body, ir::Level::Core);
  Shape lying;
  for (const ir::Axis d : memory) lying.push_back(sizes[static_cast<int>(d)]);
  ir::Strides strides = ir::contiguous_strides(sizes), inner = ir::contiguous_strides(lying);
  for (int i = 0; i < 3; ++i) strides[static_cast<int>(memory[static_cast<size_t>(i)])] = inner[i];
  for (int i = 0; i < 2; ++i) before.inputs()[static_cast<size_t>(i)].strides = strides;
  if (results_lie_alike)
    for (ir::Output& out : before.outputs())
      if (before.type(out.value).sizes == sizes) out.strides = strides;
  const Graph after = decomps::undo_permutations(before);
  ir::verify(after);
  const Buffers inputs = random_inputs(before, 1);
  expect_close(run(after, inputs, true), run(before, inputs, true), 1e-12,
               ir::print(before) + ir::print(after));
  for (size_t i = 0; i < after.num_equations(); ++i)
    if (after.op(after.equation_id(i)) == op)
      return after.type(after.result(after.equation_id(i))).sizes;
  return {};
}

TEST(UndoPermutations, OfInputsAndResultsThatLieAlike) {
  const Body both = [](Builder& b, const Values& x) {
    const ValueId y = b.mul(b.add(x[0], x[1]), b.expand(x[2], {5, 7, 3}));
    return Values{b.exp(y), b.sum(y, {0})};
  };
  EXPECT_EQ(computed_sizes(both, {2, 0, 1}, Op::exp), (Shape{3, 5, 7}));
  EXPECT_EQ(computed_sizes(both, {1, 2, 0}, Op::exp), (Shape{7, 3, 5}));
  EXPECT_EQ(computed_sizes(both, {2, 1, 0}, Op::add), (Shape{3, 7, 5}));
  EXPECT_EQ(computed_sizes(both, {0, 1, 2}, Op::exp), (Shape{5, 7, 3}));
  EXPECT_EQ(computed_sizes(both, {1, 0, 2}, Op::exp), (Shape{5, 7, 3}));  // rows are rows
}

TEST(UndoPermutations, NotOfInputsWhoseResultsLieOtherwise) {
  const Body one = [](Builder& b, const Values& x) { return Values{b.exp(x[0])}; };
  EXPECT_EQ(computed_sizes(one, {2, 0, 1}, Op::exp, false), (Shape{5, 7, 3}));
  const Body turned = [](Builder& b, const Values& x) {
    return Values{b.exp(b.permute(b.tanh(x[0]), {1, 0, 2}))};
  };
  EXPECT_EQ(computed_sizes(turned, {2, 0, 1}, Op::tanh), (Shape{5, 7, 3}));
}

}  // namespace
}  // namespace tandem::graph_testing
