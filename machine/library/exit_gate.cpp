#include "machine/library/exit_gate.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>

namespace tandem::machine {
namespace {

std::atomic<int> g_inside{0};  // threads, nested entries counted
std::atomic<bool> g_closed{false};
std::atomic<pthread_t> g_closer{};
thread_local int t_inside = 0;

void close_gate() {
  if (g_closed.load()) return;
  g_closer.store(pthread_self());
  g_closed.store(true);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (g_inside.load() > t_inside && std::chrono::steady_clock::now() < deadline) usleep(100);
}

/// In the child of a fork the other threads do not exist.
void forget_others() { g_inside.store(t_inside); }

}  // namespace

InLibrary::InLibrary() noexcept {
  g_inside.fetch_add(1);
  if (g_closed.load() && !pthread_equal(g_closer.load(), pthread_self())) {
    g_inside.fetch_sub(1);
    for (;;) pause();  // the process ends around this thread
  }
  ++t_inside;
}

InLibrary::~InLibrary() {
  --t_inside;
  g_inside.fetch_sub(1);
}

void close_gate_at_exit() {
  [[maybe_unused]] static const int prepared = pthread_atfork(nullptr, nullptr, forget_others);
  std::atexit(close_gate);
}

bool is_ending() noexcept { return g_closed.load(std::memory_order_relaxed); }

}  // namespace tandem::machine
