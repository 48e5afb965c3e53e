// Special functions, in ATen's namespace. Integers give f32.
#ifndef TANDEM_OPS_SPECIAL_H
#define TANDEM_OPS_SPECIAL_H

#include <tandem/ops/out_forms.h>

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

// Windows of signals, named and defined as in torch.signal.windows: n numbers, of which the middle
// ones are the largest (1). Those of `sym` are symmetric; others are the first n of one of n + 1,
// as who repeats them wants it.
namespace tandem::signal::windows {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

TANDEM_API Tensor bartlett(Dim n, bool sym = true, DType dtype = f32, TANDEM_AT);
TANDEM_API Tensor blackman(Dim n, bool sym = true, DType dtype = f32, TANDEM_AT);
TANDEM_API Tensor cosine(Dim n, bool sym = true, DType dtype = f32, TANDEM_AT);
TANDEM_API Tensor hann(Dim n, bool sym = true, DType dtype = f32, TANDEM_AT);
TANDEM_API Tensor hamming(Dim n, bool sym = true, DType dtype = f32, TANDEM_AT);
TANDEM_API Tensor nuttall(Dim n, bool sym = true, DType dtype = f32, TANDEM_AT);
/// exp(-|k - center| / tau); center: the middle, which that of `sym` has alone.
TANDEM_API Tensor exponential(Dim n, std::optional<double> center = {}, double tau = 1,
                              bool sym = true, DType dtype = f32, TANDEM_AT);
/// exp(-((k - the middle) / std)^2 / 2)
TANDEM_API Tensor gaussian(Dim n, double std = 1, bool sym = true, DType dtype = f32, TANDEM_AT);
/// a[0] - a[1] cos x + a[2] cos 2x - ..., x from 0 to 2 pi.
TANDEM_API Tensor general_cosine(Dim n, const std::vector<double>& a, bool sym = true,
                                 DType dtype = f32, TANDEM_AT);
/// alpha - (1 - alpha) cos x
TANDEM_API Tensor general_hamming(Dim n, double alpha = 0.54, bool sym = true, DType dtype = f32,
                                  TANDEM_AT);
/// i0(beta sqrt(1 - x^2)) / i0(beta), x from -1 to 1.
TANDEM_API Tensor kaiser(Dim n, double beta = 12, bool sym = true, DType dtype = f32, TANDEM_AT);

#undef TANDEM_AT

}  // namespace tandem::signal::windows

#endif  // TANDEM_OPS_SPECIAL_H
