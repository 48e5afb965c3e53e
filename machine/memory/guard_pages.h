// Where memory lies between pages that nobody may touch.
#ifndef TANDEM_MACHINE_MEMORY_GUARD_PAGES_H
#define TANDEM_MACHINE_MEMORY_GUARD_PAGES_H

#include <cstdint>

namespace tandem::machine {

enum class GuardPages : uint8_t {
  None,
  Start,  // a block begins behind a guard page
  End,    // a block ends before one
};

/// Guard pages and what they guard are sized in these.
inline constexpr int64_t kGuardPage = 4096;

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_MEMORY_GUARD_PAGES_H
