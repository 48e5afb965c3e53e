// oneDNN matmul primitives for blocks of dense operands, shared in a process-wide cache.
#ifndef TANDEM_MACHINE_LIBRARY_BLOCK_PRIMITIVE_H
#define TANDEM_MACHINE_LIBRARY_BLOCK_PRIMITIVE_H

#include <memory>

#include "machine/library/bf16_matmul.h"
#include "machine/library/matmul.h"
#include "machine/library/single_omp_thread.h"

namespace tandem::machine {

/// Of what BlockPrimitive::run returns, which is a dnnl_status_t.
inline constexpr int kBlockDone = 0, kBlockWithoutMemory = 1;

/// C [batch, m, n] (+)= A [batch, m, k] B [batch, k, n]. Thread safe.
class BlockPrimitive {
 public:
  virtual ~BlockPrimitive() = default;
  /// Call it under SingleOmpThread.
  virtual int run(const void* a, const void* b, void* c) const noexcept = 0;
};

/// The primitive of blocks of `batch` matrices and `m` rows of `spec`, of dense f32 operands, A and
/// C row-major; or null where the library has no fast kernel.
std::shared_ptr<BlockPrimitive> block_primitive(const MatmulSpec& spec, int64_t batch, int64_t m);

/// A block of a product: `part` has its extents, `whole` those that its strides step over.
struct Bf16Block {
  DenseProduct whole, part;
  auto operator<=>(const Bf16Block&) const = default;
};
std::shared_ptr<BlockPrimitive> block_primitive(const Bf16Block& block);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LIBRARY_BLOCK_PRIMITIVE_H
