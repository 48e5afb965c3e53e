// The number of threads: what was set, the environment's, or the processors'.
#include "machine/threads/thread_count.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "ir/base/error.h"
#include "machine/threads/processors.h"

namespace tandem::machine {
namespace {

std::atomic<int> g_threads{0};
std::atomic<int> g_processors{0};
std::atomic<int> g_assumed_processors{0};

/// What `find()` says, kept in `kept` (0: not found yet). A set value is never replaced.
template <class Find>
int keep(std::atomic<int>& kept, Find find) {
  if (const int n = kept.load(std::memory_order_relaxed); n > 0) return n;
  const int found = find();
  int unset = 0;
  return kept.compare_exchange_strong(unset, found) ? found : unset;
}

int processors() {
  if (const int n = assumed_processors(); n > 0) return n;
  return keep(g_processors, [] { return std::min(available_processors(), kMaxThreads); });
}

std::string range_text() { return "1 to " + std::to_string(kMaxThreads); }

/// TANDEM_NUM_THREADS, or 0 if that is not set; negative if it is no number of threads.
int own_variable() {
  const char* text = std::getenv("TANDEM_NUM_THREADS");
  if (!text || !*text) return 0;
  int n = 0;
  const char* const end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, n);
  return error == std::errc() && at == end && n >= 1 && n <= kMaxThreads ? n : -1;
}

/// The number at the start of OMP_NUM_THREADS, which may be a list, or 0.
int omp_variable() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  const long n = text ? std::strtol(text, nullptr, 10) : 0;
  return n >= 1 ? static_cast<int>(std::min<long>(n, kMaxThreads)) : 0;
}

int default_threads() {
  const int n = omp_variable();
  return n > 0 ? n : processors();
}

}  // namespace

int num_threads() {
  return keep(g_threads, [] {
    const int own = own_variable();
    if (own < 0)
      ir::fail(ir::Errc::Argument, "TANDEM_NUM_THREADS: not a number of threads; expected " +
                                       range_text() + ", got " + std::getenv("TANDEM_NUM_THREADS"));
    return own > 0 ? own : default_threads();
  });
}

void set_num_threads(int n) {
  if (n < 1 || n > kMaxThreads) {
    ir::fail(ir::Errc::Argument, "set_num_threads: number of threads out of range; expected " +
                                     range_text() + ", got " + std::to_string(n));
  }
  g_threads.store(n, std::memory_order_relaxed);
}

void assume_processors(int n) { g_assumed_processors.store(n, std::memory_order_relaxed); }

int assumed_processors() { return g_assumed_processors.load(std::memory_order_relaxed); }

int threads_of_region() noexcept {
  const int set = g_threads.load(std::memory_order_relaxed);
  if (set > 0) return std::min(set, processors());
  return std::min(own_variable() < 0 ? default_threads() : num_threads(), processors());
}

}  // namespace tandem::machine
