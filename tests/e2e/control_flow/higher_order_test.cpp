// Second and third derivatives of branches and loops: of a compiled function, inside a compiled
// function, eager, against each other and against differences.
#include <gtest/gtest.h>
#include <tandem/graph.h>

#include "tests/e2e/control_flow/programs.h"

namespace tandem::testing {
namespace {

Tensor weighed(const Tensors& ys, uint64_t seed) {
  Tensor total = zeros({}, f64);
  for (const Tensor& y : ys)
    if (y.defined()) total = total + (y * noise(y.sizes(), ++seed, f64)).sum();
  return total;
}

Tensors or_zeros(Tensors gradients, const Tensors& args) {
  for (size_t i = 0; i < args.size(); ++i)
    if (!gradients[i].defined()) gradients[i] = zeros_like(args[i].detach());
  return gradients;
}

/// Gradients of order `order` of a weighed sum, each of a weighed sum of those before.
Tensors gradients(const Program& program, const Tensors& args, int order) {
  Tensors ys = program(args);
  for (int i = 0; i < order; ++i) {
    const Tensor total = weighed(ys, 100 * static_cast<uint64_t>(i + 1));
    if (!total.requires_grad()) return or_zeros(Tensors(args.size()), args);
    ys = or_zeros(grad({total}, args, {.create_graph = i + 1 < order, .allow_unused = true}), args);
  }
  return ys;
}

Tensors leaves(const Tensors& args) {
  Tensors all;
  for (const Tensor& t : args) all.push_back(t.detach().clone().requires_grad_());
  return all;
}

constexpr int kHighest = 3;

/// Of every argument, f64.
void check_orders(const Example& example) {
  const auto& [program, args] = example;
  const auto compiled = compile([&](const Tensors& t) { return program(t); });
  for (int order = 2; order <= kHighest; ++order) {
    const Tensors expected = gradients(program, leaves(args), order);
    const Tensors got =
        gradients([&](const Tensors& t) { return compiled(t); }, leaves(args), order);
    const auto whole = compile([&](const Tensors& t) { return gradients(program, t, order); });
    const Tensors inside = whole(leaves(args));
    for (size_t i = 0; i < args.size(); ++i) {
      const std::string what = std::to_string(order) + " of " + std::to_string(i);
      expect_close(expected[i].detach(), got[i].detach(), 1e-10, "compiled " + what);
      expect_close(expected[i].detach(), inside[i].detach(), 1e-10, "whole " + what);
      const Tensor along = noise(args[i].sizes(), 50 + i, f64);
      Tensors low = args, high = args;
      low[i] = args[i] - along * 1e-6;
      high[i] = args[i] + along * 1e-6;
      const auto at = [&](const Tensors& t) {
        return weighed(gradients(program, leaves(t), order - 1), 100 * static_cast<uint64_t>(order))
            .item();
      };
      const double slope = (at(high) - at(low)) / 2e-6;
      EXPECT_NEAR((expected[i] * along).sum().item(), slope, 1e-5 * (1 + std::abs(slope))) << what;
    }
  }
}

TEST(ControlFlowHigherOrder, Branches) {
  for (const double sign : {1.0, -1.0})
    check_orders({[=](const Tensors& t) {
                    return Tensors{cond(
                        sum(t[0]) * sign > 0, [&](const Tensor& x) { return sin(x) * t[1]; },
                        [](const Tensor& x) { return x * x * x; }, t[0])};
                  },
                  {noise({3, 2}, 1, f64) + 1, noise({2}, 2, f64)}});
}

TEST(ControlFlowHigherOrder, Scans) {
  for (const bool reverse : {false, true})
    for (const int64_t length : {0, 1, 3}) check_orders(counted_scan(length, reverse));
}

TEST(ControlFlowHigherOrder, Writes) { check_orders(writes()); }

TEST(ControlFlowHigherOrder, NestedLoopsAndBranches) { check_orders(nested_loops()); }

TEST(ControlFlowHigherOrder, Products) { check_orders(cells()); }

TEST(ControlFlowHigherOrder, AScanThatGivesItsCarries) {
  check_orders({[](const Tensors& t) {
                  const auto [last, ys] = scan(
                      [](const Tensor& c, const Tensor& x) { return std::pair(sin(c) * x, c); },
                      t[0], t[1]);
                  return Tensors{last, ys};
                },
                {noise({3}, 1, f64), noise({3, 3}, 2, f64)}});
}

}  // namespace
}  // namespace tandem::testing
