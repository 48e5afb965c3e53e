// Gradients of parts of a tensor: brought together, they have the bits of the sum of all, each
// between zeros, which is what a gradient that is itself differentiated is.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <functional>
#include <limits>

namespace tandem::testing {
namespace {

using Function = std::function<Tensor(const Tensor& x)>;

const std::vector<std::pair<const char*, Function>>& functions() {
  static const std::vector<std::pair<const char*, Function>> all{
      {"split and joined", [](const Tensor& x) { return cat(chunk(x, 4, 1), 0); }},
      {"split unevenly",
       [](const Tensor& x) { return cat({x.slice(1, 5), x.slice(1, 0, 5)}, 1) * 2; }},
      {"with gaps", [](const Tensor& x) { return cat({x.slice(0, 1, 2), x.slice(0, 4, 7)}); }},
      {"one part", [](const Tensor& x) { return x.slice(1, 3, 9).contiguous(); }},
      {"an empty part", [](const Tensor& x) { return cat({x.slice(0, 2, 2), x.slice(0, 5)}); }},
      {"over one another",
       [](const Tensor& x) { return cat({x.slice(0, 0, 5), x.slice(0, 3, 8), x.slice(0, 0, 2)}); }},
      {"twice the same", [](const Tensor& x) { return x.slice(0, 1, 3) * x.slice(0, 1, 3); }},
      {"of two dims",
       [](const Tensor& x) { return x.slice(0, 0, 4).sum() + x.slice(1, 2).sum() + x[3].sum(); }},
      {"beside the whole",
       [](const Tensor& x) { return cat({x, x.slice(0, 2, 4), x * 3, x.slice(0, 4, 6)}); }},
      {"with steps", [](const Tensor& x) { return cat({x.slice(0, 0, {}, 2), x.slice(0, 3)}); }},
      {"all columns, one by one",
       [](const Tensor& x) {
         Tensor sum = x.select(1, 0);
         for (int64_t i = 1; i < x.size(1); ++i) sum = sum * 0.5 + x.select(1, i);
         return sum;
       }},
      {"backwards", [](const Tensor& x) { return stack({x[-1], x[2], x[-3], x[2]}); }},
      {"parts of parts", [](const Tensor& x) { return cat(chunk(x.slice(0, 2)[1], 3)); }},
  };
  return all;
}

/// Numbers, some of which are -0, infinite or NaN.
Tensor odd_numbers(const Shape& sizes, DType dtype) {
  const Tensor x = randn(sizes, dtype), kind = randint(0, 12, sizes);
  const double inf = std::numeric_limits<double>::infinity();
  return where(kind < 4, full({}, -0.0, dtype), where(kind == 4, x * inf, x));
}

void expect_same_bits(const Tensor& got, const Tensor& expected, const char* what) {
  EXPECT_EQ(got.dtype(), expected.dtype()) << what;
  EXPECT_TRUE(equal(isnan(got), isnan(expected))) << what;
  EXPECT_TRUE(equal(nan_to_num(got, 7), nan_to_num(expected, 7))) << what;
  const Tensor counts = logical_not(isnan(got));
  EXPECT_TRUE(equal(logical_and(signbit(got), counts), logical_and(signbit(expected), counts)))
      << what;
}

void expect_sums(const Shape& sizes, DType dtype) {
  for (const auto& [name, f] : functions()) {
    const Tensor x = randn(sizes, dtype).requires_grad_();
    const Tensor tangent = odd_numbers(f(x).sizes(), dtype);
    const Tensor got = grad({f(x)}, {x}, {.grad_outputs = {tangent}})[0];
    const Tensor expected = grad({f(x)}, {x}, {.grad_outputs = {tangent}, .create_graph = true})[0];
    expect_same_bits(got, expected, name);
    EXPECT_TRUE(got.is_contiguous()) << name;
  }
}

TEST(GradientSum, OfPartsIsThatOfAllBetweenZeros) {
  manual_seed(3);
  for (const DType dtype : {f32, f64, bf16, f16}) {
    expect_sums({8, 12}, dtype);
    expect_sums({8, 72}, dtype);
    expect_sums({9, 4, 700}, dtype);
  }
}

TEST(GradientSum, HooksSeeEachPart) {
  const Tensor x = ones({4, 3}).requires_grad_();
  const Tensor top = x.slice(0, 0, 2), rest = x.slice(0, 2);
  top.register_hook([](const Tensor& g) { return g * 10; });
  const Tensor y = cat({rest, top});
  y.backward(ones({4, 3}));
  EXPECT_TRUE(equal(x.grad(), cat({full({2, 3}, 10), ones({2, 3})})));
  EXPECT_TRUE(x.grad().is_contiguous());
}

TEST(GradientSum, LeavesTheTangentAsItIs) {
  const Tensor x = ones({4, 3}).requires_grad_(), tangent = ones({2, 3});
  x.slice(0, 1, 3).backward(tangent);
  x.slice(0, 0, 2).backward(tangent);
  EXPECT_TRUE(equal(tangent, ones({2, 3})));
  EXPECT_TRUE(equal(x.grad().select(1, 0), tensor({1., 2., 1., 0.}).to(f32)));
}

}  // namespace
}  // namespace tandem::testing
