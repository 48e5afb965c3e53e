// In-process loading of generated machine code (LLVM ORC over JITLink). Object bytes come in, entry
// addresses go out. No LLVM type is visible here; the half that makes object bytes from an
// llvm::Module is object.h.
#ifndef TANDEM_CODEGEN_JIT_JIT_H
#define TANDEM_CODEGEN_JIT_JIT_H

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::jit {

/// What generated code may use of a CPU. Equal targets and equal modules give equal object bytes.
struct Target {
  std::string
      features;  // LLVM feature string with every feature spelled out, e.g. "+avx,+avx2,+fma"
  int vector_bytes = 16;  // width of the vectors to use: 16, 32 or 64 bytes

  /// Whether `features` switches `feature` (a bare name such as "fma") on.
  bool has(std::string_view feature) const;
  bool operator==(const Target&) const = default;
};

/// Machine code in memory (mapped read and execute, never writable at the same time). The code is
/// unmapped with the object. Safe to use from any thread; entries must not run when it is
/// destroyed.
class Code {
 public:
  /// Links `object` into memory. `entries` are names of functions in it; a missing one or a
  /// reference to any symbol outside the object throws InternalError.
  static Code load(std::string_view object, std::span<const std::string> entries);

  Code();
  Code(Code&&) noexcept;
  Code& operator=(Code&&) noexcept;
  ~Code();

  /// The address of the i-th name given to load.
  void* entry(size_t i) const { return addresses_[i]; }
  size_t size() const { return addresses_.size(); }

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  std::vector<void*> addresses_;
};

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_JIT_H
