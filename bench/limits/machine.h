// What the machine can do, measured: bandwidth at a footprint, and f32 arithmetic.
#ifndef TANDEM_BENCH_LIMITS_MACHINE_H
#define TANDEM_BENCH_LIMITS_MACHINE_H

#include <cstddef>
#include <functional>

namespace bench {

/// The smallest time of `run` in seconds, over at least `seconds` and 5 runs after a first one.
double best_time(const std::function<void()>& run, double seconds = 0.15);

/// Bytes a second of a[i] = b[i] + s * c[i] on the pool's threads, the three arrays together about
/// `bytes` long.
double triad_bandwidth(size_t bytes);

/// f32 operations a second on the pool's threads, an fma counted as two.
double peak_flops();

}  // namespace bench

#endif  // TANDEM_BENCH_LIMITS_MACHINE_H
