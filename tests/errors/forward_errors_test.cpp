// What forward mode refuses.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

struct Cube : Function<Cube> {
  static Tensor forward(FunctionContext& c, const Tensor& x) {
    c.save_for_backward({x});
    return x * x * x;
  }
  static std::vector<Tensor> backward(FunctionContext& c, const std::vector<Tensor>& grads) {
    return {3 * c.saved()[0] * c.saved()[0] * grads[0]};
  }
};

template <class Fn>
void expect_refused(Errc code, const std::string& part, const Fn& fn) {
  const Tensor x = ones({3}), before = x.clone();
  expect_error(code, part, [&] { jvp(fn, x, ones({3})); });
  EXPECT_TRUE(equal(x, before));
}

TEST(ForwardErrors, OutsideOfLevels) {
  expect_error(Errc::Autograd, "expected a DualLevel", [] { make_dual(ones({2}), ones({2})); });
  expect_error(Errc::Autograd, "expected a DualLevel", [] { unpack_dual(ones({2})); });
}

TEST(ForwardErrors, TangentsThatDoNotFit) {
  const DualLevel level;
  expect_error(Errc::Shape, "expected f32[2], got f32[3]", [] { make_dual(ones({2}), ones({3})); });
  expect_error(Errc::DType, "got f64[2]", [] { make_dual(ones({2}), ones({2}, f64)); });
  expect_error(Errc::DType, "expected a floating dtype",
               [] { make_dual(ones({2}, i64), ones({2}, i64)); });
  expect_error(Errc::Argument, "undefined", [] { make_dual(ones({2}), Tensor()); });
  const Tensor dual = make_dual(ones({2}), ones({2}));
  expect_error(Errc::Autograd, "carries a tangent", [&] { make_dual(dual, ones({2})); });
  expect_error(Errc::Argument, "for each tensor of the primals, 2, got 1", [] {
    jvp([](const std::vector<Tensor>& t) { return t[0]; }, std::vector{ones({2}), ones({2})},
        std::vector{ones({2})});
  });
}

TEST(ForwardErrors, WhatHasNoDerivative) {
  expect_refused(Errc::Autograd, "custom function: no derivative along a tangent",
                 [](const Tensor& x) { return Cube::apply(x); });
  expect_refused(Errc::Autograd, "not differentiable",
                 [](const Tensor& x) { return floor_divide(x, x); });
  expect_refused(Errc::Autograd, "t_: no derivative along a tangent", [](const Tensor& x) {
    x.t_();
    return x;
  });
  const Operator twice =
      register_operator({.schema = "forward_errors::twice(Tensor x) -> Tensor",
                         .run = [](const std::vector<Tensor>& t,
                                   const std::vector<Number>&) { return std::vector{t[0] * 2}; },
                         .shape = [](const std::vector<TensorType>& t,
                                     const std::vector<Number>&) { return std::vector{t[0]}; }});
  expect_refused(Errc::Autograd, "forward_errors::twice: no derivative along a tangent",
                 [&](const Tensor& x) { return twice({x})[0]; });
}

TEST(ForwardErrors, ACompiledBackwardOfTangents) {
  const auto square_of = compile([](const Tensor& x) { return x * x; });
  const Tensor x = ones({3}).requires_grad_(), y = square_of(x);
  expect_error(Errc::Autograd, "no derivative along a tangent", [&] {
    jvp([&](const Tensor& g) { return grad({y}, {x}, {.grad_outputs = {g}})[0]; }, ones({3}),
        ones({3}));
  });
}

}  // namespace
}  // namespace tandem::testing
