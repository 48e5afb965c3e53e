// What works on any module: its tensors by name.
#ifndef TANDEM_NN_MODULE_H
#define TANDEM_NN_MODULE_H

#include <tandem/named_tensors.h>
#include <tandem/structure.h>

#include <string>
#include <unordered_set>
#include <vector>

namespace tandem::nn {

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

#endif  // TANDEM_NN_MODULE_H
