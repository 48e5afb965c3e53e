// functionalize(fn), grad(fn) and make_graph(fn) as a user has them, and what they refuse.
#include <gtest/gtest.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include <algorithm>

#include "tests/support/check_compiled.h"

namespace tandem {
namespace {

using ir::Op;
using testing::noise;

Tensor writes_an_intermediate(const Tensor& a) {
  const Tensor b = a + 1;
  const Tensor c = b.view({-1});
  c.add_(1);
  return b;
}

Tensor writes_its_argument(const Tensor& a) {
  const Tensor row = a[1];
  a.mul_(2);
  row.add_(1);
  return row * 3;
}

int writes(const Graph& graph) {
  return static_cast<int>(std::ranges::count_if(graph.equations(), &ir::Equation::in_place));
}
int uses(const Graph& graph, Op op) {
  return static_cast<int>(std::ranges::count(graph.equations(), op, &ir::Equation::op));
}

TEST(Functionalize, AnIntermediateIsWrittenNoMore) {
  const Tensor x = noise({2, 3}, 1);
  const Graph traced = make_graph(writes_an_intermediate)(x);
  EXPECT_EQ(writes(traced), 1) << ir::print(traced);
  EXPECT_EQ(uses(traced, Op::view), 1);
  const Graph functional = make_graph(functionalize(writes_an_intermediate))(x);
  EXPECT_EQ(writes(functional), 0) << ir::print(functional);
  EXPECT_GE(uses(functional, Op::view), 1);
  const Graph values =
      make_graph(functionalize(writes_an_intermediate, remove::mutations_and_views))(x);
  EXPECT_EQ(writes(values), 0) << ir::print(values);
  EXPECT_EQ(uses(values, Op::view), 0) << ir::print(values);
  EXPECT_GE(uses(values, Op::view_copy), 1);
}

TEST(Functionalize, AnArgumentIsWrittenOnceAtTheEnd) {
  const Tensor x = noise({2, 3}, 1);
  EXPECT_EQ(writes(make_graph(writes_its_argument)(x)), 2);
  for (remove what : {remove::mutations, remove::mutations_and_views}) {
    const Graph graph = make_graph(functionalize(writes_its_argument, what))(x);
    ASSERT_EQ(writes(graph), 1) << ir::print(graph);
    const auto write = std::ranges::find_if(graph.equations(), &ir::Equation::in_place);
    EXPECT_EQ(write->op, Op::copy);
    EXPECT_EQ(graph.operands(*write)[0], graph.inputs()[0].value);
    const bool has_view = std::ranges::any_of(
        graph.equations(), [](const ir::Equation& e) { return ir::is_view(e.op); });
    EXPECT_EQ(has_view, what == remove::mutations) << ir::print(graph);
  }
  EXPECT_EQ(x.version(), 0u);  // make_graph runs nothing
}

/// fn and functionalize(fn) on equal arguments: results, gradients, what is in the argument after.
template <class Fn>
void expect_same(Fn fn) {
  for (remove what : {remove::mutations, remove::mutations_and_views})
    for (bool requires_grad : {false, true}) {
      const auto run = [&](const auto& f) {
        const Tensor leaf = noise({4, 6}, 3).requires_grad_(requires_grad);
        const Tensor x = leaf * 1.0;
        const Tensor y = f(x);
        if (y.requires_grad()) (y * y).sum().backward();
        return std::tuple(x, y, leaf.grad().defined() ? leaf.grad() : zeros({4, 6}), x.version());
      };
      const auto [x, y, gradient, version] = run(fn);
      const auto [x1, y1, gradient1, version1] = run(functionalize(fn, what));
      const auto compiled = compile(functionalize(fn, what));
      const auto [x2, y2, gradient2, version2] = run(compiled);
      testing::expect_close(x, x1, 1e-6, "argument");
      testing::expect_close(y, y1, 1e-6, "result");
      testing::expect_close(gradient, gradient1, 1e-6, "gradient");
      testing::expect_close(x, x2, 1e-6, "argument, compiled");
      testing::expect_close(y, y2, 1e-6, "result, compiled");
      testing::expect_close(gradient, gradient2, 1e-6, "gradient, compiled");
      EXPECT_EQ(version, version1);
      EXPECT_EQ(y.requires_grad(), y1.requires_grad());
    }
}

TEST(Functionalize, DoesWhatTheFunctionDoes) {
  expect_same(writes_an_intermediate);
  expect_same(writes_its_argument);
  expect_same([](const Tensor& x) { return x.t()[2].mul_(3); });
  expect_same([](const Tensor& x) {
    const Tensor y = sin(x);
    {
      const NoGrad guard;
      y.mul_(2);
    }
    return y * y;
  });
  expect_same([](const Tensor& x) {
    x.detach().slice(1, 0, 3).fill_(0.5);
    return x * x;
  });
  expect_same([](const Tensor& x) { return x.unfold(1, 3, 2).sum({2}) * x.diagonal()[1]; });
}

TEST(Functionalize, WithoutViewsNothingIsShared) {
  const auto fn = [](const Tensor& x) { return std::vector<Tensor>{x.t(), x * 2, x[0]}; };
  const Tensor x = noise({2, 3}, 1);
  const auto results = functionalize(fn, remove::mutations_and_views)(x);
  for (const Tensor& y : results) {
    EXPECT_TRUE(y.is_contiguous());
    EXPECT_FALSE(y.shares_storage(x));
  }
  EXPECT_TRUE(functionalize(fn)(x)[0].shares_storage(x));
}

TEST(Functionalize, OfAGradient) {
  const auto f = [](const Tensor& x) {
    const Tensor y = x * 2;
    y.slice(0, 0, 1).mul_(x.slice(0, 1, 2));
    return (y * y).sum();
  };
  const Tensor x = noise({3}, 2);
  const Tensor expected = grad(f)(x);
  testing::expect_close(expected, functionalize(grad(f))(x), 1e-6, "functionalize(grad(f))");
  testing::expect_close(expected, grad(functionalize(f))(x), 1e-6, "grad(functionalize(f))");
  testing::expect_close(expected, compile(grad(f))(x), 1e-6, "compile(grad(f))");
  const Graph graph = make_graph(functionalize(grad(f)))(x);
  EXPECT_EQ(writes(graph), 0) << ir::print(graph);
  EXPECT_FALSE(expected.requires_grad());
}

TEST(Grad, IsDifferentiable) {
  const auto f = [](const Tensor& x) { return (x * x * x).sum(); };
  const auto first = [=](const Tensor& x) { return grad(f)(x).sum(); };
  const Tensor x = noise({3}, 2);
  testing::expect_close(6 * x, grad(first)(x), 1e-6, "second derivative");
}

template <class Fn>
void expect_refused(Errc code, const std::string& text, Fn fn) {
  const Tensor x = ones({2, 3});
  const auto refused = [&](auto call) {
    try {
      call(x);
      ADD_FAILURE() << "expected an Error: " << text;
    } catch (const Error& e) {
      EXPECT_EQ(ir::name(e.code()), ir::name(code)) << e.what();
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
    EXPECT_EQ(x.to_vector<float>(), std::vector<float>(6, 1));
    EXPECT_EQ(x.version(), 0u);
    EXPECT_EQ(x.sizes(), (Shape{2, 3}));
  };
  refused([&](const Tensor& t) { functionalize(fn)(t); });
  refused([&](const Tensor& t) { make_graph(fn)(t); });
  refused([&](const Tensor& t) { compile(fn)(t); });
}

TEST(Functionalize, Refusals) {
  expect_refused(Errc::Mutation, "elements share memory", [](const Tensor& x) {
    x.mul_(2);
    x.expand({4, 2, 3}).add_(1);
  });
  expect_refused(Errc::Mutation, "elements share memory", [](const Tensor& x) {
    x.mul_(2);
    x.unfold(1, 2, 1).add_(1);
  });
  expect_refused(Errc::Mutation, "elements share memory", [](const Tensor& x) {
    x.mul_(2);
    x.as_strided({2, 2}, {1, 1}).add_(1);
  });
  expect_refused(Errc::Mutation, "resize_: a view is resized", [](const Tensor& x) {
    x.mul_(2);
    x[0].resize_({2});
  });
  expect_refused(Errc::Trace, "the value is not known while the function is traced",
                 [](const Tensor& x) {
                   x.mul_(2);
                   if (x.sum().item() > 3) x.add_(1);
                 });
  const Tensor captured = ones({3});
  expect_refused(Errc::Mutation, "a captured tensor itself is changed", [=](const Tensor& x) {
    x.mul_(2);
    captured.unsqueeze_(0);
  });
  EXPECT_EQ(captured.sizes(), (Shape{3}));
}

}  // namespace
}  // namespace tandem
