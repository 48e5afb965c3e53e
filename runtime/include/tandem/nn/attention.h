// Attention, and the layers of transformers.
#ifndef TANDEM_NN_ATTENTION_H
#define TANDEM_NN_ATTENTION_H

#include <tandem/nn/dropout.h>
#include <tandem/nn/linear.h>
#include <tandem/nn/normalization.h>

namespace tandem::nn {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

struct MultiheadAttentionOptions {
  double dropout = 0;  // of the attention weights
  bool bias = true, add_bias_kv = false, add_zero_attn = false;
  int64_t kdim = 0, vdim = 0;  // 0: embed_dim
  bool batch_first = false;
  int64_t kv_heads = 0;  // heads of keys and values, each for several of queries; 0: num_heads
  DType dtype = f32;
};

/// Of one call. Masks as in PyTorch: bool, true where not to attend, or floating, added to the
/// scores.
struct AttendOptions {
  Tensor key_padding_mask = {};  // [n, s] or [s]
  bool need_weights = true;
  Tensor attn_mask = {};  // [l, s] or [n num_heads, l, s]
  bool average_attn_weights = true;
  bool is_causal = false;  // that attn_mask is causal; without one, such a mask is made
};

/// output: as the query; weights [n, l, s], or of each head [n, num_heads, l, s]: undefined unless
/// they are needed.
struct AttentionResult {
  Tensor output, weights;
  TANDEM_LAZY_FIELDS(AttentionResult, output, weights)
};

/// torch.nn.MultiheadAttention: in_proj_weight [3 embed, embed] (of fewer heads of keys and values
/// [embed + 2 kv_heads head_dim, embed]), or with other sizes of keys or values q_proj_weight,
/// k_proj_weight and v_proj_weight; in_proj_bias; out_proj; bias_k and bias_v [1, 1, embed].
/// Error{Argument} for heads that do not divide embed_dim.
struct MultiheadAttention {
  Tensor in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias;
  Linear out_proj;
  Tensor bias_k, bias_v;
  int64_t embed_dim = 0, num_heads = 1, kv_heads = 1;
  double dropout = 0;
  bool batch_first = false, add_zero_attn = false, training = true;
  TANDEM_LAZY_FIELDS(MultiheadAttention, in_proj_weight, q_proj_weight, k_proj_weight,
                     v_proj_weight, in_proj_bias, out_proj, bias_k, bias_v, embed_dim, num_heads,
                     kv_heads, dropout, batch_first, add_zero_attn, training)

  MultiheadAttention() = default;
  TANDEM_API MultiheadAttention(Dim embed_dim, Dim num_heads,
                                const MultiheadAttentionOptions& options = {}, TANDEM_AT);
  /// query [l, n, embed], key [s, n, kdim], value [s, n, vdim]; with batch_first n comes first; or
  /// all without n.
  TANDEM_API AttentionResult operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                        const AttendOptions& options = {}, TANDEM_AT) const;
};

/// Turns pairs of numbers by angles that grow with their position: of x [..., t, d] the first `dim`
/// of the last dimension. Pairs lie half of dim apart, as in Llama, or side by side (interleaved).
struct RotaryEmbedding {
  int64_t dim = 0;
  double base = 10000;
  bool interleaved = false;
  TANDEM_LAZY_FIELDS(RotaryEmbedding, dim, base, interleaved)
  /// positions: 0, 1, ... if left out, else [t], or of sizes that broadcast to x's without the
  /// last. Error{Argument} for a dim that is odd or more than d.
  TANDEM_API Tensor operator()(const Tensor& x, const Tensor& positions = {}, TANDEM_AT) const;
};

/// activation: "relu" or "gelu". norm_first: norms come before what they are added around.
struct TransformerLayerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string_view activation = "relu";
  double layer_norm_eps = 1e-5;
  bool batch_first = false, norm_first = false, bias = true;
  DType dtype = f32;
};

/// Masks as in AttendOptions.
struct EncoderMasks {
  Tensor src_mask = {}, src_key_padding_mask = {};
  bool is_causal = false;
};
struct DecoderMasks {
  Tensor tgt_mask = {}, memory_mask = {}, tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool tgt_is_causal = false, memory_is_causal = false;
};

/// Self-attention, then two linear layers, each added to what it is of.
struct TransformerEncoderLayer {
  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  Dropout dropout, dropout1, dropout2;
  std::string activation = "relu";
  bool norm_first = false;
  TANDEM_LAZY_FIELDS(TransformerEncoderLayer, self_attn, linear1, linear2, norm1, norm2, dropout,
                     dropout1, dropout2, activation, norm_first)

  TransformerEncoderLayer() = default;
  TANDEM_API TransformerEncoderLayer(Dim d_model, Dim nhead,
                                     const TransformerLayerOptions& options = {}, TANDEM_AT);
  /// src [s, n, d_model], with batch_first [n, s, d_model], or [s, d_model].
  TANDEM_API Tensor operator()(const Tensor& src, const EncoderMasks& masks = {}, TANDEM_AT) const;
};

/// The same with attention to what an encoder gave in between.
struct TransformerDecoderLayer {
  MultiheadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout, dropout1, dropout2, dropout3;
  std::string activation = "relu";
  bool norm_first = false;
  TANDEM_LAZY_FIELDS(TransformerDecoderLayer, self_attn, multihead_attn, linear1, linear2, norm1,
                     norm2, norm3, dropout, dropout1, dropout2, dropout3, activation, norm_first)

  TransformerDecoderLayer() = default;
  TANDEM_API TransformerDecoderLayer(Dim d_model, Dim nhead,
                                     const TransformerLayerOptions& options = {}, TANDEM_AT);
  TANDEM_API Tensor operator()(const Tensor& tgt, const Tensor& memory,
                               const DecoderMasks& masks = {}, TANDEM_AT) const;
};

/// `layer` so many times, each with parameters of its own that start as its, then `norm`.
struct TransformerEncoder {
  std::vector<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
  TANDEM_LAZY_FIELDS(TransformerEncoder, layers, norm)

  TransformerEncoder() = default;
  TANDEM_API TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers,
                                std::optional<LayerNorm> norm = {});
  TANDEM_API Tensor operator()(const Tensor& src, const EncoderMasks& masks = {}, TANDEM_AT) const;
};

struct TransformerDecoder {
  std::vector<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;
  TANDEM_LAZY_FIELDS(TransformerDecoder, layers, norm)

  TransformerDecoder() = default;
  TANDEM_API TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers,
                                std::optional<LayerNorm> norm = {});
  TANDEM_API Tensor operator()(const Tensor& tgt, const Tensor& memory,
                               const DecoderMasks& masks = {}, TANDEM_AT) const;
};

/// TransformerLayerOptions, and how many layers there are.
struct TransformerOptions {
  int64_t num_encoder_layers = 6, num_decoder_layers = 6;
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string_view activation = "relu";
  double layer_norm_eps = 1e-5;
  bool batch_first = false, norm_first = false, bias = true;
  DType dtype = f32;
};

/// torch.nn.Transformer: an encoder and a decoder of what it gives, each with a norm behind its
/// layers; matrices are uniform as Xavier's at first.
struct Transformer {
  TransformerEncoder encoder;
  TransformerDecoder decoder;
  TANDEM_LAZY_FIELDS(Transformer, encoder, decoder)

  Transformer() = default;
  TANDEM_API Transformer(Dim d_model, Dim nhead, const TransformerOptions& options = {}, TANDEM_AT);
  /// src [s, n, d_model], tgt [t, n, d_model], with batch_first [n, s, d_model] and [n, t,
  /// d_model], or both without n -> as tgt. That src is padded is said twice, for the encoder and
  /// as memory_key_padding_mask.
  TANDEM_API Tensor operator()(const Tensor& src, const Tensor& tgt,
                               const EncoderMasks& src_masks = {},
                               const DecoderMasks& tgt_masks = {}, TANDEM_AT) const;
  /// [size, size]: -inf above the diagonal, else 0.
  TANDEM_API static Tensor generate_square_subsequent_mask(Dim size, DType dtype = f32, TANDEM_AT);
};

#undef TANDEM_AT

}  // namespace tandem::nn

#endif  // TANDEM_NN_ATTENTION_H
