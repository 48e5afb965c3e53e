// Tables of vectors.
#ifndef TANDEM_NN_EMBEDDING_H
#define TANDEM_NN_EMBEDDING_H

#include <tandem/ops.h>
#include <tandem/structure.h>

namespace tandem::nn {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

/// weight [count, dim], standard normal at first. padding_idx: a row that is zero at first and
/// takes no gradient. max_norm: rows that are read are scaled down to it in the table, not inside a
/// trace. Error{Argument} for sparse gradients.
struct Embedding {
  Tensor weight;
  std::optional<int64_t> padding_idx;
  std::optional<double> max_norm;
  double norm_type = 2;
  bool scale_grad_by_freq = false;
  TANDEM_LAZY_FIELDS(Embedding, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)

  Embedding() = default;
  TANDEM_API Embedding(Dim count, Dim dim, const EmbeddingOptions& options = {}, DType dtype = f32,
                       TANDEM_AT);
  /// Over a table [count, dim] that is there, which `freeze` keeps from being trained.
  TANDEM_API static Embedding from_pretrained(const Tensor& table, bool freeze = true,
                                              const EmbeddingOptions& options = {}, TANDEM_AT);
  /// indices [...] -> [..., dim].
  TANDEM_API Tensor operator()(const Tensor& indices, TANDEM_AT) const;
};

/// An Embedding whose vectors are summed up, averaged or compared in bags.
struct EmbeddingBag {
  Tensor weight;
  std::string mode = "mean";  // "sum", "mean" or "max"
  std::optional<int64_t> padding_idx;
  std::optional<double> max_norm;
  double norm_type = 2;
  bool scale_grad_by_freq = false, include_last_offset = false;
  TANDEM_LAZY_FIELDS(EmbeddingBag, weight, mode, padding_idx, max_norm, norm_type,
                     scale_grad_by_freq, include_last_offset)

  EmbeddingBag() = default;
  /// Of the options all but offsets and weights, which come with the indices.
  TANDEM_API EmbeddingBag(Dim count, Dim dim, const EmbeddingBagOptions& options = {},
                          DType dtype = f32, TANDEM_AT);
  /// indices [bags, n], or [n] with the places where bags begin; of "sum" a weight for each.
  TANDEM_API Tensor operator()(const Tensor& indices, const Tensor& offsets = {},
                               const Tensor& per_sample_weights = {}, TANDEM_AT) const;
};

#undef TANDEM_AT

}  // namespace tandem::nn

#endif  // TANDEM_NN_EMBEDDING_H
