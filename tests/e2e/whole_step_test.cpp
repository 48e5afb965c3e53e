// Loss, backward and updates in one compiled function: against the same loop run eagerly, and as a
// compiled loss with its backward and a compiled optimizer.
#include <gtest/gtest.h>
#include <tandem/graph.h>

#include <cmath>

#include "tests/support/check_compiled.h"
#include "tests/support/graph_testing.h"

namespace tandem::testing {
namespace {

constexpr int64_t kWords = 13, kTime = 6, kChannels = 16;

struct Block {
  nn::LayerNorm norm1{kChannels}, norm2{kChannels};
  nn::Linear qkv{kChannels, 3 * kChannels}, proj{kChannels, kChannels};
  nn::Linear up{kChannels, 4 * kChannels}, down{4 * kChannels, kChannels};
  TANDEM_FIELDS(Block, norm1, norm2, qkv, proj, up, down)

  Tensor operator()(const Tensor& x) const {
    const auto parts = split(qkv(norm1(x)), kChannels, 2);
    const Tensor h = x + proj(scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, true));
    return h + down(gelu(up(norm2(h)), "tanh"));
  }
};

/// A small GPT, whose first and last weight are one.
struct Gpt {
  nn::Embedding tokens{kWords, kChannels}, positions{kTime, kChannels};
  std::vector<Block> blocks = std::vector<Block>(2);
  TANDEM_FIELDS(Gpt, tokens, positions, blocks)

  Tensor loss(const Tensor& words, const Tensor& next) const {
    Tensor x = tokens(words) + positions.weight;
    for (const Block& block : blocks) x = block(x);
    return cross_entropy(matmul(x, tokens.weight.t()).view({-1, kWords}), next.view({-1}));
  }
};

struct Training {
  Gpt net;
  optim::AdamW optimizer;
  explicit Training(Gpt n) : net(std::move(n)), optimizer(nn::parameters(net), {.lr = 1e-2}) {}
};

Training new_training() {
  manual_seed(7);
  return Training(Gpt{});
}

Tensor words(int step) {
  return (arange(4 * kTime).view({4, kTime}) * (step + 3)).remainder(kWords);
}

auto step_of(Training& t) {
  return [&t](const Tensor& x, const Tensor& y) {
    const Tensor loss = t.net.loss(x, y);
    loss.backward();
    t.optimizer.step();
    t.optimizer.zero_grad();
    return loss.detach();
  };
}

CompileOptions partitioned(const char* partition) {
  CompileOptions options;
  options.partition = partition;
  return options;
}

/// The losses of eight steps.
template <class Step>
std::vector<double> trained(const Step& step) {
  std::vector<double> losses;
  for (int i = 0; i < 8; ++i)
    losses.push_back(step(words(i), words(i + 1)).template item<double>());
  return losses;
}

TEST(WholeStep, AgreesWithHalvesAndWithAnEagerLoop) {
  Training eager = new_training(), halves = new_training(), whole = new_training();
  const auto loss_of =
      compile([&](const Tensor& x, const Tensor& y) { return halves.net.loss(x, y); });
  const auto expected = trained(step_of(eager));
  const auto by_halves = trained([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = loss_of(x, y);
    loss.backward();
    halves.optimizer.step();
    halves.optimizer.zero_grad();
    return loss.detach();
  });
  const auto at_once = trained(compile(step_of(whole)));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(expected[i], by_halves[i], 1e-4) << i;
    EXPECT_NEAR(expected[i], at_once[i], 1e-4) << i;
  }
}

TEST(WholeStep, HasTheSameBitsWhateverIsComputedAgain) {
  std::vector<std::vector<double>> losses;
  for (const char* partition : {"save-all", "default", "recompute-all", "memory_budget=0"}) {
    Training t = new_training();
    const auto step = compile(step_of(t), partitioned(partition));
    losses.push_back(trained(step));
    EXPECT_EQ(losses.front(), losses.back()) << partition;
  }
}

TEST(WholeStep, ComputesAgainWhatItNeedNotKeep) {
  Training t = new_training();
  const auto arena = [&](const char* partition) {
    const auto step = compile(step_of(t), partitioned(partition));
    return step.graphs(words(0), words(1)).forward_report.arena_bytes;
  };
  EXPECT_LT(arena("recompute-all"), arena("save-all"));
}

// --- what is read and kept beside the updates; each of them against eager

struct Case {
  const char* name;
  /// A step on a parameter [6, 5], a state like it, and data [4, 6].
  Tensors (*step)(const Tensor& p, const Tensor& m, const Tensor& x);
};

Tensor loss_of(const Tensor& p, const Tensor& x) { return mean(square(tanh(matmul(x, p)))); }

void update(const Tensor& p, const Tensor& m, const Tensor& g) {
  const NoGrad no_grad;
  m.mul_(0.9).add_(g);
  p.sub_(m * 0.1);
}

const Case kCases[] = {
    {"plain",
     [](const Tensor& p, const Tensor& m, const Tensor& x) {
       const Tensor loss = loss_of(p, x);
       update(p, m, grad({loss}, {p})[0]);
       return Tensors{loss.detach()};
     }},
    {"the gradient is a result too",
     [](const Tensor& p, const Tensor& m, const Tensor& x) {
       const Tensor loss = loss_of(p, x), g = grad({loss}, {p})[0];
       update(p, m, g);
       return Tensors{loss.detach(), g, g.norm()};
     }},
    {"old values are read after the update",
     [](const Tensor& p, const Tensor& m, const Tensor& x) {
       const Tensor loss = loss_of(p, x), old = p.detach().clone();
       update(p, m, grad({loss}, {p})[0]);
       return Tensors{old, p.detach() - old, matmul(x, old)};
     }},
    {"new values are read after the update",
     [](const Tensor& p, const Tensor& m, const Tensor& x) {
       update(p, m, grad({loss_of(p, x)}, {p})[0]);
       return Tensors{loss_of(p, x).detach(), p.detach() * 2};
     }},
    {"clipped by the norm",
     [](const Tensor& p, const Tensor& m, const Tensor& x) {
       const Tensor g = grad({loss_of(p, x)}, {p})[0];
       const Tensor total = g.norm();
       update(p, m, g * clamp(0.01 / (total + 1e-6), {}, 1.0));
       return Tensors{total};
     }},
    {"an average follows the parameter",
     [](const Tensor& p, const Tensor& m, const Tensor& x) {
       const Tensor g = grad({loss_of(p, x)}, {p})[0];
       const NoGrad no_grad;
       p.sub_(g * 0.1);
       m.mul_(0.99).add_(p * 0.01);
       return Tensors{};
     }},
    {"backward leaves .grad",
     [](const Tensor& p, const Tensor& m, const Tensor& x) {
       const Tensor loss = loss_of(p, x);
       loss.backward();
       update(p, m, p.grad());
       return Tensors{loss.detach()};
     }},
    {"two steps in one",
     [](const Tensor& p, const Tensor& m, const Tensor& x) {
       update(p, m, grad({loss_of(p, x)}, {p})[0]);
       update(p, m, grad({loss_of(p, x * 2)}, {p})[0]);
       return Tensors{p.detach().sum()};
     }},
    {"an index that may be out of range comes last",
     [](const Tensor& p, const Tensor& m, const Tensor& x) {
       const Tensor loss = loss_of(p, x);
       update(p, m, grad({loss}, {p})[0]);
       const Tensor at = (x.detach().select(1, 0) * 0).to(i64);
       return Tensors{index_select(p.detach(), 0, at)};
     }},
};

class Steps : public ::testing::TestWithParam<Case> {};

/// p and m: of their own memory, transposed, or neighbours in one memory.
std::vector<Tensors> placements() {
  const Tensor own = noise({6, 5}, 1), turned = noise({5, 6}, 2).t(), both = noise({12, 5}, 3);
  return {
      {own, zeros({6, 5})}, {turned, zeros({5, 6}).t()}, {both.slice(0, 0, 6), both.slice(0, 6)}};
}

TEST_P(Steps, AreAsEager) {
  const auto inputs = [](size_t placement, const Tensor& x) {
    Tensors t = placements()[placement];
    t[0].requires_grad_();
    return Tensors{t[0], t[1], x};
  };
  for (size_t placement = 0; placement < placements().size(); ++placement)
    check_compiled([](const Tensors& in) { return GetParam().step(in[0], in[1], in[2]); },
                   [&] { return inputs(placement, noise({4, 6}, 9)); });
}

INSTANTIATE_TEST_SUITE_P(WholeStep, Steps, ::testing::ValuesIn(kCases), [](const auto& info) {
  std::string name = info.param.name;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
});

}  // namespace
}  // namespace tandem::testing
