// The clock of the benchmarks.
#ifndef TANDEM_BENCH_CLOCK_H
#define TANDEM_BENCH_CLOCK_H

#include <chrono>

namespace bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How long `f()` takes, in seconds.
template <class F>
double seconds_of(const F& f) {
  const auto start = Clock::now();
  f();
  return seconds_since(start);
}

}  // namespace bench

#endif  // TANDEM_BENCH_CLOCK_H
