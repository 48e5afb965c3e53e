// Modules: plain structs whose fields are tensors and other modules, listed by TANDEM_FIELDS. A
// module is called like a function; its parameters are its tensor fields that require gradients,
// named by their path ("blocks.0.attn.weight"), as in PyTorch's state_dict.
#ifndef TANDEM_NN_H
#define TANDEM_NN_H

#include <tandem/ops.h>
#include <tandem/structure.h>

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

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

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// Gathers the defined tensors of a structure, each once.
struct CollectTensors {
  NamedTensors found;
  std::unordered_set<const void*> seen = {};
  TANDEM_API void operator()(const Tensor& t, const std::string& path);
  template <class T>
  void operator()(const T&, const std::string&) {}
  void count(size_t, const std::string&) {}
};

/// Every defined tensor field of a module with its path; a tensor that stands in several fields
/// (tied weights) once, under the first.
template <class Module>
NamedTensors named_tensors(const Module& module) {
  CollectTensors collect;
  structure::for_each_leaf<true>(module, collect);
  return std::move(collect.found);
}

/// The tensors that require gradients, each once, in field order.
template <class Module>
std::vector<Tensor> parameters(const Module& module) {
  std::vector<Tensor> out;
  for (auto& [name, tensor] : named_tensors(module))
    if (tensor.requires_grad()) out.push_back(tensor);
  return out;
}

}  // namespace tandem::nn

#endif  // TANDEM_NN_H
