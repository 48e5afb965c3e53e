// Parametrized weights and averaged models: beside PyTorch, and by their formulas.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>

#include "tests/support/expect_error.h"

namespace tandem {
namespace {

using testing::expect_error;

struct Conv {
  Tensor weight;
  TANDEM_FIELDS(Conv, weight)
  explicit Conv(const Shape& sizes) : weight(randn(sizes, f64).requires_grad_()) {}
  Tensor operator()(const Tensor& x) const { return conv1d(x, weight); }
};

nn::Linear linear_f64(Dim in, Dim out) {
  nn::Linear linear(in, out);
  nn::to(linear, f64);
  return linear;
}

Tensor tanh_of(const Tensor& x) { return tanh(x); }

/// tests/torch/parametrized_training.py's.
struct Net {
  static constexpr auto kTanh = [](const Tensor& x) { return tanh_of(x); };
  nn::Sequential body{nn::weight_norm(linear_f64(4, 5)), kTanh,
                      nn::spectral_norm(linear_f64(5, 6), {.n_power_iterations = 2}), kTanh,
                      nn::weight_norm(linear_f64(6, 8), {.dim = 1})};
  nn::SpectralNorm<Conv> conv = nn::spectral_norm(Conv({3, 2, 3}), {.dim = 1});
  nn::WeightNorm<Conv> last = nn::weight_norm(Conv({1, 3, 2}), {.dim = -1});
  TANDEM_FIELDS(Net, body, conv, last)
  Tensor operator()(const Tensor& x) const {
    return last(tanh(conv(body(x).view({-1, 2, 4})))).view({-1});
  }
};

Tensor loss_of(const Net& net, const Tensor& x, const Tensor& y) {
  return (net(x) - y).square().mean();
}

void expect_state(const NamedTensors& got, const NamedTensors& file, const std::string& prefix) {
  const NamedTensors expected = parts_of(file, prefix);
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, tensor] : got) {
    const Tensor* same = find(expected, name);
    ASSERT_NE(same, nullptr) << name;
    EXPECT_TRUE(allclose(tensor.to(f64), same->to(f64), 1e-9, 1e-12)) << prefix << " " << name;
  }
}

class BesidePyTorch : public ::testing::TestWithParam<bool> {};

TEST_P(BesidePyTorch, ParametrizedWeightsAndTheirAveragesTrain) {
  const NamedTensors file =
      load_npz(TANDEM_SOURCE_DIR "/tests/torch/files/parametrized_training.npz");
  const Net net;
  nn::load_state_dict(net, file, {.prefix = "start"});
  const nn::AveragedModel<Net> ema(net, {.ema_decay = 0.9}), swa(net, {.use_buffers = true});
  const Tensor x = *find(file, "x"), y = *find(file, "y");
  optim::SGD optimizer(nn::parameters(net), {.lr = 0.05, .momentum = 0.9});
  const auto compiled = compile(loss_of);
  const auto losses = find(file, "losses")->to_vector<double>();
  for (size_t step = 0; step < losses.size(); ++step) {
    const Tensor loss = GetParam() ? compiled(net, x, y) : loss_of(net, x, y);
    EXPECT_NEAR(loss.item(), losses[step], 1e-10) << step;
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    ema.update_parameters(net);
    if (step % 5 == 4) swa.update_parameters(net);
  }
  expect_state(nn::state_dict(net), file, "end");
  expect_state(nn::state_dict(ema), file, "ema");
  expect_state(nn::state_dict(swa), file, "swa");
}

INSTANTIATE_TEST_SUITE_P(Compiled, BesidePyTorch, ::testing::Bool());

// --- weight norm

TEST(WeightNorm, GivesTheWeightItWasMadeOf) {
  const nn::Linear linear(3, 4);
  for (const int64_t dim : {0, 1, -1}) {
    const auto normed = nn::weight_norm(linear, {.dim = dim});
    EXPECT_TRUE(allclose(normed.weight(), linear.weight)) << dim;
    EXPECT_TRUE(allclose(normed(ones({3})), linear(ones({3}))));
    EXPECT_EQ(nn::parameters(normed).size(), 3u);
    const nn::Linear plain = nn::remove_parametrizations(normed);
    EXPECT_TRUE(plain.weight.is_leaf() && plain.weight.requires_grad());
    EXPECT_TRUE(plain.bias.is_same(linear.bias));
  }
  EXPECT_EQ(nn::weight_norm(linear).parts().magnitude.sizes(), (Shape{4, 1}));
  EXPECT_EQ(nn::weight_norm(linear, {.dim = -1}).parts().magnitude.dim(), 0);
}

TEST(WeightNorm, DoesNotTouchTheModuleItWasGiven) {
  const nn::Linear linear(3, 4);
  const auto before = linear.weight.to_vector<float>();
  const auto normed = nn::weight_norm(linear);
  const NoGrad no_grad;
  normed.parts().direction.fill_(1);
  normed.parts().magnitude.fill_(2);
  EXPECT_EQ(linear.weight.to_vector<float>(), before);
  EXPECT_TRUE(allclose(normed.weight(), full({4, 3}, 2 / std::sqrt(3.0))));
}

struct Cell {
  Tensor w = randn({2, 2}).requires_grad_();
  TANDEM_FIELDS(Cell, w)
  Tensor operator()(const Tensor& x, const Tensor& h) const { return tanh(mm(x, w) + h); }
};

TEST(WeightNorm, OfAnotherFieldAndCall) {
  const Cell cell;
  const nn::WeightNorm<Cell, &Cell::w> normed(cell, {}, "w");
  EXPECT_EQ(nn::state_dict(normed)[0].first, "parametrizations.w.original0");
  const Tensor x = randn({3, 2});
  EXPECT_TRUE(allclose(normed.module()(x, x), cell(x, x)));
}

TEST(WeightNorm, KeepsWhatIsFrozenFrozen) {
  const nn::Linear linear(2, 2);
  nn::requires_grad_(linear, false);
  EXPECT_FALSE(nn::weight_norm(linear).parts().direction.requires_grad());
}

// --- spectral norm

TEST(SpectralNorm, MakesTheLargestSingularValueOne) {
  manual_seed(3);
  for (const int64_t dim : {0, 1}) {
    auto normed = nn::spectral_norm(linear_f64(6, 4), {.n_power_iterations = 60, .dim = dim});
    EXPECT_NEAR(linalg::svdvals(normed.weight()).select(0, 0).item(), 1, 1e-6);
  }
}

TEST(SpectralNorm, WritesItsVectorsOnlyWhileTraining) {
  auto normed = nn::spectral_norm(nn::Linear(6, 4));
  const Tensor u = normed.parts().vectors.u;
  const uint64_t version = u.version();
  nn::eval(normed);
  normed(ones({6}));
  EXPECT_EQ(u.version(), version);
  nn::train(normed);
  normed(ones({6}));
  EXPECT_GT(u.version(), version);
  EXPECT_EQ(nn::named_buffers(normed).size(), 2u);
}

TEST(SpectralNorm, TwoCallsBeforeBackward) {
  const auto normed = nn::spectral_norm(nn::Linear(6, 4));
  (normed(ones({6})) + normed(zeros({6}))).sum().backward();
  EXPECT_TRUE(normed.parts().original.grad().defined());
}

TEST(SpectralNorm, OfAVectorIsItsNorm) {
  nn::LayerNorm norm(4);
  nn::init::constant_(norm.weight, 3);
  const auto normed = nn::spectral_norm(norm);
  EXPECT_TRUE(allclose(normed.weight(), full({4}, 0.5)));
  EXPECT_TRUE(nn::buffers(normed).empty());
}

TEST(Parametrizations, AreRefusedWhereTheyDoNotFit) {
  const nn::Linear linear(2, 2);
  expect_error(Errc::Argument, "weight_norm: expected -1 <= dim < 2, got 2",
               [&] { nn::weight_norm(linear, {.dim = 2}); });
  expect_error(Errc::Argument, "spectral_norm: expected 0 <= dim < 2, got -1",
               [&] { nn::spectral_norm(linear, {.dim = -1}); });
  expect_error(Errc::Argument, "expected n_power_iterations > 0, got 0",
               [&] { nn::spectral_norm(linear, {.n_power_iterations = 0}); });
  expect_error(Errc::Argument, "expected a module with a weight, got none",
               [] { nn::weight_norm(nn::Linear()); });
}

// --- averages

struct Counted {
  Tensor weight = zeros({2}).requires_grad_();
  nn::Buffer mean = zeros({2}), count = zeros({}, i64);
  TANDEM_FIELDS(Counted, weight, mean, count)
  void set(double value) const {
    const NoGrad no_grad;
    weight.fill_(value), mean.fill_(10 * value), count.fill_(100 * value);
  }
  Tensor operator()(const Tensor& x) const { return x * weight; }
};

/// After updates with 1, 2 and 6: weight, mean, count.
std::vector<double> averages(const nn::AveragingOptions& options) {
  const Counted model;
  const nn::AveragedModel<Counted> averaged(model, options);
  for (const double value : {1, 2, 6}) {
    model.set(value);
    averaged.update_parameters(model);
  }
  EXPECT_EQ(averaged.n_averaged.item<int64_t>(), 3);
  const Counted& m = averaged.module;
  EXPECT_TRUE(m.weight.requires_grad() && m.weight.is_leaf());
  return {m.weight.select(0, 0).item(), m.mean.select(0, 1).item(), m.count.item()};
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-4) << i;
}

TEST(AveragedModel, IsTheMeanOfTheUpdates) {
  expect_near(averages({}), {3, 60, 600});
  expect_near(averages({.use_buffers = true}), {3, 30, 600});
}

TEST(AveragedModel, ForgetsByItsDecay) {
  const double expected = 0.75 * (0.75 * 1 + 0.25 * 2) + 0.25 * 6;
  expect_near(averages({.ema_decay = 0.75}), {expected, 60, 600});
  expect_near(averages({.ema_decay = 0.75, .use_buffers = true}), {expected, 10 * expected, 600});
  expect_near(averages({.ema_decay = 0}), {6, 60, 600});
  expect_near(averages({.ema_decay = 1}), {1, 60, 600});
}

TEST(AveragedModel, IsUpdatedInsideACompiledFunction) {
  const Counted model;
  const nn::AveragedModel<Counted> averaged(model, {.ema_decay = 0.75});
  const auto step = compile([](const Counted& m, const nn::AveragedModel<Counted>& a) {
    a.update_parameters(m);
    return a(ones({2}));
  });
  for (const double value : {1, 2, 6}) {
    model.set(value);
    step(model, averaged);
  }
  const double expected = 0.75 * (0.75 * 1 + 0.25 * 2) + 0.25 * 6;
  EXPECT_TRUE(allclose(averaged.module.weight, full({2}, expected)));
  EXPECT_EQ(averaged.n_averaged.item<int64_t>(), 3);
}

TEST(AveragedModel, GoesOnFromItsState) {
  const Counted model;
  const nn::AveragedModel<Counted> a(model), b(model);
  model.set(2);
  a.update_parameters(model);
  nn::load_state_dict(b, nn::state_dict(a));
  model.set(4);
  b.update_parameters(model);
  EXPECT_TRUE(allclose(b.module.weight, full({2}, 3.0)));
  EXPECT_NE(find(nn::state_dict(b), "module.weight"), nullptr);
}

struct Normed {
  nn::BatchNorm1d norm{2};
  nn::InstanceNorm1d other{2, {.track_running_stats = true}};
  nn::Dropout dropout{0.5};
  TANDEM_FIELDS(Normed, norm, other, dropout)
  Tensor operator()(const Tensor& x) const { return dropout(norm(x)); }
};

TEST(UpdateBn, StatisticsAreTheMeansOverTheBatches) {
  Normed model;
  nn::eval(model.dropout);
  model.norm(full({3, 2}, 100));
  const std::vector<std::pair<Tensor, int>> batches = {{tensor({{0.0, 2}, {2, 4}}).to(f32), 1},
                                                       {tensor({{4.0, 4}, {4, 8}}).to(f32), 2}};
  nn::update_bn(batches, model);
  EXPECT_EQ(model.norm.running_mean.to_vector<double>(), (std::vector<double>{2.5, 4.5}));
  EXPECT_EQ(model.norm.running_var.to_vector<double>(), (std::vector<double>{1, 5}));
  EXPECT_EQ(model.norm.num_batches_tracked.item(), 2);
  EXPECT_EQ(model.norm.momentum, 0.1);
  EXPECT_TRUE(model.norm.training);
  EXPECT_FALSE(model.dropout.training) << "modes are given back";
  nn::AveragedModel<Normed> averaged(model);
  nn::eval(averaged);
  nn::update_bn(std::vector<Tensor>{ones({4, 2})}, averaged);
  EXPECT_EQ(averaged.module.norm.running_mean.to_vector<double>(), (std::vector<double>{1, 1}));
  EXPECT_FALSE(averaged.module.norm.training);
  nn::Linear without(2, 2);
  nn::update_bn(std::vector<Tensor>{Tensor()}, without);
}

TEST(AveragedModel, OfOtherStructures) {
  const std::vector<Tensor> one = {ones({2})}, other = {ones({3})}, two = {ones({2}), ones({2})};
  const nn::AveragedModel<std::vector<Tensor>> averaged(one);
  expect_error(Errc::Argument, "expected \"0\" [2], got \"0\" [3]",
               [&] { averaged.update_parameters(other); });
  expect_error(Errc::Argument, "expected no more tensors, got \"1\" [2]",
               [&] { averaged.update_parameters(two); });
  EXPECT_EQ(averaged.n_averaged.item<int64_t>(), 0);
  expect_error(Errc::Argument, "expected 0 <= ema_decay <= 1, got 2",
               [&] { nn::AveragedModel<std::vector<Tensor>>(one, {.ema_decay = 2}); });
}

}  // namespace
}  // namespace tandem
