// 16-bit floats: products with vectors and sums over long runs against f64 in any layout, eager
// against compiled, the same bits at any number of threads; every pattern through what chooses.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <functional>
#include <limits>

#include "tests/support/threads.h"

namespace tandem {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
using Tensors = std::vector<Tensor>;

/// The same values with gaps, at an offset, or with the last two dimensions swapped in memory.
Tensors layouts_of(const Tensor& t) {
  const Tensor wide = cat({t.new_zeros(t.sizes()), t, t}, -1);
  const Tensor apart = stack({t, t}, -1);
  return {t, t.mT().contiguous().mT(), wide.slice(-1, t.size(-1), 2 * t.size(-1)),
          apart.select(-1, 1)};
}

/// Rounded once from a sum in f32, in whatever order.
void expect_product(const Tensor& got, const Tensor& exact, const char* what) {
  EXPECT_EQ(got.sizes(), exact.sizes()) << what;
  const double unit = got.dtype() == f16 ? 0x1p-10 : 0x1p-7;
  EXPECT_TRUE(allclose(got.to(f64), exact, unit, 1e-4)) << what;
}

void check_product(const Tensor& x, const Tensor& y) {
  const Tensor exact = matmul(x.to(f64), y.to(f64));
  for (const Tensor& a : layouts_of(x))
    for (const Tensor& b : layouts_of(y)) {
      const auto compiled = compile([](const Tensor& l, const Tensor& r) { return matmul(l, r); });
      expect_product(matmul(a, b), exact, "eager");
      expect_product(compiled(a, b), exact, "compiled");
    }
}

TEST(HalfProducts, WithVectorsInEveryLayout) {
  manual_seed(5);
  struct Sizes {
    int64_t m, k, n;
  };
  for (const DType dtype : {f16, bf16})
    for (const auto& [m, k, n] : std::initializer_list<Sizes>{
             {1, 7, 5}, {5, 7, 1}, {1, 3, 1}, {1, 0, 4}, {1, 300, 130}, {130, 300, 1}})
      check_product(randn({m, k}, dtype), randn({k, n}, dtype));
  check_product(randn({2, 1, 7}, f16), randn({2, 7, 5}, f16));
  check_product(randn({2, 5, 7}, f16), randn({2, 7, 1}, f16));
}

TEST(HalfProducts, WithVectorsHaveGradientsOfProducts) {
  manual_seed(6);
  for (const DType dtype : {f16, bf16}) {
    const auto gradients = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
      const Tensor a = x.detach().requires_grad_(), c = w.detach().requires_grad_();
      return grad({sum(linear(a, c, b))}, {a, c});
    };
    const Tensor x = randn({1, 200}, dtype), w = randn({150, 200}, dtype), b = randn({150}, dtype);
    const auto got = gradients(x, w, b), exact = gradients(x.to(f64), w.to(f64), b.to(f64));
    for (size_t i = 0; i < got.size(); ++i) expect_product(got[i], exact[i], "gradient");
  }
}

/// f(x) on one thread and on four.
void expect_no_threads_seen(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  const auto on = [&](int threads) {
    const testing::Threads some(threads);
    return f(x).to_vector<double>();
  };
  EXPECT_EQ(on(1), on(4));
}

TEST(HalfProducts, DoNotDependOnThreads) {
  manual_seed(7);
  for (const DType dtype : {f16, bf16}) {
    const Tensor w = randn({500, 300}, dtype), x = randn({300}, dtype), y = randn({500}, dtype);
    expect_no_threads_seen([&](const Tensor& v) { return mv(w, v); }, x);
    expect_no_threads_seen([&](const Tensor& v) { return matmul(v, w); }, y);
    expect_no_threads_seen([](const Tensor& v) { return sum(v); }, w);
    expect_no_threads_seen([](const Tensor& v) { return cumsum(v, 0); }, w);
  }
}

TEST(HalfSums, OfLongRunsAreOfEveryLength) {
  manual_seed(8);
  for (const DType dtype : {f16, bf16})
    for (const int64_t n : {0, 1, 31, 32, 33, 1023, 1024, 1025, 40000}) {
      const Tensor x = randn({n}, dtype);
      expect_product(sum(x), sum(x.to(f64)), "sum");
      expect_product(sum(stack({x, x}, 1).select(1, 0)), sum(x.to(f64)), "sum of every other");
      if (n == 0) continue;
      EXPECT_EQ(amax(x).item(), amax(x.to(f64)).item());
      const Tensor with_nan = cat({x, full({1}, kNaN, dtype)});
      EXPECT_NE(amin(with_nan).item(), amin(with_nan).item());
    }
}

/// The patterns of `t`, all of NaN as one.
Tensor patterns(const Tensor& t) { return where(t.eq(t), t.view(i16), full({}, -1, i16)); }

/// (0.1 is no number of either format; the bounds are, or are rounded to one.)
TEST(HalfNumbers, AreChosenAsTheyAre) {
  using Function = Tensor (*)(const Tensor&);
  const Function functions[] = {[](const Tensor& x) { return abs(x); },
                                [](const Tensor& x) { return -abs(x); },
                                [](const Tensor& x) { return -x; },
                                [](const Tensor& x) { return floor(-x); },
                                [](const Tensor& x) { return ceil(x); },
                                [](const Tensor& x) { return round(trunc(x) * 0.5); },
                                [](const Tensor& x) { return relu(x); },
                                [](const Tensor& x) { return clamp(x, -0.1, 3.5); },
                                [](const Tensor& x) { return maximum(abs(x), -x * 3); },
                                [](const Tensor& x) { return where(x > 1, x, abs(x) + 0.1); }};
  for (const DType dtype : {f16, bf16}) {
    const Tensor x = arange(-32768, 32768, 1, i16).view(dtype);
    for (const Function& f : functions) {
      const auto compiled = compile([&](const Tensor& t) { return f(t); });
      std::vector<Tensor> kernels;  // on parts too small for compiled code
      for (const Tensor& part : split(x, 4096)) kernels.push_back(f(part));
      EXPECT_TRUE(equal(patterns(compiled(x)), patterns(cat(kernels))));
      EXPECT_TRUE(equal(patterns(f(x)), patterns(cat(kernels))));
    }
  }
}

/// As in ATen a number that is no half, or a 0-d tensor of another dtype, is not rounded to one
/// before it multiplies or divides halves: 0.1 counts in f32, and what f16 does not hold scales.
template <class Factor>
void expect_scaled(const Tensor& x, const Factor& factor, float number) {
  const auto rounded = [&](const Tensor& wide) { return wide.to(x.dtype()); };
  const auto functions = [&](const Tensor& t) {
    return Tensors{t * factor, t / factor, floor_divide(t, factor), t.clone().mul_(factor),
                   t.clone().div_(factor)};
  };
  const Tensor wide = x.to(f32), times = wide * number, over = wide / number;
  const Tensors expected = {rounded(times), rounded(over), rounded(floor_divide(wide, number)),
                            rounded(times), rounded(over)};
  const Tensors eager = functions(x), generated = compile(functions)(x);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(eager[i].dtype(), x.dtype());
    EXPECT_TRUE(equal(eager[i], expected[i])) << "eager " << i << ", factor " << number;
    EXPECT_TRUE(equal(generated[i], expected[i])) << "compiled " << i << ", factor " << number;
  }
  const Tensor leaf = x.clone().requires_grad_();
  EXPECT_TRUE(equal(grad({sum(leaf * factor)}, {leaf})[0], rounded(full(x.sizes(), number, f32))));
}

TEST(HalfNumbers, AreScaledByNumbersThatAreNone) {
  for (const DType dtype : {f16, bf16}) {
    const Tensor x = tensor({0.3, -1.7, 2.2, 0.1, 5.5, 0.7, 0}).to(dtype);
    for (const double number : {0.1, -3.3, 1.0 / 3, 2.0}) {
      const auto rounded = static_cast<float>(number);
      expect_scaled(x, number, rounded);
      expect_scaled(x, Scalar(number), rounded);
      for (const DType other : {f64, f32}) expect_scaled(x, tensor(number, other), rounded);
    }
    for (const int64_t number : {10000, 257}) {
      expect_scaled(x, number, static_cast<float>(number));
      for (const DType other : {i64, i32})
        expect_scaled(x, tensor(number, other), static_cast<float>(number));
    }
  }
  const Tensor x = tensor({0.25, 0, -0.5}).to(f16);
  EXPECT_TRUE(equal(x * 100000, tensor({25000, 0, -50000}).to(f16)));
  EXPECT_TRUE(equal(100000 * x, tensor({25000, 0, -50000}).to(f16)));
  EXPECT_TRUE(equal(40000 * x / 100000, tensor({0.1, 0, -0.2}).to(f16)));
}

/// As in ATen the bound of threshold is no half, while what stands below it is.
TEST(HalfNumbers, AreComparedWithABoundThatIsNone) {
  for (const DType dtype : {f16, bf16}) {
    const Tensor x = tensor({0.1, 0.2, 0.30, -0.1}).to(dtype);
    for (const double value : x.to_vector<double>())
      for (const double bound : {value - 1e-6, value, value + 1e-6}) {
        const auto body = [=](const Tensor& t) { return threshold(t, bound, 7); };
        const Tensor below = x.to(f32).le(bound), expected = where(below, full({}, 7, dtype), x);
        EXPECT_TRUE(equal(body(x), expected)) << bound;
        EXPECT_TRUE(equal(compile(body)(x), expected)) << bound;
        const Tensor leaf = x.clone().requires_grad_();
        EXPECT_TRUE(equal(grad({sum(body(leaf))}, {leaf})[0], logical_not(below).to(dtype)));
      }
  }
}

TEST(HalfGradients, OfActivationsAreRoundedOnce) {
  manual_seed(9);
  const std::function<Tensor(const Tensor&)> functions[] = {
      [](const Tensor& x) { return gelu(x); },     [](const Tensor& x) { return gelu(x, "tanh"); },
      [](const Tensor& x) { return silu(x); },     [](const Tensor& x) { return mish(x); },
      [](const Tensor& x) { return elu(x); },      [](const Tensor& x) { return softplus(x); },
      [](const Tensor& x) { return softsign(x); }, [](const Tensor& x) { return log_sigmoid(x); },
      [](const Tensor& x) { return hardswish(x); }};
  for (const DType dtype : {f16, bf16})
    for (const int64_t rows : {3, 90}) {
      const Tensor special = tensor({0.0, -0.0, 1e30, -1e30, kNaN, 4.0}).to(dtype);
      const Tensor x = cat({randn({rows, 300}, dtype).mul(4).flatten(), special});
      const Tensor g = randn(x.sizes(), dtype);
      for (const auto& f : functions) {
        const auto gradient = [&](const auto& call, const Tensor& at, const Tensor& tangent) {
          const Tensor a = at.detach().requires_grad_();
          return grad({(call(a) * tangent).sum()}, {a})[0];
        };
        const Tensor expected = gradient(f, x.to(f32), g.to(f32)).to(dtype).to(f32);
        const double unit = dtype == f16 ? 0x1p-10 : 0x1p-7;
        for (const Tensor& got : {gradient(f, x, g), gradient(compile(f), x, g)})
          EXPECT_TRUE(allclose(got.to(f32), expected, unit, 1e-5, true));
      }
    }
}

}  // namespace
}  // namespace tandem
