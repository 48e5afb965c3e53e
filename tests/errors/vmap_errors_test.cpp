// What vmap and the other functions of functions refuse.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

template <class Fn>
void expect_refused(Errc code, const std::string& part, const Fn& fn) {
  const Tensor x = ones({3, 2}), before = x.clone();
  expect_error(code, part, [&] { vmap(fn)(x); });
  EXPECT_TRUE(equal(x, before));
  EXPECT_TRUE(equal(vmap([](const Tensor& t) { return t * 2; })(x), x * 2));  // no level is left
}

TEST(VmapErrors, ArgumentsThatDoNotFit) {
  const auto f = [](const Tensor& a, const Tensor& b) { return a + b; };
  const Tensor x = ones({3, 2});
  expect_error(Errc::Shape, "expected 3 everywhere, got 4 in argument 1",
               [&] { vmap(f)(x, ones({4, 2})); });
  expect_error(Errc::Argument, "as many in_dims as arguments, 2, got 1",
               [&] { vmap(f, {.in_dims = {0}})(x, x); });
  expect_error(Errc::Argument, "no argument is batched",
               [&] { vmap(f, {.in_dims = {std::nullopt, std::nullopt}})(x, x); });
  expect_error(Errc::Index, "expected -2 <= dim < 2, got 2",
               [&] { vmap(f, {.in_dims = {2, 0}})(x, x); });
  expect_error(Errc::Shape, "argument 1 has a tensor without dimensions",
               [&] { vmap(f)(x, ones({})); });
  expect_error(Errc::Index, "out_dims out of range", [&] { vmap(f, {.out_dims = {3}})(x, x); });
  expect_error(Errc::Argument, "chunk_size", [&] { vmap(f, {.chunk_size = -1})(x, x); });
}

TEST(VmapErrors, LookingAtElements) {
  expect_refused(Errc::Argument, "item: inside vmap",
                 [](const Tensor& a) { return sum(a).item() > 0 ? a : -a; });
  expect_refused(Errc::Argument, "data: inside vmap",
                 [](const Tensor& a) { return a * a.data<float>()[0]; });
  expect_refused(Errc::Argument, "inside vmap", [](const Tensor& a) { return nonzero(a); });
  expect_refused(Errc::Argument, "inside vmap",
                 [](const Tensor& a) { return masked_select(a, a > 0); });
}

TEST(VmapErrors, WritesOfWhatIsTheSameForAll) {
  const Tensor w = zeros({2});
  expect_refused(Errc::Mutation, "the same for all examples", [&](const Tensor& a) {
    w.add_(a);
    return a;
  });
  EXPECT_TRUE(equal(w, zeros({2})));
  const Tensor leaf = ones({2}).requires_grad_();
  expect_refused(Errc::Autograd, "a leaf that is the same for all examples", [&](const Tensor& a) {
    sum(leaf * a).backward();
    return a;
  });
  EXPECT_FALSE(leaf.grad().defined());
}

TEST(VmapErrors, RandomNumbersUnasked) {
  expect_refused(Errc::Argument, "random numbers inside vmap",
                 [](const Tensor& a) { return a + rand({2}); });
  expect_refused(Errc::Argument, "random numbers inside vmap",
                 [](const Tensor& a) { return dropout(a, 0.5); });
}

TEST(VmapErrors, ExamplesThatLeftTheirVmap) {
  Tensor leaked;
  vmap([&](const Tensor& a) { return leaked = a * 2; })(ones({3, 2}));
  expect_error(Errc::Argument, "used after its vmap", [&] { leaked + 1; });
  expect_error(Errc::Argument, "used after its vmap", [&] { leaked.to_vector<float>(); });
}

TEST(VmapErrors, GeometryOfOneExample) {
  expect_refused(Errc::Argument, "as_strided",
                 [](const Tensor& a) { return as_strided(a, {4}, {1}); });
  expect_refused(Errc::Argument, "inside vmap", [](const Tensor& a) {
    a.unsqueeze_(0);
    return a;
  });
}

TEST(VmapErrors, DualNumbersOfALevelOutside) {
  const DualLevel level;
  expect_refused(Errc::Autograd, "expected a DualLevel",
                 [](const Tensor& a) { return make_dual(a, a); });
}

struct Cube : Function<Cube> {
  static Tensor forward(FunctionContext& c, const Tensor& x) {
    c.save_for_backward({x});
    return x * x * x;
  }
  static std::vector<Tensor> backward(FunctionContext& c, const std::vector<Tensor>& grads) {
    return {3 * c.saved()[0] * c.saved()[0] * grads[0]};
  }
};

TEST(VmapErrors, CustomFunctionsThatMoveFromOutside) {
  const auto cube = [](const Tensor& a) { return Cube::apply(a); };
  const Tensor x = ones({3, 2});
  expect_error(Errc::Unsupported, "move along a tangent outside of vmap",
               [&] { jvp([&](const Tensor& all) { return vmap(cube)(all); }, x, x); });
}

template <int tangents>
struct Misfit : Function<Misfit<tangents>> {
  static Tensor forward(FunctionContext&, const Tensor& x) { return x * 2; }
  static std::vector<Tensor> backward(FunctionContext&, const std::vector<Tensor>& grads) {
    return grads;
  }
  static std::vector<Tensor> jvp(FunctionContext&, const std::vector<Tensor>&) {
    return std::vector<Tensor>(tangents, ones({5}));
  }
};

TEST(TransformErrors, TangentsOfCustomFunctions) {
  const Tensor x = ones({3});
  expect_error(Errc::Autograd, "jvp gives the wrong number of tangents; expected 1, got 2",
               [&] { jvp([](const Tensor& a) { return Misfit<2>::apply(a); }, x, x); });
  expect_error(Errc::Shape, "tangent 0 does not fit its output; expected f32[3], got f32[5]",
               [&] { jvp([](const Tensor& a) { return Misfit<1>::apply(a); }, x, x); });
}

TEST(TransformErrors, WhatDoesNotFit) {
  const Tensor x = ones({3});
  const auto f = [](const Tensor& a) { return a * 2; };
  expect_error(Errc::Shape, "does not fit", [&] { vjp(f, x).pullback(ones({2})); });
  expect_error(Errc::DType, "jacrev: expected a function that gives a floating tensor, got i64[3]",
               [&] { jacrev([](const Tensor& a) { return a.to(i64); })(x); });
  expect_error(Errc::DType, "jacfwd: expected a function that gives a floating tensor",
               [&] { jacfwd([](const Tensor& a) { return a > 0; })(x); });
  const nn::Linear layer(3, 2);
  expect_error(Errc::Argument, "no tensor \"wieght\"",
               [&] { functional_call(layer, {{"wieght", ones({2, 3})}}, x); });
}

}  // namespace
}  // namespace tandem::testing
