#include <tandem/nn/embedding.h>

#include "runtime/nn/layer.h"

namespace tandem::nn {
namespace {

void require_dense(bool sparse) {
  if (sparse)
    ir::fail(Errc::Argument,
             fmt::format("{}: no sparse gradients; expected sparse = false, got true",
                         ir::ErrorScope::function()));
}

/// padding_idx, which may count from the end, as a row of `count`.
std::optional<int64_t> padding_row(std::optional<int64_t> padding_idx, int64_t count) {
  if (!padding_idx) return {};
  if (*padding_idx < -count || *padding_idx >= count)
    ir::fail(Errc::Index, fmt::format("{}: padding_idx out of range; expected {} to {}, got {}",
                                      ir::ErrorScope::function(), -count, count - 1, *padding_idx));
  return *padding_idx < 0 ? *padding_idx + count : *padding_idx;
}

/// Standard normal, but for zeros at the padding.
Tensor table_of(Dim count, Dim dim, std::optional<int64_t> padding, DType dtype) {
  const Tensor table = randn({count, dim}, dtype);
  if (padding) table.select(0, *padding).zero_();
  return table.requires_grad_();
}

/// All but the table.
template <class Layer, class Options>
void take_options(Layer& layer, const Options& o, Dim count) {
  require_dense(o.sparse);
  layer.padding_idx = padding_row(o.padding_idx, count);
  layer.max_norm = o.max_norm;
  layer.norm_type = o.norm_type;
  layer.scale_grad_by_freq = o.scale_grad_by_freq;
}

}  // namespace

Embedding::Embedding(Dim count, Dim dim, const EmbeddingOptions& options, DType dtype,
                     SourceLocation at) {
  const ir::ErrorScope errors(at);
  take_options(*this, options, count);
  weight = table_of(count, dim, padding_idx, dtype);
}

Embedding Embedding::from_pretrained(const Tensor& table, bool freeze,
                                     const EmbeddingOptions& options, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (!table.defined() || table.dim() != 2)
    ir::fail(Errc::Shape, "from_pretrained: expected a table [count, dim], got another");
  Embedding out;
  take_options(out, options, table.size(0));
  out.weight = table.detach().requires_grad_(!freeze);
  return out;
}

Tensor Embedding::operator()(const Tensor& indices, SourceLocation at) const {
  if (!padding_idx && !max_norm && !scale_grad_by_freq) return embedding(weight, indices, at);
  return embedding(weight, indices,
                   EmbeddingOptions{.padding_idx = padding_idx,
                                    .max_norm = max_norm,
                                    .norm_type = norm_type,
                                    .scale_grad_by_freq = scale_grad_by_freq},
                   at);
}

EmbeddingBag::EmbeddingBag(Dim count, Dim dim, const EmbeddingBagOptions& options, DType dtype,
                           SourceLocation at)
    : mode(options.mode), include_last_offset(options.include_last_offset) {
  const ir::ErrorScope errors(at);
  if (mode != "sum" && mode != "mean" && mode != "max")
    ir::fail(Errc::Argument,
             fmt::format("EmbeddingBag: unknown mode; expected sum, mean or max, got {}", mode));
  take_options(*this, options, count);
  weight = table_of(count, dim, padding_idx, dtype);
}

Tensor EmbeddingBag::operator()(const Tensor& indices, const Tensor& offsets,
                                const Tensor& per_sample_weights, SourceLocation at) const {
  return embedding_bag(weight, indices,
                       {.offsets = offsets,
                        .mode = mode,
                        .per_sample_weights = per_sample_weights,
                        .include_last_offset = include_last_offset,
                        .padding_idx = padding_idx,
                        .max_norm = max_norm,
                        .norm_type = norm_type,
                        .scale_grad_by_freq = scale_grad_by_freq},
                       at);
}

}  // namespace tandem::nn
