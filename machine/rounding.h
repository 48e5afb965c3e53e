// Division and rounding upwards, of sizes.
#ifndef TANDEM_MACHINE_ROUNDING_H
#define TANDEM_MACHINE_ROUNDING_H

#include <cstdint>

namespace tandem::machine {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_ROUNDING_H
