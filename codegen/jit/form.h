// Forms: kernels without those of their numbers that machine code reads from memory as fast as it
// would from itself. Kernels that differ in nothing else have one form, and one code.
#ifndef TANDEM_CODEGEN_JIT_FORM_H
#define TANDEM_CODEGEN_JIT_FORM_H

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/loops/kernel.h"

namespace tandem::jit {

struct Form {
  codegen::Kernel kernel;
  /// Instructions, ascending: constants whose numbers are not in the code but in a table, in this
  /// order. What `kernel` says of these numbers means nothing.
  std::vector<int> open{};
  friend bool operator==(const Form&, const Form&) = default;
};

/// A kernel, taken apart.
struct Opened {
  Form form;
  std::vector<uint64_t> numbers;  // the table of codegen::KernelFunction
  friend bool operator==(const Opened&, const Opened&) = default;
};

/// With all the numbers open that can be. A pure function of the kernel.
Opened opened(const codegen::Kernel& kernel);

uint64_t hash(const Form& form);
/// Bytes that are equal exactly if the forms are.
std::string content(const Form& form);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_FORM_H
