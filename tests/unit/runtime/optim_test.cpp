// Optimizers against their formulas in plain doubles.
#include <gtest/gtest.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include <cmath>
#include <optional>

namespace tandem {
namespace {

/// One number under torch.optim.AdamW.
struct AdamWOracle {
  optim::AdamWOptions o;
  double p = 0, m = 0, v = 0;
  int steps = 0;

  void step(double g, double lr) {
    ++steps;
    p -= lr * o.weight_decay * p;
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(o.beta1, steps));
    const double v_hat = v / (1 - std::pow(o.beta2, steps));
    p -= lr * m_hat / (std::sqrt(v_hat) + o.eps);
  }
};

struct SgdOracle {
  optim::SgdOptions o;
  double p = 0;
  std::optional<double> v;

  void step(double g, double lr) {
    g += o.weight_decay * p;
    if (o.momentum != 0) {
      v = v ? o.momentum * *v + (1 - o.dampening) * g : g;
      g = o.nesterov ? g + o.momentum * *v : *v;
    }
    p -= lr * g;
  }
};

constexpr int kParameters = 3;

/// In `step`, the gradient of parameter i; none where the parameter has none.
std::optional<double> gradient(int step, int i) {
  const bool has = i == 0 || (i == 1 && step % 2 == 1) || (i == 2 && step >= 3);
  return has ? std::optional(std::sin(1.0 + step * 3 + i)) : std::nullopt;
}

/// Steps with parameters that have no gradient in some of them, and a learning rate that changes.
template <class Optimizer, class Oracle, class Options>
void expect_agreement(const Options& options) {
  std::vector<Tensor> parameters;
  std::vector<Oracle> oracles;
  for (int i = 0; i < kParameters; ++i) {
    parameters.push_back(full({2 + i}, 0.5 + i, f64));
    oracles.push_back({options, 0.5 + i});
  }
  Optimizer optimizer(parameters, options);
  for (int step = 0; step < 8; ++step) {
    const double lr = 0.1 / (1 + step);
    optimizer.lr.set(lr);
    for (int i = 0; i < kParameters; ++i)
      if (const auto g = gradient(step, i)) {
        parameters[i].set_grad(full({2 + i}, *g, f64));
        oracles[i].step(*g, lr);
      }
    optimizer.step();
    optimizer.zero_grad();
    for (int i = 0; i < kParameters; ++i)
      for (double value : parameters[i].template to_vector<double>())
        EXPECT_NEAR(value, oracles[i].p, 1e-12) << "parameter " << i << " after step " << step;
  }
}

TEST(Optim, AdamWCountsTheStepsOfEachParameter) {
  expect_agreement<optim::AdamW, AdamWOracle>(optim::AdamWOptions{.weight_decay = 0.2});
}

TEST(Optim, Sgd) {
  expect_agreement<optim::SGD, SgdOracle>(optim::SgdOptions{.weight_decay = 0.1});
  expect_agreement<optim::SGD, SgdOracle>(
      optim::SgdOptions{.momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1});
  expect_agreement<optim::SGD, SgdOracle>(optim::SgdOptions{.momentum = 0.9, .nesterov = true});
}

size_t variants_of(const std::string& name) {
  size_t count = 0;
  for (const CompiledGraphs* graphs : compiled_graphs()) count += graphs->traced.name == name;
  return count;
}

TEST(Optim, AdamWCompilesOnceWhileStepsAdvance) {
  std::vector<Tensor> parameters;
  for (int i = 0; i < 20; ++i) parameters.push_back(ones({8}));
  optim::AdamW optimizer(parameters);
  const size_t before = variants_of("adamw");
  for (int step = 0; step < 5; ++step) {
    for (const Tensor& p : parameters) p.set_grad(ones({8}));
    optimizer.lr.set(0.1 * (step + 1));
    optimizer.step();
  }
  EXPECT_EQ(variants_of("adamw"), before + 1);
  // The counts' powers are one kernel for all parameters, the updates few.
  EXPECT_LE(compiled_graphs().back()->forward_report.kernels, 4);
}

}  // namespace
}  // namespace tandem
