// DetectAnomaly: which operation gives the first NaN, eager and compiled, in backward and forward.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <thread>

#include "tests/support/expect_error.h"

namespace tandem {
namespace {

using testing::error_of;
using testing::expect_error;

Tensor leaf(const std::vector<double>& values) {
  Tensor t = from_data(values, {static_cast<int64_t>(values.size())}).to(f32);
  return t.requires_grad_();
}

/// Fails the running test unless `text` has all of `parts`.
void expect_parts(const std::string& text, std::initializer_list<std::string> parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << text << "\nhas no: " << part;
}

std::string at_line(unsigned line) { return "anomaly_test.cpp:" + std::to_string(line) + ")"; }

unsigned sqrt_line = 0;  // where forward calls sqrt

/// d sqrt(x) / dx is infinite at 0, and 0 * inf is NaN: in the gradient of sqrt where the gradient
/// that arrives is 0.
Tensor trap(const Tensor& x) {
  sqrt_line = std::source_location::current().line() + 1;
  const Tensor root = sqrt(x);
  return sum(where(x > 0, root, zeros_like(x)) * 2);
}

TEST(DetectAnomaly, NamesTheOperationOfTheFirstNaNGradient) {
  const Tensor x = leaf({4, 0, 9});
  trap(x).backward();
  EXPECT_TRUE(std::isnan(x.grad().index({1}).item()));
  const DetectAnomaly guard;
  const std::string text = error_of([&] { trap(x).backward(); }, Errc::Autograd);
  expect_parts(text, {"backward of sqrt (", at_line(sqrt_line),
                      "in the gradient of its operand 0, f32[3], at [1]"});
}

TEST(DetectAnomaly, AcceptsWhatIsFinite) {
  const DetectAnomaly guard({.check_forward = true});
  const Tensor x = leaf({4, 1, 9});
  trap(x).backward();
  EXPECT_FLOAT_EQ(x.grad().index({0}).item(), 0.5F);
  EXPECT_EQ(grad({sum(x * x)}, {x})[0].to_vector<double>(), (std::vector<double>{8, 2, 18}));
}

TEST(DetectAnomaly, CompiledFunctionsRunAsWhatTheyAreMadeOf) {
  const auto compiled = compile(&trap);
  for (const bool warm : {false, true}) {
    const Tensor x = leaf({4, 0, 9});
    if (warm) compiled(x).backward();
    const DetectAnomaly guard;
    const std::string text = error_of([&] { compiled(x).backward(); }, Errc::Autograd);
    expect_parts(text, {"backward of sqrt (", at_line(sqrt_line), "at [1]"});
  }
}

TEST(DetectAnomaly, ShowsTheEquationOfACallMadeBefore) {
  const auto compiled = compile(&trap, {.name = "trap"});
  const Tensor x = leaf({4, 0, 9});
  const Tensor loss = compiled(x);
  const DetectAnomaly guard;
  const std::string text = error_of([&] { loss.backward({}, true); }, Errc::Autograd);
  expect_parts(text, {"backward of compiled trap gives the first NaN in an equation of ",
                      at_line(sqrt_line), "div, f32[3], at [1]", "\n> %"});
  expect_error(Errc::Autograd, "backward of compiled trap",
               [&] { grad({loss}, {x}, {.retain_graph = true}); });
}

TEST(DetectAnomaly, WhatACompiledForwardGave) {
  const auto compiled =
      compile([](const Tensor& x) { return sum(square(log(x))); }, {.name = "logs"});
  const Tensor x = leaf({1, -1});
  const Tensor loss = compiled(x);
  const DetectAnomaly guard;
  expect_error(Errc::Autograd, "NaN", [&] { loss.backward(); });
}

TEST(DetectAnomaly, NoGuardNoError) {
  const Tensor x = leaf({4, 0, 9});
  {
    const DetectAnomaly guard;
  }
  trap(x).backward();
  const DetectAnomaly guard;
  const DetectAnomaly off({.check_nan = false});
  trap(x).backward();
}

TEST(DetectAnomaly, BelongsToItsThread) {
  const DetectAnomaly guard;
  const Tensor x = leaf({4, 0, 9});
  std::thread([&] { trap(x).backward(); }).join();
  expect_error(Errc::Autograd, "sqrt", [&] { trap(x).backward(); });
}

TEST(DetectAnomaly, GradientsThatArriveWithNaN) {
  const DetectAnomaly guard;
  const Tensor x = leaf({1, 2}), y = x * 2;
  expect_error(Errc::Autograd, "the gradient of result 0 of mul (",
               [&] { y.backward(from_data(std::vector<double>{1, NAN}, {2}).to(f32)); });
  const Tensor z = x * 2;
  z.register_hook([](const Tensor& g) { return g * NAN; });
  expect_error(Errc::Autograd, "a hook made it", [&] { sum(z).backward(); });
}

TEST(DetectAnomaly, EveryFloatingDTypeAndLayout) {
  const DetectAnomaly guard;
  for (const DType dtype : {f64, f32, bf16, f16}) {
    const Tensor x = ones({3, 2}).to(dtype);
    x.index_put_({1, 0}, 0);
    x.requires_grad_();
    const std::string text = error_of(
        [&] {
          const Tensor t = x.t();
          sum(sqrt(t) * zeros_like(t)).backward();
        },
        Errc::Autograd);
    expect_parts(text, {"backward of sqrt", "at [0, 1]", std::string(ir::name(dtype)) + "[2, 3]"});
  }
  Tensor scalar = leaf({0}).sum().detach().requires_grad_();
  expect_error(Errc::Autograd, "f32[], at []", [&] { (sqrt(scalar) * 0).backward(); });
  const Tensor empty = ones({0, 3}).requires_grad_();
  sum(sqrt(empty)).backward();
}

TEST(DetectAnomaly, OperationsOnManyElementsToo) {
  Tensor x = ones({300, 300});
  x.index_put_({7, 11}, 0);
  x.requires_grad_();
  const DetectAnomaly guard;
  const std::string text =
      error_of([&] { sum(softmax(sqrt(x), 1) * zeros_like(x)).backward(); }, Errc::Autograd);
  expect_parts(text, {"backward of sqrt", "f32[300, 300], at [7, 11]"});
}

struct Halved : Function<Halved> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x / 2; }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) {
    return {grads[0] / 0 * 0};
  }
};

TEST(DetectAnomaly, CustomFunctionsAndGradientsOfGradients) {
  const DetectAnomaly guard({.check_forward = true});
  const Tensor x = leaf({1, 2});
  expect_error(Errc::Autograd, "backward of custom function",
               [&] { sum(Halved::apply(x)).backward(); });
  const Tensor y = leaf({0, 1});
  const Tensor first = grad({sum(pow(y, 1.5))}, {y}, {.create_graph = true})[0];
  expect_error(Errc::Autograd, "NaN", [&] { sum(first * zeros_like(y)).backward(); });
}

// --- forward

TEST(DetectAnomaly, NamesTheOperationOfTheFirstNaNResult) {
  const DetectAnomaly guard({.check_nan = false, .check_forward = true});
  const Tensor x = leaf({1, -4, 0});
  const unsigned line = std::source_location::current().line() + 1;
  expect_parts(error_of([&] { sqrt(x); }, Errc::Autograd),
               {"sqrt", "the first NaN", "result 0 of f32[3], at [1]", at_line(line)});
  expect_parts(error_of([&] { log(abs(x)); }, Errc::Autograd),
               {"log", "the first infinity", "at [2]"});
  expect_parts(error_of([&] { x.detach().clone().reciprocal_(); }, Errc::Autograd),
               {"reciprocal", "the first infinity", "at [2]"});
  const auto compiled = compile([](const Tensor& t) { return exp(t * 1000) + 1; });
  expect_parts(error_of([&] { compiled(x); }, Errc::Autograd), {"exp", "infinity", "at [0]"});
}

TEST(DetectAnomaly, WhatIsAskedForIsNoAnomaly) {
  const DetectAnomaly guard({.check_forward = true});
  const Tensor x = leaf({1, 2, 3});
  full({2}, NAN);
  const Tensor scores = masked_fill(x, x > 2, -INFINITY);
  const Tensor y = softmax(scores, 0);
  sum(y * y).backward();
  exp(scores);
  empty({1000}).zero_();
  const Tensor no_number = full({3}, NAN);
  EXPECT_TRUE(std::isnan((x + no_number).index({0}).item()));
  max_pool2d(ones({1, 1, 4, 4}), {3, 3}, {.padding = {1, 1}});
  scaled_dot_product_attention(ones({1, 1, 4, 8}), ones({1, 1, 4, 8}), ones({1, 1, 4, 8}), {},
                               true);
}

TEST(DetectAnomaly, ParametersStayAsTheyAre) {
  const Tensor x = leaf({4, 0, 9});
  const DetectAnomaly guard;
  expect_error(Errc::Autograd, "NaN", [&] { trap(x).backward(); });
  EXPECT_FALSE(x.grad().defined());
}

}  // namespace
}  // namespace tandem
