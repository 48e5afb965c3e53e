// Options and operands that layers refuse.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/expect_error.h"

namespace tandem {
namespace {

using testing::error_of;
using testing::expect_error;

TEST(BadLayers, Convolutions) {
  using nn::Conv1d, nn::Conv2d, nn::ConvTranspose2d;
  expect_error(Errc::Argument,
               "Conv2d: groups do not fit; expected a divisor of 4 and 6 channels, "
               "got 4",
               [] { Conv2d(4, 6, 3, {.groups = 4}); });
  expect_error(Errc::Argument, "got 0", [] { ConvTranspose2d(4, 6, 3, {.groups = 0}); });
  expect_error(Errc::Argument,
               "Conv1d: unknown padding_mode; expected zeros, reflect, replicate "
               "or circular, got mirror",
               [] { Conv1d(2, 2, 3, {.padding_mode = "mirror"}); });
  expect_error(Errc::Argument, "padding \"same\" expected a stride of 1, got 2",
               [] { Conv2d(2, 2, 3, {.stride = {1, 2}, .padding = "same"}); });
  expect_error(Errc::Argument, "unknown padding; expected numbers, same or valid, got full",
               [] { Conv1d(2, 2, 3, {.padding = "full"}); });
  expect_error(Errc::Argument, "wrong number of numbers in kernel_size; expected one, or 2",
               [] { Conv2d(2, 2, {3, 3, 3}); });
  expect_error(Errc::Shape, "expected 3 or", [] { Conv2d(2, 2, 3)(zeros({2, 4})); });
  expect_error(Errc::Shape, "Conv2d",
               [] { Conv2d(2, 2, 3, {.padding = 1, .padding_mode = "circular"})(zeros({2})); });
  expect_error(Errc::Argument, "ConvTranspose2d: output_size out of range; expected 7 to 8, got 9",
               [] { ConvTranspose2d(2, 2, 3, {.stride = 2})(zeros({2, 3, 3}), {7, 9}); });
  expect_error(Errc::Argument, "undefined tensor as input", [] { Conv1d(2, 2, 3)(Tensor()); });
}

TEST(BadLayers, ErrorsNameTheLine) {
  expect_error(Errc::Argument, fmt::format("layers_test.cpp:{})", __LINE__ + 1),
               [] { nn::Dropout{2}; });
  const std::string text = error_of([] { nn::Conv2d(4, 6, 3, {.groups = 4}); }, Errc::Argument);
  EXPECT_NE(text.find("layers_test.cpp"), std::string::npos) << text;
}

TEST(BadLayers, Norms) {
  const nn::BatchNorm1d norm(3);
  expect_error(Errc::Shape, "BatchNorm1d: wrong number of dimensions; expected 2 or 3, got [3]",
               [&] { norm(zeros({3})); });
  expect_error(Errc::Shape, "BatchNorm2d", [] { nn::BatchNorm2d(3)(zeros({2, 3, 4})); });
  expect_error(Errc::Shape, "more than one value per channel", [&] { norm(zeros({1, 3})); });
  expect_error(Errc::Shape, "does not fit the channels", [&] { norm(ones({4, 2})); });
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 0);
  EXPECT_EQ(norm.running_var.to_vector<float>(), std::vector<float>(3, 1));
  expect_error(Errc::Shape, "InstanceNorm1d", [] { nn::InstanceNorm1d(3)(zeros({3})); });
  expect_error(Errc::Argument,
               "GroupNorm: num_groups does not fit; expected a divisor of 6 "
               "channels, got 4",
               [] { nn::GroupNorm(4, 6); });
  expect_error(Errc::Shape, "", [] { nn::LayerNorm({2, 3})(zeros({3, 2})); });
  expect_error(Errc::Shape, "", [] { nn::RMSNorm(3)(zeros({3, 2})); });
}

TEST(BadLayers, Embeddings) {
  expect_error(Errc::Index, "Embedding: padding_idx out of range; expected -3 to 2, got 3",
               [] { nn::Embedding(3, 2, {.padding_idx = 3}); });
  expect_error(Errc::Argument, "no sparse gradients",
               [] { nn::Embedding(3, 2, {.sparse = true}); });
  expect_error(Errc::Argument, "unknown mode; expected sum, mean or max, got min",
               [] { nn::EmbeddingBag(3, 2, {.mode = "min"}); });
  expect_error(Errc::Shape, "expected a table", [] { nn::Embedding::from_pretrained(zeros({3})); });
  expect_error(Errc::Index, "expected 0 <= index < 3", [] { nn::Embedding(3, 2)(tensor({3})); });
}

TEST(BadLayers, DropoutsAndActivations) {
  const Tensor x = zeros({2, 3, 4});
  for (const double p : {-0.1, 1.1}) {
    const std::string problem = fmt::format("Dropout: expected a probability, got {}", p);
    expect_error(Errc::Argument, problem, [&] { nn::Dropout{p}; });
    expect_error(Errc::Argument, problem, [&] { nn::AlphaDropout{.p = p}; });
    expect_error(Errc::Argument, problem, [&] { nn::FeatureAlphaDropout{p}; });
    expect_error(Errc::Argument, "Dropout1d: expected a probability", [&] { nn::Dropout1d{p}; });
    expect_error(Errc::Argument, "Dropout2d: expected a probability", [&] { nn::Dropout2d{p}; });
    expect_error(Errc::Argument, "Dropout3d: expected a probability", [&] { nn::Dropout3d{p}; });
    expect_error(Errc::Argument, "TransformerEncoderLayer: expected a probability",
                 [&] { nn::TransformerEncoderLayer(4, 2, {.dropout = p}); });
    nn::Dropout later;
    later.p = p;
    expect_error(Errc::Argument, "expected a probability", [&] { later(x); });
  }
  expect_error(Errc::Argument, "Hardtanh: min is above max",
               [&] { nn::Hardtanh{.min_val = 1, .max_val = 0}; });
  expect_error(Errc::Argument, "gelu", [&] { nn::GELU{.approximate = "sigmoid"}(x); });
  expect_error(Errc::Shape, "prelu", [&] { nn::PReLU(2)(x); });
}

TEST(BadLayers, PoolsAndShapes) {
  expect_error(Errc::Argument, "MaxPool2d: wrong number of numbers in kernel_size",
               [] { nn::MaxPool2d({1, 2, 3}); });
  expect_error(Errc::Argument, "AdaptiveAvgPool1d: wrong number of numbers in output_size",
               [] { nn::AdaptiveAvgPool1d({1, 2}); });
  expect_error(Errc::Shape, "MaxPool1d", [] { nn::MaxPool1d(2)(zeros({3})); });
  expect_error(Errc::Argument, "expected either an output_size or an output_ratio, got none",
               [] { nn::FractionalMaxPool2d(2, {}); });
  expect_error(Errc::Argument, "between 0 and 1, got [2]",
               [] { nn::FractionalMaxPool2d(2, {.output_ratio = {2.0}}); });
  expect_error(Errc::Argument, "wrong number of numbers in padding",
               [] { nn::ReflectionPad2d({1, 2}); });
  expect_error(Errc::Shape, "expected 2 or 3", [] { nn::ReflectionPad1d(1)(zeros({3})); });
  expect_error(Errc::Argument, "", [] { nn::Upsample{.mode = "cubic"}(zeros({1, 1, 2})); });
  expect_error(Errc::Shape, "", [] { nn::PixelShuffle{2}(zeros({1, 3, 2, 2})); });
}

TEST(BadLayers, Attention) {
  using nn::MultiheadAttention;
  expect_error(Errc::Argument,
               "MultiheadAttention: num_heads does not fit; expected a divisor of "
               "6, got 4",
               [] { MultiheadAttention(6, 4); });
  expect_error(Errc::Argument, "kv_heads does not fit; expected a divisor of 4, got 3",
               [] { MultiheadAttention(8, 4, {.kv_heads = 3}); });
  const MultiheadAttention a(4, 2);
  const Tensor x = zeros({3, 2, 4});
  expect_error(Errc::Shape, "attn_mask does not fit; expected [3, 3] or [4, 3, 3], got [2, 3]",
               [&] { a(x, x, x, {.attn_mask = zeros({2, 3})}); });
  expect_error(Errc::Shape, "key_padding_mask does not fit",
               [&] { a(x, x, x, {.key_padding_mask = zeros({3, 2}, boolean)}); });
  expect_error(Errc::DType, "attn_mask expected bool or a floating dtype, got i64",
               [&] { a(x, x, x, {.attn_mask = zeros({3, 3}, i64)}); });
  expect_error(Errc::Shape, "wrong number of dimensions", [&] { a(x, x[0], x); });
  expect_error(Errc::Argument, "unknown activation; expected relu or gelu, got elu",
               [] { nn::TransformerEncoderLayer(4, 2, {.activation = "elu"}); });
  for (const int64_t dim : {0, 3, 6})
    expect_error(Errc::Argument, "expected an even number from 2 to 4",
                 [&] { nn::RotaryEmbedding{.dim = dim}(x); });
}

TEST(BadLayers, Recurrent) {
  using nn::GRU, nn::LSTM, nn::RNN;
  expect_error(Errc::Argument, "RNN: unknown nonlinearity; expected tanh or relu, got elu",
               [] { RNN(2, 3, {.nonlinearity = "elu"}); });
  expect_error(Errc::Argument, "GRU: nonlinearity is of RNN",
               [] { GRU(2, 3, {.nonlinearity = "tanh"}); });
  expect_error(Errc::Argument, "GRU: proj_size is of LSTM", [] { GRU(2, 3, {.proj_size = 1}); });
  expect_error(Errc::Argument, "LSTM: proj_size out of range; expected 0 to 2, got 3",
               [] { LSTM(2, 3, {.proj_size = 3}); });
  expect_error(Errc::Argument, "expected at least 1 layer, got 0",
               [] { LSTM(2, 3, {.num_layers = 0}); });
  expect_error(Errc::Argument, "expected a probability as dropout, got 2",
               [] { LSTM(2, 3, {.num_layers = 2, .dropout = 2}); });
  expect_error(Errc::Argument, "expected sizes of at least 0 and 1", [] { RNN(2, 0); });
  const LSTM lstm(2, 3);
  expect_error(Errc::Shape, "LSTM: the input's last size does not fit; expected 2, got [4, 1, 3]",
               [&] { lstm(zeros({4, 1, 3})); });
  expect_error(Errc::Shape, "the state does not fit; expected [1, 1, 3], got [1, 2, 3]",
               [&] { lstm(zeros({4, 1, 2}), {zeros({1, 2, 3}), zeros({1, 1, 3})}); });
  expect_error(Errc::Shape, "expected at least one step", [&] { lstm(zeros({0, 1, 2})); });
  expect_error(Errc::Shape, "wrong number of dimensions", [&] { lstm(zeros({2})); });
  expect_error(Errc::Argument, "no weight of this name", [&] { lstm.weight("weight_ih_l1"); });
  expect_error(Errc::Shape, "GRUCell: the state does not fit; expected [1, 3], got [3]",
               [] { nn::GRUCell(2, 3)(zeros({1, 2}), zeros({3})); });
}

TEST(BadLayers, Losses) {
  const Tensor x = zeros({2, 3});
  expect_error(Errc::Argument, "", [&] { nn::MSELoss{.reduction = "average"}(x, x); });
  expect_error(Errc::Argument, "", [&] { nn::HuberLoss{.delta = 0}(x, x); });
  expect_error(Errc::Argument, "MultiMarginLoss: expected p of 1 or 2, got 3",
               [] { nn::MultiMarginLoss{.p = 3}; });
  expect_error(Errc::Argument, "TripletMarginLoss: expected a margin above 0, got -1",
               [] { nn::TripletMarginLoss{.margin = -1}; });
  expect_error(Errc::Shape, "",
               [&] { nn::CrossEntropyLoss{.weight = ones({2})}(x, zeros({2}, i64)); });
}

}  // namespace
}  // namespace tandem
