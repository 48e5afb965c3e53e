// Training steps as one compiled function that takes the network and the optimizer as arguments,
// beside the same loop run eagerly.
#include <gtest/gtest.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include "tests/training/optim/optimizer_cases.h"

namespace tandem::testing {
namespace {

struct Net {
  nn::Linear in{4, 6}, out{6, 2};
  TANDEM_FIELDS(Net, in, out)
  Tensor operator()(const Tensor& x) const { return out(tanh(in(x))); }
};

template <class Optimizer>
Tensor train_step(Net& net, Optimizer& optimizer, const Tensor& x, const Tensor& y) {
  const Tensor loss = square(net(x) - y).mean();
  loss.backward();
  optim::clip_grad_norm_(optimizer.parameters(), 1.0);
  optimizer.step();
  optimizer.zero_grad();
  return loss.detach();
}

/// The losses of 12 steps under a schedule, and the parameters after them; how many functions were
/// compiled after the second step.
template <class Optimizer, class Options>
std::vector<double> losses(bool is_compiled, const Options& options, size_t& compiled_later) {
  manual_seed(5);
  Net net;
  Optimizer optimizer({{.parameters = {net.in.weight, net.out.weight}},
                       {.parameters = {net.in.bias, net.out.bias}, .weight_decay = 0.0}},
                      options);
  optim::OneCycleLR schedule(
      optimizer, {.max_lr = 0.05, .total_steps = 20, .base_momentum = 0.8, .max_momentum = 0.9});
  const auto compiled = compile(&train_step<Optimizer>);
  std::vector<double> out;
  size_t before = 0;
  for (int i = 0; i < 12; ++i) {
    const Tensor x = cos(arange(20, f64) * (0.3 + i)).reshape({5, 4}).to(f32),
                 y = x.slice(1, 0, 2).square();
    out.push_back(
        (is_compiled ? compiled(net, optimizer, x, y) : train_step(net, optimizer, x, y)).item());
    schedule.step();
    if (i == 1) before = compiled_graphs().size();
  }
  compiled_later = compiled_graphs().size() - before;
  for (const double v : flat({net.in.weight, net.out.weight, net.in.bias})) out.push_back(v);
  return out;
}

template <class Optimizer, class Options>
void check(const Options& options) {
  size_t compiled_later = 0;
  const auto eager = losses<Optimizer>(false, options, compiled_later);
  EXPECT_EQ(compiled_later, 0u);
  const auto whole = losses<Optimizer>(true, options, compiled_later);
  EXPECT_EQ(compiled_later, 0u);
  ASSERT_EQ(eager.size(), whole.size());
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(eager[i], whole[i], 1e-4) << i;
  EXPECT_LT(eager[11], eager[0]);
}

TEST(WholeSteps, TakeAnSgd) { check<optim::SGD>(optim::SgdOptions{.momentum = 0.9}); }
TEST(WholeSteps, TakeAnAdamW) { check<optim::AdamW>(optim::AdamWOptions{.amsgrad = true}); }
TEST(WholeSteps, TakeALamb) { check<optim::LAMB>(optim::LambOptions{}); }

}  // namespace
}  // namespace tandem::testing
