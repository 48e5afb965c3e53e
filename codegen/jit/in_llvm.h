// Where LLVM gets no memory it cannot go on, nor be left: the process ends, and says why.
#ifndef TANDEM_CODEGEN_JIT_IN_LLVM_H
#define TANDEM_CODEGEN_JIT_IN_LLVM_H

#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string_view>

namespace tandem::jit {

/// Allocates nothing.
[[noreturn]] inline void end_for_want_of_memory() {
  constexpr std::string_view kText =
      "tandem: LLVM could not get memory while it compiled, and cannot go on without; the process "
      "ends\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
  std::abort();
}

/// Calls f(), which is LLVM's code alone: compiled without exceptions, it would keep its locks and
/// what it half made if one passed through it.
template <class F>
decltype(auto) in_llvm(F f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    end_for_want_of_memory();
  }
}

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_IN_LLVM_H
