#include <fmt/ranges.h>
#include <tandem/nn/adaptive_softmax.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/nn/layer.h"

namespace tandem::nn {
namespace {

void require_cutoffs(const std::vector<int64_t>& cutoffs, int64_t n_classes) {
  const bool grow = std::ranges::is_sorted(cutoffs, std::less_equal<>());
  if (cutoffs.empty() || !grow || cutoffs.front() < 1 || cutoffs.back() >= n_classes)
    ir::fail(
        Errc::Argument,
        fmt::format("{}: expected cutoffs that grow from at least 1 to at most {} (n_classes - "
                    "1), got [{}]",
                    ir::ErrorScope::function(), n_classes - 1, fmt::join(cutoffs, ", ")));
}

}  // namespace

AdaptiveLogSoftmaxWithLoss::AdaptiveLogSoftmaxWithLoss(Dim in_features, int64_t n_classes,
                                                       const std::vector<int64_t>& cut,
                                                       const AdaptiveSoftmaxOptions& options,
                                                       SourceLocation at) {
  const ir::ErrorScope errors(at, "AdaptiveLogSoftmaxWithLoss");
  require_cutoffs(cut, n_classes);
  if (!(options.div_value > 0))
    ir::fail(Errc::Argument, fmt::format("{}: expected a div_value above 0, got {}",
                                         ir::ErrorScope::function(), options.div_value));
  cutoffs = cut;
  cutoffs.push_back(n_classes);
  const auto clusters = std::ssize(cut);
  head = Linear(in_features, cut[0] + clusters, options.head_bias, options.dtype);
  for (ptrdiff_t i = 0; i < clusters; ++i) {
    const auto features = static_cast<int64_t>(static_cast<double>(int64_t{in_features}) /
                                               std::pow(options.div_value, i + 1));
    tail.emplace_back(
        Linear(in_features, features, false, options.dtype),
        Linear(features, cutoffs[static_cast<size_t>(i) + 1] - cut[static_cast<size_t>(i)], false,
               options.dtype));
  }
}

Tensor AdaptiveLogSoftmaxWithLoss::log_prob(const Tensor& input, SourceLocation at) const {
  const ir::ErrorScope errors(at, "AdaptiveLogSoftmaxWithLoss");
  const Tensor of_head = log_softmax(head(input, at), -1, at);
  const int64_t frequent = cutoffs.at(0);
  std::vector<Tensor> parts{of_head.narrow(-1, 0, frequent, at)};
  for (size_t i = 0; i < tail.size(); ++i) {
    const auto& [project, score] = tail[i];
    const Tensor inside = log_softmax(score(project(input, at), at), -1, at);
    const Tensor of_cluster = of_head.narrow(-1, frequent + static_cast<int64_t>(i), 1, at);
    parts.push_back(add({inside, at}, {of_cluster, at}));
  }
  return cat(parts, -1, at);
}

AdaptiveSoftmaxResult AdaptiveLogSoftmaxWithLoss::operator()(const Tensor& input,
                                                             const Tensor& target,
                                                             SourceLocation at) const {
  const ir::ErrorScope errors(at, "AdaptiveLogSoftmaxWithLoss");
  const int rank = input.dim();
  if (rank < 1 || rank > 2 || target.dim() != rank - 1 ||
      (rank == 2 && target.size(0) != input.size(0)))
    ir::fail(Errc::Shape, fmt::format("{}: expected an input [n, features] and a target [n], or "
                                      "[features] and [], got {} and {}",
                                      ir::ErrorScope::function(), to_string(input.sizes()),
                                      to_string(target.sizes())));
  const Tensor output =
      gather(log_prob(input, at), -1, target.unsqueeze(-1, at), at).squeeze(-1, at);
  return {output, neg(mean(output, {}, false, at), at)};
}

Tensor AdaptiveLogSoftmaxWithLoss::predict(const Tensor& input, SourceLocation at) const {
  return argmax(log_prob(input, at), -1, false, at);
}

}  // namespace tandem::nn
