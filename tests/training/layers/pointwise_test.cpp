// Activations, dropouts, pools and layers that rearrange.
#include "tests/training/layers/layer_training.h"

namespace tandem::testing {
namespace {

template <class Layer>
LayerCase activation(const std::string& name, const Layer& layer) {
  return {name, [layer] { return behind(6, layer); }, {wave({3, 4, 6})}};
}

std::vector<LayerCase> activation_cases() {
  return {
      activation("relu", nn::ReLU{}),
      activation("relu6", nn::ReLU6{}),
      activation("leaky_relu", nn::LeakyReLU{}),
      activation("leaky_relu_slope", nn::LeakyReLU{0.2}),
      activation("elu", nn::ELU{.alpha = 0.7}),
      activation("selu", nn::SELU{}),
      activation("celu", nn::CELU{.alpha = 1.5}),
      activation("gelu", nn::GELU{}),
      activation("gelu_tanh", nn::GELU{.approximate = "tanh"}),
      activation("silu", nn::SiLU{}),
      activation("mish", nn::Mish{}),
      activation("softplus", nn::Softplus{.beta = 2, .threshold = 1}),
      activation("softsign", nn::Softsign{}),
      activation("tanh", nn::Tanh{}),
      activation("sigmoid", nn::Sigmoid{}),
      activation("hardtanh", nn::Hardtanh{}),
      activation("hardtanh_bounds", nn::Hardtanh{.min_val = -0.2, .max_val = 0.7}),
      activation("hardswish", nn::Hardswish{}),
      activation("hardsigmoid", nn::Hardsigmoid{}),
      activation("log_sigmoid", nn::LogSigmoid{}),
      activation("glu", nn::GLU{}),
      activation("glu_dim", nn::GLU{.dim = 1}),
      activation("softmax", nn::Softmax{.dim = 1}),
      activation("log_softmax", nn::LogSoftmax{.dim = -1}),
      activation("softmin", nn::Softmin{.dim = 0}),
      activation("softmax2d", nn::Softmax2d{}),
      activation("threshold", nn::Threshold{.threshold = 0.1, .value = 0.5}),
      activation("tanhshrink", nn::Tanhshrink{}),
      activation("softshrink", nn::Softshrink{.lambd = 0.2}),
      activation("hardshrink", nn::Hardshrink{}),
      activation("rrelu", nn::RReLU{.lower = 0.1, .upper = 0.4, .training = false}),
      activation("prelu", nn::PReLU(1, 0.25, f64)),
      activation("prelu_channels", nn::PReLU(4, 0.1, f64)),
  };
}
TANDEM_LAYER_CASES(Activations, activation_cases)

TEST(Activations, SlopesAtFirstAndDrawnOnes) {
  EXPECT_EQ(nn::PReLU().weight.to_vector<float>(), std::vector<float>{0.25});
  EXPECT_EQ(nn::PReLU(3, 0.1, f64).weight.to_vector<double>(), std::vector<double>(3, 0.1));
  const Tensor slopes = nn::RReLU{}(full({1000}, -1.0, f64)).neg();
  EXPECT_GE(slopes.min().item(), 1.0 / 8);
  EXPECT_LE(slopes.max().item(), 1.0 / 3);
  EXPECT_GT(slopes.std().item(), 0.05);
}

// --- pools, behind a Linear over the last dimension

template <class Layer>
LayerCase pool(const std::string& name, const Layer& layer, const Shape& sizes) {
  return {name, [=] { return behind(sizes.back(), layer); }, {wave(sizes)}};
}

/// Maxima put back where they were.
template <class Pool, class Unpool>
LayerCase unpool(const std::string& name, Pool down, Unpool up, const Shape& sizes,
                 const Spatial& output_size = {}) {
  const auto call = [=](const Pool& p, const Tensor& x, const Tensors&) {
    const auto [values, indices] = p.with_indices(x);
    return up(values, indices, output_size);
  };
  return {name, [=] { return behind(sizes.back(), down, call); }, {wave(sizes)}};
}

/// Maxima over windows that lie as these samples say.
template <class Pool>
LayerCase fractional(const std::string& name, const Pool& layer, const Shape& sizes,
                     double sample) {
  const Shape samples{sizes[0], sizes[1], sizes.rank() - 2};
  const auto call = [=](const Pool& p, const Tensor& x, const Tensors&) {
    return p(x, full(samples, sample, f64));
  };
  return {name, [=] { return behind(sizes.back(), layer, call); }, {wave(sizes)}};
}

std::vector<LayerCase> pool_cases() {
  return {
      pool("max_pool1d", nn::MaxPool1d(2), {2, 3, 7}),
      pool("max_pool2d", nn::MaxPool2d({3, 2}, {.stride = 2, .padding = 1, .ceil_mode = true}),
           {2, 3, 6, 5}),
      pool("max_pool2d_dilated", nn::MaxPool2d(2, {.stride = 1, .dilation = {2, 1}}), {3, 6, 5}),
      pool("max_pool3d", nn::MaxPool3d(2, {.stride = {1, 2, 1}}), {1, 2, 3, 4, 3}),
      unpool("max_unpool1d", nn::MaxPool1d(2), nn::MaxUnpool1d(2), {2, 3, 6}),
      unpool("max_unpool2d", nn::MaxPool2d(2, {.stride = 2}), nn::MaxUnpool2d(2, {.stride = 2}),
             {2, 3, 4, 5}, {4, 5}),
      pool("avg_pool1d", nn::AvgPool1d(3, {.stride = 2, .padding = 1, .count_include_pad = false}),
           {2, 3, 7}),
      pool("avg_pool2d", nn::AvgPool2d({2, 3}, {.ceil_mode = true}), {2, 3, 5, 7}),
      pool("avg_pool2d_divisor", nn::AvgPool2d(2, {.divisor_override = 3}), {3, 4, 4}),
      pool("avg_pool3d", nn::AvgPool3d(2), {1, 2, 4, 4, 2}),
      pool("lp_pool1d", nn::LPPool1d(4, 2), {2, 3, 7}),
      pool("lp_pool2d", nn::LPPool2d(2, {2, 3}, {.stride = {1, 2}, .ceil_mode = true}),
           {2, 3, 4, 7}),
      fractional("fractional_max_pool2d", nn::FractionalMaxPool2d({2, 3}, {.output_size = {4, 2}}),
                 {2, 3, 6, 5}, 0.4),
      fractional("fractional_max_pool3d", nn::FractionalMaxPool3d(2, {.output_ratio = {0.5}}),
                 {1, 2, 4, 6, 5}, 0.7),
      pool("adaptive_avg_pool1d", nn::AdaptiveAvgPool1d(3), {2, 3, 7}),
      pool("adaptive_avg_pool2d", nn::AdaptiveAvgPool2d({2, -1}), {2, 3, 5, 4}),
      pool("adaptive_avg_pool3d", nn::AdaptiveAvgPool3d({2, 1, 2}), {2, 3, 2, 3}),
      pool("adaptive_max_pool1d", nn::AdaptiveMaxPool1d(3), {3, 7}),
      pool("adaptive_max_pool2d", nn::AdaptiveMaxPool2d(2), {2, 3, 5, 4}),
      pool("adaptive_max_pool3d", nn::AdaptiveMaxPool3d({1, 2, 2}), {2, 3, 2, 3, 4}),
  };
}
TANDEM_LAYER_CASES(Pools, pool_cases)

std::vector<LayerCase> shape_cases() {
  return {
      pool("flatten", nn::Flatten{}, {2, 3, 4}),
      pool("flatten_dims", nn::Flatten{.start_dim = 0, .end_dim = 1}, {2, 3, 4}),
      pool("unflatten", nn::Unflatten{.dim = 1, .sizes = {2, -1}}, {2, 6, 4}),
      pool("pixel_shuffle", nn::PixelShuffle{2}, {2, 8, 3, 2}),
      pool("pixel_unshuffle", nn::PixelUnshuffle{2}, {3, 4, 6}),
      pool("channel_shuffle", nn::ChannelShuffle{3}, {2, 6, 3}),
      pool("upsample_nearest", nn::Upsample{.scale_factor = {2}}, {2, 3, 4}),
      pool("upsample_size", nn::Upsample{.size = {5, 7}, .mode = "bilinear", .align_corners = true},
           {2, 3, 4, 4}),
      pool("upsample_bicubic", nn::Upsample{.scale_factor = {1.5, 2}, .mode = "bicubic"},
           {2, 3, 4, 4}),
      pool("unfold", nn::Unfold({2, 3}, {.padding = 1, .stride = {2, 1}}), {2, 3, 4, 5}),
      pool("fold", nn::Fold({4, 5}, {2, 3}, {.dilation = {1, 2}, .padding = {0, 1}}), {2, 12, 9}),
      pool("zero_pad1d", nn::ZeroPad1d({1, 2}), {2, 3, 4}),
      pool("zero_pad2d", nn::ZeroPad2d(1), {2, 3, 4}),
      pool("zero_pad3d", nn::ZeroPad3d({1, 0, 2, 1, 0, -1}), {2, 3, 2, 3, 4}),
      pool("constant_pad2d", nn::ConstantPad2d({1, 2, 0, 1}, 0.5), {2, 3, 3, 4}),
      pool("reflection_pad1d", nn::ReflectionPad1d({2, 1}), {3, 4}),
      pool("reflection_pad2d", nn::ReflectionPad2d(1), {2, 3, 3, 4}),
      pool("reflection_pad3d", nn::ReflectionPad3d(1), {2, 2, 2, 3, 4}),
      pool("replication_pad2d", nn::ReplicationPad2d({3, 1, 0, 2}), {2, 3, 3, 4}),
      pool("replication_pad3d", nn::ReplicationPad3d(1), {2, 2, 2, 3, 4}),
      pool("circular_pad1d", nn::CircularPad1d({3, 1}), {2, 3, 4}),
      pool("circular_pad2d", nn::CircularPad2d({1, 2, 2, 0}), {2, 3, 3, 4}),
  };
}
TANDEM_LAYER_CASES(ShapeLayers, shape_cases)

// --- dropout

template <class Layer>
class Dropouts : public ::testing::Test {};
using DropoutLayers = ::testing::Types<nn::Dropout, nn::Dropout1d, nn::Dropout2d, nn::Dropout3d,
                                       nn::AlphaDropout, nn::FeatureAlphaDropout>;
TYPED_TEST_SUITE(Dropouts, DropoutLayers);

/// Sizes that the layer takes: [100, 50] images.
template <class Layer>
Shape image_sizes() {
  if constexpr (std::is_same_v<Layer, nn::Dropout1d>) return {100, 50, 4};
  if constexpr (std::is_same_v<Layer, nn::Dropout3d>) return {100, 50, 1, 2, 2};
  return {100, 50, 2, 2};
}

TYPED_TEST(Dropouts, KeepTheMeanAndAreTheIdentityInEvaluation) {
  manual_seed(5);
  const Tensor x = randn(image_sizes<TypeParam>(), f64) + 1.0;
  TypeParam layer{.p = 0.3};
  const Tensor y = layer(x);
  EXPECT_FALSE(y.equal(x));
  constexpr bool is_alpha = std::is_same_v<TypeParam, nn::AlphaDropout> ||
                            std::is_same_v<TypeParam, nn::FeatureAlphaDropout>;
  if constexpr (is_alpha) {
    const Tensor normal = layer(x - 1.0);
    EXPECT_NEAR(normal.mean().item(), 0, 0.05);
    EXPECT_NEAR(normal.std().item(), 1, 0.05);
  } else {
    EXPECT_NEAR(y.mean().item(), x.mean().item(), 0.05);
    const double dropped = (y == 0).to(f64).mean().item();
    EXPECT_NEAR(dropped, 0.3, 0.03);
    const Tensor kept = where(y == 0, x, y * 0.7);
    EXPECT_TRUE(kept.allclose(x, 1e-12));
  }
  layer.training = false;
  EXPECT_TRUE(layer(x).equal(x));
}

TYPED_TEST(Dropouts, GiveTheSameBitsCompiledAndWithOneSeed) {
  // Without fused multiply-adds, which eager operations have none of.
  const auto f = compile([](const TypeParam& layer, const Tensor& x) { return layer(x) * 2.0; },
                         {.contract = false});
  const Tensor x = wave(image_sizes<TypeParam>()).to(f32);
  TypeParam layer{.p = 0.4};
  manual_seed(7);
  const Tensor eager = layer(x) * 2.0, second = layer(x) * 2.0;
  manual_seed(7);
  const Tensor compiled = f(layer, x);
  EXPECT_TRUE(compiled.equal(eager));
  EXPECT_TRUE(f(layer, x).equal(second));
  EXPECT_FALSE(second.equal(eager));
  layer.training = false;  // guarded
  EXPECT_TRUE(f(layer, x).equal(x * 2.0));
}

TEST(ChannelDropouts, DropWholeChannels) {
  manual_seed(2);
  const auto by_channel = [](const Tensor& y, const Shape& channels) {
    const Tensor flat = y.reshape({channels[0], -1});
    EXPECT_TRUE((flat == flat.select(1, 0).unsqueeze(1)).all().item<bool>());
  };
  by_channel(nn::Dropout1d{}(ones({20, 5})), {20});
  by_channel(nn::Dropout2d{}(ones({20, 5, 3, 3})), {100});
  by_channel(nn::Dropout3d{}(ones({20, 2, 3, 3})), {20});
  by_channel(nn::FeatureAlphaDropout{}(ones({20, 5, 3})), {100});
}

TEST(ChannelDropouts, OfNoneAndAll) {
  const Tensor x = wave({4, 3, 2});
  EXPECT_TRUE(nn::Dropout{.p = 0}(x).equal(x));
  EXPECT_TRUE(nn::Dropout{.p = 1}(x).equal(zeros_like(x)));
  EXPECT_TRUE(nn::Dropout1d{.p = 1}(x).equal(zeros_like(x)));
  EXPECT_EQ(nn::Dropout{}(zeros({0, 3})).sizes(), (Shape{0, 3}));
}

}  // namespace
}  // namespace tandem::testing
