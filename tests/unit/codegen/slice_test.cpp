// What makes two groups equal, so that their kernel is built once.
#include "codegen/slice.h"

#include "check_lowering.h"
#include "codegen/fusion/fuse.h"

namespace tandem::codegen {
namespace {

const Shape kLarge = {100, 120};  // too large for neighbours to be fused to save a launch

/// One slice for each group of the graph; only outputs are stored.
std::vector<Slice> slices(const ir::Graph& graph) {
  const Program program = make_program(graph);
  Table<RootId, bool> stored;
  for (const Root& v : program.roots) stored.push_back(v.output >= 0);
  Slicer slicer(program, stored);
  std::vector<Slice> out;
  for (const Group& g : fuse(program)) out.push_back(slicer.cut({{g}}));
  return out;
}

V scaled_sine(TestGraph& t, V x, double factor) {
  return t.b.mul(t.b.emit(Op::sin, {x}), t.b.full(kLarge, DType::F32, factor));
}

/// The slices of two groups, each of a sine times a number.
std::vector<Slice> two(double first, double second) {
  TestGraph t;
  t.output(scaled_sine(t, t.input(kLarge), first));
  t.output(scaled_sine(t, t.input(kLarge), second));
  return slices(t.finish());
}

TEST(Slice, EqualGroupsOverOtherValuesAreEqual) {
  const auto s = two(2, 2);
  ASSERT_EQ(s.size(), 2u);
  EXPECT_EQ(s[0], s[1]);
  EXPECT_EQ(SliceHash()(s[0]), SliceHash()(s[1]));
}

TEST(Slice, ConstantsCountToTheBit) {
  EXPECT_NE(two(2, 3)[0], two(2, 3)[1]);
  EXPECT_NE(two(0.0, -0.0)[0], two(0.0, -0.0)[1]);
}

TEST(Slice, StridesOfOperandsCount) {
  TestGraph t;
  t.output(scaled_sine(t, t.input(kLarge), 2));
  t.output(scaled_sine(t, t.input(kLarge, DType::F32, ir::Strides{1, 100}), 2));
  const auto s = slices(t.finish());
  ASSERT_EQ(s.size(), 2u);
  EXPECT_NE(s[0], s[1]);
}

TEST(Slice, WhatIsStoredCounts) {
  TestGraph t;
  const V sine = t.b.emit(Op::sin, {t.input(kLarge)});
  t.output(t.b.emit(Op::neg, {sine}));
  t.output(sine);
  t.output(t.b.emit(Op::neg, {t.b.emit(Op::sin, {t.input(kLarge)})}));
  const auto s = slices(t.finish());
  ASSERT_EQ(s.size(), 2u);
  EXPECT_NE(s[0], s[1]);
}

TEST(Slice, EqualGroupsShareAKernelAndBindTheirOwnValues) {
  TestGraph t;
  for (int i = 0; i < 3; ++i) t.output(scaled_sine(t, t.input(kLarge), 2));
  const Checked c = check_lowering(t.finish());
  EXPECT_EQ(c.plan.report.kernels, 3);
  EXPECT_EQ(c.plan.report.distinct_kernels, 1);
}

}  // namespace
}  // namespace tandem::codegen
