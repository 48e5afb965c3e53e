// Layers that are one matrix.
#ifndef TANDEM_NN_LINEAR_H
#define TANDEM_NN_LINEAR_H

#include <tandem/ops.h>
#include <tandem/structure.h>

namespace tandem::nn {

/// weight [out, in] and bias [out] (undefined without bias), uniform in +-1/sqrt(in) at first.
struct Linear {
  Tensor weight, bias;
  TANDEM_FIELDS(Linear, weight, bias)

  Linear() = default;
  TANDEM_API Linear(Dim in, Dim out, bool with_bias = true);
  /// x [..., in] -> [..., out].
  Tensor operator()(const Tensor& x,
                    std::source_location where = std::source_location::current()) const {
    return linear(x, weight, bias, where);
  }
};

/// weight [count, dim], standard normal at first.
struct Embedding {
  Tensor weight;
  TANDEM_FIELDS(Embedding, weight)

  Embedding() = default;
  Embedding(Dim count, Dim dim) : weight(randn({count, dim}).requires_grad_()) {}
  /// indices [...] -> [..., dim].
  Tensor operator()(const Tensor& indices,
                    std::source_location where = std::source_location::current()) const {
    return embedding(weight, indices, where);
  }
};

}  // namespace tandem::nn

#endif  // TANDEM_NN_LINEAR_H
