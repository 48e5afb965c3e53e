// Layers that normalise.
#ifndef TANDEM_NN_NORMALIZATION_H
#define TANDEM_NN_NORMALIZATION_H

#include <tandem/ops.h>
#include <tandem/structure.h>

namespace tandem::nn {

/// Normalises the last dimension, then scales and shifts it.
struct LayerNorm {
  Tensor weight, bias;
  double eps = 1e-5;
  TANDEM_FIELDS(LayerNorm, weight, bias, eps)

  LayerNorm() = default;
  explicit LayerNorm(Dim size, double epsilon = 1e-5)
      : weight(ones({size}).requires_grad_()), bias(zeros({size}).requires_grad_()), eps(epsilon) {}
  Tensor operator()(const Tensor& x,
                    std::source_location where = std::source_location::current()) const {
    return layer_norm(x, weight.sizes(), weight, bias, eps, where);
  }
};

}  // namespace tandem::nn

#endif  // TANDEM_NN_NORMALIZATION_H
