// Layers that normalise.
#include "tests/training/layers/layer_training.h"

namespace tandem::testing {
namespace {

std::vector<LayerCase> normalization_cases() {
  return {
      {"batch_norm1d",
       [] { return any_layer(nn::BatchNorm1d(3, {.dtype = f64})); },
       {wave({5, 3})}},
      {"batch_norm1d_rows",
       [] { return any_layer(nn::BatchNorm1d(3, {.eps = 1e-3, .momentum = 0.3, .dtype = f64})); },
       {wave({4, 3, 5})}},
      {"batch_norm1d_average",
       [] { return any_layer(nn::BatchNorm1d(3, {.momentum = {}, .dtype = f64})); },
       {wave({4, 3, 2})}},
      {"batch_norm2d",
       [] { return any_layer(nn::BatchNorm2d(3, {.dtype = f64})); },
       {wave({2, 3, 4, 5})}},
      {"batch_norm2d_plain",
       [] {
         return any_layer(Behind<nn::BatchNorm2d>{
             nn::Linear(5, 5, true, f64), nn::BatchNorm2d(3, {.affine = false, .dtype = f64})});
       },
       {wave({2, 3, 4, 5})}},
      {"batch_norm3d_untracked",
       [] { return any_layer(nn::BatchNorm3d(2, {.track_running_stats = false, .dtype = f64})); },
       {wave({2, 2, 3, 2, 4})}},
      {"instance_norm1d", [] { return behind(6, nn::InstanceNorm1d(3)); }, {wave({2, 3, 6})}},
      {"instance_norm2d",
       [] {
         return any_layer(nn::InstanceNorm2d(
             3, {.momentum = 0.2, .affine = true, .track_running_stats = true, .dtype = f64}));
       },
       {wave({2, 3, 4, 5})}},
      {"instance_norm3d_one",
       [] { return any_layer(nn::InstanceNorm3d(2, {.affine = true, .dtype = f64})); },
       {wave({2, 3, 2, 4})}},
      {"layer_norm", [] { return any_layer(nn::LayerNorm(4, {.dtype = f64})); }, {wave({2, 3, 4})}},
      {"layer_norm_two",
       [] { return any_layer(nn::LayerNorm({3, 4}, {.eps = 1e-2, .bias = false, .dtype = f64})); },
       {wave({2, 3, 4})}},
      {"layer_norm_plain",
       [] { return behind(4, nn::LayerNorm({4}, {.elementwise_affine = false})); },
       {wave({2, 3, 4})}},
      {"rms_norm", [] { return any_layer(nn::RMSNorm(4, {.dtype = f64})); }, {wave({2, 3, 4})}},
      {"rms_norm_two",
       [] { return any_layer(nn::RMSNorm({3, 4}, {.eps = 0.1, .dtype = f64})); },
       {wave({2, 3, 4})}},
      {"group_norm",
       [] { return any_layer(nn::GroupNorm(2, 6, {.dtype = f64})); },
       {wave({2, 6, 3})}},
      {"group_norm_plain",
       [] { return behind(3, nn::GroupNorm(3, 6, {.eps = 0.1, .affine = false})); },
       {wave({2, 6, 3})}},
      {"local_response_norm",
       [] {
         return behind(3, nn::LocalResponseNorm{.size = 3, .alpha = 0.1, .beta = 0.5, .k = 2});
       },
       {wave({2, 5, 3})}},
  };
}
TANDEM_LAYER_CASES(NormalizationLayers, normalization_cases)

TEST(NormalizationLayers, ParametersAndStatisticsAtFirst) {
  const nn::BatchNorm2d norm(3);
  EXPECT_EQ(norm.weight.to_vector<float>(), std::vector<float>(3, 1));
  EXPECT_EQ(norm.bias.to_vector<float>(), std::vector<float>(3, 0));
  EXPECT_EQ(norm.running_mean.to_vector<float>(), std::vector<float>(3, 0));
  EXPECT_EQ(norm.running_var.to_vector<float>(), std::vector<float>(3, 1));
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 0);
  EXPECT_EQ(nn::parameters(norm).size(), 2u);
  const nn::InstanceNorm2d instance(3);
  EXPECT_TRUE(nn::named_tensors(instance).empty());
}

/// Passed as an argument: `training` is guarded, the statistics are written by the compiled call.
TEST(NormalizationLayers, AsArgumentsOfCompiledFunctions) {
  const auto f = compile([](const nn::BatchNorm1d& n, const Tensor& x) { return n(x); });
  nn::BatchNorm1d compiled(3, {.dtype = f64}), eager(3, {.dtype = f64});
  for (int i = 0; i < 3; ++i) {
    const Tensor x = wave({4, 3, 5}, i);
    EXPECT_TRUE(f(compiled, x).allclose(eager(x), 1e-12, 1e-12));
  }
  EXPECT_EQ(compiled.num_batches_tracked.item<int64_t>(), 3);
  EXPECT_TRUE(compiled.running_var.allclose(eager.running_var, 1e-12));
  compiled.training = eager.training = false;
  const Tensor x = wave({4, 3, 5}, 9), before = compiled.running_mean.clone();
  EXPECT_TRUE(f(compiled, x).allclose(eager(x), 1e-12, 1e-12));
  EXPECT_TRUE(compiled.running_mean.equal(before));
  EXPECT_EQ(compiled.num_batches_tracked.item<int64_t>(), 3);
}

TEST(NormalizationLayers, OfEveryFloatingDtype) {
  for (const DType dtype : {f64, f32, bf16, f16}) {
    const nn::BatchNorm1d batch(3, {.dtype = dtype});
    const nn::LayerNorm layer(3, {.dtype = dtype});
    const nn::RMSNorm rms(3, {.dtype = dtype});
    const Tensor x = wave({8, 3}).to(dtype);
    for (const Tensor& y : {batch(x), layer(x), rms(x)}) EXPECT_EQ(y.dtype(), dtype);
    EXPECT_EQ(batch.running_mean.dtype(), dtype);
  }
}

TEST(NormalizationLayers, NanStaysInItsChannel) {
  const nn::BatchNorm1d norm(2, {.dtype = f64});
  const Tensor x = wave({3, 2});
  x[0][0].fill_(std::nan(""));
  const auto y = norm(x).to_vector<double>();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i % 2 == 0);
  EXPECT_TRUE(std::isnan(norm.running_mean[0].item()));
  EXPECT_FALSE(std::isnan(norm.running_mean[1].item()));
}

}  // namespace
}  // namespace tandem::testing
