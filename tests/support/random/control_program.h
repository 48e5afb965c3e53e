// Random programs of nested branches and loops, whose bodies write what they are handed, what they
// capture and the program's inputs, make views and draw numbers.
#ifndef TANDEM_TESTS_SUPPORT_RANDOM_CONTROL_PROGRAM_H
#define TANDEM_TESTS_SUPPORT_RANDOM_CONTROL_PROGRAM_H

#include <tandem/tandem.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::testing {

/// What is computed with. Integers: small ones, held in one dtype, so that every evaluator must
/// give the same bits. Gradients: smooth functions in f64.
enum class ControlNumbers : uint8_t { Integers, Gradients };

struct ControlProgram {
  struct Block;
  /// One step. Operands are numbers into the list of tensors there, modulo its length.
  struct Step {
    uint32_t kind = 0, a = 0, b = 0, c = 0;
    std::vector<Block> blocks;
  };
  struct Block {
    std::vector<Step> steps;
    std::vector<uint32_t> results;
  };
  uint64_t seed = 0;
  ControlNumbers numbers = ControlNumbers::Integers;
  DType dtype = f32;
  Block main;
};

ControlProgram random_control_program(uint64_t seed, ControlNumbers numbers);
/// As C++ that reads like the program.
std::string to_string(const ControlProgram& program);

/// `refused`: eager throws, or says that a gradient needs what was written. `stricter`: only the
/// compiled function does, for memory that is shared in a loop, and says so.
struct ControlVerdict {
  bool refused = false, stricter = false;
  std::string difference;
};
/// Eager against compiled on both backends, each called with two sets of inputs: results, final
/// inputs, the next number drawn, and gradients.
ControlVerdict check_control(const ControlProgram& program);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_RANDOM_CONTROL_PROGRAM_H
