// A number of threads for a test, on any machine.
#ifndef TANDEM_TESTS_SUPPORT_THREADS_H
#define TANDEM_TESTS_SUPPORT_THREADS_H

#include "machine/threads/thread_pool.h"

namespace tandem::testing {

/// While it lives, regions use the threads that it says, as if each had a processor of its own.
class Threads {
 public:
  explicit Threads(int n) : before_(machine::num_threads()) { set(n); }
  ~Threads() {
    machine::set_num_threads(before_);
    machine::assume_processors(0);
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  static void set(int n) {
    machine::set_num_threads(n);
    machine::assume_processors(n);
  }

 private:
  int before_;
};

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_THREADS_H
