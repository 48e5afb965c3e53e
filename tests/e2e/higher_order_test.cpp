// Gradients of gradients through compiled functions, against eager ones and differences.
#include <gtest/gtest.h>
#include <tandem/graph.h>

#include <functional>

#include "tests/support/check_compiled.h"

namespace tandem::testing {
namespace {

using Function = std::function<Tensor(const Tensor&, const Tensor&)>;

Tensor leaf(const Shape& sizes, uint64_t seed) { return noise(sizes, seed, f64).requires_grad_(); }

/// d^order f / dx^order, each summed with fixed weights, as a function of x and w.
Tensor derivative(const Function& f, const Tensor& x, const Tensor& w, int order) {
  Tensor value = f(x, w).sum();
  for (int i = 0; i < order; ++i)
    value = (grad({value}, {x}, {.create_graph = true})[0] * noise(x.sizes(), 7, f64)).sum();
  return value;
}

/// Gradients of the order-th derivative by x and w.
Tensors gradients(const Function& f, const Tensor& x, const Tensor& w, int order) {
  return grad({derivative(f, x, w, order)}, {x, w}, {.allow_unused = true});
}

void check_orders(const Function& f, const Shape& x_sizes, const Shape& w_sizes,
                  const char* partition = "default") {
  CompileOptions options;
  options.partition = partition;
  const auto compiled = compile([&](const Tensor& x, const Tensor& w) { return f(x, w); }, options);
  for (int order = 0; order < 3; ++order) {
    const Tensor x = leaf(x_sizes, 1), w = leaf(w_sizes, 2);
    const Tensors expected = gradients(f, x, w, order), got = gradients(compiled, x, w, order);
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(expected[i].defined(), got[i].defined()) << order << i;
      if (expected[i].defined()) expect_close(expected[i], got[i], 1e-11, "order");
    }
  }
}

/// The second derivative by x along `direction` against differences of the compiled gradient.
void check_differences(const Function& f, const Shape& x_sizes, const Shape& w_sizes) {
  const auto compiled = compile([&](const Tensor& x, const Tensor& w) { return f(x, w); });
  const Tensor x = leaf(x_sizes, 1), w = leaf(w_sizes, 2), direction = noise(x_sizes, 3, f64);
  const Tensor first = grad({compiled(x, w).sum()}, {x}, {.create_graph = true})[0];
  const Tensor second = grad({(first * direction).sum()}, {x})[0];
  const double step = 1e-5;
  const auto gradient_at = [&](double t) {
    const Tensor moved = (x + direction * t).detach().requires_grad_();
    return grad({compiled(moved, w).sum()}, {moved})[0];
  };
  expect_close((gradient_at(step) - gradient_at(-step)) / (2 * step), second, 1e-6, "Hv");
}

TEST(HigherOrder, PointwiseChain) {
  const Function f = [](const Tensor& x, const Tensor& w) { return sin(x * w) * exp(x); };
  for (const char* partition : {"default", "save-all", "recompute-all"})
    check_orders(f, {6}, {6}, partition);
  check_differences(f, {6}, {6});
}

TEST(HigherOrder, Matmul) {
  const Function f = [](const Tensor& x, const Tensor& w) { return tanh(matmul(x, w)) * 2; };
  check_orders(f, {3, 4}, {4, 2});
  check_differences(f, {3, 4}, {4, 2});
}

TEST(HigherOrder, SoftmaxAndReductions) {
  const Function f = [](const Tensor& x, const Tensor& w) {
    return exp(softmax(x * w, -1)) * logsumexp(x, {-1}, true);
  };
  check_orders(f, {3, 5}, {5});
  check_differences(f, {3, 5}, {5});
}

TEST(HigherOrder, ThroughViewsAndWrites) {
  const Function f = [](const Tensor& x, const Tensor& w) {
    const Tensor y = x * x;
    y.select(0, 1).mul_(w);
    return y * sin(y);
  };
  check_orders(f, {3, 4}, {4});
}

TEST(HigherOrder, TheFirstGradientIsUnchanged) {
  const auto f = compile([](const Tensor& x) { return sum(exp(x) * x); });
  const Tensor x = leaf({5}, 1);
  const Tensor plain = grad({f(x)}, {x})[0],
               recorded = grad({f(x)}, {x}, {.create_graph = true})[0];
  expect_close(plain, recorded, 1e-14, "gradient");
  EXPECT_FALSE(plain.requires_grad());
  EXPECT_TRUE(recorded.requires_grad());
}

TEST(HigherOrder, OfSomeOutputsOnly) {
  const auto program = [](const Tensor& x, const Tensor& w) -> Tensors {
    return {sin(x), exp(w), x * w};
  };
  const auto f = compile(program);
  const auto second = [](const auto& function, size_t output) {
    const Tensor x = leaf({4}, 1), w = leaf({4}, 2);
    const Tensor first =
        grad({function(x, w)[output].sum()}, {x}, {.create_graph = true, .allow_unused = true})[0];
    if (!first.defined() || !first.requires_grad()) return Tensors{Tensor(), Tensor()};
    return grad({(first * first).sum()}, {x, w}, {.allow_unused = true});
  };
  for (size_t output = 0; output < 3; ++output) {
    const Tensors expected = second(program, output), got = second(f, output);
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(expected[i].defined(), got[i].defined()) << output << i;
      if (expected[i].defined()) expect_close(expected[i], got[i], 1e-12, "second");
    }
  }
}

/// Gradients that are linear in the tangent, or read some inputs only: nothing else is kept.
TEST(HigherOrder, OfWhatReadsNoInputOrSome) {
  const std::vector<Function> programs = {
      [](const Tensor& x, const Tensor&) { return x.sum(); },
      [](const Tensor& x, const Tensor& w) { return x.cumsum(0) + w; },
      [](const Tensor& x, const Tensor& w) { return x * w + 3 * w; },
      [](const Tensor& x, const Tensor& w) { return sin(w) + x; },
  };
  const auto second = [](const auto& function) {
    const Tensor x = leaf({4}, 1), w = leaf({4}, 2);
    const Tensor y = function(x, w);
    const Tensor tangent = noise(y.sizes(), 5, f64).requires_grad_();
    const Tensors first =
        grad({y}, {x, w}, {.grad_outputs = {tangent}, .create_graph = true, .allow_unused = true});
    Tensor sum_of_squares = zeros({}, f64);
    for (const Tensor& gradient : first)
      if (gradient.defined()) sum_of_squares = sum_of_squares + square(gradient).sum();
    return grad({sum_of_squares}, {x, w, tangent}, {.allow_unused = true});
  };
  for (const Function& program : programs) {
    const Tensors expected = second(program), got = second(compile(program));
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(expected[i].defined(), got[i].defined()) << i;
      if (expected[i].defined()) expect_close(expected[i], got[i], 1e-12, "second");
    }
  }
}

TEST(HigherOrder, GradientsOfWhatIsLinearRequireNoGrad) {
  const std::vector<std::function<Tensor(const Tensor&)>> programs = {
      [](const Tensor& x) { return x.mean({0}); },
      [](const Tensor& x) { return max(x, 1).values; },
      [](const Tensor& x) { return x * x; },
  };
  const auto gradient_requires_grad = [](const auto& function, bool tangent_does) {
    const Tensor x = leaf({3, 4}, 1), y = function(x);
    const Tensor tangent = noise(y.sizes(), 5, f64).requires_grad_(tangent_does);
    return grad({y}, {x}, {.grad_outputs = {tangent}, .create_graph = true})[0].requires_grad();
  };
  for (const auto& program : programs)
    for (const bool tangent_does : {false, true})
      EXPECT_EQ(gradient_requires_grad(program, tangent_does),
                gradient_requires_grad(compile(program), tangent_does));
}

TEST(HigherOrder, OfTwoViewsOfATensorBehindWhatIsNotRead) {
  const auto program = [](const Tensor& u, const Tensor& x, const Tensor& w) {
    return u + x * sin(w);
  };
  const auto second = [](const auto& function) {
    const Tensor u = leaf({3, 3}, 1), x = leaf({3, 3}, 2);
    const Tensor first = grad({sum(function(u, x, x.t()))}, {x}, {.create_graph = true})[0];
    return grad({square(first).sum()}, {x})[0];
  };
  expect_close(second(program), second(compile(program)), 1e-12, "second");
}

TEST(HigherOrder, OfAnInputThatTheFunctionWrites) {
  const auto program = [](const Tensor& h, const Tensor& w) {
    h.mul_(w);
    return exp(h) * w;
  };
  const auto f = compile(program);
  const auto second = [](const auto& function) {
    const Tensor x = leaf({4}, 1), w = leaf({4}, 2);
    const Tensor h = x * 1.5;
    const Tensor y = function(h, w);
    const Tensor first = grad({y.sum() + h.sum()}, {x}, {.create_graph = true})[0];
    return grad({(first * first).sum()}, {x, w});
  };
  const Tensors expected = second(program), got = second(f);
  for (size_t i = 0; i < 2; ++i) expect_close(expected[i], got[i], 1e-11, "second");
}

TEST(HigherOrder, AChangedInputIsNamed) {
  const auto f = compile([](const Tensor& x, const Tensor& w) { return sum(exp(x) * w); });
  const Tensor x = leaf({4}, 1), w = leaf({4}, 2);
  const Tensor loss = f(x, w);
  {
    const NoGrad no_grad;
    w.add_(1);
  }
  try {
    grad({loss}, {x}, {.create_graph = true});
    FAIL() << "expected an Error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Errc::Version);
    EXPECT_NE(std::string(e.what()).find("input x1"), std::string::npos) << e.what();
  }
}

TEST(HigherOrder, OffIsAnErrorThatNamesTheOption) {
  CompileOptions options;
  options.higher_order = false;
  const auto f = compile([](const Tensor& x) { return sum(exp(x)); }, options);
  const Tensor x = leaf({4}, 1);
  grad({f(x)}, {x});
  try {
    grad({f(x)}, {x}, {.create_graph = true});
    FAIL() << "expected an Error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Errc::Autograd);
    EXPECT_NE(std::string(e.what()).find("higher_order"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace tandem::testing
