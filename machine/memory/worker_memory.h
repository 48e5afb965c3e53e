// Working memory of the threads of one parallel region.
#ifndef TANDEM_MACHINE_MEMORY_WORKER_MEMORY_H
#define TANDEM_MACHINE_MEMORY_WORKER_MEMORY_H

#include <cstddef>
#include <cstdint>

#include "machine/memory/arena.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine {

/// `floats` for each worker, which share no cache line. Throws Error (out_of_memory).
class WorkerMemory {
 public:
  explicit WorkerMemory(int64_t floats)
      : floats_((floats + kLine - 1) / kLine * kLine),
        lease_(borrow_arena(static_cast<size_t>(floats_) * sizeof(float) *
                            static_cast<size_t>(num_threads()))) {}
  float* of(int worker) const { return reinterpret_cast<float*>(lease_.data()) + floats_ * worker; }

 private:
  static constexpr int64_t kLine = 32;
  int64_t floats_;
  ArenaLease lease_;
};

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_MEMORY_WORKER_MEMORY_H
