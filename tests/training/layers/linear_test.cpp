// Linear, embedding and convolution layers.
#include "tests/training/layers/layer_training.h"

namespace tandem::testing {
namespace {

using nn::Conv1d, nn::Conv2d, nn::Conv3d;
using nn::ConvTranspose1d, nn::ConvTranspose2d, nn::ConvTranspose3d;

std::vector<LayerCase> linear_cases() {
  return {
      {"linear", [] { return any_layer(nn::Linear(4, 3, true, f64)); }, {wave({2, 5, 4})}},
      {"linear_no_bias", [] { return any_layer(nn::Linear(4, 3, false, f64)); }, {wave({4})}},
      {"bilinear",
       [] {
         return any_layer(nn::Bilinear(3, 4, 2, true, f64),
                          [](const auto& l, const Tensors& x) { return l(x[0], x[1]); });
       },
       {wave({5, 3}), wave({5, 4}, 1)}},
      {"identity", [] { return behind(4, nn::Identity{}); }, {wave({3, 4})}},
      {"embedding",
       [] { return any_layer(nn::Embedding(7, 3, {.padding_idx = -2}, f64)); },
       {numbers({2, 6}, 7)}},
      {"embedding_frequencies",
       [] { return any_layer(nn::Embedding(7, 3, {.scale_grad_by_freq = true}, f64)); },
       {numbers({11}, 5)}},
      {"embedding_bag_mean",
       [] { return any_layer(nn::EmbeddingBag(7, 3, {.padding_idx = 3}, f64)); },
       {numbers({4, 6}, 7)}},
      {"embedding_bag_sum",
       [] {
         return any_layer(nn::EmbeddingBag(7, 3, {.mode = "sum"}, f64),
                          [](const auto& l, const Tensors& x) { return l(x[0], x[1], x[2]); });
       },
       {numbers({9}, 7), tensor({0, 2, 2, 7}), wave({9})}},
      {"embedding_bag_max",
       [] {
         return any_layer(nn::EmbeddingBag(7, 3, {.mode = "max", .include_last_offset = true}, f64),
                          [](const auto& l, const Tensors& x) { return l(x[0], x[1]); });
       },
       {numbers({9}, 7), tensor({0, 2, 9})}},
  };
}
TANDEM_LAYER_CASES(LinearLayers, linear_cases)

std::vector<LayerCase> convolution_cases() {
  return {
      {"conv1d", [] { return any_layer(Conv1d(4, 6, 3, {.dtype = f64})); }, {wave({2, 4, 7})}},
      {"conv1d_same",
       [] { return any_layer(Conv1d(2, 3, 4, {.padding = "same", .dilation = 3, .dtype = f64})); },
       {wave({2, 2, 9})}},
      {"conv1d_reflect",
       [] {
         return any_layer(
             Conv1d(2, 3, 3, {.stride = 2, .padding = 2, .padding_mode = "reflect", .dtype = f64}));
       },
       {wave({2, 2, 9})}},
      {"conv2d",
       [] {
         return any_layer(Conv2d(4, 6, {3, 2},
                                 {.stride = {2, 1}, .padding = {1, 0}, .groups = 2, .dtype = f64}));
       },
       {wave({2, 4, 6, 5})}},
      {"conv2d_one_image",
       [] { return any_layer(Conv2d(2, 3, 3, {.padding = 1, .bias = false, .dtype = f64})); },
       {wave({2, 5, 4})}},
      {"conv2d_depthwise",
       [] {
         return any_layer(Conv2d(3, 6, 3,
                                 {.padding = {1, 2},
                                  .dilation = {1, 2},
                                  .groups = 3,
                                  .padding_mode = "circular",
                                  .dtype = f64}));
       },
       {wave({2, 3, 5, 6})}},
      {"conv2d_same_replicate",
       [] {
         return any_layer(
             Conv2d(2, 3, {2, 4}, {.padding = "same", .padding_mode = "replicate", .dtype = f64}));
       },
       {wave({2, 5, 6})}},
      {"conv2d_valid",
       [] { return any_layer(Conv2d(2, 3, 2, {.padding = "valid", .dtype = f64})); },
       {wave({1, 2, 4, 4})}},
      {"conv3d",
       [] {
         return any_layer(
             Conv3d(2, 3, {2, 3, 2}, {.stride = {1, 2, 1}, .padding = {0, 1, 1}, .dtype = f64}));
       },
       {wave({2, 2, 4, 5, 3})}},
      {"conv_transpose1d",
       [] { return any_layer(ConvTranspose1d(3, 2, 4, {.dtype = f64})); },
       {wave({2, 3, 5})}},
      {"conv_transpose2d",
       [] {
         return any_layer(ConvTranspose2d(4, 6, {3, 2},
                                          {.stride = 3,
                                           .padding = {1, 0},
                                           .output_padding = {2, 1},
                                           .groups = 2,
                                           .dilation = {2, 1},
                                           .dtype = f64}));
       },
       {wave({2, 4, 3, 4})}},
      {"conv_transpose2d_sizes",
       [] {
         return any_layer(ConvTranspose2d(2, 3, 3, {.stride = 2, .bias = false, .dtype = f64}),
                          [](const auto& l, const Tensors& x) { return l(x[0], {8, 9}); });
       },
       {wave({2, 3, 4})}},
      {"conv_transpose3d",
       [] {
         return any_layer(ConvTranspose3d(2, 3, {2, 1, 3}, {.stride = {1, 2, 1}, .dtype = f64}));
       },
       {wave({1, 2, 3, 2, 2})}},
  };
}
TANDEM_LAYER_CASES(ConvolutionLayers, convolution_cases)

// --- what is drawn at first

double largest(const Tensor& t) { return t.abs().max().item(); }

TEST(InitialParameters, AreUniformWithinPyTorchsBounds) {
  manual_seed(1);
  const auto expect_uniform = [](const Tensor& t, double bound) {
    EXPECT_TRUE(t.requires_grad() && t.is_leaf());
    EXPECT_LE(largest(t), bound);
    EXPECT_GE(largest(t), 0.9 * bound);
    EXPECT_NEAR(t.detach().mean().item(), 0, 0.1 * bound);
    EXPECT_NEAR(t.detach().std().item(), bound / std::sqrt(3.0), 0.1 * bound);
  };
  const nn::Linear linear(16, 400);
  expect_uniform(linear.weight, 0.25);
  expect_uniform(linear.bias, 0.25);
  const Conv2d conv(8, 400, {3, 2}, {.groups = 2});
  expect_uniform(conv.weight, 1 / std::sqrt(24.0));
  expect_uniform(conv.bias, 1 / std::sqrt(24.0));
  const ConvTranspose1d transposed(100, 400, 4);
  expect_uniform(transposed.weight, 1 / std::sqrt(1600.0));
  expect_uniform(transposed.bias, 1 / std::sqrt(1600.0));
  expect_uniform(nn::Bilinear(9, 10, 50).weight, 1.0 / 3);
}

TEST(InitialParameters, HaveTheirDtypeAndAreDrawnAnew) {
  for (const DType dtype : {f64, f32, bf16, f16}) {
    const Conv1d a(2, 3, 2, {.dtype = dtype}), b(2, 3, 2, {.dtype = dtype});
    EXPECT_EQ(a.weight.dtype(), dtype);
    EXPECT_EQ(a.bias.dtype(), dtype);
    EXPECT_FALSE(a.weight.equal(b.weight));
    EXPECT_EQ(nn::Embedding(3, 2, {}, dtype).weight.dtype(), dtype);
    EXPECT_EQ(nn::Linear(3, 2, true, dtype).bias.dtype(), dtype);
  }
}

TEST(InitialParameters, OfNoInputs) {
  const nn::Linear linear(0, 3);
  EXPECT_EQ(linear(zeros({2, 0})).to_vector<float>(), std::vector<float>(6, 0));
}

// --- tables

TEST(EmbeddingLayer, KeepsThePaddingRow) {
  const nn::Embedding e(5, 3, {.padding_idx = -1});
  EXPECT_EQ(e.padding_idx, 4);
  EXPECT_EQ(e(tensor({4})).to_vector<float>(), std::vector<float>(3, 0));
  e(tensor({4, 1})).sum().backward();
  EXPECT_EQ(e.weight.grad()[4].to_vector<float>(), std::vector<float>(3, 0));
  EXPECT_EQ(e.weight.grad()[1].to_vector<float>(), std::vector<float>(3, 1));
}

TEST(EmbeddingLayer, ScalesRowsInTheTable) {
  const nn::Embedding e(3, 2, {.max_norm = 1.0}, f64);
  {
    const NoGrad no_grad;
    e.weight.copy_(tensor({{3.0, 4.0}, {0.3, 0.4}, {6.0, 8.0}}));
  }
  EXPECT_NEAR(e(tensor({0, 1})).norm().item(), std::sqrt(1.25), 1e-6);
  EXPECT_NEAR(e.weight[0].norm().item(), 1, 1e-6);
  EXPECT_EQ(e.weight[2].to_vector<double>(), (std::vector<double>{6, 8}));
}

TEST(EmbeddingLayer, FromATable) {
  const Tensor table = tensor({{1.0, 2.0}, {3.0, 4.0}});
  const auto frozen = nn::Embedding::from_pretrained(table);
  EXPECT_FALSE(frozen.weight.requires_grad());
  EXPECT_TRUE(frozen.weight.shares_storage(table));
  EXPECT_EQ(frozen(tensor({1})).to_vector<float>(), (std::vector<float>{3, 4}));
  EXPECT_TRUE(nn::Embedding::from_pretrained(table, false).weight.requires_grad());
}

// --- as arguments: what steers a layer is guarded

TEST(LayersAsArguments, OptionsAreGuarded) {
  const auto f = compile([](const Conv1d& c, const Tensor& x) { return c(x); });
  Conv1d c(2, 3, 3, {.padding = 1});
  const Tensor x = wave({2, 2, 8}).to(f32);
  EXPECT_EQ(f(c, x).sizes(), (Shape{2, 3, 8}));
  c.stride = {2};
  EXPECT_EQ(f(c, x).sizes(), (Shape{2, 3, 4}));
  c.padding_mode = "circular";
  EXPECT_TRUE(f(c, x).allclose(c(x), 1e-5, 1e-6));
}

}  // namespace
}  // namespace tandem::testing
