// What dropout drops is the same in every form of a training run, and in one that goes on.
#include <gtest/gtest.h>
#include <tandem/tandem.h>
#include <tandem/train.h>

#include "tests/support/temporary_folder.h"

namespace tandem {
namespace {

/// One number of which all results follow exactly, so that forms can only differ by what is
/// dropped.
struct Net {
  Tensor weight = ones({64}, f64).requires_grad_();
  nn::Dropout dropout{0.5};
  nn::Dropout2d channels{0.25};
  TANDEM_FIELDS(Net, weight, dropout, channels)
  Tensor operator()() const {
    const Tensor kept = dropout(weight);
    return kept + channels(weight.view({1, 16, 2, 2})).view({64});
  }
};

enum class Form : uint8_t { Eager, Halves, Whole };

Tensor loss_of(const Net& net) { return net().sum() / 64; }

Tensor training_step(const Net& net, optim::SGD& optimizer) {
  const Tensor loss = loss_of(net);
  loss.backward();
  optimizer.step();
  optimizer.zero_grad();
  return loss.detach();
}

/// The losses of steps [from, to) of a run in `folder`, which goes on from its checkpoint there.
std::vector<double> losses(Form form, const std::string& folder, int64_t to) {
  manual_seed(17);
  Net net;
  optim::SGD optimizer(nn::parameters(net), {.lr = 0.5});
  int64_t step = 0;
  train::Checkpoint checkpoint;
  checkpoint.add("net", net), checkpoint.add("optimizer", optimizer), checkpoint.add("step", step);
  checkpoint.load_latest(folder);
  const auto halves = compile(&loss_of);
  const auto whole = compile(&training_step);
  std::vector<double> all;
  for (; step < to; ++step) {
    if (form == Form::Whole) {
      all.push_back(whole(net, optimizer).item());
      continue;
    }
    const Tensor loss = form == Form::Halves ? halves(net) : loss_of(net);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    all.push_back(loss.item());
  }
  checkpoint.save_step(folder, step);
  return all;
}

TEST(DropoutBits, AreTheSameInEveryFormAndResumed) {
  std::vector<double> expected;
  for (const Form form : {Form::Eager, Form::Halves, Form::Whole}) {
    const testing::TemporaryFolder folder;
    const std::vector<double> unbroken = losses(form, folder / "whole", 20);
    std::vector<double> broken = losses(form, folder / "broken", 9);
    for (const double loss : losses(form, folder / "broken", 20)) broken.push_back(loss);
    EXPECT_EQ(broken, unbroken);
    if (expected.empty()) expected = unbroken;
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(unbroken[i], expected[i], 1e-12) << i;
  }
  for (size_t i = 1; i < expected.size(); ++i) EXPECT_NE(expected[i], expected[i - 1]);
}

}  // namespace
}  // namespace tandem
