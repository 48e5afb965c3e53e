// Losses as modules: `CrossEntropyLoss{.label_smoothing = 0.1}`. The options, their defaults and
// the operands are those of the functions (tandem/ops/networks.h) and of PyTorch's modules.
// reduction: "none", "mean" or "sum". Weights are buffers.
#ifndef TANDEM_NN_LOSS_H
#define TANDEM_NN_LOSS_H

#include <tandem/nn/options.h>
#include <tandem/ops/networks.h>
#include <tandem/structure.h>

namespace tandem::nn {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

#define TANDEM_LOSS(Name, ...)          \
  TANDEM_LAZY_FIELDS(Name, __VA_ARGS__) \
  Tensor operator()(const Tensor& input, const Tensor& target, TANDEM_AT) const

struct MSELoss {
  std::string reduction = "mean";
  TANDEM_LOSS(MSELoss, reduction) { return mse_loss(input, target, reduction, at); }
};
struct L1Loss {
  std::string reduction = "mean";
  TANDEM_LOSS(L1Loss, reduction) { return l1_loss(input, target, reduction, at); }
};
struct SmoothL1Loss {
  std::string reduction = "mean";
  double beta = 1;
  TANDEM_LOSS(SmoothL1Loss, reduction, beta) {
    return smooth_l1_loss(input, target, reduction, beta, at);
  }
};
struct HuberLoss {
  std::string reduction = "mean";
  double delta = 1;
  TANDEM_LOSS(HuberLoss, reduction, delta) {
    return huber_loss(input, target, reduction, delta, at);
  }
};
/// weight [classes].
struct CrossEntropyLoss {
  Buffer weight = {};
  int64_t ignore_index = -100;
  std::string reduction = "mean";
  double label_smoothing = 0;
  TANDEM_LOSS(CrossEntropyLoss, weight, ignore_index, reduction, label_smoothing) {
    return cross_entropy(input, target,
                         CrossEntropyOptions{weight, ignore_index, reduction, label_smoothing}, at);
  }
};
/// weight [classes].
struct NLLLoss {
  Buffer weight = {};
  int64_t ignore_index = -100;
  std::string reduction = "mean";
  TANDEM_LOSS(NLLLoss, weight, ignore_index, reduction) {
    return nll_loss(input, target, NllOptions{weight, ignore_index, reduction}, at);
  }
};
/// weight: of the elements.
struct BCELoss {
  Buffer weight = {};
  std::string reduction = "mean";
  TANDEM_LOSS(BCELoss, weight, reduction) {
    return binary_cross_entropy(input, target, weight, reduction, at);
  }
};
/// weight: of the elements; pos_weight: of positive ones.
struct BCEWithLogitsLoss {
  Buffer weight = {}, pos_weight = {};
  std::string reduction = "mean";
  TANDEM_LOSS(BCEWithLogitsLoss, weight, pos_weight, reduction) {
    return binary_cross_entropy_with_logits(input, target,
                                            LogitsOptions{weight, pos_weight, reduction}, at);
  }
};
/// reduction may be "batchmean" too.
struct KLDivLoss {
  std::string reduction = "mean";
  bool log_target = false;
  TANDEM_LOSS(KLDivLoss, reduction, log_target) {
    return kl_div(input, target, reduction, log_target, at);
  }
};
struct PoissonNLLLoss {
  bool log_input = true, full = false;
  double eps = 1e-8;
  std::string reduction = "mean";
  TANDEM_LOSS(PoissonNLLLoss, log_input, full, eps, reduction) {
    return poisson_nll_loss(input, target, log_input, full, eps, reduction, at);
  }
};
struct GaussianNLLLoss {
  bool full = false;
  double eps = 1e-6;
  std::string reduction = "mean";
  TANDEM_LAZY_FIELDS(GaussianNLLLoss, full, eps, reduction)
  Tensor operator()(const Tensor& input, const Tensor& target, const Tensor& var, TANDEM_AT) const {
    return gaussian_nll_loss(input, target, var, full, eps, reduction, at);
  }
};
struct SoftMarginLoss {
  std::string reduction = "mean";
  TANDEM_LOSS(SoftMarginLoss, reduction) { return soft_margin_loss(input, target, reduction, at); }
};
/// weight [classes].
struct MultiMarginLoss {
  int64_t p = 1;
  double margin = 1;
  Buffer weight = {};
  std::string reduction = "mean";
  [[no_unique_address]] CheckedOptions checked = require_power(p, "MultiMarginLoss");
  TANDEM_LOSS(MultiMarginLoss, p, margin, weight, reduction) {
    return multi_margin_loss(input, target, p, margin, weight, reduction, at);
  }
};
struct MultiLabelMarginLoss {
  std::string reduction = "mean";
  TANDEM_LOSS(MultiLabelMarginLoss, reduction) {
    return multilabel_margin_loss(input, target, reduction, at);
  }
};
/// weight [classes].
struct MultiLabelSoftMarginLoss {
  Buffer weight = {};
  std::string reduction = "mean";
  TANDEM_LOSS(MultiLabelSoftMarginLoss, weight, reduction) {
    return multilabel_soft_margin_loss(input, target, weight, reduction, at);
  }
};
struct HingeEmbeddingLoss {
  double margin = 1;
  std::string reduction = "mean";
  TANDEM_LOSS(HingeEmbeddingLoss, margin, reduction) {
    return hinge_embedding_loss(input, target, margin, reduction, at);
  }
};
struct MarginRankingLoss {
  double margin = 0;
  std::string reduction = "mean";
  TANDEM_LAZY_FIELDS(MarginRankingLoss, margin, reduction)
  Tensor operator()(const Tensor& input1, const Tensor& input2, const Tensor& target,
                    TANDEM_AT) const {
    return margin_ranking_loss(input1, input2, target, margin, reduction, at);
  }
};
struct CosineEmbeddingLoss {
  double margin = 0;
  std::string reduction = "mean";
  TANDEM_LAZY_FIELDS(CosineEmbeddingLoss, margin, reduction)
  Tensor operator()(const Tensor& input1, const Tensor& input2, const Tensor& target,
                    TANDEM_AT) const {
    return cosine_embedding_loss(input1, input2, target, margin, reduction, at);
  }
};
struct TripletMarginLoss {
  double margin = 1, p = 2, eps = 1e-6;
  bool swap = false;
  std::string reduction = "mean";
  [[no_unique_address]] CheckedOptions checked = require_margin(margin, "TripletMarginLoss");
  TANDEM_LAZY_FIELDS(TripletMarginLoss, margin, p, eps, swap, reduction)
  Tensor operator()(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                    TANDEM_AT) const {
    return triplet_margin_loss(anchor, positive, negative,
                               TripletOptions{margin, p, eps, swap, reduction}, at);
  }
};
struct CTCLoss {
  int64_t blank = 0;
  std::string reduction = "mean";
  bool zero_infinity = false;
  TANDEM_LAZY_FIELDS(CTCLoss, blank, reduction, zero_infinity)
  Tensor operator()(const Tensor& log_probabilities, const Tensor& targets,
                    const std::vector<Dim>& input_lengths, const std::vector<Dim>& target_lengths,
                    TANDEM_AT) const {
    return ctc_loss(log_probabilities, targets, input_lengths, target_lengths,
                    CtcOptions{blank, reduction, zero_infinity}, at);
  }
};

// --- distances
struct CosineSimilarity {
  int64_t dim = 1;
  double eps = 1e-8;
  TANDEM_LAZY_FIELDS(CosineSimilarity, dim, eps)
  Tensor operator()(const Tensor& x1, const Tensor& x2, TANDEM_AT) const {
    return cosine_similarity(x1, x2, dim, eps, at);
  }
};
struct PairwiseDistance {
  double p = 2, eps = 1e-6;
  bool keepdim = false;
  TANDEM_LAZY_FIELDS(PairwiseDistance, p, eps, keepdim)
  Tensor operator()(const Tensor& x1, const Tensor& x2, TANDEM_AT) const {
    return pairwise_distance(x1, x2, p, eps, keepdim, at);
  }
};

#undef TANDEM_LOSS
#undef TANDEM_AT

}  // namespace tandem::nn

#endif  // TANDEM_NN_LOSS_H
