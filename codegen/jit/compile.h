// From kernels to callable code. The header that users of this folder include; no LLVM type.
#ifndef TANDEM_CODEGEN_JIT_COMPILE_H
#define TANDEM_CODEGEN_JIT_COMPILE_H

#include <memory>
#include <span>
#include <vector>

#include "codegen/jit/jit.h"
#include "codegen/loops/kernel.h"

namespace tandem::jit {

/// What kernels may use on this machine (machine::cpu_features()).
const Target& native_target();

struct CompiledKernels {
  std::vector<codegen::KernelFunction> functions;  // one per kernel
  std::shared_ptr<const void> owner;               // keeps the code mapped
  std::vector<std::vector<uint64_t>> numbers;      // one per kernel: the table that its function
                                                   // reads, or nothing
  /// One per kernel: which param stands at each place of its function's; nothing if they are the
  /// kernel's own.
  std::vector<std::vector<codegen::ParamId>> params;
  int fresh = 0;    // how many had to wait for machine code
  int general = 0;  // how many have code that takes all sizes
};

/// What a function gets: of the addresses of the kernel's params those at its places (`places`: as
/// CompiledKernels::params), then that of the table.
std::vector<void*> arguments(std::span<void* const> params,
                             std::span<const codegen::ParamId> places,
                             std::span<const uint64_t> numbers);

/// What code may know of the kernels' sizes.
enum class Sizes : uint8_t {
  Known,  // it is for these while no other is known
  Open,   // where it has to be made, it is at once for any
  Own,    // it is for these (but for those that cost nothing to read), whatever there is for others
};

/// Machine code for `kernels`. Kernels of one form (form.h), of this call or still alive from an
/// earlier one, share code that reads their numbers and sizes; one of its own form has them in its
/// code, and equal kernels are compiled once. Many new ones are compiled on several threads. Object
/// code is kept in the folder `cache_dir` (TANDEM_CACHE_DIR if empty; without either nowhere) and
/// found there by later runs. Safe to call from any thread.
CompiledKernels compile_kernels(std::span<const codegen::Kernel> kernels,
                                const Target& target = native_target(),
                                const std::string& cache_dir = {}, Sizes sizes = Sizes::Known);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_COMPILE_H
