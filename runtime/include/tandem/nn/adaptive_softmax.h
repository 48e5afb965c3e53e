// A softmax over many classes of which few are frequent.
#ifndef TANDEM_NN_ADAPTIVE_SOFTMAX_H
#define TANDEM_NN_ADAPTIVE_SOFTMAX_H

#include <tandem/nn/linear.h>

namespace tandem::nn {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

/// div_value: by how much each cluster of rarer classes has fewer features than the one before.
struct AdaptiveSoftmaxOptions {
  double div_value = 4;
  bool head_bias = false;
  DType dtype = f32;
};

/// output: the log probability of each target [n], or [] for one; loss: the mean of -output, [].
struct AdaptiveSoftmaxResult {
  Tensor output, loss;
  TANDEM_LAZY_FIELDS(AdaptiveSoftmaxResult, output, loss)
};

/// torch.nn.AdaptiveLogSoftmaxWithLoss (Grave et al. 2017): classes sorted by frequency and cut
/// into clusters. `head` scores the classes before the first cutoff and the other clusters; `tail`
/// holds of each of those a projection to fewer features and the scores of its classes.
/// Error{Argument} unless the cutoffs grow from at least 1 to at most n_classes - 1. (All clusters
/// are computed of all rows, so that sizes depend on no value.)
struct AdaptiveLogSoftmaxWithLoss {
  Linear head;
  std::vector<std::pair<Linear, Linear>> tail;
  std::vector<int64_t> cutoffs;  // n_classes behind the last
  TANDEM_LAZY_FIELDS(AdaptiveLogSoftmaxWithLoss, head, tail, cutoffs)

  AdaptiveLogSoftmaxWithLoss() = default;
  TANDEM_API AdaptiveLogSoftmaxWithLoss(Dim in_features, int64_t n_classes,
                                        const std::vector<int64_t>& cutoffs,
                                        const AdaptiveSoftmaxOptions& options = {}, TANDEM_AT);
  /// input [n, in_features] and target i64 [n], or [in_features] and []. Error{Shape} for others.
  TANDEM_API AdaptiveSoftmaxResult operator()(const Tensor& input, const Tensor& target,
                                              TANDEM_AT) const;
  /// input [..., in_features] -> the log probabilities of all classes, [..., n_classes].
  TANDEM_API Tensor log_prob(const Tensor& input, TANDEM_AT) const;
  /// The most probable classes, i64 [...].
  TANDEM_API Tensor predict(const Tensor& input, TANDEM_AT) const;
};

#undef TANDEM_AT

}  // namespace tandem::nn

#endif  // TANDEM_NN_ADAPTIVE_SOFTMAX_H
