// nn::AdaptiveLogSoftmaxWithLoss.
#include "tests/support/expect_error.h"
#include "tests/training/layers/layer_training.h"

namespace tandem::testing {
namespace {

using nn::AdaptiveLogSoftmaxWithLoss;

AdaptiveLogSoftmaxWithLoss layer(const nn::AdaptiveSoftmaxOptions& options) {
  return {6, 9, {3, 5}, options};
}

std::vector<LayerCase> adaptive_cases() {
  const auto both = [](const AdaptiveLogSoftmaxWithLoss& l, const Tensors& x) {
    const auto [output, loss] = l(x[0], x[1]);
    return cat({output.flatten(), loss.flatten()});
  };
  const auto loss = [](const AdaptiveLogSoftmaxWithLoss& l, const Tensors& x) {
    return l(x[0], x[1]).loss;
  };
  return {
      {"adaptive_softmax",
       [=] { return any_layer(layer({.div_value = 2, .dtype = f64}), both); },
       {wave({7, 6}), numbers({7}, 9)}},
      {"adaptive_softmax_bias",
       [=] { return any_layer(layer({.div_value = 1.5, .head_bias = true, .dtype = f64}), loss); },
       {wave({7, 6}), numbers({7}, 9)}},
      {"adaptive_softmax_one",
       [=] { return any_layer(layer({.dtype = f64}), both); },
       {wave({6}), full({}, 4, i64)}},
  };
}
TANDEM_LAYER_CASES(AdaptiveSoftmax, adaptive_cases)

TEST(AdaptiveSoftmax, ProbabilitiesAddUpToOne) {
  const auto l = layer({.div_value = 2, .dtype = f64});
  const Tensor x = wave({2, 3, 6}), log_p = l.log_prob(x);
  EXPECT_EQ(log_p.sizes(), (Shape{2, 3, 9}));
  EXPECT_TRUE(log_p.exp().sum({-1}).allclose(ones({2, 3}, f64), 1e-12));
  EXPECT_TRUE(l.predict(x).equal(log_p.argmax(-1)));
}

TEST(AdaptiveSoftmax, Refusals) {
  using Cutoffs = std::vector<int64_t>;
  for (const Cutoffs& cutoffs : {Cutoffs{}, {0, 3}, {3, 3}, {5, 3}, {3, 9}})
    expect_error(Errc::Argument, "expected cutoffs that grow from at least 1 to at most 8",
                 [&] { AdaptiveLogSoftmaxWithLoss(6, 9, cutoffs); });
  expect_error(Errc::Argument, "expected a div_value above 0", [] { layer({.div_value = 0}); });
  const auto l = layer({});
  expect_error(Errc::Shape, "expected an input [n, features] and a target [n]",
               [&] { l(ones({2, 6}), zeros({3}, i64)); });
  expect_error(Errc::Shape, "expected an input [n, features] and a target [n]",
               [&] { l(ones({2, 3, 6}), zeros({2, 3}, i64)); });
  EXPECT_THROW(l(ones({2, 6}), full({2}, 9, i64)), Error);
}

}  // namespace
}  // namespace tandem::testing
