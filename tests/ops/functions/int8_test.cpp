// Products with weights in i8: against sums in f64, eager against compiled, in any layout.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <fstream>

#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"
#include "tests/support/threads.h"

namespace tandem {
namespace {

using testing::expect_error;
using testing::noise;
using Tensors = std::vector<Tensor>;
using Doubles = std::vector<double>;

constexpr double kNaN = NAN, kInf = INFINITY;

Doubles numbers(const Tensor& t) { return t.to_vector<double>(); }

/// All of [-128, 127] in no order.
Tensor bytes(const Shape& sizes) {
  return ((arange(ir::numel(sizes)) * 37 + 11) % 256 - 128).to(i8).view(sizes);
}

/// The same values with gaps, an offset, or dimensions swapped in memory.
Tensors layouts_of(const Tensor& t) {
  const Tensor wide = cat({t.new_zeros({t.size(0), 2}), t, t.new_zeros({t.size(0), 3})}, 1);
  const Tensor apart = stack({t, t}, 2);
  return {t, t.t().contiguous().t(), wide.slice(1, 2, t.size(1) + 2), apart.select(2, 1)};
}

Tensor exact_product(const Tensor& x, const Tensor& w, const Tensor& scales) {
  return matmul(x.to(f64), w.to(f64).t()) * scales.to(f64);
}

TEST(Int8, WeightOnlyProductsInEveryLayout) {
  for (const DType dtype : {f32, f64, bf16, f16})
    for (const int64_t m : {1, 3, 20}) {
      const Tensor w = bytes({7, 19}), scales = noise({7}, 2, dtype);
      const Tensor x = noise({m, 19}, 1, dtype);
      const Tensor expected = exact_product(x, w, scales), got = weight_int8pack_mm(x, w, scales);
      const double tolerance = dtype == f64   ? 1e-14
                               : dtype == f32 ? 1e-6
                               : dtype == f16 ? 1e-3
                                              : 5e-3;
      testing::expect_close(expected.to(dtype), got, tolerance, "product");
      for (const Tensor& lain : layouts_of(x))
        for (const Tensor& weight : layouts_of(w))
          EXPECT_TRUE(equal(weight_int8pack_mm(lain, weight, scales), got));
    }
}

TEST(Int8, IntegerProductsInEveryLayout) {
  for (const int64_t m : {1, 3, 20}) {
    const Tensor a = bytes({m, 19}), b = bytes({19, 7});
    const Tensor expected = matmul(a.to(i32), b.to(i32));
    for (const Tensor& left : layouts_of(a))
      for (const Tensor& right : layouts_of(b)) {
        const Tensor got = int_mm(left, right);
        EXPECT_EQ(got.dtype(), i32);
        EXPECT_TRUE(equal(got, expected));
      }
    EXPECT_TRUE(equal(int_mm(a, b.slice(0, 0, 1).expand({19, 7})),
                      matmul(a.to(i32), b.to(i32).slice(0, 0, 1).expand({19, 7}))));
  }
}

double weighted(const Tensor& t, int64_t factor, int64_t modulus, int64_t shift) {
  const Tensor weights = (arange(t.numel()) * factor % modulus + shift).to(f64);
  return sum(t.reshape({-1}).to(f64) * weights).item();
}

/// As the script makes them.
Tensor floats(const Shape& sizes) {
  return ((arange(ir::numel(sizes)) * 37 % 101 - 50).to(f32) / 32).view(sizes);
}

// tests/torch/int8_products.py made the table.
TEST(Int8, ProductsArePyTorchs) {
  std::ifstream table(TANDEM_SOURCE_DIR "/tests/torch/int8_products.tsv");
  int64_t m = 0, n = 0, k = 0, rows = 0;
  for (double a = 0, b = 0, c = 0, d = 0; table >> m >> n >> k >> a >> b >> c >> d; ++rows) {
    const Tensor w = bytes({n, k}), integers = int_mm(bytes({m, k}), w.t());
    EXPECT_EQ(weighted(integers, 13, 17, 1), a);
    EXPECT_EQ(weighted(integers, 5, 23, -11), b);
    const Tensor product = weight_int8pack_mm(floats({m, k}), w, floats({n}));
    const double size = sum(abs(product)).item() * 17;
    EXPECT_NEAR(weighted(product, 13, 17, 1), c, 1e-6 * size);
    EXPECT_NEAR(weighted(product, 5, 23, -11), d, 1e-6 * size);
  }
  EXPECT_EQ(rows, 6);
}

TEST(Int8, NothingToSumOrToGive) {
  const Tensor scales = ones({3});
  EXPECT_EQ(numbers(weight_int8pack_mm(ones({2, 0}), zeros({3, 0}, i8), scales)), Doubles(6, 0));
  EXPECT_EQ(numbers(int_mm(zeros({2, 0}, i8), zeros({0, 3}, i8))), Doubles(6, 0));
  EXPECT_EQ(weight_int8pack_mm(ones({0, 4}), zeros({3, 4}, i8), scales).sizes(), (Shape{0, 3}));
  EXPECT_EQ(int_mm(zeros({2, 4}, i8), zeros({4, 0}, i8)).sizes(), (Shape{2, 0}));
  EXPECT_EQ(int8_linear(ones({2, 0, 4}), zeros({3, 4}, i8), scales).sizes(), (Shape{2, 0, 3}));
  EXPECT_EQ(numbers(dynamic_int8_linear(ones({2, 0}), zeros({3, 0}, i8), scales)), Doubles(6, 0));
  EXPECT_EQ(dynamic_int8_linear(ones({0, 4}), zeros({3, 4}, i8), scales).sizes(), (Shape{0, 3}));
  EXPECT_EQ(numbers(quantize_int8(zeros({2, 0})).scale), Doubles(2, 0));
}

TEST(Int8, QuantizedByChannel) {
  const Tensor w = tensor({{127, -63.5, 62.5, 0.5}, {-0.25, 0, 0.125, 0.0625}});
  const auto [values, scale] = quantize_int8(w);
  EXPECT_EQ(values.dtype(), i8);
  EXPECT_EQ(numbers(scale), (Doubles{1, 0.25F / 127}));
  EXPECT_EQ(numbers(values), (Doubles{127, -64, 62, 0, -127, 0, 64, 32}));  // halves to even
  const QuantizedInt8 columns = quantize_int8(w, -1);
  EXPECT_EQ(columns.scale.sizes(), Shape{4});
  EXPECT_EQ(numbers(columns.values.select(1, 1)), (Doubles{-127, 0}));
  EXPECT_EQ(numbers(quantize_int8(tensor({2.0, -4.0, 0.0})).values), (Doubles{127, -127, 0}));
}

TEST(Int8, NoElementIsFurtherThanHalfAStep) {
  for (const DType dtype : {f32, f64, bf16}) {
    const Tensor w = noise({6, 50, 3}, 1, dtype);
    for (const int64_t axis : {0, 1, 2}) {
      const auto [values, scale] = quantize_int8(w, axis);
      EXPECT_EQ(scale.dtype(), dtype == f64 ? f64 : f32);
      const Tensor back = dequantize_int8(values, scale, axis);
      const Tensor steps = dequantize_int8(ones_like(values), scale, axis);
      EXPECT_TRUE(all(abs(back - w) <= steps * 0.5001).item() != 0);
    }
  }
}

TEST(Int8, WhatIsNoNumberPassesForNone) {
  const Tensor w = tensor({{0.0, 0.0}, {kNaN, 1.0}, {kInf, 1.0}});
  const auto [values, scale] = quantize_int8(w);
  const Doubles scales = numbers(scale), back = numbers(dequantize_int8(values, scale));
  EXPECT_EQ(scales[0], 0);
  EXPECT_TRUE(std::isnan(scales[1]));
  EXPECT_EQ(scales[2], kInf);
  EXPECT_EQ(back[0], 0);
  for (size_t i = 2; i < 6; ++i) EXPECT_TRUE(std::isnan(back[i])) << i;
  const Doubles rows = numbers(dynamic_int8_linear(w, ones({1, 2}, i8), ones({1})));
  EXPECT_EQ(rows[0], 0);
  EXPECT_TRUE(std::isnan(rows[1]) && std::isnan(rows[2]));
}

/// x w^T + b where x's rows are rounded first.
Tensor rounded_linear(const Tensor& x, const Tensor& w, const Tensor& scale, const Tensor& bias) {
  const Tensor rows = x.view({-1, x.size(-1)});
  const auto [values, steps] = quantize_int8(rows);
  const Tensor sums = int_mm(values, w.t());
  return (sums * steps.unsqueeze(1) * scale + bias).view({x.size(0), x.size(1), w.size(0)});
}

TEST(Int8, Linears) {
  const Tensor x = noise({2, 3, 40}, 1), w = noise({9, 40}, 2), bias = noise({9}, 3);
  const auto [values, scale] = quantize_int8(w);
  const Tensor exact = linear(x, w, bias), weights = int8_linear(x, values, scale, bias);
  testing::expect_close(linear(x, dequantize_int8(values, scale), bias), weights, 1e-6, "weights");
  testing::expect_close(exact, weights, 0.01, "weights rounded");
  const Tensor both = dynamic_int8_linear(x, values, scale, bias);
  testing::expect_close(rounded_linear(x, values, scale, bias), both, 1e-6, "rows too");
  testing::expect_close(exact, both, 0.02, "rows rounded");
  EXPECT_TRUE(equal(int8_linear(x.select(0, 1).select(0, 2), values, scale, bias),
                    int8_linear(x.select(0, 1).slice(0, 2, 3), values, scale, bias).view({9})));
}

TEST(Int8, HalvesAreComputedWide) {
  const Tensor x = noise({4, 40}, 1, bf16), w = noise({9, 40}, 2);
  const auto [values, scale] = quantize_int8(w);
  const Tensor y = int8_linear(x, values, scale, noise({9}, 3));
  EXPECT_EQ(y.dtype(), bf16);
  EXPECT_TRUE(equal(y, int8_linear(x.to(f32), values, scale, noise({9}, 3)).to(bf16)));
  EXPECT_EQ(dynamic_int8_linear(x, values, scale.to(bf16)).dtype(), bf16);
}

TEST(Int8, CompiledBitsAreEagers) {
  const Tensor w = noise({24, 33}, 2);
  const auto [values, scale] = quantize_int8(w);
  const auto layers = [values = values, scale = scale](const Tensor& x) -> Tensors {
    return {int8_linear(x, values, scale), dynamic_int8_linear(x, values, scale),
            int_mm(values, values.t())};
  };
  const auto compiled = compile(layers);
  for (const int threads : {1, 3}) {
    const testing::Threads restored(threads);
    for (const DType dtype : {f32, f64, bf16})
      for (const int64_t m : {1, 5, 30, 700}) {
        const Tensor x = noise({m, 33}, 1, dtype);
        const Tensors a = layers(x), b = compiled(x);
        for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(equal(a[i], b[i])) << i << " of " << m;
      }
  }
}

TEST(Int8, WhatStandsAroundThemIsCompiled) {
  const Tensor w = noise({24, 33}, 2), bias = noise({24}, 3);
  const auto [values, scale] = quantize_int8(w);
  testing::check_compiled(
      [values = values, scale = scale, bias](const Tensors& in) -> Tensors {
        const Tensor x = tanh(in[0]).t();
        return {relu(int8_linear(x, values, scale, bias)) * 2,
                gelu(dynamic_int8_linear(x, values, scale, bias))};
      },
      [] { return Tensors{noise({33, 6}, 1)}; });
}

TEST(Int8, Examples) {
  const Tensor x = noise({3, 4, 19}, 1), w = bytes({3, 7, 19}), scales = noise({3, 7}, 2);
  const auto one = [](const Tensor& a, const Tensor& b, const Tensor& s) {
    return weight_int8pack_mm(a, b, s);
  };
  const Tensor shared = vmap(one, {.in_dims = {0, {}, {}}})(x, w[0], scales[0]);
  const Tensor each = vmap(one)(x, w, scales);
  for (int64_t i = 0; i < 3; ++i) {
    testing::expect_close(one(x[i], w[0], scales[0]), shared[i], 1e-6, "shared");
    testing::expect_close(one(x[i], w[i], scales[i]), each[i], 1e-6, "each");
  }
  const Tensor a = bytes({3, 5, 19}), b = w.transpose(1, 2);
  const auto integers = [](const Tensor& x, const Tensor& y) { return int_mm(x, y); };
  EXPECT_TRUE(equal(vmap(integers)(a, b)[2], int_mm(a[2], b[2])));
}

TEST(Int8, WhatDoesNotFitIsSaid) {
  const Tensor x = ones({2, 4}), w = zeros({3, 4}, i8), s = ones({3});
  const std::string types = "a floating self, mat2 of i8, and scales of self's dtype, got ";
  expect_error(Errc::DType, types + "f32[2, 4] and f32[3, 4] and f32[3]",
               [&] { weight_int8pack_mm(x, ones({3, 4}), s); });
  expect_error(Errc::DType, types, [&] { weight_int8pack_mm(x, w, s.to(f64)); });
  expect_error(Errc::DType, types, [&] { weight_int8pack_mm(w, w, s); });
  expect_error(Errc::Shape, "self [m, k], mat2 [n, k] and scales [n], got [2, 4] and [3, 5]",
               [&] { weight_int8pack_mm(x, zeros({3, 5}, i8), s); });
  expect_error(Errc::Shape, "scales [n]", [&] { weight_int8pack_mm(x, w, ones({4})); });
  expect_error(Errc::Shape, "self [m, k]", [&] { weight_int8pack_mm(ones({4}), w, s); });
  expect_error(Errc::DType, "self and mat2 of i8, got i8[3, 4] and i32[4, 2]",
               [&] { int_mm(w, zeros({4, 2}, i32)); });
  expect_error(Errc::Shape, "self [m, k] and mat2 [k, n], got [3, 4] and [3, 4]",
               [&] { int_mm(w, w); });
  expect_error(Errc::DType, "int8_linear: expected a weight of i8 and a floating scale, got f32",
               [&] { int8_linear(x, ones({3, 4}), s); });
  expect_error(Errc::Shape, "weight [out, in] and scale [out], got [3, 4] and [4]",
               [&] { int8_linear(x, w, ones({4})); });
  expect_error(Errc::Shape, "x [..., in] and weight [out, in], got [2, 5] and [3, 4]",
               [&] { dynamic_int8_linear(ones({2, 5}), w, s); });
  expect_error(Errc::DType, "int8_linear: expected a floating dtype, got i64",
               [&] { int8_linear(ones({2, 4}, i64), w, s); });
  expect_error(Errc::DType, "quantize_int8: expected a floating dtype, got i8",
               [&] { quantize_int8(w); });
  expect_error(Errc::Index, "quantize_int8", [&] { quantize_int8(x, 2); });
  expect_error(Errc::Argument, "quantize_int8: undefined tensor", [&] { quantize_int8({}); });
  expect_error(Errc::Shape, "dequantize_int8: expected a scale of sizes [3], got [4]",
               [&] { dequantize_int8(w, ones({4})); });
}

}  // namespace
}  // namespace tandem
