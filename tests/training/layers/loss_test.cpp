// Losses as modules.
#include "tests/training/layers/layer_training.h"

namespace tandem::testing {
namespace {

/// loss(first(x), target).
template <class Loss>
LayerCase loss(const std::string& name, const Loss& loss, const Tensor& target) {
  const auto call = [](const Loss& l, const Tensor& out, const Tensors& x) { return l(out, x[1]); };
  return {name, [=] { return behind(4, loss, call); }, {wave({3, 4}), target}};
}
/// call(loss, first(x), inputs), of these inputs behind x.
template <class Loss, class Call>
LayerCase loss_by(const std::string& name, const Loss& loss, Tensors more, Call call) {
  more.insert(more.begin(), wave({3, 4}));
  return {name, [=] { return behind(4, loss, call); }, more};
}

Tensor signs(const Shape& sizes) { return numbers(sizes, 2).to(f64) * 2.0 - 1.0; }

std::vector<LayerCase> regression_cases() {
  const Tensor y = wave({3, 4}, 2), counts = numbers({3, 4}, 5).to(f64);
  return {
      loss("mse_loss", nn::MSELoss{}, y),
      loss_by("mse_loss_sum", nn::MSELoss{.reduction = "sum"}, {y},
              [](const auto& l, const Tensor& out, const Tensors& x) {
                return l(out * 0.1, x[1] * 0.1);
              }),
      loss("l1_loss_none", nn::L1Loss{.reduction = "none"}, y),
      loss("smooth_l1_loss", nn::SmoothL1Loss{.beta = 0.3}, y),
      loss("huber_loss", nn::HuberLoss{.delta = 0.4}, y),
      loss("poisson_nll_loss", nn::PoissonNLLLoss{}, counts),
      loss("poisson_nll_loss_full", nn::PoissonNLLLoss{.full = true, .reduction = "none"}, counts),
      loss_by(
          "gaussian_nll_loss", nn::GaussianNLLLoss{.full = true}, {y, y.square() + 0.5},
          [](const auto& l, const Tensor& out, const Tensors& x) { return l(out, x[1], x[2]); }),
      loss_by("kl_div_loss", nn::KLDivLoss{.reduction = "batchmean"}, {y},
              [](const auto& l, const Tensor& out, const Tensors& x) {
                return l(log_softmax(out, -1), softmax(x[1], -1));
              }),
      loss_by("kl_div_loss_log", nn::KLDivLoss{.log_target = true}, {y},
              [](const auto& l, const Tensor& out, const Tensors& x) {
                return l(log_softmax(out, -1), log_softmax(x[1], -1));
              }),
  };
}
TANDEM_LAYER_CASES(RegressionLosses, regression_cases)

std::vector<LayerCase> class_cases() {
  const Tensor labels = numbers({3}, 4), weight = wave({4}).abs() + 0.1, y = wave({3, 4}, 2);
  const Tensor zero_or_one = numbers({3, 4}, 2).to(f64);
  return {
      loss("cross_entropy", nn::CrossEntropyLoss{}, labels),
      loss("cross_entropy_options",
           nn::CrossEntropyLoss{.weight = weight, .ignore_index = 3, .label_smoothing = 0.1},
           labels),
      loss("cross_entropy_sum", nn::CrossEntropyLoss{.reduction = "sum"}, softmax(y, -1)),
      loss_by("nll_loss", nn::NLLLoss{.weight = weight}, {labels},
              [](const auto& l, const Tensor& out, const Tensors& x) {
                return l(log_softmax(out, -1), x[1]);
              }),
      loss_by(
          "bce_loss", nn::BCELoss{.weight = weight}, {zero_or_one},
          [](const auto& l, const Tensor& out, const Tensors& x) { return l(sigmoid(out), x[1]); }),
      loss("bce_with_logits", nn::BCEWithLogitsLoss{.pos_weight = weight}, zero_or_one),
      loss("bce_with_logits_none", nn::BCEWithLogitsLoss{.weight = weight, .reduction = "none"},
           zero_or_one),
      loss("soft_margin", nn::SoftMarginLoss{}, signs({3, 4})),
      loss("multi_margin", nn::MultiMarginLoss{.p = 2, .margin = 0.7, .weight = weight}, labels),
      loss("multilabel_margin", nn::MultiLabelMarginLoss{},
           tensor({{1, 3, -1, 0}, {0, -1, 2, 1}, {2, 0, 1, 3}})),
      loss("multilabel_soft_margin", nn::MultiLabelSoftMarginLoss{.weight = weight}, zero_or_one),
      loss("hinge_embedding", nn::HingeEmbeddingLoss{.margin = 0.8}, signs({3, 4})),
  };
}
TANDEM_LAYER_CASES(ClassLosses, class_cases)

std::vector<LayerCase> distance_cases() {
  const Tensor y = wave({3, 4}, 2), z = wave({3, 4}, 4);
  const auto two = [](const auto& l, const Tensor& out, const Tensors& x) {
    return l(out, x[1], x[2]);
  };
  const auto beside = [](const auto& l, const Tensor& out, const Tensors& x) {
    return l(out, x[1]);
  };
  return {
      loss_by("margin_ranking", nn::MarginRankingLoss{.margin = 0.3}, {y, signs({3, 4})}, two),
      loss_by("cosine_embedding", nn::CosineEmbeddingLoss{.margin = 0.2}, {y, signs({3})}, two),
      loss_by("triplet_margin", nn::TripletMarginLoss{}, {y, z}, two),
      loss_by("triplet_margin_swap", nn::TripletMarginLoss{.margin = 2, .p = 1, .swap = true},
              {y, z}, two),
      loss_by("cosine_similarity", nn::CosineSimilarity{}, {y}, beside),
      loss_by("pairwise_distance", nn::PairwiseDistance{.p = 3, .keepdim = true}, {y}, beside),
      {"ctc_loss",
       [] {
         return behind(5, nn::CTCLoss{.blank = 1},
                       [](const auto& l, const Tensor& out, const Tensors& x) {
                         return l(log_softmax(out, -1), x[1], {6, 5}, {3, 2});
                       });
       },
       {wave({6, 2, 5}), tensor({{2, 0, 4}, {3, 3, 0}})}},
  };
}
TANDEM_LAYER_CASES(DistanceLosses, distance_cases)

TEST(LossModules, WeightsAreBuffers) {
  const nn::CrossEntropyLoss l{.weight = ones({3})};
  EXPECT_EQ(nn::named_tensors(l)[0].first, "weight");
  EXPECT_TRUE(nn::parameters(l).empty());
  EXPECT_TRUE(nn::named_tensors(nn::CrossEntropyLoss{}).empty());
}

TEST(LossModules, OptionsAreGuarded) {
  const auto f =
      compile([](const nn::MSELoss& l, const Tensor& x, const Tensor& y) { return l(x, y); });
  const Tensor x = wave({3}), y = wave({3}, 1);
  nn::MSELoss l;
  EXPECT_EQ(f(l, x, y).dim(), 0);
  l.reduction = "none";
  EXPECT_EQ(f(l, x, y).sizes(), (Shape{3}));
}

}  // namespace
}  // namespace tandem::testing
