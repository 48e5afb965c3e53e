// The one thread pool of the process. A parallel region is units of work that threads claim as they
// come. What a unit is must depend on shapes alone; then results do not depend on the number of
// threads, nor on who ran which.
//
// The caller works too, and runs whatever nobody has claimed: it waits only for threads in the
// middle of something they claimed, never for one that has not begun. So on a machine that does
// other work a region takes no longer than on one thread, but for the time that the system puts a
// thread aside with a piece of the region in its hands. After such a time, and while others want
// the caller's processor, regions stay on their callers.
//
// One region owns the pool at a time. A second caller, or a region started inside another, runs its
// region on its own thread: the same units, the same bits. Who waits spins for kSpinMicroseconds
// and then sleeps. After a fork the child starts with no workers and makes its own when it needs
// them.
#ifndef TANDEM_MACHINE_THREADS_THREAD_POOL_H
#define TANDEM_MACHINE_THREADS_THREAD_POOL_H

#include <cstdint>

#include "ir/base/function_ref.h"
#include "machine/threads/thread_count.h"

namespace tandem::machine {

inline constexpr int kSpinMicroseconds = 50;

/// Work on units [begin, end); `worker` is below num_threads() at the region's start, and no two
/// ranges of one region that run at the same time share it. It must not throw: an error is reported
/// through the context.
using RangeFunction = void (*)(void* context, int64_t begin, int64_t end, int worker);

/// Runs `fn` over [0, units), returning when all is done, in ranges of at least `grain` units (so
/// below 2 * grain the caller runs everything itself); `worker` stays below `most_threads` too. It
/// allocates nothing once workers exist.
void parallel_for(int64_t units, int64_t grain, RangeFunction fn, void* context,
                  int most_threads = kMaxThreads) noexcept;

/// The same for a callable.
void parallel_for(int64_t units, int64_t grain,
                  ir::FunctionRef<void(int64_t, int64_t, int)> fn) noexcept;

/// Runs `fn` on each of [0, count), as a region whose units are tasks of any length: that its
/// caller waits for one says nothing about the machine, and none is too short for other threads.
/// It must not throw.
void parallel_tasks(int64_t count, ir::FunctionRef<void(int64_t)> fn) noexcept;

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_THREADS_THREAD_POOL_H
