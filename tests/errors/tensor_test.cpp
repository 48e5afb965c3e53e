// Bad arguments to the public API, eager and compiled: an Error with a stable code that says what
// was expected and what came, and nothing is changed.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace tandem {
namespace {

using ir::Errc;
using testing::expect_error;
using Floats = std::vector<float>;

TEST(BadTensors, Shapes) {
  const Tensor a = zeros({2, 3}), b = zeros({4, 3});
  expect_error(Errc::Shape, "expected equal sizes", [&] { add(a, b); });
  expect_error(Errc::Shape, "[2, 3] and [4, 3]", [&] { mm(a, b); });
  expect_error(Errc::Shape, "[2, 3]", [&] { a.add_(b); });
  expect_error(Errc::Shape, "expected sizes with 6 elements", [&] { a.view({4, 2}); });
  expect_error(Errc::Shape, "sizes do not fit", [&] { cat({a, zeros({2, 3, 1})}, 0); });
  expect_error(Errc::Index, "expected", [&] { a.select(0, 2); });
  expect_error(Errc::Index, "expected", [&] { sum(a, {2}); });
  EXPECT_EQ(a.to_vector<float>(), Floats(6, 0));
  EXPECT_EQ(a.version(), 0u);
}

TEST(BadTensors, Dtypes) {
  const Tensor x = zeros({2, 2}), n = zeros({2, 2}, i64), mask = zeros({2, 2}, boolean);
  expect_error(Errc::DType, "expected equal dtypes, got f32[2, 2] and i64[2, 2]",
               [&] { mm(x, n); });
  expect_error(Errc::DType, "sub: not defined for bool; expected numbers", [&] { mask - mask; });
  expect_error(Errc::DType, "expected integers, got bool", [&] { shift_left(mask, mask); });
  expect_error(Errc::DType, "expected integers or bool, got f32", [&] { bitwise_and(x, x); });
  expect_error(Errc::DType, "got i64 and i64", [&] { addcdiv(x, n, n); });
  expect_error(Errc::DType, "expected i64 or i32, got f32", [&] { embedding(x, x); });
  expect_error(Errc::DType, "expected", [&] { n.add_(x); });
  expect_error(Errc::DType, "expected class numbers in i64", [&] { cross_entropy(x, zeros({2})); });
  EXPECT_EQ(n.to_vector<int64_t>(), std::vector<int64_t>(4, 0));
}

TEST(BadTensors, Arguments) {
  const Tensor x = zeros({2, 3}), mask = zeros({2, 3}, boolean);
  expect_error(Errc::Argument, "hardtanh: min is above max", [&] { hardtanh(x, 1, -1); });
  expect_error(Errc::Argument, "hardtanh_: min is above max", [&] { x.hardtanh_(1, -1); });
  EXPECT_EQ(hardtanh(x, 1, 1).to_vector<float>(), Floats(6, 1));
  for (const Tensor& value : {ones({1}), ones({2, 3})}) {
    expect_error(Errc::Shape, "masked_fill: value is not one element",
                 [&] { masked_fill(x, mask, value); });
    expect_error(Errc::Shape, "masked_fill_: value is not one element",
                 [&] { x.masked_fill_(mask, value); });
    expect_error(Errc::Shape, "masked_fill: value is not one element",
                 [&] { compile([&](const Tensor& t) { return masked_fill(t, mask, value); })(x); });
    expect_error(Errc::Shape, "fill_: value is not one element", [&] { x.fill_(value); });
    expect_error(Errc::Shape, "fill_: value is not one element",
                 [&] { compile([&](const Tensor& t) { t.fill_(value); })(x); });
  }
  EXPECT_EQ(x.version(), 0u);
}

TEST(BadTensors, OptimizerOptions) {
  const std::vector<Tensor> w{ones({2}).requires_grad_()};
  for (const optim::SgdOptions& o :
       {optim::SgdOptions{.lr = -1}, optim::SgdOptions{.momentum = -0.1},
        optim::SgdOptions{.weight_decay = -1}})
    expect_error(Errc::Argument, "out of range; expected a number >= 0, got -",
                 [&] { optim::SGD(w, o); });
  for (const optim::SgdOptions& o :
       {optim::SgdOptions{.nesterov = true},
        optim::SgdOptions{.momentum = 0.9, .dampening = 0.1, .nesterov = true}})
    expect_error(Errc::Argument, "SGD: nesterov expected a momentum > 0",
                 [&] { optim::SGD(w, o); });
  for (const optim::AdamWOptions& o :
       {optim::AdamWOptions{.lr = -1}, optim::AdamWOptions{.eps = -1},
        optim::AdamWOptions{.weight_decay = -1}})
    expect_error(Errc::Argument, "out of range; expected a number >= 0, got -1",
                 [&] { optim::AdamW(w, o); });
  for (double beta : {-0.1, 1.0, std::nan("")}) {
    expect_error(Errc::Argument, "beta1 out of range; expected 0 <= beta < 1",
                 [&] { optim::AdamW(w, {.beta1 = beta}); });
    expect_error(Errc::Argument, "beta2 out of range; expected 0 <= beta < 1",
                 [&] { optim::AdamW(w, {.beta2 = beta}); });
  }
  optim::AdamW(w, {.lr = 0, .beta1 = 0, .beta2 = 0});
}

/// What a call that fails must leave as it was.
struct Caller {
  Tensor weight = ones({4, 2}).requires_grad_(), total = full({3, 2}, 5), count = zeros({}, i64);
  TANDEM_FIELDS(Caller, weight, total, count)
  void expect_unchanged() const {
    EXPECT_EQ(weight.to_vector<float>(), Floats(8, 1));
    EXPECT_EQ(total.to_vector<float>(), Floats(6, 5));
    EXPECT_EQ(count.item<int64_t>(), 0);
    for (const Tensor& t : {weight, total, count}) EXPECT_EQ(t.version(), 0u);
    EXPECT_FALSE(weight.grad().defined());
    EXPECT_FALSE(total.requires_grad());
  }
};

TEST(BadTensors, AnEmbeddingIndexOutside) {
  for (int64_t bad : {-1, 4}) {
    const Tensor index = full({3}, bad, i64);
    const auto compiled = compile([](const Caller& c, const Tensor& i) {
      c.count.add_(1);
      c.total.mul_(2.0);
      c.total.add_(embedding(c.weight, i));
      return c.total * 3.0;
    });
    const Caller caller;
    const std::string expected = "expected 0 <= index < 4, got " + std::to_string(bad);
    expect_error(Errc::Index, expected, [&] { embedding(caller.weight, index); });
    expect_error(Errc::Index, expected, [&] { compiled(caller, index); });
    caller.expect_unchanged();
    // The variant that failed works on.
    EXPECT_EQ(compiled(caller, full({3}, 2, i64)).to_vector<float>(), Floats(6, 33));
    EXPECT_EQ(caller.count.item<int64_t>(), 1);
  }
}

/// A compiled function that writes before `bad`, which throws while it is traced.
template <class Bad>
void expect_trace_error(Errc code, const std::string& part, const Bad& bad) {
  const auto compiled = compile([&](const Caller& c) {
    c.count.add_(1);
    c.total.add_(c.weight.slice(0, 0, 3));
    bad(c);
    return sum(c.total);
  });
  const Caller caller;
  for (int call = 0; call < 2; ++call) expect_error(code, part, [&] { compiled(caller); });
  caller.expect_unchanged();
}

TEST(BadTensors, ShapesAndDtypesInACompiledFunction) {
  expect_trace_error(Errc::Shape, "[4, 2] and [3, 2]", [](const Caller& c) { c.weight + c.total; });
  expect_trace_error(Errc::Shape, "inner sizes differ",
                     [](const Caller& c) { mm(c.total, c.weight); });
  expect_trace_error(Errc::DType, "expected i64 or i32, got f32",
                     [](const Caller& c) { embedding(c.weight, c.total); });
  expect_trace_error(Errc::DType, "expected",
                     [](const Caller& c) { c.count.add_(c.weight.sum()); });
}

TEST(BadTensors, DataIsNotReadInsideATrace) {
  expect_trace_error(Errc::Trace, "expected", [](const Caller& c) { c.total.sum().item(); });
  expect_trace_error(Errc::Trace, "expected", [](const Caller& c) { c.total.to_vector<float>(); });
  expect_trace_error(Errc::Trace, "expected", [](const Caller& c) {
    if (c.count.item<int64_t>() > 0) c.total.neg_();
  });
}

// --- files

class TensorFiles : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder;
  const std::string path = folder / "weights.safetensors";
  nn::Linear module{2, 1};
  const Floats weights = module.weight.to_vector<float>();

  void expect_refused(const std::string& part) {
    expect_error(Errc::File, part, [&] { load(path, module); });
    EXPECT_EQ(module.weight.to_vector<float>(), weights);
    EXPECT_EQ(module.weight.version(), 0u);
  }
};

TEST_F(TensorFiles, ThatAreMissingOrTruncated) {
  expect_refused("cannot open");
  save(path, nn::Linear(2, 1));
  const auto size = std::filesystem::file_size(path);
  for (uintmax_t shorter = size; shorter-- > 0;) {
    std::filesystem::resize_file(path, shorter);
    expect_refused("safetensors: ");
  }
}

TEST_F(TensorFiles, OfAnotherModule) {
  save_safetensors(path, {{"bias", zeros({1})}, {"weights", zeros({1, 2})}});
  expect_refused("missing \"weight\"; unexpected \"weights\"");
  save_safetensors(path, {{"bias", zeros({1})}, {"weight", zeros({2, 1})}});
  expect_refused(
      "weights.safetensors: the state does not fit the module: \"weight\": expected "
      "[1, 2], got [2, 1]");
  save_safetensors(path, {{"bias", zeros({1})}, {"more", zeros({1})}, {"weight", zeros({1, 2})}});
  expect_refused("unexpected \"more\"");
}

}  // namespace
}  // namespace tandem
