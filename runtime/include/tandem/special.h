// Special functions, in ATen's namespace. Integers give f32.
#ifndef TANDEM_SPECIAL_H
#define TANDEM_SPECIAL_H

#include <tandem/out_forms.h>

namespace tandem::special {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

#define X(op)                                          \
  TANDEM_API Tensor op(const Tensor& self, TANDEM_AT); \
  TANDEM_API const Tensor& op##_out(const Tensor& out, const Tensor& self, TANDEM_AT);
TANDEM_SPECIAL_UNARY_OPS(X)
X(ndtr)
#undef X
#define X(op)                                                      \
  TANDEM_API Tensor op(const Located& self, const Located& other); \
  TANDEM_API const Tensor& op##_out(const Tensor& out, const Located& self, const Located& other);
TANDEM_SPECIAL_BINARY_OPS(X)
#undef X
#define X(name, op)                                      \
  TANDEM_API Tensor name(const Tensor& self, TANDEM_AT); \
  TANDEM_API const Tensor& name##_out(const Tensor& out, const Tensor& self, TANDEM_AT);
TANDEM_SPECIAL_ALIASES(X)
#undef X
#define X(name, op)                                                  \
  TANDEM_API Tensor name(const Located& self, const Located& other); \
  TANDEM_API const Tensor& name##_out(const Tensor& out, const Located& self, const Located& other);
TANDEM_SPECIAL_BINARY_ALIASES(X)
#undef X
TANDEM_API Tensor multigammaln(const Tensor& self, int64_t p, TANDEM_AT);
TANDEM_API const Tensor& multigammaln_out(const Tensor& out, const Tensor& self, int64_t p,
                                          TANDEM_AT);

using tandem::digamma, tandem::digamma_out, tandem::erf, tandem::erf_out, tandem::erfc,
    tandem::erfc_out, tandem::erfinv, tandem::erfinv_out, tandem::exp2, tandem::exp2_out,
    tandem::expm1, tandem::expm1_out, tandem::i0, tandem::i0_out, tandem::log1p, tandem::log1p_out,
    tandem::log_softmax, tandem::log_softmax_out, tandem::logit, tandem::logit_out,
    tandem::logsumexp, tandem::logsumexp_out, tandem::polygamma, tandem::polygamma_out,
    tandem::round, tandem::round_out, tandem::sinc, tandem::sinc_out, tandem::softmax,
    tandem::softmax_out, tandem::xlogy, tandem::xlogy_out;

#undef TANDEM_AT

}  // namespace tandem::special

#endif  // TANDEM_SPECIAL_H
