#include <tandem/nn/module.h>

namespace tandem::nn {

void CollectTensors::operator()(const Tensor& t, const std::string& path) {
  if (t.defined() && seen.insert(t.impl().get()).second) found.emplace_back(path, t);
}

}  // namespace tandem::nn
