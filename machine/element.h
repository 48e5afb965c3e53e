// Element types: how each dtype is stored, and what it is computed in.
#ifndef TANDEM_MACHINE_ELEMENT_H
#define TANDEM_MACHINE_ELEMENT_H

#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "ir/base/error.h"
#include "ir/dtype.h"
#include "ir/half.h"

namespace tandem::machine {

using ir::DType;

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

template <class T>
inline constexpr bool is_half = std::is_same_v<T, Bf16> || std::is_same_v<T, F16>;

/// The type that arithmetic on stored T is done in.
template <class T>
using Compute = std::conditional_t<is_half<T>, float, T>;

template <class T>
inline Compute<T> load(T v) {
  if constexpr (std::is_same_v<T, Bf16>)
    return ir::bf16_to_float(v.bits);
  else if constexpr (std::is_same_v<T, F16>)
    return ir::f16_to_float(v.bits);
  else
    return v;
}

template <class T>
inline T store(Compute<T> v) {
  if constexpr (std::is_same_v<T, Bf16>)
    return {ir::float_to_bf16(v)};
  else if constexpr (std::is_same_v<T, F16>)
    return {ir::float_to_f16(v)};
  else
    return v;
}

template <class T>
struct Tag {
  using type = T;
};

/// -0 lies below +0.
template <class T>
bool is_negative(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::signbit(x);
  return x < T{0};
}
/// IEEE 754-2019 maximum and minimum: NaN if either is; in any order the same.
template <class T>
T maximum_of(T x, T y) {
  return x != x || x > y || (x == y && !is_negative(x)) ? x : y;
}
template <class T>
T minimum_of(T x, T y) {
  return x != x || x < y || (x == y && is_negative(x)) ? x : y;
}

/// Sets of dtypes that a kernel is made for.
struct Floats {
  static constexpr bool floats = true, integers = false, boolean = false;
};
struct Integers {
  static constexpr bool floats = false, integers = true, boolean = false;
};
struct Numbers {
  static constexpr bool floats = true, integers = true, boolean = false;
};
struct Integral {
  static constexpr bool floats = false, integers = true, boolean = true;
};
struct Bools {
  static constexpr bool floats = false, integers = false, boolean = true;
};
struct All {
  static constexpr bool floats = true, integers = true, boolean = true;
};

/// Calls visit(Tag<T>) for the stored type of `dtype`, which must be in the set.
template <class Set, class Visit>
void with_type(DType dtype, Visit visit) {
  if constexpr (Set::floats) {
    if (dtype == DType::F32) return visit(Tag<float>{});
    if (dtype == DType::F64) return visit(Tag<double>{});
    if (dtype == DType::BF16) return visit(Tag<Bf16>{});
    if (dtype == DType::F16) return visit(Tag<F16>{});
  }
  if constexpr (Set::integers) {
    if (dtype == DType::I64) return visit(Tag<int64_t>{});
    if (dtype == DType::I32) return visit(Tag<int32_t>{});
    if (dtype == DType::I16) return visit(Tag<int16_t>{});
    if (dtype == DType::I8) return visit(Tag<int8_t>{});
    if (dtype == DType::U8) return visit(Tag<uint8_t>{});
  }
  if constexpr (Set::boolean) {
    if (dtype == DType::Bool) return visit(Tag<bool>{});
  }
  TANDEM_CHECK(false, "a kernel is not made for this dtype: " + std::string(ir::name(dtype)));
}

/// The same by element size alone, for kernels that move elements.
template <class Visit>
void with_size(DType dtype, Visit visit) {
  switch (ir::size_of(dtype)) {
    case 1:
      return visit(Tag<uint8_t>{});
    case 2:
      return visit(Tag<uint16_t>{});
    case 4:
      return visit(Tag<uint32_t>{});
    default:
      return visit(Tag<uint64_t>{});
  }
}

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_ELEMENT_H
