// Random compositions of functions of functions, of small functions with branches and loops.
#ifndef TANDEM_TESTS_SUPPORT_RANDOM_TRANSFORMS_H
#define TANDEM_TESTS_SUPPORT_RANDOM_TRANSFORMS_H

#include "tests/support/differential.h"

namespace tandem::testing {

/// A function of three numbers, up to four of grad, jvp, vjp, jacrev, jacfwd, hessian, vmap,
/// compile, checkpoint and functionalize around it, in f64: against the same by duals and loops
/// alone, and the outermost derivative against differences.
GradientVerdict check_transforms(uint64_t seed);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_RANDOM_TRANSFORMS_H
