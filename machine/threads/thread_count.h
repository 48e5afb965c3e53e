// How many threads a parallel region uses.
#ifndef TANDEM_MACHINE_THREADS_THREAD_COUNT_H
#define TANDEM_MACHINE_THREADS_THREAD_COUNT_H

namespace tandem::machine {

inline constexpr int kMaxThreads = 256;

/// Threads that a region may use, the caller's included: the last set_num_threads, else
/// TANDEM_NUM_THREADS, else OMP_NUM_THREADS, else available_processors(). A region uses no more
/// than there are processors. Throws Error (argument) on a TANDEM_NUM_THREADS that is no number
/// from 1 to kMaxThreads.
int num_threads();

/// Sets num_threads() for regions that start later. Throws Error (argument) unless 1 <= n <=
/// kMaxThreads.
void set_num_threads(int n);

/// Regions that start later use up to `n` threads as if there were that many processors and nobody
/// else wanted them (so that tests run in parallel on any machine); 0 brings the true state back.
void assume_processors(int n);

/// What assume_processors() said last, or 0.
int assumed_processors();

/// The most threads that a region may use now: num_threads(), or what that would be without a
/// TANDEM_NUM_THREADS that is wrong (a region cannot throw), and no more than there are processors.
int threads_of_region() noexcept;

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_THREADS_THREAD_COUNT_H
