// Which sources of scatters lie in memory, and which the scatter's own kernel makes.
#include "codegen/fusion/sources.h"

#include <random>

#include "tests/unit/codegen/check_lowering.h"

namespace tandem::codegen {
namespace {

constexpr int64_t kRows = 40, kSources = 400, kColumns = 48, kRepeats = 8;
const Shape kSums{kRows, kColumns}, kSource{kSources, kColumns};

/// Indices below kRows: one row has many sources, others none to a few.
ir::Buffer places() {
  ir::Buffer out({DType::I64, {kSources}});
  for (int64_t i = 0; i < kSources; ++i) out.set(i, i % 3 == 0 ? 7 : (i * i) % 37);
  return out;
}

/// A graph that adds, with `op`, what `make(graph)` gives at an index, and its inputs.
struct Additions {
  explicit Additions(Op scatter = Op::index_add) : op(scatter), index(input(places())) {}

  V input(ir::Buffer values, std::optional<ir::Strides> strides = {}) {
    const V v = t.input(values.type().sizes, values.type().dtype, std::move(strides));
    inputs.push_back(std::move(values));
    return v;
  }
  V sample_of(const Shape& sizes, DType dtype = DType::F32,
              std::optional<ir::Strides> strides = {}) {
    return input(sample({dtype, sizes}, static_cast<int>(inputs.size())), std::move(strides));
  }
  void add(V to, V sources) {
    if (op == Op::index_add) return t.output(t.b.index_add(to, 0, index, sources));
    const V over = t.b.expand(t.b.view(index, Shape{kSources, 1}), kSource);
    t.output(t.b.emit(op, {to, over, sources}, {int64_t{0}}));
  }
  V zeros() { return t.b.full(kSums, DType::F32, 0.0); }
  Checked check() { return check_lowering(t.finish(), inputs, {}, 1e-4); }  // of long sums

  Op op;
  TestGraph t;
  std::vector<ir::Buffer> inputs;
  V index;
};

V rows_times_weights(Additions& a) {
  Builder& b = a.t.b;
  const V table = a.sample_of({kRows, kColumns}), from = a.input(places());
  const V weights = a.sample_of({kSources, 1});
  return b.mul(b.index_select(table, 0, from), weights);
}

V repeated_rows(Additions& a) {
  Builder& b = a.t.b;
  const V rows = a.sample_of({kSources / kRepeats, 1, kColumns});
  return b.view(b.expand(rows, Shape{kSources / kRepeats, kRepeats, kColumns}), kSource);
}

size_t launches(const Plan& plan) { return plan.steps.size(); }

TEST(Sources, GatheredRowsTimesWeightsLieNowhere) {
  Additions a;
  a.add(a.zeros(), rows_times_weights(a));
  const Plan plan = a.check().plan;
  EXPECT_EQ(launches(plan), 1u) << print(plan);
  EXPECT_EQ(plan.arena_bytes, 0);
}

TEST(Sources, NorDoRowsThatRepeat) {
  Additions a;
  a.add(a.zeros(), repeated_rows(a));
  const Plan plan = a.check().plan;
  EXPECT_EQ(launches(plan), 1u) << print(plan);
}

TEST(Sources, OfEveryScatterInAnyPlace) {
  for (const Op op : {Op::index_add, Op::scatter, Op::scatter_add, Op::scatter_prod,
                      Op::scatter_amax, Op::scatter_amin})
    for (V (*make)(Additions&) : {rows_times_weights, repeated_rows})
      for (const bool to_input : {false, true}) {
        Additions a(op);
        a.add(to_input ? a.sample_of(kSums) : a.zeros(), make(a));
        const Plan plan = a.check().plan;
        EXPECT_EQ(launches(plan), to_input ? 2u : 1u) << print(plan);  // one copies
      }
}

TEST(Sources, OfDtypesAndStridesOfAnyKind) {
  for (const bool turned : {false, true}) {
    Additions a;
    Builder& b = a.t.b;
    const V halves = a.sample_of(kSource, DType::F16, ir::Strides{2 * kColumns + 3, 1});
    const V numbers = a.sample_of(kSource, DType::F32,
                                  turned ? ir::Strides{1, kSources} : ir::Strides{kColumns + 5, 1});
    const V row = a.sample_of({1, kColumns}), backwards = b.flip(a.sample_of(kSource), ir::Axes{1});
    const V sources = b.mul(b.sub(b.convert(halves, DType::F32), numbers), row);
    a.add(a.zeros(), b.add(sources, backwards));
    const Plan plan = a.check().plan;
    EXPECT_EQ(launches(plan), turned ? 2u : 1u) << print(plan);
  }
}

TEST(Sources, OfRowsThatAreMadeFirst) {
  Additions a;
  Builder& b = a.t.b;
  const V row = b.convert(a.sample_of({1, kColumns}, DType::BF16), DType::F32);
  a.add(a.zeros(), b.mul(a.sample_of(kSource), row));
  a.check();
}

TEST(Sources, OfBatches) {
  Additions a;
  Builder& b = a.t.b;
  const V x = a.sample_of({3, kSources, kColumns}), w = a.sample_of({3, 1, kColumns});
  a.t.output(b.index_add(b.full({3, kRows, kColumns}, DType::F32, 0.0), 1, a.index, b.mul(x, w)));
  EXPECT_EQ(launches(a.check().plan), 1u);
}

TEST(Sources, OfOneGroupGoToScattersOfTheirOwn) {
  Additions a;
  Builder& b = a.t.b;
  const V x = a.sample_of(kSource), y = a.sample_of(kSource);
  const V sum = b.add(x, y), difference = b.sub(x, y);
  a.add(a.zeros(), sum);
  a.add(a.zeros(), difference);
  a.t.output(b.mul(x, y));
  EXPECT_EQ(launches(a.check().plan), 3u);
}

TEST(Sources, ThatOthersReadAreKept) {
  Additions a;
  const V sources = rows_times_weights(a);
  a.add(a.zeros(), sources);
  a.t.output(sources);
  EXPECT_EQ(launches(a.check().plan), 2u);
}

TEST(Sources, OfLongFunctionsAreKept) {
  Additions a;
  a.add(a.zeros(), a.t.b.exp(a.sample_of(kSource)));
  EXPECT_EQ(launches(a.check().plan), 2u);
}

TEST(Sources, OfManyNodesAreKept) {
  Additions a;
  V x = a.sample_of(kSource);
  for (int i = 0; i < 9; ++i) x = a.t.b.add(a.t.b.mul(x, x), a.sample_of(kSource));
  a.add(a.zeros(), x);
  EXPECT_EQ(launches(a.check().plan), 2u);
}

TEST(Sources, WithNumbersOfTheirOwn) {
  Additions a;
  Builder& b = a.t.b;
  const V numbers = b.view(b.iota(kSources, DType::F32, 1.0, 0.5), Shape{kSources, 1});
  a.add(a.zeros(), b.mul(a.sample_of(kSource), numbers));
  a.check();
}

TEST(Sources, OfAnIndexThatTheyAreTheSameAs) {
  Additions a(Op::scatter_add);
  Builder& b = a.t.b;
  const V own =
      b.add(a.input(sample({DType::I64, kSource}, 2)), b.full(kSource, DType::I64, int64_t{1}));
  const V index = b.expand(b.slice(own, 1, ir::Dim(0), ir::Dim(1)), kSource);
  a.t.output(
      b.emit(Op::scatter_add, {b.full(kSums, DType::I64, int64_t{0}), index, own}, {int64_t{0}}));
  a.check();
}

TEST(Sources, AnIndexOutOfRangeFails) {
  for (const size_t which : {size_t{0}, size_t{2}})
    for (const int64_t wrong : {int64_t{-1}, int64_t{kRows}}) {
      Additions a;
      a.add(a.zeros(), rows_times_weights(a));
      const Plan plan = a.check().plan;
      a.inputs[which].set(11, wrong);
      EXPECT_THROW(test::PlanInterpreter(plan, kernel_runner).run(a.inputs), ir::Error);
    }
}

// Whatever the chain is, its sources are the same bits as those that lie in memory.
TEST(Sources, AreTheSameBitsWhereverTheyAreMade) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    std::vector<ir::Buffer> sums;
    for (const bool kept : {false, true}) {
      std::mt19937 random(seed);
      Additions a;
      Builder& b = a.t.b;
      V x = random() % 2 ? rows_times_weights(a) : repeated_rows(a);
      for (unsigned n = random() % 4; n-- > 0;) switch (random() % 4) {
          case 0:
            x = b.mul(x, a.sample_of({kSources, 1}));
            break;
          case 1:
            x = b.sub(a.sample_of({1, kColumns}), x);
            break;
          case 2:
            x = b.add(x, repeated_rows(a));
            break;
          default:
            x = b.maximum(x, b.index_select(a.sample_of(kSums), 0, a.input(places())));
        }
      a.add(random() % 2 ? a.zeros() : a.sample_of(kSums), x);
      if (kept) a.t.output(x);
      sums.push_back(a.check().run.outputs[0]);
    }
    expect_close(sums[0], sums[1], 0, "seed " + std::to_string(seed));
  }
}

}  // namespace
}  // namespace tandem::codegen
