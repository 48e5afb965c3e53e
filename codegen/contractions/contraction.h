// Contractions: which go to the library as matmuls and how, and the generated kernels of the
// others.
#ifndef TANDEM_CODEGEN_CONTRACTIONS_CONTRACTION_H
#define TANDEM_CODEGEN_CONTRACTIONS_CONTRACTION_H

#include <string_view>
#include <vector>

#include "codegen/draft.h"
#include "codegen/nodes/program.h"

namespace tandem::codegen {

/// The `algorithm` of contractions that a library computes as a whole: those of bf16, and large
/// ones of f64.
inline constexpr std::string_view kBf16 = "bf16", kBlas = "blas";
/// Whether contractions of this dtype are computed in f32 between converts: of halves, unless this
/// processor multiplies them.
bool is_widened(ir::DType dtype);

/// The `algorithm` attribute of a contraction of this dtype.
std::string_view algorithm_for(ir::DType dtype);
/// Whether it is a library call ("" means algorithm_for).
bool is_library_contraction(ir::DType dtype, std::string_view algorithm);
/// Whether the library takes batches of matrices [.., m, n] with these strides: one unit stride,
/// the other at least the extent it steps over.
bool is_library_matrix(const View& v);

/// The library call of a Matmul node; its buffers are left to the memory plan.
MatmulCall matmul_call(const Node& node);
/// The kernels of a TiledMatmul node: rows by four, and what is left.
std::vector<KernelDraft> tiled_matmul(const Program& program, const Node& node);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_CONTRACTIONS_CONTRACTION_H
