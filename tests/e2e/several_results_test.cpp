// Operations of several results: each with a gradient of its own or none, eager and compiled; what
// they keep for backward; the user's own beside those of the table.
#include <gtest/gtest.h>
#include <tandem/graph.h>

#include <cmath>
#include <limits>

#include "machine/memory/allocator.h"
#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

using Numbers = std::vector<double>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Numbers numbers(const Tensor& t) { return t.to_vector<double>(); }

Tensor leaf(const Shape& sizes, uint64_t seed) { return noise(sizes, seed).requires_grad_(); }

// --- max and min along a dimension

TEST(SeveralResults, TheFirstOfEqualsIsNamedAndNanIsTheExtremum) {
  const Tensor x = tensor({{1, 3, 3}, {2, kNan, 5}, {-1, -1, -1}});
  const auto [values, indices] = max(x, 1);
  EXPECT_EQ(numbers(indices), (Numbers{1, 1, 0}));
  EXPECT_EQ(indices.dtype(), i64);
  EXPECT_TRUE(std::isnan(numbers(values)[1]));
  const auto least = x.min(-2, true);
  EXPECT_EQ(to_string(least.values.sizes()), "[1, 3]");
  EXPECT_EQ(numbers(least.indices), (Numbers{2, 1, 2}));
}

TEST(SeveralResults, TheValueIsTheElementThatTheIndexNames) {
  const Tensor x = zeros({2, 5});
  x.select(0, 0).fill_(-0.0);
  const auto signs = [](const Tensor& t) { return numbers(1 / max(t, 0).values); };
  const Numbers expected(5, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(signs(x), expected);
  EXPECT_EQ(numbers(compile([](const Tensor& t) { return 1 / max(t, 0).values; })(x)), expected);
}

TEST(SeveralResults, OfEveryDtypeAndOfNoDimension) {
  for (const DType dtype : {f64, f32, bf16, f16, i64, i32, i16, i8, u8, boolean}) {
    const Tensor x = tensor({{0, 1}, {1, 0}}).to(dtype);
    const auto [values, indices] = max(x, 0);
    EXPECT_EQ(values.dtype(), dtype);
    EXPECT_EQ(numbers(indices), (Numbers{1, 0}));
    EXPECT_EQ(numbers(aminmax(x, 1).min), (Numbers{0, 0}));
    EXPECT_EQ(numbers(x.aminmax().max), (Numbers{1}));
  }
  const auto [value, index] = max(tensor(3), -1, true);
  EXPECT_EQ(value.dim(), 0);
  EXPECT_EQ(index.item(), 0);
  EXPECT_EQ(max(zeros({0, 3}), 1).indices.numel(), 0);
}

TEST(SeveralResults, WhatHasNoExtremumIsRefused) {
  expect_error(Errc::Shape, "max: dimension 0 is empty", [] { max(zeros({0, 3}), 0); });
  expect_error(Errc::Shape, "aminmax: dimension 0 is empty", [] { aminmax(zeros({0})); });
  expect_error(Errc::Index, "min: dimension out of range", [] { min(zeros({2, 3}), 2); });
  expect_error(Errc::DType, "var_mean: operand is not floating", [] { var_mean(tensor({1, 2})); });
}

TEST(SeveralResults, TheGradientGoesToTheElementThatTheIndexNames) {
  const Tensor x = tensor({{1, 3, 3}, {2, 1, 0}}).to(f32).requires_grad_();
  const auto [values, indices] = max(x, 1);
  EXPECT_TRUE(values.requires_grad());
  EXPECT_FALSE(indices.requires_grad());
  values.backward(tensor({5.0, 7.0}));
  EXPECT_EQ(numbers(x.grad()), (Numbers{0, 5, 0, 7, 0, 0}));
}

// --- gradients through any of the results

struct Function {
  const char* name;
  std::vector<Tensor> (*call)(const Tensor& x);  // the floating results
};
const Function kFunctions[] = {
    {"max", [](const Tensor& x) { return Tensors{max(x, 1).values}; }},
    {"min of the first dim", [](const Tensor& x) { return Tensors{min(x, 0, true).values}; }},
    {"var_mean",
     [](const Tensor& x) {
       const auto [var, mean] = var_mean(x, {0, 2});
       return Tensors{var, mean};
     }},
    {"var_mean of all",
     [](const Tensor& x) {
       const auto [var, mean] = var_mean(x, {}, 0, true);
       return Tensors{var, mean};
     }},
    {"std_mean",
     [](const Tensor& x) {
       const auto [std, mean] = std_mean(x, {1}, 0);
       return Tensors{std, mean};
     }},
    {"aminmax",
     [](const Tensor& x) {
       const auto [least, most] = aminmax(x, -1);
       return Tensors{least, most};
     }},
    {"native_layer_norm",
     [](const Tensor& x) {
       const auto [y, mean, rstd] =
           native_layer_norm(x, {4, 5}, x.select(0, 0), x.select(0, 1), 1e-5);
       return Tensors{y, mean, rstd};
     }},
};

/// Those of `results` whose bit is set, each times another number.
Tensor weighted(const Tensors& results, unsigned chosen) {
  Tensor sum_of = zeros({});
  for (size_t i = 0; i < results.size(); ++i)
    if ((chosen >> i & 1) != 0)
      sum_of = sum_of + sum(results[i] * noise(results[i].sizes(), i + 7));
  return sum_of;
}

/// Central differences of `f` at x, in f64.
Numbers differences(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  constexpr double kStep = 1e-6;
  Numbers slopes;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const auto moved = [&](double by) {
      const Tensor y = x.detach().clone();
      y.view({-1}).select(0, i).add_(by);
      return f(y).item();
    };
    slopes.push_back((moved(kStep) - moved(-kStep)) / (2 * kStep));
  }
  return slopes;
}

void expect_near(const Numbers& expected, const Numbers& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(expected[i], got[i], 1e-5 * (1 + std::abs(expected[i]))) << i;
}

TEST(SeveralResults, GradientsThroughAnyOfThemAgreeWithDifferences) {
  for (const Function& function : kFunctions)
    for (unsigned chosen = 1; chosen < 8; ++chosen) {
      SCOPED_TRACE(std::string(function.name) + " " + std::to_string(chosen));
      const auto f = [&](const Tensor& x) { return weighted(function.call(x), chosen); };
      const Tensor x = noise({3, 4, 5}, 3, f64).requires_grad_();
      const Tensor y = f(x);
      if (!y.requires_grad()) continue;  // fewer results than bits
      const Tensor gradient = grad({y}, {x}, {.create_graph = true})[0];
      expect_near(differences(f, x), numbers(gradient));
      const auto slope = [&](const Tensor& at) {
        const Tensor own = at.requires_grad() ? at : at.detach().requires_grad_();
        const Tensor first = grad({f(own)}, {own}, {.create_graph = true})[0];
        return sum(first * noise({3, 4, 5}, 9));
      };
      const Tensor at_x = slope(x);
      if (!at_x.requires_grad()) continue;  // linear
      expect_near(differences(slope, x), numbers(grad({at_x}, {x})[0]));
    }
}

TEST(SeveralResults, CompiledAsEager) {
  for (const Function& function : kFunctions)
    for (unsigned chosen = 1; chosen < 8; ++chosen) {
      SCOPED_TRACE(std::string(function.name) + " " + std::to_string(chosen));
      const Program program = [&](const Tensors& in) {
        return Tensors{weighted(function.call(in[0]), chosen)};
      };
      check_compiled(program, [] { return Tensors{leaf({3, 4, 5}, 1)}; });
    }
}

TEST(SeveralResults, AStructureIsAResultOfACompiledFunction) {
  const auto f = compile([](const Tensor& x) { return max(x * 2, 1); });
  const Tensor x = leaf({3, 67}, 1);
  const ValuesAndIndices found = f(x), expected = max(x * 2, 1);
  expect_close(expected.values, found.values, 0, "values");
  expect_close(expected.indices, found.indices, 0, "indices");
  EXPECT_FALSE(found.indices.requires_grad());
  found.values.sum().backward();
  EXPECT_EQ(x.grad().sum().item(), 6);
}

TEST(SeveralResults, HalvesHaveTheGradientsOfWideArithmetic) {
  for (const DType dtype : {bf16, f16}) {
    const Tensor x = (noise({4, 33}, 1) + 30).to(dtype), g = noise({4, 33}, 2).to(dtype);
    const auto gradient = [&](DType computed) {
      const Tensor own = x.to(computed).requires_grad_();
      return grad({layer_norm(own, {33})}, {own}, {.grad_outputs = {g.to(computed)}})[0];
    };
    const Tensor rounded = gradient(f32).to(dtype);
    expect_close(rounded.to(f32), gradient(dtype).to(f32), 0.01, "gradient");
  }
}

// --- what is kept for backward

/// The bytes that live with what `f` gives, beyond those of its first result.
template <class F>
int64_t kept_beyond_result(F f) {
  const size_t before = machine::allocator_stats().live_bytes;
  const Tensor y = f();
  return static_cast<int64_t>(machine::allocator_stats().live_bytes - before) -
         y.numel() * static_cast<int64_t>(sizeof(float));
}

TEST(SeveralResults, LayerNormKeepsItsOperandsAndTheStatistics) {
  const Tensor x = leaf({256, 1024}, 1), w = leaf({1024}, 2), b = leaf({1024}, 3);
  const auto f = [](const Tensor& in, const Tensor& weight, const Tensor& bias) {
    return layer_norm(in, {1024}, weight, bias, 1e-5);
  };
  constexpr int64_t kStatistics = int64_t{2} * 256 * 4;
  EXPECT_EQ(kept_beyond_result([&] { return f(x, w, b); }), kStatistics);
  const auto compiled = compile(f);
  compiled(x, w, b);
  EXPECT_EQ(compiled.graphs(x, w, b).partition.saved_bytes, kStatistics);
}

TEST(SeveralResults, AWriteToAKeptResultIsNoticed) {
  const Tensor x = leaf({3, 5}, 1);
  const auto [y, mean, rstd] = native_layer_norm(x, {5}, {}, {}, 1e-5);
  {
    const NoGrad no_grad;
    rstd.add_(1);
  }
  expect_error(Errc::Version, "changed in place", [&] { y.sum().backward(); });
}

TEST(SeveralResults, OfEachOneMayBeWrittenThatIsNotKept) {
  const auto written = [](const Tensors& in) {
    const auto [var, mean] = var_mean(in[0] * in[1], {1});
    mean.mul_(2).add_(in[1].select(0, 0).sum());
    const auto [values, indices] = max(in[0] * in[1], 0);
    values.mul_(values);
    const auto [std, mean_again] = std_mean(in[0], {0});
    {
      const NoGrad no_grad;
      mean_again.fill_(3);
    }
    return Tensors{var, mean, values, indices, std, mean_again};
  };
  check_compiled(Program(written), [] { return Tensors{leaf({4, 5}, 1), leaf({4, 5}, 2)}; });
}

// --- the user's own

/// (least, most) along the last dimension, with its gradient.
const Operator& extremes() {
  static const Operator op = register_operator(
      {.schema = "test::extremes(Tensor x) -> (Tensor least, Tensor most)",
       .run = [](const Tensors& t, const std::vector<Number>&) -> Tensors {
         return {amin(t[0], -1), amax(t[0], -1)};
       },
       .shape =
           [](const std::vector<TensorType>& t, const std::vector<Number>&) {
             Shape sizes = t[0].sizes;
             sizes.erase(sizes.rank() - 1);
             return std::vector<TensorType>{{t[0].dtype, sizes}, {t[0].dtype, sizes}};
           },
       .gradient = [](const OperatorGradient& call) -> Tensors {
         const Tensor& x = call.arguments[0];
         Tensor sum_of = zeros_like(x);
         for (size_t i = 0; i < call.grads.size(); ++i)
           if (call.grads[i].defined())
             sum_of = sum_of + where(eq(x, call.results[i].unsqueeze(-1)),
                                     call.grads[i].unsqueeze(-1), zeros_like(x));
         return {sum_of};
       },
       .saves = {"x", "least", "most"}});
  return op;
}

TEST(SeveralResults, AnOperatorOfTheUsersIsOneOfTheTable) {
  const auto own = [](const Tensor& x) { return extremes()({x}); };
  const auto table = [](const Tensor& x) {
    const auto [least, most] = aminmax(x, -1);
    return Tensors{least, most};
  };
  for (unsigned chosen = 1; chosen < 4; ++chosen) {
    const Program by_own = [&](const Tensors& in) {
      return Tensors{weighted(own(in[0] * in[1]), chosen)};
    };
    const Program by_table = [&](const Tensors& in) {
      return Tensors{weighted(table(in[0] * in[1]), chosen)};
    };
    const auto inputs = [] { return Tensors{leaf({4, 67}, 1), leaf({4, 67}, 2)}; };
    check_compiled(by_own, inputs);
    check_compiled(by_table, inputs);
    const Tensors a = inputs(), b = inputs();
    compile(by_own)(a)[0].backward();
    compile(by_table)(b)[0].backward();
    for (size_t i = 0; i < a.size(); ++i) expect_close(b[i].grad(), a[i].grad(), 1e-6, "gradient");
  }
}

}  // namespace
}  // namespace tandem::testing
