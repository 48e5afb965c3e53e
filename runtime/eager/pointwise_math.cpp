// Exponentials, logarithms, roots, trigonometric and hyperbolic functions, through libm.
#include <cmath>

#include "runtime/eager/loops.h"

namespace tandem::runtime::eager::kernels {
namespace {

template <class F>
void unary(const Args& a, F f) {
  with_type<Floats>(a.out.dtype, [&]<class T>(Tag<T>) { map<T, T>(a.out, a.in[0], f); });
}

template <class T>
T sigmoid_of(T x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace

#define TANDEM_MATH(name)                          \
  void name(const Args& a) {                       \
    unary(a, [](auto x) { return std::name(x); }); \
  }
TANDEM_MATH(exp)
TANDEM_MATH(exp2)
TANDEM_MATH(expm1)
TANDEM_MATH(log)
TANDEM_MATH(log2)
TANDEM_MATH(log10)
TANDEM_MATH(log1p)
TANDEM_MATH(sqrt)
TANDEM_MATH(sin)
TANDEM_MATH(cos)
TANDEM_MATH(tan)
TANDEM_MATH(asin)
TANDEM_MATH(acos)
TANDEM_MATH(atan)
TANDEM_MATH(sinh)
TANDEM_MATH(cosh)
TANDEM_MATH(tanh)
TANDEM_MATH(asinh)
TANDEM_MATH(acosh)
TANDEM_MATH(atanh)
TANDEM_MATH(erf)
TANDEM_MATH(erfc)
#undef TANDEM_MATH
void rsqrt(const Args& a) {
  unary(a, [](auto x) { return 1 / std::sqrt(x); });
}
void reciprocal(const Args& a) {
  unary(a, [](auto x) { return 1 / x; });
}
void sigmoid(const Args& a) {
  unary(a, [](auto x) { return sigmoid_of(x); });
}

}  // namespace tandem::runtime::eager::kernels
