// Structures of tensors: fields of bases, weights that several fields share, and what users write
// them with.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <array>
#include <sstream>

#include "tests/support/temporary_folder.h"

namespace tandem {
namespace {

using Floats = std::vector<float>;

// --- bases

struct Base {
  Tensor weight = ones({2}).requires_grad_();
  double scale = 2;
  TANDEM_FIELDS(Base, weight, scale)
};
struct Derived : Base {
  Tensor bias = zeros({2}).requires_grad_();
  TANDEM_FIELDS_AND_BASE(Derived, Base, bias)
};
struct Last : Derived {
  std::vector<Tensor> more = {zeros({2})};
  TANDEM_FIELDS_AND_BASE(Last, Derived, more)
};
struct Renamed : Base {};

template <class Module>
std::vector<std::string> names_of(const Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : nn::named_tensors(module)) names.push_back(name);
  return names;
}

TEST(Structure, FieldsOfBasesComeFirst) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_of(Renamed()), (Names{"weight"}));
  EXPECT_EQ(names_of(Derived()), (Names{"weight", "bias"}));
  EXPECT_EQ(names_of(Last()), (Names{"weight", "bias", "more.0"}));
}

TEST(Structure, FieldsOfBasesAreArgumentsAndResults) {
  const auto f = compile([](const Last& l) {
    Last out = l;
    out.bias = l.weight * l.scale + l.bias;
    out.more.push_back(l.more[0] + 1);
    return out;
  });
  const Last out = f(Last());
  EXPECT_EQ(out.bias.to_vector<float>(), Floats({2, 2}));
  EXPECT_EQ(out.more[1].to_vector<float>(), Floats({1, 1}));
  Last other;
  other.scale = 5;  // guarded, though it is a field of the base's base
  EXPECT_EQ(f(other).bias.to_vector<float>(), Floats({5, 5}));
}

// --- shared weights

/// A language model whose output layer is the embedding.
struct Tied {
  nn::Embedding tokens{3, 2};
  nn::Linear head{2, 3, false};
  TANDEM_FIELDS(Tied, tokens, head)
  Tied() { head.weight = tokens.weight; }
  Tensor operator()(const Tensor& i) const { return head(tokens(i)); }
};

TEST(TiedWeights, AreListedOnce) {
  const Tied tied;
  EXPECT_EQ(names_of(tied), std::vector<std::string>{"tokens.weight"});
  ASSERT_EQ(nn::parameters(tied).size(), 1u);
  EXPECT_TRUE(nn::parameters(tied)[0].is_same(tied.head.weight));
  Tied untied;
  untied.head.weight = untied.tokens.weight.detach();
  EXPECT_EQ(nn::named_tensors(untied).size(), 2u);
}

/// One step of `Optimizer` by hand on a weight used twice, and through a list that names it twice.
template <class Optimizer, class Options>
void expect_one_update(const Options& options) {
  const Tensor w = full({2}, 3).requires_grad_(), same = full({2}, 3).requires_grad_();
  Optimizer once({same}, options), twice({w, w}, options);
  EXPECT_EQ(twice.parameters().size(), 1u);
  for (int step = 0; step < 3; ++step) {
    for (const Tensor& t : {w, same}) t.set_grad(full({2}, 1 + step));
    once.step(), twice.step();
  }
  EXPECT_EQ(w.to_vector<float>(), same.to_vector<float>());
}

TEST(TiedWeights, AreUpdatedOnce) {
  expect_one_update<optim::SGD>(optim::SgdOptions{.lr = 0.5});
  expect_one_update<optim::SGD>(optim::SgdOptions{.lr = 0.5, .momentum = 0.9});
  expect_one_update<optim::AdamW>(optim::AdamWOptions{.lr = 0.5});
}

TEST(TiedWeights, StayTiedThroughFiles) {
  const testing::TemporaryFolder folder;
  const std::string path = folder / "tied.safetensors";
  const Tied saved;
  save(path, saved);
  EXPECT_EQ(load_safetensors(path).size(), 1u);
  Tied loaded;
  load(path, loaded);
  EXPECT_EQ(loaded.head.weight.to_vector<float>(), saved.tokens.weight.to_vector<float>());
  EXPECT_TRUE(loaded.head.weight.is_same(loaded.tokens.weight));
}

TEST(TiedWeights, TrainCompiledAsEagerly) {
  const auto weights_after = [](bool compiled) {
    manual_seed(3);
    const Tied model;
    optim::SGD sgd(nn::parameters(model), {.lr = 0.1});
    const auto loss = [](const Tied& m, const Tensor& i) { return m(i).square().mean(); };
    const auto fast = compile(loss);
    for (int step = 0; step < 3; ++step) {
      const Tensor i = tensor({0, 2, 2});
      (compiled ? fast(model, i) : loss(model, i)).backward();
      sgd.step();
      sgd.zero_grad();
    }
    return model.tokens.weight.to_vector<float>();
  };
  const Floats eager = weights_after(false), compiled = weights_after(true);
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(eager[i], compiled[i], 1e-5) << i;
}

TEST(Optimizers, TakeNoUndefinedParameters) {
  EXPECT_THROW(optim::SGD({ones({1}), Tensor()}), Error);
  EXPECT_THROW(optim::AdamW({Tensor()}), Error);
}

// --- spellings

TEST(Spelling, TensorsAreStreamed) {
  std::ostringstream out;
  out << tensor({1, 2}) << " and " << Tensor();
  EXPECT_EQ(out.str(), tensor({1, 2}).to_string() + " and undefined tensor");
}

TEST(Spelling, ListsOfAnyIntegersAreDimensions) {
  const std::vector<int64_t> dims = {0, 1}, padding = {1, 0}, cuts = {1};
  const Tensor x = ones({2, 3});
  EXPECT_EQ(x.sum(dims).item(), 6);
  EXPECT_EQ(pad(x, padding).sizes(), (Shape{2, 4}));
  EXPECT_EQ(tensor_split(x, cuts).size(), 2u);
}

// Every writing form has one that makes a new tensor.
TEST(Spelling, MethodsWithAndWithoutUnderscore) {
  const Tensor x = arange(6.0).view({2, 3}) - 2, index = tensor({0, 1, 0}).view({1, 3});
  const Tensor rows = tensor({1, 0}), src = full({2, 3}, 9), mask = x > 0;
  const auto expect_same = [&](const Tensor& fresh, auto write) {
    const Tensor target = x.clone();
    write(target);
    EXPECT_EQ(fresh.to_vector<float>(), target.to_vector<float>());
    EXPECT_FALSE(fresh.shares_storage(x));
  };
  expect_same(x.scatter(0, index, 7), [&](const Tensor& t) { t.scatter_(0, index, 7); });
  expect_same(x.scatter_add(0, index, src),
              [&](const Tensor& t) { t.scatter_add_(0, index, src); });
  expect_same(x.index_add(0, rows, src), [&](const Tensor& t) { t.index_add_(0, rows, src); });
  expect_same(x.index_copy(0, rows, src), [&](const Tensor& t) { t.index_copy_(0, rows, src); });
  expect_same(x.index_fill(0, rows, 4), [&](const Tensor& t) { t.index_fill_(0, rows, 4); });
  expect_same(x.index_put({rows}, src), [&](const Tensor& t) { t.index_put_({rows}, src); });
  expect_same(x.masked_scatter(mask, src), [&](const Tensor& t) { t.masked_scatter_(mask, src); });
  expect_same(x.addcmul(src, src, 2), [&](const Tensor& t) { t.addcmul_(src, src, 2); });
  expect_same(x.addcdiv(src, src, 2), [&](const Tensor& t) { t.addcdiv_(src, src, 2); });
  expect_same(x.clamp_min(0), [&](const Tensor& t) { t.clamp_min_(0); });
  expect_same(x.clamp_max(0), [&](const Tensor& t) { t.clamp_max_(0); });
  expect_same(x.leaky_relu(0.5), [&](const Tensor& t) { t.leaky_relu_(0.5); });
  expect_same(x.elu(), [&](const Tensor& t) { t.elu_(); });
  expect_same(x.celu(), [&](const Tensor& t) { t.celu_(); });
  expect_same(x.gelu("tanh"), [&](const Tensor& t) { t.gelu_("tanh"); });
  expect_same(x.hardtanh(), [&](const Tensor& t) { t.hardtanh_(); });
  expect_same(x.nan_to_num(), [&](const Tensor& t) { t.nan_to_num_(); });
  expect_same(ones({2, 2}).matmul(src) + x, [&](const Tensor& t) { t.addmm_(ones({2, 2}), src); });
  EXPECT_EQ(x.reshape_as(ones({3, 2})).sizes(), (Shape{3, 2}));
  EXPECT_EQ(x.hsplit(3).size(), 3u);
  EXPECT_EQ(x.vsplit(2).size(), 2u);
  EXPECT_EQ(x.select_scatter(ones({3}), 0, 1).sum().item(), 0);
}

}  // namespace
}  // namespace tandem
