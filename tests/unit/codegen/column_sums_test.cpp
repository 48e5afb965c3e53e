// Sums down columns: of few columns, whose sums stay in registers, and of more; beside whatever
// else a kernel computes of its rows; in any number of blocks. In their order.
#include <array>

#include "tests/unit/codegen/check_lowering.h"

namespace tandem::codegen {
namespace {

using Kind = Loop::Kind;

/// Checks that the sums of the columns of `x` are those of blocks of `block` rows, bit for bit.
void expect_in_order(const ir::Buffer& x, const ir::Buffer& sums, int64_t block) {
  const int64_t rows = x.type().sizes[0], columns = x.type().sizes[1];
  for (int64_t c = 0; c < columns; ++c) {
    const auto element = [&](int64_t row) {
      return static_cast<float>(x.at(row * columns + c).to_double());
    };
    const float sum = ir::reduce_in_order<float>({1, block}, rows, 0, element,
                                                 [](float a, float b) { return a + b; });
    EXPECT_EQ(sums.at(c).to_double(), sum) << "column " << c;
  }
}

/// Whether a Serial loop has sums in locals, which it loads and stores for each row.
bool sums_in_memory(const Kernel& k) {
  int rows = 0;
  for (const Instr& i : k.code) {
    if (i.kind == Instr::Kind::LoopBegin) rows += k.loops[i.loop].kind == Kind::Serial;
    if (i.kind == Instr::Kind::LoopEnd) rows -= k.loops[i.loop].kind == Kind::Serial;
    if (rows > 0 && i.kind == Instr::Kind::Load && i.access.is_local()) return true;
  }
  return false;
}

TEST(ColumnSums, OfFewColumnsStayInRegisters) {
  for (const bool few : {true, false}) {
    TestGraph t;
    t.output(t.b.sum(t.input({200, few ? 8 : 1000}), {0}));
    const Checked c = check_lowering(t.finish());
    EXPECT_EQ(std::ranges::any_of(c.plan.kernels, sums_in_memory), !few) << print(c.plan);
  }
}

TEST(ColumnSums, OfEveryWidth) {
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16, DType::I64, DType::U8})
    for (int64_t columns = 2; columns < 70;
         columns += dtype == DType::F32 && columns < 36 ? 1 : 9) {
      SCOPED_TRACE(columns);
      TestGraph t;
      const V x = t.input({37, columns}, dtype);
      for (const Op op : {Op::sum, Op::prod, Op::amax, Op::amin})
        t.output(t.b.reduce(op, x, std::array<ir::Axis, 1>{0}));
      const ir::Buffer sampled = sample({dtype, {37, columns}}, 0);
      const Checked c = check_lowering(t.finish(), {sampled}, {}, tolerance_of(dtype));
      if (dtype == DType::F32) expect_in_order(sampled, c.run.outputs[0], 16);
    }
}

// As the gradients of a narrow layer, and those of its scales.
TEST(ColumnSums, BesideElements) {
  for (const int64_t columns : {3, 16, 24, 40, 64, 100}) {
    SCOPED_TRACE(columns);
    TestGraph t;
    Builder& b = t.b;
    const V x = t.input({50, columns}, DType::F32, ir::Strides{columns + 5, 1});
    const V grad = t.input({50, columns}), row = t.input({50, 1}), shift = t.input({columns});
    const V active = b.where(b.gt(b.add(x, shift), 0.0), grad, b.mul(grad, 0.0));
    t.output(active);
    t.output(b.sum(active, {0}));
    t.output(b.sum(b.mul(x, row), {0}));
    t.output(b.amax(b.mul(b.mul(x, x), grad), {0}));
    check_lowering(t.finish(), {}, {}, 1e-5);
  }
}

TEST(ColumnSums, OfRowsThatAreWrittenWhereTheyWereRead) {
  for (const int64_t columns : {3, 24, 100}) {
    TestGraph t;
    const V x = t.input({50, columns}), y = t.b.mul(x, x);
    t.output(y, {}, 0);
    t.output(t.b.sum(y, {0}));
    LowerOptions options;
    options.write_into_input = {0};
    check_lowering(t.finish(), {}, options);
  }
}

// A number for each row is computed once, whatever columns it is multiplied with.
TEST(ColumnSums, BesideNumbersOfRowsThatAreWrittenWhereTheyWereRead) {
  for (const int64_t columns : {16, 40, 64}) {
    SCOPED_TRACE(columns);
    TestGraph t;
    Builder& b = t.b;
    const V x = t.input({50, columns}), row = t.input({50, 1}), next = b.add(row, 1.0);
    t.output(next, {}, 1);
    const V y = b.mul(x, next);
    for (const Op op : {Op::sum, Op::prod, Op::amax, Op::amin})
      t.output(b.reduce(op, y, std::array<ir::Axis, 1>{0}));
    LowerOptions options;
    options.write_into_input = {0};
    check_lowering(t.finish(), {}, options, 1e-5);
  }
}

TEST(ColumnSums, OfRowsThatDataPicks) {
  for (const int64_t columns : {3, 16, 24}) {
    TestGraph t;
    const V table = t.input({9, columns}), index = t.input({50}, DType::I64);
    t.output(t.b.sum(t.b.index_select(table, 0, index), {0}));
    check_lowering(t.finish());
  }
}

TEST(ColumnSums, OfDimsBetweenOthers) {
  for (const int64_t columns : {5, 24, 100}) {
    TestGraph t;
    const V x = t.input({7, 33, columns});
    t.output(t.b.sum(x, {1}));
    t.output(t.b.sum(x, {0, 1}));
    t.output(t.b.amax(t.b.permute(x, {1, 0, 2}), {0}));
    check_lowering(t.finish());
  }
}

TEST(ColumnSums, OfSpecialNumbers) {
  const ir::Buffer triples = special_triples();
  ir::Buffer x({DType::F32, {3, 343}});
  for (int64_t column = 0; column < 343; ++column)
    for (int64_t row = 0; row < 3; ++row) x.set(343 * row + column, triples.at(3 * column + row));
  for (int64_t first = 0; first < 343; first += 49) {
    TestGraph t;
    const V few = t.b.slice(t.input({3, 343}), 1, ir::Dim(first), ir::Dim(first + 49), 1);
    for (const Op op : {Op::sum, Op::prod, Op::amax, Op::amin})
      t.output(t.b.reduce(op, few, std::array<ir::Axis, 1>{0}));
    const Checked c = check_lowering(t.finish(), {x});
    for (int64_t i = 0; i < 49; ++i)  // no sum is -0
      EXPECT_FALSE(c.run.outputs[0].at(i).to_double() == 0 &&
                   std::signbit(c.run.outputs[0].at(i).to_double()));
  }
}

// One expression combines up to 64 blocks; of more, groups are combined first.
TEST(ColumnSums, OfManyBlocks) {
  for (const int64_t rows : {127, 128, 129, 131, 4095 * 2, 4097 * 2 - 1}) {
    SCOPED_TRACE(rows);
    TestGraph t;
    const V x = t.input({rows, 3});
    t.output(t.b.sum(x, {0}));
    t.output(t.b.amax(x, {0}));
    t.output(t.b.reduce(Op::argmin, x, std::array<ir::Axis, 1>{0}));
    t.output(t.b.sum(t.input({2, rows, 5}), {1}));
    const ir::Buffer few = sample({DType::F32, {rows, 3}}, 0),
                     many = sample({DType::F32, {2, rows, 5}}, 1);
    const Checked c = check_lowering(t.finish(1, 2), {few, many}, {}, 1e-4);
    expect_in_order(few, c.run.outputs[0], 2);
  }
}

}  // namespace
}  // namespace tandem::codegen
