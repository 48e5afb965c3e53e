// Forms: kernels without those of their numbers that machine code reads from memory as fast as it
// would from itself. Kernels that differ in nothing else have one form, and one code.
#ifndef TANDEM_CODEGEN_JIT_FORM_H
#define TANDEM_CODEGEN_JIT_FORM_H

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/loops/kernel.h"

namespace tandem::jit {

/// What a form leaves open.
enum class Openness : uint8_t {
  Outer,  // constants, and sizes that cost nothing inside vector loops: how often units and outer
          // loops run, and by how far they step
  All,    // also how long vector loops are, where locals lie, and all else that addresses are made
          // of, so that code knows of a row only about how long it is
};

/// A size in the kernel of a form may stand for one that is not in the code: for the table's entry
/// `number`, times 2^shift.
struct OpenSize {
  int number = 0, shift = 0;
  int64_t encoded() const { return kFirst + 8 * int64_t{number} + shift; }
  /// Of what encoded() gave; an ordinary size is below kFirst.
  static OpenSize decoded(int64_t size) {
    const int64_t rest = size - kFirst;
    return {static_cast<int>(rest / 8), static_cast<int>(rest % 8)};
  }
  static constexpr int64_t kFirst = int64_t{1} << 62;
};
inline bool is_open_size(int64_t size) { return size >= OpenSize::kFirst; }
/// Whether `size`, open or not, is known to be a multiple of `power`, a power of two.
bool is_multiple(int64_t size, int64_t power);

struct Form {
  codegen::Kernel kernel;
  /// Instructions, ascending: constants whose numbers are not in the code but in a table, in this
  /// order. What `kernel` says of these numbers means nothing.
  std::vector<codegen::InstrId> open{};
  /// If any size is open: a loop's extent, if open, else -1. What `kernel` says of an open
  /// extent is the largest of those that code like this is right for.
  codegen::Table<codegen::LoopId, int64_t> extents{};
  int sizes = 0;  // how many open ones follow the numbers in the table
  friend bool operator==(const Form&, const Form&) = default;
};

/// A kernel, taken apart.
struct Opened {
  Form form;
  std::vector<uint64_t> numbers;  // the table of codegen::KernelFunction
  // of the form: which of the kernel's each is; nothing if the same
  codegen::Table<codegen::ParamId, codegen::ParamId> params{};
  friend bool operator==(const Opened&, const Opened&) = default;
};

/// With all open that can be. A pure function of the kernel.
Opened opened(const codegen::Kernel& kernel, Openness openness = Openness::Outer);

uint64_t hash(const Form& form);
/// Bytes that are equal exactly if the forms are.
std::string content(const Form& form);

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_FORM_H
