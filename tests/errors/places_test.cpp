// What an Error of an eager or traced operation says: the function that the user called, not what
// that is made of; for an undefined tensor which argument it is; and the user's line.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <functional>
#include <limits>

#include "tests/support/expect_error.h"

namespace tandem {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(),
                  kLeast = std::numeric_limits<int64_t>::min();

struct Row {
  const char* name;  // of the function
  int line;
  std::function<void()> use;
};

/// The text of the Error that `use` throws, whatever its code.
std::string text_of(const std::function<void()>& use) {
  try {
    use();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return fmt::format("another exception: {}", error.what());
  }
  return "no exception";
}

void expect_named(const Row& row, const std::string& text) {
  EXPECT_TRUE(text.starts_with(std::string(row.name) + ": ")) << row.line << ": " << text;
  EXPECT_TRUE(text.ends_with(fmt::format("places_test.cpp:{})", row.line))) << text;
  EXPECT_EQ(text.find("internal"), text.npos) << text;
}

/// Each row eagerly and inside a trace.
void expect_all_named(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    expect_named(row, text_of(row.use));
    const auto traced = compile([&](const Tensor& x) {
      row.use();
      return x + 1;
    });
    expect_named(row, text_of([&] { traced(zeros({2})); }));
  }
}

// clang-format off
#define ROW(name, ...) {name, __LINE__, [] { __VA_ARGS__; }}
// clang-format on

Tensor x() { return zeros({2, 3}); }
Tensor odd() { return zeros({4, 5}); }
Tensor labels() { return zeros({2}, i64); }
Tensor far() { return full({2}, 9, i64); }
Tensor mask() { return zeros({7}, boolean); }

TEST(Places, OfBadArguments) {
  expect_all_named({
      // pointwise
      ROW("add", x() + odd()),
      ROW("add", add(x(), odd())),
      ROW("mul", x().mul(odd())),
      ROW("add_", x().add_(odd())),
      ROW("mul_", x() *= odd()),
      ROW("eq_", x().eq_(odd())),
      ROW("lt", static_cast<void>(x() < odd())),
      ROW("pow", pow(x(), odd())),
      ROW("bitwise_and", x() & x()),
      ROW("exp_", labels().exp_()),
      ROW("maximum", maximum(x(), odd())),
      ROW("where", where(mask(), x(), odd())),
      ROW("lerp", lerp(x(), odd(), 0.5)),
      ROW("lerp_", x().lerp_(odd(), 0.5)),
      ROW("addcmul", addcmul(x(), odd(), odd())),
      ROW("addcdiv", addcdiv(x(), labels(), labels())),
      ROW("addcdiv_", x().addcdiv_(odd(), odd())),
      ROW("clamp", clamp(x(), std::nullopt)),
      ROW("clamp_", x().clamp_(std::nullopt)),
      ROW("clamp_min", clamp_min(x(), odd())),
      ROW("masked_fill", masked_fill(x(), mask(), 1)),
      ROW("masked_fill_", x().masked_fill_(mask(), 1)),
      ROW("gelu", gelu(x(), "exact")),
      ROW("gelu_", x().gelu_("exact")),
      ROW("tril", tril(zeros({2}))),
      ROW("triu_", zeros({2}).triu_()),
      ROW("copy_", x().copy_(odd())),
      ROW("fill_", x().fill_(odd())),
      ROW("fill_diagonal_", zeros({2}).fill_diagonal_(1)),
      ROW("addmm_", x().addmm_(x(), x())),
      ROW("dropout", dropout(x(), 2)),
      ROW("dropout", dropout(labels(), 0.5)),
      // reductions and losses
      ROW("sum", sum(x(), {2})),
      ROW("sum", x().sum(-3)),
      ROW("mean", mean(x(), {0, 0})),
      ROW("amax", zeros({0}).amax()),
      ROW("max", max(zeros({0}))),
      ROW("max", max(x(), 2)),
      ROW("min", x().min(kMost)),
      ROW("aminmax", aminmax(zeros({0}))),
      ROW("aminmax", x().aminmax(-3)),
      ROW("argmax", argmax(x(), 5)),
      ROW("var", var(x(), {4})),
      ROW("var_mean", var_mean(labels())),
      ROW("std_mean", std_mean(x(), {0, 0})),
      ROW("std", x().std(4)),
      ROW("logsumexp", logsumexp(x(), {3})),
      ROW("softmax", softmax(x(), 2)),
      ROW("log_softmax", x().log_softmax(kLeast)),
      ROW("layer_norm", layer_norm(x(), {2})),
      ROW("layer_norm", layer_norm(x(), {3}, zeros({2}))),
      ROW("native_layer_norm", native_layer_norm(x(), {2}, {}, {}, 0)),
      ROW("cross_entropy", cross_entropy(x(), zeros({5}, i64))),
      ROW("cross_entropy", cross_entropy(x(), labels(), "sums")),
      ROW("nll_loss", nll_loss(x(), zeros({5}, i64))),
      ROW("nll_loss", nll_loss(x(), labels(), "sums")),
      ROW("mse_loss", mse_loss(x(), odd())),
      ROW("l1_loss", l1_loss(x(), odd())),
      ROW("binary_cross_entropy_with_logits", binary_cross_entropy_with_logits(x(), odd())),
      // networks
      ROW("conv2d", conv2d(x(), x())),
      ROW("conv1d", conv1d(zeros({1, 2, 5}), zeros({3, 4, 2}))),
      ROW("conv1d", conv1d(zeros({1, 2, 5}), zeros({3, 2, 2}), zeros({2}))),
      ROW("conv1d", conv1d(zeros({1, 2, 5}), zeros({3, 2, 9}))),
      ROW("conv1d", conv1d(zeros({1, 2, 5}), zeros({3, 2, 2}), {}, {.padding = "some"})),
      ROW("conv1d", conv1d(zeros({2, 5}), zeros({3, 2, 2}), {}, {.stride = 2, .padding = "same"})),
      ROW("conv1d", conv1d(zeros({2, 5}), zeros({3, 2, 2}), {}, {.stride = {1, 1}})),
      ROW("conv3d", conv3d(zeros({1, 2, 5, 5, 5}), zeros({3, 2, 2, 2, 2}), {}, {.groups = 2})),
      ROW("conv_transpose1d",
          conv_transpose1d(zeros({2, 5}), zeros({2, 1, 2}), {}, {.output_padding = 3})),
      ROW("avg_pool2d", avg_pool2d(x(), 2)),
      ROW("avg_pool1d", avg_pool1d(zeros({2, 5}), 2, {.divisor_override = 0})),
      ROW("max_pool1d", max_pool1d(zeros({1, 2, 3}), 5)),
      ROW("max_pool1d", max_pool1d(zeros({1, 2, 3}), 2, {.padding = 2})),
      ROW("lp_pool1d", lp_pool1d(zeros({1, 2, 3}), 2, 0)),
      ROW("adaptive_avg_pool1d", adaptive_avg_pool1d(zeros({1, 2, 0}), 2)),
      ROW("adaptive_max_pool2d", adaptive_max_pool2d(x(), 2)),
      ROW("max_unpool1d", max_unpool1d(zeros({1, 2}), zeros({1, 3}, i64), 2)),
      ROW("fractional_max_pool2d", fractional_max_pool2d(zeros({1, 2, 3, 3}), 2, {})),
      ROW("fractional_max_pool2d",
          fractional_max_pool2d(zeros({2, 3, 3}), 2, {.output_size = 2, .output_ratio = {0.5}})),
      ROW("fractional_max_pool2d", fractional_max_pool2d(zeros({2, 3, 3}), 2, {.output_size = 3})),
      ROW("fractional_max_pool2d",
          fractional_max_pool2d(zeros({2, 3, 3}), 2, {.output_ratio = {1.5}})),
      ROW("fractional_max_pool2d", fractional_max_pool2d(zeros({2, 3, 3}), 2, {.output_size = 0})),
      ROW("fractional_max_pool2d",
          fractional_max_pool2d(zeros({2, 3, 3}, i64), 2, {.output_size = 2})),
      ROW("fractional_max_pool3d",
          fractional_max_pool3d(zeros({2, 3, 3, 3}), 2,
                                {.output_size = 2, .random_samples = zeros({1, 2, 2})})),
      ROW("batch_norm", batch_norm(x(), {}, {})),
      ROW("batch_norm", batch_norm(x(), zeros({2}), zeros({3}), {}, {}, true)),
      ROW("instance_norm", instance_norm(x())),
      ROW("group_norm", group_norm(x(), 2)),
      ROW("rms_norm", rms_norm(x(), {5})),
      ROW("local_response_norm", local_response_norm(x(), 2)),
      ROW("renorm", renorm(x(), 0, 1, 1)),
      ROW("pdist", pdist(zeros({2}))),
      ROW("huber_loss", huber_loss(x(), x(), "sums")),
      ROW("cross_entropy", cross_entropy(x(), labels(), {.weight = zeros({2})})),
      ROW("multi_margin_loss", multi_margin_loss(x(), labels(), 3)),
      ROW("ctc_loss", ctc_loss(zeros({3, 1, 4}), labels(), {9}, {2})),
      ROW("interpolate", interpolate(zeros({1, 2, 3}), {})),
      ROW("interpolate", interpolate(zeros({1, 2, 3}), {.size = 2, .mode = "bilinear"})),
      ROW("grid_sample", grid_sample(x(), x())),
      ROW("affine_grid", affine_grid(x(), {1})),
      ROW("pixel_shuffle", pixel_shuffle(zeros({3, 2, 2}), 2)),
      ROW("channel_shuffle", channel_shuffle(zeros({3, 2, 2}), 4)),
      ROW("im2col", im2col(zeros({1, 2, 2}), 5)),
      ROW("fold", fold(zeros({4, 5}), {4, 4}, 2)),
      ROW("dropout2d", dropout2d(x(), 2)),
      ROW("alpha_dropout", alpha_dropout(x(), -1, true)),
      ROW("scaled_dot_product_attention",
          scaled_dot_product_attention(x(), x(), x(), {.attn_mask = x(), .is_causal = true})),
      // contractions
      ROW("matmul", matmul(x(), x())),
      ROW("matmul", x().matmul(labels())),
      ROW("mm", mm(x(), x())),
      ROW("bmm", bmm(x(), x())),
      ROW("addmm", addmm(x(), x(), odd())),
      ROW("linear", linear(x(), odd())),
      ROW("linear", linear(x(), zeros({4, 3}), zeros({5}))),
      ROW("scaled_dot_product_attention", scaled_dot_product_attention(x(), odd(), odd())),
      // views
      ROW("view", x().view({5})),
      ROW("view", x().t().view({6})),
      ROW("reshape", reshape(x(), {-1, -1})),
      ROW("permute", x().permute({0, 0})),
      ROW("transpose", x().transpose(0, 2)),
      ROW("t", zeros({1, 1, 1}).t()),
      ROW("expand", x().expand({5, 3})),
      ROW("broadcast_to", broadcast_to(x(), {5, 3})),
      ROW("slice", x().slice(0, 0, 1, 0)),
      ROW("slice", x().slice(4)),
      ROW("narrow", x().narrow(0, 1, 2)),
      ROW("narrow", x().narrow(0, kMost, kMost)),
      ROW("select", x().select(0, 2)),
      ROW("select", x()[2]),
      ROW("squeeze", squeeze(x(), 2)),
      ROW("unsqueeze", x().unsqueeze(4)),
      ROW("flatten", x().flatten(1, 0)),
      ROW("diagonal", x().diagonal(0, 1, 1)),
      ROW("as_strided", x().as_strided({9}, {1})),
      ROW("as_strided", x().as_strided({2}, {kMost})),
      ROW("as_strided", x().as_strided({2}, {1, 1})),
      ROW("view_as", x().view_as(odd())),
      ROW("reshape_as", x().reshape_as(odd())),
      ROW("expand_as", x().expand_as(odd())),
      ROW("movedim", x().movedim(0, {0, 1})),
      ROW("swapaxes", x().swapaxes(0, 9)),
      ROW("matrix_transpose", zeros({2}).mT()),
      ROW("unflatten", x().unflatten(1, {2, 2})),
      ROW("unflatten", x().unflatten(7, {2, 2})),
      ROW("unfold", x().unfold(0, 3, 1)),
      ROW("chunk", x().chunk(0)),
      ROW("split", x().split(0)),
      ROW("split", x().split(1, 5)),
      ROW("split_with_sizes", x().split_with_sizes({1, 2})),
      ROW("tensor_split", x().tensor_split(0)),
      ROW("hsplit", hsplit(x(), 2)),
      ROW("vsplit", vsplit(zeros({2}), 2)),
      ROW("hsplit", zeros({}).hsplit({1, 2})),
      ROW("dsplit", x().dsplit(1)),
      ROW("split", x().split({1, 2})),
      ROW("tensor_split", x().tensor_split(zeros({2}))),
      ROW("unbind", x().unbind(2)),
      ROW("H", zeros({2}).H()),
      ROW("mH", zeros({2}).mH()),
      ROW("adjoint", zeros({2}).adjoint()),
      ROW("swapdims", x().swapdims(0, 9)),
      ROW("swapdims_", x().swapdims_(0, 9)),
      ROW("moveaxis", x().moveaxis(0, {0, 1})),
      ROW("broadcast_tensors", broadcast_tensors({x(), odd()})),
      ROW("meshgrid", meshgrid({x()})),
      ROW("imag", imag(x())),
      // rearrangements
      ROW("t_", zeros({1, 1, 1}).t_()),
      ROW("transpose_", x().transpose_(0, 2)),
      ROW("swapaxes_", x().swapaxes_(0, 2)),
      ROW("squeeze_", x().squeeze_(3)),
      ROW("unsqueeze_", x().unsqueeze_(7)),
      ROW("as_strided_", x().as_strided_({9}, {1})),
      ROW("resize_", x().resize_({-1})),
      ROW("set_", x().set_(labels())),
      // shapes
      ROW("cat", cat({x(), odd()})),
      ROW("cat", cat({x(), x()}, 2)),
      ROW("stack", stack({x(), odd()})),
      ROW("concat", concat({x(), x()}, 2)),
      ROW("concatenate", concatenate({x(), odd()})),
      ROW("hstack", hstack(std::initializer_list<Tensor>{})),
      ROW("vstack", vstack({x(), zeros({7})})),
      ROW("row_stack", row_stack({x(), zeros({7})})),
      ROW("dstack", dstack({x(), zeros({7})})),
      ROW("column_stack", column_stack({x(), zeros({7})})),
      ROW("block_diag", block_diag({zeros({1, 1, 1})})),
      ROW("roll", x().roll({1, 2}, 0)),
      ROW("roll", x().roll(1, 7)),
      ROW("fliplr", zeros({2}).fliplr()),
      ROW("flipud", zeros({}).flipud()),
      ROW("rot90", x().rot90(1, {0})),
      ROW("rot90", x().rot90(1, {0, 0})),
      ROW("repeat", x().repeat({2})),
      ROW("repeat", x().repeat({kMost, 2})),
      ROW("tile", x().tile({-1})),
      ROW("repeat_interleave", x().repeat_interleave(-1)),
      ROW("repeat_interleave", x().repeat_interleave(x())),
      ROW("diag", zeros({}).diag()),
      ROW("diag_embed", x().diag_embed(0, 1, 1)),
      ROW("pad", pad(x(), {9, 9}, "reflect")),
      ROW("linspace", linspace(0, 1, -1)),
      ROW("logspace", logspace(0, 1, -1)),
      ROW("tril_indices", tril_indices(-1, 2)),
      ROW("triu_indices", triu_indices(2, 2, 0, f32)),
      ROW("pad", pad(x(), std::vector<Dim>{1})),
      ROW("pad", pad(x(), std::vector<Dim>{kMost, kMost})),
      ROW("pad", pad(x(), std::vector<Dim>{kMost, 0})),
      ROW("pad", pad(x(), std::vector<int64_t>{kLeast, 0})),
      ROW("flip", x().flip({0, 0})),
      ROW("slice_scatter", slice_scatter(x(), odd(), 0)),
      ROW("select_scatter", select_scatter(x(), odd(), 0, 0)),
      ROW("diagonal_scatter", diagonal_scatter(x(), odd())),
      ROW("as_strided_scatter", as_strided_scatter(x(), odd(), {2}, {1})),
      // index
      ROW("index_select", index_select(x(), 0, zeros({2}))),
      ROW("gather", gather(x(), 0, labels())),
      ROW("index_add", index_add(x(), 0, labels(), odd())),
      ROW("index_add_", x().index_add_(0, labels(), odd())),
      ROW("scatter_add", scatter_add(x(), 0, labels(), x())),
      ROW("scatter_add_", x().scatter_add_(0, labels(), x())),
      ROW("scatter", scatter(x(), 0, labels(), x())),
      ROW("scatter_", x().scatter_(0, labels(), 1)),
      ROW("index_copy", index_copy(x(), 0, labels(), odd())),
      ROW("index_copy_", x().index_copy_(0, labels(), odd())),
      ROW("index_fill", index_fill(x(), 0, labels(), odd())),
      ROW("index_fill_", x().index_fill_(5, labels(), 1)),
      ROW("index", x().index({7})),
      ROW("index", x().index({0, 0, 0})),
      ROW("index", x().index({odd()})),
      ROW("nonzero_static", nonzero_static(x(), -1)),
      ROW("index_put", index_put(x(), {zeros({2})}, 1)),
      ROW("index_put_", x().index_put_({mask()}, 1)),
      ROW("masked_scatter", masked_scatter(x(), mask(), odd())),
      ROW("masked_scatter_", x().masked_scatter_(mask(), odd())),
      ROW("embedding", embedding(x(), zeros({2}))),
      // factories
      ROW("zeros", zeros({-1})),
      ROW("zeros", zeros({kMost})),
      ROW("full", full({kMost, kMost}, 1)),
      ROW("arange", arange(0, 1, 0)),
      ROW("rand", rand({2}, i64)),
      ROW("randn_like", randn_like(labels())),
      ROW("randint", randint(2, 2, {2})),
      ROW("uniform_", labels().uniform_()),
      // out forms, geometry
      ROW("add_out", add_out(x(), x(), odd())),
      ROW("size", (void)x().size(2)),
      ROW("item", x().item()),
  });
}

// Found in data: eagerly at once; in a compiled function also if nobody reads the result.
struct Lookup {
  const char* name;
  int line;
  std::function<Tensor(const Tensor& i)> use;
  Tensor index;
};

// clang-format off
#define LOOKUP(name, ...) {name, __LINE__, [](const Tensor& i) -> Tensor { return __VA_ARGS__; }, far()}
#define QUOTIENT(name, ...) {name, __LINE__, [](const Tensor& i) -> Tensor { return __VA_ARGS__; }, labels()}
// clang-format on

std::vector<Lookup> lookups() {
  return {
      LOOKUP("index_select", index_select(x(), 0, i)),
      LOOKUP("index_select", index_select(zeros({2, 0}), 0, i)),
      LOOKUP("gather", gather(x(), 0, i.view({1, 2}))),
      LOOKUP("index_add", index_add(x(), 0, i, x())),
      LOOKUP("index_add_", x().index_add_(0, i, x())),
      LOOKUP("scatter", scatter(x(), 0, i.view({2, 1}), 1)),
      LOOKUP("scatter_", x().scatter_(0, i.view({2, 1}), 1)),
      LOOKUP("scatter_add", scatter_add(x(), 0, i.view({2, 1}), x())),
      LOOKUP("index_copy", index_copy(x(), 0, i, x())),
      LOOKUP("index_fill_", x().index_fill_(0, i, 1)),
      LOOKUP("index", x().index({i})),
      LOOKUP("index", x().index({i, i})),
      LOOKUP("index_put", index_put(x(), {i}, 1)),
      LOOKUP("one_hot", one_hot(i, 4)),
      LOOKUP("embedding", embedding(x(), i)),
      LOOKUP("operator[]", x()[i]),
      LOOKUP("nll_loss", nll_loss(x(), i)),
      LOOKUP("cross_entropy", cross_entropy(x(), i)),
      QUOTIENT("floor_divide", floor_divide(ones({2}, i64), i)),
      QUOTIENT("remainder_", ones({2}, i64).remainder_(i)),
      QUOTIENT("fmod", fmod(ones({2}, i64), i)),
  };
}

TEST(Places, OfBadData) {
  for (const Lookup& row : lookups())
    expect_named({row.name, row.line, {}}, text_of([&] { row.use(row.index); }));
}

TEST(Places, OfBadDataInACompiledFunction) {
  for (const Lookup& row : lookups()) {
    const auto expect_place = [&](const auto& function) {
      const std::string text = text_of([&] { compile(function)(row.index); });
      EXPECT_TRUE(text.starts_with(fmt::format("{} (", row.name))) << row.line << ": " << text;
      EXPECT_NE(text.find(fmt::format("places_test.cpp:{})", row.line)), text.npos) << text;
    };
    expect_place([&](const Tensor& i) { return row.use(i); });
    expect_place([&](const Tensor& i) { row.use(i); });
    expect_place([&](const Tensor& i) {
      row.use(i);
      return i + 1;
    });
    expect_place([&](const Tensor& i) { return (row.use(i) * 2).zero_(); });
    expect_place([&](const Tensor& i) { return zeros_like(row.use(i)); });
  }
}

TEST(Places, OfGoodDataThatNobodyReads) {
  for (const Lookup& row : lookups()) {
    const Tensor good = ones({2}, i64);
    const auto f = compile([&](const Tensor& i) {
      row.use(i);
      return i + 1;
    });
    EXPECT_EQ(f(good).to_vector<int64_t>(), (good + 1).to_vector<int64_t>()) << row.line;
  }
}

// Which argument it is.
TEST(Places, OfUndefinedTensors) {
  struct Undefined {
    Row row;
    const char* argument;
  };
  const Tensor none;
  const auto with = [](auto use) { return [use] { use(Tensor()); }; };
  using T = const Tensor&;
  const std::vector<Undefined> cases = {
      {{"add", __LINE__, with([](T n) { n + x(); })}, "self"},
      {{"add", __LINE__, with([](T n) { x() + n; })}, "other"},
      {{"add_", __LINE__, with([](T n) { x().add_(n); })}, "other"},
      {{"add_", __LINE__, with([](T n) { n.add_(1); })}, "self"},
      {{"exp", __LINE__, with([](T n) { exp(n); })}, "self"},
      {{"matmul", __LINE__, with([](T n) { matmul(x(), n); })}, "other"},
      {{"linear", __LINE__, with([](T n) { linear(x(), n); })}, "weight"},
      {{"embedding", __LINE__, with([](T n) { embedding(x(), n); })}, "indices"},
      {{"embedding", __LINE__, with([](T n) { embedding(n, labels()); })}, "weight"},
      {{"index_add", __LINE__, with([](T n) { index_add(x(), 0, labels(), n); })}, "src"},
      {{"index_add_", __LINE__, with([](T n) { x().index_add_(0, n, x()); })}, "index"},
      {{"where", __LINE__, with([](T n) { where(n, x(), x()); })}, "condition"},
      {{"masked_fill", __LINE__, with([](T n) { masked_fill(x(), n, 1); })}, "mask"},
      {{"lerp", __LINE__, with([](T n) { lerp(x(), n, 0.5); })}, "end"},
      {{"addcmul", __LINE__, with([](T n) { addcmul(x(), x(), n); })}, "tensor2"},
      {{"cross_entropy", __LINE__, with([](T n) { cross_entropy(x(), n); })}, "target"},
      {{"mse_loss", __LINE__, with([](T n) { mse_loss(x(), n); })}, "target"},
      {{"cat", __LINE__, with([](T n) { cat({x(), n}); })}, "one of the tensors"},
      {{"view", __LINE__, with([](T n) { n.view({1}); })}, "self"},
      {{"slice_scatter", __LINE__, with([](T n) { slice_scatter(x(), n, 0); })}, "src"},
  };
  for (const auto& [row, argument] : cases) {
    const std::string text = text_of(row.use);
    expect_named(row, text);
    EXPECT_NE(text.find(fmt::format("undefined tensor as {}", argument)), text.npos) << text;
  }
  // Those that ask for a property first say at least which function.
  for (const Row& row : std::vector<Row>{
           ROW("split", Tensor().split(1)),
           ROW("narrow", Tensor().narrow(0, 0, 1)),
           ROW("unbind", Tensor().unbind()),
           ROW("layer_norm", layer_norm(Tensor(), {2})),
           ROW("zeros_like", zeros_like(Tensor())),
           ROW("t_", Tensor().t_()),
           ROW("add_out", add_out(Tensor(), x(), x())),
       }) {
    const std::string text = text_of(row.use);
    expect_named(row, text);
    EXPECT_NE(text.find("undefined tensor"), text.npos) << text;
  }
}

// What the last of many recompilations names.
TEST(Places, OfARecompilation) {
  struct Settings {
    std::vector<int> widths;
    double eps = 0;
    bool flag = false;
    std::string mode = "a";
    TANDEM_FIELDS(Settings, widths, eps, flag, mode)
  };
  auto warning = [n = 0](const std::function<void(Settings&, int)>& change) mutable {
    ++n;
    const auto f = compile([](const Tensor& t, const Settings& s, int n) {
      // Whatever changes, there is another number of steps to take, and so new machine code.
      Tensor y = t * s.eps;
      for (int i = 0; i < n; ++i) y = atan(y);
      for (int i = 0; i < static_cast<int>(4 * s.eps) + s.mode[0] - 'a'; ++i) y = sin(y);
      for (size_t i = 0; i < s.widths.size(); ++i) y = i == 1 ? exp(y) : tanh(y);
      for (int i = 0; s.widths.size() > 1 && i < -s.widths[1]; ++i) y = cos(y);
      return y;
    });
    ::testing::internal::CaptureStderr();
    for (int i = 0; i < 8; ++i) {
      Settings s{{1, 2}};
      change(s, i);
      f(zeros({2}), s, n);
    }
    return ::testing::internal::GetCapturedStderr();
  };
  const auto expect_says = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), text.npos) << text;
  };
  expect_says(warning([](Settings& s, int i) { s.eps = i / 4.0; }),
              "x1.eps: expected 1.500000, got 1.750000");
  expect_says(warning([](Settings& s, int i) { s.widths[1] = -i; }),
              "x1.widths.1: expected -6, got -7");
  expect_says(warning([](Settings& s, int i) { s.widths.resize(static_cast<size_t>(i)); }),
              "size of x1.widths: expected 6, got 7");
  expect_says(
      warning([](Settings& s, int i) { s.mode = std::string(1, static_cast<char>('a' + i)); }),
      "x1.mode: another value");
}

}  // namespace
}  // namespace tandem
