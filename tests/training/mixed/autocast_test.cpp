// Regions of autocast: nesting, gradients, parameters that are converted once, compiled functions.
#include <gtest/gtest.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

// --- regions

TEST(Autocast, RegionsNestAndEnd) {
  const Tensor x = ones({2, 2});
  EXPECT_FALSE(autocast_enabled());
  {
    const Autocast outer(bf16);
    EXPECT_TRUE(autocast_enabled());
    EXPECT_EQ(matmul(x, x).dtype(), bf16);
    {
      const Autocast off(bf16, {.enabled = false});
      EXPECT_FALSE(autocast_enabled());
      EXPECT_EQ(matmul(x, x).dtype(), f32);
      const Autocast inner(f16);
      EXPECT_EQ(autocast_dtype(), f16);
      EXPECT_EQ(matmul(x, x).dtype(), f16);
    }
    EXPECT_EQ(autocast_dtype(), bf16);
    EXPECT_EQ(x.matmul(x).dtype(), bf16);
  }
  EXPECT_FALSE(autocast_enabled());
  EXPECT_EQ(matmul(x, x).dtype(), f32);
}

TEST(Autocast, EndsWhereAnExceptionLeavesIt) {
  EXPECT_THROW(
      {
        const Autocast region;
        matmul(ones({2, 2}), ones({3, 2}));
      },
      Error);
  EXPECT_FALSE(autocast_enabled());
  EXPECT_EQ(matmul(ones({2, 2}), ones({2, 2})).dtype(), f32);
}

TEST(Autocast, TakesHalvesOnly) {
  expect_error(Errc::DType, "Autocast: expected bf16 or f16, got f64", [] { Autocast a(f64); });
  const Autocast off(f32, {.enabled = false});
  EXPECT_FALSE(autocast_enabled());
}

TEST(Autocast, WritesTakeOperandsAsTheyAre) {
  const Tensor x = ones({2, 2});
  const Autocast region;
  EXPECT_EQ(zeros({2, 2}).addmm_(x, x).dtype(), f32);
  EXPECT_THROW(zeros({2, 2}).addmm_(x, x.to(bf16)), Error);
}

// --- gradients

struct Net {
  nn::Linear in{6, 16}, out{16, 3};
  Tensor filter = (randn({4, 1, 3}) * 0.3).requires_grad_();
  TANDEM_FIELDS(Net, in, out, filter)
  Tensor operator()(const Tensor& x) const {
    const Tensor seen = conv1d(x.unsqueeze(1), filter, {}, {.padding = 1}).amax({1});
    return out(gelu(in(seen)));
  }
};

Net seeded_net() {
  manual_seed(7);
  return {};
}

Tensor inputs() { return noise({5, 6}, 3); }
Tensor labels() { return arange(5).remainder(3); }

Tensor loss_of(const Net& net, const Tensor& x) { return cross_entropy(net(x), labels()); }

std::vector<Tensor> gradients(const Net& net) {
  std::vector<Tensor> all;
  for (const Tensor& p : nn::parameters(net)) all.push_back(p.grad());
  return all;
}

/// Differs from f32's by no more than roundings to bf16, of 8 bits, may.
void expect_near(const std::vector<Tensor>& exact, const std::vector<Tensor>& actual) {
  ASSERT_EQ(exact.size(), actual.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    ASSERT_EQ(actual[i].dtype(), f32) << i;
    const double largest = exact[i].abs().max().item<double>();
    EXPECT_LE((exact[i] - actual[i]).abs().max().item<double>(), 0.03 * largest) << i;
  }
}

std::vector<Tensor> exact_gradients() {
  const Net net = seeded_net();
  loss_of(net, inputs()).backward();
  return gradients(net);
}

TEST(Autocast, GradientsHaveTheParametersDtype) {
  const Net net = seeded_net();
  Tensor loss;
  {
    const Autocast region(bf16);
    loss = loss_of(net, inputs());
    EXPECT_EQ(loss.dtype(), f32);
  }
  loss.backward();
  expect_near(exact_gradients(), gradients(net));
}

TEST(Autocast, BackwardIsTheSameInsideARegion) {
  const Net outside = seeded_net(), inside = seeded_net();
  Tensor loss;
  {
    const Autocast region(bf16);
    loss = loss_of(outside, inputs());
    loss_of(inside, inputs()).backward();
  }
  loss.backward();
  const auto a = gradients(outside), b = gradients(inside);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(equal(a[i], b[i])) << i;
}

TEST(Autocast, AParameterIsConvertedOnce) {
  const Tensor w = noise({4, 4}, 1).requires_grad_(), x = noise({2, 4}, 2);
  const auto conversions = [&](const AutocastOptions& options) {
    const auto fn = compile([&](const Tensor& t) {
      const Autocast region(bf16, options);
      return t.matmul(w).matmul(w).matmul(w);
    });
    int64_t count = 0;
    const ir::Graph& traced = fn.graphs(x).traced;
    for (const ir::Equation& e : traced.equations())
      count += e.op == ir::Op::convert && traced.operands(e)[0] == traced.inputs()[1].value;
    return count;
  };
  EXPECT_EQ(conversions({}), 1);
  EXPECT_EQ(conversions({.cache = false}), 3);
}

TEST(Autocast, AChangedParameterIsConvertedAgain) {
  const Tensor w = ones({2, 2}).requires_grad_(), x = ones({2, 2});
  const Autocast region(bf16);
  EXPECT_EQ(matmul(x, w).sum().item<double>(), 8);
  {
    const NoGrad no_grad;
    w.mul_(2);
    EXPECT_EQ(matmul(x, w).sum().item<double>(), 16);
  }
  EXPECT_EQ(matmul(x, w).sum().item<double>(), 16);
  EXPECT_TRUE(matmul(x, w).requires_grad());  // what NoGrad converted is not used
}

// --- compiled functions

TEST(Autocast, IsAGuard) {
  const auto fn = compile([](const Tensor& x) { return matmul(x, x); });
  const Tensor x = ones({2, 2});
  const auto* outside = &fn.graphs(x);
  EXPECT_EQ(fn(x).dtype(), f32);
  const CompiledGraphs* inside = nullptr;
  {
    const Autocast region(bf16);
    inside = &fn.graphs(x);
    EXPECT_EQ(fn(x).dtype(), bf16);
    const Autocast other(f16);
    EXPECT_EQ(fn(x).dtype(), f16);
    const Autocast off(f16, {.enabled = false});
    EXPECT_EQ(fn(x).dtype(), f32);
    EXPECT_EQ(&fn.graphs(x), outside);
  }
  EXPECT_NE(inside, outside);
  EXPECT_EQ(&fn.graphs(x), outside);
  const Autocast again(bf16);
  EXPECT_EQ(&fn.graphs(x), inside);
}

/// Loss and gradients of a net whose loss `call` gives; backward is called outside of all regions.
struct Outcome {
  Tensor loss;
  std::vector<Tensor> gradients;
};
template <class Call>
Outcome outcome(const Call& call) {
  const Net net = seeded_net();
  const Tensor loss = call(net);
  loss.backward();
  return {loss.detach(), gradients(net)};
}

void expect_same(const Outcome& a, const Outcome& b, const std::string& what) {
  EXPECT_TRUE(equal(a.loss, b.loss)) << what;
  for (size_t i = 0; i < a.gradients.size(); ++i)
    EXPECT_TRUE(equal(a.gradients[i], b.gradients[i])) << what << ", gradient " << i;
}

TEST(Autocast, CompiledFunctionsGiveTheSameBitsWhateverIsSaved) {
  std::optional<Outcome> first;
  for (const char* partition : {"default", "save-all", "recompute-all"}) {
    const auto argument = compile(loss_of, {.partition = partition});
    const Outcome called_inside = outcome([&](const Net& net) {
      const Autocast region(bf16);
      return argument(net, inputs());
    });
    expect_near(exact_gradients(), called_inside.gradients);
    if (!first) first = called_inside;
    expect_same(*first, called_inside, partition);
    expect_same(*first, outcome([&](const Net& net) {
      const auto own = compile(
          [&](const Tensor& x) {
            const Autocast region(bf16);
            return loss_of(net, x);
          },
          {.partition = partition});
      return own(inputs());
    }),
                std::string("a region in the function, ") + partition);
  }
  const Outcome eager = outcome([](const Net& net) {
    const Autocast region(bf16);
    return loss_of(net, inputs());
  });
  expect_close(eager.loss, first->loss, 1e-2, "loss");
}

TEST(Autocast, ATraceDoesNotFindWhatEagerConverted) {
  const Tensor w = ones({2, 2}).requires_grad_(), x = ones({2, 2});
  const auto fn = compile([&](const Tensor& t) { return matmul(t, w); });
  const Autocast region(bf16);
  matmul(x, w);
  EXPECT_EQ(fn(x).sum().item<double>(), 8);
  fn(x).sum().backward();
  EXPECT_EQ(w.grad().dtype(), f32);
  {
    const NoGrad no_grad;
    w.mul_(2);
  }
  EXPECT_EQ(fn(x).sum().item<double>(), 16);
  EXPECT_EQ(matmul(x, w).sum().item<double>(), 16);
}

TEST(Autocast, WholeStepsKeepF32Parameters) {
  const auto losses = [](bool whole, bool cast) {
    const Net net = seeded_net();
    optim::AdamW optimizer(nn::parameters(net), {.lr = 1e-2});
    const auto forward = [&](const Tensor& x) {
      const Autocast region(bf16, {.enabled = cast});
      return loss_of(net, x);
    };
    const auto step_of = [&](const auto& loss_at) {
      return [&](const Tensor& x) {
        const Tensor loss = loss_at(x);
        loss.backward();
        optimizer.step();
        optimizer.zero_grad();
        return loss.detach();
      };
    };
    const auto halves = compile(forward);
    const auto in_halves = step_of(halves);
    const auto as_one = compile(step_of(forward));
    std::vector<double> found;
    for (int i = 0; i < 30; ++i)
      found.push_back((whole ? as_one(inputs()) : in_halves(inputs())).template item<double>());
    for (const Tensor& p : nn::parameters(net)) EXPECT_EQ(p.dtype(), f32);
    return found;
  };
  const auto exact = losses(false, false), halves = losses(false, true), whole = losses(true, true);
  EXPECT_LT(exact.back(), 0.5 * exact.front());
  EXPECT_NEAR(halves.back(), exact.back(), 0.03 * exact.front());
  EXPECT_NEAR(whole.back(), halves.back(), 0.01 * exact.front());
}

}  // namespace
}  // namespace tandem::testing
