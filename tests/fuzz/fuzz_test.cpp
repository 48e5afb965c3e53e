// 2,000 random programs, in parts that run side by side, and gradients of 400 against differences.
// `./dev fuzz` runs more of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/text/text.h"
#include "tests/support/differential.h"

namespace tandem::testing {
namespace {

constexpr int kParts = 20, kProgramsPerPart = 100;

class RandomPrograms : public ::testing::TestWithParam<int> {};

TEST_P(RandomPrograms, Agree) {
  Tally tally;
  int differing = 0;
  // Each part has seeds of its own: it redraws from those that follow.
  for (uint64_t seed = static_cast<uint64_t>(GetParam()) * 1'000'000;
       tally.programs < kProgramsPerPart && tally.unstable < kProgramsPerPart && differing < 3;
       ++seed) {
    const Verdict verdict = check_program(seed);
    tally.add(verdict);
    differing += verdict.kind == Verdict::Kind::Differ;
    EXPECT_NE(verdict.kind, Verdict::Kind::Differ) << verdict.message;
  }
  fmt::print("{}\n", tally.summary());
  if (differing > 0) return;
  EXPECT_LE(tally.unstable, kProgramsPerPart / 5);
  EXPECT_GE(tally.reductions, kProgramsPerPart / 3);
  EXPECT_GE(tally.contractions, kProgramsPerPart / 3);
  EXPECT_GE(tally.view_writes, kProgramsPerPart / 3);
  EXPECT_GE(tally.random, kProgramsPerPart / 5);
}

INSTANTIATE_TEST_SUITE_P(Short, RandomPrograms, ::testing::Range(0, kParts));

/// What is said of x == asin(x), which are less than a rounding apart where x is small.
Verdict::Kind verdict_on_asin(double x) {
  ir::Buffer contents({ir::DType::F32, {1}});
  contents.set(0, x);
  const auto program_in = [&](const std::string& dtype) {
    const std::string type = dtype + "[1]";
    return RandomProgram{
        .graph = ir::parse("graph @near traced {\n  in %x: " + type + " primal\n  %1: " + type +
                           " = asin %x\n  %2: bool[1] = eq %x, %1\n"
                           "  out %2: result name=y\n}\n"),
        .contents = {{"x", contents}}};
  };
  return check_program(program_in("f32"), program_in("f64"), 1).kind;
}

TEST(NearDecisions, WhatIsLessThanARoundingApartMayBeEqual) {
  EXPECT_EQ(verdict_on_asin(0), Verdict::Kind::Agree);
  EXPECT_EQ(verdict_on_asin(1e-5), Verdict::Kind::Unstable);
  EXPECT_EQ(verdict_on_asin(0.25), Verdict::Kind::Agree);
}

/// A product of an input that is written behind it:
/// compared between partitions, of which this seed takes recompute-all.
Verdict verdict_on_written_operand(const std::string& strides) {
  const auto program_in = [&](const std::string& dtype) {
    const auto typed = [&](const std::string& sizes) { return dtype + sizes; };
    return RandomProgram{
        .graph = ir::parse(
            "graph @written traced {\n  in %x: " + typed("[8, 2]") +
            " primal requires_grad strides=" + strides + "\n  %1: " + typed("[2, 8]") +
            " = transpose %x {dim0=0, dim1=1}\n  %2: " + typed("[8, 8]") +
            " = mm %x, %1 {algorithm=\"\"}\n  copy_ %x, %x\n" + "  %3: " + typed("[8, 8]") +
            " = tanh %2\n" + "  out %3: result name=y requires_grad\n}\n")};
  };
  return check_program(program_in("f32"), program_in("f64"), 1000046369);
}

TEST(Partitions, ReadCopiesOfInputsAsTheInputs) {
  for (const char* strides : {"[2, 1]", "[1, 8]", "[3, 25]", "[4, 2]"})
    EXPECT_EQ(verdict_on_written_operand(strides).message, "") << strides;
}

class RandomGradients : public ::testing::TestWithParam<int> {};

TEST_P(RandomGradients, AreDerivatives) {
  int compared = 0;
  for (uint64_t seed = static_cast<uint64_t>(GetParam()) * 1'000'000; compared < 100; ++seed) {
    const GradientVerdict verdict = check_gradient(seed);
    compared += verdict.compared;
    ASSERT_EQ(verdict.difference, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Short, RandomGradients, ::testing::Range(0, 4));

TEST(RandomTangents, AgreeWithGradients) {
  int compared = 0;
  for (uint64_t seed = 0; compared < 200; ++seed) {
    const GradientVerdict verdict = check_tangents(seed);
    compared += verdict.compared;
    ASSERT_EQ(verdict.difference, "");
  }
}

TEST(RandomVmap, IsALoop) {
  int compared = 0;
  for (uint64_t seed = 0; compared < 200; ++seed) {
    const GradientVerdict verdict = check_vmap(seed);
    compared += verdict.compared;
    ASSERT_EQ(verdict.difference, "");
  }
}

TEST(RandomGraph, IsTheSameForASeed) {
  const ProgramOptions options{.samples = true};
  for (uint64_t seed = 0; seed < 50; ++seed)
    EXPECT_EQ(random_program(seed, options).graph, random_program(seed, options).graph);
}

}  // namespace
}  // namespace tandem::testing
