// Parts that are written, read again, and set to zero by gradients: what is left of the writes, and
// that no bit of any output changes.
#include "decomps/decompose.h"
#include "decomps/simplify.h"
#include "tests/support/graph_testing.h"

namespace tandem::graph_testing {
namespace {

using ir::Dim;

constexpr Op kWrites[] = {Op::slice_scatter, Op::diagonal_scatter};

std::vector<ir::EquationId> equations_of(const Graph& graph, Op op) {
  std::vector<ir::EquationId> found;
  for (size_t i = 0; i < graph.num_equations(); ++i)
    if (graph.op(graph.equation_id(i)) == op) found.push_back(graph.equation_id(i));
  return found;
}

int64_t writes_in(const Graph& graph) {
  return count(graph, kWrites[0]) + count(graph, kWrites[1]);
}

/// What is left of `body`, of unchanged outputs.
Graph seen_through(const std::vector<Type>& types, const Body& body) {
  const Graph graph = make_graph(types, body, ir::Level::Core);
  const Graph after = decomps::see_through_writes(graph);
  ir::verify(after);
  for (uint32_t seed = 0; seed < 4; ++seed) {
    Buffers inputs = random_inputs(graph, seed);
    if (seed >= 2) sprinkle_special_values(inputs, seed);
    expect_same_bits(run(after, inputs), run(graph, inputs), ir::print(graph) + ir::print(after));
  }
  return after;
}

ValueId rows(Builder& b, ValueId v, Dim start, Dim end) { return b.slice(v, 0, start, end); }
ValueId with_rows(Builder& b, ValueId v, ValueId src, Dim start, Dim end) {
  return b.slice_scatter(v, src, 0, start, end, 1);
}

TEST(SeeThroughWrites, ReadsWhatWasWrittenAndWhatWasThere) {
  const Graph after = seen_through({f32({8, 3}), f32({2, 3})}, [](Builder& b, const Values& x) {
    const ValueId twice = with_rows(b, with_rows(b, b.exp(x[0]), x[1], 2, 4), b.neg(x[1]), 5, 7);
    const ValueId diagonal = b.emit(Op::diagonal_scatter, {x[0], rows(b, b.sum(x[0], {1}), 0, 3)},
                                    {Dim(0), int64_t{0}, int64_t{1}});
    const auto shown = [&](Dim offset) {
      return b.emit(Op::diagonal, {diagonal}, {offset, int64_t{0}, int64_t{1}});
    };
    const ValueId odd = b.slice_scatter(x[0], b.exp(b.slice(x[0], 0, 1, 8, 2)), 0, 1, 8, 2);
    return Values{rows(b, twice, 2, 4),
                  rows(b, twice, 3, 4),
                  rows(b, twice, 0, 2),
                  rows(b, twice, 6, 7),
                  shown(0),
                  shown(1),
                  b.slice(odd, 0, 0, 8, 2),
                  b.slice(odd, 0, 3, 8, 4),
                  rows(b, odd, 5, 6)};
  });
  EXPECT_EQ(writes_in(after), 0) << ir::print(after);
}

TEST(SeeThroughWrites, KeepsWhatIsReadAcrossTheEdgesOfParts) {
  const Graph after = seen_through({f32({8, 3}), f32({2, 3})}, [](Builder& b, const Values& x) {
    const ValueId written = with_rows(b, x[0], x[1], 2, 4);
    const ValueId other = with_rows(b, b.exp(x[0]), x[1], 2, 4);
    const ValueId odd = b.slice_scatter(x[0], b.exp(b.slice(x[0], 0, 1, 8, 2)), 0, 1, 8, 2);
    return Values{rows(b, written, 1, 3), rows(b, written, 2, 4), b.slice(other, 1, 0, 2),
                  rows(b, odd, 3, 5)};
  });
  EXPECT_EQ(writes_in(after), 3) << ir::print(after);
}

/// Of results that are written part by part and then read: each part is read, and set to zero for
/// the next.
TEST(SeeThroughWrites, GradientsOfPartsReadTheWhole) {
  const Graph after = seen_through({f32({8, 3}), f32({2, 3})}, [](Builder& b, const Values& x) {
    ValueId g = b.exp(x[0]);
    Values parts;
    for (const int64_t start : {6, 4, 2, 0}) {
      const ValueId rest = with_rows(b, g, b.full({2, 3}, DType::F32, 0.0), start, start + 2);
      parts.push_back(b.mul(rows(b, g, start, start + 2), x[1]));
      g = rest;
    }
    return parts;
  });
  EXPECT_EQ(writes_in(after), 0) << ir::print(after);
  EXPECT_EQ(count(after, Op::slice), 4);
}

/// The base's gradient is needed too: all but the first are read of it before it is written.
TEST(SeeThroughWrites, ReadsOfWhatIsWrittenOverComeBeforeAllWrites) {
  const Graph after = seen_through({f32({8, 3}), f32({2, 3})}, [](Builder& b, const Values& x) {
    const ValueId start = b.exp(x[0]);
    const ValueId first = with_rows(b, start, x[1], 0, 2), second = with_rows(b, first, x[1], 2, 4);
    return Values{second, b.neg(rows(b, first, 4, 6))};
  });
  for (const ir::EquationId e : equations_of(after, Op::slice))
    EXPECT_EQ(after.op(after.producer(after.operand(e, 0))), Op::exp);
}

TEST(SeeThroughWrites, ResultsWrittenInPartsAreConcatenations) {
  const auto written = [](double value, std::vector<std::pair<int, int>> parts) {
    return seen_through({f32({8, 3}), f32({8, 3})}, [&](Builder& b, const Values& x) {
      ValueId v = b.full({8, 3}, DType::F32, value);
      for (const auto& [start, end] : parts)
        v = with_rows(b, v, b.exp(rows(b, x[0], start, end)), start, end);
      return Values{v, b.mul(v, x[1])};
    });
  };
  for (const double value : {0.0, -0.0, 2.5}) {
    const Graph all = written(value, {{0, 3}, {3, 4}, {4, 8}});
    EXPECT_EQ(count(all, Op::cat), 1);
    const Graph gaps = written(value, {{5, 7}, {1, 3}});
    EXPECT_EQ(gaps.operands(equations_of(gaps, Op::cat).at(0)).size(), 5);
    const Graph over = written(value, {{0, 6}, {2, 4}, {3, 8}, {0, 1}});
    EXPECT_EQ(count(over, Op::cat), 1);
    const Graph one = written(value, {{2, 4}});
    EXPECT_EQ(count(one, Op::pad), 1);
    const Graph whole = written(value, {{1, 3}, {0, 8}});
    EXPECT_EQ(count(whole, Op::cat) + count(whole, Op::pad), 0);
    for (const Graph& g : {all, gaps, over, one, whole}) EXPECT_EQ(writes_in(g), 0) << ir::print(g);
  }
}

TEST(SeeThroughWrites, InputsAreWrittenIntoWhereTheyAre) {
  const Graph after = seen_through({f32({8, 3}), f32({4, 3})}, [](Builder& b, const Values& x) {
    return Values{with_rows(b, with_rows(b, x[0], x[1], 0, 4), b.exp(x[1]), 4, 8)};
  });
  EXPECT_EQ(writes_in(after), 2);
}

TEST(SeeThroughWrites, OfNoElements) {
  seen_through({f32({8, 0}), f32({0, 0}), f32({4, 0})}, [](Builder& b, const Values& x) {
    const ValueId none = with_rows(b, b.full({8, 0}, DType::F32, 1.0), x[1], 3, 3);
    const ValueId some = with_rows(b, b.full({8, 0}, DType::F32, 1.0), x[2], 2, 6);
    return Values{none, rows(b, none, 2, 2), some, rows(b, some, 2, 6), rows(b, some, 0, 0)};
  });
}

/// The gradient of what is changed in place: of a part that was set to zero and is added to.
ValueId changed_in_place(Builder& b, ValueId g, const std::function<ValueId(ValueId)>& change,
                         Dim start, Dim end) {
  const Dim size = b.sizes(g)[0];
  const ValueId part = rows(b, g, start, end);
  const ValueId rest = with_rows(b, g, b.zeros_like(part), start, end);
  const ValueId changed = b.pad(change(part), std::vector<Dim>{start, size - end, 0, 0}, 0.0);
  return b.add(rest, changed);
}

TEST(PutPartsBack, WritesOverThem) {
  const auto graph_of = [](const std::function<ValueId(Builder&, ValueId)>& change) {
    return make_graph(
        {f32({8, 3})},
        [&](Builder& b, const Values& x) {
          const auto change_part = [&](ValueId part) { return change(b, part); };
          const ValueId first = changed_in_place(b, b.exp(x[0]), change_part, 2, 4);
          return Values{changed_in_place(b, first, change_part, 7, 8)};
        },
        ir::Level::Core);
  };
  const auto expect_writes = [](const Graph& graph, int64_t writes) {
    const Graph after = decomps::put_parts_back(graph);
    ir::verify(after);
    EXPECT_EQ(writes_in(after), writes) << ir::print(after);
    EXPECT_EQ(count(after, Op::add) + count(after, Op::pad), 0);
    const Buffers inputs = random_inputs(graph, 1);
    expect_same_bits(run(after, inputs), run(graph, inputs), ir::print(after));
  };
  expect_writes(graph_of([](Builder& b, ValueId part) { return b.mul(part, 2.0); }), 2);
  expect_writes(graph_of([](Builder&, ValueId part) { return part; }), 0);
}

TEST(PutPartsBack, LeavesOtherSumsAlone) {
  const Graph graph = make_graph(
      {f32({8, 3}), f32({2, 3})},
      [](Builder& b, const Values& x) {
        const auto pad = [&](Dim before, double value) {
          return b.pad(x[1], std::vector<Dim>{before, 6 - before, 0, 0}, value);
        };
        const ValueId rest = with_rows(b, x[0], b.full({2, 3}, DType::F32, 0.0), 2, 4);
        const ValueId ones = with_rows(b, x[0], b.full({2, 3}, DType::F32, 1.0), 2, 4);
        return Values{b.add(rest, pad(3, 0.0)), b.add(rest, pad(2, 1.0)), b.add(ones, pad(2, 0.0)),
                      b.mul(rest, pad(2, 0.0))};
      },
      ir::Level::Core);
  EXPECT_EQ(decomps::put_parts_back(graph), graph);
}

}  // namespace
}  // namespace tandem::graph_testing
