// Convolutions and pools of integers, norms of batches of nothing, and what dropouts leave.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <limits>

namespace tandem::testing {
namespace {

using Numbers = std::vector<double>;

TEST(NetworksOfIntegers, AveragesAreRoundedTowardsZero) {
  const Tensor x = arange(-8, 8).view({1, 1, 4, 4});
  EXPECT_EQ(avg_pool2d(x, 2).to_vector<double>(), (Numbers{-5, -3, 2, 4}));
  EXPECT_EQ(avg_pool1d(x[0], 2).to_vector<double>(), (Numbers{-7, -5, -3, -1, 0, 2, 4, 6}));
  EXPECT_EQ(avg_pool1d(x[0], 3, {.padding = 1, .ceil_mode = true, .count_include_pad = false})
                .to_vector<double>(),
            (Numbers{-7, -5, -3, -1, 0, 2, 4, 6}));
  EXPECT_EQ(avg_pool1d(x[0], 2, {.divisor_override = -2}).to_vector<double>(),
            (Numbers{7, 5, 3, 1, 0, -2, -4, -6}));
}

TEST(NetworksOfIntegers, KeepTheirDtype) {
  for (const DType dtype : {i64, i32, i16, i8}) {
    const Tensor x = arange(-8, 8).view({1, 1, 4, 4}).to(dtype);
    const Tensor pooled = max_pool2d(x, 2), made = conv2d(x, x.slice(2, 0, 2).slice(3, 0, 2));
    EXPECT_EQ(pooled.dtype(), dtype);
    EXPECT_EQ(pooled.to_vector<double>(), (Numbers{-3, -1, 5, 7}));
    EXPECT_EQ(made.dtype(), dtype);
    const Tensor first = made.flatten().slice(0, 1, 4).to(i64);
    EXPECT_EQ(first.to_vector<double>(), (Numbers{116, 94, 50}));  // (138 is beyond i8)
  }
}

TEST(Pools, OfNaNAndInfinityAndNegativeZero) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor({1.0, nan, -inf, -inf, 2.0, nan, inf, nan, -0.0, 0.0}).view({1, 1, 10});
  const auto [values, indices] = max_pool1d_with_indices(x, 2);
  EXPECT_EQ(indices.to_vector<double>(), (Numbers{1, 2, 5, 7, 8}));
  EXPECT_TRUE(std::isnan(values[0][0][0].item()) && std::isnan(values[0][0][3].item()));
  EXPECT_EQ(values[0][0][1].item(), -inf);
  EXPECT_TRUE(std::signbit(values[0][0][4].item()));
}

/// Images of small whole numbers, laid in memory in some ways.
std::vector<Tensor> laid_images(DType dtype) {
  const Tensor dense = (arange(2 * 3 * 4 * 6).mul(7).remainder(11) - 5).to(dtype);
  const Tensor x = dense.view({2, 3, 4, 6});
  return {x,
          x.transpose(2, 3),
          x.permute({2, 0, 1, 3}),
          x.slice(3, 1, 6, 2),
          x[0],
          x.slice(0, 0, 1).expand({4, 3, 4, 6})};
}

TEST(Pools, OfOneWindowOverAllAreSums) {
  for (const DType dtype : {f32, f64, bf16, i64, i8})
    for (const Tensor& x : laid_images(dtype)) {
      const int64_t height = x.size(-2), width = x.size(-1), elements = height * width;
      const Spatial window{height, width}, larger{height + 2, width + 2};
      const Tensor sums = x.to(f64).sum({-2, -1}, true).to(dtype);
      const auto expect_sums = [&](const Spatial& kernel, const AvgPoolOptions& options) {
        const Tensor pooled = avg_pool2d(x, kernel, options);
        EXPECT_EQ(pooled.dtype(), dtype);
        EXPECT_EQ(pooled.sizes(), sums.sizes());
        EXPECT_EQ(pooled.to_vector<double>(), sums.to_vector<double>());
      };
      expect_sums(window, {.divisor_override = 1});
      expect_sums(larger, {.padding = 1, .divisor_override = 1});
      expect_sums(larger, {.padding = 1, .ceil_mode = true, .divisor_override = 1});
      if (dtype == i64 || dtype == i8) continue;
      const std::vector<double> means = (sums.to(f64) / elements).to(dtype).to_vector<double>();
      const std::vector<double> padded =
          (sums.to(f64) / ((height + 2) * (width + 2))).to(dtype).to_vector<double>();
      const auto near = [&](const Tensor& pooled, const std::vector<double>& expected) {
        for (size_t i = 0; i < expected.size(); ++i)
          EXPECT_NEAR(pooled.to_vector<double>()[i], expected[i], dtype == bf16 ? 0.02 : 1e-6);
      };
      near(avg_pool2d(x, window), means);
      near(avg_pool2d(x, larger, {.padding = 1}), padded);
      near(avg_pool2d(x, larger, {.padding = 1, .count_include_pad = false}), means);
      near(adaptive_avg_pool2d(x, 1), means);
    }
  EXPECT_THROW(avg_pool2d(ones({1, 1, 3, 3}, boolean), 3), Error);
}

TEST(Pools, OfOneWindowOverAllHaveTheGradientsOfMeans) {
  for (const bool compiles : {false, true}) {
    const auto pooled = [](const Tensor& t) { return avg_pool2d(t, {4, 5}); };
    const Tensor x = randn({2, 3, 4, 5}).requires_grad_();
    (compiles ? compile(pooled)(x) : pooled(x)).backward(ones({2, 3, 1, 1}));
    for (const double g : x.grad().to_vector<double>()) EXPECT_FLOAT_EQ(g, 1 / 20.0);
  }
}

TEST(GridSample, OfHalvesFindsPlacesInWideImages) {
  const Tensor image = arange(1000).to(f16).view({1, 1, 1, 1000}), i = arange(0, 1000, 7);
  const Tensor x = ((i.to(f64) * 2 + 1) / 1000 - 1).view({1, 1, -1});
  const Tensor grid = stack({x, zeros_like(x)}, -1).to(f16);
  const Tensor found = grid_sample(image, grid, {.mode = "nearest"});
  EXPECT_EQ(found.to_vector<double>(), i.to_vector<double>());
}

TEST(Interpolate, RefusesSizesThatNoMemoryHolds) {
  const Tensor image = ones({2, 3, 4, 5});
  for (const double scale : {1e18, 1e300, std::numeric_limits<double>::infinity(), -1.0,
                             std::numeric_limits<double>::quiet_NaN()})
    for (const char* mode : {"nearest", "bilinear", "bicubic", "area"})
      EXPECT_THROW(interpolate(image, {.scale_factor = {scale}, .mode = mode}), Error) << scale;
  EXPECT_THROW(interpolate(image, {.size = int64_t{1} << 61, .mode = "bilinear"}), Error);
}

/// Two steps of a small network in training; the running statistics, loss and gradients.
std::vector<Tensor> trained(bool compiles) {
  manual_seed(8);
  const Tensor w = (randn({6, 3, 3, 3}) * 0.2).requires_grad_(), b = zeros({6}).requires_grad_();
  const Tensor mean = zeros({6}), var = ones({6});
  const auto loss = [](const std::vector<Tensor>& t) {
    const Tensor y = conv2d(t[0], t[1], t[2], {.stride = 2, .padding = 1});
    const Tensor normal = relu(batch_norm(y, t[3], t[4], {}, {}, true));
    return square(max_pool2d(normal, 2)).mean();
  };
  const auto compiled = compile(loss);
  std::vector<Tensor> seen;
  for (int step = 0; step < 2; ++step) {
    const std::vector<Tensor> arguments{randn({4, 3, 9, 9}), w, b, mean, var};
    const Tensor value = compiles ? compiled(arguments) : loss(arguments);
    value.backward();
    for (const Tensor& t : {value.detach(), w.grad(), b.grad(), mean, var})
      seen.push_back(t.clone());
  }
  return seen;
}

TEST(Networks, TrainCompiledAsEagerly) {
  const std::vector<Tensor> eager = trained(false), compiled = trained(true);
  for (size_t i = 0; i < eager.size(); ++i)
    EXPECT_LE((eager[i] - compiled[i]).abs().amax().item(), 1e-5) << i;
  EXPECT_GT(eager[3].abs().amax().item(), 0);
}

/// The share of elements of `t` that are `value`.
double share(const Tensor& t, double value) {
  return t.sub(value).abs().lt(1e-5).to(f64).mean().item();
}

/// A norm over batches, in training: (input, running mean, running var, weight, bias).
using Norm = Tensor (*)(const std::vector<Tensor>&);
const Norm kBatchNorms[] = {
    [](const std::vector<Tensor>& t) { return batch_norm(t[0], t[1], t[2], t[3], t[4], true); },
    [](const std::vector<Tensor>& t) { return instance_norm(t[0], t[1], t[2], t[3], t[4]); }};

TEST(BatchNorms, OfNoElementsLeaveStatisticsAndParametersAsTheyAre) {
  for (const Norm norm : kBatchNorms)
    for (const Shape& sizes : {Shape{0, 3, 4, 5}, Shape{2, 3, 0, 5}, Shape{0, 3, 1}})
      for (const DType dtype : {f32, bf16})
        for (const bool compiles : {false, true}) {
          if (sizes == Shape{0, 3, 1} && norm == kBatchNorms[1]) continue;  // refused, see below
          const Tensor x = zeros(sizes, dtype).requires_grad_();
          const Tensor weight = full({3}, 2, dtype).requires_grad_();
          const Tensor bias = ones({3}, dtype).requires_grad_();
          const Tensor mean = full({3}, 0.5), var = full({3}, 4.0);
          const std::vector<Tensor> arguments{x, mean, var, weight, bias};
          const Tensor y = compiles ? compile(norm)(arguments) : norm(arguments);
          y.sum().backward();
          EXPECT_EQ(y.sizes(), sizes);
          EXPECT_EQ(y.dtype(), dtype);
          EXPECT_EQ(mean.to_vector<double>(), Numbers(3, 0.5));
          EXPECT_EQ(var.to_vector<double>(), Numbers(3, 4.0));
          EXPECT_EQ(weight.grad().to_vector<double>(), Numbers(3, 0.0));
          EXPECT_EQ(bias.grad().to_vector<double>(), Numbers(3, 0.0));
          EXPECT_EQ(x.grad().sizes(), sizes);
        }
}

TEST(BatchNorms, OfNothingGiveATensorOfTheirOwn) {
  const Tensor x = zeros({0, 3, 4});
  EXPECT_FALSE(batch_norm(x, {}, {}, {}, {}, true).is_same(x));
  EXPECT_FALSE(instance_norm(x).is_same(x));
  const Tensor no_channels = zeros({2, 0, 4});
  EXPECT_EQ(batch_norm(no_channels, {}, {}, {}, {}, true).sizes(), no_channels.sizes());
  EXPECT_EQ(instance_norm(no_channels).sizes(), no_channels.sizes());
}

TEST(BatchNorms, RefuseStatisticsOfOneValue) {
  EXPECT_THROW(batch_norm(ones({1, 3, 1, 1}), {}, {}, {}, {}, true), Error);
  EXPECT_THROW(batch_norm(ones({1, 0}), {}, {}, {}, {}, true), Error);
  for (const int64_t images : {0, 1, 4}) EXPECT_THROW(instance_norm(ones({images, 3, 1})), Error);
}

TEST(BatchNorms, RefuseIntegersAsStatisticsAndParameters) {
  const Tensor x = ones({4, 3, 2}), integers = ones({3}, i64), counts = zeros({3}, i64), none;
  const std::vector<std::vector<Tensor>> rows{{counts, none, none, none},
                                              {none, counts, none, none},
                                              {none, none, integers, none},
                                              {none, none, none, integers}};
  for (const Norm norm : kBatchNorms)
    for (const auto& row : rows)
      for (const bool compiles : {false, true}) {
        const std::vector<Tensor> arguments{x, row[0], row[1], row[2], row[3]};
        EXPECT_THROW(compiles ? compile(norm)(arguments) : norm(arguments), Error);
      }
  EXPECT_EQ(counts.to_vector<double>(), Numbers(3, 0.0));
  EXPECT_THROW(group_norm(x, 3, integers), Error);
}

TEST(Dropouts, DropWholeChannels) {
  manual_seed(3);
  const Tensor x = ones({64, 50, 4, 3});
  for (const Tensor& t : {dropout2d(x, 0.25), dropout3d(x.unsqueeze(-1), 0.25).squeeze({-1}),
                          dropout1d(x.view({64, 50, 12}), 0.25).view({64, 50, 4, 3})}) {
    const Tensor channels = t.mean({2, 3});
    EXPECT_NEAR(share(channels, 0), 0.25, 0.03);
    EXPECT_NEAR(share(channels, 1 / 0.75), 0.75, 0.03);
  }
  EXPECT_EQ(dropout2d(ones({9, 5, 7}), 0.5).amax({2}).sizes(), (Shape{9, 5}));
  EXPECT_EQ(share(dropout2d(x, 1), 0), 1);
  EXPECT_EQ(share(dropout2d(x, 0.5, false), 1), 1);
}

TEST(Dropouts, AlphaDropoutKeepsMeanAndVariance) {
  manual_seed(4);
  const Tensor x = randn({400, 300});
  for (const double p : {0.1, 0.5}) {
    const Tensor t = alpha_dropout(x, p, true);
    EXPECT_NEAR(t.mean().item(), 0, 0.02);
    EXPECT_NEAR(t.var().item(), 1, 0.02);
  }
  const Tensor t = feature_alpha_dropout(ones({60, 50, 4}), 0.5, true);
  const Tensor channels = t.amax({2}).sub(t.amin({2}));
  EXPECT_EQ(channels.amax().item(), 0);
  EXPECT_NEAR(t.gt(0).to(f64).mean().item(), 0.5, 0.05);
  EXPECT_EQ(share(alpha_dropout(x, 1, true), 0), 1);
}

TEST(Dropouts, OfAttentionDropProbabilities) {
  manual_seed(5);
  const Tensor q = zeros({2, 200, 4}), v = ones({2, 50, 1});
  const Tensor t = scaled_dot_product_attention(q, zeros({2, 50, 4}), v, {.dropout_p = 0.5});
  EXPECT_NEAR(t.mean().item(), 1, 0.05);
  EXPECT_GT(t.var().item(), 0.005);
  const Tensor causal = scaled_dot_product_attention(q.slice(1, 0, 50), zeros({2, 50, 4}), v,
                                                     {.dropout_p = 1e-9, .is_causal = true});
  EXPECT_NEAR(causal.sub(1).abs().amax().item(), 0, 1e-5);
}

TEST(Dropouts, AreTheSameCompiled) {
  const Tensor x = randn({8, 6, 5});
  const auto all = [](const Tensor& t) {
    return dropout1d(t, 0.3) + alpha_dropout(t, 0.2, true) + feature_alpha_dropout(t, 0.4, true);
  };
  manual_seed(6);
  const Tensor eager = all(x);
  manual_seed(6);
  EXPECT_LE(compile(all)(x).sub(eager).abs().amax().item(), 1e-5);
}

}  // namespace
}  // namespace tandem::testing
