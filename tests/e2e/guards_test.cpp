// Calls that a compiled variant does not fit: each is compiled again and does what eager does.
#include <gtest/gtest.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/check_compiled.h"

namespace tandem::testing {
namespace {

/// `fn` on two parts of `whole` elements from 0 and from `offset`; what the memory holds then.
template <class Fn>
Tensor after_overlapping_call(const Fn& fn, int64_t offset) {
  const Tensor whole = noise({8}, 1);
  fn(whole.slice(0, 0, 4), whole.slice(0, offset, offset + 4));
  return whole;
}

TEST(Guards, WhereTwoInputsOverlap) {
  const auto fn = [](const Tensor& a, const Tensor& b) {
    a.mul_(2.0);
    b.add_(a.select(0, 3) + 1.0);
  };
  const auto compiled = compile(fn);
  for (int64_t offset : {4, 2, 3, 0, 1, 3})
    expect_close(after_overlapping_call(fn, offset), after_overlapping_call(compiled, offset), 1e-6,
                 "offset " + std::to_string(offset));
}

/// What is compiled without grad mode has no backward, and the other way round.
TEST(Guards, GradMode) {
  const auto compiled = compile([](const Tensor& a) { return sum(a * a); });
  const Tensor a = noise({4}, 1).requires_grad_();
  for (bool enabled : {false, true, false, true}) {
    const std::optional<NoGrad> off = enabled ? std::nullopt : std::make_optional<NoGrad>();
    EXPECT_EQ(compiled(a).requires_grad(), enabled);
  }
}

/// A view made under NoGrad requires grad, but gets none.
TEST(Guards, WhetherGradientsReachAnArgument) {
  const auto compiled = compile([](const Tensor& a) { return sum(a * a); });
  for (bool under_no_grad : {true, false, true, false}) {
    const Tensor x = noise({4}, 1).requires_grad_();
    Tensor a = x;
    if (under_no_grad) {
      const NoGrad guard;
      a = x.view({4});
    }
    ASSERT_TRUE(a.requires_grad());
    compiled(a).backward();
    EXPECT_EQ(x.grad().defined(), !under_no_grad);
  }
}

TEST(Guards, WhetherTwoArgumentsAreOneTensor) {
  const auto fn = [](const Tensor& a, const Tensor& b) {
    a.add_(1.0);
    return b * 2.0;
  };
  const auto compiled = compile(fn);
  for (bool same : {false, true, false}) {
    const Tensor a = noise({4}, 1), b = same ? a : noise({4}, 2);
    const Tensor eager_a = noise({4}, 1), eager_b = same ? eager_a : noise({4}, 2);
    expect_close(fn(eager_a, eager_b), compiled(a, b), 1e-6, same ? "one tensor" : "two tensors");
  }
}

/// Views of the same elements are not one tensor: what changes one tensor leaves the other as it
/// was.
TEST(Guards, WhetherTwoArgumentsAreOneTensorOrViewsOfTheSame) {
  const auto fn = [](const Tensor& a, const Tensor& b) {
    a.unsqueeze_(0);
    a.add_(1.0);
    return b * 2.0;
  };
  const auto compiled = compile(fn);
  for (const bool same : {true, false, true, false}) {
    const auto result = [same](const auto& f) {
      const Tensor memory = noise({6}, 1), a = memory.slice(0, 1, 5);
      return f(a, same ? a : memory.slice(0, 1, 5));
    };
    const Tensor expected = result(fn), got = result(compiled);
    EXPECT_EQ(expected.sizes(), got.sizes());
    expect_close(expected, got, 1e-6, same ? "one tensor" : "views of the same");
  }
}

/// Calls that differ in sizes, dtype, layout, a number, or in what requires grad.
std::vector<std::pair<Tensor, double>> calls_of_many_kinds() {
  std::vector<std::pair<Tensor, double>> calls;
  for (const Shape& sizes : {Shape{}, Shape{0}, Shape{4}, Shape{2, 3}, Shape{3, 2}, Shape{1, 6}})
    for (const DType dtype : {DType::F32, DType::F64})
      for (const bool differentiated : {false, true})
        for (const double number : {0.0, -0.0, 2.0})
          calls.emplace_back(noise(sizes, 1).to(dtype).requires_grad_(differentiated), number);
  calls.emplace_back(noise({2, 3}, 1).t(), 2.0);
  calls.emplace_back(noise({1}, 1).expand({4}), 2.0);
  return calls;
}

TEST(Guards, EachOfManyVariantsServesTheCallsItWasMadeFor) {
  const auto fn = [](const Tensor& a, double number) { return a * a + number; };
  const auto compiled = compile(fn, {.name = "many kinds"});
  const auto made = [] {
    return std::ranges::count(compiled_graphs(), "many kinds",
                              [](const CompiledGraphs* g) { return g->traced.name; });
  };
  const auto calls = calls_of_many_kinds();
  for (const auto& [a, number] : calls) compiled(a, number);
  EXPECT_EQ(made(), calls.size());
  for (const auto& [a, number] : calls) {
    const Tensor expected = fn(a, number), got = compiled(a, number);
    EXPECT_EQ(got.dtype(), expected.dtype());
    EXPECT_EQ(got.requires_grad(), expected.requires_grad());
    expect_close(expected, got, 1e-6, std::to_string(number));
  }
  EXPECT_EQ(made(), calls.size()) << "none was made twice";
}

}  // namespace
}  // namespace tandem::testing
