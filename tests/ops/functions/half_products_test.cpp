// Products of 16-bit floats with vectors, and sums over long runs of them: against f64 in any
// layout, eager against compiled, the same bits at any number of threads.
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
             {1, 7, 5}, {5, 7, 1}, {1, 3, 1}, {1, 0, 4}, {3, 1, 1}, {1, 300, 130}, {130, 300, 1}}) {
      check_product(randn({m, k}, dtype), randn({k, n}, dtype));
      check_product(randn({2, m, k}, dtype), randn({2, k, n}, dtype));
    }
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

}  // namespace
}  // namespace tandem
