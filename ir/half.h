// bf16 and f16 as 16-bit patterns: exact widening, narrowing by round to nearest even. Arithmetic
// on bits without a jump, which compilers make vectors of in any instruction set. (What g++ 12
// makes of _Float16 there is a call of a function for each number.)
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
  const uint32_t nan = (bits >> 16) | 0x40u;  // keep NaN a NaN
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

namespace f16 {

// Of magnitudes. In f16's bits: the smallest normal number, infinity.
inline constexpr int32_t kNormal = 0x400, kInfinity = 0x7c00, kQuiet = 0x200;
// In f32's: infinity, f16's smallest normal number, the first beyond all of its exponents.
inline constexpr int32_t kWideInfinity = 0x7f800000, kWideNormal = 0x38800000,
                         kWideBeyond = 0x47800000;
/// What f32's exponent has more than f16's.
inline constexpr int32_t kRebias = (127 - 15) << 23;
/// A number of f32 whose last bit is worth f16's smallest.
inline constexpr int32_t kUnit = (127 - 1) << 23;

/// x or y, both of which are computed: a jump over floating arithmetic would make no vectors.
inline int32_t select(bool condition, int32_t x, int32_t y) {
  const int32_t mask = -static_cast<int32_t>(condition);
  return (x & mask) | (y & ~mask);
}

}  // namespace f16

inline float f16_to_float(uint16_t bits) {
  using f16::kInfinity, f16::kNormal, f16::kQuiet, f16::kRebias, f16::kWideInfinity,
      f16::kWideNormal, f16::select;
  const int32_t magnitude = bits & 0x7fff, sign = (bits & 0x8000) << 16, wide = magnitude << 13;
  // Of a subnormal: with an exponent and a leading one, which are subtracted again.
  const float subnormal =
      std::bit_cast<float>(wide + kWideNormal) - std::bit_cast<float>(kWideNormal);
  const int32_t finite =
      select(magnitude < kNormal, std::bit_cast<int32_t>(subnormal) & 0x7fffffff, wide + kRebias);
  const int32_t quiet = magnitude > kInfinity ? kQuiet << 13 : 0;
  const int32_t special = wide | kWideInfinity | quiet;
  return std::bit_cast<float>((select(magnitude < kInfinity, finite, special)) | sign);
}

inline uint16_t float_to_f16(float value) {
  using f16::kInfinity, f16::kQuiet, f16::kRebias, f16::kUnit, f16::kWideBeyond, f16::kWideInfinity,
      f16::kWideNormal, f16::select;
  const auto bits = std::bit_cast<int32_t>(value);
  const int32_t magnitude = bits & 0x7fffffff, sign = (bits >> 16) & 0x8000;
  // Of a subnormal: the addition rounds.
  const float rounded = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kUnit);
  const int32_t subnormal = std::bit_cast<int32_t>(rounded) - kUnit;
  const int32_t normal = (magnitude - kRebias + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  const int32_t finite = select(magnitude < kWideNormal, subnormal, normal);
  const int32_t nan = kInfinity | kQuiet | ((magnitude >> 13) & (kQuiet - 1));
  const int32_t special = magnitude > kWideInfinity ? nan : kInfinity;
  return static_cast<uint16_t>((select(magnitude < kWideBeyond, finite, special)) | sign);
}

}  // namespace tandem::ir

#endif  // TANDEM_IR_HALF_H
