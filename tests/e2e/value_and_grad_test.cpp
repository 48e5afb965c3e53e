// Gradients of functions as functions: by which arguments, of which structures, what can be
// differentiated again, inside and around compiled functions.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/expect_error.h"

namespace tandem {
namespace {

using testing::expect_error;

struct Net {
  nn::Linear in{3, 4, true, f64}, out{4, 1, true, f64};
  nn::Buffer scale = full({}, 2.0, f64);
  Tensor tied = in.weight, count = arange(2);
  TANDEM_FIELDS(Net, in, out, scale, tied, count)
};

Tensor loss_of(const Net& net, const Tensor& x) {
  return (net.out(tanh(net.in(x))) * net.scale).square().mean() + (net.tied * 0.1).square().sum();
}

void expect_near(const Tensor& expected, const Tensor& got) {
  EXPECT_TRUE(allclose(got, expected, 1e-10, 1e-12)) << got << "\nexpected " << expected;
}

TEST(ValueAndGrad, ByTheFirstArgument) {
  const auto f = [](const Tensor& x, const Tensor& y) { return (x * x * y).sum(); };
  const Tensor x = tensor({1.0, 2.0}), y = tensor({3.0, 5.0});
  const auto [value, gradient] = value_and_grad(f)(x, y);
  EXPECT_EQ(value.item(), 23);
  expect_near(2 * x * y, gradient);
  expect_near(2 * x * y, grad(f)(x, y));
  EXPECT_FALSE(value.requires_grad() || gradient.requires_grad() || x.requires_grad());
}

TEST(ValueAndGrad, BySeveralArguments) {
  const auto f = [](const Tensor& x, double factor, const Tensor& y) {
    return (x * y).sum() * factor;
  };
  const Tensor x = tensor({1.0, 2.0}), y = tensor({3.0, 5.0});
  const auto [value, gradients] = value_and_grad<2, 0>(f)(x, 2.0, y);
  expect_near(2 * x, std::get<0>(gradients));
  expect_near(2 * y, std::get<1>(gradients));
  const auto both = grad<0, 2>(f)(x, 2.0, y);
  expect_near(2 * y, std::get<0>(both));
  expect_near(2 * x, grad<2>(f)(x, 2.0, y));
}

TEST(ValueAndGrad, ByAModule) {
  manual_seed(1);
  const Net net;
  const Tensor x = randn({5, 3}, f64);
  const auto [value, gradients] = value_and_grad(loss_of)(net, x);
  EXPECT_FALSE(net.in.weight.grad().defined());
  const Tensor loss = loss_of(net, x);
  loss.backward();
  EXPECT_EQ(value.item(), loss.item());
  expect_near(net.in.weight.grad(), gradients.in.weight);
  expect_near(net.in.weight.grad(), gradients.tied);
  expect_near(net.out.bias.grad(), gradients.out.bias);
  EXPECT_FALSE(gradients.scale.defined() || gradients.count.defined());
  // As the gradients of an optimizer.
  const auto parameters = nn::parameters(net), of_each = nn::parameters(gradients);
  for (size_t i = 0; i < parameters.size(); ++i) expect_near(parameters[i].grad(), of_each[i]);
}

TEST(ValueAndGrad, ZerosWhereNothingDependsOnIt) {
  const auto f = [](const Tensor& x, const Tensor& y) { return y.sum() + x.detach().sum(); };
  expect_near(zeros({2}, f64), grad(f)(ones({2}, f64), ones({1}, f64)));
  const auto constant = [](const Tensor&) { return ones({}, f64); };
  const auto [value, gradient] = value_and_grad(constant)(ones({3}, f64));
  EXPECT_EQ(value.item(), 1);
  expect_near(zeros({3}, f64), gradient);
}

TEST(ValueAndGrad, OfItself) {
  const auto f = [](const Tensor& x) { return (x * x * x * x).sum(); };
  const auto first = [=](const Tensor& x) { return grad(f)(x).sum(); };
  const auto second = [=](const Tensor& x) { return grad(first)(x).sum(); };
  const Tensor x = tensor({1.0, -2.0});
  expect_near(24 * x, grad(second)(x));
  expect_near(24 * x, compile(grad(second))(x));
}

/// A captured tensor: the inner gradient has a history that leads to it alone.
TEST(ValueAndGrad, ByWhatTheInnerOneOnlyCaptures) {
  const Tensor x = tensor({1.0, 2.0});
  const auto outer = [&](const Tensor& y) {
    return grad([&](const Tensor& z) { return (z * z * y * y).sum(); })(x).sum();
  };
  const Tensor y = tensor({3.0, 4.0});
  expect_near(4 * x * y, grad(outer)(y));
  expect_near(4 * x * y, grad(compile(outer))(y));
  const Tensor w = y.detach().clone().requires_grad_();
  outer(w).backward();
  expect_near(4 * x * y, w.grad());
}

TEST(ValueAndGrad, HasAHistoryWhereSomethingOutsideRequiresGrad) {
  const auto f = [](const Tensor& x) { return (x * x * x).sum(); };
  const Tensor x = tensor({2.0}).requires_grad_();
  const auto [value, gradient] = value_and_grad(f)(x);
  EXPECT_TRUE(value.requires_grad() && gradient.requires_grad());
  EXPECT_FALSE(x.grad().defined());
  gradient.sum().backward();
  EXPECT_EQ(x.grad().item(), 12);
  const NoGrad no_grad;
  EXPECT_FALSE(grad(f)(x).requires_grad());
  EXPECT_EQ(grad(f)(x).item(), 12);
}

TEST(ValueAndGrad, InsideAndAroundCompiledFunctions) {
  manual_seed(2);
  const Net net;
  const Tensor x = randn({5, 3}, f64);
  const auto [value, gradients] = value_and_grad(loss_of)(net, x);
  const auto inside = compile(value_and_grad(loss_of));
  const auto around = value_and_grad(compile(loss_of));
  for (int call = 0; call < 2; ++call) {
    const auto a = inside(net, x), b = around(net, x);
    expect_near(value, a.value);
    expect_near(value, b.value);
    for (size_t i = 0; i < nn::parameters(gradients).size(); ++i) {
      expect_near(nn::parameters(gradients)[i], nn::parameters(a.gradients)[i]);
      expect_near(nn::parameters(gradients)[i], nn::parameters(b.gradients)[i]);
    }
  }
  EXPECT_FALSE(net.in.weight.grad().defined());
}

TEST(ValueAndGrad, Refusals) {
  const auto f = [](const Tensor& x) { return x * 2; };
  expect_error(Errc::Shape, "expected a function that gives one floating element, got f32[2]",
               [&] { grad(f)(ones({2})); });
  expect_error(Errc::Shape, "expected a function that gives one floating element, got i64[]",
               [&] { grad(f)(ones({}, i64)); });
  EXPECT_EQ(grad(f)(ones({1})).item(), 2);
}

}  // namespace
}  // namespace tandem
