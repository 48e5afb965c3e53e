#include <tandem/nn/attention.h>
#include <tandem/nn/init.h>
#include <tandem/nn/module.h>

#include <limits>

#include "runtime/nn/layer.h"

namespace tandem::nn {
namespace {

MultiheadAttention attention_of(Dim d_model, Dim nhead, const TransformerLayerOptions& o,
                                const SourceLocation& at) {
  return {d_model,
          nhead,
          {.dropout = o.dropout, .bias = o.bias, .batch_first = o.batch_first, .dtype = o.dtype},
          at};
}

LayerNorm norm_of(Dim d_model, const TransformerLayerOptions& o) {
  return LayerNorm(d_model, {.eps = o.layer_norm_eps, .bias = o.bias, .dtype = o.dtype});
}

/// What encoder and decoder layers have.
template <class Layer>
void take_options(Layer& layer, Dim d_model, Dim nhead, const TransformerLayerOptions& o,
                  const SourceLocation& at) {
  if (o.activation != "relu" && o.activation != "gelu")
    ir::fail(Errc::Argument, fmt::format("{}: unknown activation; expected relu or gelu, got {}",
                                         ir::ErrorScope::function(), o.activation));
  layer.activation = o.activation;
  layer.norm_first = o.norm_first;
  layer.self_attn = attention_of(d_model, nhead, o, at);
  layer.linear1 = Linear(d_model, o.dim_feedforward, o.bias, o.dtype);
  layer.linear2 = Linear(o.dim_feedforward, d_model, o.bias, o.dtype);
  for (LayerNorm* norm : {&layer.norm1, &layer.norm2}) *norm = norm_of(d_model, o);
  for (Dropout* dropout : {&layer.dropout, &layer.dropout1, &layer.dropout2})
    *dropout = Dropout{.p = o.dropout};
}

template <class Layer>
Tensor feed_forward(const Layer& layer, const Tensor& x, const Dropout& last,
                    const SourceLocation& at) {
  const Tensor hidden = layer.linear1(x, at);
  const Tensor active = layer.activation == "gelu" ? gelu(hidden, "none", at) : relu(hidden, at);
  return last(layer.linear2(layer.dropout(active, at), at), at);
}

/// x + f(norm(x)), or norm(x + f(x)).
template <class F>
Tensor around(const Tensor& x, const LayerNorm& norm, bool norm_first, const SourceLocation& at,
              const F& f) {
  if (norm_first) return add({x, at}, {f(norm(x, at)), at});
  return norm(add({x, at}, {f(x), at}), at);
}

template <class Layer>
std::vector<Layer> copies_of(const Layer& layer, int64_t count) {
  if (count < 0)
    ir::fail(Errc::Argument, fmt::format("transformer: expected at least 0 layers, got {}", count));
  std::vector<Layer> layers;
  for (int64_t i = 0; i < count; ++i) layers.push_back(clone(layer));
  return layers;
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(Dim d_model, Dim nhead,
                                                 const TransformerLayerOptions& options,
                                                 SourceLocation at) {
  const ir::ErrorScope errors(at);
  take_options(*this, d_model, nhead, options, at);
}

Tensor TransformerEncoderLayer::operator()(const Tensor& src, const EncoderMasks& masks,
                                           SourceLocation at) const {
  const ir::ErrorScope errors(at, "TransformerEncoderLayer");
  const AttendOptions attend{.key_padding_mask = masks.src_key_padding_mask,
                             .need_weights = false,
                             .attn_mask = masks.src_mask,
                             .is_causal = masks.is_causal};
  const Tensor x = around(src, norm1, norm_first, at, [&](const Tensor& t) {
    return dropout1(self_attn(t, t, t, attend, at).output, at);
  });
  return around(x, norm2, norm_first, at,
                [&](const Tensor& t) { return feed_forward(*this, t, dropout2, at); });
}

TransformerDecoderLayer::TransformerDecoderLayer(Dim d_model, Dim nhead,
                                                 const TransformerLayerOptions& options,
                                                 SourceLocation at) {
  const ir::ErrorScope errors(at);
  take_options(*this, d_model, nhead, options, at);
  multihead_attn = attention_of(d_model, nhead, options, at);
  norm3 = norm_of(d_model, options);
  dropout3 = Dropout{.p = options.dropout};
}

Tensor TransformerDecoderLayer::operator()(const Tensor& tgt, const Tensor& memory,
                                           const DecoderMasks& masks, SourceLocation at) const {
  const ir::ErrorScope errors(at, "TransformerDecoderLayer");
  const AttendOptions to_itself{.key_padding_mask = masks.tgt_key_padding_mask,
                                .need_weights = false,
                                .attn_mask = masks.tgt_mask,
                                .is_causal = masks.tgt_is_causal};
  const AttendOptions to_memory{.key_padding_mask = masks.memory_key_padding_mask,
                                .need_weights = false,
                                .attn_mask = masks.memory_mask,
                                .is_causal = masks.memory_is_causal};
  const Tensor x = around(tgt, norm1, norm_first, at, [&](const Tensor& t) {
    return dropout1(self_attn(t, t, t, to_itself, at).output, at);
  });
  const Tensor y = around(x, norm2, norm_first, at, [&](const Tensor& t) {
    return dropout2(multihead_attn(t, memory, memory, to_memory, at).output, at);
  });
  return around(y, norm3, norm_first, at,
                [&](const Tensor& t) { return feed_forward(*this, t, dropout3, at); });
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers,
                                       std::optional<LayerNorm> last)
    : layers(copies_of(layer, num_layers)), norm(std::move(last)) {}

Tensor TransformerEncoder::operator()(const Tensor& src, const EncoderMasks& masks,
                                      SourceLocation at) const {
  Tensor x = src;
  for (const TransformerEncoderLayer& layer : layers) x = layer(x, masks, at);
  return norm ? (*norm)(x, at) : x;
}

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers,
                                       std::optional<LayerNorm> last)
    : layers(copies_of(layer, num_layers)), norm(std::move(last)) {}

Tensor TransformerDecoder::operator()(const Tensor& tgt, const Tensor& memory,
                                      const DecoderMasks& masks, SourceLocation at) const {
  Tensor x = tgt;
  for (const TransformerDecoderLayer& layer : layers) x = layer(x, memory, masks, at);
  return norm ? (*norm)(x, at) : x;
}

Transformer::Transformer(Dim d_model, Dim nhead, const TransformerOptions& o, SourceLocation at) {
  const ir::ErrorScope errors(at, "Transformer");
  const TransformerLayerOptions layer{.dim_feedforward = o.dim_feedforward,
                                      .dropout = o.dropout,
                                      .activation = o.activation,
                                      .layer_norm_eps = o.layer_norm_eps,
                                      .batch_first = o.batch_first,
                                      .norm_first = o.norm_first,
                                      .bias = o.bias,
                                      .dtype = o.dtype};
  encoder = {TransformerEncoderLayer(d_model, nhead, layer, at), o.num_encoder_layers,
             norm_of(d_model, layer)};
  decoder = {TransformerDecoderLayer(d_model, nhead, layer, at), o.num_decoder_layers,
             norm_of(d_model, layer)};
  for (const Tensor& p : parameters(*this))
    if (p.dim() > 1) init::xavier_uniform_(p);
}

Tensor Transformer::operator()(const Tensor& src, const Tensor& tgt, const EncoderMasks& src_masks,
                               const DecoderMasks& tgt_masks, SourceLocation at) const {
  const ir::ErrorScope errors(at, "Transformer");
  return decoder(tgt, encoder(src, src_masks, at), tgt_masks, at);
}

Tensor Transformer::generate_square_subsequent_mask(Dim size, DType dtype, SourceLocation at) {
  return triu(full({size, size}, -std::numeric_limits<double>::infinity(), dtype, at), 1, at);
}

}  // namespace tandem::nn
