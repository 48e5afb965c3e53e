// Writes and additions at positions that come from data, without atomics and in a fixed order.
#ifndef TANDEM_CODEGEN_KERNELS_SCATTER_H
#define TANDEM_CODEGEN_KERNELS_SCATTER_H

#include "codegen/draft.h"
#include "codegen/nodes/program.h"

namespace tandem::codegen {

/// Whether a scatter of `sizes` along `dim` moves whole rows (dims after `dim` that share an
/// index), long enough to be shared out among threads by their destination. Its kernel fills the
/// destination with the node's third operand first, if it has one.
bool scatters_rows(const View& index, int dim, const ir::Shape& sizes);

/// The kernel of a Scatter node, the program's last; those before it make what it moves
/// (fusion/sources.h). Every destination takes its sources in ascending order; units share out
/// destination rows, or the dims other than the scattered one.
KernelDraft scatter_kernel(const Program& program);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_KERNELS_SCATTER_H
