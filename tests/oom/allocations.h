// A look at every allocation of the process that no library is to blame for.
#ifndef TANDEM_TESTS_OOM_ALLOCATIONS_H
#define TANDEM_TESTS_OOM_ALLOCATIONS_H

#include <cstdint>

namespace tandem::testing {

/// Says whether an allocation fails. It may allocate itself.
using OnAllocation = bool (*)();

/// From now on `decide` is asked at each allocation (malloc and its kin, operator new through them,
/// mmap), on any thread; null: nobody is. Those made inside LLVM, oneDNN, libgomp and the dynamic
/// linker are left out and only counted: these end the process, or unwind through frames that do
/// not clean up.
void watch_allocations(OnAllocation decide);

int64_t allocations_inside_libraries();

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_OOM_ALLOCATIONS_H
