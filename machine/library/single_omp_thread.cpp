#include "machine/library/single_omp_thread.h"

// Of OpenMP's runtime; its header is not on every compiler's path.
extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int);

namespace tandem::machine {

SingleOmpThread::SingleOmpThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}

SingleOmpThread::~SingleOmpThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

}  // namespace tandem::machine
