// Sweeps over a row: what is kept for a later one, and in which one sums of columns are made.
#include "check_lowering.h"

namespace tandem::codegen {
namespace {

/// By sweep: loads and stores of locals in it.
std::vector<int> uses_of_locals(const Kernel& kernel) {
  std::vector<int> uses;
  bool in_row = false;
  for (const Instr& i : kernel.code) {
    if (i.kind == Instr::Kind::LoopBegin || i.kind == Instr::Kind::LoopEnd) {
      const bool begins = i.kind == Instr::Kind::LoopBegin;
      if (kernel.loops[i.loop].kind == Loop::Kind::Serial)
        in_row = begins;
      else if (begins && in_row)
        uses.push_back(0);
    }
    const bool accesses = i.kind == Instr::Kind::Load || i.kind == Instr::Kind::Store;
    if (in_row && accesses && i.access.is_local()) ++uses.back();
  }
  return uses;
}

/// The one kernel of a graph, of sums of up to 64 terms.
Kernel kernel_of(TestGraph& t) {
  const auto lowered = check_lowering(t.finish(4, 1024), {}, {}, 2e-5);
  EXPECT_EQ(lowered.plan.kernels.size(), 1u);
  return lowered.plan.kernels[KernelId{0}];
}

V normalised(TestGraph& t, V x) { return t.b.mul(t.b.sub(x, t.input({40, 1})), t.input({40, 1})); }

// What is the same along the row is read once for it, so it makes nothing worth keeping.
TEST(Sweeps, RowValuesCostNothing) {
  TestGraph t;
  const V x = normalised(t, t.input({40, 64}));
  t.output(t.b.mul(x, t.b.sum(x, {1}, true)));
  EXPECT_EQ(uses_of_locals(kernel_of(t)), (std::vector<int>{0, 0}));
}

TEST(Sweeps, WhatIsDearIsKept) {
  TestGraph t;
  const V x = t.b.exp(t.b.sin(t.input({40, 64})));
  t.output(t.b.mul(x, t.b.sum(x, {1}, true)));
  EXPECT_EQ(uses_of_locals(kernel_of(t)).front(), 1);
}

// A sum of columns is one load and one store of its local.
TEST(Sweeps, ColumnSumsGoWhereTheyCostLeast) {
  TestGraph of_first, of_second;
  {
    const V x = of_first.input({40, 64}), g = of_first.input({40, 64});
    of_first.output(of_first.b.sub(g, of_first.b.sum(x, {1}, true)));
    of_first.output(of_first.b.sum(x, {0}));
  }
  {
    const V x = of_second.input({40, 64}), g = of_second.input({40, 64});
    of_second.output(of_second.b.sub(g, of_second.b.sum(x, {1}, true)));
    of_second.output(of_second.b.sum(g, {0}));
  }
  EXPECT_EQ(uses_of_locals(kernel_of(of_first)), (std::vector<int>{2, 0}));
  EXPECT_EQ(uses_of_locals(kernel_of(of_second)), (std::vector<int>{0, 2}));
}

// Of a layer norm's backward one is made in each sweep.
TEST(Sweeps, ColumnSumsAreSharedOut) {
  TestGraph t;
  const V x = normalised(t, t.input({40, 64})), g = t.input({40, 64}), w = t.input({64});
  const V gw = t.b.mul(g, w);
  const V row = t.b.sub(gw, t.b.sum(gw, {1}, true));
  t.output(t.b.sub(row, t.b.mul(x, t.b.sum(t.b.mul(gw, x), {1}, true))));
  t.output(t.b.sum(t.b.mul(g, x), {0}));
  t.output(t.b.sum(g, {0}));
  EXPECT_EQ(uses_of_locals(kernel_of(t)), (std::vector<int>{2, 2}));
}

}  // namespace
}  // namespace tandem::codegen
