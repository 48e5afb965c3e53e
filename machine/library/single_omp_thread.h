// The guard under which every call of a library that uses OpenMP is made.
#ifndef TANDEM_MACHINE_LIBRARY_SINGLE_OMP_THREAD_H
#define TANDEM_MACHINE_LIBRARY_SINGLE_OMP_THREAD_H

#include "machine/library/exit_gate.h"

namespace tandem::machine {

/// While it lives, OpenMP code called from this thread uses one thread; then the thread's own
/// setting is back.
class SingleOmpThread {
 public:
  SingleOmpThread();
  ~SingleOmpThread();
  SingleOmpThread(const SingleOmpThread&) = delete;
  SingleOmpThread& operator=(const SingleOmpThread&) = delete;

 private:
  InLibrary in_library_;
  int before_;
};

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LIBRARY_SINGLE_OMP_THREAD_H
