// Matrices times vectors, of rows and columns that are few and many, wherever they lie: compiled,
// near what they are in f64, rounded once.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/layouts.h"
#include "tests/support/threads.h"

namespace tandem::testing {
namespace {

/// Half of what the last digit of a result of `dtype` is worth, beside 1.
double rounding(DType dtype) {
  if (dtype == bf16) return 0x1p-8;
  if (dtype == f16) return 0x1p-11;
  return dtype == f32 ? 0x1p-24 : 0x1p-53;
}

/// Rounded once, of what was summed in f32 or better.
void expect_near_exact(const Tensor& found, const Tensor& matrix, const Tensor& vector) {
  const Tensor m = matrix.to(f64), v = vector.to(f64);
  const Tensor exact = mv(m, v), magnitude = mv(m.abs(), v.abs());
  const double summing = found.dtype() == f64 ? 1e-15 : 1e-6;
  const Tensor allowed = exact.abs() * (1.01 * rounding(found.dtype())) + magnitude * summing +
                         0x1p-25;  // f16's smallest
  EXPECT_TRUE(all((found.to(f64) - exact).abs() <= allowed).item<bool>());
}

const std::pair<const char*, Layout> kPlaces[] = {
    {"contiguous", [](const Tensor& t) { return t.clone(); }},
    {"by columns", [](const Tensor& t) { return t.t().contiguous().t(); }},
    {"inner", inner},
    {"gapped", gapped},
};

Tensor product(const Tensor& m, const Tensor& v) { return mv(m, v); }
Tensor product_with_part(const Tensor& m, const Tensor& v) {
  return mv(m.narrow(1, 1, v.size(0)), v) * 2;
}
Tensor product_with_sum(const Tensor& m, const Tensor& v) { return addmv(mv(m, v), m, v) * 0.5; }

class VectorProducts : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, VectorProducts, ::testing::Values(f32, f64, bf16, f16),
                         [](const auto& info) { return std::string(ir::name(info.param)); });

TEST_P(VectorProducts, AreRoundedOnce) {
  auto whole = compile(product), part = compile(product_with_part), sum = compile(product_with_sum);
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 9}, {17, 300}, {300, 17}, {20, 2000}, {2000, 20}, {1100, 130}, {3, 4999}, {4999, 3}})
    for (const auto& [name, lay_out] : kPlaces) {
      SCOPED_TRACE(::testing::Message() << rows << " x " << columns << " " << name);
      const Tensor m = lay_out(randn({rows, columns}, f32).to(GetParam()));
      const Tensor v = randn({columns}, f32).to(GetParam());
      expect_near_exact(whole(m, v), m, v);
      expect_near_exact(mv(m, v), m, v);  // eagerly
      const Tensor inside = m.narrow(1, 1, columns - 2), shorter = v.narrow(0, 1, columns - 2);
      expect_near_exact(part(m, shorter) * 0.5, inside, shorter);
      if (GetParam() == f32 || GetParam() == f64) expect_near_exact(sum(m, v), m, v);
      const Tensor few_threads = whole(m, v);
      const Threads five(5);
      EXPECT_TRUE(equal(whole(m, v), few_threads));
    }
}

TEST(VectorProductGradients, AreThoseOfEager) {
  auto f = compile(product);
  for (const DType dtype : {f32, f64})
    for (const auto& [rows, columns] :
         std::vector<std::pair<int64_t, int64_t>>{{17, 300}, {2000, 20}, {20, 2000}})
      for (const auto& [name, lay_out] : kPlaces) {
        SCOPED_TRACE(::testing::Message() << rows << " x " << columns << " " << name);
        const Tensor m = lay_out(randn({rows, columns}, dtype)).requires_grad_(),
                     v = randn({columns}, dtype).requires_grad_();
        const auto gradients = [&](const Tensor& y) { return grad({y.square().sum()}, {m, v}); };
        const auto expected = gradients(mv(m, v)), found = gradients(f(m, v));
        for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(allclose(found[i], expected[i], 1e-4, 1e-3));
      }
}

}  // namespace
}  // namespace tandem::testing
