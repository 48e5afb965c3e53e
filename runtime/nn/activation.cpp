#include <tandem/nn/activation.h>

namespace tandem::nn {

PReLU::PReLU(Dim num_parameters, double init, DType dtype)
    : weight(full({num_parameters}, init, dtype).requires_grad_()) {}

}  // namespace tandem::nn
