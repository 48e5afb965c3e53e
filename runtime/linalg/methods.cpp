// Products as methods, and where they write themselves.
#include <tandem/linalg.h>

#include "ir/base/error_scope.h"

namespace tandem {

Tensor Tensor::addmm(const Tensor& mat1, const Tensor& mat2, const ScaledSum& scales,
                     SourceLocation at) const {
  return tandem::addmm(*this, mat1, mat2, scales, at);
}
Tensor Tensor::addbmm(const Tensor& batch1, const Tensor& batch2, const ScaledSum& scales,
                      SourceLocation at) const {
  return tandem::addbmm(*this, batch1, batch2, scales, at);
}
Tensor Tensor::baddbmm(const Tensor& batch1, const Tensor& batch2, const ScaledSum& scales,
                       SourceLocation at) const {
  return tandem::baddbmm(*this, batch1, batch2, scales, at);
}
Tensor Tensor::addmv(const Tensor& mat, const Tensor& vec, const ScaledSum& scales,
                     SourceLocation at) const {
  return tandem::addmv(*this, mat, vec, scales, at);
}
Tensor Tensor::addr(const Tensor& vec1, const Tensor& vec2, const ScaledSum& scales,
                    SourceLocation at) const {
  return tandem::addr(*this, vec1, vec2, scales, at);
}
Tensor Tensor::mv(const Tensor& vec, SourceLocation at) const { return tandem::mv(*this, vec, at); }
Tensor Tensor::dot(const Tensor& tensor, SourceLocation at) const {
  return tandem::dot(*this, tensor, at);
}
Tensor Tensor::vdot(const Tensor& other, SourceLocation at) const {
  return tandem::vdot(*this, other, at);
}
Tensor Tensor::inner(const Tensor& other, SourceLocation at) const {
  return tandem::inner(*this, other, at);
}
Tensor Tensor::outer(const Tensor& vec2, SourceLocation at) const {
  return tandem::outer(*this, vec2, at);
}
Tensor Tensor::ger(const Tensor& vec2, SourceLocation at) const {
  return tandem::ger(*this, vec2, at);
}
Tensor Tensor::kron(const Tensor& other, SourceLocation at) const {
  return tandem::kron(*this, other, at);
}
Tensor Tensor::cross(const Tensor& other, std::optional<int64_t> dim, SourceLocation at) const {
  return tandem::cross(*this, other, dim, at);
}

const Tensor& Tensor::addmm_(const Tensor& mat1, const Tensor& mat2, const ScaledSum& scales,
                             SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return copy_(Located(tandem::addmm(*this, mat1, mat2, scales, at), at));
}
const Tensor& Tensor::addbmm_(const Tensor& batch1, const Tensor& batch2, const ScaledSum& scales,
                              SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return copy_(Located(tandem::addbmm(*this, batch1, batch2, scales, at), at));
}
const Tensor& Tensor::baddbmm_(const Tensor& batch1, const Tensor& batch2, const ScaledSum& scales,
                               SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return copy_(Located(tandem::baddbmm(*this, batch1, batch2, scales, at), at));
}
const Tensor& Tensor::addmv_(const Tensor& mat, const Tensor& vec, const ScaledSum& scales,
                             SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return copy_(Located(tandem::addmv(*this, mat, vec, scales, at), at));
}
const Tensor& Tensor::addr_(const Tensor& vec1, const Tensor& vec2, const ScaledSum& scales,
                            SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return copy_(Located(tandem::addr(*this, vec1, vec2, scales, at), at));
}

}  // namespace tandem
