// Gradients made smaller before a step. Those of a parameter that is listed twice count once;
// parameters without a gradient are passed over. No change of a bound recompiles anything.
#ifndef TANDEM_OPTIM_CLIP_H
#define TANDEM_OPTIM_CLIP_H

#include <tandem/scalar.h>

#include <vector>

namespace tandem::optim {

struct NormOptions {
  double norm_type = 2;  // also infinity
  bool error_if_nonfinite = false;
};

/// torch.nn.utils.get_total_norm: the norm of all elements together, [] (zero for no tensors).
TANDEM_API Tensor get_total_norm(const std::vector<Tensor>& tensors,
                                 const NormOptions& options = {});
/// torch.nn.utils.clip_grad_norm_: multiplies all gradients by min(1, max_norm / (their norm +
/// 1e-6)); returns the norm before. max_norm: a number, Scalar or tensor []. error_if_nonfinite: an
/// Error, and no gradient is changed; reads the norm, so not inside a trace.
TANDEM_API Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, const Located& max_norm,
                                  const NormOptions& options = {});
/// torch.nn.utils.clip_grads_with_norm_: the same by a norm that is known.
TANDEM_API void clip_grads_with_norm_(const std::vector<Tensor>& parameters,
                                      const Located& max_norm, const Tensor& total_norm);
/// torch.nn.utils.clip_grad_value_: clamps every element to +-clip_value.
TANDEM_API void clip_grad_value_(const std::vector<Tensor>& parameters, const Located& clip_value);

}  // namespace tandem::optim

#endif  // TANDEM_OPTIM_CLIP_H
