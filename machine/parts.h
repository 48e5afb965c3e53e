// Parts that convolutions and products are cut into.
#ifndef TANDEM_MACHINE_PARTS_H
#define TANDEM_MACHINE_PARTS_H

#include <cstdint>

#include "machine/rounding.h"

namespace tandem::machine {

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
  /// Of what each of them consists of.
  Range times(int64_t n) const { return {begin * n, end * n}; }
};

/// `n` in as few parts as none is larger than `most`, of sizes that differ by one at most.
struct EvenParts {
  EvenParts(int64_t all, int64_t most) : n(all), count(ceil_div(all, most)) {}
  Range operator[](int64_t i) const { return {n * i / count, n * (i + 1) / count}; }
  int64_t largest() const { return ceil_div(n, count); }
  int64_t smallest() const { return n / count; }

  int64_t n, count;
};

/// Of `units` that take so many operations together, as many as are worth a thread.
inline int64_t units_for_a_thread(int64_t units, double flops) {
  constexpr double kWorthAThread = 1e5;
  return static_cast<int64_t>(kWorthAThread * static_cast<double>(units) / flops) + 1;
}

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_PARTS_H
