#include "tests/training/layers/layer_training.h"

#include <cmath>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

namespace tandem::testing {
namespace {

/// Of a tensor: its sizes, and two sums of its elements with different weights.
struct Digest {
  std::string sizes;
  double first = 0, second = 0;
};
using Digests = std::map<std::string, Digest>;  // by the tensor's name

/// What PyTorch gave, by case.
const std::map<std::string, Digests>& expected() {
  static const auto all = [] {
    std::map<std::string, Digests> found;
    std::ifstream file(TANDEM_SOURCE_DIR "/tests/torch/layer_training.tsv");
    EXPECT_TRUE(file.is_open());
    for (std::string line; std::getline(file, line);) {
      std::istringstream cells(line);
      std::string name, tensor, sizes, first, second;
      std::getline(cells, name, '\t'), std::getline(cells, tensor, '\t');
      std::getline(cells, sizes, '\t'), std::getline(cells, first, '\t');
      std::getline(cells, second, '\t');
      found[name][tensor] = {sizes, std::stod(first), std::stod(second)};
    }
    return found;
  }();
  return all;
}

/// Of the sum of magnitudes. (PyTorch has some constants in f32, as the sixth of hardsigmoid.)
constexpr double kNear = 1e-8;

void expect_digest(const Digest& expected, const Tensor& got, const std::string& what) {
  const auto values = got.to_vector<double>();
  double first = 0, second = 0, scale = 0;
  for (size_t n = 0; n < values.size(); ++n) {
    first += values[n] * static_cast<double>((n * 13) % 17 + 1);
    second += values[n] * (static_cast<double>((n * 5) % 23) - 11);
    scale += std::abs(values[n]) * 17;
  }
  std::string sizes = to_string(got.sizes());
  std::erase(sizes, ' ');
  EXPECT_EQ(expected.sizes, sizes) << what;
  EXPECT_NEAR(expected.first, first, kNear * scale + 1e-12) << what;
  EXPECT_NEAR(expected.second, second, kNear * scale + 1e-12) << what;
}

/// amount sin(step i + shift)
Tensor sines(const Shape& sizes, double step, double shift, double amount) {
  std::vector<double> values(static_cast<size_t>(int64_t{ir::numel(sizes)}));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = amount * std::sin(step * static_cast<double>(i) + shift);
  return from_data(values, sizes);
}

void set_parameters(const NamedTensors& tensors) {
  const NoGrad no_grad;
  for (const auto& [name, t] : tensors)
    if (t.requires_grad())
      t.copy_(sines(t.sizes(), 0.9, std::accumulate(name.begin(), name.end(), 0) % 17, 0.5));
}

Tensor loss_of(const Tensor& out) {
  return mse_loss(out, sines(out.sizes(), 0.3, std::acos(0.0), 1));
}

void update(const NamedTensors& tensors) {
  const NoGrad no_grad;
  for (const auto& [name, t] : tensors)
    if (t.requires_grad() && t.grad().defined()) {
      t.sub_(t.grad() * 0.1);
      t.set_grad({});
    }
}

/// With the same elements, the first and the last dimension swapped in memory and gaps between.
Tensor rearranged(const Tensor& t) {
  if (t.dim() == 0) return t;
  const Tensor apart = stack({t.transpose(0, -1), t.transpose(0, -1)}, -1);
  return apart.select(-1, 1).transpose(0, -1);
}

void expect_trained(const LayerCase& c, bool compiled) {
  SCOPED_TRACE(c.name + (compiled ? " compiled" : " eager"));
  const auto found = expected().find(c.name);
  ASSERT_NE(found, expected().end()) << "layer_training.tsv has no such case";
  const AnyLayer layer = c.make();
  set_parameters(layer.tensors);
  const auto eager_loss = [&](const Tensors& inputs) { return loss_of(layer.forward(inputs)); };
  const auto compiled_loss = compile(eager_loss);
  for (int step = 0; step < 20; ++step) {
    (compiled ? compiled_loss(c.inputs) : eager_loss(c.inputs)).backward();
    update(layer.tensors);
  }
  layer.train(false);
  const auto forward = [&](const Tensors& inputs) { return layer.forward(inputs); };
  const auto compiled_forward = compile(forward);
  const auto run = [&](const Tensors& inputs) {
    return compiled ? compiled_forward(inputs) : forward(inputs);
  };
  const Tensor out = run(c.inputs);
  Digests rest = found->second;
  NamedTensors all = layer.tensors;
  all.emplace_back("output", out);
  for (const auto& [name, t] : all) {
    ASSERT_EQ(rest.count(name), 1u) << "PyTorch has no " << name;
    expect_digest(rest[name], t, name);
    rest.erase(name);
  }
  EXPECT_TRUE(rest.empty()) << "only PyTorch has " << rest.begin()->first;
  Tensors others;
  for (const Tensor& t : c.inputs) others.push_back(rearranged(t));
  expect_digest(found->second.at("output"), run(others), "output of rearranged inputs");
}

}  // namespace

Tensor wave(const Shape& sizes, double k) { return sines(sizes, 0.7, k, 1.5); }

Tensor numbers(const Shape& sizes, int64_t below) {
  return (arange(ir::numel(sizes)) * 7 + 3).remainder(below).view(sizes);
}

void expect_trains_as_torch(const LayerCase& c) {
  for (const bool compiled : {false, true}) expect_trained(c, compiled);
}

}  // namespace tandem::testing
