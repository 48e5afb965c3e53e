// Tensors of no dimension and of many, and losses over any number of them. Expected values are
// PyTorch's.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/check_compiled.h"
#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

using Values = std::vector<double>;

Values values(const Tensor& t) { return t.to(f64).to_vector<double>(); }

Tensor at(std::initializer_list<int64_t> list) {
  const std::vector<int64_t> v(list);
  return from_data(v, {static_cast<int64_t>(v.size())});
}
const Tensor kFirst = zeros({}, i64);  // a 0-d index

/// Eager and compiled, with gradients.
void check(const std::function<Tensor(const Tensor&)>& body, const Shape& sizes) {
  check_compiled([&](const Tensors& in) { return Tensors{body(in[0])}; },
                 MakeInputs([&](Source& s) { return Tensors{s.noise(sizes, 1)}; }));
}

// --- no dimension

struct Case {
  const char* name;
  std::function<Tensor(const Tensor&)> body;
  Shape sizes;
  Values expected;  // of 3.0
};

const std::vector<Case> kOfNone{
    {"index_select", [](const Tensor& x) { return index_select(x, 0, at({0})); }, {}, {3}},
    {"index_select_0d", [](const Tensor& x) { return index_select(x, -1, kFirst); }, {}, {3}},
    {"gather", [](const Tensor& x) { return gather(x, 0, at({0, 0})); }, {2}, {3, 3}},
    {"gather_0d", [](const Tensor& x) { return gather(x, 0, kFirst); }, {}, {3}},
    {"gather_none", [](const Tensor& x) { return gather(x, 0, at({})); }, {0}, {}},
    {"scatter", [](const Tensor& x) { return scatter(x, 0, at({0}), x * 2); }, {}, {6}},
    {"scatter_two",
     [](const Tensor& x) { return scatter(x, 0, at({0, 0}), stack({x, x * 2})); },
     {},
     {6}},
    {"scatter_number", [](const Tensor& x) { return scatter(x, -1, kFirst, 5); }, {}, {5}},
    {"scatter_add", [](const Tensor& x) { return scatter_add(x, 0, kFirst, x * 2); }, {}, {9}},
    {"index_add", [](const Tensor& x) { return index_add(x, 0, at({0}), x * 2); }, {}, {9}},
    {"index_add_0d", [](const Tensor& x) { return index_add(x, 0, kFirst, x * 2); }, {}, {9}},
    {"index_copy", [](const Tensor& x) { return index_copy(x, 0, at({0}), x * 2); }, {}, {6}},
    {"index_copy_of_one",
     [](const Tensor& x) { return index_copy(x, 0, kFirst, (x * 2).view({1})); },
     {},
     {6}},
    {"index_fill", [](const Tensor& x) { return index_fill(x, 0, at({0, -1}), 5) + x; }, {}, {8}},
    {"index_fill_none", [](const Tensor& x) { return index_fill(x, 0, at({}), 5); }, {}, {3}},
    {"squeeze", [](const Tensor& x) { return x.squeeze(0) * 1; }, {}, {3}},
    {"transpose", [](const Tensor& x) { return x.transpose(0, -1) * 1; }, {}, {3}},
    {"swapaxes", [](const Tensor& x) { return x.swapaxes(0, 0) * 1; }, {}, {3}},
    {"movedim", [](const Tensor& x) { return x.movedim(0, -1) * 1; }, {}, {3}},
    {"flip", [](const Tensor& x) { return flip(x, {-1}); }, {}, {3}},
    {"unfold", [](const Tensor& x) { return x.unfold(0, 1, 1) * 1; }, {1}, {3}},
    {"unfold_nothing", [](const Tensor& x) { return x.unfold(0, 0, 1) * 1; }, {0}, {}},
    {"scatter_", [](const Tensor& x) { return (x * 1).scatter_(0, at({0}), 5) + x; }, {}, {8}},
    {"squeeze_", [](const Tensor& x) { return (x * 1).squeeze_(0) + x; }, {}, {6}},
    {"transpose_", [](const Tensor& x) { return (x * 1).transpose_(0, 0) + x; }, {}, {6}},
};

TEST(NoDimension, CountsAsOneOfOneElement) {
  for (const Case& c : kOfNone) {
    SCOPED_TRACE(c.name);
    const Tensor result = c.body(tensor(3.0));
    EXPECT_EQ(to_string(result.sizes()), to_string(c.sizes));
    EXPECT_EQ(values(result), c.expected);
    check(c.body, {});
  }
}

TEST(NoDimension, IsNoneBeyondThat) {
  const Tensor x = tensor(3.0);
  const auto refused = [&](Errc code, const std::string& text,
                           const std::function<Tensor(const Tensor&)>& body) {
    expect_error(code, text, [&] { body(x); });
    expect_error(code, text, [&] { compile(body)(x); });
  };
  for (int64_t dim : {1, -2}) {
    refused(Errc::Index, "squeeze: dim", [=](const Tensor& t) { return t.squeeze(dim); });
    refused(Errc::Index, "transpose: dim", [=](const Tensor& t) { return t.transpose(dim, 0); });
    refused(Errc::Index, "flip: dim", [=](const Tensor& t) { return flip(t, {dim}); });
    refused(Errc::Index, "unfold: dim", [=](const Tensor& t) { return t.unfold(dim, 1, 1); });
    refused(Errc::Index, "gather: dim", [=](const Tensor& t) { return gather(t, dim, kFirst); });
    refused(Errc::Index, "index_add: dim",
            [=](const Tensor& t) { return index_add(t, dim, kFirst, t); });
    refused(Errc::Index, "index_fill: dim",
            [=](const Tensor& t) { return index_fill(t, dim, kFirst, 1); });
  }
  refused(Errc::Shape, "index_select: index does not fit",
          [](const Tensor& t) { return index_select(t, 0, at({0, 0})); });
  refused(Errc::Shape, "index_add: src",
          [](const Tensor& t) { return index_add(t, 0, at({0}), ones({1})); });
  refused(Errc::Index, "index out of range", [](const Tensor& t) { return gather(t, 0, at({1})); });
  refused(Errc::Shape, "index_fill: index is not a vector",
          [](const Tensor& t) { return index_fill(t, 0, zeros({1, 1}, i64), 1); });
}

TEST(Squeeze, TellsNoDimsFromAll) {
  const Tensor x = ones({1, 2, 1});
  EXPECT_EQ(x.squeeze().sizes(), Shape({2}));
  EXPECT_EQ(x.squeeze({}).sizes(), Shape({1, 2, 1}));
  EXPECT_EQ(squeeze(x, std::vector<int64_t>{}).sizes(), Shape({1, 2, 1}));
  EXPECT_EQ(x.clone().squeeze_({}).sizes(), Shape({1, 2, 1}));
  check([](const Tensor& t) { return t.squeeze({}) * 2; }, {1, 2, 1});
}

TEST(IndexFill, GivesEachPlaceOneGradient) {
  const Tensor v = tensor(5.0).requires_grad_(), x = zeros({3}).requires_grad_();
  index_fill(x, 0, at({0, 0, -3, 2}), v).sum().backward();
  EXPECT_EQ(values(v.grad()), Values({2}));
  EXPECT_EQ(values(x.grad()), Values({0, 1, 0}));
  check_compiled(
      [](const Tensors& in) { return Tensors{index_fill(in[0], 1, at({1, 1, -2}), in[1].sum())}; },
      MakeInputs([](Source& s) { return Tensors{s.noise({2, 3, 2}, 1), s.noise({2}, 2)}; }));
}

// --- many dimensions

/// [2, 1, 3, 1, 1, 2, 1, ...]: every kind of neighbour.
Shape many_sizes(int rank) {
  Shape sizes = Shape::filled(rank, 1);
  sizes[0] = 2;
  sizes[2] = 3;
  sizes[5] = 2;
  sizes[rank - 1] = 5;
  return sizes;
}

std::vector<int> reversed(int rank) {
  std::vector<int> order;
  for (int d = rank; d-- > 0;) order.push_back(d);
  return order;
}

const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> kOfMany{
    {"pointwise", [](const Tensor& x) { return sin(x) * x + 1; }},
    {"permuted",
     [](const Tensor& x) { return x.permute(reversed(static_cast<int>(x.dim()))) * 2; }},
    {"broadcast",
     [](const Tensor& x) {
       Shape sizes = x.sizes();
       sizes[1] = 2, sizes[4] = 3, sizes[7] = 2;
       return x.expand(sizes) * x + ones({5});
     }},
    {"gapped", [](const Tensor& x) { return x.slice(-1, 0, {}, 2).transpose(0, 5) * 2; }},
    {"sum", [](const Tensor& x) { return x.sum({0, 5}); }},
    {"sum_of_permuted", [](const Tensor& x) { return x.transpose(0, -1).sum({2, -1}, true); }},
    {"amax_of_all", [](const Tensor& x) { return x.amax(); }},
    {"var", [](const Tensor& x) { return x.var({2, -1}); }},
    {"softmax", [](const Tensor& x) { return softmax(x, 2); }},
    {"layer_norm", [](const Tensor& x) { return layer_norm(x, {x.size(-1)}); }},
    {"max_with_indices",
     [](const Tensor& x) {
       const auto [values, indices] = max(x, 2, true);
       return x * values + indices.to(f32);
     }},
    {"var_mean",
     [](const Tensor& x) {
       const auto [var, mean] = var_mean(x, {2, -1});
       return var * mean;
     }},
    {"argmax", [](const Tensor& x) { return x * argmax(x, 2, true).to(f32); }},
    {"index_select", [](const Tensor& x) { return index_select(x, 2, at({2, 0, 2, 1})); }},
    {"gather", [](const Tensor& x) { return gather(x, 2, (x > 0).to(i64)); }},
    {"scatter_add", [](const Tensor& x) { return scatter_add(x, 2, (x > 0).to(i64), x); }},
    {"cat", [](const Tensor& x) { return cat({x, x * 2}, 4); }},
    {"flip", [](const Tensor& x) { return flip(x, {0, -1}); }},
    {"pad", [](const Tensor& x) { return pad(x, {1, 2, 0, 1}, 3); }},
    {"matmul", [](const Tensor& x) { return matmul(x.transpose(2, -2), x.transpose(2, -2).mT()); }},
    {"written",
     [](const Tensor& x) {
       const Tensor y = x * 1;
       y.transpose(0, -1).select(0, 1).mul_(3);
       y.diagonal(0, 0, 2).zero_();
       return y * y;
     }},
    {"reshaped", [](const Tensor& x) { return x.transpose(0, -1).reshape({-1}) * 2; }},
    {"half", [](const Tensor& x) { return (x.to(bf16) * x.to(bf16)).sum({0}).to(f32); }},
};

TEST(ManyDimensions, SixteenEagerAndCompiled) {
  for (int rank : {9, 12, 16})
    for (const auto& [name, body] : kOfMany) {
      SCOPED_TRACE(name + (" of " + std::to_string(rank)));
      check(body, many_sizes(rank));
    }
}

TEST(ManyDimensions, MoreAreRefused) {
  const std::string text = "too many dimensions; expected at most 16, got 17";
  expect_error(Errc::Shape, text, [] { zeros(std::vector<Dim>(17, 1)); });
  const Tensor x = zeros(Shape::filled(16, 1));
  for (const auto& body : std::vector<std::function<Tensor(const Tensor&)>>{
           [](const Tensor& t) { return t.unsqueeze(0); },
           [](const Tensor& t) { return stack({t, t}); },
           [](const Tensor& t) { return t.unfold(0, 1, 1); },
           [](const Tensor& t) { return one_hot(t.to(i64), 2); }}) {
    expect_error(Errc::Shape, text, [&] { body(x); });
    expect_error(Errc::Shape, text, [&] { compile(body)(x); });
  }
}

// --- losses

Tensor logits() { return tensor({{1, 2, 3}, {2, 0, 1}}, f32); }
Tensor probabilities() { return tensor({{.1, .2, .7}, {.5, .5, .2}}); }

void expect_near(const Tensor& t, const Values& expected) {
  const Values got = values(t);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    if (std::isnan(expected[i]))
      EXPECT_TRUE(std::isnan(got[i]));
    else
      EXPECT_NEAR(got[i], expected[i], 1e-5);
}

TEST(NllLoss, IgnoresAndTakesAnyDims) {
  const double nan = std::nan("");
  const Tensor one = log(tensor({.1, .2, .7})), two = stack({one, one * 2});
  for (const char* reduction : {"none", "mean", "sum"}) {
    const bool mean = std::string(reduction) == "mean";
    const auto loss = [&](const Tensor& p, const Tensor& t) { return nll_loss(p, t, reduction); };
    EXPECT_EQ(loss(one, tensor(1)).sizes(), Shape());
    expect_near(loss(one, tensor(1)), {1.609438});
    expect_near(loss(one, at({1})), {1.609438});
    expect_near(loss(one, tensor(-100)), {mean ? nan : 0});
    expect_near(loss(two, at({1, -100})).sum(), {1.609438});
    expect_near(nll_loss(two, at({1, 0}), reduction, 1).sum(), {4.605170});
    expect_near(loss(two.slice(0, 0, 0), at({})).sum(), {mean ? nan : 0});
  }
  EXPECT_EQ(nll_loss(ones({2, 3, 4, 5}), zeros({2, 4, 5}, i64), "none").sizes(), Shape({2, 4, 5}));
  for (const char* reduction : {"none", "mean", "sum"}) {
    check([=](const Tensor& x) { return nll_loss(x, at({2, -100, 0, 1}), reduction); }, {4, 3});
    check([=](const Tensor& x) { return nll_loss(x, at({2}), reduction); }, {3});
    check([=](const Tensor& x) { return nll_loss(x, at({2, 1, 0, 1}).view({2, 2}), reduction); },
          {2, 3, 2});
  }
}

TEST(CrossEntropy, TakesClassProbabilities) {
  const Tensor x = logits(), p = probabilities();
  expect_near(cross_entropy(x, p, "none"), {.807606, 1.689127});
  expect_near(cross_entropy(x, p, "none", -100, .1), {.867606, 1.660975});
  expect_near(cross_entropy(x, p), {1.248367});
  expect_near(cross_entropy(x, p, "sum", -100, .1), {2.528581});
  expect_near(cross_entropy(x[0], p[0], "none"), {.807606});
  expect_near(cross_entropy(x[0], p[0], "mean", -100, .1), {.867606});
  expect_near(cross_entropy(x.slice(0, 0, 0), p.slice(0, 0, 0)), {std::nan("")});
  const Tensor deep = x.unsqueeze(2).expand({2, 3, 2}), deep_p = p.unsqueeze(2).expand({2, 3, 2});
  expect_near(cross_entropy(deep, deep_p, "none"), {.807606, .807606, 1.689127, 1.689127});
  expect_near(cross_entropy(deep, deep_p, "sum", -100, .1), {5.057161});
  EXPECT_EQ(cross_entropy(x.to(f16), p.to(f16)).dtype(), f16);
  EXPECT_EQ(cross_entropy(x.to(f16), p).dtype(), f32);
}

TEST(CrossEntropy, DifferentiatesClassProbabilities) {
  const Tensor p = probabilities().requires_grad_();
  cross_entropy(logits(), p, "mean", -100, .1).backward();
  expect_near(p.grad(), {1.083423, .633423, .183423, .183423, 1.083423, .633423});
  for (const char* reduction : {"none", "mean", "sum"})
    for (double smoothing : {0.0, 0.1})
      check_compiled(
          [=](const Tensors& in) {
            return Tensors{cross_entropy(in[0], in[1], reduction, -100, smoothing)};
          },
          MakeInputs(
              [](Source& s) { return Tensors{s.noise({4, 3, 2}, 1), s.noise({4, 3, 2}, 2)}; }));
}

TEST(Losses, Refuse) {
  const Tensor x = logits(), p = probabilities();
  expect_error(Errc::Argument, "ignore_index beside class probabilities",
               [&] { cross_entropy(x, p, "mean", 1); });
  expect_error(Errc::Argument, "label_smoothing out of range",
               [&] { cross_entropy(x, p, "mean", -100, 2); });
  expect_error(Errc::DType, "cross_entropy", [&] { cross_entropy(x, p.slice(1, 0, 2)); });
  expect_error(Errc::Argument, "unknown reduction", [&] { cross_entropy(x, p, "average"); });
  expect_error(Errc::Shape, "nll_loss: no dimension of classes",
               [] { nll_loss(tensor(1.0), tensor(0)); });
  expect_error(Errc::Shape, "nll_loss: target does not fit", [&] { nll_loss(x, at({1})); });
  expect_error(Errc::Argument, "unknown reduction", [&] { nll_loss(x, at({1, 2}), "average"); });
  for (int64_t label : {3, -1})
    expect_error(Errc::Index, "out of range", [&] { nll_loss(x, at({1, label})); });
}

}  // namespace
}  // namespace tandem::testing
