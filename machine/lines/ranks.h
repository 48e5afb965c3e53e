// Elements as integers of the same order, which is what sorts and selections compare: by size, -0
// as 0, NaN behind all numbers.
#ifndef TANDEM_MACHINE_LINES_RANKS_H
#define TANDEM_MACHINE_LINES_RANKS_H

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "machine/element.h"
#include "machine/unroll.h"

namespace tandem::machine::lines {

/// Signed integers as wide as T.
template <class T>
using Rank =
    std::conditional_t<sizeof(T) == 8, int64_t,
                       std::conditional_t<sizeof(T) == 4, int32_t,
                                          std::conditional_t<sizeof(T) == 2, int16_t, int8_t>>>;

template <class T>
inline constexpr bool has_nan = std::is_floating_point_v<T> || is_half<T>;

/// The bits of infinity.
template <class T>
inline constexpr Rank<T> kInfinite = 0;
template <>
inline constexpr int64_t kInfinite<double> = 0x7ff0'0000'0000'0000;
template <>
inline constexpr int32_t kInfinite<float> = 0x7f80'0000;
template <>
inline constexpr int16_t kInfinite<F16> = 0x7c00;
template <>
inline constexpr int16_t kInfinite<Bf16> = 0x7f80;

template <class T>
inline constexpr Rank<T> kLeastRank = std::numeric_limits<Rank<T>>::min();
/// Of floating point NaN alone has it.
template <class T>
inline constexpr Rank<T> kLastRank = std::numeric_limits<Rank<T>>::max();

/// The rank of the T whose bits are `bits`, or a vector of them. (No comparison of floats: those
/// may trap.)
template <class T, class V>
TANDEM_INLINE V rank_of_bits(V bits) {
  constexpr int kSign = 8 * sizeof(T) - 1;
  const V zero{}, last = static_cast<V>(zero + kLastRank<T>);
  if constexpr (has_nan<T>) {
    const V number = bits == kLeastRank<T> ? zero : bits;
    const V rank = static_cast<V>(number ^ ((number >> kSign) & kLastRank<T>));
    return (number & kLastRank<T>) > kInfinite<T> ? last : rank;
  } else if constexpr (std::is_unsigned_v<T>) {
    return static_cast<V>(bits ^ kLeastRank<T>);
  } else {
    return bits;
  }
}

template <class T>
TANDEM_INLINE Rank<T> rank_of(T stored) {
  return rank_of_bits<T>(__builtin_bit_cast(Rank<T>, stored));
}

/// Of a key: unsigned, and of few sizes.
template <class T>
using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

/// Keys of ranks, in their order and as small as can be, but for NaN's, which is the largest there
/// is; `descending`: their complements.
template <class T>
Key<T> key_of_rank(Rank<T> rank, bool descending) {
  using Bits = std::make_unsigned_t<Rank<T>>;
  Key<T> key = static_cast<Bits>(static_cast<Bits>(rank) ^ static_cast<Bits>(kLeastRank<T>));
  if (has_nan<T> && rank == kLastRank<T>) key = std::numeric_limits<Key<T>>::max();
  return descending ? static_cast<Key<T>>(~key) : key;
}

/// A number that is the larger (`descending`: the smaller), the larger the element is.
template <class T>
Key<T> key_of(T stored, bool descending) {
  return key_of_rank<T>(rank_of(stored), descending);
}

}  // namespace tandem::machine::lines

#endif  // TANDEM_MACHINE_LINES_RANKS_H
