// Whether other threads of the machine want the processor that the calling thread runs on.
#ifndef TANDEM_MACHINE_THREADS_PRESSURE_H
#define TANDEM_MACHINE_THREADS_PRESSURE_H

#include <pthread.h>

#include <chrono>
#include <cstdint>

namespace tandem::machine {

/// What the scheduler says of one thread at a time (the caller of the last look).
class Pressure {
 public:
  using Clock = std::chrono::steady_clock;
  /// Looks take microseconds, and the system deals out the processor in turns of milliseconds.
  static constexpr std::chrono::milliseconds kApart{40};

  /// Whether the calling thread, between the last two looks, was kept waiting for a processor for
  /// more than a fifth of the time that it wanted one. False where the system does not tell.
  bool looks_high(Clock::time_point now);

 private:
  pthread_t thread_{};
  Clock::time_point next_;
  uint64_t run_ns_ = 0, wait_ns_ = 0;
  bool high_ = false;
};

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_THREADS_PRESSURE_H
