// Attention, layers of transformers, rotary embeddings.
#include <limits>

#include "tests/training/layers/layer_training.h"

namespace tandem::testing {
namespace {

using nn::AttendOptions, nn::MultiheadAttention, nn::MultiheadAttentionOptions;

/// Output and weights in one; `options` are made of the inputs behind query, key and value.
template <class Make>
LayerCase attention(const std::string& name, const MultiheadAttentionOptions& o, Tensors inputs,
                    Make options) {
  const auto call = [=](const MultiheadAttention& a, const Tensors& x) {
    const auto [output, weights] = a(x[0], x[1], x[2], options(x));
    return weights.defined() ? cat({output.flatten(), weights.flatten()}) : output;
  };
  return {name, [=] { return any_layer(MultiheadAttention(6, 2, o), call); }, std::move(inputs)};
}
LayerCase attention(const std::string& name, const MultiheadAttentionOptions& o, Tensors inputs) {
  return attention(name, o, std::move(inputs), [](const Tensors&) { return AttendOptions{}; });
}

std::vector<LayerCase> attention_cases() {
  const Tensor q = wave({3, 2, 6}), k = wave({4, 2, 6}, 1), v = wave({4, 2, 6}, 2);
  const Tensor padding = tensor({{0, 0, 1, 0}, {0, 1, 0, 1}}).to(boolean);
  const Tensor mask = numbers({3, 4}, 3) == 0, added = wave({4, 3, 4}, 3);
  return {
      attention("attention", {.dtype = f64}, {q, k, v}),
      attention("attention_batch_first", {.bias = false, .batch_first = true, .dtype = f64},
                {wave({2, 3, 6}), wave({2, 4, 6}, 1), wave({2, 4, 6}, 2)}),
      attention("attention_one", {.dtype = f64}, {wave({3, 6}), wave({4, 6}, 1), wave({4, 6}, 2)}),
      attention("attention_sizes", {.kdim = 3, .vdim = 5, .dtype = f64},
                {q, wave({4, 2, 3}), wave({4, 2, 5})}),
      attention("attention_rows", {.add_bias_kv = true, .add_zero_attn = true, .dtype = f64},
                {q, k, v, padding, mask},
                [](const Tensors& x) {
                  return AttendOptions{.key_padding_mask = x[3], .attn_mask = x[4]};
                }),
      attention("attention_heads", {.dtype = f64}, {q, k, v, added, padding},
                [](const Tensors& x) {
                  return AttendOptions{
                      .key_padding_mask = x[4], .attn_mask = x[3], .average_attn_weights = false};
                }),
      attention("attention_no_weights", {.dtype = f64}, {q, k, v, padding, mask},
                [](const Tensors& x) {
                  return AttendOptions{
                      .key_padding_mask = x[3], .need_weights = false, .attn_mask = x[4]};
                }),
      {"attention_causal",
       [] {
         return any_layer(
             MultiheadAttention(6, 3, {.dtype = f64}), [](const auto& a, const Tensors& x) {
               return a(x[0], x[0], x[0], {.need_weights = false, .is_causal = true}).output;
             });
       },
       {wave({4, 2, 6})}},
  };
}
TANDEM_LAYER_CASES(AttentionLayers, attention_cases)

std::vector<LayerCase> transformer_cases() {
  const nn::TransformerLayerOptions post{.dim_feedforward = 8, .dropout = 0, .dtype = f64};
  const nn::TransformerLayerOptions pre{.dim_feedforward = 8,
                                        .dropout = 0,
                                        .activation = "gelu",
                                        .layer_norm_eps = 1e-3,
                                        .batch_first = true,
                                        .norm_first = true,
                                        .bias = false,
                                        .dtype = f64};
  const auto decode = [](const auto& l, const Tensors& x) { return l(x[0], x[1]); };
  return {
      {"encoder_layer",
       [=] { return any_layer(nn::TransformerEncoderLayer(4, 2, post)); },
       {wave({3, 2, 4})}},
      {"encoder_layer_first",
       [=] {
         return any_layer(nn::TransformerEncoderLayer(4, 2, pre),
                          [](const auto& l, const Tensors& x) {
                            return l(x[0], {.src_key_padding_mask = x[1]});
                          });
       },
       {wave({2, 3, 4}), tensor({{0, 0, 1}, {0, 1, 0}}).to(boolean)}},
      {"encoder",
       [=] {
         return any_layer(
             nn::TransformerEncoder(nn::TransformerEncoderLayer(4, 2, post), 2,
                                    nn::LayerNorm(4, {.dtype = f64})),
             [](const auto& l, const Tensors& x) { return l(x[0], {.is_causal = true}); });
       },
       {wave({3, 2, 4})}},
      {"decoder_layer",
       [=] { return any_layer(nn::TransformerDecoderLayer(4, 2, post), decode); },
       {wave({3, 2, 4}), wave({5, 2, 4}, 1)}},
      {"decoder",
       [=] {
         return any_layer(
             nn::TransformerDecoder(nn::TransformerDecoderLayer(4, 2, pre), 2),
             [](const auto& l, const Tensors& x) {
               return l(x[0], x[1],
                        {.tgt_mask = x[2], .memory_key_padding_mask = x[3], .tgt_is_causal = true});
             });
       },
       {wave({2, 3, 4}), wave({2, 5, 4}, 1), ones({3, 3}).triu(1).to(boolean),
        tensor({{0, 0, 1, 0, 0}, {0, 0, 0, 1, 1}}).to(boolean)}},
  };
}
TANDEM_LAYER_CASES(TransformerLayers, transformer_cases)

std::vector<LayerCase> whole_cases() {
  const nn::TransformerOptions post{.num_encoder_layers = 1,
                                    .num_decoder_layers = 2,
                                    .dim_feedforward = 8,
                                    .dropout = 0,
                                    .dtype = f64};
  nn::TransformerOptions pre = post;
  pre.activation = "gelu", pre.layer_norm_eps = 1e-3, pre.bias = false;
  pre.batch_first = pre.norm_first = true;
  const auto call = [](const nn::Transformer& l, const Tensors& x) { return l(x[0], x[1]); };
  const auto masked = [](const nn::Transformer& l, const Tensors& x) {
    return l(x[0], x[1], {.src_key_padding_mask = x[3]},
             {.tgt_mask = x[2], .memory_key_padding_mask = x[3], .tgt_is_causal = true});
  };
  return {
      {"transformer",
       [=] { return any_layer(nn::Transformer(4, 2, post), call); },
       {wave({5, 2, 4}), wave({3, 2, 4}, 1)}},
      {"transformer_masks",
       [=] { return any_layer(nn::Transformer(4, 2, pre), masked); },
       {wave({2, 5, 4}), wave({2, 3, 4}, 1), ones({3, 3}).triu(1).to(boolean),
        tensor({{0, 0, 1, 0, 0}, {0, 0, 0, 1, 1}}).to(boolean)}},
      {"transformer_one",
       [=] { return any_layer(nn::Transformer(4, 2, post), call); },
       {wave({5, 4}), wave({3, 4}, 1)}},
  };
}
TANDEM_LAYER_CASES(Transformers, whole_cases)

TEST(Transformers, AreXaviersAtFirst) {
  manual_seed(3);
  const nn::Transformer t(
      16, 2, {.num_encoder_layers = 1, .num_decoder_layers = 1, .dim_feedforward = 48});
  const double most = std::sqrt(6.0 / 64);
  EXPECT_NEAR(t.encoder.layers[0].linear1.weight.abs().max().item(), most, 0.01);
  EXPECT_NEAR(t.decoder.layers[0].multihead_attn.in_proj_weight.abs().max().item(), most, 0.01);
  EXPECT_TRUE(t.encoder.norm && t.decoder.norm);
}

TEST(Transformers, TheMaskLetsNobodySeeWhatComes) {
  const Tensor mask = nn::Transformer::generate_square_subsequent_mask(3, f64);
  const double none = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(mask.to_vector<double>(), (std::vector<double>{0, none, none, 0, 0, none, 0, 0, 0}));
  EXPECT_EQ(nn::Transformer::generate_square_subsequent_mask(2).dtype(), f32);
}

TEST(TransformerLayers, CopiesHaveParametersOfTheirOwn) {
  const nn::TransformerEncoderLayer layer(4, 2);
  const nn::TransformerEncoder encoder(layer, 2);
  const Tensor &first = encoder.layers[0].linear1.weight,
               &second = encoder.layers[1].linear1.weight;
  EXPECT_TRUE(first.equal(layer.linear1.weight));
  EXPECT_FALSE(first.shares_storage(second) || first.shares_storage(layer.linear1.weight));
  EXPECT_EQ(nn::parameters(encoder).size(), 2 * nn::parameters(layer).size());
}

TEST(TransformerLayers, DropInTraining) {
  nn::TransformerEncoderLayer layer(4, 2, {.dim_feedforward = 8, .dropout = 0.5});
  const Tensor x = wave({3, 2, 4}).to(f32);
  EXPECT_FALSE(layer(x).equal(layer(x)));
  nn::eval(layer);
  EXPECT_TRUE(layer(x).equal(layer(x)));
}

TEST(AttentionLayers, ParametersAtFirst) {
  manual_seed(3);
  const MultiheadAttention a(16, 4, {.add_bias_kv = true});
  EXPECT_EQ(a.in_proj_weight.sizes(), (Shape{48, 16}));
  EXPECT_NEAR(a.in_proj_weight.abs().max().item(), std::sqrt(6.0 / 64), 0.01);
  EXPECT_EQ(a.in_proj_bias.abs().max().item(), 0);
  EXPECT_EQ(a.out_proj.bias.abs().max().item(), 0);
  EXPECT_EQ(a.bias_k.sizes(), (Shape{1, 1, 16}));
}

/// Fewer heads of keys and values give what as many do whose weights repeat.
TEST(AttentionLayers, GroupedQueries) {
  manual_seed(3);
  const MultiheadAttention grouped(8, 4, {.kv_heads = 2, .dtype = f64});
  MultiheadAttention full(8, 4, {.dtype = f64});
  EXPECT_EQ(grouped.in_proj_weight.sizes(), (Shape{16, 8}));
  {
    const NoGrad no_grad;
    const auto parts = split_with_sizes(grouped.in_proj_weight, std::vector<int>{8, 4, 4}, 0);
    const auto twice = [](const Tensor& t) {
      return repeat_interleave(t.view({2, 2, 8}), 2, 0).view({8, 8});
    };
    full.in_proj_weight.copy_(cat({parts[0], twice(parts[1]), twice(parts[2])}));
    full.out_proj.weight.copy_(grouped.out_proj.weight);
  }
  const Tensor x = wave({5, 2, 8});
  for (const bool need_weights : {false, true}) {
    const AttendOptions o{.need_weights = need_weights, .is_causal = true};
    EXPECT_TRUE(grouped(x, x, x, o).output.allclose(full(x, x, x, o).output, 1e-10, 1e-12));
  }
}

TEST(AttentionLayers, OneTensorOrThreeEqualOnes) {
  const MultiheadAttention a(6, 2, {.dtype = f64});
  const Tensor x = wave({3, 2, 6});
  const auto one = a(x, x, x), three = a(x, x.clone(), x.clone());
  EXPECT_TRUE(one.output.allclose(three.output, 1e-12, 1e-12));
  EXPECT_TRUE(one.weights.sum({-1}).allclose(ones({2, 3}, f64), 1e-12));
}

// --- rotary embeddings

/// By hand: pairs turned by position * base^(-2 i / dim).
std::vector<double> turned(const std::vector<double>& x, int64_t steps, int64_t size, int64_t dim,
                           bool interleaved, double first_position) {
  std::vector<double> out = x;
  for (int64_t t = 0; t < steps; ++t)
    for (int64_t i = 0; i < dim / 2; ++i) {
      const double angle =
          (first_position + static_cast<double>(t)) *
          std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
      const int64_t a = t * size + (interleaved ? 2 * i : i), b = a + (interleaved ? 1 : dim / 2);
      out[a] = x[a] * std::cos(angle) - x[b] * std::sin(angle);
      out[b] = x[b] * std::cos(angle) + x[a] * std::sin(angle);
    }
  return out;
}

TEST(RotaryEmbeddings, TurnPairsBothWays) {
  const Tensor x = wave({5, 8});
  for (const bool interleaved : {false, true})
    for (const int64_t dim : {8, 6, 2}) {
      const nn::RotaryEmbedding rotary{.dim = dim, .interleaved = interleaved};
      const auto expected = [&](double first) {
        return from_data(turned(x.to_vector<double>(), 5, 8, dim, interleaved, first), {5, 8});
      };
      EXPECT_TRUE(rotary(x).allclose(expected(0), 1e-12, 1e-12));
      EXPECT_TRUE(rotary(x, arange(7, 12)).allclose(expected(7), 1e-12, 1e-12));
      const auto f = compile([&](const Tensor& t) { return rotary(t); });
      EXPECT_TRUE(f(x).allclose(expected(0), 1e-12, 1e-12));
      EXPECT_TRUE(rotary(x.to(f32)).allclose(expected(0).to(f32), 1e-5, 1e-5));
    }
}

TEST(RotaryEmbeddings, PositionsOfEachRow) {
  const nn::RotaryEmbedding rotary{.dim = 4};
  const Tensor x = wave({2, 3, 5, 4});
  const Tensor positions = stack({arange(5), arange(10, 15)}).view({2, 1, 5});
  const Tensor y = rotary(x, positions);
  EXPECT_TRUE(y[0].allclose(rotary(x[0]), 1e-12));
  EXPECT_TRUE(y[1].allclose(rotary(x[1], arange(10, 15)), 1e-12));
  EXPECT_EQ(rotary(x.to(bf16)).dtype(), bf16);
}

}  // namespace
}  // namespace tandem::testing
