// Second names that ATen has: errors name the one that the user called.
#include <tandem/ops/special.h>

#include "ir/base/error_scope.h"

namespace tandem {
namespace {

using ir::ErrorScope;

const SourceLocation& place_of(const Located& a, const Located& b) {
  return a.tensor != nullptr ? a.location : b.location;
}

}  // namespace

#define X(name, op)                                                                \
  Tensor name(const Tensor& self, SourceLocation at) {                             \
    const ErrorScope errors(at, #name);                                            \
    return op(self, at);                                                           \
  }                                                                                \
  Tensor Tensor::name(SourceLocation at) const { return tandem::name(*this, at); } \
  const Tensor& Tensor::name##_(SourceLocation at) const {                         \
    const ErrorScope errors(at, #name, true);                                      \
    return op##_(at);                                                              \
  }
TANDEM_UNARY_ALIASES(X)
#undef X
#define X(name, op)                                             \
  Tensor name(const Located& self, const Located& other) {      \
    const ErrorScope errors(place_of(self, other), #name);      \
    return op(self, other);                                     \
  }                                                             \
  Tensor Tensor::name(const Located& other) const {             \
    return tandem::name(Located(*this, other.location), other); \
  }                                                             \
  const Tensor& Tensor::name##_(const Located& other) const {   \
    const ErrorScope errors(other.location, #name, true);       \
    return op##_(other);                                        \
  }
TANDEM_BINARY_ALIASES(X)
#undef X

Tensor clip(const Tensor& self, std::optional<Number> min, std::optional<Number> max,
            SourceLocation at) {
  const ErrorScope errors(at);
  return clamp(self, min, max, at);
}
Tensor Tensor::clip(std::optional<Number> min, std::optional<Number> max, SourceLocation at) const {
  return tandem::clip(*this, min, max, at);
}
const Tensor& Tensor::clip_(std::optional<Number> min, std::optional<Number> max,
                            SourceLocation at) const {
  const ErrorScope errors(at, "clip", true);
  return clamp_(min, max, at);
}

Tensor clip(const Tensor& self, const Tensor& min, const Tensor& max, SourceLocation at) {
  const ErrorScope errors(at);
  return clamp(self, min, max, at);
}
Tensor Tensor::clip(const Tensor& min, const Tensor& max, SourceLocation at) const {
  return tandem::clip(*this, min, max, at);
}
const Tensor& Tensor::clip_(const Tensor& min, const Tensor& max, SourceLocation at) const {
  const ErrorScope errors(at, "clip", true);
  return clamp_(min, max, at);
}

Tensor divide(const Located& self, const Located& other, std::string_view rounding_mode) {
  const ErrorScope errors(place_of(self, other));
  return div(self, other, rounding_mode);
}
Tensor Tensor::divide(const Located& other, std::string_view rounding_mode) const {
  return tandem::divide(Located(*this, other.location), other, rounding_mode);
}
const Tensor& Tensor::divide_(const Located& other, std::string_view rounding_mode) const {
  const ErrorScope errors(other.location, "divide", true);
  return div_(other, rounding_mode);
}

namespace special {

#define X(name, op)                                    \
  Tensor name(const Tensor& self, SourceLocation at) { \
    const ErrorScope errors(at);                       \
    return tandem::op(self, at);                       \
  }
TANDEM_SPECIAL_ALIASES(X)
#undef X
#define X(name, op)                                        \
  Tensor name(const Located& self, const Located& other) { \
    const ErrorScope errors(place_of(self, other));        \
    return tandem::op(self, other);                        \
  }
TANDEM_SPECIAL_BINARY_ALIASES(X)
#undef X

Tensor multigammaln(const Tensor& self, int64_t p, SourceLocation at) {
  const ErrorScope errors(at);
  return mvlgamma(self, p, at);
}

}  // namespace special
}  // namespace tandem
