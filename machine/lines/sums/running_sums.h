// Running sums of lines: the loops of each instruction set.
#ifndef TANDEM_MACHINE_LINES_SUMS_RUNNING_SUMS_H
#define TANDEM_MACHINE_LINES_SUMS_RUNNING_SUMS_H

#include <cstdint>

namespace tandem::machine::lines {

/// Lines that lie side by side, as those along an outer dimension do, are summed so many at a time.
inline constexpr int kSideBySide = 16;

/// Sums over groups of so many elements, the first from the first element of a line.
inline constexpr int kGroup = 8;

/// Of each element of a line the sum of all up to it, `carry` + (`local` + what is in its group):
/// within a group by a tree, so that the sums of neighbours do not wait for each other, and with
/// the same bits however lines lie. T is summed in S.
template <class T, class S>
struct RunningSums {
  /// Of `n` neighbours: to `out` (nullptr: nowhere) what they come to; returns `local` after them.
  S (*of_run)(const T* x, int64_t n, S carry, S local, T* out);
  /// Of kSideBySide lines: `n` elements of each, `stride` apart.
  void (*of_lines)(const T* x, int64_t stride, int64_t n, const S* carry, S* local, T* out,
                   int64_t out_stride);
  /// Of `lines` lines of `n` neighbours each, `apart` from one to the next, from their beginnings.
  void (*of_runs)(const T* x, int64_t apart, int64_t lines, int64_t n, T* out, int64_t out_apart);
};

struct RunningSumKernels {
  RunningSums<float, double> f32;
  RunningSums<double, double> f64;
  RunningSums<int64_t, uint64_t> i64;
};

extern const RunningSumKernels kRunningSumsBase, kRunningSumsAvx2, kRunningSumsAvx512;

}  // namespace tandem::machine::lines

#endif  // TANDEM_MACHINE_LINES_SUMS_RUNNING_SUMS_H
