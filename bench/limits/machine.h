// What the machine can do, measured: traffic of a footprint, and f32 arithmetic.
#ifndef TANDEM_BENCH_LIMITS_MACHINE_H
#define TANDEM_BENCH_LIMITS_MACHINE_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace bench {

/// The smallest time of `run` in seconds, over at least `seconds` and 5 runs after a first one.
double best_time(const std::function<void()>& run, double seconds = 0.15);

/// A loop that does nothing but move memory, on the pool's threads and in pages of the library's
/// allocator: a sum (reads 1, writes 0), a copy (1, 1) or a triad a[i] = b[i] + s * c[i] (2, 1) on
/// arrays of together `bytes`. There are `sets` such arrays, which runs take in turns.
class Traffic {
 public:
  Traffic(int reads, int writes, double bytes, size_t sets = 1);
  ~Traffic();
  /// `streams`: stores go past the caches.
  void run(bool streams);
  bool can_stream() const;

 private:
  struct Arrays;
  int reads_, writes_;
  int64_t lines_;  // of 64 bytes, in each array
  std::vector<Arrays> sets_;
  std::vector<uint32_t> sums_;
  size_t next_ = 0;
};

/// How many sets of `bytes` calls go round over, so that each comes from memory: kFromMemory times
/// the last cache is read before a set comes again.
inline constexpr double kFromMemory = 4;
size_t sets_from_memory(double bytes);

/// f32 operations a second on the pool's threads, an fma counted as two; measured for `seconds`. 0
/// where there is no fma.
double peak_flops(double seconds = 0.15);

}  // namespace bench

#endif  // TANDEM_BENCH_LIMITS_MACHINE_H
