// Pointwise functions with options: what they refuse, and in whose name; what has one result for
// all elements; forms that write into a given tensor; gradients that go through several operands.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>

#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }

TEST(PointwiseFunctions, ErrorsNameWhatTheUserCalled) {
  const Tensor f = ones({2, 3}), i = ones({2, 3}, i64), b = ones({2, 3}, boolean), none;
  expect_error(Errc::DType, "hardshrink: expected a floating", [&] { hardshrink(i); });
  expect_error(Errc::Argument, "softshrink: expected lambd", [&] { softshrink(f, -1); });
  expect_error(Errc::Argument, "div: unknown rounding mode", [&] { div(f, f, "up"); });
  expect_error(Errc::Argument, "divide_: unknown rounding mode", [&] { f.divide_(f, "up"); });
  expect_error(Errc::DType, "rsub: not defined for bool", [&] { rsub(b, b); });
  expect_error(Errc::DType, "add: alpha", [&] { add(i, i, 0.5); });
  expect_error(Errc::DType, "add_: alpha", [&] { i.add_(i, 0.5); });
  expect_error(Errc::Argument, "polygamma: expected n", [&] { polygamma(-1, f); });
  expect_error(Errc::Argument, "mvlgamma: expected p", [&] { mvlgamma(f, 0); });
  expect_error(Errc::Argument, "multigammaln: expected p", [&] { special::multigammaln(f, 0); });
  expect_error(Errc::DType, "isclose: operands", [&] { isclose(f, i); });
  expect_error(Errc::DType, "allclose: operands", [&] { allclose(f, i); });
  expect_error(Errc::Argument, "isclose: expected tolerances", [&] { isclose(f, f, -1); });
  expect_error(Errc::Shape, "glu: expected an even size", [&] { glu(f); });
  expect_error(Errc::Shape, "prelu: expected one weight or one for each of 3",
               [&] { prelu(f, ones({2})); });
  expect_error(Errc::DType, "prelu: weight", [&] { prelu(f, ones({3}, f64)); });
  expect_error(Errc::DType, "heaviside: values", [&] { heaviside(f, i); });
  expect_error(Errc::DType, "gcd", [&] { gcd(f, f); });
  expect_error(Errc::DType, "positive: not defined", [&] { positive(b); });
  expect_error(Errc::DType, "float_power_: self", [&] { f.float_power_(2); });
  expect_error(Errc::DType, "deg2rad_: result type f32", [&] { i.deg2rad_(); });
  expect_error(Errc::Argument, "clamp: no bound", [&] { clamp(f, none, none); });
  expect_error(Errc::Argument, "clip_: no bound", [&] { f.clip_(none); });
  expect_error(Errc::Argument, "arccos: undefined tensor", [&] { arccos(none); });
  expect_error(Errc::Argument, "zeta: two numbers", [&] { special::zeta(1.0, 2.0); });
  expect_error(Errc::Shape, "subtract", [&] { subtract(f, ones({4})); });
  EXPECT_EQ(f.version() + i.version(), 0u);  // nothing was written
}

TEST(PointwiseFunctions, AllElementsAreEqualOrClose) {
  const Tensor x = tensor({1.0, 2.0}), nan = tensor({std::nan(""), 2.0});
  EXPECT_TRUE(equal(x, x.to(f64)));
  EXPECT_FALSE(equal(x, x.view({2, 1})));
  EXPECT_FALSE(x.equal(x + 1e-3));
  EXPECT_FALSE(equal(nan, nan));
  EXPECT_TRUE(equal(zeros({0}), zeros({0})));
  EXPECT_TRUE(allclose(x, x + 1e-6));
  EXPECT_FALSE(x.allclose(x + 1e-6, 0, 0));
  EXPECT_FALSE(allclose(nan, nan));
  EXPECT_TRUE(allclose(nan, nan, 1e-5, 1e-8, true));
  EXPECT_TRUE(allclose(full({}, INFINITY), full({}, INFINITY)));
  const auto in_trace = compile([](const Tensor& t) { return equal(t, t) ? t + 1 : t; });
  expect_error(Errc::Trace, "", [&] { in_trace(x); });
}

TEST(PointwiseFunctions, GradientsGoThroughEveryOperand) {
  struct Case {
    const char* name;
    Program program;
    MakeInputs inputs;
  };
  const auto two = [](const Shape& a, const Shape& b) {
    return [=](Source& source) { return Tensors{source.noise(a, 1), source.noise(b, 2)}; };
  };
  const Case cases[] = {
      {"prelu", [](const Tensors& in) { return Tensors{prelu(in[0], in[1])}; },
       two({2, 3, 4}, {3})},
      {"prelu of one weight", [](const Tensors& in) { return Tensors{prelu(in[0], in[1])}; },
       two({5}, {1})},
      {"glu", [](const Tensors& in) { return Tensors{glu(in[0], 1) * in[1]}; },
       two({3, 4}, {3, 2})},
      {"clamp", [](const Tensors& in) { return Tensors{clamp(in[0], -abs(in[1]), in[1])}; },
       two({3, 4}, {4})},
      {"fmax and fmin",
       [](const Tensors& in) { return Tensors{fmax(in[0], in[1]) * fmin(in[0], 0.1)}; },
       two({3, 4}, {4})},
      {"digamma of lgamma",
       [](const Tensors& in) { return Tensors{digamma(square(in[0]) + 1) * lgamma(in[1])}; },
       two({3, 4}, {4})},
      {"softmin", [](const Tensors& in) { return Tensors{softmin(in[0], 0) * in[1]}; },
       two({3, 4}, {4})},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    check_compiled(c.program, c.inputs);
  }
}

TEST(PointwiseFunctions, SlopesAreDrawnInTraining) {
  const Tensor x = -ones({500});
  const auto compiled = compile([](const Tensor& t) { return rrelu(t, 0.1, 0.3, true); });
  manual_seed(3);
  const Tensor drawn = rrelu(x, 0.1, 0.3, true);
  manual_seed(3);
  expect_close(drawn, compiled(x), 1e-6, "");
  EXPECT_GT(drawn.max().item(), -0.11);
  EXPECT_LT(drawn.min().item(), -0.29);
  EXPECT_LE(drawn.max().item(), -0.1 + 1e-6);
}

TEST(PointwiseFunctions, WriteIntoAGivenTensor) {
  const Tensor x = tensor({-0.5, 0.25, 2.0}), out = empty({0});
  EXPECT_EQ(values(clamp_out(out, x, tensor(0.0), tensor(1.0))), (Values{0, 0.25, 1}));
  EXPECT_EQ(values(div_out(out, x, 0.5, "floor")), (Values{-1, 0, 4}));
  EXPECT_EQ(values(arctan_out(out, x)), values(atan(x)));
  EXPECT_EQ(values(add_out(out, x, x, 2)), values(x * 3));
  EXPECT_EQ(values(rsub_out(out, x, x, 2)), values(-x));
  EXPECT_EQ(values(special::expit_out(out, x)), values(sigmoid(x)));
  EXPECT_EQ(values(special::i1_out(out, x)), values(special::i1(x)));
  EXPECT_EQ(values(threshold_out(out, x, 0, 7)), (Values{7, 0.25, 2}));
  EXPECT_EQ(values(polygamma_out(out, 1, x)), values(x.polygamma(1)));
  EXPECT_EQ(values(glu_out(empty({0}), tensor({1.0, 0.0}))), (Values{0.5}));
}

// PyTorch's: NaN wherever logit is, at an end of [0, 1] infinite from inside, be it -0; hardsigmoid
// is flat at NaN.
TEST(PointwiseFunctions, GradientsBeyondTheDomain) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = INFINITY;
  for (const DType dtype : {f64, f32, bf16}) {
    const Tensor at = tensor({-0.5, -0.0, 0.0, 0.5, 1.0, 2.0, infinity, -infinity, nan}).to(dtype);
    const auto expect_gradient = [&](const auto& fn, const Tensor& expected) {
      const Tensor x = at.clone().requires_grad_(), y = at.clone().requires_grad_();
      EXPECT_EQ(grad({fn(x).sum()}, {x})[0].to_string(), expected.to_string());
      EXPECT_EQ(grad({compile(fn)(y).sum()}, {y})[0].to_string(), expected.to_string());
    };
    expect_gradient([](const Tensor& x) { return logit(x); },
                    tensor({nan, infinity, infinity, 4.0, infinity, nan, nan, nan, nan}).to(dtype));
    const double slope = 1.0 / 6;
    expect_gradient([](const Tensor& x) { return hardsigmoid(x); },
                    tensor({slope, slope, slope, slope, slope, slope, 0.0, 0.0, 0.0}).to(dtype));
  }
}

TEST(PointwiseFunctions, TakeEverySize) {
  for (const Shape& sizes : {Shape{}, Shape{0}, Shape{2, 0, 3}, Shape{1, 5}}) {
    const Tensor x = full(sizes, 0.5), i = full(sizes, 6, i64);
    for (const Tensor& y : {lgamma(x), special::ndtri(x), sinc(x), fmax(x, x), clamp(x, x, x),
                            gcd(i, i), signbit(x), isclose(x, x), prelu(x, full({1}, 0.5))})
      EXPECT_EQ(y.sizes(), sizes);
    EXPECT_TRUE(allclose(x, x));
  }
}

/// As ATen: the power of the number 1/2 is the root, which is another at -0 and at -inf.
TEST(PointwiseFunctions, ThePowerOfOneHalfIsTheRoot) {
  const double inf = INFINITY;
  for (const DType dtype : {f32, f64, bf16}) {
    const Tensor x = tensor({4.0, 0.25, 0.0, -0.0, inf, -inf, -1.0, 2.0}).to(dtype);
    const auto powers = [](const Tensor& t) {
      return Tensors{pow(t, 0.5), t.pow(0.5), t.clone().pow_(0.5)};
    };
    Tensors all = powers(x);
    for (const Tensor& t : compile(powers)(x)) all.push_back(t);
    for (const Tensor& t : all) {
      EXPECT_EQ(t.dtype(), dtype);
      expect_close(sqrt(x), t, 0, "root");
      EXPECT_TRUE(std::signbit(values(t)[3]));
    }
    const Tensor a = x.clone().requires_grad_(), b = x.clone().requires_grad_();
    expect_close(grad({sqrt(a).sum()}, {a})[0], grad({pow(b, 0.5).sum()}, {b})[0], 0, "slope");
    expect_close(sqrt(x.to(f64)), float_power(x, 0.5), 0, "float_power");
  }
  const Tensor zero = tensor({-0.0});
  EXPECT_FALSE(std::signbit(values(pow(zero, tensor({0.5})))[0]));
  EXPECT_FALSE(std::signbit(values(pow(zero.to(f16), 0.5))[0]));
  EXPECT_EQ(values(pow(tensor({4, 9}, i64), 0.5)), Values({2, 3}));
  EXPECT_EQ(pow(tensor({4, 9}, i64), 0.5).dtype(), f32);
}

/// As in C++, the product of narrow integers wraps behind its magnitude.
TEST(PointwiseFunctions, CommonMultiplesWrapAtTheEnd) {
  const auto multiple = [](const Tensor& a, const Tensor& b) { return lcm(a, b); };
  const auto expect_multiples = [&](DType dtype, const Values& expected) {
    const Tensor a = tensor({100, -100, 127, -3, 0}).to(dtype),
                 b = tensor({7, 7, 126, 5, 4}).to(dtype);
    EXPECT_EQ(values(multiple(a, b)), expected);
    EXPECT_EQ(values(compile(multiple)(a, b)), expected);
    EXPECT_EQ(values(a.clone().lcm_(b)), expected);
  };
  expect_multiples(i8, {-68, -68, -126, 15, 0});
  expect_multiples(i16, {700, 700, 16002, 15, 0});
  expect_multiples(i32, {700, 700, 16002, 15, 0});
  const Tensor a = tensor({30000, 181}, i16), b = tensor({7, 182}, i16);
  EXPECT_EQ(values(lcm(a, b)), Values({13392, -32594}));
}

/// The divisor is converted before anything is compared with it: a 0-d u8 of 129 divides i8 as
/// -127.
TEST(PointwiseFunctions, QuotientsTruncateInTheDtypeOfTheResult) {
  const auto quotient = [](const Tensor& a, const Tensor& b) { return div(a, b, "trunc"); };
  const auto expect_quotients = [&](const Tensor& a, const Tensor& b, const Tensor& expected) {
    EXPECT_EQ(values(quotient(a, b)), values(expected));
    EXPECT_EQ(values(compile(quotient)(a, b)), values(expected));
  };
  const DType integers[] = {i64, i32, i16, i8, u8};
  for (const DType dtype : integers)
    for (const DType other : integers)
      for (const int64_t divisor : {129, -127, 3, -1}) {
        const Tensor a = arange(-120, 250, 7).to(dtype), b = tensor(divisor).to(other);
        expect_quotients(a, b, trunc(a.to(f64) / b.to(dtype).to(f64)).to(dtype));
        const Tensor many = b.expand({53});
        const DType common = (a + many).dtype();
        expect_quotients(a, many, trunc(a.to(common).to(f64) / many.to(common).to(f64)));
      }
}

/// Halves over halves are rounded before they are truncated, up to a whole number at times; over
/// one number, which need be no half, they are not.
TEST(PointwiseFunctions, QuotientsOfHalvesTruncateAsInATen) {
  for (const DType dtype : {f16, bf16}) {
    const Tensor a = tensor({2047, -2047, 255, -255, 7, 1e4, 179}).to(dtype), wide = a.to(f32);
    const Tensor b = tensor({2048, 2048, 256, 256, 2, 3, 10}).to(dtype);
    const auto expect = [&](const Tensor& quotient, const Tensor& generated, const Tensor& exact) {
      EXPECT_EQ(quotient.dtype(), dtype);
      EXPECT_TRUE(equal(quotient, exact.to(dtype)));
      EXPECT_TRUE(equal(generated, exact.to(dtype)));
    };
    const auto by = [](const Tensor& x, const Tensor& y) { return div(x, y, "trunc"); };
    expect(by(a, b), compile(by)(a, b), trunc((wide / b.to(f32)).to(dtype)));
    const Tensor one = tensor(256.0).to(dtype);
    for (const Tensor& divisor : {one, one.view({1}), tensor(7.03), tensor(7.03, f64)})
      expect(by(a, divisor), compile(by)(a, divisor), trunc(wide / divisor.to(f32)));
    const auto by_number = [](const Tensor& x) { return div(x, 7.03, "trunc"); };
    expect(by_number(a), compile(by_number)(a), trunc(wide / 7.03F));
  }
}

// Greatest divisors of whatever the registers of generated code hold at once.
TEST(PointwiseFunctions, DivisorsOfManyIntegers) {
  for (DType dtype : {i64, i32, i16, i8, u8}) {
    const Tensor x = arange(0, 120).to(dtype), y = (arange(0, 120) * 7 - 300).to(dtype);
    const auto compiled = compile([](const Tensor& a, const Tensor& b) { return lcm(a, b); });
    EXPECT_EQ(values(compiled(x, y)), values(lcm(x, y)));
    if (dtype == i64) {
      EXPECT_EQ(values(gcd(x, y) * lcm(x, y)), values(abs(x * y)));
    }
  }
}

/// Multiples of divisors, and their neighbours, as i64 divides them.
TEST(PointwiseFunctions, QuotientsOfShortIntegersAreExact) {
  for (const auto& [dtype, low, high] : {std::tuple{i8, -128L, 127L},
                                         {u8, 0L, 255L},
                                         {i16, -32768L, 32767L},
                                         {i32, -2147483648L, 2147483647L}}) {
    const Tensor edges = cat({arange(low, low + 40), arange(high - 39, high + 1)});
    const Tensor small = dtype == u8 ? arange(1, 60) : cat({arange(-60, 0), arange(1, 60)});
    const Tensor some = randint(1, high, {200});
    const Tensor divisors = cat({edges, small, some, dtype == u8 ? some : -some});
    const Tensor y = masked_select(divisors, divisors != 0).to(dtype), wide = y.to(i64);
    const Tensor nearby = floor_divide(edges.unsqueeze(1), wide) * wide;
    const Tensor x = stack({nearby - 1, nearby, nearby + 1}).to(dtype), dividend = x.to(i64);
    const auto of = [](const Tensor& a, const Tensor& b) {
      return std::vector<Tensor>{floor_divide(a, b), div(a, b, "trunc"), remainder(a, b),
                                 fmod(a, b)};
    };
    const auto expected = of(dividend, wide), eager = of(x, y), compiled = compile(of)(x, y);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(equal(eager[i], expected[i].to(dtype))) << ir::name(dtype) << " " << i;
      EXPECT_TRUE(equal(compiled[i], expected[i].to(dtype))) << ir::name(dtype) << " " << i;
    }
  }
}

}  // namespace
}  // namespace tandem::testing
