// Modules with weights in i8, from a trained model to its file and back.
#include <gtest/gtest.h>
#include <tandem/tandem.h>
#include <tandem/train.h>

#include <cmath>
#include <map>

#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace tandem {
namespace {

using testing::expect_error;

struct Block {
  nn::LayerNorm norm{16};
  nn::Linear up{16, 32}, down{32, 16, false};
  TANDEM_FIELDS(Block, norm, up, down)
  Tensor operator()(const Tensor& x) const { return x + down(gelu(up(norm(x)))); }
};

/// Blocks, a head of the embedding's weight, layers whose types are not seen.
struct Net {
  nn::Embedding words{20, 16};
  std::vector<Block> blocks = std::vector<Block>(2);
  std::map<std::string, nn::AnyModule> heads = {
      {"deep", nn::Sequential{nn::Linear(16, 16), nn::ReLU()}}};
  nn::Linear head{16, 20};
  TANDEM_FIELDS(Net, words, blocks, heads, head)
  Net() { head.weight = words.weight; }
  Tensor operator()(const Tensor& tokens) const {
    Tensor x = words(tokens);
    for (const Block& block : blocks) x = block(x);
    return head(heads.at("deep")(x));
  }
};

Tensor tokens() { return (arange(24) * 7 % 20).view({4, 6}); }

/// The largest difference beside the largest magnitude.
double distance(const Tensor& a, const Tensor& b) { return (max(abs(a - b)) / max(abs(b))).item(); }

TEST(Quantize, EveryLinearAtAnyDepth) {
  manual_seed(1);
  Net net;
  const Tensor exact = net(tokens()).detach(), table = net.words.weight;
  nn::quantize(net);
  for (const nn::Linear* linear : nn::modules<nn::Linear>(net)) {
    EXPECT_EQ(linear->weight.dtype(), i8);
    EXPECT_EQ(linear->scale.sizes(), Shape{linear->weight.size(0)});
  }
  EXPECT_EQ(nn::modules<nn::Linear>(net).size(), 6u);
  EXPECT_TRUE(net.words.weight.is_same(table));  // what else holds the weight keeps it
  EXPECT_LT(distance(net(tokens()).detach(), exact), 0.02);
  nn::quantize(net, {.dynamic = true});  // takes the options alone
  EXPECT_LT(distance(net(tokens()).detach(), exact), 0.04);
  EXPECT_GT(distance(net(tokens()).detach(), exact), 0);
}

TEST(Quantize, EagerAndCompiledWithoutGradients) {
  manual_seed(1);
  Net net;
  const NoGrad no_grad;
  const auto compiled = compile([](const Net& n, const Tensor& t) { return n(t); });
  for (int kind = 0; kind < 3; ++kind) {  // one compiled function serves all
    if (kind > 0) nn::quantize(net, {.dynamic = kind == 2});
    testing::expect_close(net(tokens()), compiled(net, tokens()), 1e-5, "compiled");
  }
}

TEST(Quantize, TrainingIsRefused) {
  manual_seed(1);
  for (const bool dynamic : {false, true}) {
    Net net;
    nn::quantize(net, {.dynamic = dynamic});
    const auto compiled = compile([](const Net& n, const Tensor& t) { return n(t); });
    for (const Tensor& y : {net(tokens()), compiled(net, tokens())})
      expect_error(Errc::Autograd, "int8pack_mm: not differentiable", [&] { sum(y).backward(); });
    for (const Tensor& t : nn::parameters(net)) EXPECT_TRUE(ir::is_floating(t.dtype()));
    expect_error(Errc::Autograd, "int8_linear: not differentiable", [&] {
      jvp([&](const Tensor& x) { return net.blocks[0](x); }, ones({2, 16}), ones({2, 16}));
    });
  }
}

TEST(Quantize, SavedAndLoaded) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() / "net.safetensors";
  const NoGrad no_grad;
  manual_seed(1);
  Net net;
  const NamedTensors before = nn::state_dict(net);
  nn::quantize(net);
  save(path, net);
  manual_seed(2);
  Net other;
  expect_error(Errc::File, "unexpected", [&] { load(path, other); });
  nn::quantize(other);
  load(path, other);
  EXPECT_TRUE(equal(net(tokens()), other(tokens())));
  expect_error(Errc::Argument, "missing \"blocks.0.up.scale\"",
               [&] { nn::load_state_dict(other, before); });
  const Net copy = nn::clone(net);
  EXPECT_TRUE(equal(net(tokens()), copy(tokens())));
}

TEST(Quantize, InCheckpoints) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() / "run.safetensors";
  const NoGrad no_grad;
  Net net, other;
  for (Net* n : {&net, &other}) nn::quantize(*n);
  train::Checkpoint saved, loaded;
  saved.add("model", net);
  saved.save(path);
  loaded.add("model", other);
  loaded.load(path);
  EXPECT_TRUE(equal(net(tokens()), other(tokens())));
}

TEST(Quantize, WhatIsNotQuantisedIsSavedAsBefore) {
  const nn::Linear linear(3, 2);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : nn::state_dict(linear)) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"weight", "bias"}));
}

TEST(Quantize, SharedWeightsStayShared) {
  std::vector<nn::Linear> layers(2, nn::Linear(4, 4));
  layers[1].bias = zeros({4});
  nn::quantize(layers);
  EXPECT_TRUE(layers[0].weight.is_same(layers[1].weight));
  EXPECT_TRUE(layers[0].scale.is_same(layers[1].scale));
}

TEST(Quantize, Halves) {
  manual_seed(1);
  Net net;
  nn::to(net, bf16);
  const NoGrad no_grad;
  const Tensor exact = net(tokens());
  nn::quantize(net);
  EXPECT_EQ(net.head.scale.dtype(), f32);
  const Tensor y = net(tokens());
  EXPECT_EQ(y.dtype(), bf16);
  EXPECT_LT(distance(y.to(f32), exact.to(f32)), 0.04);
}

TEST(Quantize, WhatCannotBeIsSaidAndNothingChanges) {
  std::vector<nn::Linear> layers(2);
  for (nn::Linear& layer : layers) layer = nn::Linear(4, 4);
  {
    const NoGrad no_grad;
    layers[1].weight.select(0, 2).fill_(NAN);
  }
  expect_error(Errc::Argument, "layer \"1\" has a weight with NaN or infinities",
               [&] { nn::quantize(layers); });
  EXPECT_EQ(layers[0].weight.dtype(), f32);
  auto normed = nn::weight_norm(nn::Linear(4, 4));
  expect_error(Errc::Argument, "has no weight of its own", [&] { nn::quantize(normed); });
  nn::Linear kept(4, 4);
  expect_error(Errc::Trace, "inside a trace", [&] {
    compile([&](const Tensor& x) {
      nn::quantize(kept);
      return kept(x);
    })(ones({2, 4}));
  });
}

}  // namespace
}  // namespace tandem
