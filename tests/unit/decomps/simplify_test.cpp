// The clean-up passes: what they remove, and that no bit of any output changes.
#include "decomps/simplify.h"

#include "decomps/decompose.h"
#include "ir/build/rewrite.h"
#include "tests/support/graph_testing.h"

namespace tandem::graph_testing {
namespace {

Graph core_graph(const std::vector<Type>& types, const Body& body) {
  return make_graph(types, body, ir::Level::Core);
}

void expect_same_outputs(const Graph& before, const Graph& after) {
  ir::verify(after);
  const std::string what = ir::print(before) + ir::print(after);
  for (uint32_t seed = 0; seed < 4; ++seed) {
    Buffers inputs = random_inputs(before, seed);
    if (seed >= 2) sprinkle_special_values(inputs, seed);
    expect_same_bits(run(after, inputs), run(before, inputs), what);
  }
}

/// How many equations are left of `body` on x [2, 3], of unchanged meaning.
size_t left_of(const std::function<ValueId(Builder&, ValueId)>& body,
               const Type& type = f32({2, 3})) {
  const Graph before =
      core_graph({type}, [&](Builder& b, const Values& x) { return Values{body(b, x[0])}; });
  const Graph after = decomps::simplify(before);
  expect_same_outputs(before, after);
  return after.num_equations();
}

TEST(Simplify, ArithmeticIdentities) {
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.mul(x, 1); }), 0u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.mul(1, x); }), 0u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.div(x, 1); }), 0u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.sub(x, 0); }), 0u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.add(x, -0.0); }), 0u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.neg(b.neg(x)); }), 0u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.abs(b.neg(b.abs(x))); }), 1u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.maximum(x, x); }), 0u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.mul(x, -1); }), 1u);
  const Type i64{DType::I64, {4}};
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.add(x, 0); }, i64), 0u);
}

TEST(Simplify, KeepsWhatWouldChangeASignOfZero) {
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.add(x, 0.0); }), 2u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.sub(x, -0.0); }), 2u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.mul(x, 0); }), 2u);
}

TEST(Simplify, DivisionByAPowerOfTwoMultiplies) {
  const Graph before = core_graph({f32({4, 9})}, [](Builder& b, const Values& x) {
    return Values{b.div(x[0], 8), b.div(x[0], 6)};
  });
  const Graph after = decomps::simplify(before);
  expect_same_outputs(before, after);
  EXPECT_EQ(count(after, Op::mul), 1);
  EXPECT_EQ(count(after, Op::div), 1);
}

TEST(Simplify, Constants) {
  const auto scalar = [](Builder& b, ValueId x) {
    const ValueId two = b.full({}, DType::F32, 2), third = b.full({}, DType::F32, 1.0 / 3);
    return b.mul(
        x, b.sqrt(b.add(b.mul(two, third), b.convert(b.full({}, DType::I64, 7), DType::F32))));
  };
  EXPECT_EQ(left_of(scalar), 2u);  // full, mul
  EXPECT_EQ(left_of([](Builder& b, ValueId x) {
              return b.where(b.lt(b.full({}, DType::F32, 1), b.full({}, DType::F32, 2)), x,
                             b.exp(x));
            }),
            0u);
}

TEST(Simplify, Selection) {
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.where(b.gt(x, 0), x, x); }), 0u);
  const auto nested = [](Builder& b, ValueId x) {
    const ValueId positive = b.gt(x, 0);
    return b.where(positive, b.where(positive, x, b.exp(x)), b.neg(x));
  };
  EXPECT_EQ(left_of(nested), 4u);  // full, gt, neg, where
  const auto inverted = [](Builder& b, ValueId x) {
    return b.where(b.logical_not(b.gt(x, 0)), x, b.neg(x));
  };
  EXPECT_EQ(left_of(inverted), 4u);
}

TEST(Simplify, Conversions) {
  EXPECT_EQ(left_of([](Builder& b, ValueId x) {
              return b.convert(b.convert(x, DType::F64), DType::F32);
            }),
            0u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) {
              return b.convert(b.convert(x, DType::BF16), DType::F32);
            }),
            2u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) {
              return b.convert(b.convert(b.convert(x, DType::BF16), DType::F32), DType::F16);
            }),
            2u);
}

TEST(Simplify, Views) {
  EXPECT_EQ(
      left_of([](Builder& b, ValueId x) { return b.view(b.view(b.view(x, {6}), {3, 2}), {2, 3}); }),
      0u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.permute(b.permute(x, {1, 0}), {1, 0}); }),
            0u);
  EXPECT_EQ(
      left_of([](Builder& b, ValueId x) { return b.permute(b.view(x, {2, 1, 3}), {1, 0, 2}); }),
      1u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) {
              return b.expand(b.expand(b.view(x, {1, 2, 3}), {4, 2, 3}), {5, 4, 2, 3});
            }),
            1u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) {
              return b.slice(b.slice(b.view(x, {6}), 0, 1, 6, 2), 0, 1, 3, 1);
            }),
            2u);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.slice(x, 1, 0, 3); }), 0u);
}

TEST(Simplify, ReductionsOfOneElement) {
  const Graph before = core_graph({f32({4, 1})}, [](Builder& b, const Values& x) {
    return Values{b.sum(x[0], {1}), b.amax(x[0], {1}, true)};
  });
  const Graph after = decomps::simplify(before);
  expect_same_outputs(before, after);
  EXPECT_EQ(count(after, Op::sum) + count(after, Op::amax), 0);
}

TEST(Simplify, ReductionsOfWhatIsRepeatedBesideThem) {
  for (const Op op : {Op::sum, Op::prod, Op::amax, Op::amin})
    for (const bool keepdim : {false, true}) {
      const Graph before = core_graph({f32({3, 1, 5}), f32({})}, [&](Builder& b, const Values& x) {
        return Values{b.reduce(op, b.expand(x[0], {2, 3, 4, 5}), ir::Axes{0, 2}, keepdim),
                      b.reduce(op, b.expand(x[1], {2, 3}), ir::Axes{1}, keepdim)};
      });
      const Graph after = decomps::simplify(before);
      expect_same_outputs(before, after);
      std::vector<int64_t> computed;  // elements of what is reduced
      for (uint32_t i = 0; i < after.num_equations(); ++i)
        if (after.op({i}) == op)
          computed.push_back(ir::numel(after.type(after.operand({i}, 0)).sizes));
      EXPECT_EQ(computed, (std::vector<int64_t>{2 * 3 * 4 * 5, 3})) << ir::print(after);
    }
}

TEST(Simplify, SumsBesideZeros) {
  const ir::Dims beside{1, 2, 0, 0, 3, 0}, along{1, 2, 0, 1, 0, 0};
  const auto padded_before = [&](const ir::Dims& padding, double value, bool keepdim) {
    const Graph before = core_graph({f32({3, 4, 5})}, [&](Builder& b, const Values& x) {
      return Values{b.sum(b.pad(x[0], padding, value), {1}, keepdim)};
    });
    const Graph after = decomps::simplify(before);
    expect_same_outputs(before, after);
    return after.op({0}) == Op::pad;
  };
  for (const bool keepdim : {false, true}) {
    EXPECT_FALSE(padded_before(beside, 0.0, keepdim));
    EXPECT_TRUE(padded_before(beside, -0.0, keepdim));
    EXPECT_TRUE(padded_before(beside, 1.0, keepdim));
    EXPECT_TRUE(padded_before(along, 0.0, keepdim));
  }
}

TEST(Simplify, IdentitiesStayUntilDifferentiated) {
  const Graph graph = make_graph(
      {f32({3})}, [](Builder& b, const Values& x) { return Values{b.stop_gradient(x[0])}; });
  EXPECT_EQ(count(decomps::simplify(graph), Op::stop_gradient), 1);
  EXPECT_EQ(left_of([](Builder& b, ValueId x) { return b.clone(b.stop_gradient(x)); }), 0u);
}

TEST(CommonSubexpressions, MergeAcrossHalves) {
  Graph graph = core_graph({f32({3}), f32({3})}, [](Builder& b, const Values& x) {
    return Values{b.exp(b.mul(x[0], x[1])), b.exp(b.mul(x[1], x[0])), b.sub(x[0], x[1]),
                  b.sub(x[1], x[0])};
  });
  graph.equation(graph.equation_id(0)).is_backward = true;
  const Graph merged = decomps::eliminate_common_subexpressions(graph);
  expect_same_outputs(graph, merged);
  EXPECT_EQ(count(merged, Op::mul), 1);
  EXPECT_EQ(count(merged, Op::exp), 1);
  EXPECT_EQ(count(merged, Op::sub), 2);
  EXPECT_FALSE(merged.equation(merged.equation_id(0)).is_backward);
  EXPECT_EQ(decomps::eliminate_common_subexpressions(merged), merged);
}

TEST(CommonSubexpressions, AttributesTellApart) {
  const Graph graph = core_graph({f32({3, 3})}, [](Builder& b, const Values& x) {
    return Values{b.sum(x[0], {0}), b.sum(x[0], {1}), b.sum(x[0], {0}),
                  b.full({2}, DType::F32, 0.0), b.full({2}, DType::F32, -0.0)};
  });
  const Graph merged = decomps::eliminate_common_subexpressions(graph);
  EXPECT_EQ(merged.num_equations(), 4u);
  expect_same_outputs(graph, merged);
}

/// Columns of zeros around `v` [4, columns], up to nine of all.
ValueId padded_to_nine(Builder& b, ValueId v, Dim before) {
  const Dim after = Dim(9) - before - b.sizes(v)[1];
  return b.pad(v, std::vector<Dim>{0, 0, before, after}, 0);
}

/// Gradients of three parts of [4, 9], in an order of no use, and of two that leave gaps.
Graph sums_of_parts(DType dtype) {
  const auto part = [&](Dim columns) { return Type{dtype, {4, columns}}; };
  return core_graph({part(2), part(3), part(4)}, [](Builder& b, const Values& x) {
    const auto padded = [&](ValueId v, Dim before) { return padded_to_nine(b, v, before); };
    const ValueId all = b.add(b.add(padded(x[2], 5), padded(x[0], 0)), padded(x[1], 2));
    const ValueId gaps = b.add(padded(x[1], 4), padded(x[0], 1));
    return Values{b.neg(all), gaps};
  });
}

TEST(JoinParts, MakesOneConcatenation) {
  for (DType dtype : {DType::F32, DType::I64}) {
    const Graph graph = sums_of_parts(dtype), joined = decomps::join_parts(graph);
    ir::verify(joined);
    EXPECT_EQ(count(joined, Op::cat), 2);
    EXPECT_EQ(count(joined, Op::pad), 1);  // around the gaps
    expect_same_outputs(graph, joined);
  }
}

/// Gradients of what a padding reads again: parts that overlap, of values as large as the sum.
Graph sums_of_overlapping_parts(DType dtype) {
  const auto part = [&](Dim columns) { return Type{dtype, {4, columns}}; };
  return core_graph({part(9), part(3), part(4)}, [](Builder& b, const Values& x) {
    const auto padded = [&](ValueId v, Dim before) { return padded_to_nine(b, v, before); };
    const ValueId ends = b.add(b.add(padded(x[1], 0), x[0]), padded(x[2], 5));
    const ValueId inside = b.add(x[0], b.add(padded(x[2], 4), padded(x[1], 2)));
    const ValueId no_whole = b.add(padded(x[2], 3), padded(x[1], 1));
    const ValueId twice = b.add(b.neg(padded(x[2], 3)), padded(x[1], 1));
    return Values{ends, b.neg(inside), no_whole, twice, b.add(ends, padded(x[1], 6))};
  });
}

TEST(JoinParts, AddsWhereTheyOverlap) {
  for (DType dtype : {DType::F32, DType::I64}) {
    const Graph graph = sums_of_overlapping_parts(dtype), joined = decomps::join_parts(graph);
    EXPECT_EQ(count(joined, Op::cat), 5);
    EXPECT_EQ(count(joined, Op::pad), 2);  // of neg, and around one without whole terms
    expect_same_outputs(graph, joined);
  }
}

/// The gradient of layers of one value, each read several times.
TEST(JoinParts, OfManyThatCoverTheSameOrNothingInCommon) {
  const Graph graph = core_graph({f32({1, 5}), f32({2, 5})}, [](Builder& b, const Values& x) {
    ValueId sum = b.pad(x[0], std::vector<Dim>{0, 7, 0, 0}, 0);
    for (int i = 1; i < 20; ++i) {
      const int rows = i % 5 == 0 ? 2 : 1, before = i % 5 == 0 ? 6 : i % 5;
      const ValueId part = b.mul(x[rows - 1], i);
      sum = b.add(sum, b.pad(part, std::vector<Dim>{before, 8 - before - rows, 0, 0}, 0));
    }
    return Values{sum};
  });
  const Graph joined = decomps::join_parts(graph);
  EXPECT_EQ(count(joined, Op::cat), 1) << ir::print(joined);
  EXPECT_EQ(count(joined, Op::pad), 0) << ir::print(joined);
  expect_same_outputs(graph, joined);
}

TEST(JoinParts, AddsHalvesInF32) {
  const Type whole{DType::BF16, {9}}, part{DType::BF16, {4}};
  const Graph graph = core_graph({whole, part, part}, [](Builder& b, const Values& x) {
    const auto wide = [&](ValueId v) { return b.convert(v, DType::F32); };
    const auto sum = [&](ValueId x, ValueId y) {
      return b.convert(b.add(wide(x), wide(y)), DType::BF16);
    };
    const ValueId first = sum(x[0], b.pad(x[1], std::vector<Dim>{2, 3}, 0));
    return Values{sum(first, b.pad(x[2], std::vector<Dim>{4, 1}, 0))};
  });
  const Graph joined = decomps::join_parts(graph);
  EXPECT_EQ(count(joined, Op::cat), 1);
  expect_same_outputs(graph, joined);
}

TEST(JoinParts, KeepsTheSignOfZero) {
  for (const Graph& graph : {sums_of_parts(DType::F32), sums_of_overlapping_parts(DType::F32)}) {
    const Graph joined = decomps::join_parts(graph);
    Buffers inputs = random_inputs(graph, 1);
    for (auto& x : inputs)
      for (int64_t i = 0; i < x.numel(); ++i) x.set(i, -0.0);
    expect_same_bits(run(joined, inputs), run(graph, inputs), ir::print(joined));
  }
}

TEST(JoinParts, OfNoElementsAreZeros) {
  const Graph graph = core_graph({f32({4, 0}), f32({4, 0})}, [](Builder& b, const Values& x) {
    const auto padded = [&](ValueId v) { return b.pad(v, std::vector<Dim>{0, 0, 2, 3}, 0); };
    return Values{b.add(padded(x[0]), padded(x[1]))};
  });
  expect_same_outputs(graph, decomps::join_parts(graph));
}

TEST(JoinParts, LeavesOtherSumsAlone) {
  const Graph graph = core_graph({f32({4, 5}), f32({2, 9})}, [](Builder& b, const Values& x) {
    const auto padded = [&](ValueId v, std::vector<Dim> padding, double value = 0) {
      return b.pad(v, padding, value);
    };
    const ValueId first = padded(x[0], {0, 0, 0, 4});
    const ValueId ones = padded(b.slice(x[0], 1, 0, 4, 1), {0, 0, 5, 0}, 1);
    ValueId many = first;  // that overlap
    for (int i = 0; i < 8; ++i) many = b.add(many, padded(x[0], {0, 0, i % 5, 4 - i % 5}));
    return Values{b.add(first, padded(x[1], {2, 0, 0, 0})),  // along two dims
                  b.add(b.exp(first), ones), many};
  });
  EXPECT_EQ(decomps::join_parts(graph), graph);
}

/// x [4, 9] as a padding reads it: along columns, then along rows.
ValueId padded_twice(Builder& b, ValueId x) {
  const auto left = b.flip(b.slice(x, 1, Dim(1), Dim(3)), ir::Axes{1});
  const auto right = b.expand(b.slice(x, 1, Dim(8), Dim(9)), {4, 3});
  const ValueId wide = b.cat(std::vector{left, x, right}, 1);
  const auto above = b.flip(b.slice(wide, 0, Dim(1), Dim(3)), ir::Axes{0});
  const auto below = b.expand(b.slice(wide, 0, Dim(3), Dim(4)), {2, 14});
  return b.cat(std::vector{above, wide, below}, 0);
}

TEST(NestConcatenations, TakesViewsOfThemApart) {
  const Graph graph = core_graph({f32({4, 9})}, [](Builder& b, const Values& x) {
    const ValueId padded = padded_twice(b, x[0]);
    return Values{padded};
  });
  const Graph nested = decomps::nest_concatenations(graph);
  EXPECT_EQ(count(nested, Op::cat), 4);  // three of columns in one of rows
  expect_same_outputs(graph, nested);
  EXPECT_EQ(decomps::nest_concatenations(nested), nested);
}

TEST(NestConcatenations, LeavesThoseThatAreNeededWhole) {
  const Graph graph = core_graph({f32({4, 9})}, [](Builder& b, const Values& x) {
    const auto rows = [&](ValueId v) { return b.slice(v, 0, Dim(1), Dim(3)); };
    const ValueId given = b.cat(std::vector{x[0], b.neg(x[0])}, 1);
    const ValueId read = b.cat(std::vector{x[0], b.exp(x[0])}, 1);
    const ValueId cut_through = b.cat(std::vector{x[0], b.sin(x[0])}, 1);
    std::vector<ValueId> parts(20, x[0]);
    const ValueId many = b.cat(parts, 1);
    return Values{given, b.cat(std::vector{rows(given), given}, 0),
                  b.cat(std::vector{rows(read), b.exp(rows(read))}, 0),
                  b.cat(std::vector{b.slice(cut_through, 1, Dim(3), Dim(12)), x[0]}, 0),
                  b.cat(std::vector{rows(many), many}, 0)};
  });
  EXPECT_EQ(decomps::nest_concatenations(graph), graph);
}

TEST(Fma, TakesProductsOfOneUse) {
  const Graph graph = core_graph({f32({8}), f32({8}), f32({8})}, [](Builder& b, const Values& x) {
    const ValueId shared = b.mul(x[0], x[2]);
    return Values{b.add(b.mul(x[0], x[1]), x[2]), b.sub(b.mul(x[1], x[2]), x[0]),
                  b.sub(x[0], b.mul(x[1], x[1])), b.add(shared, x[1]), shared};
  });
  const Graph fused = decomps::form_fma(graph);
  ir::verify(fused);
  EXPECT_EQ(count(fused, Op::fma), 3);
  EXPECT_EQ(count(fused, Op::mul), 1);
  const Buffers inputs = random_inputs(graph, 1);
  expect_close(run(fused, inputs, true), run(graph, inputs, true), 1e-12, ir::print(fused));
}

TEST(ScatterIntoSums, AddsToTheSumAndNotToZeros) {
  const Type x = f32({5, 3}), index{DType::I64, {4}}, rows = f32({4, 3});
  const Graph graph = core_graph({x, index, rows}, [](Builder& b, const Values& v) {
    const auto added_to = [&](double start) {
      return b.index_add(b.full({5, 3}, DType::F32, start), 0, v[1], v[2]);
    };
    const ValueId shared = added_to(0);
    return Values{
        b.add(v[0], added_to(0)), b.add(added_to(0), v[0]), b.add(added_to(0), added_to(0)),
        b.add(v[0], added_to(1)), b.add(v[0], shared),      shared};
  });
  const Graph after = decomps::scatter_into_sums(graph);
  ir::verify(after);
  EXPECT_EQ(count(after, Op::add), 2) << ir::print(after);
  EXPECT_EQ(count(after, Op::index_add), 6) << ir::print(after);
  EXPECT_EQ(count(after, Op::full), 3) << ir::print(after);
  Buffers inputs = random_inputs(graph, 1);
  for (int64_t i = 0; i < 4; ++i) inputs[1].set(i, i * i % 5);
  expect_close(run(after, inputs, true), run(graph, inputs, true), 1e-12, ir::print(after));
}

TEST(ScatterIntoSums, AddsToTheSumBehindViews) {
  const Type x = f32({1, 5, 3}), index{DType::I64, {4}}, rows = f32({4, 3});
  const Graph graph = core_graph({x, index, rows}, [](Builder& b, const Values& v) {
    ValueId sum = v[0];
    for (int i = 0; i < 3; ++i) {
      const ValueId added = b.index_add(b.full({5, 3}, DType::F32, 0.0), 0, v[1], v[2]);
      sum = i == 1 ? b.add(b.view(added, {1, 5, 3}), sum) : b.add(sum, b.view(added, {1, 5, 3}));
    }
    return Values{sum};
  });
  const Graph after = decomps::scatter_into_sums(graph);
  ir::verify(after);
  EXPECT_EQ(count(after, Op::add), 0) << ir::print(after);
  EXPECT_EQ(count(after, Op::index_add), 3) << ir::print(after);
  EXPECT_EQ(count(after, Op::view), 2) << ir::print(after);  // of x, and of the result
  Buffers inputs = random_inputs(graph, 1);
  for (int64_t i = 0; i < 4; ++i) inputs[1].set(i, i * i % 5);
  expect_close(run(after, inputs, true), run(graph, inputs, true), 1e-12, ir::print(after));
}

TEST(Passes, KeepEveryBitOfAModel) {
  const Type x = f32({4, 6}), w = f32({6, 6}), scale = f32({6});
  const Graph graph = make_graph({x, w, scale, scale}, [](Builder& b, const Values& v) {
    const ValueId h = b.layer_norm(v[0], v[2], v[3], 1, 1e-5);
    const ValueId g = b.emit(Op::gelu, {b.mm(h, v[1])}, {std::string("none")});
    const ValueId p = b.softmax(b.add(g, v[0]), 1);
    return Values{b.sum(p), b.mean(b.logsumexp(g, ir::Axes{1}, true)), p};
  });
  const Graph core = decomps::decompose(graph), simple = decomps::simplify(core);
  const Graph merged = decomps::eliminate_common_subexpressions(simple);
  const Graph ordered = decomps::set_reduction_orders(merged);
  EXPECT_LT(simple.num_equations(), core.num_equations());
  EXPECT_LT(merged.num_equations(), simple.num_equations());
  expect_same_outputs(core, simple);
  expect_same_outputs(core, merged);
  ir::verify(ordered);
  EXPECT_EQ(decomps::simplify(simple), simple);
}

}  // namespace
}  // namespace tandem::graph_testing
