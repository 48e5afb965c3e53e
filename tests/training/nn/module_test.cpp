// What works on any module: names, state, copies, modes.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace tandem {
namespace {

using Doubles = std::vector<double>;
using Names = std::vector<std::string>;
using testing::expect_error;

struct Norm {
  Tensor weight = ones({3}).requires_grad_();
  nn::Buffer mean = zeros({3}), count = zeros({}, i64);
  bool training = true;
  TANDEM_FIELDS(Norm, weight, mean, count, training)
};

struct Block {
  nn::Linear linear{3, 3, false};
  Norm norm;
  Tensor frozen = full({2}, 4), table = arange(3, i64), absent;
  bool training = true;
  TANDEM_FIELDS(Block, linear, norm, frozen, table, absent, training)
  Tensor operator()(const Tensor& x) const {
    const Tensor y = linear(x) * norm.weight + norm.mean;
    return training ? y * 2 : y;
  }
};

/// Structs of structs, tied weights, a module by pointer in two places.
struct Net {
  std::vector<Block> blocks = std::vector<Block>(2);
  nn::Linear head{3, 3};
  std::shared_ptr<Norm> norm = std::make_shared<Norm>(), same_norm = norm;
  std::optional<Norm> maybe;
  Scalar scale{2.0};
  TANDEM_FIELDS(Net, blocks, head, norm, same_norm, maybe, scale)
  Net() { head.weight = blocks[1].linear.weight; }
  Tensor operator()(const Tensor& x) const {
    return head(blocks[1](blocks[0](x))) * norm->weight + same_norm->mean * scale;
  }
};

Names names_of(const NamedTensors& tensors) {
  Names names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

Doubles numbers(const Tensor& t) { return t.to_vector<double>(); }

TEST(Modules, ParametersAndBuffersByName) {
  const Net net;
  EXPECT_EQ(names_of(nn::named_parameters(net)),
            (Names{"blocks.0.linear.weight", "blocks.0.norm.weight", "blocks.0.frozen",
                   "blocks.1.linear.weight", "blocks.1.norm.weight", "blocks.1.frozen", "head.bias",
                   "norm.weight"}));
  EXPECT_EQ(
      names_of(nn::named_buffers(net)),
      (Names{"blocks.0.norm.mean", "blocks.0.norm.count", "blocks.0.table", "blocks.1.norm.mean",
             "blocks.1.norm.count", "blocks.1.table", "norm.mean", "norm.count"}));
  EXPECT_EQ(nn::parameters(net).size(), 8u);
  EXPECT_EQ(nn::buffers(net).size(), 8u);
  EXPECT_EQ(nn::num_parameters(net), 9 + 3 + 2 + 9 + 3 + 2 + 3 + 3);
  EXPECT_EQ(nn::num_parameters(std::vector<Tensor>()), 0);
}

TEST(Modules, OfSeveralArePartsOfATuple) {
  const nn::Linear a(2, 1), b(2, 1);
  EXPECT_EQ(names_of(nn::named_parameters(std::tie(a, b))),
            (Names{"0.weight", "0.bias", "1.weight", "1.bias"}));
}

TEST(Modules, ModesAreSetAtAnyDepth) {
  Net net;
  net.maybe.emplace();
  nn::eval(net);
  for (const bool flag : {net.blocks[0].training, net.blocks[1].norm.training, net.norm->training,
                          net.maybe->training})
    EXPECT_FALSE(flag);
  nn::train(net.blocks[0]);
  EXPECT_TRUE(net.blocks[0].norm.training);
  EXPECT_FALSE(net.blocks[1].norm.training);
  nn::train(net, false);
  EXPECT_FALSE(net.blocks[0].training);
}

TEST(Modules, ModesAreGuarded) {
  Block block;
  const Tensor x = randn({2, 3});
  const auto fn = compile([](const Block& b, const Tensor& v) { return b(v); });
  for (const bool training : {true, false, true}) {
    nn::train(block, training);
    EXPECT_EQ(fn(block, x).to_vector<float>(), block(x).to_vector<float>());
  }
}

TEST(Modules, PartsOfAType) {
  Net net;
  EXPECT_EQ(nn::modules<Norm>(net).size(), 3u);  // two of blocks; the shared one once
  EXPECT_EQ(nn::modules<nn::Linear>(net).size(), 3u);
  EXPECT_EQ(nn::modules<Net>(net), std::vector<Net*>{&net});
  EXPECT_EQ(nn::modules<Block>(std::as_const(net))[1], &net.blocks[1]);
  nn::apply<nn::Linear>(net, [](nn::Linear& l) { l.bias = zeros({3}).requires_grad_(); });
  EXPECT_TRUE(net.blocks[1].linear.bias.defined());
}

TEST(Modules, AreFrozenInParts) {
  const Net net;
  nn::requires_grad_(net.blocks, false);
  const Tensor x = randn({2, 3});
  net(x).sum().backward();
  EXPECT_FALSE(net.blocks[0].linear.weight.grad().defined());
  EXPECT_TRUE(net.norm->weight.grad().defined());
  nn::zero_grad(net);
  EXPECT_FALSE(net.norm->weight.grad().defined());
  nn::requires_grad_(net);
  EXPECT_TRUE(net.blocks[0].linear.weight.requires_grad());
  EXPECT_FALSE(net.norm->mean.requires_grad());
}

TEST(Modules, OptimizersLeaveWhatIsFrozenAlone) {
  const Block block;
  optim::AdamW optimizer(nn::parameters(block), {.lr = 0.1});
  block(ones({1, 3})).sum().backward();
  optimizer.step();
  EXPECT_EQ(numbers(block.frozen), (Doubles{4, 4}));
  EXPECT_NE(numbers(block.norm.weight), Doubles(3, 1));
}

// --- state

TEST(States, HaveEveryName) {
  const Net net;
  const NamedTensors state = nn::state_dict(net);
  EXPECT_EQ(state.size(), 8u + 8u + 1u + 3u);  // tied: head.weight, same_norm
  EXPECT_TRUE(find(state, "head.weight")->shares_storage(net.blocks[1].linear.weight));
  EXPECT_FALSE(find(state, "head.weight")->requires_grad());
  EXPECT_NE(find(state, "same_norm.mean"), nullptr);
}

TEST(States, AreLoadedInPlace) {
  const Net from, to;
  const Tensor weight = to.head.weight;
  from.norm->mean.fill_(7);
  const nn::LoadStateReport report = nn::load_state_dict(to, nn::state_dict(from));
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty());
  EXPECT_TRUE(weight.is_same(to.blocks[1].linear.weight));
  const Tensor x = randn({2, 3});
  EXPECT_EQ(to(x).to_vector<float>(), from(x).to_vector<float>());
  EXPECT_TRUE(weight.requires_grad() && weight.is_leaf());
}

TEST(States, AreConverted) {
  const Norm norm;
  nn::load_state_dict(norm, {{"weight", tensor({1.5, 2.5, 3.5}).to(f64)},
                             {"mean", tensor({1, 2, 3})},
                             {"count", full({}, 5.0)}});
  EXPECT_EQ(numbers(norm.weight), (Doubles{1.5, 2.5, 3.5}));
  EXPECT_EQ(norm.weight.dtype(), f32);
  EXPECT_EQ(norm.count.item<int64_t>(), 5);
  EXPECT_EQ(norm.count.dtype(), i64);
}

TEST(States, FromAnyLayout) {
  const nn::Linear linear(2, 3);
  const Tensor wide = arange(12.0).view({2, 6});
  nn::load_state_dict(linear,
                      {{"weight", wide.slice(1, 0, 6, 2).t()}, {"bias", ones({1}).expand({3})}});
  EXPECT_EQ(numbers(linear.weight), (Doubles{0, 6, 2, 8, 4, 10}));
  EXPECT_EQ(numbers(linear.bias), Doubles(3, 1));
}

TEST(States, OneNameOfTiedTensorsIsEnough) {
  const Net net;
  const Net from;
  const nn::LoadStateReport report = nn::load_state_dict(net, nn::named_tensors(from));
  EXPECT_TRUE(report.missing.empty());
  EXPECT_EQ(numbers(net.head.weight), numbers(from.head.weight));
}

TEST(States, AreAssigned) {
  Net net;
  const Tensor before = net.head.weight, bias = net.head.bias;
  NamedTensors state;
  for (const auto& [name, tensor] : nn::named_tensors(net))
    state.emplace_back(name,
                       ir::is_floating(tensor.dtype()) ? tensor.detach().to(f64) + 1 : tensor);
  const Net& same = net;
  expect_error(Errc::Argument, "expected a module that is not const",
               [&] { nn::load_state_dict(same, state, {.assign = true}); });
  nn::load_state_dict(net, state, {.assign = true});
  EXPECT_EQ(net.head.weight.dtype(), f64);
  EXPECT_TRUE(net.head.weight.is_same(net.blocks[1].linear.weight)) << "tied as before";
  EXPECT_TRUE(net.head.weight.shares_storage(*find(state, "blocks.1.linear.weight")));
  EXPECT_TRUE(net.head.weight.requires_grad() && net.head.weight.is_leaf());
  EXPECT_FALSE(net.blocks[0].frozen.requires_grad());
  EXPECT_TRUE(net.norm->weight.is_same(net.same_norm->weight));
  EXPECT_EQ(before.dtype(), f32);
  nn::load_state_dict(net, {{"head.bias", bias}}, {.strict = false, .assign = true});
  EXPECT_TRUE(net.head.bias.shares_storage(bias));
  const auto inside = compile([&](const Tensor& x) {
    nn::load_state_dict(net, {{"head.bias", x}}, {.strict = false, .assign = true});
    return x + 1;
  });
  expect_error(Errc::Trace, "assign would replace a module's tensors", [&] { inside(ones({3})); });
  expect_error(Errc::Argument, "expected [3], got [4]", [&] {
    nn::load_state_dict(net, {{"head.bias", ones({4})}}, {.strict = false, .assign = true});
  });
  EXPECT_TRUE(net.head.bias.shares_storage(bias));
}

TEST(States, OfAPart) {
  const Net net;
  const NamedTensors state = with_prefix("model", nn::state_dict(net));
  const nn::Linear head(3, 3);
  nn::load_state_dict(head, state, {.prefix = "model.head"});
  EXPECT_EQ(numbers(head.weight), numbers(net.head.weight));
  expect_error(Errc::Argument, "missing \"no.weight\", \"no.bias\"",
               [&] { nn::load_state_dict(head, state, {.prefix = "no"}); });
}

TEST(States, ThatDoNotFitChangeNothing) {
  const nn::Linear linear(2, 1);
  const Doubles before = numbers(linear.weight);
  const NamedTensors state = {{"weight", ones({1, 2})}, {"more", ones({1})}, {"less", ones({1})}};
  expect_error(Errc::Argument,
               "load_state_dict: the state does not fit the module: missing \"bias\"; unexpected "
               "\"more\", \"less\"",
               [&] { nn::load_state_dict(linear, state); });
  expect_error(Errc::Argument, "\"weight\": expected [1, 2], got [2]; missing \"bias\"",
               [&] { nn::load_state_dict(linear, {{"weight", ones({2})}}); });
  expect_error(Errc::Argument, "\"bias\": expected [1], got []", [&] {
    nn::load_state_dict(linear, {{"weight", ones({1, 2})}, {"bias", ones({})}}, {.strict = false});
  });
  expect_error(Errc::Argument, "\"bias\" twice", [&] {
    nn::load_state_dict(linear, {{"bias", ones({1})}, {"bias", ones({1})}}, {.strict = false});
  });
  EXPECT_EQ(numbers(linear.weight), before);
  const nn::LoadStateReport report = nn::load_state_dict(linear, state, {.strict = false});
  EXPECT_EQ(report.missing, Names{"bias"});
  EXPECT_EQ(report.unexpected, (Names{"more", "less"}));
  EXPECT_EQ(numbers(linear.weight), (Doubles{1, 1}));
}

TEST(States, ThroughFiles) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "net.safetensors";
  const Net saved, loaded;
  save(path, saved);
  EXPECT_EQ(load_safetensors(path).size(), 16u);
  load(path, loaded);
  const Tensor x = randn({2, 3});
  EXPECT_EQ(loaded(x).to_vector<float>(), saved(x).to_vector<float>());
  save_safetensors(path, nn::state_dict(saved));  // as PyTorch names them
  EXPECT_TRUE(load(path, loaded).missing.empty());
  EXPECT_EQ(load(path, loaded.norm, {.strict = false, .prefix = "norm"}).unexpected, Names());
}

// --- copies

TEST(Clones, AreTiedAsTheOriginal) {
  const Net net;
  const Net copy = nn::clone(net);
  EXPECT_TRUE(copy.head.weight.is_same(copy.blocks[1].linear.weight));
  EXPECT_EQ(copy.norm, copy.same_norm);
  EXPECT_NE(copy.norm, net.norm);
  EXPECT_TRUE(copy.head.weight.requires_grad() && copy.head.weight.is_leaf());
  EXPECT_FALSE(copy.blocks[0].frozen.requires_grad());
  const Tensor x = randn({2, 3});
  const auto before = net(x).to_vector<float>();
  EXPECT_EQ(copy(x).to_vector<float>(), before);
  const NoGrad no_grad;
  for (const Tensor& t : nn::parameters(copy)) t.fill_(9);
  for (const Tensor& t : nn::buffers(copy)) t.fill_(9);
  copy.scale.set(9);
  EXPECT_EQ(net(x).to_vector<float>(), before);
}

struct Views {
  Tensor row, column, every_other, wide, empty, number, other_type;
  TANDEM_FIELDS(Views, row, column, every_other, wide, empty, number, other_type)
};

TEST(Clones, ViewsOfOneMemoryStayViews) {
  const Tensor base = arange(600.0).view({20, 30});
  const Views v{base.select(0, 10),         base.select(1, 5),
                base.slice(0, 10, 20, 2),   base.select(0, 3).slice(0, 3, 4).expand({4}),
                base.slice(0, 20, 20),      full({}, 3, f64),
                base.select(0, 9).view(i32)};
  const Views copy = nn::clone(v);
  const auto check = [](const Tensor& a, const Tensor& b) {
    EXPECT_EQ(numbers(a), numbers(b));
    EXPECT_EQ(a.strides(), b.strides());
    EXPECT_EQ(a.dtype(), b.dtype());
    EXPECT_FALSE(a.shares_storage(b));
  };
  check(copy.row, v.row), check(copy.column, v.column), check(copy.every_other, v.every_other);
  check(copy.wide, v.wide), check(copy.empty, v.empty), check(copy.number, v.number);
  check(copy.other_type, v.other_type);
  copy.row.fill_(-1);
  EXPECT_EQ(numbers(copy.column)[10], -1);
  EXPECT_EQ(numbers(v.row)[0], 300);
}

TEST(Clones, HaveNoHistory) {
  const nn::Linear linear(2, 2);
  const Tensor computed = linear.weight * 2;
  linear.weight.set_grad(ones({2, 2}));
  const std::vector<Tensor> copy =
      nn::clone(std::vector<Tensor>{linear.weight, computed, Tensor()});
  EXPECT_TRUE(copy[1].is_leaf() && copy[1].requires_grad());
  EXPECT_FALSE(copy[0].grad().defined());
  EXPECT_FALSE(copy[2].defined());
}

// --- dtypes

TEST(Conversions, KeepTheTensors) {
  Net net;
  const Tensor weight = net.head.weight;
  optim::SGD optimizer(nn::parameters(net), {.lr = 0.5});
  net(ones({2, 3})).sum().backward();
  nn::to(net, f64);
  EXPECT_TRUE(weight.is_same(net.blocks[1].linear.weight));
  EXPECT_EQ(weight.dtype(), f64);
  EXPECT_EQ(weight.grad().dtype(), f64);
  EXPECT_EQ(net.norm->mean.dtype(), f64);
  EXPECT_EQ(net.norm->count.dtype(), i64);
  EXPECT_EQ(net.blocks[0].table.dtype(), i64);
  nn::zero_grad(net);
  net(ones({2, 3}, f64)).sum().backward();
  const Doubles before = numbers(weight), gradient = numbers(weight.grad());
  optimizer.step();
  for (size_t i = 0; i < before.size(); ++i)
    EXPECT_NEAR(numbers(weight)[i], before[i] - 0.5 * gradient[i], 1e-12);
}

TEST(Conversions, CompileAnew) {
  nn::Linear linear(4, 4);
  const auto fn = compile([](const nn::Linear& l, const Tensor& x) { return l(x); });
  const Tensor x = randn({2, 4}, f64);
  for (const DType dtype : {f32, f64, bf16, f32}) {
    nn::to(linear, dtype);
    const Tensor out = fn(linear, x.to(dtype));
    EXPECT_EQ(out.dtype(), dtype);
    EXPECT_TRUE(allclose(out.to(f64), linear(x.to(dtype)).to(f64), 2e-2, 2e-2));
  }
}

TEST(Conversions, MakeWhatWasSavedStale) {
  nn::Linear linear(2, 2);
  const Tensor x = ones({2, 2}).requires_grad_(), y = linear(x);
  nn::to(linear, f64);
  expect_error(Errc::Version, "", [&] { y.sum().backward(); });
}

/// As the rules of a multiplication by a number, which saves nothing.
TEST(Conversions, GradientsThatComeLateFit) {
  nn::Linear layer(2, 1);
  const Tensor y = (layer.bias * 2).sum();
  nn::to(layer, f64);
  y.backward();
  EXPECT_EQ(layer.bias.grad().dtype(), f64);
  EXPECT_EQ(layer.bias.grad().item(), 2);
}

TEST(Conversions, AreRefused) {
  nn::Linear linear(2, 2);
  expect_error(Errc::DType, "to: expected a floating dtype for a module, got i64",
               [&] { nn::to(linear, i64); });
  std::vector<Tensor> computed = {linear.weight, linear.bias * 2};
  expect_error(Errc::Autograd, "to: tensor \"1\" is the result of an operation",
               [&] { nn::to(computed, f64); });
  EXPECT_EQ(linear.weight.dtype(), f32);
  const auto fn = compile([](nn::Linear l, const Tensor& x) {
    nn::to(l, f64);
    return l(x);
  });
  expect_error(Errc::Trace, "inside a trace", [&] { fn(linear, ones({2, 2})); });
}

// --- pointers

TEST(Pointers, ToModulesAreArguments) {
  struct Shared {
    std::shared_ptr<Norm> norm, other;
    TANDEM_FIELDS(Shared, norm, other)
  };
  const auto run = [](const Shared& s, const Tensor& x) {
    if (s.norm->training) s.norm->mean.add_(x.mean(0).detach());
    const Tensor y = x * s.norm->weight + s.norm->mean;
    return s.other ? y * s.other->weight : y;
  };
  const auto fn = compile(run);
  const auto check = [&](const Shared& s) {
    const Shared eager = nn::clone(s);
    const Tensor x = randn({2, 3});
    const Tensor expected = run(eager, x), got = fn(s, x);
    EXPECT_TRUE(allclose(got, expected));
    EXPECT_TRUE(allclose(s.norm->mean, eager.norm->mean));
    got.sum().backward(), expected.sum().backward();
    EXPECT_TRUE(allclose(s.norm->weight.grad(), eager.norm->weight.grad()));
    nn::zero_grad(s);
  };
  const Shared s{std::make_shared<Norm>(), nullptr};
  check(s), check(s);
  check({s.norm, std::make_shared<Norm>()});
  check({std::make_shared<Norm>(), std::make_shared<Norm>()});
  const auto both = std::make_shared<Norm>();
  check({both, both});
  both->training = false;
  check({both, both});
}

TEST(Pointers, AreResults) {
  const auto fn = compile([](const std::shared_ptr<Norm>& n, const Tensor& x) {
    auto out = std::make_shared<Norm>(*n);
    out->weight = n->weight * x;
    return std::pair{out, n};
  });
  const auto norm = std::make_shared<Norm>();
  const auto first = fn(norm, full({3}, 2.0)), second = fn(norm, full({3}, 5.0));
  EXPECT_EQ(numbers(first.first->weight), Doubles(3, 2));
  EXPECT_EQ(numbers(second.first->weight), Doubles(3, 5));
  EXPECT_TRUE(second.second->weight.is_same(norm->weight));
  EXPECT_TRUE(norm->mean.defined());
}

}  // namespace
}  // namespace tandem
