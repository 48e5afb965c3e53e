// One random program through every evaluator: the f64 reference, the interpreter, eager tensors and
// the JIT, forward and backward, by the design's meaning of "agree".
#ifndef TANDEM_TESTS_SUPPORT_DIFFERENTIAL_H
#define TANDEM_TESTS_SUPPORT_DIFFERENTIAL_H

#include <cstdint>
#include <string>

#include "tests/support/random/random_graph.h"

namespace tandem::testing {

struct Verdict {
  enum class Kind : uint8_t {
    Agree,
    Unstable,  // roundings decide an integer, bool or index of the program: nothing to compare
    Differ,
  };
  Kind kind = Kind::Agree;
  ProgramFeatures features;
  bool ran_eagerly = false;  // eager refuses programs that write what the tape saved
  std::string message;       // what differs, the seed and the graph
};

Verdict check_program(uint64_t seed);
/// The same of a program that is given.
Verdict check_program(const RandomProgram& program, const RandomProgram& widened, uint64_t seed);

/// Gradients of the program in f64 against differences of its results, along one direction.
/// `compared`: it has some, that are derivatives, and no decision is near.
struct GradientVerdict {
  bool compared = false;
  std::string difference;
};
GradientVerdict check_gradient(uint64_t seed);
/// Tangents of the program's results, run eagerly on dual numbers in f64, against its gradients:
/// <J v, w> = <v, J^T w>.
GradientVerdict check_tangents(uint64_t seed);
/// The program in f64 under vmap, results and gradients, against the program on each example.
GradientVerdict check_vmap(uint64_t seed);

/// Counts verdicts.
struct Tally {
  int programs = 0, unstable = 0, eager = 0, reductions = 0, contractions = 0, view_writes = 0,
      random = 0;

  void add(const Verdict& verdict);
  std::string summary() const;
};

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_DIFFERENTIAL_H
