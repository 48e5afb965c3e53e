// Gradients of compiled functions that are parts of the tangent: they are handed on, not copied.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/check_compiled.h"

namespace tandem::testing {
namespace {

using Function = std::function<Tensor(const Tensor& x, const Tensor& y)>;

const std::vector<std::pair<const char*, Function>>& functions() {
  static const std::vector<std::pair<const char*, Function>> all{
      {"stack", [](const Tensor& x, const Tensor& y) { return stack({x, y}); }},
      {"cat", [](const Tensor& x, const Tensor& y) { return cat({x, y}); }},
      {"cat columns", [](const Tensor& x, const Tensor& y) { return cat({x, y}, 1); }},
      {"twice", [](const Tensor& x, const Tensor& y) { return cat({x, y, x}); }},
      {"one computed", [](const Tensor& x, const Tensor& y) { return cat({x, sin(y)}); }},
      {"flat", [](const Tensor& x, const Tensor& y) { return cat({x.flatten(), y.flatten()}); }},
      {"seen otherwise, then transposed",
       [](const Tensor& x, const Tensor& y) {
         return cat({x.reshape({2, 2, 6}).transpose(1, 2), y.reshape({2, 6, 2})}, 2);
       }},
      {"pixels shuffled",
       [](const Tensor& x, const Tensor& y) {
         return cat({pixel_shuffle(x.reshape({1, 4, 3, 2}), 2).flatten(), y.flatten()});
       }},
      {"strided", [](const Tensor& x,
                     const Tensor& y) { return cat({x.as_strided({6, 4}, {4, 1}), y.T()}, 1); }},
      {"transposed", [](const Tensor& x, const Tensor& y) { return stack({x.T(), y.T()}); }},
  };
  return all;
}

/// The same values, lying otherwise.
std::vector<std::pair<const char*, Tensor>> layouts(const Tensor& t) {
  Tensor gaps = zeros({t.numel(), 2}, t.dtype()), offset = zeros({t.numel() + 3}, t.dtype());
  gaps = gaps.select(1, 1).view(t.sizes()), offset = offset.slice(0, 3).view(t.sizes());
  gaps.copy_(t), offset.copy_(t);
  return {{"contiguous", t.clone()},
          {"with gaps", gaps},
          {"at an offset", offset},
          {"expanded", t.sum().expand(t.sizes())}};
}

TEST(GradientParts, AreEagersOfAnyTangent) {
  for (const auto& [name, f] : functions()) {
    const Tensor x = noise({4, 6}, 1).requires_grad_(), y = noise({4, 6}, 2).requires_grad_();
    const auto compiled = compile(f);
    for (const auto& [layout, tangent] : layouts(noise(f(x, y).sizes(), 3)))
      for (const Tensors& wanted : {Tensors{x, y}, Tensors{x}, Tensors{y}}) {
        const Tensors expected = grad({f(x, y)}, wanted, {.grad_outputs = {tangent}});
        const Tensors got = grad({compiled(x, y)}, wanted, {.grad_outputs = {tangent}});
        for (size_t i = 0; i < wanted.size(); ++i)
          expect_close(expected[i], got[i], 1e-6, std::string(name) + ", " + layout);
      }
  }
}

TEST(GradientParts, LieInTheTangentIfItIsLaidOutAsTheyAre) {
  const auto compiled = compile([](const Tensor& x, const Tensor& y) { return stack({x, y}); });
  const Tensor x = noise({4, 6}, 1).requires_grad_(), y = noise({4, 6}, 2).requires_grad_();
  const Tensor tangent = noise({2, 4, 6}, 3);
  const Tensors gradients = grad({compiled(x, y)}, {x, y}, {.grad_outputs = {tangent}});
  EXPECT_TRUE(gradients[0].shares_storage(tangent) && gradients[1].shares_storage(tangent));
  EXPECT_TRUE(equal(gradients[1], tangent[1]) && gradients[1].is_contiguous());
}

// Whoever holds .grad may write it.
TEST(GradientParts, OfLeavesAreTheirOwn) {
  const auto compiled = compile([](const Tensor& x, const Tensor& y) { return stack({x, y}); });
  const Tensor x = noise({4, 6}, 1).requires_grad_(), y = noise({4, 6}, 2).requires_grad_();
  const Tensor tangent = noise({2, 4, 6}, 3), before = tangent.clone();
  for (int time = 1; time <= 2; ++time) {
    compiled(x, y).backward(tangent);
    expect_close(before[0] * time, x.grad(), 1e-6, "x");
    expect_close(before[1] * time, y.grad(), 1e-6, "y");
  }
  x.grad().zero_();
  EXPECT_TRUE(equal(tangent, before));
}

TEST(GradientParts, HaveGradients) {
  const auto compiled = compile([](const Tensor& x, const Tensor& y) { return stack({x, y}); });
  const Tensor x = noise({4, 6}, 1).requires_grad_(), y = noise({4, 6}, 2).requires_grad_();
  const Tensor tangent = noise({2, 4, 6}, 3).requires_grad_();
  const Tensors first =
      grad({compiled(x, y)}, {x}, {.grad_outputs = {tangent}, .create_graph = true});
  const Tensor second = grad({square(first[0]).sum()}, {tangent})[0];
  expect_close(stack({tangent.detach()[0] * 2, zeros({4, 6})}), second, 1e-6, "second");
}

}  // namespace
}  // namespace tandem::testing
