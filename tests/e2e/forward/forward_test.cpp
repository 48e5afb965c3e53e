// Forward mode as a stranger uses it: against gradients and differences, eager against compiled,
// nested, through writes and views.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>

#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

Tensor leaf(const Shape& sizes, uint64_t seed) { return noise(sizes, seed, f64).requires_grad_(); }

Tensor differences(const Function& f, const Tensor& x, const Tensor& v) {
  const double step = 1e-6;
  return (f(x + v * step) - f(x - v * step)) / (2 * step);
}

/// The derivative of f at x along v by the tape alone: of the gradient along w, by w.
Tensor by_two_gradients(const Function& f, const Tensor& x, const Tensor& v) {
  const Tensor point = x.detach().requires_grad_(), y = f(point);
  const Tensor w = zeros_like(y.detach()).requires_grad_();
  const Tensor g = grad({y}, {point}, {.grad_outputs = {w}, .create_graph = true})[0];
  return grad({g}, {w}, {.grad_outputs = {v}})[0];
}

/// Eager, compiled, and around a compiled function: all agree with the tape and with differences.
void check_jvp(const Function& f, const Tensor& x, const Tensor& v) {
  const auto [y, dy] = jvp(f, x, v);
  expect_close(f(x), y, 1e-12, "value");
  expect_close(by_two_gradients(f, x, v), dy, 1e-11, "tape");
  expect_close(differences(f, x, v), dy, 1e-6, "differences");
  const auto whole = compile([&](const Tensor& a, const Tensor& b) {
    auto moved = jvp(f, a, b);
    return std::tuple{moved.output, moved.tangent};
  });
  const auto [compiled_y, compiled_dy] = whole(x, v);
  expect_close(y, compiled_y, 1e-12, "compiled value");
  expect_close(dy, compiled_dy, 1e-11, "compiled tangent");
  const auto compiled = compile([&](const Tensor& a) { return f(a); });
  expect_close(dy, jvp(compiled, x, v).tangent, 1e-11, "around compiled");
}

struct Net {
  nn::Linear in{3, 5}, out{5, 2};
  TANDEM_FIELDS(Net, in, out)
  Tensor operator()(const Tensor& x) const { return out(tanh(in(x))); }
};

TEST(Forward, OfAnMlpByItsInput) {
  manual_seed(1);
  Net net;
  nn::to(net, f64);
  check_jvp([&](const Tensor& x) { return net(x); }, noise({4, 3}, 1, f64), noise({4, 3}, 2, f64));
}

TEST(Forward, OfAnMlpByItsParameters) {
  manual_seed(1);
  Net net, direction;
  const Tensor x = noise({4, 3}, 1);
  const auto loss = [&](const Net& n) { return mean(square(n(x))); };
  const auto [value, slope] = jvp(loss, net, direction);
  const Tensor y = loss(net);
  expect_close(y.detach(), value.detach(), 1e-6, "value");
  y.backward();
  double expected = 0;
  const auto of = nn::parameters(net), along = nn::parameters(direction);
  for (size_t i = 0; i < of.size(); ++i) expected += sum(of[i].grad() * along[i]).item();
  EXPECT_NEAR(slope.item(), expected, 1e-5 * (1 + std::abs(expected)));
}

TEST(Forward, OfLayersAndLosses) {
  const Tensor w = noise({4, 3, 3, 3}, 3, f64), target = tensor({1, 0, 2});
  check_jvp([&](const Tensor& x) { return relu(conv2d(x, w, {}, {.padding = {1}})); },
            noise({2, 3, 5, 5}, 1, f64), noise({2, 3, 5, 5}, 2, f64));
  check_jvp([&](const Tensor& x) { return cross_entropy(x, target); }, noise({3, 4}, 1, f64),
            noise({3, 4}, 2, f64));
  check_jvp([&](const Tensor& x) { return layer_norm(x, {4}); }, noise({3, 4}, 1, f64),
            noise({3, 4}, 2, f64));
  check_jvp([&](const Tensor& x) { return scaled_dot_product_attention(x, x, x); },
            noise({2, 3, 4}, 1, f64), noise({2, 3, 4}, 2, f64));
  check_jvp([&](const Tensor& x) { return max_pool2d(x, {2}); }, noise({1, 2, 4, 4}, 1, f64),
            noise({1, 2, 4, 4}, 2, f64));
}

TEST(Forward, OfMatrices) {
  const Tensor x = noise({2, 3, 3}, 1, f64), v = noise({2, 3, 3}, 2, f64);
  const Tensor id = 3 * eye(3, {}, f64);
  check_jvp([&](const Tensor& a) { return linalg::inv(a + id); }, x, v);
  check_jvp([&](const Tensor& a) { return linalg::det(a + id); }, x, v);
  check_jvp([&](const Tensor& a) { return linalg::solve(a + id, matmul(a, a)); }, x, v);
}

TEST(Forward, LargeOperationsCarryTangents) {
  const Tensor x = noise({40000}, 1, f64), v = noise({40000}, 2, f64);
  check_jvp([](const Tensor& t) { return softplus(t * t) * sin(t) + t; }, x, v);
}

TEST(Forward, WritesInPlaceWriteTheTangent) {
  const Tensor x = noise({3, 4}, 1, f64), v = noise({3, 4}, 2, f64);
  check_jvp(
      [](const Tensor& t) {
        const Tensor y = t * 1.0;
        y.mul_(y).add_(t).exp_();
        return y;
      },
      x, v);
  check_jvp(
      [](const Tensor& t) {
        const Tensor y = zeros({3, 4}, f64);  // does not move until a part of it does
        const Tensor row = y.select(0, 1), other = y.select(1, 2);
        row.copy_(t.select(0, 2));
        other.add_(1.0);
        row.mul_(2.0);
        return y * y + other.sum();
      },
      x, v);
  check_jvp(
      [](const Tensor& t) {
        const Tensor y = sin(t), part = y.slice(1, 1, 3), turned = part.t();
        y.mul_(t);
        turned.mul_(3.0);
        part.slice(0, 0, 1).fill_(7.0);
        return y + part.sum() + turned.exp().sum();
      },
      x, v);
}

TEST(Forward, WritesThroughViewsOfGappedTensors) {
  const auto f = [](const Tensor& t) {
    const Tensor turned = t.t(), first = turned.slice(0, 0, 1), shown = turned.unsqueeze(0);
    first.sin_();
    first.diagonal().mul_(2.0);
    t.sub_(t.slice(1, 0, 1).clone().expand({3, 4}));
    return shown.expand({2, 4, 3}) * 3;
  };
  const auto gapped = [] { return noise({3, 9}, 1, f64).slice(1, 0, 8, 2); };
  const Tensor v = noise({3, 4}, 2, f64);
  const auto copied = [&](const Tensor& t) { return f(t.clone()); };
  expect_close(differences(copied, gapped(), v), jvp(f, gapped(), v).tangent, 1e-6, "gapped");
  check_jvp(copied, gapped(), v);
}

TEST(Forward, AWriteOfAConstantStopsTheTangent) {
  const DualLevel level;
  const Tensor x = make_dual(noise({3}, 1), noise({3}, 2)), y = x * 2;
  y.fill_(1.0);
  EXPECT_FALSE(unpack_dual(y).tangent.defined());
  y.copy_(x);
  expect_close(unpack_dual(x).tangent, unpack_dual(y).tangent, 0, "copied");
  EXPECT_FALSE(unpack_dual(y.detach()).tangent.defined());
  const NoGrad no_grad;
  EXPECT_TRUE(unpack_dual(x * x).tangent.defined());
}

TEST(Forward, TheCallersTensorsKeepTheirContents) {
  const Tensor x = noise({3}, 1, f64), v = noise({3}, 2, f64), v_before = v.clone();
  const Tensor before = x.clone();
  const auto [y, dy] = jvp(
      [](const Tensor& t) {
        t.mul_(2.0);
        return t * t;
      },
      x, v);
  expect_close(2 * before, x, 1e-12, "the primal is written");
  expect_close(v_before, v, 0, "the tangent is not");
  expect_close(8 * before * v, dy, 1e-12, "tangent");
}

TEST(Forward, SeveralArgumentsAndResults) {
  const Tensor a = noise({3}, 1, f64), b = noise({3}, 2, f64), da = noise({3}, 3, f64);
  const auto moved =
      jvp([](const Tensor& x, const Tensor& y,
             const Tensor& i) { return std::pair{x * y, std::vector{x.index_select(0, i), y}}; },
          std::tuple{a, b, tensor({2, 0})}, std::tuple{da, Tensor(), tensor({0, 0})});
  expect_close(da * b, moved.tangent.first, 1e-12, "product");
  expect_close(da.index_select(0, tensor({2, 0})), moved.tangent.second[0], 0, "selected");
  expect_close(zeros({3}, f64), moved.tangent.second[1], 0, "zero");
}

TEST(Forward, OddTensors) {
  const auto cube = [](const Tensor& t) { return t * t * t; };
  for (const Tensor& x :
       {noise({}, 1, f64), noise({0, 3}, 1, f64), noise({4, 6}, 1, f64).t(),
        noise({4, 6}, 1, f64).slice(1, 0, 6, 2), noise({4, 1}, 1, f64).expand({4, 3})}) {
    const Tensor v = noise(x.sizes(), 2, f64);
    expect_close(3 * x * x * v, jvp(cube, x, v).tangent, 1e-12, "cube");
    const auto viewed = [](const Tensor& t) { return t.reshape({-1}).slice(0, 0, 2) * 2; };
    expect_close(viewed(v), jvp(viewed, x, v).tangent, 1e-12, "view");
  }
  const Tensor half = noise({5}, 1, f16);
  EXPECT_EQ(jvp(cube, half, half).tangent.dtype(), f16);
}

TEST(Forward, LevelsAreNotConfused) {
  const auto derivative = [](const Function& f, const Tensor& x) {
    return jvp(f, x, ones_like(x)).tangent;
  };
  const Tensor x = tensor({2.0}, f64);
  // d/dx (x d/dy (x + y)) = 1; with levels confused it is 2
  const Tensor one = derivative(
      [&](const Tensor& t) {
        return t * derivative([&](const Tensor& y) { return t + y; }, tensor({1.0}, f64));
      },
      x);
  EXPECT_EQ(one.item(), 1);
  // the third derivative of x^4 is 24 x
  const Function fourth = [](const Tensor& t) { return t * t * t * t; };
  const Function first = [&](const Tensor& t) { return derivative(fourth, t); };
  const Function second = [&](const Tensor& t) { return derivative(first, t); };
  EXPECT_DOUBLE_EQ(derivative(second, x).item(), 48);
  const auto compiled = compile([&](const Tensor& t) { return derivative(second, t); });
  EXPECT_DOUBLE_EQ(compiled(x).item(), 48);
}

TEST(Forward, HessianVectorProductsAgree) {
  manual_seed(3);
  const Tensor w = noise({4, 4}, 5, f64);
  const Function f = [&](const Tensor& t) {
    const Tensor h = tanh(matmul(t, w).mul_(2.0));
    return sum(exp(h) * h) + logsumexp(t * t, {0, 1});
  };
  const Tensor x = noise({3, 4}, 1, f64), v = noise({3, 4}, 2, f64);
  const Tensor point = x.detach().requires_grad_();
  const Tensor g = grad({f(point)}, {point}, {.create_graph = true})[0];
  const Tensor expected = grad({g}, {point}, {.grad_outputs = {v}})[0];
  const WithTangent<Tensor> product = hvp(f, x, v);
  expect_close(f(x), product.output, 1e-12, "value");
  expect_close(expected, product.tangent, 1e-11, "forward over reverse");
  expect_close(expected, jvp(grad(f), x, v).tangent, 1e-11, "by grad");
  const Tensor moving = x.detach().requires_grad_();
  const Tensor slope = jvp(f, moving, v).tangent;
  expect_close(expected, grad({slope}, {moving})[0], 1e-11, "reverse over forward");
  const auto compiled =
      compile([&](const Tensor& a, const Tensor& b) { return hvp(f, a, b).tangent; });
  expect_close(expected, compiled(x, v), 1e-11, "compiled");
  const Tensor u = noise({3, 4}, 6, f64);
  expect_close(jvp(f, x, v).tangent, jvp(value_and_grad(f), x, v).tangent.value, 1e-12, "slope");
  const auto along_u = [&](const Tensor& t) { return hvp(f, t, v).tangent; };
  expect_close(differences(along_u, x, u), jvp(along_u, x, u).tangent, 1e-5, "third");
}

TEST(Forward, GradientsFlowThroughTangents) {
  const Tensor x = leaf({4}, 1), v = leaf({4}, 2);
  const auto [y, dy] = jvp([](const Tensor& t) { return sin(t) * t; }, x, v);
  (sum(dy) + sum(y)).backward();
  const Tensor c = cos(x), s = sin(x);
  expect_close((c * x + s).detach(), v.grad(), 1e-12, "by the tangent");
  expect_close((v * (2 * c - s * x) + c * x + s).detach(), x.grad(), 1e-12, "by the primal");
}

TEST(Forward, DualNumbers) {
  const Tensor x = noise({3}, 1), v = noise({3}, 2);
  Tensor kept;
  {
    const DualLevel level;
    const Tensor dual = make_dual(x, v);
    kept = sin(dual);
    const auto [primal, tangent] = unpack_dual(kept);
    expect_close(sin(x), primal, 1e-6, "primal");
    expect_close(cos(x) * v, tangent, 1e-6, "tangent");
    EXPECT_FALSE(unpack_dual(primal * 2).tangent.defined());
    EXPECT_FALSE(unpack_dual(x).tangent.defined());
  }
  const DualLevel another;
  EXPECT_FALSE(unpack_dual(kept).tangent.defined());
}

TEST(Forward, DropoutKeepsItsMask) {
  const auto [y, dy] =
      jvp([](const Tensor& t) { return dropout(t, 0.5); }, ones({100}), ones({100}));
  expect_close(y, dy, 0, "mask");
}

}  // namespace
}  // namespace tandem::testing
