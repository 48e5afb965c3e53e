// Functions of functions: against each other, against differences and loops, eager and compiled.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/check_compiled.h"

namespace tandem::testing {
namespace {

Tensor wide(const Shape& sizes, uint64_t seed) { return noise(sizes, seed, f64); }

struct Net {
  nn::Linear in{3, 5}, out{5, 2};
  TANDEM_FIELDS(Net, in, out)
  Tensor operator()(const Tensor& x) const { return out(tanh(in(x))); }
};

TEST(Transforms, VjpIsTheGradient) {
  const Tensor x = wide({3, 2}, 1), w = wide({2, 3}, 2);
  const auto f = [&](const Tensor& a) { return std::pair(matmul(sin(a), w), sum(a * a)); };
  const auto [y, pullback] = vjp(f, x);
  EXPECT_FALSE(y.first.requires_grad());
  const Tensor g = wide({3, 3}, 3), h = wide({}, 4);
  const Tensor point = x.clone().requires_grad_();
  const auto [a, b] = f(point);
  (sum(a * g) + b * h).backward();
  for (int k = 0; k < 2; ++k) expect_close(point.grad(), pullback({g, h}), 1e-12, "pulled back");
  const auto compiled = compile([&](const Tensor& p, const Tensor& q, const Tensor& r) {
    return vjp(f, p).pullback({q, r});
  });
  expect_close(point.grad(), compiled(x, g, h), 1e-12, "compiled");
}

TEST(Transforms, VjpOfSeveralArguments) {
  const Tensor x = wide({3}, 1), y = wide({3}, 2), n = tensor({1, 2, 3});
  const auto f = [](const Tensor& a, const Tensor& b, const Tensor& c) { return a * b * c; };
  const auto [out, pullback] = vjp(f, std::tuple(x, y, n));
  const auto [gx, gy, gn] = pullback(ones({3}, f64));
  expect_close(y * n, gx, 1e-12, "x");
  expect_close(x * n, gy, 1e-12, "y");
  EXPECT_FALSE(gn.defined());
  const auto both = vjp([](const Tensor& a, const Tensor& b) { return a * b; }, std::tuple(x, x));
  expect_close(2 * x, std::get<0>(both.pullback(ones({3}, f64))), 1e-12,
               "one tensor in two places");
}

TEST(Transforms, VjpIsDifferentiatedAgain) {
  const Tensor x = wide({3}, 1), g = wide({3}, 2);
  const auto pulled = [&](const Tensor& a) {
    const auto cube = [](const Tensor& t) { return t * t * t; };
    return sum(vjp(cube, a).pullback(g));
  };
  expect_close(6 * x * g, grad(pulled)(x), 1e-12, "by the point");
  const auto linear = [&](const Tensor& h) {
    const auto cube = [](const Tensor& t) { return t * t * t; };
    return sum(vjp(cube, x).pullback(h));
  };
  expect_close(3 * x * x, grad(linear)(g), 1e-12, "by the gradient");
}

TEST(Transforms, LinearizeIsJvp) {
  const Tensor x = wide({3, 2}, 1), v = wide({3, 2}, 2);
  const auto f = [](const Tensor& a) { return tanh(matmul(a, a.t())) + sum(a); };
  const auto [y, pushforward] = linearize(f, x);
  expect_close(f(x), y, 1e-12, "value");
  for (const double s : {1.0, 2.0})
    expect_close(jvp(f, x, v).tangent * s, pushforward(v * s), 1e-12, "tangent");
  const auto compiled =
      compile([&](const Tensor& a, const Tensor& b) { return linearize(f, a).pushforward(b); });
  expect_close(jvp(f, x, v).tangent, compiled(x, v), 1e-11, "compiled");
  expect_close(vmap([&](const Tensor& t) { return pushforward(t); })(stack({v, 3 * v}))[1],
               3 * pushforward(v), 1e-12, "of many directions");
}

TEST(Transforms, JacobiansAgree) {
  const Tensor x = wide({2, 3}, 1), w = wide({3, 2}, 2);
  const auto f = [&](const Tensor& a, const Tensor& b) { return sin(matmul(a, b)) * sum(a); };
  const Tensor rows = jacrev(f)(x, w), columns = jacfwd(f)(x, w);
  EXPECT_EQ(rows.sizes(), (Shape{2, 2, 2, 3}));
  expect_close(rows, columns, 1e-12, "rows and columns");
  expect_close(rows, jacrev(f, {.chunk_size = 3})(x, w), 1e-12, "rows in chunks");
  expect_close(rows, jacfwd(f, {.chunk_size = 4})(x, w), 1e-12, "columns in chunks");
  const Tensor step = zeros({2, 3}, f64);
  step.index_put_({tensor({1}), tensor({2})}, tensor({1e-6}).to(f64));
  expect_close((f(x + step, w) - f(x - step, w)) / 2e-6, rows.select(3, 2).select(2, 1), 1e-7,
               "differences");
  const auto [by_w, by_x] = jacrev<1, 0>(f)(x, w);
  expect_close(rows, by_x, 1e-12, "by number");
  expect_close(jacfwd<1>(f)(x, w), by_w, 1e-12, "by the other");
  expect_close(rows, compile(jacrev(f))(x, w), 1e-12, "compiled rows");
  expect_close(rows, compile(jacfwd(f))(x, w), 1e-12, "compiled columns");
  const auto compiled = compile(f);
  const auto around = [&](const Tensor& a, const Tensor& b) { return compiled(a, b); };
  expect_close(rows, jacrev(around)(x, w), 1e-12, "rows around compiled");
  expect_close(rows, jacfwd(around)(x, w), 1e-12, "columns around compiled");
}

TEST(Transforms, JacobianByAModule) {
  manual_seed(1);
  Net net;
  nn::to(net, f64);
  const Tensor x = wide({3}, 1);
  const auto f = [](const Net& n, const Tensor& a) { return n(a); };
  const Net rows = jacrev(f)(net, x), columns = jacfwd(f)(net, x);
  EXPECT_EQ(rows.in.weight.sizes(), (Shape{2, 5, 3}));
  expect_close(rows.in.weight.detach(), columns.in.weight.detach(), 1e-12, "weight");
  expect_close(rows.out.bias.detach(), eye(2, {}, f64), 1e-12, "bias");
}

/// Tensors that do not move at first, of whose parts some are written by what does: in memory they
/// made themselves, in rows that are not next to each other, again after they moved.
TEST(Transforms, JacobiansOfWhatIsFilledPartByPart) {
  using Fn = Tensor (*)(const Tensor&);
  const Fn fills[] = {
      [](const Tensor& a) {
        const Tensor y = zeros({3, 3}, f64);
        for (int i = 0; i < 3; ++i) y.select(1, i).copy_(a * a[i]);
        return y * y;
      },
      [](const Tensor& a) {
        const Tensor y = full({7}, 2, f64);
        y.slice(0, 1, 7, 2).mul_(sin(a));
        y.slice(0, 0, 3).mul_(y.slice(0, 2, 5).clone());
        return y;
      },
      [](const Tensor& a) {
        const Tensor y = zeros({4, 2}, f64).t();
        y.slice(1, 1).index_put_({tensor({1, 0}), tensor({2, 0})}, a.slice(0, 1) * a[0]);
        return y.add_(a.sum());
      },
      [](const Tensor& a) {
        const Tensor y = a.clone();
        y.slice(0, 1).mul_(a[0]).exp_();
        return y;
      },
  };
  const Tensor x = wide({3}, 1);
  for (const Fn f : fills) {
    const Tensor rows = jacrev(f)(x), again = jacrev(jacrev(f))(x);
    expect_close(rows, jacfwd(f)(x), 1e-12, "columns");
    expect_close(rows, compile(jacfwd(f))(x), 1e-12, "compiled");
    expect_close(again, jacfwd(jacfwd(f))(x), 1e-12, "columns of columns");
    expect_close(again, jacfwd(jacrev(f))(x), 1e-12, "columns of rows");
    expect_close(again, jacrev(jacfwd(f))(x), 1e-12, "rows of columns");
    expect_close(again, compile(jacfwd(jacfwd(f)))(x), 1e-12, "compiled columns of columns");
  }
}

TEST(Transforms, HessiansAgree) {
  const Tensor x = wide({4}, 1);
  const auto f = [](const Tensor& a) { return sum(sin(a) * flip(a, {0})) + exp(a).prod(); };
  const Tensor h = hessian(f)(x);
  expect_close(h, h.t(), 1e-12, "symmetric");
  expect_close(h, jacrev(jacrev(f))(x), 1e-12, "reverse over reverse");
  expect_close(h, jacrev(jacfwd(f))(x), 1e-12, "reverse over forward");
  expect_close(h, jacfwd(jacfwd(f))(x), 1e-12, "forward over forward");
  expect_close(h, compile(hessian(f))(x), 1e-12, "compiled");
  const Tensor many = wide({3, 4}, 2), all = vmap(hessian(f))(many);
  for (int64_t i = 0; i < 3; ++i) expect_close(hessian(f)(many[i]), all[i], 1e-12, "of each");
  const Tensor v = wide({4}, 3);
  expect_close(matmul(h, v), hvp(f, x, v).tangent, 1e-12, "hvp");
  const auto norm = [&](const Tensor& a) { return sum(square(hessian(f)(a))); };
  const Tensor up = norm(x + v * 1e-6), down = norm(x - v * 1e-6);
  expect_close((up - down) / 2e-6, sum(grad(norm)(x) * v), 1e-5, "grad(hessian)");
}

TEST(Transforms, VmapOfVjpAndHvp) {
  const Tensor x = wide({3, 4}, 1), v = wide({3, 4}, 2);
  const auto f = [](const Tensor& a) { return sum(a * a * a); };
  const auto product = [&](const Tensor& a, const Tensor& b) { return hvp(f, a, b).tangent; };
  expect_close(6 * x * v, vmap(product)(x, v), 1e-12, "hvp");
  const auto pulled = [&](const Tensor& a, const Tensor& b) {
    return vjp([](const Tensor& t) { return sin(t); }, a).pullback(b);
  };
  expect_close(cos(x) * v, vmap(pulled)(x, v), 1e-12, "vjp");
}

TEST(Transforms, PullsManyGradientsThroughCompiledCode) {
  const auto compiled = compile([](const Tensor& a) { return sin(a) * a; });
  const Tensor x = wide({3}, 1);
  const auto pulled = vjp([&](const Tensor& a) { return compiled(a); }, x);
  const Tensor rows = vmap([&](const Tensor& g) { return pulled.pullback(g); })(eye(3, {}, f64));
  expect_close(diag(cos(x) * x + sin(x)), rows, 1e-12, "example by example");
}

TEST(Transforms, FunctionalCall) {
  manual_seed(1);
  const Net net;
  const Tensor x = noise({4, 3}, 1), weight = noise({5, 3}, 2),
               before = net.in.weight.detach().clone();
  const Tensor got = functional_call(net, {{"in.weight", weight}}, x);
  const Tensor hidden = tanh(matmul(x, weight.t()) + net.in.bias);
  expect_close((matmul(hidden, net.out.weight.t()) + net.out.bias).detach(), got.detach(), 1e-6,
               "value");
  EXPECT_TRUE(equal(before, net.in.weight.detach()));
  // An ensemble: models of many parameters on one input.
  const auto of = [&](const Tensor& w) { return functional_call(net, {{"in.weight", w}}, x); };
  const Tensor many = noise({3, 5, 3}, 3), all = vmap(of)(many);
  for (int64_t i = 0; i < 3; ++i)
    expect_close(of(many[i]).detach(), all[i].detach(), 1e-6, "ensemble");
}

TEST(Transforms, GradientsOfAFunctionThatGivesMore) {
  const Tensor x = wide({3}, 1);
  const auto f = [](const Tensor& a) {
    const Tensor y = sin(a);
    return std::pair(sum(y * a), std::vector<Tensor>{y, Tensor()});
  };
  const auto value_of = [&](const Tensor& a) { return f(a).first; };
  const auto [value, aux, gradient] = value_and_grad(f)(x);
  expect_close(value_of(x), value, 1e-12, "value");
  expect_close(sin(x), aux[0], 1e-12, "aux");
  EXPECT_FALSE(aux[0].requires_grad() || aux[1].defined());
  expect_close(grad(value_of)(x), gradient, 1e-12, "gradient");
  const auto [alone, also] = compile(grad(f))(x);
  expect_close(gradient, alone, 1e-12, "compiled");
  expect_close(sin(x), also[0], 1e-12, "compiled aux");
  const auto each = vmap(value_and_grad(f))(stack({x, 2 * x}));
  expect_close(sin(2 * x), each.aux[0][1], 1e-12, "of each");
}

// --- rules of the user's own

/// sin, which says that its derivative is 3 by gradients and 5 by tangents.
struct OddSin : Function<OddSin> {
  static Tensor forward(FunctionContext& c, const Tensor& x) {
    c.save_for_backward({x});
    return sin(x);
  }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) {
    return {3 * grads[0]};
  }
  static std::vector<Tensor> jvp(FunctionContext&, const std::vector<Tensor>& tangents) {
    return {5 * tangents[0]};
  }
};

TEST(CustomRules, AreUsed) {
  const Tensor x = wide({3}, 1), v = wide({3}, 2);
  const auto f = [](const Tensor& a) { return OddSin::apply(a) * 2; };
  const auto total = [&](const Tensor& a) { return sum(f(a)); };
  const auto along = [&](const Tensor& a, const Tensor& b) {
    const auto moved = jvp(f, a, b);
    return std::pair(moved.output, moved.tangent);
  };
  const auto [y, t] = along(x, v);
  expect_close(2 * sin(x), y, 1e-12, "value");
  expect_close(10 * v, t, 1e-12, "tangent");
  expect_close(full({3}, 6.0, f64), grad(total)(x), 1e-12, "gradient");
  expect_close(10 * v, compile(along)(x, v).second, 1e-12, "compiled tangent");
  expect_close(full({3}, 6.0, f64), compile(grad(total))(x), 1e-12, "compiled gradient");
  expect_close(10 * stack({v, x}), vmap(along)(stack({x, v}), stack({v, x})).second, 1e-12,
               "tangents of each");
  expect_close(full({2, 3}, 6.0, f64), vmap(grad(total))(stack({x, v})), 1e-12,
               "gradients of each");
  expect_close(10 * eye(3, {}, f64), jacfwd(f)(x), 1e-12, "jacfwd");
  expect_close(6 * eye(3, {}, f64), jacrev(f)(x), 1e-12, "jacrev");
}

/// x * y with rules of which each reads what was saved, a result among it.
struct Product : Function<Product> {
  static Tensor forward(FunctionContext& c, const Tensor& x, const Tensor& y) {
    const Tensor z = x * y;
    c.save_for_backward({x, y, z});
    return z;
  }
  static std::vector<Tensor> backward(FunctionContext& c, const std::vector<Tensor>& grads) {
    return {grads[0] * c.saved()[1], grads[0] * c.saved()[2] / c.saved()[1]};
  }
  static std::vector<Tensor> jvp(FunctionContext& c, const std::vector<Tensor>& tangents) {
    const auto part = [&](size_t i, const Tensor& by) {
      return tangents[i].defined() ? tangents[i] * by : zeros_like(by);
    };
    return {part(0, c.saved()[1]) + part(1, c.saved()[0])};
  }
};

TEST(CustomRules, OfSeveralLevels) {
  const Tensor x = wide({3}, 1);
  const auto by_rule = [](const Tensor& a) { return sum(Product::apply(a, Product::apply(a, a))); };
  const auto cube = [](const Tensor& a) { return sum(a * a * a); };
  expect_close(hessian(cube)(x), hessian(by_rule)(x), 1e-12, "forward over reverse");
  expect_close(hessian(cube)(x), jacfwd(jacfwd(by_rule))(x), 1e-12, "forward over forward");
  expect_close(hessian(cube)(x), jacrev(jacfwd(by_rule))(x), 1e-12, "reverse over forward");
  expect_close(hessian(cube)(x), compile(hessian(by_rule))(x), 1e-12, "compiled");
  expect_close(hessian(cube)(x), vmap(hessian(by_rule))(stack({x, x}))[1], 1e-12, "of each");
}

TEST(Transforms, StopGradient) {
  const auto f = [](const Tensor& a) {
    const auto [b, c] = stop_gradient(std::pair(a * 2, a * 3));
    return sum(a * b + c);
  };
  const Tensor x = wide({3}, 1);
  expect_close(2 * x, grad(f)(x), 1e-12, "gradient");
  expect_close(sum(2 * x), jvp(f, x, ones({3}, f64)).tangent, 1e-12, "tangent");
  expect_close(2 * x, vmap(grad(f))(stack({x, x}))[1], 1e-12, "of each");
}

}  // namespace
}  // namespace tandem::testing
