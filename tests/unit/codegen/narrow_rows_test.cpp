// Rows of a few columns, whose vectors run along the rows: every width, every reduction, whatever
// rows are read from and written to, and that the same rows have the same bits in any company.
#include <array>
#include <numeric>

#include "tests/unit/codegen/check_lowering.h"

namespace tandem::codegen {
namespace {

using Kind = Loop::Kind;

constexpr int64_t kManyRows = 77;  // several vectors and a part of one
constexpr int64_t kFewRows = 15;   // fewer than run along rows

/// Whether a kernel has a vector loop along the rows, and none along columns.
bool runs_along_rows(const Plan& plan) {
  return std::ranges::any_of(plan.kernels, [](const Kernel& k) {
    return std::ranges::any_of(
               k.loops,
               [](const Loop& l) { return l.kind == Kind::Vector && l.extent >= kFewRows + 1; }) &&
           std::ranges::none_of(k.loops, [](const Loop& l) {
             return l.kind == Kind::Serial && l.extent >= kFewRows + 1;
           });
  });
}

/// The first rows of `all`.
ir::Buffer first_rows(const ir::Buffer& all, int64_t rows) {
  Shape sizes = all.type().sizes;
  sizes[0] = rows;
  ir::Buffer out({all.type().dtype, sizes});
  for (int64_t i = 0; i < out.numel(); ++i) out.set(i, all.at(i));
  return out;
}

/// Checks the graph that `make` writes of `rows` rows, and that a few of them, which run along
/// columns, have the same bits.
template <class F>
void check_rows(F make, double tolerance, std::optional<bool> along_rows = true) {
  TestGraph many, few;
  make(many, kManyRows);
  make(few, kFewRows);
  const Checked all = check_lowering(many.finish(), {}, {}, tolerance);
  EXPECT_EQ(runs_along_rows(all.plan), along_rows.value_or(runs_along_rows(all.plan)))
      << print(all.plan);
  std::vector<ir::Buffer> inputs;
  const ir::Graph& g = few.finish();
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const ir::Type& type = g.type(g.inputs()[i].value);
    ir::Type whole = type;
    if (type.sizes.rank() > 0 && type.sizes[0] == kFewRows) whole.sizes[0] = kManyRows;
    inputs.push_back(first_rows(sample(whole, static_cast<int>(i)),
                                type.sizes.rank() > 0 ? int64_t{type.sizes[0]} : 1));
  }
  const Checked some = check_lowering(g, inputs, {}, tolerance);
  for (size_t o = 0; o < some.run.outputs.size(); ++o)
    for (int64_t i = 0; i < some.run.outputs[o].numel(); ++i)
      EXPECT_EQ(all.run.outputs[o].at(i), some.run.outputs[o].at(i))
          << "output " << o << " at " << i;
}

V softmax(Builder& b, V x) {
  const ir::Axis last = b.rank(x) - 1;
  const V e = b.exp(b.sub(x, b.amax(x, {last}, true)));
  return b.div(e, b.sum(e, {last}, true));
}

TEST(NarrowRows, OfEveryWidth) {
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::F16})
    for (int64_t columns = 2; columns <= 16; ++columns) {
      SCOPED_TRACE(columns);
      const auto make = [&](TestGraph& t, int64_t rows) {
        t.output(softmax(t.b, t.input({rows, columns}, dtype)));
      };
      check_rows(make, tolerance_of(dtype), columns <= 10 ? std::optional(true) : std::nullopt);
    }
}

TEST(NarrowRows, AreWidened) {  // and stay as they are where that is better
  for (const int64_t columns : {3, 5, 8, 11, 17}) {
    SCOPED_TRACE(columns);
    const auto make = [&](TestGraph& t, int64_t rows) {
      t.output(t.b.mul(t.input({rows, columns}), t.input({rows, 1})));
    };
    check_rows(make, 1e-6, columns == 3);
  }
}

TEST(NarrowRows, ReduceInTheirOrder) {
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::I64, DType::U8})
    for (const int64_t columns : {2, 3, 5, 8, 13}) {
      SCOPED_TRACE(columns);
      const auto make = [&](TestGraph& t, int64_t rows) {
        Builder& b = t.b;
        const V x = t.input({rows, columns}, dtype), y = b.mul(x, x);
        for (const Op op : {Op::sum, Op::prod, Op::amax, Op::amin, Op::argmax, Op::argmin})
          t.output(b.reduce(op, y, std::array<ir::Axis, 1>{1}));
        const V positive = b.gt(x, 0.0);
        t.output(b.reduce(Op::any, positive, std::array<ir::Axis, 1>{1}));
        t.output(b.reduce(Op::all, positive, std::array<ir::Axis, 1>{1}));
      };
      check_rows(make, tolerance_of(dtype));
    }
}

TEST(NarrowRows, ReduceInBlocks) {
  for (const int64_t lanes : {1, 2, 8}) {
    TestGraph t;
    t.output(softmax(t.b, t.input({kManyRows, 7})));
    check_lowering(t.finish(lanes, 3));
  }
}

TEST(NarrowRows, OfNumbersThatAreSpecial) {
  TestGraph t;
  const V v = t.input({343, 3});
  for (const Op op : {Op::sum, Op::prod, Op::amax, Op::amin, Op::argmax, Op::argmin})
    t.output(t.b.reduce(op, v, std::array<ir::Axis, 1>{1}));
  const Checked c = check_lowering(t.finish(), {special_triples()});
  EXPECT_TRUE(runs_along_rows(c.plan));
  for (int64_t row = 0; row < 343; ++row)  // no sum is -0
    EXPECT_FALSE(c.run.outputs[0].at(row).to_double() == 0 &&
                 std::signbit(c.run.outputs[0].at(row).to_double()));
}

TEST(NarrowRows, AreReadAndWrittenAnywhere) {
  struct Layout {
    const char* name;
    ir::Strides strides;  // of [kManyRows, 4]
  };
  for (const Layout& l : {Layout{"gaps", {7, 1}}, Layout{"every other column", {8, 2}},
                          Layout{"transposed", {1, kManyRows}}, Layout{"far", {100, 1}}}) {
    SCOPED_TRACE(l.name);
    TestGraph t;
    const V x = t.input({kManyRows, 4}, DType::F32, l.strides);
    const V y = softmax(t.b, t.b.mul(x, t.input({kManyRows, 1})));
    t.output(y);
    t.output(t.b.neg(y), l.strides);
    check_lowering(t.finish());
  }
}

TEST(NarrowRows, AreWrittenOnTheirInputs) {
  for (int64_t columns = 2; columns <= 8; ++columns) {
    TestGraph t;
    const V x = t.input({kManyRows, columns});
    t.output(softmax(t.b, x), {}, 0);
    LowerOptions options;
    options.write_into_input = {0};
    check_lowering(t.finish(), {}, options);
  }
}

TEST(NarrowRows, ArePartsOfWiderOnes) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({kManyRows, 9});
  const V parts[] = {softmax(b, b.slice(x, 1, 0, 4, 1)), softmax(b, b.slice(x, 1, 3, 9, 2)),
                     b.flip(softmax(b, b.slice(x, 1, 5, 8, 1)), ir::Axes{1})};
  t.output(b.cat(std::vector<V>(parts, parts + 3), 1));
  t.output(b.pad(parts[1], std::vector<ir::Dim>{0, 0, 1, 2}, 0.5));
  check_lowering(t.finish());
}

TEST(NarrowRows, OfSeveralDims) {
  for (const auto& [a, c] : {std::pair<int64_t, int64_t>{2, 3}, {3, 2}, {5, 3}, {2, 8}, {9, 4}}) {
    const auto make = [&, a = a, c = c](TestGraph& t, int64_t rows) {
      Builder& b = t.b;
      const V x = b.mul(t.input({rows, a, c}), t.input({rows, 1, c}));
      const V y = b.tanh(b.add(x, t.input({rows, a, 1})));
      t.output(y);
      t.output(softmax(b, y));
      t.output(b.sum(b.exp(x), {1, 2}));
    };
    TestGraph t;
    make(t, kManyRows);
    check_lowering(t.finish(), {}, {}, 1e-5);
  }
}

TEST(NarrowRows, AddToSumsOfColumns) {
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::I64})
    for (const int64_t block : {16, 100})
      for (int64_t columns = 2; columns <= 9; ++columns) {
        SCOPED_TRACE(columns);
        TestGraph t;
        Builder& b = t.b;
        const V x = t.input({kManyRows, columns}, dtype);
        const V y = b.mul(b.mul(x, b.amax(x, {1}, true)), b.sum(x, {1}, true));
        t.output(y);
        t.output(b.sum(b.mul(y, x), {0}));
        t.output(b.reduce(Op::amin, y, std::array<ir::Axis, 1>{0}));
        t.output(b.sum(x, {0}));
        check_lowering(t.finish(4, block), {}, {}, 5 * tolerance_of(dtype));
      }
}

// x_i - x_j: rows of an outer dim and an inner one, weights of each pair, and their sums both ways.
TEST(NarrowRows, OfPairs) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({40, 3}), m = t.input({40});
  const V d = b.sub(b.view(x, {40, 1, 3}), b.view(x, {1, 40, 3}));
  const V r = b.rsqrt(b.add(b.sum(b.mul(d, d), {2}, true), 0.1));
  const V pulls = b.mul(d, b.mul(r, b.view(m, {1, 40, 1})));
  t.output(b.sum(pulls, {1}));
  t.output(b.sum(pulls, {0}));
  t.output(b.sum(b.view(r, {40, 40}), {1}));
  check_lowering(t.finish(), {}, {}, 1e-4);
}

TEST(NarrowRows, AreFoundByIndex) {
  TestGraph t;
  Builder& b = t.b;
  const V i = t.input({kManyRows}, DType::I64), table = t.input({9, 3});
  t.output(softmax(b, b.index_select(table, 0, i)));
  t.output(softmax(b, b.mul(b.index_select(t.input({9, 1}), 0, i), t.input({kManyRows, 3}))));
  check_lowering(t.finish());
}

// What can fail is reported by its place among all that can: a row looked up twice is checked
// twice.
TEST(NarrowRows, CheckAsOftenAsLaunchesSay) {
  TestGraph t;
  Builder& b = t.b;
  const V i = t.input({kManyRows}, DType::I64), j = t.input({kManyRows}, DType::I64);
  const V table = t.input({9, 1}), x = t.input({kManyRows, 3});
  const V twice = b.add(b.index_select(table, 0, i), b.index_select(table, 0, i));
  t.output(softmax(b, b.mul(x, b.mul(twice, b.index_select(table, 0, j)))));
  const Checked c = check_lowering(t.finish());
  EXPECT_TRUE(runs_along_rows(c.plan));
  for (const Step& step : c.plan.steps)
    if (const auto* launch = std::get_if<Launch>(&step)) {
      const auto& code = c.plan.kernels[launch->kernel].code;
      const auto is_checked = [](const Instr& instr) { return !instr.access.indirect.empty(); };
      EXPECT_EQ(std::ranges::count_if(code, is_checked), std::ssize(launch->checks));
    }
}

/// The params of the one kernel there is, run on what lies where it writes.
size_t params_in_place(TestGraph& t) {
  const Checked c = check_lowering(t.finish(), {}, {.write_into_input = {0}});
  EXPECT_TRUE(runs_along_rows(c.plan));
  if (c.plan.steps.size() != 1) return 0;
  return std::get<Launch>(c.plan.steps[0]).params.size();
}

TEST(NarrowRows, AreWrittenWhereTheyWereRead) {
  for (const int64_t columns : {2, 3, 5, 8}) {
    SCOPED_TRACE(columns);
    TestGraph dense, gapped, two;
    dense.output(softmax(dense.b, dense.input({kManyRows, columns})), {}, 0);
    EXPECT_EQ(params_in_place(dense), 1u);
    const ir::Strides apart{columns + 2, 1};
    gapped.output(softmax(gapped.b, gapped.input({kManyRows, columns}, DType::F32, apart)), apart,
                  0);
    EXPECT_EQ(params_in_place(gapped), 1u);
    const V x = two.input({kManyRows, columns}), y = two.input({kManyRows, columns});
    two.output(two.b.add(softmax(two.b, x), y), {}, 0);
    EXPECT_EQ(params_in_place(two), 2u);
  }
}

// Columns that change places are read after others were written.
TEST(NarrowRows, ButNotWhereOthersAreStillRead) {
  for (const int64_t columns : {2, 3, 5}) {
    SCOPED_TRACE(columns);
    const auto make = [&](auto turned) {
      TestGraph t;
      const V x = t.input({kManyRows, columns});
      t.output(t.b.mul(softmax(t.b, x), turned(t.b, x)), {}, 0);
      check_lowering(t.finish(), {}, {.write_into_input = {0}});
    };
    make([](Builder& b, V x) { return b.flip(x, ir::Axes{1}); });
    make([](Builder& b, V x) { return b.flip(x, ir::Axes{0}); });
    make([&](Builder& b, V x) {
      const std::array parts{b.slice(x, 1, 1, columns, 1), b.slice(x, 1, 0, 1, 1)};
      return b.cat(parts, 1);
    });
  }
}

// Where the last row ends, memory does.
TEST(NarrowRows, EndWhereMemoryDoes) {
  for (const int64_t rows : {16, 17, 31, 32, 63, 64, 65, 200})
    for (const int64_t columns : {2, 3, 4, 6}) {
      TestGraph t;
      Builder& b = t.b;
      const V x = t.input({rows, columns + 1});
      t.output(softmax(b, b.slice(x, 1, 1, columns + 1, 1)));
      t.output(softmax(b, b.slice(x, 1, 0, columns, 1)));
      check_lowering(t.finish());
    }
}

}  // namespace
}  // namespace tandem::codegen
