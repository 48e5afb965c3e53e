// Random programs of views, writes and arithmetic over inputs that may be duplicates, interleaved
// or overlapping views with gaps, in small integers held in one or two dtypes, so that every
// evaluator must give the same bits.
#ifndef TANDEM_TESTS_SUPPORT_RANDOM_ALIAS_PROGRAM_H
#define TANDEM_TESTS_SUPPORT_RANDOM_ALIAS_PROGRAM_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/outcome.h"

namespace tandem::testing {

/// How the inputs of a program take part in autograd.
enum class GradKind : uint8_t {
  None,          // they do not
  NonLeaf,       // views of results of operations
  Leaf,          // views of leaves: a write in grad mode is an error
  LeafNoGrad,    // the same, called without grad mode
  SomeDetached,  // as NonLeaf, but some are detached views of the same memory
};

struct AliasProgram {
  /// One step. Operands are numbers into the list of tensors made so far, modulo its length, so
  /// that a program stays one when steps are left out.
  struct Step {
    uint32_t kind = 0, a = 0, b = 0, c = 0;
  };
  /// Where an input lies: in which memory, from which element on.
  struct Place {
    uint32_t memory = 0, offset = 0;
    bool detached = false;
  };
  struct Geometry {
    Shape sizes;
    Strides strides;
  };
  uint64_t seed = 0;
  GradKind grad = GradKind::None;
  DType dtype = f32, other = f32;  // of even and odd memories
  bool special = false;            // NaN among the numbers
  std::vector<Geometry> inputs;
  std::vector<std::vector<Place>> patterns;  // of the calls, one after the other
  std::vector<Step> steps;
  std::vector<uint32_t> outputs;
  std::vector<Step> later;  // of the caller, in eager grad mode, on the inputs and results
};

AliasProgram random_alias_program(uint64_t seed);

/// Whether some input steps over elements of its memory; whether two lie in one memory, at
/// different places.
bool has_gaps(const AliasProgram& program);
bool shares_memory(const AliasProgram& program);

/// Runs eager and compiled under every pattern. `difference`: where they differ, or "".
/// `refused`: eager throws; `unsupported`: only the compiled function does, and says so;
/// `stricter`: only after a compiled call is backward refused, since a later step wrote what is
/// saved (the cut may read an input where eager kept an intermediate): save-all is compared
/// instead. `strictest`: that refuses too (of inputs that are views of one tensor eager knows for
/// each that a write by constants cut its gradient).
struct AliasVerdict {
  std::string difference;
  bool refused = false, unsupported = false, too_large = false;
  bool stricter = false, strictest = false;
};
AliasVerdict check_alias_program(const AliasProgram& program,
                                 const std::shared_ptr<const ir::Backend>& backend);

/// The smallest program that still differs, found by leaving out calls, steps and outputs.
AliasProgram minimized(AliasProgram program, const std::shared_ptr<const ir::Backend>& backend);

/// The program as C++-like text, one line per step that does something.
std::string to_string(const AliasProgram& program);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_RANDOM_ALIAS_PROGRAM_H
