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

TEST(GradientParts, LieInTheTangent) {
  const auto compiled = compile([](const Tensor& x, const Tensor& y) { return stack({x, y}); });
  const Tensor x = noise({4, 6}, 1).requires_grad_(), y = noise({4, 6}, 2).requires_grad_();
  const Tensor tangent = noise({2, 4, 6}, 3);
  const Tensors gradients = grad({compiled(x, y)}, {x, y}, {.grad_outputs = {tangent}});
  EXPECT_TRUE(gradients[0].shares_storage(tangent) && gradients[1].shares_storage(tangent));
  EXPECT_TRUE(equal(gradients[1], tangent[1]) && gradients[1].is_contiguous());
}

TEST(GradientParts, LieInItWithTheStridesOfEagers) {
  const Tensor x = noise({4, 6}, 1).requires_grad_(), y = noise({4, 6}, 2).requires_grad_();
  for (const auto& [name, f] : functions()) {
    if (std::string(name) != "cat columns" && std::string(name) != "transposed") continue;
    const auto compiled = compile(f);
    const Tensor tangent = noise(f(x, y).sizes(), 3);
    const Tensors eager = grad({f(x, y)}, {x, y}, {.grad_outputs = {tangent}});
    const Tensors parts = grad({compiled(x, y)}, {x, y}, {.grad_outputs = {tangent}});
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_TRUE(parts[i].shares_storage(tangent)) << name;
      EXPECT_EQ(parts[i].strides(), eager[i].strides()) << name;
    }
  }
}

TEST(GradientParts, OfSumsAreOneNumber) {
  const Tensor x = noise({4, 6}, 1).requires_grad_(), tangent = noise({}, 2);
  const auto compiled = compile([](const Tensor& t) { return t.sum(); });
  const Tensor gradient = grad({compiled(x)}, {x}, {.grad_outputs = {tangent}})[0];
  EXPECT_TRUE(gradient.shares_storage(tangent) && equal(gradient, tangent.expand({4, 6})));
}

// The function before takes them in the layout that its own backward was compiled for.
TEST(GradientParts, GoOnIntoOtherFunctions) {
  const Tensor x = noise({4, 6}, 1).requires_grad_(), y = noise({4, 6}, 2).requires_grad_();
  const auto before = compile([](const Tensor& t) { return sin(t) * t; });
  for (const auto& [name, f] : functions()) {
    const auto compiled = compile(f);
    const auto twice = [&](const auto& inner, const auto& outer) {
      const Tensor z = outer(inner(x), inner(y));
      return grad({z.sum() + square(z).sum()}, {x, y});
    };
    const Tensors expected = twice([](const Tensor& t) { return sin(t) * t; }, f);
    const Tensors got = twice(before, compiled);
    for (size_t i = 0; i < got.size(); ++i) expect_close(expected[i], got[i], 1e-6, name);
  }
}

// Whoever holds .grad may write it.
TEST(GradientParts, OfLeavesAreTheirOwn) {
  for (const int64_t dim : {0, 1}) {
    const auto compiled =
        compile([&](const Tensor& x, const Tensor& y) { return cat({x, y}, dim); });
    const Tensor x = noise({4, 6}, 1).requires_grad_(), y = noise({4, 6}, 2).requires_grad_();
    const Tensor tangent = noise(cat({x, y}, dim).sizes(), 3), before = tangent.clone();
    const std::vector<Tensor> parts = split(before, dim == 0 ? 4 : 6, dim);
    for (int time = 1; time <= 2; ++time) {
      compiled(x, y).backward(tangent);
      expect_close(parts[0] * time, x.grad(), 1e-6, "x");
      expect_close(parts[1] * time, y.grad(), 1e-6, "y");
      EXPECT_TRUE(x.grad().is_contiguous());
    }
    x.grad().zero_();
    EXPECT_TRUE(equal(tangent, before));
  }
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
