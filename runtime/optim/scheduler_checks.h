// What schedulers refuse.
#ifndef TANDEM_RUNTIME_OPTIM_SCHEDULER_CHECKS_H
#define TANDEM_RUNTIME_OPTIM_SCHEDULER_CHECKS_H

#include <cstdint>

namespace tandem::optim {

/// Error unless it `fits`.
void require_option(bool fits, const char* scheduler, const char* name, const char* expected,
                    double value);

inline void require_count(const char* scheduler, const char* name, int64_t value) {
  require_option(value > 0, scheduler, name, "a number > 0", static_cast<double>(value));
}

}  // namespace tandem::optim

#endif  // TANDEM_RUNTIME_OPTIM_SCHEDULER_CHECKS_H
