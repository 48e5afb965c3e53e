// Matmuls of merged batches, as attention's over heads: which copies they need.
#include <algorithm>

#include "check_lowering.h"
#include "machine/library/matmul.h"

namespace tandem::codegen {
namespace {

using ir::Dim;

struct Sizes {
  int64_t batch, time, heads, width;
  int64_t channels() const { return heads * width; }
};

/// Heads of one part, of `channels()`, of [batch, time, parts * channels()], in one batch.
V heads_of(Builder& b, V x, const Sizes& s, int64_t part) {
  const V own = b.slice(x, 2, Dim(part * s.channels()), Dim((part + 1) * s.channels()), 1);
  const V split = b.view(own, {s.batch, s.time, s.heads, s.width});
  return b.view(b.permute(split, {0, 2, 1, 3}), {s.batch * s.heads, s.time, s.width});
}

/// The heads side by side again.
V joined(Builder& b, V heads, const Sizes& s) {
  const V split = b.view(heads, {s.batch, s.heads, s.time, s.width});
  return b.view(b.permute(split, {0, 2, 1, 3}), {s.batch, s.time, s.channels()});
}

V transposed(Builder& b, V v) { return b.permute(v, {0, 2, 1}); }

/// Matmuls over heads, forward and backward; between them stands what computes elements.
void attention(TestGraph& t, const Sizes& s, bool with_backward) {
  Builder& b = t.b;
  const V x = t.input({s.batch, s.time, 3 * s.channels()});
  const V q = heads_of(b, x, s, 0), k = heads_of(b, x, s, 1), v = heads_of(b, x, s, 2);
  const V p = b.exp(b.mul(b.bmm(q, transposed(b, k)), b.full({}, DType::F32, 0.1)));
  t.output(joined(b, b.bmm(p, v), s));
  if (!with_backward) return;
  const V g = heads_of(b, t.input({s.batch, s.time, s.channels()}), s, 0);
  const V dv = b.bmm(transposed(b, p), g);
  const V ds = b.mul(b.bmm(g, transposed(b, v)), p);
  const V dq = b.bmm(ds, k), dk = b.bmm(transposed(b, ds), q);
  const V zero = b.full({s.batch, s.time, s.channels()}, DType::F32, 0.0);
  const V parts[] = {b.add(joined(b, dq, s), zero), b.add(joined(b, dk, s), zero),
                     b.add(zero, joined(b, dv, s))};
  t.output(b.cat(parts, 2));
}

int copies(const Plan& plan) {
  return static_cast<int>(std::ranges::count_if(plan.steps, [&](const Step& s) {
    const auto* launch = std::get_if<Launch>(&s);
    return launch && std::ranges::none_of(plan.kernels[launch->kernel].code, [](const Instr& i) {
             return i.kind == Instr::Kind::Compute && i.op != Op::clone;
           });
  }));
}

std::string matmuls(const Plan& plan) {
  std::string text = print(plan), out;
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    const std::string line = text.substr(at, end - at);
    if (const size_t from = line.find("matmul "); from != std::string::npos)
      out += line.substr(from) + "\n";
  }
  return out;
}

TEST(SplitBatches, AttentionReadsAndWritesThemInPlace) {
  TestGraph t;
  attention(t, {2, 5, 3, 4}, true);
  const Plan plan = check_lowering(t.finish()).plan;
  EXPECT_EQ(plan.report.kernels, 1);  // what computes elements
  EXPECT_EQ(plan.report.library_calls, 6);
  EXPECT_EQ(matmuls(plan),
            "matmul 2x3x[5, 5, 4] arena+0 (b 75 25, r 5) = "
            "input 0 (b 180 4, r 36, c 1) @ input 0+48 (b 180 4, r 1, c 36)\n"
            "matmul 2x3x[5, 5, 4] arena+640 (b 75 25, r 5) = "
            "input 1 (b 60 4, r 12, c 1) @ input 0+96 (b 180 4, r 1, c 36)\n"
            "matmul 2x3x[5, 4, 5] output 0 (b 60 4, r 12) = "
            "arena+0 (b 75 25, r 5, c 1) @ input 0+96 (b 180 4, r 36, c 1)\n"
            "matmul 2x3x[5, 4, 5] output 1+96 (b 180 4, r 36) = "
            "0 + arena+0 (b 75 25, r 1, c 5) @ input 1 (b 60 4, r 12, c 1)\n"
            "matmul 2x3x[5, 4, 5] output 1 (b 180 4, r 36) = "
            "0 + arena+640 (b 75 25, r 5, c 1) @ input 0+48 (b 180 4, r 36, c 1)\n"
            "matmul 2x3x[5, 4, 5] output 1+48 (b 180 4, r 36) = "
            "0 + arena+640 (b 75 25, r 1, c 5) @ input 0 (b 180 4, r 36, c 1)\n");
}

TEST(SplitBatches, NoCopyAtAnySizes) {
  for (const Sizes& s :
       {Sizes{2, 5, 3, 4}, Sizes{1, 7, 3, 2}, Sizes{3, 2, 2, 2}, Sizes{2, 17, 5, 9}}) {
    TestGraph t;
    attention(t, s, true);
    EXPECT_EQ(copies(check_lowering(t.finish()).plan), 0);
  }
}

TEST(SplitBatches, DegenerateSizesAreRight) {
  for (const Sizes& s : {Sizes{2, 5, 1, 4}, Sizes{1, 5, 1, 4}, Sizes{2, 1, 3, 4}, Sizes{2, 5, 3, 1},
                         Sizes{0, 5, 3, 4}, Sizes{2, 0, 3, 4}, Sizes{2, 5, 0, 4}, Sizes{2, 5, 3, 0},
                         Sizes{2, 600, 2, 3}}) {
    TestGraph t;
    attention(t, s, true);
    check_lowering(t.finish(), {}, {}, 1e-4);
  }
}

TEST(SplitBatches, KeysSharedByHeads) {
  const Sizes s{2, 5, 3, 4};
  TestGraph t;
  Builder& b = t.b;
  const V q = heads_of(b, t.input({2, 5, 12}), s, 0), one = t.input({2, 1, 5, 4});
  const V k = b.view(b.expand(one, {2, 3, 5, 4}), {6, 5, 4});
  t.output(joined(b, b.bmm(b.exp(b.bmm(q, transposed(b, k))), k), s));
  EXPECT_EQ(copies(check_lowering(t.finish()).plan), 0);
}

TEST(SplitBatches, ACopyIsMadeForOtherReaders) {
  const Sizes s{2, 5, 3, 4};
  TestGraph t;
  Builder& b = t.b;
  const V q = heads_of(b, t.input({2, 5, 12}), s, 0);
  const V y = b.bmm(q, transposed(b, q));
  t.output(y);
  t.output(q);
  EXPECT_EQ(copies(check_lowering(t.finish()).plan), 1);
}

TEST(SplitBatches, AResultWithOtherReadersIsCopied) {
  const Sizes s{2, 5, 3, 4};
  TestGraph t;
  Builder& b = t.b;
  const V q = heads_of(b, t.input({2, 5, 12}), s, 0);
  const V y = b.bmm(b.bmm(q, transposed(b, q)), q);
  t.output(joined(b, y, s));
  t.output(b.exp(y));
  check_lowering(t.finish());
}

TEST(SplitBatches, APartOfAConcatenationBesideOthers) {
  const Sizes s{2, 5, 3, 4};
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({2, 5, 12}), q = heads_of(b, x, s, 0);
  const V y = joined(b, b.bmm(b.exp(b.bmm(q, transposed(b, q))), q), s);
  const V parts[] = {b.cos(x), y, b.slice(x, 2, Dim(0), Dim(5), 1)};
  const V all = b.cat(parts, 2);
  t.output(b.sin(all));
  t.output(all);
  check_lowering(t.finish());
}

TEST(SplitBatches, PartsThatDependOnEachOtherAreJoinedAsBefore) {
  const Sizes s{2, 5, 3, 4};
  TestGraph t;
  Builder& b = t.b;
  const V q = heads_of(b, t.input({2, 5, 12}), s, 0);
  const V y = joined(b, b.bmm(b.bmm(q, transposed(b, q)), q), s);
  const V parts[] = {y, b.exp(y)};
  t.output(b.cat(parts, 2));
  const V twice = joined(b, b.bmm(b.bmm(q, transposed(b, q)), b.exp(q)), s);
  const V same[] = {twice, twice};
  t.output(b.cat(same, 2));
  check_lowering(t.finish());
}

TEST(SplitBatches, PartsOfBatchesAreReadWhereTheyLie) {
  if (!machine::is_stride_free(4, 9, 8)) GTEST_SKIP() << "the library's products";
  TestGraph t;
  Builder& b = t.b;
  const V q = t.input({6, 4, 8}), cache = t.input({2, 3, 20, 8});
  const V k = b.view(b.slice(cache, 2, Dim(2), Dim(15), 1), {6, 13, 8});
  const V steps = b.view(b.slice(cache, 2, Dim(0), Dim(20), 2), {6, 10, 8});
  t.output(b.bmm(b.exp(b.bmm(q, transposed(b, k))), k));
  t.output(b.bmm(q, transposed(b, steps)));
  EXPECT_EQ(copies(check_lowering(t.finish()).plan), 0);
}

TEST(SplitBatches, PartsOfConcatenationsAreWrittenWhereTheyLie) {
  if (!machine::is_stride_free(4, 9, 8)) GTEST_SKIP() << "the library's products";
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({7, 12}), w = t.input({12, 9}), v = t.input({12, 5});
  const V columns[] = {b.mm(x, w), t.input({7, 1}), b.mm(x, v)};
  t.output(b.cat(columns, 1));
  const V rows[] = {b.exp(x), b.mm(x, t.input({12, 12}))};
  t.output(b.cat(rows, 0));
  const Plan plan = check_lowering(t.finish()).plan;
  EXPECT_EQ(plan.report.library_calls, 3);
  EXPECT_EQ(matmuls(plan),
            "matmul 1x[7, 9, 12] output 0 (b 0, r 15) = "
            "input 0 (b 0, r 12, c 1) @ input 1 (b 0, r 9, c 1)\n"
            "matmul 1x[7, 5, 12] output 0+40 (b 0, r 15) = "
            "input 0 (b 0, r 12, c 1) @ input 2 (b 0, r 5, c 1)\n"
            "matmul 1x[7, 12, 12] output 1+336 (b 0, r 12) = "
            "input 0 (b 0, r 12, c 1) @ input 4 (b 0, r 12, c 1)\n");
}

/// Two products with the same matrix: one that lies in a wider one, one as if that had been saved.
TEST(SplitBatches, PartsOfRowsGiveTheBitsOfWholeOnes) {
  if (!machine::is_stride_free(4, 9, 8)) GTEST_SKIP() << "the library's products";
  for (const bool saved : {false, true}) {
    TestGraph t;
    Builder& b = t.b;
    const V x = saved ? t.input({7, 40}) : b.slice(t.input({7, 90}), 1, Dim(30), Dim(70), 1);
    t.output(b.mm(x, t.input({40, 9})));
    const Plan plan = check_lowering(t.finish()).plan;
    EXPECT_EQ(copies(plan), 0);
    EXPECT_EQ(std::get<MatmulCall>(plan.steps.back()).spec.a.row, saved ? 40 : 90);
  }
}

/// The matmul of heads of a part of a value that is computed here, or was saved.
MatmulCall matmul_of_part(bool saved) {
  const Sizes s{2, 5, 3, 4};
  TestGraph t;
  Builder& b = t.b;
  const V part = saved ? t.input({2, 5, 12}) : b.slice(t.input({2, 5, 36}), 2, Dim(12), Dim(24), 1);
  const V q = heads_of(b, part, s, 0);
  t.output(b.bmm(q, transposed(b, q)));
  const Plan plan = check_lowering(t.finish()).plan;
  EXPECT_EQ(plan.report.kernels, 0);
  return std::get<MatmulCall>(plan.steps.back());
}

TEST(SplitBatches, BitsAreFreeOfStridesWhateverWasSaved) {
  const MatmulCall computed = matmul_of_part(false), saved = matmul_of_part(true);
  EXPECT_EQ(computed.spec.a.row, 36);
  EXPECT_EQ(saved.spec.a.row, 12);
  EXPECT_TRUE(computed.spec.stride_free && saved.spec.stride_free);
}

TEST(SplitBatches, SumsThatAreCutReadCopies) {
  const Sizes s{2, 46, 2, 1024};
  TestGraph t;
  Builder& b = t.b;
  const V x = t.input({2, 46, 2 * 1024}), q = heads_of(b, x, s, 0);
  t.output(b.bmm(q, transposed(b, q)));
  const Plan plan = check_lowering(t.finish(), {}, {}, 1e-4).plan;
  EXPECT_EQ(copies(plan), 1);
  EXPECT_FALSE(std::get<MatmulCall>(plan.steps.back()).spec.stride_free);
}

}  // namespace
}  // namespace tandem::codegen
