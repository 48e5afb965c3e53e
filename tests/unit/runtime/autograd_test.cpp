// The tape: gradients against finite differences, views and writes, higher orders, hooks, errors.
#include <gtest/gtest.h>
#include <tandem/ops.h>

#include <cmath>
#include <functional>

#include "tests/support/expect_error.h"

namespace tandem {
namespace {

using testing::error_of;

using Values = std::vector<double>;
using Function1 = std::function<Tensor(const Tensor&)>;

Values values(const Tensor& t) { return t.to_vector<double>(); }
Tensor leaf(const Values& v, const Shape& sizes) {
  return from_data<double>(v, sizes).requires_grad_();
}
Tensor random_leaf(const Shape& sizes, uint64_t seed = 1) {
  manual_seed(seed);
  return (rand(sizes, f64) * 2.0 - 1.0).detach().requires_grad_();
}

/// Compares the gradient of a weighted sum of f(x) with central differences.
void check_gradient(const Function1& f, const Tensor& x, double tolerance = 1e-6) {
  manual_seed(77);
  const Tensor weights = [&] {
    const NoGrad no_grad;
    return randn(f(x).sizes(), f64);
  }();
  const auto objective = [&] { return sum(f(x) * weights); };
  const Tensor gradient = grad({objective()}, {x})[0];
  const NoGrad no_grad;
  auto* data = x.data<double>();
  const Values got = values(gradient);
  for (size_t i = 0; i < got.size(); ++i) {
    const double before = data[i], step = 1e-6;
    data[i] = before + step;
    const double above = objective().item();
    data[i] = before - step;
    const double below = objective().item();
    data[i] = before;
    EXPECT_NEAR(got[i], (above - below) / (2 * step), tolerance) << "element " << i;
  }
}

TEST(Autograd, ComposedFunctions) {
  check_gradient([](const Tensor& x) { return tanh(x) * exp(x) + x / (x * x + 2.0); },
                 random_leaf({3, 4}));
  check_gradient([](const Tensor& x) { return softmax(x.matmul(x.t()), -1); }, random_leaf({4, 3}));
  check_gradient([](const Tensor& x) { return gelu(layer_norm(x, {5})); }, random_leaf({3, 5}),
                 1e-5);
  check_gradient([](const Tensor& x) { return cross_entropy(x, tensor({1, 0, 2})); },
                 random_leaf({3, 4}));
  check_gradient([](const Tensor& x) { return x.sum(0) * x.mean({1}, true) + x.var({0}); },
                 random_leaf({4, 4}));
  check_gradient([](const Tensor& x) { return cat({x.t().reshape({6}), x.flatten().flip(0)}); },
                 random_leaf({2, 3}));
  check_gradient([](const Tensor& x) { return x[tensor({1, 1, 0})].gather(1, tensor({{0, 1}})); },
                 random_leaf({2, 3}));
  check_gradient([](const Tensor& x) { return where(x > 0, x, x * x).cos().pow(2); },
                 random_leaf({7}));
  check_gradient(
      [](const Tensor& x) { return scaled_dot_product_attention(x, x * 2, x + 1, {}, true); },
      random_leaf({2, 3, 4}));
}

TEST(Autograd, BackwardAccumulates) {
  const Tensor x = leaf({1, 2, 3}, {3});
  (x * x).sum().backward();
  EXPECT_EQ(values(x.grad()), Values({2, 4, 6}));
  (x * 3).sum().backward();
  EXPECT_EQ(values(x.grad()), Values({5, 7, 9}));
  const Tensor y = x + x;
  y.backward(tensor({1.0, 0.0, 2.0}, f64));
  EXPECT_EQ(values(x.grad()), Values({7, 7, 13}));
  x.set_grad({});
  EXPECT_FALSE(x.grad().defined());
}

TEST(Autograd, LeavesDoNotShareGradients) {
  const Tensor a = leaf({1}, {1}), b = leaf({1}, {1});
  (a + b).backward();
  a.grad().mul_(5);
  EXPECT_EQ(b.grad().item(), 1);
  const Tensor c = leaf({1, 2}, {2});
  c.sum().backward();
  EXPECT_TRUE(c.grad().is_contiguous());
}

// --- writes

TEST(Autograd, WritesMoveTheHistory) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor y = x * 2;
  y.mul_(y.detach());
  EXPECT_FALSE(y.is_leaf());
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), Values({4, 8}));  // d(2x c)/dx with c = 2x held
}

TEST(Autograd, WriteOfAnOperandKeepsItsOldValue) {
  const Tensor x = leaf({3}, {1}), w = leaf({5}, {1});
  const Tensor y = x * 1;
  y.mul_(w);  // w's gradient reads y as it was
  y.backward();
  EXPECT_EQ(w.grad().item(), 3);
  EXPECT_EQ(x.grad().item(), 5);
}

TEST(Autograd, WriteThroughAViewReachesTheBase) {
  const Tensor x = leaf({1, 2, 3, 4}, {2, 2});
  const Tensor y = x * 1;
  y[0].mul_(10);
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), Values({10, 10, 1, 1}));
}

TEST(Autograd, WriteOfTheBaseReachesViews) {
  const Tensor x = leaf({1, 2, 3, 4}, {2, 2});
  const Tensor y = x * 1;
  const Tensor row = y[0], column = y.t()[0];
  y.mul_(y.detach() * 2);
  EXPECT_EQ(values(row), Values({2, 8}));
  (row.sum() + column.sum()).backward();
  EXPECT_EQ(values(x.grad()), Values({4, 4, 6, 0}));
}

TEST(Autograd, WriteThroughOneViewReachesAnother) {
  const Tensor x = leaf({1, 2, 3, 4}, {4});
  const Tensor y = x * 1;
  const Tensor left = y.slice(0, 0, 3), right = y.slice(0, 1, 4);
  left.mul_(10);
  right.sum().backward();
  EXPECT_EQ(values(x.grad()), Values({0, 10, 10, 1}));
}

TEST(Autograd, ChainsOfViews) {
  const Tensor x = leaf({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor y = x * 1;
  y.t().slice(0, 1, 3).select(1, 1).copy_(leaf({7, 8}, {2}) * 1);
  EXPECT_EQ(values(y), Values({1, 2, 3, 4, 7, 8}));
  (y * y).sum().backward();
  EXPECT_EQ(values(x.grad()), Values({2, 4, 6, 8, 0, 0}));
}

TEST(Autograd, BuffersBecomeDifferentiable) {
  const Tensor buffer = zeros({2, 2}, f64), x = leaf({3, 4}, {2});
  const Tensor early = buffer[1];
  buffer[1] = x * 2;
  buffer[0] = x[1];
  EXPECT_TRUE(buffer.requires_grad());
  EXPECT_TRUE(early.requires_grad());
  (buffer * buffer).sum().backward();
  EXPECT_EQ(values(x.grad()), Values({24, 32 + 16}));
}

// Expected values are PyTorch's for the same program.
TEST(Autograd, WritesIntoABufferAndThroughViewsOfViews) {
  const Tensor x = leaf({.1, .2, .3, .4, .5, .6, .7, .8, .9}, {3, 3});
  const Tensor unused = leaf({1, 2}, {2}), buffer = zeros({3, 3}, f64);
  const Tensor y = x * 1, row = y.slice(0, 0, 1);
  buffer.copy_(row.expand({3, 3}));
  row.copy_(sin(row * 1));
  const Tensor column = row.view({1, 3}).t(), twice = column + column;
  const Tensor tail = (twice * (1.0 / 6)).view({3}).slice(0, 1, 3);
  tail.view({2}).mul_(.5);
  const Tensor out = tail * 2.5 + 1.5;
  tail.copy_(sin(tail * 1));
  const Tensor again = twice.view({3, 1});
  again.copy_(tanh(again));
  EXPECT_TRUE(buffer.requires_grad());
  EXPECT_FALSE(buffer.is_leaf());
  const auto gradients =
      grad({column.sum(), tail.sum(), out.sum()}, {x, unused, buffer}, {.allow_unused = true});
  const Values expected{0.995004165278026, 1.551682546381435, 1.512423018047908, 0, 0, 0, 0, 0, 0};
  const Values got = values(gradients[0]);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-14) << i;
  EXPECT_FALSE(gradients[1].defined());
  EXPECT_FALSE(gradients[2].defined());
}

TEST(Autograd, WritesCutTheHistory) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor y = x * 3;
  y.fill_(1);
  y.slice(0, 0, 1).add_(x.slice(0, 0, 1));
  y.sum().backward();
  EXPECT_EQ(values(x.grad()), Values({1, 0}));
}

TEST(Autograd, RefusedWrites) {
  const Tensor x = leaf({1, 2}, {2});
  error_of([&] { x.add_(1); }, Errc::Autograd);
  error_of([&] { x[0].add_(1); }, Errc::Autograd);
  {
    const NoGrad no_grad;
    x.add_(1);
    x[0].add_(1);
  }
  EXPECT_EQ(values(x), Values({3, 3}));
  EXPECT_TRUE(x.is_leaf());
  const Tensor leaf_view = zeros({2}, f64)[0].requires_grad_();
  error_of([&] { leaf_view.add_(1); }, Errc::Autograd);
  const Tensor y = x * 1;
  const Tensor frozen = [&] {
    const NoGrad no_grad;
    return y[0];
  }();
  error_of([&] { frozen.mul_(x[0]); }, Errc::Autograd);
}

TEST(Autograd, ChangedOperandsAreNoticed) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor y = x * 1, z = y * y;
  y[0].add_(1);
  const std::string text = error_of([&] { z.sum().backward(); }, Errc::Version);
  EXPECT_NE(text.find("saved by mul"), std::string::npos) << text;
  EXPECT_NE(text.find("autograd_test.cpp"), std::string::npos) << text;
  const Tensor e = exp(x);
  e.detach().add_(1);  // detached tensors share the version
  error_of([&] { e.sum().backward(); }, Errc::Version);
  const Tensor s = x * 2;
  const Tensor t = s + 1;  // reads nothing
  s.add_(1);
  t.sum().backward();
}

// --- graphs

TEST(Autograd, HigherOrders) {
  const Tensor x = leaf({0.5, 2}, {2});
  const Tensor y = (x * x * x).sum();
  const Tensor g = grad({y}, {x}, {.create_graph = true})[0];
  const Tensor h = grad({g.sum()}, {x}, {.create_graph = true})[0];
  EXPECT_EQ(values(h), Values({3, 12}));
  EXPECT_EQ(values(grad({h.sum()}, {x})[0]), Values({6, 6}));
  // Results kept by a rule get their history back.
  const Tensor e = grad({exp(x).sum()}, {x}, {.create_graph = true})[0];
  EXPECT_NEAR(values(grad({e.sum()}, {x})[0])[1], std::exp(2), 1e-12);
}

TEST(Autograd, SecondOrderThroughAWrite) {
  const Tensor x = leaf({2, 3}, {2});
  const Tensor y = x * x;
  y[0].mul_(x[1]);
  const Tensor g = grad({y.sum()}, {x}, {.create_graph = true})[0];  // 2 x0 x1, x0^2 + 2 x1
  EXPECT_EQ(values(g), Values({12, 10}));
  EXPECT_EQ(values(grad({g.sum()}, {x})[0]), Values({10, 6}));
}

TEST(Autograd, GradTouchesNoLeaf) {
  const Tensor x = leaf({1}, {1}), w = leaf({2}, {1}), unused = leaf({2}, {1});
  const Tensor h = x * w, y = h * h;
  EXPECT_EQ(grad({y}, {h}, {.retain_graph = true})[0].item(), 4);
  EXPECT_FALSE(x.grad().defined());
  error_of([&] { grad({y}, {unused}, {.retain_graph = true}); }, Errc::Autograd);
  EXPECT_FALSE(grad({y}, {unused}, {.retain_graph = true, .allow_unused = true})[0].defined());
  EXPECT_EQ(grad({y, h}, {w}, {.grad_outputs = {tensor({1.0}, f64), tensor({3.0}, f64)}})[0].item(),
            7);
}

TEST(Autograd, GraphsAreFreed) {
  const Tensor x = leaf({1}, {1}), y = x * x;
  y.backward({}, true);
  y.backward();
  EXPECT_EQ(x.grad().item(), 4);
  error_of([&] { y.backward(); }, Errc::Autograd);
}

TEST(Autograd, RefusedBackwards) {
  const Tensor x = leaf({1, 2}, {2});
  error_of([&] { (x * 2).backward(); }, Errc::Autograd);
  error_of([&] { ones({1}).backward(); }, Errc::Autograd);
  error_of([&] { (x * 2).backward(ones({3}, f64)); }, Errc::Shape);
  error_of([&] { tensor({1}).requires_grad_(); }, Errc::DType);
  EXPECT_FALSE((x > 0).requires_grad());
  EXPECT_FALSE(x.detach().requires_grad());
}

TEST(Autograd, GradMode) {
  const Tensor x = leaf({1}, {1});
  const NoGrad no_grad;
  EXPECT_FALSE((x * 2).requires_grad());
  {
    const EnableGrad enable;
    EXPECT_TRUE((x * 2).requires_grad());
  }
  EXPECT_FALSE(grad_enabled());
}

TEST(Autograd, DeepChains) {
  const Tensor x = leaf({1}, {1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y * 1.0;
  y.backward();
  EXPECT_EQ(x.grad().item(), 1);
  y = x;
  for (int i = 0; i < 100000; ++i) y = y * x;
}  // freed without recursion

TEST(Autograd, Hooks) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor y = x * 2;
  y.retain_grad();
  int calls = 0;
  y.register_hook([&](const Tensor& g) {
    ++calls;
    return g * 10;
  });
  x.register_hook([](const Tensor& g) { return g + 1; });
  (y * y).sum().backward();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(values(y.grad()), Values({40, 80}));
  EXPECT_EQ(values(x.grad()), Values({81, 161}));
}

// --- functions of the user's own

struct Cube : Function<Cube> {
  static Tensor forward(FunctionContext& context, const Tensor& x, double scale) {
    context.save_for_backward({x});
    return x * x * x * scale;
  }
  static std::vector<Tensor> backward(FunctionContext& context, const std::vector<Tensor>& grads) {
    const Tensor& x = context.saved()[0];
    return {grads[0] * x * x * 3};
  }
};

struct Split : Function<Split> {
  static std::vector<Tensor> forward(FunctionContext& context, const Tensor& x) {
    Tensor e = exp(x);
    context.save_for_backward({e});
    return {e, x};
  }
  static std::vector<Tensor> backward(FunctionContext& context, const std::vector<Tensor>& grads) {
    const Tensor first = grads[0].defined() ? grads[0] * context.saved()[0] : Tensor();
    if (!grads[1].defined()) return {first};
    return {first.defined() ? first + grads[1] : grads[1]};
  }
};

TEST(Autograd, CustomFunctions) {
  const Tensor x = leaf({1, 2}, {2});
  const Tensor y = Cube::apply(x, 2.0);
  EXPECT_EQ(values(y), Values({2, 16}));
  const Tensor g = grad({y.sum()}, {x}, {.create_graph = true})[0];
  EXPECT_EQ(values(g), Values({3, 12}));
  EXPECT_EQ(values(grad({g.sum()}, {x})[0]), Values({6, 12}));
  const auto parts = Split::apply(x);
  EXPECT_FALSE(parts[1].is_same(x));
  parts[1].sum().backward({}, true);
  EXPECT_EQ(values(x.grad()), Values({1, 1}));
  const NoGrad no_grad;
  EXPECT_FALSE(Cube::apply(x, 1.0).requires_grad());
}

}  // namespace
}  // namespace tandem
