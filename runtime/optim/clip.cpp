#include <fmt/format.h>
#include <tandem/ops.h>
#include <tandem/ops/reductions.h>
#include <tandem/optim/clip.h>

#include <cmath>
#include <unordered_set>

#include "ir/base/error.h"
#include "runtime/optim/compiled_once.h"

namespace tandem::optim {
namespace {

using Tensors = std::vector<Tensor>;

Tensors gradients_of(const Tensors& parameters) {
  Tensors out;
  std::unordered_set<const void*> seen;
  for (const Tensor& p : parameters)
    if (const Tensor g = p.grad(); g.defined() && seen.insert(p.impl().get()).second)
      out.push_back(g);
  return out;
}

Tensor norm_of_all(const Tensors& tensors, double norm_type) {
  Tensors norms;
  for (const Tensor& t : tensors) norms.push_back(linalg::vector_norm(t, norm_type));
  return linalg::vector_norm(stack(norms), norm_type);
}

void scale_to(const Tensors& gradients, const Scalar& max_norm, const Tensor& total_norm) {
  const Tensor share = clamp_max(max_norm / (total_norm + 1e-6), 1.0);
  for (const Tensor& g : gradients) g.mul_(share);
}

Tensor clip_norm(const Tensors& gradients, double norm_type, const Scalar& max_norm) {
  const Tensor total = norm_of_all(gradients, norm_type);
  scale_to(gradients, max_norm, total);
  return total;
}

void clip_values(const Tensors& gradients, const Scalar& limit) {
  const Scalar least(-(ones({}, f64) * limit));
  for (const Tensor& g : gradients) g.copy_(minimum(maximum(g, least), limit));
}

void require_finite(const Tensor& norm, double norm_type) {
  const double value = norm.item();
  if (!std::isfinite(value))
    ir::fail(Errc::Argument,
             fmt::format("clip_grad_norm_: expected gradients of a finite norm of order {}, got {} "
                         "(error_if_nonfinite = false scales by it all the same)",
                         norm_type, value));
}

void require_norm_type(double norm_type) {
  if (std::isnan(norm_type))
    ir::fail(Errc::Argument, "get_total_norm: expected a norm_type, got nan");
}

}  // namespace

Tensor get_total_norm(const Tensors& tensors, const NormOptions& options) {
  require_norm_type(options.norm_type);
  const NoGrad no_grad;
  if (tensors.empty()) return zeros({});
  const Tensor norm = compiled_once<&norm_of_all>("total_norm")(tensors, options.norm_type);
  if (options.error_if_nonfinite) require_finite(norm, options.norm_type);
  return norm;
}

Tensor clip_grad_norm_(const Tensors& parameters, const Located& max_norm,
                       const NormOptions& options) {
  require_norm_type(options.norm_type);
  const NoGrad no_grad;
  const Tensors gradients = gradients_of(parameters);
  if (gradients.empty()) return zeros({});
  if (!options.error_if_nonfinite)
    return compiled_once<&clip_norm>("clip_grad_norm")(gradients, options.norm_type,
                                                       scalar_of(max_norm));
  const Tensor norm = get_total_norm(gradients, options);
  clip_grads_with_norm_(parameters, max_norm, norm);
  return norm;
}

void clip_grads_with_norm_(const Tensors& parameters, const Located& max_norm,
                           const Tensor& total_norm) {
  const NoGrad no_grad;
  const Tensors gradients = gradients_of(parameters);
  if (!gradients.empty())
    compiled_once<&scale_to>("clip_grads")(gradients, scalar_of(max_norm), total_norm);
}

void clip_grad_value_(const Tensors& parameters, const Located& clip_value) {
  const NoGrad no_grad;
  const Tensors gradients = gradients_of(parameters);
  if (!gradients.empty())
    compiled_once<&clip_values>("clip_grad_value")(gradients, scalar_of(clip_value));
}

}  // namespace tandem::optim
