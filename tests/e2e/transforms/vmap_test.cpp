// vmap as a stranger uses it: against loops, eager against compiled, in and around derivatives.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>

#include "tests/support/check_compiled.h"

namespace tandem::testing {
namespace {

Tensor wide(const Shape& sizes, uint64_t seed) { return noise(sizes, seed, f64); }

/// fn of each example of dimension 0.
template <class Fn>
Tensor loop(const Fn& fn, const Tensor& x) {
  std::vector<Tensor> results;
  for (int64_t i = 0; i < x.size(0); ++i) results.push_back(fn(x[i]));
  return stack(results);
}

/// Eager, in chunks, compiled and around a compiled function: all are the loop.
template <class Fn>
void check_vmap(const Fn& fn, const Tensor& x) {
  const Tensor expected = loop(fn, x);
  const auto mapped = vmap(fn);
  const Tensor eager = mapped(x);
  expect_close(expected, eager, 1e-12, "loop");
  expect_close(expected, vmap(fn, {.chunk_size = 2})(x), 1e-12, "chunks");
  const auto whole = compile([&](const Tensor& t) { return mapped(t); });
  expect_close(expected, whole(x), 1e-12, "compiled");
  const auto compiled = compile([&](const Tensor& t) { return fn(t); });
  const auto around = [&](const Tensor& t) { return compiled(t); };
  EXPECT_TRUE(equal(vmap(around)(x), eager));
}

struct Net {
  nn::Linear in{3, 5}, out{5, 2};
  TANDEM_FIELDS(Net, in, out)
  Tensor operator()(const Tensor& x) const { return out(tanh(in(x))); }
};

struct SmallCnn {
  nn::Conv2d conv{2, 4, {3}, {.padding = {1}}};
  nn::Linear head{4, 3};
  TANDEM_FIELDS(SmallCnn, conv, head)
  Tensor operator()(const Tensor& x) const {
    return head(mean(max_pool2d(relu(conv(x)), {2}), {2, 3}));
  }
};

TEST(Vmap, IsALoop) {
  const Tensor w = wide({4, 3}, 2), b = wide({4}, 3);
  check_vmap([&](const Tensor& x) { return tanh(matmul(w, x)) + b; }, wide({5, 3}, 1));
  check_vmap([](const Tensor& x) { return x * sum(x, {-1}, true) + x.t(); }, wide({5, 3, 3}, 1));
  check_vmap([](const Tensor& x) { return softmax(x, 0)[1] * 2; }, wide({5, 3, 2}, 1));
  check_vmap([](const Tensor& x) { return where(x > 0, x, exp(x)); }, wide({3}, 1));
  check_vmap([](const Tensor& x) { return cat({x, x * 2}, -1).reshape({-1}); }, wide({5, 2, 2}, 1));
  check_vmap([](const Tensor& x) { return linalg::solve(x + 3 * eye(3, {}, f64), x[0]); },
             wide({5, 3, 3}, 1));
  check_vmap([](const Tensor& x) { return einsum("ij,kj->ik", {x, x}); }, wide({4, 3, 2}, 1));
}

TEST(Vmap, OfModules) {
  manual_seed(1);
  Net net;
  SmallCnn cnn;
  nn::to(net, f64);
  nn::to(cnn, f64);
  check_vmap([&](const Tensor& x) { return net(x).detach(); }, wide({4, 3}, 1));
  check_vmap([&](const Tensor& x) { return cnn(x).detach(); }, wide({3, 1, 2, 4, 4}, 1));
  const Tensor target = tensor({1, 0, 2});
  check_vmap([&](const Tensor& x) { return cross_entropy(x, target); }, wide({4, 3, 3}, 1));
}

TEST(Vmap, DimensionsOfArgumentsAndResults) {
  const Tensor x = wide({3, 5}, 1), y = wide({2, 5, 3}, 2), w = wide({3}, 3);
  const auto f = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return std::pair(b * a + c, sum(a));
  };
  const auto [product, total] =
      vmap(f, {.in_dims = {1, -2, std::nullopt}, .out_dims = {-1, 0}})(x, y, w);
  EXPECT_EQ(product.sizes(), (Shape{2, 3, 5}));
  expect_close(y.permute({0, 2, 1}) * x + w.unsqueeze(-1), product, 1e-12, "product");
  expect_close(sum(x, {0}), total, 1e-12, "total");
}

TEST(Vmap, OfStructures) {
  const std::map<std::string, Tensor> given{{"a", wide({4, 2}, 1)}, {"b", wide({4}, 2)}};
  const auto f = [](const std::map<std::string, Tensor>& m, double scale) {
    return std::map<std::string, Tensor>{{"c", m.at("a") * m.at("b") * scale}, {"d", Tensor()}};
  };
  const auto result = vmap(f)(given, 2.0);
  EXPECT_FALSE(result.at("d").defined());
  expect_close(given.at("a") * given.at("b").unsqueeze(1) * 2, result.at("c"), 1e-12, "c");
}

TEST(Vmap, WhatIsTheSameForAllIsRepeated) {
  const Tensor w = wide({2}, 1);
  const auto [a, b] = vmap([&](const Tensor&) { return std::pair(w, w * 2); })(wide({3}, 2));
  expect_close(w.expand({3, 2}), a, 0, "captured");
  expect_close((w * 2).expand({3, 2}), b, 0, "made of it");
}

TEST(Vmap, Nested) {
  const Tensor x = wide({3, 2}, 1), y = wide({4, 2}, 2);
  const auto dots =
      vmap([](const Tensor& a,
              const Tensor& all) { return vmap([&](const Tensor& b) { return dot(a, b); })(all); },
           {.in_dims = {0, std::nullopt}});
  expect_close(matmul(x, y.t()), dots(x, y), 1e-12, "all pairs");
  const auto compiled = compile(dots);
  expect_close(matmul(x, y.t()), compiled(x, y), 1e-12, "compiled");
}

// --- derivatives

TEST(Vmap, PerSampleGradients) {
  manual_seed(1);
  Net net;
  nn::to(net, f64);
  const Tensor x = wide({6, 3}, 1), y = wide({6, 2}, 2);
  const auto loss = [](const Net& n, const Tensor& a, const Tensor& b) {
    return mean(square(n(a) - b));
  };
  const auto each = vmap(grad(loss), {.in_dims = {std::nullopt, 0, 0}});
  const Net got = each(net, x, y);
  const auto compiled = compile(each);
  const Net also = compiled(net, x, y);
  const auto names = nn::named_parameters(got), again = nn::named_parameters(also);
  for (int64_t i = 0; i < 6; ++i) {
    const auto expected = nn::named_parameters(grad(loss)(net, x[i], y[i]));
    for (size_t p = 0; p < expected.size(); ++p) {
      expect_close(expected[p].second.detach(), names[p].second[i].detach(), 1e-12, "eager");
      expect_close(expected[p].second.detach(), again[p].second[i].detach(), 1e-12, "compiled");
    }
  }
}

TEST(Vmap, PerSampleGradientsOfACnn) {
  manual_seed(1);
  SmallCnn net;
  nn::to(net, f64);
  const Tensor x = wide({5, 2, 4, 4}, 1), y = tensor({0, 2, 1, 1, 0});
  const auto loss = [](const SmallCnn& n, const Tensor& a, const Tensor& b) {
    return cross_entropy(n(a.unsqueeze(0)), b.unsqueeze(0));
  };
  const SmallCnn got = vmap(grad(loss), {.in_dims = {std::nullopt, 0, 0}})(net, x, y);
  for (int64_t i = 0; i < 5; ++i) {
    const SmallCnn one = grad(loss)(net, x[i], y[i]);
    expect_close(one.conv.weight.detach(), got.conv.weight[i].detach(), 1e-12, "convolution");
    expect_close(one.head.bias.detach(), got.head.bias[i].detach(), 1e-12, "head");
  }
}

TEST(Vmap, GradientOutsideAndInside) {
  const Tensor x = wide({4, 3}, 1), w = wide({3}, 2);
  const auto f = [&](const Tensor& a) { return sum(sin(a * w) * a); };
  const auto total = [&](const Tensor& all) { return sum(vmap(f)(all)); };
  expect_close(vmap(grad(f))(x), grad(total)(x), 1e-12, "grad(vmap) = vmap(grad)");
  const auto slope = [&](const Tensor& all) { return sum(square(vmap(grad(f))(all))); };
  const auto by_loop = [&](const Tensor& all) {
    Tensor s = zeros({}, f64);
    for (int64_t i = 0; i < 4; ++i) s = s + sum(square(grad(f)(all[i])));
    return s;
  };
  expect_close(grad(by_loop)(x), grad(slope)(x), 1e-12, "grad(vmap(grad))");
  expect_close(grad(by_loop)(x), compile(grad(slope))(x), 1e-12, "compiled");
  const auto curved = [&](const Tensor& a) { return sum(grad(f)(a) * w); };
  expect_close(loop(grad(curved), x), vmap(grad(curved))(x), 1e-12, "vmap(grad(grad))");
}

TEST(Vmap, TapeOutside) {
  const Tensor x = wide({4, 3}, 1).requires_grad_(), w = wide({3}, 2).requires_grad_();
  const auto f = [&](const Tensor& a) { return exp(a * w).prod(); };
  sum(square(vmap(f)(x))).backward();
  const Tensor by_x = x.grad(), by_w = w.grad();
  x.set_grad({});
  w.set_grad({});
  sum(square(loop(f, x))).backward();
  expect_close(x.grad(), by_x, 1e-12, "by the examples");
  expect_close(w.grad(), by_w, 1e-12, "by what is the same for all");
}

TEST(Vmap, TangentsOutsideAndInside) {
  const Tensor x = wide({4, 3}, 1), v = wide({4, 3}, 2), w = wide({3}, 3), u = wide({3}, 4);
  const auto f = [](const Tensor& a, const Tensor& b) { return tanh(a * b) * sum(a); };
  const auto mapped = [&](const Tensor& a, const Tensor& b) {
    return vmap(f, {.in_dims = {0, std::nullopt}})(a, b);
  };
  const auto outside = jvp(mapped, std::tuple(x, w), std::tuple(v, u));
  const auto moved = [&](const Tensor& a, const Tensor& along) {
    const auto [y, t] = jvp(f, std::tuple(a, w), std::tuple(along, u));
    return std::pair(y, t);
  };
  const auto [y, t] = vmap(moved)(x, v);
  expect_close(outside.output, y, 1e-12, "values");
  expect_close(outside.tangent, t, 1e-12, "tangents");
  const auto compiled =
      compile([&](const Tensor& a, const Tensor& b) { return vmap(moved)(a, b); });
  expect_close(t, compiled(x, v).second, 1e-12, "compiled");
}

TEST(Vmap, WritesThatMove) {
  const Tensor x = wide({4, 3}, 1), v = wide({4, 3}, 2);
  const auto f = [](const Tensor& a) {
    const Tensor y = a * 2;
    y[0] *= a[1];
    y.add_(a);
    return y;
  };
  const auto moved = [&](const Tensor& a, const Tensor& b) { return jvp(f, a, b).tangent; };
  const Tensor expected = jvp([&](const Tensor& all) { return loop(f, all); }, x, v).tangent;
  expect_close(expected, vmap(moved)(x, v), 1e-12, "vmap(jvp)");
  expect_close(expected, jvp([&](const Tensor& all) { return vmap(f)(all); }, x, v).tangent, 1e-12,
               "jvp(vmap)");
  // A direction that is the same for all becomes one of each.
  const auto along = [&](const Tensor& a) { return jvp(f, a, v[0]).tangent; };
  expect_close(loop(along, x), vmap(along)(x), 1e-12, "one direction");
}

// --- writes

TEST(Vmap, WritesItsArguments) {
  const auto f = [](const Tensor& a, const Tensor& b) {
    a.add_(b);
    a[0].mul_(2);
  };
  for (const bool compiles : {false, true}) {
    Tensor x = wide({3, 4}, 1), y = wide({4, 3}, 2), expected = x.clone();
    for (int64_t i = 0; i < 4; ++i) f(expected.t()[i], y[i]);
    const auto mapped = vmap(f, {.in_dims = {1, 0}});
    if (compiles)
      compile([&](const Tensor& a, const Tensor& b) { mapped(a, b); })(x, y);
    else
      mapped(x, y);
    expect_close(expected, x, 1e-12, compiles ? "compiled" : "eager");
  }
}

TEST(Vmap, WritesOfWhatItMakes) {
  check_vmap(
      [](const Tensor& x) {
        const Tensor y = zeros_like(x);
        y[1] = x[0] * 2;
        y.slice(0, 2).copy_(x.slice(0, 0, 1));
        y.masked_fill_(y > 1, 1.0);
        return (y - 0.1).relu_() + y;
      },
      wide({4, 3, 2}, 1));
}

TEST(Vmap, GradientsThroughWrites) {
  const Tensor x = wide({4, 3}, 1);
  const auto f = [](const Tensor& a) {
    const Tensor y = a * 1;
    y[0] = a[1] * a[2];
    y.mul_(a);
    return sum(y * y);
  };
  expect_close(loop(grad(f), x), vmap(grad(f))(x), 1e-12, "vmap(grad)");
  const auto total = [&](const Tensor& all) { return sum(vmap(f)(all)); };
  expect_close(loop(grad(f), x), grad(total)(x), 1e-12, "grad(vmap)");
}

TEST(Vmap, OfFunctionalized) {
  const auto f = [](const Tensor& a) {
    const Tensor y = a * 2;
    y[0] = a[1];
    return sum(y * y);
  };
  const Tensor x = wide({4, 3}, 1);
  const auto pure = functionalize(f);
  expect_close(loop(f, x), vmap([&](const Tensor& a) { return pure(a); })(x), 1e-12, "inside");
  const auto gradients = functionalize([&](const Tensor& all) { return vmap(grad(f))(all); });
  expect_close(loop(grad(f), x), gradients(x), 1e-12, "outside");
}

// --- random numbers, sizes

TEST(Vmap, DrawsTheSameOrDifferentNumbers) {
  const Tensor x = zeros({4, 3});
  const auto noisy = [](const Tensor& a) { return a + rand({3}); };
  manual_seed(7);
  const Tensor different = vmap(noisy, {.randomness = Randomness::Different})(x);
  manual_seed(7);
  EXPECT_TRUE(equal(different, rand({4, 3})));
  for (const int64_t chunk : {0, 3}) {
    manual_seed(7);
    const Tensor same = vmap(noisy, {.randomness = Randomness::Same, .chunk_size = chunk})(x);
    manual_seed(7);
    EXPECT_TRUE(equal(same, rand({3}).expand({4, 3})));
  }
  const auto mapped = vmap(noisy, {.randomness = Randomness::Different});
  const auto compiled = compile([&](const Tensor& a) { return mapped(a); });
  manual_seed(7);
  EXPECT_TRUE(equal(compiled(x), different));
}

TEST(Vmap, DropsOut) {
  const auto f = [](const Tensor& a) { return dropout(a, 0.5); };
  const Tensor x = ones({4, 200}), different = vmap(f, {.randomness = Randomness::Different})(x),
               same = vmap(f, {.randomness = Randomness::Same})(x);
  EXPECT_TRUE(equal(same, same[0].expand({4, 200})));
  EXPECT_FALSE(equal(different[0], different[1]));
  EXPECT_TRUE(equal(different, where(different > 0, full({}, 2.0), full({}, 0.0))));
}

TEST(Vmap, OfNoExamplesAndOne) {
  const auto f = [](const Tensor& a) { return matmul(a, a.t()) + sum(a); };
  EXPECT_EQ(vmap(f)(zeros({0, 3, 2})).sizes(), (Shape{0, 3, 3}));
  check_vmap(f, wide({1, 3, 2}, 1));
}

// --- operators of the user's own, which look at elements

const Operator& cubes() {
  static const Operator op = register_operator(
      {.schema = "test::vmapped_cubes(Tensor x) -> (Tensor cube)",
       .run = [](const std::vector<Tensor>& t, const std::vector<Number>&) -> std::vector<Tensor> {
         const Tensor x = t[0].contiguous(), y = zeros(x.sizes(), f64);
         for (int64_t i = 0; i < x.numel(); ++i)
           y.data<double>()[i] = std::pow(x.data<double>()[i], 3);
         return {y};
       },
       .shape = [](const std::vector<TensorType>& t,
                   const std::vector<Number>&) { return std::vector<TensorType>{t[0]}; },
       .gradient = [](const OperatorGradient& call) -> std::vector<Tensor> {
         return {3 * square(call.arguments[0]) * call.grads[0]};
       },
       .saves = {"x"}});
  return op;
}

const Operator& doubles() {
  static const Operator op =
      register_operator({.schema = "test::vmapped_doubles_(Tensor(a!) x) -> ()",
                         .run = [](const std::vector<Tensor>& t, const std::vector<Number>&) {
                           for (int64_t i = 0; i < t[0].numel(); ++i) t[0].data<double>()[i] *= 2;
                           return std::vector<Tensor>();
                         }});
  return op;
}

TEST(Vmap, OfOperatorsOfTheUser) {
  const Tensor x = wide({4, 3}, 1);
  const auto f = [](const Tensor& a) { return sum(cubes()({a * 2})[0] * a); };
  check_vmap(f, x);
  const Tensor expected = loop(grad(f), x);
  expect_close(32 * x * x * x, expected, 1e-12, "loop");
  expect_close(expected, vmap(grad(f))(x), 1e-12, "vmap(grad)");
  expect_close(expected, compile(vmap(grad(f)))(x), 1e-12, "compiled");
  const auto total = [&](const Tensor& all) { return sum(vmap(f)(all)); };
  expect_close(expected, grad(total)(x), 1e-12, "grad(vmap)");
  expect_close(expected, compile(grad(total))(x), 1e-12, "compiled");
}

TEST(Vmap, OfOperatorsOfTheUserThatWrite) {
  const Tensor x = wide({4, 3}, 1), before = x.clone();
  vmap([](const Tensor& a) { doubles()({a}); })(x);
  expect_close(2 * before, x, 0, "eager");
  compile([](const Tensor& all) { vmap([](const Tensor& a) { doubles()({a}); })(all); })(x);
  expect_close(4 * before, x, 0, "compiled");
}

// A gradient inside vmap, along a tangent outside of it, of a tensor and of a view.
TEST(VmapOfGradients, MovesFromOutside) {
  const auto gradient = grad([](const Tensor& x) { return (x * x * x + sin(x)).sum(); });
  const Tensor x = wide({5, 3}, 1), v = wide({5, 3}, 2), expected = v * (6 * x - sin(x));
  const auto mapped = [&](const Tensor& t) { return vmap(gradient)(t); };
  expect_close(expected, jvp(mapped, x, v).tangent, 1e-12, "tangent");
  const auto of_view = [&](const Tensor& t) { return vmap(gradient)(t[0]); };
  const Tensor xs = stack({x, x * 2}, 0), vs = stack({v, v}, 0);
  expect_close(expected, jvp(of_view, xs, vs).tangent, 1e-12, "of a view");
  const auto nested = [&](const Tensor& t) { return vmap(vmap(gradient))(t); };
  expect_close(expected, jvp(nested, xs, vs).tangent[0], 1e-12, "nested");
  const auto compiled = compile([&](const Tensor& t) { return jvp(mapped, t, v).tangent; });
  expect_close(expected, compiled(x), 1e-12, "compiled");
}

// An unbatched tangent of a batched tensor keeps the history that it has inside vmap.
TEST(VmapOfGradients, OfTangentsThatAreTheSameForAll) {
  const auto gradient = grad<1>([](const Tensor& x, const Tensor& v) {
    return jvp([&](const Tensor& t) { return (t * t * v).sum(); }, x, v).tangent;
  });
  const Tensor x = wide({5, 3}, 1), v = wide({3}, 2);
  const auto mapped = vmap(gradient, {.in_dims = {0, std::nullopt}});
  expect_close(4 * x * v, mapped(x, v), 1e-12, "gradient");
}

}  // namespace
}  // namespace tandem::testing
