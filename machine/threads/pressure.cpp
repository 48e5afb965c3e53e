#include "machine/threads/pressure.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <utility>

namespace tandem::machine {
namespace {

/// Nanoseconds that the calling thread ran, and that it was ready to run and did not; zeros where
/// the kernel does not count them.
std::pair<uint64_t, uint64_t> times() {
  std::array<char, 64> text;
  const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t bytes = read(file, text.data(), text.size());
  close(file);
  uint64_t run = 0, wait = 0;
  const char* const end = text.data() + (bytes > 0 ? bytes : 0);
  const auto first = std::from_chars(text.data(), end, run);
  if (first.ptr < end) std::from_chars(first.ptr + 1, end, wait);
  return {run, wait};
}

}  // namespace

bool Pressure::looks_high(Clock::time_point now) {
  const bool same_thread = pthread_equal(thread_, pthread_self());
  if (same_thread && now < next_) return high_;
  const auto [run, wait] = times();
  const uint64_t waited = wait - wait_ns_, wanted = waited + run - run_ns_;
  high_ = same_thread && 5 * waited > wanted;
  thread_ = pthread_self();
  run_ns_ = run, wait_ns_ = wait, next_ = now + kApart;
  return high_;
}

}  // namespace tandem::machine
