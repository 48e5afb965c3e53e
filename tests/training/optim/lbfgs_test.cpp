// LBFGS beside PyTorch's.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <memory>
#include <sstream>

#include "tests/support/expect_error.h"
#include "tests/training/optim/optimizer_cases.h"

namespace tandem::testing {
namespace {

Parameters start() {
  return {(tensor({-12, 10, 5}).to(f64) / 10).requires_grad_(),
          (tensor({3, -4}).to(f64) / 10).reshape({2, 1}).requires_grad_()};
}

Tensor rosenbrock(const Parameters& parameters) {
  const Tensor x = cat({parameters[0], parameters[1].reshape({-1})});
  const Tensor head = x.slice(0, 0, 4), tail = x.slice(0, 1, 5);
  return (square(tail - square(head)) * 10 + square(1 - head)).sum();
}

std::function<Tensor()> closure_of(const Parameters& parameters, const optim::LBFGS& optimizer) {
  return [&] {
    optimizer.zero_grad();
    const Tensor loss = rosenbrock(parameters);
    loss.backward();
    return loss;
  };
}

optim::LbfgsOptions options_in(const std::string& text) {
  optim::LbfgsOptions options;
  std::istringstream items(text);
  for (std::string item; items >> item;) {
    const double value = std::stod(item.substr(item.find('=') + 1));
    if (item.starts_with("lr")) options.lr = value;
    if (item.starts_with("history")) options.history_size = static_cast<int64_t>(value);
    if (item.starts_with("max_iter")) options.max_iter = static_cast<int64_t>(value);
    if (item.starts_with("strong")) options.line_search = optim::LineSearch::StrongWolfe;
  }
  return options;
}

TEST(Lbfgs, IsAsPyTorchs) {
  std::string last;
  Parameters parameters;
  std::unique_ptr<optim::LBFGS> optimizer;
  for (const auto& row : read_table("lbfgs.tsv")) {
    if (row[0] != last) {
      parameters = start();
      optimizer = std::make_unique<optim::LBFGS>(parameters, options_in(row[0]));
    }
    last = row[0];
    optimizer->step(closure_of(parameters, *optimizer));
    const auto got = flat(parameters), expected = numbers_in(row[1]);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-7) << row[0];
  }
}

TEST(Lbfgs, ResumesToTheBit) {
  for (const auto search : {optim::LineSearch::None, optim::LineSearch::StrongWolfe}) {
    const optim::LbfgsOptions options{.lr = 0.3, .max_iter = 3, .line_search = search};
    const Parameters unbroken = start(), resumed = start();
    optim::LBFGS one(unbroken, options);
    for (int i = 0; i < 3; ++i) one.step(closure_of(unbroken, one));
    for (size_t k = 0; k < resumed.size(); ++k) {
      const NoGrad no_grad;
      resumed[k].copy_(unbroken[k]);
    }
    optim::LBFGS again(resumed, {.line_search = search});
    again.load_state_dict(one.state_dict());
    for (int i = 0; i < 3; ++i) {
      one.step(closure_of(unbroken, one));
      again.step(closure_of(resumed, again));
      EXPECT_EQ(flat(unbroken), flat(resumed)) << i;
    }
  }
}

TEST(Lbfgs, WithACompiledLoss) {
  const Parameters parameters = start();
  const auto loss_of = compile(&rosenbrock);
  optim::LBFGS optimizer(parameters, {.line_search = optim::LineSearch::StrongWolfe});
  for (int i = 0; i < 3; ++i)
    optimizer.step([&] {
      optimizer.zero_grad();
      const Tensor loss = loss_of(parameters);
      loss.backward();
      return loss;
    });
  EXPECT_NEAR(flat(parameters)[0], -0.8912, 1e-3);  // a local minimum
}

TEST(Lbfgs, Refusals) {
  const Tensor w = ones({2}).requires_grad_(), half = ones({2}, bf16).requires_grad_();
  expect_error(Errc::Argument, "LBFGS: step expected a closure", [&] {
    optim::Optimizer&& base = optim::LBFGS({w});
    base.step();
  });
  expect_error(Errc::Argument, "an empty one", [&] { optim::LBFGS({w}).step({}); });
  expect_error(Errc::Argument, "expected one group of parameters, got 2",
               [&] { optim::LBFGS({{.parameters = {w}}, {.parameters = {half}}}); });
  expect_error(Errc::DType, "of one dtype, got f32 and bf16", [&] { optim::LBFGS({w, half}); });
  expect_error(Errc::Argument, "max_iter", [&] { optim::LBFGS({w}, {.max_iter = 0}); });
}

}  // namespace
}  // namespace tandem::testing
