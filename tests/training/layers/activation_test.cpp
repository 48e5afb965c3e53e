// Activations that write their input.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <functional>

#include "tests/training/layers/layer_training.h"

namespace tandem::testing {
namespace {

template <class Layer>
void expect_written(Layer layer, const char* name) {
  SCOPED_TRACE(name);
  const Tensor x = wave({3, 4}), expected = layer(x);
  EXPECT_FALSE(expected.shares_storage(x));
  layer.inplace = true;
  const auto call = [](const Layer& l, const Tensor& t) { return l(t * 1).sum(); };
  for (const bool compiled : {false, true}) {
    const Tensor leaf = x.detach().clone().requires_grad_();
    (compiled ? compile(call)(layer, leaf) : call(layer, leaf)).backward();
    layer.inplace = false;
    const Tensor other = x.detach().clone().requires_grad_();
    layer(other).sum().backward();
    layer.inplace = true;
    EXPECT_TRUE(leaf.grad().allclose(other.grad(), 1e-12, 1e-12));
  }
  const Tensor y = x.clone();
  EXPECT_TRUE(layer(y).is_same(y));
  EXPECT_TRUE(y.equal(expected));
}

TEST(InPlaceActivations, WriteTheirInput) {
  expect_written(nn::ReLU{}, "ReLU");
  expect_written(nn::ReLU6{}, "ReLU6");
  expect_written(nn::SELU{}, "SELU");
  expect_written(nn::SiLU{}, "SiLU");
  expect_written(nn::Mish{}, "Mish");
  expect_written(nn::Hardswish{}, "Hardswish");
  expect_written(nn::Hardsigmoid{}, "Hardsigmoid");
  expect_written(nn::LeakyReLU{0.2}, "LeakyReLU");
  expect_written(nn::ELU{0.7}, "ELU");
  expect_written(nn::CELU{1.5}, "CELU");
  expect_written(nn::Hardtanh{-0.2, 0.7}, "Hardtanh");
  expect_written(nn::Threshold{0.1, 0.5}, "Threshold");
  expect_written(nn::RReLU{.training = false}, "RReLU");
}

}  // namespace
}  // namespace tandem::testing
