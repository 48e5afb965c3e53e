// Clipped gradients, and losses scaled for f16.
#include <gtest/gtest.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include <cmath>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/training/optim/optimizer_cases.h"

namespace tandem::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Two with a gradient, 3, 4 and -12; one without.
Parameters with_gradients(DType dtype = f64) {
  Parameters p = {zeros({2}, dtype).requires_grad_(), zeros({}, dtype).requires_grad_(),
                  zeros({3}, dtype).requires_grad_()};
  p[0].set_grad(tensor({3.0, 4.0}).to(dtype));
  p[1].set_grad(full({}, -12.0, dtype));
  return p;
}

std::vector<double> gradients(const Parameters& p) { return flat({p[0].grad(), p[1].grad()}); }

TEST(Clip, ByNorm) {
  struct Row {
    double norm_type, norm;
  };
  for (const Row& row :
       {Row{2, 13}, Row{1, 19}, Row{kInfinity, 12}, Row{3, std::cbrt(27.0 + 64 + 1728)}}) {
    for (const double most : {1.0, 100.0}) {
      const Parameters p = with_gradients();
      const Tensor norm = optim::clip_grad_norm_(p, most, {.norm_type = row.norm_type});
      EXPECT_NEAR(norm.item(), row.norm, 1e-12);
      const double share = std::min(1.0, most / (row.norm + 1e-6));
      const std::vector<double> before = {3, 4, -12}, got = gradients(p);
      for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(got[i], share * before[i], 1e-12);
    }
    const Parameters p = with_gradients();
    EXPECT_NEAR(
        optim::get_total_norm({p[0].grad(), p[1].grad()}, {.norm_type = row.norm_type}).item(),
        row.norm, 1e-12);
  }
  EXPECT_EQ(optim::clip_grad_norm_({ones({2}).requires_grad_()}, 1.0).item(), 0);
  EXPECT_EQ(optim::get_total_norm({}).item(), 0);
}

TEST(Clip, ATensorListedTwiceCountsOnce) {
  const Parameters p = with_gradients();
  EXPECT_NEAR(optim::clip_grad_norm_({p[0], p[1], p[0]}, 6.5).item(), 13, 1e-12);
  EXPECT_NEAR(gradients(p)[0], 1.5, 1e-6);
}

TEST(Clip, ByValueInEveryDType) {
  for (const DType dtype : {f64, f32, bf16, f16}) {
    const Parameters p = with_gradients(dtype);
    optim::clip_grad_value_(p, 3.5);
    EXPECT_EQ(gradients(p), (std::vector{3.0, 3.5, -3.5}));
    EXPECT_NEAR(optim::clip_grad_norm_(p, 1.0).item(), std::sqrt(33.5), 0.05);
    p[1].set_grad(full({}, std::nan(""), dtype));
    optim::clip_grad_value_(p, 3.5);
    EXPECT_TRUE(std::isnan(gradients(p)[2]));
  }
}

TEST(Clip, NonFiniteNorms) {
  const Parameters p = with_gradients();
  p[1].set_grad(full({}, kInfinity, f64));
  expect_error(Errc::Argument, "expected gradients of a finite norm of order 2, got inf",
               [&] { optim::clip_grad_norm_(p, 1.0, {.error_if_nonfinite = true}); });
  EXPECT_EQ(gradients(p), (std::vector{3.0, 4.0, kInfinity}));
  EXPECT_EQ(optim::clip_grad_norm_(p, 1.0).item(), kInfinity);
  EXPECT_EQ(gradients(p)[0], 0);
  EXPECT_TRUE(std::isnan(gradients(p)[2]));
}

TEST(Clip, InAWholeStep) {
  const auto weights_after = [](bool is_compiled) {
    manual_seed(3);
    const nn::Linear net(3, 2);
    optim::SGD sgd(nn::parameters(net), {.lr = 0.5, .momentum = 0.9});
    const Scalar most(0.5);
    const auto step = [&](const Tensor& x) {
      const Tensor loss = square(net(x)).sum();
      loss.backward();
      const Tensor norm = optim::clip_grad_norm_(nn::parameters(net), most);
      optim::clip_grad_value_(nn::parameters(net), 0.3);
      sgd.step();
      sgd.zero_grad();
      return norm;
    };
    const auto compiled = compile(step);
    std::vector<double> out;
    for (int i = 0; i < 5; ++i) {
      if (i == 3) most.set(0.1);
      const Tensor x = arange(6, f32).reshape({2, 3}) * 0.1 * (i + 1);
      out.push_back((is_compiled ? compiled(x) : step(x)).item());
    }
    for (const double v : flat({net.weight, net.bias})) out.push_back(v);
    return out;
  };
  const auto eager = weights_after(false), whole = weights_after(true);
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(eager[i], whole[i], 1e-5) << i;
}

TEST(Clip, NoBoundRecompiles) {
  const Parameters p = with_gradients();
  const auto clip = [&](double bound) {
    optim::clip_grad_norm_(p, bound);
    optim::clip_grad_value_(p, bound);
  };
  clip(1);
  const size_t before = compiled_graphs().size();
  for (const double bound : {2.0, 0.5, 7.0}) clip(bound);
  EXPECT_EQ(compiled_graphs().size(), before);
}

/// The sets of gradients are the program's: no code of them is worth a warning.
TEST(Clip, OfManySetsIsQuiet) {
  ::testing::internal::CaptureStderr();
  for (int64_t n = 1; n <= 10; ++n) {
    Parameters p;
    for (int64_t i = 0; i < n; ++i) {
      p.push_back(zeros({i % 3 + 1, 2}, f64).requires_grad_());
      p.back().set_grad(ones({i % 3 + 1, 2}, f64));
    }
    optim::clip_grad_norm_(p, 1.0);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// --- amp::GradScaler

TEST(GradScaler, GrowsAndBacksOff) {
  amp::GradScaler scaler({.init_scale = 8, .growth_interval = 2});
  const Tensor w = ones({2}).requires_grad_();
  optim::SGD sgd({w}, {.lr = 0.25});
  const auto step = [&](double factor) {
    sgd.zero_grad();
    scaler.scale((w * factor).sum()).backward();
    scaler.step(sgd);
    scaler.update();
    return scaler.get_scale();
  };
  EXPECT_EQ(step(1), 8);
  EXPECT_EQ(w.to_vector<float>()[0], 0.75);
  EXPECT_EQ(step(1), 16);
  EXPECT_EQ(step(kInfinity), 8);
  EXPECT_EQ(w.to_vector<float>()[0], 0.5);  // as it was
  EXPECT_EQ(step(1), 8);
  EXPECT_EQ(step(std::nan("")), 4);
  EXPECT_EQ(step(1), 4);
  amp::GradScaler other;
  other.load_state_dict(scaler.state_dict());
  EXPECT_EQ(other.get_scale(), 4);
  EXPECT_EQ(step(1), 8);  // the second good one
  EXPECT_EQ(find(other.state_dict(), "_growth_tracker")->item(), 1);
  scaler.update(2);
  EXPECT_EQ(scaler.get_scale(), 2);
}

TEST(GradScaler, UnscalesForClipping) {
  amp::GradScaler scaler({.init_scale = 1024});
  const Tensor w = ones({2}).requires_grad_();
  optim::SGD sgd({w}, {.lr = 1});
  scaler.scale((w * tensor({3.0, 4.0})).sum()).backward();
  scaler.unscale_(sgd);
  EXPECT_NEAR(optim::clip_grad_norm_({w}, 1.0).item(), 5, 1e-5);
  EXPECT_EQ(scaler.found_inf(sgd).item(), 0);
  scaler.step(sgd);
  scaler.update();
  EXPECT_NEAR(w.to_vector<float>()[0], 0.4, 1e-5);
}

TEST(GradScaler, InAWholeStep) {
  const auto run = [](bool is_compiled) {
    amp::GradScaler scaler({.init_scale = 4, .growth_interval = 2});
    const Tensor w = ones({2}).requires_grad_();
    optim::AdamW adamw({w}, {.lr = 0.25});
    const auto step = [&](const Tensor& x) {
      const Tensor loss = (w * x).square().sum();
      scaler.scale(loss).backward();
      scaler.step(adamw);
      scaler.update();
      adamw.zero_grad();
      return loss;
    };
    const auto compiled = compile(step);
    std::vector<double> out;
    for (const double factor : {1.0, 2.0, kInfinity, 3.0, std::nan(""), 1.0, 2.0}) {
      const Tensor x = tensor({1.0, 0.5}) * factor;
      is_compiled ? compiled(x) : step(x);
      out.push_back(scaler.get_scale());
      for (const double v : w.to_vector<double>()) out.push_back(v);
    }
    return out;
  };
  const auto eager = run(false), whole = run(true);
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(eager[i], whole[i], 1e-6) << i;
}

TEST(GradScaler, NotEnabled) {
  amp::GradScaler scaler({.enabled = false});
  const Tensor w = ones({1}).requires_grad_();
  optim::SGD sgd({w}, {.lr = 1});
  scaler.scale(w * 0.5).backward();
  scaler.unscale_(sgd);
  scaler.step(sgd);
  scaler.update();
  EXPECT_EQ(w.item(), 0.5);
  EXPECT_TRUE(scaler.state_dict().empty());
}

TEST(GradScaler, Refusals) {
  const Tensor w = ones({1}).requires_grad_(), half = ones({1}, f16).requires_grad_();
  optim::SGD sgd({w}), of_halves({half});
  amp::GradScaler scaler;
  expect_error(Errc::Argument, "expected a step before update", [&] { scaler.update(); });
  w.set_grad(ones({1})), half.set_grad(ones({1}, f16));
  expect_error(Errc::DType, "gradients of more range than f16",
               [&] { scaler.unscale_(of_halves); });
  scaler.step(sgd);
  expect_error(Errc::Argument, "one step of an optimizer", [&] { scaler.step(sgd); });
  expect_error(Errc::Argument, "unscale_ once, and before step", [&] { scaler.unscale_(sgd); });
  expect_error(Errc::Argument, "the state has no scale", [&] { scaler.load_state_dict({}); });
  using Options = amp::GradScalerOptions;
  for (const Options& o : {Options{.growth_factor = 1}, Options{.backoff_factor = 1},
                           Options{.growth_interval = 0}, Options{.init_scale = 0}})
    expect_error(Errc::Argument, "out of range", [&] { amp::GradScaler scaled(o); });
}

}  // namespace
}  // namespace tandem::testing
