// A model that is bf16 itself: parameters, activations, gradients.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

namespace tandem {
namespace {

struct Net {
  nn::Embedding tokens{16, 32};
  nn::LayerNorm norm{32};
  nn::Linear in{32, 64}, out{64, 4};
  TANDEM_FIELDS(Net, tokens, norm, in, out)
  Tensor operator()(const Tensor& x) const {
    const Tensor h = mean(tokens(x), {1});
    return out(gelu(in(norm(h))));
  }
};

Tensor loss_of(const Net& net, const Tensor& x, const Tensor& y) {
  return cross_entropy(net(x), y);
}

enum class Form : uint8_t { Eager, Halves, Whole };

/// The losses of 60 steps from the same start.
std::vector<double> train(DType dtype, Form form) {
  manual_seed(3);
  Net net;
  nn::to(net, dtype);
  optim::SGD optimizer(nn::parameters(net), {.lr = 0.1, .momentum = 0.9});
  const auto halves = compile(&loss_of);
  const auto whole = compile([](const Net& n, optim::SGD& o, const Tensor& x, const Tensor& y) {
    const Tensor loss = loss_of(n, x, y);
    loss.backward();
    o.step();
    o.zero_grad();
    return loss.detach();
  });
  const Tensor x = randint(0, 16, {64, 6}), y = x.select(1, 0) / 4;
  std::vector<double> losses;
  for (int step = 0; step < 60; ++step) {
    if (form == Form::Whole) {
      losses.push_back(whole(net, optimizer, x, y.to(i64)).item());
      continue;
    }
    const Tensor loss =
        form == Form::Halves ? halves(net, x, y.to(i64)) : loss_of(net, x, y.to(i64));
    EXPECT_EQ(loss.dtype(), dtype);
    loss.backward();
    for (const Tensor& p : nn::parameters(net)) EXPECT_EQ(p.grad().dtype(), dtype);
    optimizer.step();
    optimizer.zero_grad();
    losses.push_back(loss.item());
  }
  for (const Tensor& p : nn::parameters(net)) EXPECT_EQ(p.dtype(), dtype);
  return losses;
}

TEST(Bf16Models, TrainAsF32Does) {
  const std::vector<double> exact = train(f32, Form::Eager);
  EXPECT_LT(exact.back(), 0.5 * exact.front());
  for (const Form form : {Form::Eager, Form::Halves, Form::Whole}) {
    const std::vector<double> losses = train(bf16, form);
    EXPECT_NEAR(losses.front(), exact.front(), 0.02 * exact.front());
    EXPECT_NEAR(losses[20], exact[20], 0.1 * exact.front());
    EXPECT_LT(losses.back(), 0.5 * losses.front());
  }
}

}  // namespace
}  // namespace tandem
