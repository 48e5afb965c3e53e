// Reductions of what is converted to another dtype first, in which their results are.
#include <tandem/ops.h>

#include "ir/base/error_scope.h"

namespace tandem {

Tensor sum(const Tensor& self, const DimList& dims, bool keepdim, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return to(sum(to(self, dtype, at), dims, keepdim, at), dtype, at);
}
Tensor Tensor::sum(const DimList& dims, bool keepdim, DType dtype, SourceLocation at) const {
  return tandem::sum(*this, dims, keepdim, dtype, at);
}
Tensor prod(const Tensor& self, const DimList& dims, bool keepdim, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return to(prod(to(self, dtype, at), dims, keepdim, at), dtype, at);
}
Tensor Tensor::prod(const DimList& dims, bool keepdim, DType dtype, SourceLocation at) const {
  return tandem::prod(*this, dims, keepdim, dtype, at);
}
Tensor mean(const Tensor& self, const DimList& dims, bool keepdim, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return mean(to(self, dtype, at), dims, keepdim, at);
}
Tensor Tensor::mean(const DimList& dims, bool keepdim, DType dtype, SourceLocation at) const {
  return tandem::mean(*this, dims, keepdim, dtype, at);
}
Tensor softmax(const Tensor& self, int64_t dim, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return softmax(to(self, dtype, at), dim, at);
}
Tensor Tensor::softmax(int64_t dim, DType dtype, SourceLocation at) const {
  return tandem::softmax(*this, dim, dtype, at);
}
Tensor log_softmax(const Tensor& self, int64_t dim, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return log_softmax(to(self, dtype, at), dim, at);
}
Tensor Tensor::log_softmax(int64_t dim, DType dtype, SourceLocation at) const {
  return tandem::log_softmax(*this, dim, dtype, at);
}
Tensor softmin(const Tensor& self, int64_t dim, DType dtype, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return softmax(neg(self, at), dim, dtype, at);
}

}  // namespace tandem
