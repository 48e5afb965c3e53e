// bf16 and f16 as 16-bit patterns: exact widening, narrowing by round to nearest even.
#ifndef TANDEM_IR_HALF_H
#define TANDEM_IR_HALF_H

#include <bit>
#include <cstdint>

namespace tandem::ir {

inline float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40u);  // keep NaN a NaN
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// g++ 12 computes _Float16 in hardware or by its own soft-float routines; both round to nearest
// even.
inline float f16_to_float(uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}
inline uint16_t float_to_f16(float value) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}

}  // namespace tandem::ir

#endif  // TANDEM_IR_HALF_H
