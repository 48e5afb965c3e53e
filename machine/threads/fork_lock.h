// A mutex that a fork cannot leave locked: it is taken before the fork and released on both sides
// after it.
#ifndef TANDEM_MACHINE_THREADS_FORK_LOCK_H
#define TANDEM_MACHINE_THREADS_FORK_LOCK_H

#include <pthread.h>

#include <mutex>
#include <new>

namespace tandem::machine {

/// The mutex of the process-wide structure named by `Tag`. It is never destroyed.
template <typename Tag>
std::mutex& fork_safe_mutex() {
  static std::mutex* mutex = [] {
    static std::mutex* m = new std::mutex;
    const auto lock = [] { m->lock(); };
    const auto unlock = [] { m->unlock(); };
    if (pthread_atfork(lock, unlock, unlock) != 0) throw std::bad_alloc();
    return m;
  }();
  return *mutex;
}

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_THREADS_FORK_LOCK_H
