// The tests of lowering once more, with emitted code in place of the kernel interpreter.
#include <memory>
#include <vector>

#include "codegen/jit/compile.h"
#include "tests/unit/codegen/check_lowering.h"

namespace tandem::codegen {
namespace {

int64_t run_compiled(const Kernel& kernel, void* const* params, int64_t begin, int64_t end,
                     KernelError* error) {
  const jit::CompiledKernels code = jit::compile_kernels({&kernel, 1});
  const size_t bytes = scratch_bytes(kernel) + 64;
  const std::unique_ptr<void, void (*)(void*)> scratch(std::aligned_alloc(64, bytes), std::free);
  std::vector<void*> arguments =
      jit::arguments({params, kernel.params.size()}, code.params[0], code.numbers[0]);
  return code.functions[0](arguments.data(), begin, end, scratch.get(), error);
}

const bool kCompiled = (kernel_runner = run_compiled, true);

}  // namespace
}  // namespace tandem::codegen

#include "tests/unit/codegen/column_sums_test.cpp"
#include "tests/unit/codegen/lower_test.cpp"
#include "tests/unit/codegen/narrow_rows_test.cpp"
#include "tests/unit/codegen/short_rows_test.cpp"
#include "tests/unit/codegen/sources_test.cpp"
