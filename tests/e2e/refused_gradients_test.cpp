// Gradients that must not be had: eager says so in backward, and only if they are asked for; a
// compiled function does just the same.
#include <gtest/gtest.h>
#include <tandem/custom_op.h>

#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

enum class Wrong : uint8_t { Shape, DType, Count };

/// x * 2, y * 2, with a wrong gradient of x.
template <Wrong W>
struct Doubled : Function<Doubled<W>> {
  static Tensors forward(FunctionContext&, const Tensor& x, const Tensor& y) {
    return {x * 2, y * 2};
  }
  static Tensors backward(FunctionContext&, const Tensors& grads) {
    const Tensor y = grads[1].defined() ? grads[1] * 2 : Tensor();
    if (W == Wrong::Count) return {grads[0]};
    return {W == Wrong::Shape ? zeros({2}) : zeros({3}, f64), y};
  }
};

/// x * 2 + y * 2, whose gradient of x has another shape.
const Operator& added() {
  static const Operator op = register_operator(
      {.schema = "test::added_up(Tensor x, Tensor y) -> Tensor",
       .run = [](const Tensors& t, const std::vector<Number>&) -> Tensors {
         return {t[0] * 2 + t[1] * 2};
       },
       .shape = [](const std::vector<TensorType>& t,
                   const std::vector<Number>&) { return std::vector<TensorType>{t[0]}; },
       .gradient = [](const OperatorGradient& call) -> Tensors {
         return {call.grads[0].sum(), call.grads[0] * 2};
       }});
  return op;
}

Tensor leaf() { return ones({3}).requires_grad_(); }

using Two = std::function<Tensor(const Tensor&, const Tensor&)>;

/// `body` runs forward, and so do gradients of y alone; that of x is an Error.
void expect_refused(Errc code, const std::string& text, const Two& body, bool also_of_y = false) {
  const auto compiled = compile(body);
  for (const Two& function :
       {body, Two([&](const Tensor& x, const Tensor& y) { return compiled(x, y); })}) {
    const Tensor x = leaf(), y = leaf();
    const Tensor result = function(x, y);
    EXPECT_TRUE(result.requires_grad());
    expect_error(code, text, [&] { result.sum().backward(); });
    EXPECT_FALSE(x.grad().defined());
    const auto of_y = [&] { return grad({function(x, y).sum()}, {y}); };
    if (also_of_y)
      expect_error(code, text, of_y);
    else
      EXPECT_EQ(of_y()[0].to_vector<float>(), std::vector<float>(3, 2));
    const NoGrad no_grad;
    EXPECT_FALSE(function(x, y).requires_grad());
  }
}

TEST(RefusedGradients, OfFloorDivide) {
  expect_refused(Errc::Autograd, "floor_divide: not differentiable",
                 [](const Tensor& x, const Tensor& y) { return floor_divide(x, 2) + y * 2; });
  expect_refused(Errc::Autograd, "floor_divide: not differentiable",
                 [](const Tensor& x, const Tensor& y) {
                   const Tensor z = sin(x);
                   z.floor_divide_(2);
                   return exp(z) + y * 2;
                 });
}

TEST(RefusedGradients, OfCompleteFactorsOfTallMatrices) {
  for (const bool of_q : {true, false})
    expect_refused(Errc::Autograd, "qr: a complete Q of more rows than columns",
                   [=](const Tensor& x, const Tensor& y) {
                     const auto [q, r] = linalg::qr(sin(x).view({3, 1}), "complete");
                     return (of_q ? q[0] : r.view({3})) + y * 2;
                   });
}

TEST(RefusedGradients, OfProductsWithWeightsOfI8) {
  const Tensor weight = ones({3, 3}, i8), scale = ones({3});
  for (const bool dynamic : {false, true})
    expect_refused(Errc::Autograd, "int8pack_mm: not differentiable",
                   [=](const Tensor& x, const Tensor& y) {
                     return (dynamic ? dynamic_int8_linear : int8_linear)(
                                x, weight, scale, {}, SourceLocation::current()) +
                            y * 2;
                   });
}

template <Wrong W>
Two doubled() {
  return [](const Tensor& x, const Tensor& y) {
    const Tensors both = Doubled<W>::apply(x, y);
    return both[0] + both[1];
  };
}

TEST(RefusedGradients, OfCustomFunctions) {
  expect_refused(Errc::Shape, "gradient 0 does not fit its input; expected f32[3], got f32[2]",
                 doubled<Wrong::Shape>(), true);
  expect_refused(Errc::Shape, "gradient 0 does not fit its input; expected f32[3], got f64[3]",
                 doubled<Wrong::DType>(), true);
  expect_refused(Errc::Autograd, "wrong number of gradients; expected 2, got 1",
                 doubled<Wrong::Count>(), true);
}

TEST(RefusedGradients, OfCustomOperators) {
  expect_refused(
      Errc::Shape, "gradient 0 does not fit its input; expected f32[3], got f32[]",
      [](const Tensor& x, const Tensor& y) { return added()({x, y})[0]; }, true);
}

// What is written to one element shows in all that share its memory, which the history of an eager
// tensor does not know. As in PyTorch the write is fine, and its gradient refused; a compiled
// function, which knows the memory, gives it.
TEST(RefusedGradients, OfWritesThroughAViewOfWhatOverlapsItself) {
  const auto body = [](const Tensor& t, const Tensor& w) {
    t.slice(0, 0, 1).mul_(w);
    return t.sum();
  };
  const auto overlapping = [] { return ones({6}).as_strided({2, 6}, {0, 1}).detach(); };
  const Tensor w = tensor({3.0f}).requires_grad_();
  const Tensor total = body(overlapping(), w);
  EXPECT_EQ(total.item(), 36);
  expect_error(Errc::Autograd, "whose own elements share memory", [&] { total.backward(); });
  EXPECT_FALSE(w.grad().defined());
  compile(body)(overlapping(), w).backward();
  EXPECT_EQ(w.grad().item(), 12);
  const Tensor cloned = overlapping().clone();
  EXPECT_EQ(grad({body(cloned, w)}, {w})[0].item(), 6);
}

}  // namespace
}  // namespace tandem::testing
