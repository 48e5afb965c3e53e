// Results must be the same bits whatever is saved and however many threads compute them: one random
// program, many cuts, or many threads.
#ifndef TANDEM_TESTS_SUPPORT_PARTITION_BITS_H
#define TANDEM_TESTS_SUPPORT_PARTITION_BITS_H

#include <cstdint>
#include <string>

namespace tandem::testing {

struct CutCheck {
  int requests = 0;  // partitioners, budgets and random cuts that were asked for
  int cuts = 0;      // different ones among them: each was run
  bool random_ops = false;
  std::string difference;  // empty if all agree
};

/// Runs program `seed` by default, reference, save-all, recompute-all, both budgets at {0, 0.1,
/// 0.25, 0.5, 0.75, 1} and 20 random cuts, each lowered to plans. `with_jit`: as machine code; else
/// by the plan interpreter.
CutCheck check_cuts(uint64_t seed, bool with_jit);

/// Runs both halves of program `seed` as machine code by 1, 2, 3 and 8 threads, with every launch
/// split as finely as it can be. Where results or gradients differ, or empty.
std::string check_threads(uint64_t seed);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_PARTITION_BITS_H
