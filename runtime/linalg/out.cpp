// Products that write into given tensors.
#include "runtime/ops/out.h"

#include <tandem/ops/linalg.h>
#include <tandem/ops/out_forms.h>

namespace tandem {

using runtime::write_out;

const Tensor& addmm_out(const Tensor& out, const Tensor& self, const Tensor& mat1,
                        const Tensor& mat2, const ScaledSum& scales, SourceLocation at) {
  return write_out("addmm_out", out, at, {}, [&] { return addmm(self, mat1, mat2, scales, at); });
}
const Tensor& addbmm_out(const Tensor& out, const Tensor& self, const Tensor& batch1,
                         const Tensor& batch2, const ScaledSum& scales, SourceLocation at) {
  return write_out("addbmm_out", out, at, {},
                   [&] { return addbmm(self, batch1, batch2, scales, at); });
}
const Tensor& baddbmm_out(const Tensor& out, const Tensor& self, const Tensor& batch1,
                          const Tensor& batch2, const ScaledSum& scales, SourceLocation at) {
  return write_out("baddbmm_out", out, at, {},
                   [&] { return baddbmm(self, batch1, batch2, scales, at); });
}
const Tensor& addmv_out(const Tensor& out, const Tensor& self, const Tensor& mat, const Tensor& vec,
                        const ScaledSum& scales, SourceLocation at) {
  return write_out("addmv_out", out, at, {}, [&] { return addmv(self, mat, vec, scales, at); });
}
const Tensor& addr_out(const Tensor& out, const Tensor& self, const Tensor& vec1,
                       const Tensor& vec2, const ScaledSum& scales, SourceLocation at) {
  return write_out("addr_out", out, at, {}, [&] { return addr(self, vec1, vec2, scales, at); });
}
const Tensor& mv_out(const Tensor& out, const Tensor& self, const Tensor& vec, SourceLocation at) {
  return write_out("mv_out", out, at, {}, [&] { return mv(self, vec, at); });
}
const Tensor& dot_out(const Tensor& out, const Tensor& self, const Tensor& tensor,
                      SourceLocation at) {
  return write_out("dot_out", out, at, {}, [&] { return dot(self, tensor, at); });
}
const Tensor& vdot_out(const Tensor& out, const Tensor& self, const Tensor& other,
                       SourceLocation at) {
  return write_out("vdot_out", out, at, {}, [&] { return vdot(self, other, at); });
}
const Tensor& inner_out(const Tensor& out, const Tensor& self, const Tensor& other,
                        SourceLocation at) {
  return write_out("inner_out", out, at, {}, [&] { return inner(self, other, at); });
}
const Tensor& outer_out(const Tensor& out, const Tensor& self, const Tensor& vec2,
                        SourceLocation at) {
  return write_out("outer_out", out, at, {}, [&] { return outer(self, vec2, at); });
}
const Tensor& ger_out(const Tensor& out, const Tensor& self, const Tensor& vec2,
                      SourceLocation at) {
  return write_out("ger_out", out, at, {}, [&] { return ger(self, vec2, at); });
}
const Tensor& kron_out(const Tensor& out, const Tensor& self, const Tensor& other,
                       SourceLocation at) {
  return write_out("kron_out", out, at, {}, [&] { return kron(self, other, at); });
}
const Tensor& tensordot_out(const Tensor& out, const Tensor& self, const Tensor& other,
                            const DimList& dims_self, const DimList& dims_other,
                            SourceLocation at) {
  return write_out("tensordot_out", out, at, {},
                   [&] { return tensordot(self, other, dims_self, dims_other, at); });
}
const Tensor& cross_out(const Tensor& out, const Tensor& self, const Tensor& other,
                        std::optional<int64_t> dim, SourceLocation at) {
  return write_out("cross_out", out, at, {}, [&] { return cross(self, other, dim, at); });
}
const Tensor& chain_matmul_out(const Tensor& out, const std::vector<Tensor>& matrices,
                               SourceLocation at) {
  return write_out("chain_matmul_out", out, at, {}, [&] { return chain_matmul(matrices, at); });
}
const Tensor& linalg::cross_out(const Tensor& out, const Tensor& self, const Tensor& other,
                                int64_t dim, SourceLocation at) {
  return write_out("cross_out", out, at, {}, [&] { return linalg::cross(self, other, dim, at); });
}
const Tensor& linalg::vecdot_out(const Tensor& out, const Tensor& x, const Tensor& y, int64_t dim,
                                 SourceLocation at) {
  return write_out("vecdot_out", out, at, {}, [&] { return linalg::vecdot(x, y, dim, at); });
}
const Tensor& linalg::multi_dot_out(const Tensor& out, const std::vector<Tensor>& tensors,
                                    SourceLocation at) {
  return write_out("multi_dot_out", out, at, {}, [&] { return linalg::multi_dot(tensors, at); });
}

}  // namespace tandem
