// What of the modules is no template: kept out of the header, which users parse.
#include <tandem/nn.h>

#include <cmath>

namespace tandem::nn {

Linear::Linear(Dim in, Dim out, bool with_bias) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  weight = ((rand({out, in}) * 2.0 - 1.0) * bound).requires_grad_();
  if (with_bias) bias = ((rand({out}) * 2.0 - 1.0) * bound).requires_grad_();
}

void CollectTensors::operator()(const Tensor& t, const std::string& path) {
  if (t.defined() && seen.insert(t.impl().get()).second) found.emplace_back(path, t);
}

}  // namespace tandem::nn
