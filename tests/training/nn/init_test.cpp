// Initial values: bounds, moments, structure. Formulas are PyTorch's.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <functional>

#include "tests/support/expect_error.h"

namespace tandem {
namespace {

namespace init = nn::init;
using testing::expect_error;

struct Moments {
  double mean, deviation, low, high;
};
Moments moments_of(const Tensor& t) {
  const Tensor x = t.detach().to(f64);
  return {x.mean().item(), x.std().item(), x.min().item(), x.max().item()};
}

void expect_uniform(const Tensor& t, double low, double high) {
  const Moments m = moments_of(t);
  const double width = high - low;
  EXPECT_GE(m.low, low);
  EXPECT_LE(m.high, high);
  EXPECT_NEAR(m.low, low, 0.02 * width);
  EXPECT_NEAR(m.high, high, 0.02 * width);
  EXPECT_NEAR(m.mean, (low + high) / 2, 0.02 * width);
  EXPECT_NEAR(m.deviation, width / std::sqrt(12.0), 0.02 * width);
}

void expect_normal(const Tensor& t, double mean, double std) {
  const Moments m = moments_of(t);
  EXPECT_NEAR(m.mean, mean, 0.05 * std);
  EXPECT_NEAR(m.deviation, std, 0.05 * std);
  EXPECT_GT(m.high, mean + 2.5 * std);
  EXPECT_LT(m.low, mean - 2.5 * std);
}

TEST(Init, ThatIsUniformOrNormal) {
  manual_seed(1);
  const Tensor t = empty({60, 50}).requires_grad_();
  expect_uniform(init::uniform_(t), 0, 1);
  expect_uniform(init::uniform_(t, -3, 5), -3, 5);
  expect_normal(init::normal_(t), 0, 1);
  expect_normal(init::normal_(t, 4, 0.5), 4, 0.5);
  EXPECT_TRUE(t.is_leaf() && t.requires_grad());
}

TEST(Init, ThatIsConstant) {
  const Tensor t = empty({2, 3}).requires_grad_();
  const auto all = [&](double v) { return std::vector<double>(6, v); };
  EXPECT_EQ(init::constant_(t, 2.5).to_vector<double>(), all(2.5));
  EXPECT_EQ(init::ones_(t).to_vector<double>(), all(1));
  EXPECT_EQ(init::zeros_(t).to_vector<double>(), all(0));
  EXPECT_TRUE(init::ones_(t).is_same(t));
  EXPECT_EQ(init::constant_(empty({2}, i64), 3).to_vector<int64_t>(), (std::vector<int64_t>{3, 3}));
}

TEST(Init, ThatIsTruncated) {
  manual_seed(2);
  const Tensor t = empty({100, 100});
  init::trunc_normal_(t);
  Moments m = moments_of(t);
  EXPECT_GE(m.low, -2);
  EXPECT_LE(m.high, 2);
  EXPECT_NEAR(m.mean, 0, 0.03);
  EXPECT_NEAR(m.deviation, 0.8796, 0.02);
  init::trunc_normal_(t, 1, 2, 0, 1.5);  // nearly uniform
  m = moments_of(t);
  EXPECT_GE(m.low, 0);
  EXPECT_LE(m.high, 1.5);
  EXPECT_NEAR(m.mean, 0.759, 0.02);
  init::trunc_normal_(t, 0, 0.02);
  expect_normal(t, 0, 0.02);
}

TEST(Init, TruncatedValuesAreSpreadAsTheirFormulaSays) {
  manual_seed(3);
  const Tensor u = rand({1000}, f64);
  manual_seed(3);
  const Tensor t = init::trunc_normal_(empty({1000}, f64), 0.5, 2, -1, 3);
  const auto cdf = [](double x) { return (1 + std::erf(x / std::sqrt(2.0))) / 2; };
  const double low = cdf(-0.75), high = cdf(1.25);
  for (size_t i = 0; i < 1000; ++i)
    EXPECT_NEAR(cdf((t.to_vector<double>()[i] - 0.5) / 2),
                low + (high - low) * u.to_vector<double>()[i], 1e-9)
        << i;
}

TEST(Init, GainsOfNonlinearities) {
  EXPECT_EQ(init::calculate_gain("linear"), 1);
  EXPECT_EQ(init::calculate_gain("conv_transpose2d"), 1);
  EXPECT_EQ(init::calculate_gain("tanh"), 5.0 / 3);
  EXPECT_EQ(init::calculate_gain("relu"), std::sqrt(2.0));
  EXPECT_EQ(init::calculate_gain("leaky_relu"), std::sqrt(2 / (1 + 0.01 * 0.01)));
  EXPECT_EQ(init::calculate_gain("leaky_relu", 0.2), std::sqrt(2 / (1 + 0.2 * 0.2)));
  EXPECT_EQ(init::calculate_gain("selu"), 0.75);
}

TEST(Init, ThatKeepsTheVariance) {
  manual_seed(4);
  const Tensor w = empty({80, 40, 2, 3});  // fan_in 240, fan_out 480
  expect_uniform(init::xavier_uniform_(w), -std::sqrt(6.0 / 720), std::sqrt(6.0 / 720));
  expect_normal(init::xavier_normal_(w, 3), 0, 3 * std::sqrt(2.0 / 720));
  const double bound = std::sqrt(3.0) * std::sqrt(2.0 / 240);
  expect_uniform(init::kaiming_uniform_(w), -bound, bound);
  expect_uniform(init::kaiming_uniform_(w, {.a = std::sqrt(5.0)}), -std::sqrt(1.0 / 240),
                 std::sqrt(1.0 / 240));
  expect_normal(init::kaiming_normal_(w, {.mode = "fan_out", .nonlinearity = "relu"}), 0,
                std::sqrt(2.0 / 480));
  expect_normal(init::kaiming_normal_(w, {.nonlinearity = "tanh"}), 0, 5.0 / 3 / std::sqrt(240.0));
  EXPECT_EQ(init::kaiming_uniform_(empty({0, 3})).numel(), 0);
  EXPECT_EQ(init::kaiming_normal_(empty({3, 0})).numel(), 0);
}

TEST(Init, ThatIsAnIdentity) {
  const Tensor t = rand({2, 3});
  EXPECT_EQ(init::eye_(t).to_vector<int>(), (std::vector<int>{1, 0, 0, 0, 1, 0}));
  const Tensor x = randn({2, 3, 7, 5}), w = rand({4, 3, 3, 3});
  const Tensor y = conv2d(x, init::dirac_(w), {}, {.padding = {1, 1}});
  EXPECT_EQ(y.slice(1, 0, 3).to_vector<float>(), x.to_vector<float>());
  EXPECT_EQ(y.slice(1, 3, 4).abs().sum().item(), 0);
  const Tensor line = rand({4, 2, 3});  // two groups of two
  EXPECT_EQ(init::dirac_(line, 2).sum().item(), 4);
  EXPECT_EQ(line.slice(0, 2, 4).to_vector<float>(), line.slice(0, 0, 2).to_vector<float>());
  EXPECT_EQ(init::dirac_(rand({2, 2, 3, 3, 3})).sum().item(), 2);
}

TEST(Init, ThatIsOrthogonal) {
  manual_seed(5);
  for (const Shape& sizes : {Shape{5, 3}, Shape{3, 5}, Shape{4, 4}, Shape{3, 2, 4}}) {
    const Tensor t = init::orthogonal_(empty(sizes, f64), 2);
    const Tensor m = t.reshape({sizes[0], -1});
    const Tensor square = m.size(0) < m.size(1) ? mm(m, m.t()) : mm(m.t(), m);
    EXPECT_TRUE(allclose(square, eye(square.size(0), {}, f64) * 4.0, 1e-9, 1e-9))
        << to_string(sizes);
  }
  const Tensor half = init::orthogonal_(empty({4, 4}, bf16)).to(f32);
  EXPECT_TRUE(allclose(mm(half, half.t()), eye(4), 0, 0.03));
  EXPECT_EQ(init::orthogonal_(empty({0, 4})).numel(), 0);
}

// Signs of R's diagonal are taken out: the columns point anywhere.
TEST(Init, OrthogonalMatricesAreSpreadEvenly) {
  manual_seed(6);
  double sum = 0;
  for (int i = 0; i < 200; ++i) sum += init::orthogonal_(empty({3, 3}, f64)).sum().item();
  EXPECT_NEAR(sum / 200, 0, 0.5);
}

TEST(Init, ThatIsSparse) {
  manual_seed(7);
  const Tensor t = init::sparse_(empty({10, 300}), 0.25, 2);
  for (const auto zeros : t.eq(0).sum(0).to_vector<int>()) EXPECT_EQ(zeros, 3);
  EXPECT_NEAR(t.std().item(), 2 * std::sqrt(0.7), 0.2);
  for (const auto zeros : t.eq(0).sum(1).to_vector<int>()) EXPECT_NEAR(zeros, 90, 40);
}

TEST(Init, OfAnyLayoutAndDtype) {
  manual_seed(8);
  const Tensor base = zeros({30, 40});
  init::normal_(base.slice(1, 0, 40, 2).t());
  EXPECT_EQ(base.slice(1, 1, 40, 2).abs().sum().item(), 0);
  expect_normal(base.slice(1, 0, 40, 2), 0, 1);
  for (const DType dtype : {f64, bf16, f16}) {
    expect_uniform(init::uniform_(empty({50, 50}, dtype), -1, 1), -1, 1);
    expect_normal(init::trunc_normal_(empty({50, 50}, dtype), 0, 1, -9, 9), 0, 1);
  }
  EXPECT_EQ(init::uniform_(empty({0})).numel(), 0);
  EXPECT_EQ(init::normal_(empty({})).dim(), 0);
}

TEST(Init, IsTheSameFromTheSameSeed) {
  const auto draw = [] {
    manual_seed(9);
    return init::orthogonal_(init::xavier_uniform_(empty({4, 4}))).to_vector<float>();
  };
  EXPECT_EQ(draw(), draw());
}

TEST(Init, IsRefusedWhereItHasNoMeaning) {
  const Tensor t = full({4, 3}, 7), row = full({4}, 7);
  const std::pair<Errc, std::function<void()>> cases[] = {
      {Errc::Argument, [&] { init::uniform_(t, 1, 0); }},
      {Errc::Argument, [&] { init::normal_(t, 0, -1); }},
      {Errc::Argument, [&] { init::trunc_normal_(t, 0, 0); }},
      {Errc::Argument, [&] { init::trunc_normal_(t, 0, 1, 2, -2); }},
      {Errc::Argument, [&] { init::calculate_gain("gelu"); }},
      {Errc::Argument, [&] { init::kaiming_uniform_(t, {.mode = "fan"}); }},
      {Errc::Argument, [&] { init::kaiming_normal_(t, {.nonlinearity = "x"}); }},
      {Errc::Argument, [&] { init::sparse_(t, 1.5); }},
      {Errc::Argument, [&] { init::dirac_(full({4, 3, 3}, 7), 3); }},
      {Errc::Argument, [&] { init::ones_(Tensor()); }},
      {Errc::Shape, [&] { init::eye_(row); }},
      {Errc::Shape, [&] { init::dirac_(t); }},
      {Errc::Shape, [&] { init::xavier_uniform_(row); }},
      {Errc::Shape, [&] { init::kaiming_normal_(row); }},
      {Errc::Shape, [&] { init::orthogonal_(row); }},
      {Errc::Shape, [&] { init::sparse_(full({2, 2, 2}, 7), 0.5); }},
  };
  for (const auto& [code, call] : cases) expect_error(code, "expected", call);
  EXPECT_EQ(t.to_vector<float>(), std::vector<float>(12, 7));
}

TEST(Init, InsideACompiledFunction) {
  const auto fn = compile([](const Tensor& w) {
    init::orthogonal_(w);
    return mm(w, w.t());
  });
  const Tensor w = zeros({3, 3});
  EXPECT_TRUE(allclose(fn(w), eye(3), 1e-5, 1e-5));
  EXPECT_GT(w.abs().sum().item(), 1);
}

}  // namespace
}  // namespace tandem
