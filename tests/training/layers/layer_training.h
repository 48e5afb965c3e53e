// Layers trained as PyTorch trains them: tests/torch/layer_training.py has the same cases.
#ifndef TANDEM_TESTS_TRAINING_LAYERS_LAYER_TRAINING_H
#define TANDEM_TESTS_TRAINING_LAYERS_LAYER_TRAINING_H

#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace tandem::testing {

using Tensors = std::vector<Tensor>;

/// A layer whose type is forgotten.
struct AnyLayer {
  NamedTensors tensors;  // parameters and buffers
  std::function<Tensor(const Tensors&)> forward;
  std::function<void(bool)> train;
};

/// call(layer, inputs) gives a tensor.
template <class Layer, class Call>
AnyLayer any_layer(Layer layer, const Call& call) {
  const auto held = std::make_shared<Layer>(std::move(layer));
  return {nn::named_tensors(*held), [=](const Tensors& inputs) { return call(*held, inputs); },
          [=](bool value) { nn::train(*held, value); }};
}
template <class Layer>
AnyLayer any_layer(Layer layer) {
  return any_layer(std::move(layer),
                   [](const Layer& l, const Tensors& inputs) { return l(inputs[0]); });
}

/// What has no parameters is trained behind a Linear, over the last dimension.
template <class Then>
struct Behind {
  nn::Linear first;
  Then then;
  TANDEM_FIELDS(Behind, first, then)
  Tensor operator()(const Tensor& x) const { return then(first(x)); }
};
template <class Then>
AnyLayer behind(Dim size, Then then) {
  return any_layer(Behind<Then>{nn::Linear(size, size, true, f64), std::move(then)});
}
template <class Then, class Call>
AnyLayer behind(Dim size, Then then, const Call& call) {
  return any_layer(Behind<Then>{nn::Linear(size, size, true, f64), std::move(then)},
                   [=](const Behind<Then>& l, const Tensors& inputs) {
                     return call(l.then, l.first(inputs[0]), inputs);
                   });
}

/// The inputs of a case: 1.5 sin(0.7 i + k), or numbers in [0, below).
Tensor wave(const Shape& sizes, double k = 0);
Tensor numbers(const Shape& sizes, int64_t below);

struct LayerCase {
  std::string name;
  std::function<AnyLayer()> make;
  Tensors inputs;
};
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest's name
inline void PrintTo(const LayerCase& c, std::ostream* out) { *out << c.name; }

/// 20 steps of SGD in f64 from parameters that both sides compute, eager and compiled: names, sizes
/// and elements of parameters and buffers, and the output of the trained layer in evaluation are
/// PyTorch's; and the output does not depend on how the inputs lie in memory.
void expect_trains_as_torch(const LayerCase& c);

/// Runs each case as a test of its own.
#define TANDEM_LAYER_CASES(Suite, cases)                                 \
  class Suite : public ::testing::TestWithParam<LayerCase> {};           \
  TEST_P(Suite, TrainsAsInTorch) { expect_trains_as_torch(GetParam()); } \
  INSTANTIATE_TEST_SUITE_P(Cases, Suite, ::testing::ValuesIn(cases()),   \
                           [](const auto& info) { return info.param.name; });

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_TRAINING_LAYERS_LAYER_TRAINING_H
