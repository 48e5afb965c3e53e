#include <tandem/nn/linear.h>

#include <cmath>

namespace tandem::nn {

Linear::Linear(Dim in, Dim out, bool with_bias) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  weight = ((rand({out, in}) * 2.0 - 1.0) * bound).requires_grad_();
  if (with_bias) bias = ((rand({out}) * 2.0 - 1.0) * bound).requires_grad_();
}

}  // namespace tandem::nn
