// The clock of the benchmarks.
#ifndef TANDEM_BENCH_CLOCK_H
#define TANDEM_BENCH_CLOCK_H

#include <chrono>
#include <ctime>

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

/// The processor time of all threads of this process in `f()`, in seconds.
template <class F>
double processor_seconds_of(const F& f) {
  const auto start = std::clock();
  f();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

}  // namespace bench

#endif  // TANDEM_BENCH_CLOCK_H
