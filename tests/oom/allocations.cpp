// The allocation functions of the C library, replaced; and whose code an allocation is made by, as
// the stack says.
#include "tests/oom/allocations.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <string_view>

extern "C" {  // glibc's names
// NOLINTBEGIN(readability-identifier-naming)
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* data, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
// NOLINTEND(readability-identifier-naming)
}

namespace tandem::testing {
namespace {

std::atomic<OnAllocation> g_decide{nullptr};
std::atomic<int64_t> g_inside{0};
thread_local bool t_deciding = false;

/// Code that gives up where memory does.
struct Range {
  uintptr_t begin = 0, end = 0;
};
std::array<Range, 64> g_ranges;
size_t g_range_count = 0;

void add_range(uintptr_t begin, size_t bytes) {
  if (g_range_count < g_ranges.size()) g_ranges[g_range_count++] = {begin, begin + bytes};
}

int add_library(dl_phdr_info* info, size_t, void*) {
  const std::string_view name = info->dlpi_name;
  bool gives_up = false;
  for (const char* library : {"libLLVM", "libdnnl", "libgomp", "ld-linux"})
    gives_up = gives_up || name.find(library) != name.npos;
  for (int i = 0; gives_up && i < info->dlpi_phnum; ++i)
    if (const auto& part = info->dlpi_phdr[i]; part.p_type == PT_LOAD)
      add_range(info->dlpi_addr + part.p_vaddr, part.p_memsz);
  return 0;
}

void find_ranges() {
  dl_iterate_phdr(add_library, nullptr);
  // The destructor of a thread_local object: the C library ends the process.
  if (void* const at = dlsym(RTLD_DEFAULT, "__cxa_thread_atexit_impl"))
    add_range(reinterpret_cast<uintptr_t>(at), 256);
}

_Unwind_Reason_Code look_at(_Unwind_Context* frame, void* found) {
  const uintptr_t at = _Unwind_GetIP(frame);
  for (size_t i = 0; i < g_range_count; ++i)
    if (at >= g_ranges[i].begin && at < g_ranges[i].end) {
      *static_cast<bool*>(found) = true;
      return _URC_END_OF_STACK;
    }
  return _URC_NO_REASON;
}

bool inside_library() {
  bool found = false;
  _Unwind_Backtrace(look_at, &found);
  return found;
}

bool fails() {
  const OnAllocation decide = g_decide.load(std::memory_order_acquire);
  if (decide == nullptr || t_deciding) return false;
  t_deciding = true;
  const bool left_out = inside_library();
  if (left_out) g_inside.fetch_add(1, std::memory_order_relaxed);
  const bool failing = !left_out && decide();
  t_deciding = false;
  if (failing) errno = ENOMEM;
  return failing;
}

}  // namespace

void watch_allocations(OnAllocation decide) {
  if (g_range_count == 0) find_ranges();
  g_decide.store(decide, std::memory_order_release);
}

int64_t allocations_inside_libraries() { return g_inside.load(); }

}  // namespace tandem::testing

using tandem::testing::fails;

extern "C" {
void* malloc(size_t bytes) { return fails() ? nullptr : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return fails() ? nullptr : __libc_calloc(count, bytes); }
void* realloc(void* data, size_t bytes) { return fails() ? nullptr : __libc_realloc(data, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) {
  return fails() ? nullptr : __libc_memalign(alignment, bytes);
}
void* memalign(size_t alignment, size_t bytes) { return aligned_alloc(alignment, bytes); }
int posix_memalign(void** data, size_t alignment, size_t bytes) {
  void* const block = aligned_alloc(alignment, bytes);
  if (block == nullptr) return ENOMEM;
  *data = block;
  return 0;
}
void* mmap(void* at, size_t bytes, int protection, int flags, int file, off_t offset) {
  if (fails()) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
}
}
