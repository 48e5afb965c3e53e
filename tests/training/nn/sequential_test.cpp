// Layers of any type: AnyModule, Sequential, containers of them; as arguments of compiled
// functions.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/expect_error.h"

namespace tandem {
namespace {

using Names = std::vector<std::string>;
using testing::expect_error;

struct Scale {
  Tensor weight = full({3}, 2).requires_grad_();
  double factor = 1;
  bool training = true;
  TANDEM_FIELDS(Scale, weight, factor, training)
  Tensor operator()(const Tensor& x) const { return training ? x * weight * factor : x * factor; }
};

/// Counts its calls.
struct Counter {
  nn::Buffer calls = zeros({}, i64);
  TANDEM_FIELDS(Counter, calls)
  Tensor operator()(const Tensor& x) const {
    calls.add_(1);
    return x;
  }
};

nn::Sequential make_net() {
  return nn::Sequential{nn::Linear(3, 3), [](const Tensor& x) { return tanh(x); }, Scale(),
                        std::make_shared<Counter>(),
                        nn::Sequential{nn::Linear(3, 4, false), nn::LayerNorm(4)}};
}

Names names_of(const NamedTensors& tensors) {
  Names names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

TEST(Sequential, NamesAreNumbers) {
  const nn::Sequential net = make_net();
  EXPECT_EQ(names_of(nn::state_dict(net)), (Names{"0.weight", "0.bias", "2.weight", "3.calls",
                                                  "4.0.weight", "4.1.weight", "4.1.bias"}));
  EXPECT_EQ(names_of(nn::named_buffers(net)), Names{"3.calls"});
  struct Model {
    nn::Sequential body = make_net();
    TANDEM_FIELDS(Model, body)
  };
  EXPECT_EQ(names_of(nn::named_parameters(Model()))[3], "body.4.0.weight");
}

TEST(Sequential, AppliesItsLayersInOrder) {
  nn::Sequential net = make_net();
  const Tensor x = randn({4, 3});
  const auto* first = net[0].get_if<nn::Linear>();
  const auto* inner = net[4].get_if<nn::Sequential>();
  ASSERT_TRUE(first != nullptr && inner != nullptr);
  EXPECT_EQ(net[0].get_if<Scale>(), nullptr);
  EXPECT_TRUE(allclose(net(x), (*inner)(tanh((*first)(x)) * 2.0)));
  EXPECT_EQ(net[3].get_if<Counter>()->calls.item<int64_t>(), 1);
  EXPECT_TRUE(nn::Sequential()(x).is_same(x));
  net.push_back([](const Tensor& y) { return y + 1; });
  EXPECT_EQ(net.size(), 6u);
  size_t layers = 0;
  for (const nn::AnyModule& layer : std::as_const(net)) layers += layer.defined() ? 1 : 0;
  EXPECT_EQ(layers, 6u);
}

TEST(Sequential, IsSearchedAndSwitched) {
  nn::Sequential net = make_net();
  EXPECT_EQ(nn::modules<nn::Linear>(net).size(), 2u);
  EXPECT_EQ(nn::modules<Counter>(net).size(), 1u);
  nn::eval(net);
  EXPECT_FALSE(net[2].get_if<Scale>()->training);
  nn::apply<Scale>(net, [](Scale& s) { s.factor = 3; });
  EXPECT_EQ(net[2].get_if<Scale>()->factor, 3);
  nn::to(net, f64);
  EXPECT_EQ(net[4].get_if<nn::Sequential>()->operator()(ones({1, 3}, f64)).dtype(), f64);
  nn::requires_grad_(net, false);
  EXPECT_FALSE(net(ones({1, 3}, f64)).requires_grad());
}

TEST(Sequential, CopiesAsOtherModulesDo) {
  const nn::Sequential net = make_net();
  nn::Sequential same = net, deep = nn::clone(net);
  EXPECT_TRUE(same[0].get_if<nn::Linear>()->weight.is_same(net[0].get_if<nn::Linear>()->weight));
  same[2].get_if<Scale>()->factor = 5;  // a struct of its own
  EXPECT_EQ(net[2].get_if<Scale>()->factor, 1);
  EXPECT_EQ(same[3].get_if<Counter>(), net[3].get_if<Counter>());  // a shared_ptr
  EXPECT_NE(deep[3].get_if<Counter>(), net[3].get_if<Counter>());
  const Tensor x = randn({2, 3});
  const auto before = net(x).to_vector<float>();
  EXPECT_EQ(deep(x).to_vector<float>(), before);
  const NoGrad no_grad;
  for (const Tensor& t : nn::parameters(deep)) t.zero_();
  EXPECT_EQ(net(x).to_vector<float>(), before);
}

TEST(Sequential, TakesAndGivesStates) {
  const nn::Sequential from = make_net(), to = make_net();
  nn::load_state_dict(to, nn::state_dict(from));
  const Tensor x = randn({2, 3});
  EXPECT_EQ(from(x).to_vector<float>(), to(x).to_vector<float>());
}

// --- compiled

/// Values, gradients and written buffers of `net` compiled and of a copy run eagerly.
template <class Fn, class Compiled>
void expect_as_eager(const Fn& fn, const Compiled& compiled, const nn::Sequential& net) {
  const nn::Sequential eager = nn::clone(net);
  const Tensor x = randn({4, 3});
  const Tensor got = compiled(net, x), expected = fn(eager, x);
  ASSERT_TRUE(allclose(got, expected, 1e-5, 1e-6));
  got.square().sum().backward(), expected.square().sum().backward();
  const auto a = nn::named_tensors(net), b = nn::named_tensors(eager);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(allclose(a[i].second.to(f32), b[i].second.to(f32))) << a[i].first;
    EXPECT_EQ(a[i].second.grad().defined(), b[i].second.grad().defined()) << a[i].first;
    if (!a[i].second.grad().defined()) continue;
    EXPECT_TRUE(allclose(a[i].second.grad(), b[i].second.grad(), 1e-4, 1e-5)) << a[i].first;
  }
  nn::zero_grad(net);
}

TEST(CompiledSequential, ComputesAsEager) {
  const auto fn = [](const nn::Sequential& net, const Tensor& x) { return net(x); };
  const auto compiled = compile(fn);
  nn::Sequential net = make_net();
  expect_as_eager(fn, compiled, net);
  expect_as_eager(fn, compiled, net);
  EXPECT_EQ(net[3].get_if<Counter>()->calls.item<int64_t>(), 2);
}

TEST(CompiledSequential, IsGuardedByItsStructure) {
  manual_seed(1);
  const auto fn = [](const nn::Sequential& net, const Tensor& x) { return net(x); };
  const auto compiled = compile(fn);
  nn::Sequential net = make_net();
  expect_as_eager(fn, compiled, net);
  net[2].get_if<Scale>()->factor = 3;
  expect_as_eager(fn, compiled, net);
  nn::eval(net);
  expect_as_eager(fn, compiled, net);
  net[1] = [](const Tensor& x) { return sigmoid(x); };
  expect_as_eager(fn, compiled, net);
  net[1] = [](const Tensor& x) { return relu(x); };
  expect_as_eager(fn, compiled, net);
  net.push_back(nn::Linear(4, 5));
  expect_as_eager(fn, compiled, net);
  net[0] = std::make_shared<nn::Linear>(3, 3);
  expect_as_eager(fn, compiled, net);
  net[4].get_if<nn::Sequential>()->push_back([](const Tensor& x) { return x * 2; });
  expect_as_eager(fn, compiled, net);
}

TEST(CompiledSequential, ATiedLayerIsTied) {
  const auto layer = std::make_shared<nn::Linear>(3, 3);
  const nn::Sequential net{layer, [](const Tensor& x) { return tanh(x); }, layer};
  EXPECT_EQ(nn::parameters(net).size(), 2u);
  EXPECT_EQ(nn::state_dict(net).size(), 4u);
  EXPECT_EQ(nn::parameters(nn::clone(net)).size(), 2u);
  const auto fn = [](const nn::Sequential& n, const Tensor& x) { return n(x); };
  expect_as_eager(fn, compile(fn), net);
}

TEST(CompiledSequential, IsAResult) {
  const auto fn = compile([](const nn::Sequential& net, const Tensor& x) {
    nn::Sequential out = net;
    out[0].get_if<nn::Linear>()->weight = net[0].get_if<nn::Linear>()->weight * x;
    return out;
  });
  const nn::Sequential net{nn::Linear(2, 2), std::make_shared<Scale>()};
  const nn::Sequential twice = fn(net, full({2, 2}, 2.0)), thrice = fn(net, full({2, 2}, 3.0));
  const auto weight = [](const nn::Sequential& n) { return n[0].get_if<nn::Linear>()->weight; };
  EXPECT_TRUE(allclose(weight(twice), weight(net) * 2.0));
  EXPECT_TRUE(allclose(weight(thrice), weight(net) * 3.0));
}

TEST(CompiledSequential, RebindsItsTensors) {
  const auto fn = compile(
      [](nn::Sequential& net, const Tensor& x) { net[0].get_if<nn::Linear>()->bias = x + 1; });
  nn::Sequential net{nn::Linear(2, 2), std::make_shared<Scale>()};
  fn(net, ones({2}));
  EXPECT_EQ(net[0].get_if<nn::Linear>()->bias.to_vector<int>(), (std::vector<int>{2, 2}));
}

// --- containers

TEST(Containers, OfLayersOfSeveralTypes) {
  struct Model {
    std::vector<nn::AnyModule> list = {nn::Linear(3, 3), Scale()};
    std::map<std::string, nn::AnyModule> heads = {{"a", nn::Linear(3, 1)}, {"b", nn::LayerNorm(3)}};
    nn::AnyModule none;
    TANDEM_FIELDS(Model, list, heads, none)
    Tensor operator()(const Tensor& x, const std::string& head) const {
      return heads.at(head)(list[1](list[0](x)));
    }
  };
  const Model model;
  EXPECT_EQ(names_of(nn::state_dict(model)),
            (Names{"list.0.weight", "list.0.bias", "list.1.weight", "heads.a.weight",
                   "heads.a.bias", "heads.b.weight", "heads.b.bias"}));
  const auto fn =
      compile([](const Model& m, const Tensor& x, const std::string& head) { return m(x, head); });
  const Tensor x = randn({2, 3});
  for (const char* head : {"a", "b"}) EXPECT_TRUE(allclose(fn(model, x, head), model(x, head)));
  Model other;
  other.heads["a"] = nn::LayerNorm(3);
  EXPECT_TRUE(allclose(fn(other, x, "a"), other(x, "a")));
  expect_error(Errc::Argument, "AnyModule: expected a layer, got none", [&] { other.none(x); });
  expect_error(Errc::Argument, "got a null pointer",
               [] { nn::AnyModule(std::shared_ptr<nn::Linear>()); });
}

TEST(Containers, TrainAsStructsDo) {
  manual_seed(1);
  const nn::Sequential net{nn::Linear(2, 8), [](const Tensor& x) { return tanh(x); },
                           nn::Linear(8, 1)};
  const Tensor x = randn({64, 2}), y = x.select(1, 0) * x.select(1, 1);
  optim::AdamW optimizer(nn::parameters(net), {.lr = 2e-2});
  const auto loss_of = compile([](const nn::Sequential& n, const Tensor& in, const Tensor& out) {
    return (n(in).squeeze(1) - out).square().mean();
  });
  const double first = loss_of(net, x, y).item();
  for (int step = 0; step < 300; ++step) {
    loss_of(net, x, y).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  EXPECT_LT(loss_of(net, x, y).item(), first / 10);
}

}  // namespace
}  // namespace tandem
