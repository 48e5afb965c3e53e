// Lowering of small graphs: results against the reference interpreter, and how many kernels come
// out.
#include "check_lowering.h"
#include "codegen/nodes/program.h"

namespace tandem::codegen {
namespace {

using ir::Dim;

TEST(Lower, PointwiseChainIsOneKernel) {
  TestGraph t;
  const V x = t.input({7, 5}), y = t.input({7, 5});
  V v = t.b.add(x, y);
  for (int i = 0; i < 10; ++i) v = t.b.cos(v);
  t.output(t.b.mul(v, x));
  EXPECT_EQ(check_lowering(t.finish()).plan.report.kernels, 1);
}

TEST(Lower, TenCosineBackwardIsOneKernel) {
  TestGraph t;
  const V x = t.input({1000}), g = t.input({1000});
  std::vector<V> values = {x};
  for (int i = 0; i < 10; ++i) values.push_back(t.b.cos(values.back()));
  V d = g;
  for (int i = 10; i-- > 0;) d = t.b.mul(d, t.b.neg(t.b.sin(values[static_cast<size_t>(i)])));
  t.output(d);
  const auto lowered = check_lowering(t.finish());
  EXPECT_EQ(lowered.plan.report.kernels, 1);

  // Each cosine is consumed as soon as the next one has read it.
  std::string order;
  for (const Instr& i : lowered.plan.kernels[KernelId{0}].code)
    if (i.kind == Instr::Kind::Compute && i.op == ir::Op::cos)
      order += 'c';
    else if (i.kind == Instr::Kind::Compute && i.op == ir::Op::sin)
      order += 's';
  EXPECT_EQ(order, "ccscscscscscscscsss");
}

TEST(Lower, FunctionsOfWhatLiesWithinTheUnitInterval) {
  TestGraph t;
  const V x = t.input({40}), s = t.b.sin(x), c = t.b.cos(x);
  for (const Op op : {Op::exp, Op::sin, Op::cos, Op::tan, Op::asin, Op::atan, Op::tanh, Op::erf})
    t.output(t.b.emit(op, {s}));
  t.output(t.b.atan2(s, c));
  t.output(t.b.pow(t.b.abs(s), c));
  EXPECT_EQ(check_lowering(t.finish()).plan.report.kernels, 1);
}

TEST(Lower, BroadcastsAndPermutedInputs) {
  TestGraph t;
  const V x = t.input({4, 6, 5}, DType::F32, ir::Strides{5, 20, 1});
  const V row = t.input({5}), col = t.input({6, 1}), s = t.input({});
  V v = t.b.mul(t.b.add(t.b.add(x, row), col), s);
  t.output(v);
  t.output(t.b.permute(v, {2, 0, 1}));
  t.output(v, ir::Strides{5, 20, 1});
  EXPECT_EQ(check_lowering(t.finish()).plan.report.kernels, 1);
}

V softmax(Builder& b, V x, int dim) {
  const V e = b.exp(b.sub(x, b.amax(x, {dim}, true)));
  return b.div(e, b.sum(e, {dim}, true));
}

V softmax_backward(Builder& b, V y, V g, int dim) {
  const V s = b.sum(b.mul(y, g), {dim}, true);
  return b.mul(y, b.sub(g, s));
}

TEST(Lower, SoftmaxIsOneKernel) {
  for (const Shape& sizes : {Shape{6, 33}, Shape{2, 3, 4, 7}, Shape{1, 5}, Shape{300, 17}}) {
    TestGraph t;
    t.output(softmax(t.b, t.input(sizes), sizes.rank() - 1));
    EXPECT_EQ(check_lowering(t.finish(4, 1024)).plan.report.kernels, 1);
  }
}

TEST(Lower, SoftmaxBackwardIsOneKernel) {
  TestGraph t;
  const V y = t.input({6, 33}), g = t.input({6, 33});
  t.output(softmax_backward(t.b, y, g, 1));
  EXPECT_EQ(check_lowering(t.finish(4, 1024)).plan.report.kernels, 1);
}

TEST(Lower, SoftmaxOverAMiddleDim) {
  TestGraph t;
  t.output(softmax(t.b, t.input({3, 20, 5}), 1));
  check_lowering(t.finish(4, 8));
}

struct Norm {
  V y, centred, rstd;
};
Norm layer_norm(Builder& b, V x, V w, V bias) {
  const int last = b.rank(x) - 1;
  const V n = b.full({}, DType::F32, static_cast<double>(int64_t{b.sizes(x)[last]}));
  const V mean = b.div(b.sum(x, {last}, true), n);
  const V centred = b.sub(x, mean);
  const V var = b.div(b.sum(b.mul(centred, centred), {last}, true), n);
  const V rstd = b.rsqrt(b.add(var, 1e-5));
  return {b.add(b.mul(b.mul(centred, rstd), w), bias), centred, rstd};
}

TEST(Lower, LayerNormIsOneKernel) {
  for (const Shape& sizes : {Shape{6, 33}, Shape{2, 40, 48}}) {
    TestGraph t;
    const V x = t.input(sizes), w = t.input({sizes.back()}), bias = t.input({sizes.back()});
    const Norm n = layer_norm(t.b, x, w, bias);
    t.output(n.y);
    t.output(n.rstd);
    EXPECT_EQ(check_lowering(t.finish(4, 1024)).plan.report.kernels, 1);
  }
}

TEST(Lower, LayerNormBackward) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({70, 33}), w = t.input({33}), g = t.input({70, 33});
  const Norm n = layer_norm(b, x, w, w);
  const V normal = b.mul(n.centred, n.rstd);
  const V gw = b.mul(g, w);
  const V count = b.full({}, DType::F32, 33.0);
  const V m1 = b.div(b.sum(gw, {1}, true), count);
  const V m2 = b.div(b.sum(b.mul(gw, normal), {1}, true), count);
  t.output(b.mul(b.sub(b.sub(gw, m1), b.mul(normal, m2)), n.rstd));
  t.output(b.sum(b.mul(g, normal), {0}));
  t.output(b.sum(g, {0}));
  // one sweep with partial column sums, and their combination
  EXPECT_EQ(check_lowering(t.finish(4, 64)).plan.report.kernels, 2);
}

TEST(Lower, CrossEntropy) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({9, 21}), target = t.input({9}, DType::I64);
  const V max = b.amax(x, {1}, true);
  const V lse = b.log(b.sum(b.exp(b.sub(x, max)), {1}, true));
  const V logit = b.gather(x, 1, b.view(target, {9, 1}));
  const V loss = b.view(b.sub(lse, b.sub(logit, max)), {9});
  t.output(b.div(b.sum(loss), b.full({}, DType::F32, 9.0)));
  // rows to losses; losses to their mean
  EXPECT_EQ(check_lowering(t.finish(4, 64)).plan.report.kernels, 2);
}

TEST(Lower, CrossEntropyBackward) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({9, 21}), target = t.input({9}, DType::I64);
  const V p = softmax(b, x, 1);
  const V classes = b.iota(21, DType::I64);
  const V hit = b.eq(b.view(target, {9, 1}), classes);
  t.output(b.mul(b.sub(p, b.convert(hit, DType::F32)), 1.0 / 9));
  EXPECT_EQ(check_lowering(t.finish(4, 64)).plan.report.kernels, 1);
}

TEST(Lower, ColumnSums) {
  for (int64_t rows : {5, 16, 40, 700, 2000}) {
    TestGraph t;
    const V x = t.input({rows, 11}), y = t.input({rows, 11});
    const V g = t.b.mul(x, y);
    t.output(g);
    t.output(t.b.sum(g, {0}));
    t.output(t.b.amax(g, {0}));
    check_lowering(t.finish());
  }
}

// By pairs of neighbours. A node for each pair would be most of a large program.
TEST(Lower, PartialsOfColumnsAreCombinedByOneNode) {
  for (int64_t blocks : {2, 3, 5, 6, 7, 12, 24, 63}) {
    TestGraph t;
    t.output(t.b.sum(t.input({16 * blocks, 11}), {0}));
    const ir::Graph& graph = t.finish();
    EXPECT_EQ(make_program(graph).nodes.size(), 2u) << blocks;
    check_lowering(graph);
  }
}

TEST(Lower, CombinedPartialsBesideWhatLiesAcross) {
  TestGraph t;
  const V sums = t.b.sum(t.input({40, 16 * 5, 60}), {1});
  t.output(t.b.add(sums, t.b.permute(t.input({60, 40}), {1, 0})), ir::Strides{1, 40});
  check_lowering(t.finish());
}

TEST(Lower, ColumnReductionsOfManyColumnsAndMiddleDims) {
  TestGraph t;
  const V x = t.input({3, 50, 200}), wide = t.input({20, 5000});
  t.output(t.b.sum(x, {1}));
  t.output(t.b.sum(x, {0, 1}));
  t.output(t.b.sum(wide, {0}));
  check_lowering(t.finish());
}

TEST(Lower, FullReductions) {
  for (int64_t n : {1, 3, 16, 17, 100, 5000}) {
    TestGraph t;
    const V x = t.input({n, 3});
    const V s = t.b.sum(t.b.mul(x, x));
    t.output(t.b.sqrt(s));
    t.output(t.b.reduce(Op::prod, x, {}));
    t.output(t.b.amax(x, {0, 1}));
    check_lowering(t.finish(4, 64), {}, {}, 2e-5);
  }
}

TEST(Lower, ManyRunsOfSeveralBlocks) {
  TestGraph t;
  const V x = t.input({40, 100});
  t.output(t.b.sub(x, t.b.sum(x, {1}, true)));
  EXPECT_EQ(check_lowering(t.finish(4, 16)).plan.report.kernels, 1);
}

// Few long runs leave a partial of each block, which are combined pair by pair: not in the loop
// that reduces as many numbers in another order.
TEST(Lower, RunsOfTwoLengthsOfBlocks) {
  for (const bool sum_first : {false, true}) {
    TestGraph t;
    Builder& b = t.b;
    const V x = t.input({3, 100}), y = t.input({3, 7});
    const V before = b.sum(y, {1}), s = b.sum(x, {1}, true), after = b.sum(b.exp(y), {1});
    t.output(sum_first ? before : after);
    t.output(b.amax(b.mul(y, s), {1}));
    check_lowering(t.finish(4, 16));
  }
}

TEST(Lower, ReductionsOfEveryKind) {
  TestGraph t;
  const V x = t.input({6, 10}), k = t.input({6, 10}, DType::I32);
  const V m = t.b.gt(x, 0.0);
  for (int dim : {0, 1}) {
    const ir::Axes dims = {dim};
    for (Op op : {Op::sum, Op::prod, Op::amax, Op::amin, Op::argmax, Op::argmin}) {
      t.output(t.b.reduce(op, x, dims));
      t.output(t.b.reduce(op, k, dims, true));
    }
    t.output(t.b.reduce(Op::any, m, dims));
    t.output(t.b.reduce(Op::all, m, dims));
    t.output(t.b.reduce(Op::sum, m, dims));
  }
  check_lowering(t.finish());
}

TEST(Lower, ViewsOfEveryKind) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({4, 6, 8});
  const V y = b.sin(x);
  for (const V v : {x, y}) {
    t.output(b.cos(b.permute(v, {2, 0, 1})));
    t.output(b.neg(b.slice(v, 1, Dim(1), Dim(6), 2)));
    t.output(b.neg(b.diagonal(v, 1, 1, 2)));
    t.output(b.neg(b.diagonal(v, -2, 2, 0)));
    t.output(b.neg(b.view(v, {3, 8, 8})));
    t.output(b.neg(b.view(b.permute(v, {1, 0, 2}), {6, 32})));
    t.output(b.neg(b.flip(v, ir::Axes{0, 2})));
    t.output(b.neg(b.as_strided(v, {5, 3}, {7, 2}, 3)));
    t.output(b.slice(v, 0, Dim(1), Dim(2)));
    t.output(b.expand(b.slice(v, 0, Dim(1), Dim(2)), {3, 6, 8}));
  }
  check_lowering(t.finish());
}

/// `v` with its last two dims exchanged.
V transposed(Builder& b, V v) {
  const int rank = b.sizes(v).rank();
  ir::Axes order(static_cast<size_t>(rank));
  for (int d = 0; d < rank; ++d) order[static_cast<size_t>(d)] = d;
  std::swap(order[static_cast<size_t>(rank - 1)], order[static_cast<size_t>(rank - 2)]);
  return b.permute(v, order);
}

void expect_tiles(const Plan& plan, int64_t width, int64_t length) {
  ASSERT_EQ(plan.kernels.size(), 1u);
  int long_loops = 0;
  for (const Loop& loop : plan.kernels[KernelId{0}].loops) {
    if (loop.kind == Loop::Kind::Unit) continue;
    EXPECT_LE(loop.extent, length) << print(plan);
    long_loops += loop.extent > width;
  }
  EXPECT_LE(long_loops, 1) << print(plan);
}

// A kernel whose reads or writes run across rows works in tiles of 64 by 64, whatever the sizes; a
// copy in strips.
TEST(Lower, TransposedAccessesRunInTiles) {
  for (const Shape& sizes :
       {Shape{130, 200}, Shape{3, 65, 129}, Shape{2, 64, 64}, Shape{70, 9}, Shape{35, 600}})
    for (DType t : {DType::F32, DType::F64, DType::BF16, DType::I64, DType::U8, DType::Bool}) {
      TestGraph copy, both;
      copy.output(transposed(copy.b, copy.input(sizes, t)));
      expect_tiles(check_lowering(copy.finish()).plan, 64, 256);

      const V x = both.input(sizes, t);
      const V y = transposed(both.b, x), z = both.input(both.b.sizes(y), t);
      both.output(both.b.where(both.b.eq(y, z), y, z));
      expect_tiles(check_lowering(both.finish()).plan, 64, 64);
    }
}

// Rows that are reduced, and lie across memory, are transposed in whole.
TEST(Lower, RowsThatLieAcrossAreReducedInTiles) {
  for (const Shape& sizes : {Shape{130, 200}, Shape{3, 65, 129}, Shape{2, 700, 64}, Shape{33, 16}})
    for (DType t : {DType::F32, DType::F64}) {
      TestGraph g;
      const V x = transposed(g.b, g.input(sizes, t));
      const Shape rows = g.b.sizes(x);
      const int last = rows.rank() - 1;
      const V scale = g.input({rows[last]}, t), y = g.input(rows, t);
      const V top = g.b.reduce(Op::amax, x, ir::Axes{last}, true);
      const V e = g.b.exp(g.b.sub(g.b.mul(x, g.b.expand(scale, rows)), g.b.expand(top, rows)));
      const V sum = g.b.sum(e, {last}, true);
      g.output(top);
      g.output(g.b.sqrt(sum));
      g.output(g.b.div(e, g.b.expand(sum, rows)));
      const V least = g.b.reduce(Op::amin, y, ir::Axes{last}, true);
      g.output(transposed(g.b, g.b.mul(y, g.b.expand(least, rows))));
      check_lowering(g.finish());
    }
}

// A kernel of long rows that lie across works in tiles of few rows, each read by whole lines.
TEST(Lower, LongRowsThatLieAcrossMakeLowTiles) {
  TestGraph g;
  const V x = transposed(g.b, g.input({3000, 100}));
  const V y = g.b.sub(x, g.b.expand(g.b.reduce(Op::amax, x, ir::Axes{1}, true), {100, 3000}));
  g.output(g.b.exp(y));
  const Plan plan = check_lowering(g.finish()).plan;
  ASSERT_EQ(plan.kernels.size(), 1u);
  const Kernel& kernel = plan.kernels[KernelId{0}];
  ASSERT_EQ(kernel.locals.size(), 1u) << print(plan);
  EXPECT_EQ(kernel.locals[LocalId{0}].elements, 16 * 3000) << print(plan);
}

// The output's strides are those of a transposed tensor: the writes run across rows.
TEST(Lower, TransposedOutput) {
  for (const Shape& sizes : {Shape{130, 200}, Shape{65, 17}}) {
    TestGraph t;
    const V x = t.input(sizes);
    t.output(t.b.add(x, t.b.cos(x)));
    t.output(t.b.cos(x), ir::Strides{1, int64_t{sizes[0]}});
    check_lowering(t.finish());
  }
}

TEST(Lower, MergedHeads) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({2, 3, 4, 5});  // [b, h, t, d]
  const V w = t.input({15, 6});
  const V merged = b.view(b.permute(x, {0, 2, 1, 3}), {8, 15});
  t.output(b.mm(merged, w));
  t.output(b.mul(merged, t.input({8, 15})));
  check_lowering(t.finish());
}

TEST(Lower, ShapeOps) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({3, 4}), y = t.input({2, 4});
  const std::vector<V> parts = {b.exp(x), y, x};
  t.output(b.cat(parts, 0));
  t.output(b.pad(x, std::vector<Dim>{1, 2, 0, 3}, 7.0));
  t.output(b.slice_scatter(x, y, 0, 1, 3, 1));
  t.output(b.neg(b.slice_scatter(b.neg(x), b.slice(b.exp(x), 1, Dim(0), Dim(2)), 1, 0, 4, 2)));
  check_lowering(t.finish());
}

size_t steps_of(TestGraph& t) { return check_lowering(t.finish()).plan.steps.size(); }

// The parts of a row are written one after the other by one kernel, whatever their lengths and
// whatever makes them.
TEST(Lower, PartsOfRowsAreWrittenByOneKernel) {
  for (int64_t rows : {2, 40, 700}) {
    TestGraph cat, pad;
    const V x = cat.input({rows, 130}), y = cat.input({rows, 7}), z = cat.input({rows, 40});
    const V strided = cat.b.slice(z, 1, Dim(0), Dim(40), 2);
    cat.output(cat.b.cat(std::vector<V>{cat.b.exp(x), y, strided, cat.input({rows, 33})}, 1));
    EXPECT_EQ(steps_of(cat), 1u) << rows;
    pad.output(pad.b.pad(pad.input({rows, 33}), std::vector<Dim>{0, 0, 2, 5}, 7.0));
    EXPECT_EQ(steps_of(pad), 1u) << rows;
  }
}

// Parts that follow each other in memory, long rows, and a part that is written over another one or
// read by it keep kernels of their own.
TEST(Lower, PartsThatDoNotShareRowsAreApart) {
  TestGraph below, rows, over, chain;
  below.output(below.b.cat(std::vector<V>{below.input({40, 30}), below.input({50, 30})}, 0));
  EXPECT_EQ(steps_of(below), 2u);
  rows.output(rows.b.cat(std::vector<V>{rows.input({2, 9000}), rows.input({2, 9000})}, 1));
  EXPECT_EQ(steps_of(rows), 2u);
  const V x = over.input({40, 30});
  over.output(over.b.slice_scatter(x, over.input({40, 10}), 1, 3, 13, 1));
  EXPECT_EQ(steps_of(over), 2u);
  const V first = chain.b.cat(std::vector<V>{chain.input({40, 30}), chain.input({40, 30})}, 1);
  const V part = chain.b.slice(first, 1, Dim(1), Dim(31));
  chain.output(chain.b.cat(std::vector<V>{part, chain.input({40, 30})}, 1));
  EXPECT_EQ(steps_of(chain), 2u);
}

// A concatenation that only another one reads is written into that, at any depth.
TEST(Lower, ConcatenationsOfConcatenationsAreWrittenOnce) {
  for (const int64_t rows : {1, 3, 40}) {
    TestGraph t;
    Builder& b = t.b;
    const V x = t.input({rows, 30}), y = t.input({rows, 7}, DType::F32, ir::Strides{1, rows});
    V v = b.cat(std::vector<V>{x, b.exp(y)}, 1);
    for (int i = 0; i < 3; ++i) {
      v = b.cat(
          std::vector<V>{
              v, t.input({1, b.sizes(v)[1]}),
              b.cat(std::vector<V>{t.input({2, 5}), t.input({2, b.sizes(v)[1] - 5})}, 1)},
          0);
      v = b.cat(std::vector<V>{t.input({b.sizes(v)[0], 2}), v}, 1);
    }
    t.output(v);
    EXPECT_EQ(check_lowering(t.finish()).plan.report.arena_bytes, 0) << rows;
  }
}

TEST(Lower, ConcatenationsThatAreReadTwiceLieByThemselves) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({4, 30}), y = t.input({4, 7});
  const V both = b.cat(std::vector<V>{x, y}, 1), twice = b.cat(std::vector<V>{y, x}, 1);
  t.output(b.cat(std::vector<V>{both, t.input({2, 37})}, 0));
  t.output(b.exp(both));
  t.output(b.cat(std::vector<V>{twice, twice}, 0));
  const V given = b.cat(std::vector<V>{x, x}, 0);
  t.output(given);
  t.output(b.cat(std::vector<V>{given, given}, 1));
  check_lowering(t.finish());
}

// Products write their matrices into the concatenation of concatenations, and parts may be empty.
TEST(Lower, PartsOfInnerConcatenations) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({2, 8, 16}), y = t.input({2, 16, 4}), none = t.input({0});
  const V inner = b.cat(std::vector<V>{b.bmm(x, y), t.input({2, 8, 3})}, 2);
  const V empty = b.cat(std::vector<V>{none, t.input({0})}, 0);
  t.output(b.cat(std::vector<V>{inner, t.input({2, 0, 7}), t.input({2, 5, 7})}, 1));
  t.output(b.cat(std::vector<V>{t.input({3}), empty}, 0));
  check_lowering(t.finish());
}

bool streams(const Plan& plan) {
  for (const Kernel& k : plan.kernels)
    for (const Param& p : k.params)
      if (p.streams) return true;
  return false;
}

// What a kernel writes goes past the caches if it is large beside them, unless it is written in
// place; what a later step reads, if it fills them.
TEST(Lower, LargeSweepsStream) {
  const int64_t bytes = 4 * 40 * 32;
  TestGraph sum, spread, rows, table, in_place, read_again;
  sum.output(sum.b.add(sum.input({40, 32}), sum.input({40, 32})));
  EXPECT_TRUE(streams(lower(sum.finish(), {.cache_bytes = 3 * bytes})));
  EXPECT_FALSE(streams(lower(sum.finish(), {.cache_bytes = 4 * bytes})));
  EXPECT_FALSE(streams(lower(sum.finish())));
  const V few = spread.input({10, 1, 32});  // read again and again
  spread.output(spread.b.clone(spread.b.expand(few, {10, 4, 32})));
  EXPECT_TRUE(streams(lower(spread.finish(), {.cache_bytes = 2 * bytes})));
  EXPECT_FALSE(streams(lower(spread.finish(), {.cache_bytes = 3 * bytes})));
  rows.output(rows.b.sum(rows.input({40, 32}), ir::Axes{1}));
  EXPECT_FALSE(streams(lower(rows.finish(), {.cache_bytes = bytes})));
  table.output(table.b.index_select(table.input({40, 32}), 0, table.input({40}, DType::I64)));
  EXPECT_TRUE(streams(lower(table.finish(), {.cache_bytes = bytes})));
  const V x = in_place.input({40, 32});
  in_place.output(in_place.b.add(x, in_place.input({40, 32})), {}, 0);
  EXPECT_FALSE(streams(lower(in_place.finish(), {.write_into_input = {0}, .cache_bytes = bytes})));
  const V y = read_again.b.neg(read_again.input({32, 32}));
  read_again.output(y);
  read_again.output(read_again.b.sum(read_again.b.matmul(y, y), ir::Axes{0, 1}));
  EXPECT_FALSE(streams(lower(read_again.finish(), {.cache_bytes = 2 * 4 * 32 * 32})));
  EXPECT_TRUE(streams(lower(read_again.finish(), {.cache_bytes = 4 * 32 * 32})));
}

TEST(Lower, Scatters) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({4, 5}), d = t.input({4}), p = t.input({2, 3});
  t.output(b.emit(Op::diagonal_scatter, {x, d}, {Dim(1), int64_t{0}, int64_t{1}}));
  t.output(b.emit(Op::as_strided_scatter, {x, p},
                  {std::vector<Dim>{2, 3}, std::vector<Dim>{7, 2}, Dim(1)}));
  check_lowering(t.finish());
}

TEST(Lower, Embedding) {
  TestGraph t;
  Builder& b = t.b;
  const V table = t.input({5, 70}), index = t.input({6}, DType::I64), g = t.input({6, 70});
  const V rows = b.index_select(table, 0, index);
  t.output(b.mul(rows, g));
  t.output(b.index_add(b.full({5, 70}, DType::F32, 0.0), 0, index, g));
  t.output(b.index_select(table, 1, index));
  t.output(b.index_add(b.full({70}, DType::F32, 0.0), 0, index,
                       b.view(b.slice(g, 1, Dim(0), Dim(1)), {6})));
  check_lowering(t.finish());
}

// Row n has n sources; the one of row 1 is negative zeros, which begin with a zero.
TEST(Lower, SumsOfRowsAreWrittenOnce) {
  constexpr int64_t kRows = 100, kSources = 90;
  for (const int64_t columns : {200, 208}) {
    TestGraph t;
    const V index = t.input({kSources}, DType::I64), g = t.input({kSources, columns});
    t.output(t.b.index_add(t.b.full({kRows, columns}, DType::F32, 0.0), 0, index, g));
    t.output(t.b.index_add(t.input({kRows, columns}), 0, index, g));
    std::vector<ir::Buffer> inputs = {sample({DType::I64, {kSources}}, 0),
                                      sample({DType::F32, {kSources, columns}}, 1),
                                      ir::Buffer({DType::F32, {kRows, columns}})};
    int64_t at = 0;
    for (int64_t row = 0; at < kSources; ++row)
      for (int64_t i = 0; i < row && at < kSources; ++i) inputs[0].set(at++ * 37 % kSources, row);
    for (int64_t j = 0; j < columns; ++j) inputs[1].set(j, -0.0);
    const Checked cached = check_lowering(t.finish(), inputs);
    const Checked streamed = check_lowering(t.finish(), inputs, {.cache_bytes = 4096});
    EXPECT_FALSE(streams(cached.plan));
    EXPECT_TRUE(streams(streamed.plan));
    for (const Checked& c : {cached, streamed}) {
      expect_close(c.run.outputs[1], c.run.outputs[0], 0, "added to zeros in memory");
      EXPECT_FALSE(std::signbit(c.run.outputs[0].at(columns).to_double()));
    }
  }
}

// Rows that are long enough are shared out by their destination; the numbers of rows are no
// multiples of anything, and the last index is met often.
TEST(Lower, ScatterOfRows) {
  for (const auto& [rows, sources, columns] :
       {std::tuple{5, 40, 300}, std::tuple{77, 130, 65}, std::tuple{600, 100, 200}}) {
    TestGraph t;
    Builder& b = t.b;
    const V index = t.input({sources}, DType::I64), g = t.input({sources, columns});
    t.output(b.index_add(b.full({rows, columns}, DType::F32, -0.5), 0, index, g));
    t.output(b.index_add(t.input({rows, columns}), 0, index, g));
    const V batch = t.input({2, sources, columns});
    t.output(b.index_add(b.full({2, rows, columns}, DType::F32, 0.0), 1, index, batch));
    std::vector<ir::Buffer> inputs;
    for (const ir::Input& in : t.finish().inputs())
      inputs.push_back(sample(t.finish().type(in.value), static_cast<int>(inputs.size())));
    for (int64_t i = 0; i < sources; ++i) inputs[0].set(i, i % 3 == 0 ? rows - 1 : i * 37 % rows);
    const Checked done = check_lowering(t.finish(), inputs);
    EXPECT_EQ(done.plan.steps.size(), 4u) << print(done.plan);  // one of them copies
    EXPECT_TRUE(std::any_of(done.plan.kernels.begin(), done.plan.kernels.end(),
                            [](const Kernel& k) { return k.name == "scatter_add_rows"; }));
    inputs[0].set(3, rows);
    EXPECT_THROW(test::PlanInterpreter(done.plan, kernel_runner).run(inputs), ir::Error);
    inputs[0].set(3, -1);
    EXPECT_THROW(test::PlanInterpreter(done.plan, kernel_runner).run(inputs), ir::Error);
  }
}

/// A product and two scattered additions to it; `read_again`: and exp of the product itself.
Plan product_and_additions(bool read_again) {
  TestGraph t;
  Builder& b = t.b;
  const V index = t.input({40}, DType::I64), g = t.input({40, 64});
  const V product = b.mm(t.input({30, 20}), t.input({20, 64}));
  const V sum = b.index_add(product, 0, index, g);
  t.output(b.index_add(sum, 0, index, g));
  if (read_again) t.output(b.exp(product));
  return check_lowering(t.finish()).plan;
}

TEST(Lower, ScattersGoOnInTheMemoryOfWhatTheyAddTo) {
  const Plan alone = product_and_additions(false), read_again = product_and_additions(true);
  EXPECT_EQ(alone.steps.size(), 3u) << print(alone);
  EXPECT_EQ(alone.arena_bytes, 0) << print(alone);
  EXPECT_EQ(read_again.steps.size(), 4u) << print(read_again);  // the fourth copies and takes exp
}

TEST(Lower, ScattersLeaveWhatViewsShow) {
  TestGraph t;
  Builder& b = t.b;
  const V index = t.input({40}, DType::I64), g = t.input({40, 64});
  const V product = b.mm(t.input({30, 20}), t.input({20, 64}));
  t.output(b.index_add(b.view(product, {60, 32}), 0, index, b.slice(g, 1, Dim(0), Dim(32))));
  t.output(b.exp(product));
  check_lowering(t.finish());
}

// What a view shows ends with it: the copy to add to would be one onto itself.
TEST(Lower, ScattersGoOnInTheMemoryOfWhatAViewShows) {
  TestGraph t;
  Builder& b = t.b;
  const V index = t.input({40}, DType::I64), g = t.input({40, 32});
  const V product = b.mm(t.input({30, 20}), t.input({20, 64}));
  const V sum = b.index_add(b.view(product, {60, 32}), 0, index, g);
  t.output(b.neg(b.index_add(b.view(b.view(sum, {30, 64}), {60, 32}), 0, index, g)));
  const Plan plan = check_lowering(t.finish()).plan;
  EXPECT_EQ(plan.steps.size(), 4u) << print(plan);  // the product, two additions, neg
}

TEST(Lower, GatherAndScatterAdd) {
  for (int dim : {0, 1}) {
    TestGraph t;
    Builder& b = t.b;
    const V x = t.input({4, 5}), index = t.input({3, 4}, DType::I64), src = t.input({3, 4});
    t.output(b.exp(b.gather(x, dim, index)));
    t.output(b.scatter_add(x, dim, index, b.neg(src)));
    t.output(b.scatter(x, dim, index, b.neg(src)));
    check_lowering(t.finish());
  }
}

TEST(Lower, IndexOutOfRangeIsAnError) {
  TestGraph t;
  const V x = t.input({4, 5}), index = t.input({2}, DType::I64);
  t.output(t.b.index_select(x, 0, index));
  const Plan plan = lower(t.finish());
  std::vector<ir::Buffer> inputs = {sample({DType::F32, {4, 5}}, 0), ir::Buffer({DType::I64, {2}})};
  inputs[1].set(1, 4);
  EXPECT_THROW(test::PlanInterpreter(plan).run(inputs), ir::Error);
}

TEST(Lower, Contractions) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({5, 7}), w = t.input({4, 7}), bias = t.input({4});
  const V y = b.addmm(b.expand(bias, {5, 4}), x, b.permute(w, {1, 0}));
  t.output(y);
  t.output(b.mm(b.permute(y, {1, 0}), x));
  const V batch = t.input({3, 5, 7});
  t.output(b.bmm(batch, b.permute(batch, {0, 2, 1})));
  t.output(
      b.mm(b.slice(x, 1, Dim(0), Dim(7), 2), b.slice(b.permute(w, {1, 0}), 0, Dim(0), Dim(7), 2)));
  const Checked c = check_lowering(t.finish());
  EXPECT_EQ(c.plan.report.library_calls, 4);
}

TEST(Lower, HeadsAreConcatenatedInOneKernel) {
  TestGraph t;
  Builder& b = t.b;
  std::vector<V> parts;
  for (int i = 0; i < 3; ++i) {  // [batch, heads, time, channels]
    const V heads = b.permute(t.input({2, 3, 5, 16}), {0, 2, 1, 3});
    parts.push_back(b.add(b.view(heads, {2, 5, 48}), 1));
  }
  t.output(b.cat(parts, 2));
  EXPECT_EQ(check_lowering(t.finish()).plan.report.kernels, 1);
}

TEST(Lower, RowsOfAProductStartAsTheBias) {
  for (const bool is_row : {true, false}) {
    TestGraph t;
    Builder& b = t.b;
    const V x = t.input({5, 7}), w = t.input({7, 4}), addend = t.input({is_row ? 4 : 5, 1});
    const V row = is_row ? b.permute(addend, {1, 0}) : addend;
    t.output(b.addmm(b.expand(row, {5, 4}), x, w));
    const Checked c = check_lowering(t.finish());
    EXPECT_EQ(c.plan.report.library_calls, 1);
    EXPECT_EQ(c.plan.report.kernels, is_row ? 0 : 1);  // a column has to be copied first
  }
}

/// The strides of the operands of [4, 6] x [6, 5], whose second operand is made of a part of `w`,
/// which is computed here or was saved.
std::array<int64_t, 6> operand_strides(bool saved) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({4, 6});
  const V part = saved ? t.input({5, 6}) : b.slice(t.input({5, 12}), 1, Dim(0), Dim(12), 2);
  t.output(b.mm(x, b.permute(part, {1, 0})));
  const Checked done = check_lowering(t.finish());
  const machine::MatmulSpec& s = std::get<MatmulCall>(done.plan.steps.back()).spec;
  return {s.a.batch, s.a.row, s.a.col, s.b.batch, s.b.row, s.b.col};
}

TEST(Lower, MatmulsReadTheSameStridesWhateverWasSaved) {
  EXPECT_EQ(operand_strides(false), operand_strides(true));
  EXPECT_EQ(operand_strides(true), (std::array<int64_t, 6>{0, 6, 1, 0, 1, 6}));
}

TEST(Lower, MatmulsHaveThePrecisionThatIsAskedFor) {
  using enum machine::MatmulPrecision;
  TestGraph t;
  t.output(t.b.mm(t.input({4, 6}), t.input({6, 5})));
  const ir::Graph graph = t.finish();
  EXPECT_EQ(std::get<MatmulCall>(lower(graph).steps.back()).spec.precision, Highest);
  const Plan high = lower(graph, {.matmul_precision = High});
  EXPECT_EQ(std::get<MatmulCall>(high.steps.back()).spec.precision, High);
  EXPECT_NE(print(high).find(", high precision"), std::string::npos);
  EXPECT_EQ(print(lower(graph)).find("precision"), std::string::npos);
}

TEST(Lower, GeneratedContractions) {
  for (DType dtype : {DType::F64, DType::I64, DType::I32}) {
    TestGraph t;
    Builder& b = t.b;
    const V x = t.input({7, 5}, dtype), w = t.input({70, 5}, dtype), c = t.input({70}, dtype);
    const V y = b.addmm(b.expand(c, {7, 70}), x, b.permute(w, {1, 0}));
    t.output(y);
    t.output(b.mm(b.permute(x, {1, 0}), y));
    const V batch = t.input({3, 4, 6}, dtype);
    t.output(b.bmm(batch, b.permute(batch, {0, 2, 1})));
    EXPECT_EQ(check_lowering(t.finish()).plan.report.generated_contractions, 3);
  }
}

TEST(Lower, EmptyTensors) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({0, 4}), y = t.input({3, 0}), w = t.input({4, 2});
  t.output(b.exp(x));
  t.output(b.sum(x, {0}));
  t.output(b.sum(y, {1}));
  t.output(b.mm(x, w));
  t.output(b.mm(y, x));
  t.output(b.addmm(t.input({3, 4}), y, x));
  t.output(b.cat(std::vector<V>{x, b.permute(w, {1, 0})}, 0));
  check_lowering(t.finish());
}

TEST(Lower, Scalars) {
  TestGraph t;
  const V x = t.input({}), y = t.input({1, 1});
  t.output(t.b.exp(t.b.mul(x, y)));
  t.output(t.b.sum(x));
  t.output(t.b.full({2, 2}, DType::I64, 3));
  t.output(t.b.iota(5, DType::F32, 0.5, 0.25));
  check_lowering(t.finish());
}

TEST(Lower, OutputsThatAreInputsOrEachOther) {
  TestGraph t;
  const V x = t.input({3, 4}), y = t.b.exp(x);
  t.output(x);
  t.output(y);
  t.output(y);
  t.output(t.b.permute(x, {1, 0}));
  t.output(t.b.permute(y, {1, 0}), ir::Strides{1, 4});
  t.output(x);
  ir::Graph& graph = t.finish();
  graph.outputs().back().role = ir::Role::Saved;
  const Checked c = check_lowering(graph);
  EXPECT_EQ(c.plan.outputs[0].from_input, -1);  // a result has memory of its own
  EXPECT_EQ(c.plan.outputs[1].from_input, -1);
  EXPECT_EQ(c.plan.outputs[5].from_input, 0);
  EXPECT_EQ(c.plan.arena_bytes, 0);
}

TEST(Lower, WritesIntoInputs) {
  TestGraph t;
  Builder& b = t.b;
  const V p = t.input({100}), g = t.input({100}), m = t.input({100});
  const V m2 = b.add(b.mul(m, 0.9), g);
  t.output(m2, {}, 2);
  t.output(b.sub(p, b.mul(m2, 0.1)), {}, 0);
  const Checked c = check_lowering(t.finish(), {}, {.write_into_input = {0, 1}});
  EXPECT_EQ(c.plan.report.kernels, 1);
  EXPECT_EQ(c.plan.outputs[0].into_input, 2);
  EXPECT_EQ(c.plan.outputs[1].into_input, 0);
}

TEST(Lower, AnInputReadLaterIsNotOverwritten) {
  TestGraph t;
  Builder& b = t.b;
  const V p = t.input({6, 6});
  t.output(b.mul(p, 2.0), {}, 0);
  t.output(b.mm(p, p));
  t.output(b.flip(p, ir::Axes{0}));
  const Checked c = check_lowering(t.finish(), {}, {.write_into_input = {0}});
  if (c.plan.outputs[0].into_input == 0)
    expect_close(c.run.inputs[0], c.run.outputs[0], 0, "written input");
}

TEST(Lower, TinyGraphsAreOneKernel) {
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({16}), y = t.input({16});
  const V loss = b.sum(b.mul(b.sin(x), y));
  const V scale = b.exp(loss);
  t.output(loss);
  t.output(b.mul(x, scale));
  EXPECT_EQ(check_lowering(t.finish(16, 64)).plan.report.kernels, 1);
}

TEST(Lower, RandomBits) {
  TestGraph t;
  const V rng = t.input({2}, DType::I64);
  for (DType dtype : {DType::I32, DType::I64})
    t.output(t.b.emit(Op::random_bits, {rng}, {std::vector<Dim>{5, 7}, dtype, Dim(3)}));
  check_lowering(t.finish());
}

TEST(Lower, EqualLayersShareTheirKernels) {
  TestGraph t;
  Builder& b = t.b;
  V x = t.input({8, 8});
  const V w = t.input({8, 8});
  for (int i = 0; i < 6; ++i) x = b.mm(b.sigmoid(x), w);
  t.output(x);
  const Plan plan = check_lowering(t.finish(), {}, {}, 1e-4).plan;
  EXPECT_EQ(plan.report.kernels, 6);
  EXPECT_EQ(plan.report.distinct_kernels, 2);  // the first reads the input, the others run in place
  EXPECT_LE(plan.arena_bytes, 2 * 256);
}

// (What an operation of several results reads, and some of these, may be empty.)
TEST(Lower, WhatIsEmptyTakesNoMemoryBesideWhatIsNot) {
  TestGraph t;
  Builder& b = t.b;
  const V w = t.input({8, 8}), first = b.mm(w, w), no_columns[] = {t.input({8, 0})};
  V x = b.mm(first, b.emit_all(Op::qr, no_columns, {true})[0]);
  for (int i = 0; i < 5; ++i) x = b.mm(x, first);
  t.output(x);
  const Plan plan = check_lowering(t.finish(), {}, {}, 1e-4).plan;
  EXPECT_EQ(plan.arena_bytes, 3 * 256) << print(plan);
}

// (Without guard pages both fill a line of 64 bytes.)
TEST(Lower, BetweenGuardPagesNothingIsPutInThePlaceOfWhatIsSmaller) {
  TestGraph t;
  Builder& b = t.b;
  const V parts[] = {b.mm(t.input({1, 5}), t.input({5, 3})), t.input({1, 1})};
  t.output(b.mm(b.cat(parts, 1), t.input({4, 2})));
  const ir::Graph& graph = t.finish();
  EXPECT_EQ(lower(graph).arena_bytes, 64);
  EXPECT_EQ(lower(graph, {.guard_pages = machine::GuardPages::End}).arena_guards.size(), 3);
}

TEST(Lower, WhatDependsOnInputsAloneRunsWhenItIsNeeded) {
  constexpr int64_t kSide = 16, kMatrix = kSide * kSide * 4;
  constexpr int kSteps = 12;
  TestGraph t;
  Builder& b = t.b;
  V y = t.input({kSide, kSide});
  const V first = b.exp(t.input({kSide, kSide}));  // in one kernel with the last equation
  y = b.mm(y, first);
  for (int i = 0; i < kSteps; ++i) y = b.mm(y, b.exp(t.input({kSide, kSide})));
  t.output(b.mm(y, b.sin(first)));
  const Plan plan = lower(t.finish());
  EXPECT_LE(plan.arena_bytes, 6 * kMatrix);
}

TEST(Lower, LongChainsTakeLinearTime) {
  TestGraph t;
  const V x = t.input({64}), y = t.input({64});
  V v = x;
  for (int i = 0; i < 20000; ++i) v = i % 2 == 0 ? t.b.add(v, y) : t.b.mul(v, y);
  t.output(v);
  const Plan plan = lower(t.finish());
  EXPECT_LT(plan.report.kernels, 400);
}

}  // namespace
}  // namespace tandem::codegen
