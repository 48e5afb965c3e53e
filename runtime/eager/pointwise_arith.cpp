// Arithmetic, extrema, signs and rounding.
#include <cmath>
#include <limits>

#include "machine/cpu.h"
#include "runtime/eager/loops.h"

namespace tandem::runtime::eager::kernels {
namespace {

/// Integers wrap: their arithmetic is done unsigned.
template <class T>
auto wide(T v) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
    return static_cast<std::make_unsigned_t<std::common_type_t<T, int32_t>>>(v);
  else
    return v;
}

template <class Set, class F>
void unary(const Args& a, F f) {
  with_type<Set>(a.out.dtype, [&]<class T>(Tag<T>) {
    map<T, T>(a.out, a.in[0], [f](Compute<T> x) { return static_cast<Compute<T>>(f(x)); });
  });
}

template <class Set, class F>
void binary(const Args& a, F f) {
  with_type<Set>(a.out.dtype, [&]<class T>(Tag<T>) {
    map<T, T>(a.out, a.in[0], a.in[1],
              [f](Compute<T> x, Compute<T> y) { return static_cast<Compute<T>>(f(x, y)); });
  });
}

/// Integer division by zero, found before anything is computed.
void require_no_zero(const Args& a) {
  if (ir::is_floating(a.out.dtype)) return;
  const BufferView& y = a.in[1];
  with_type<Integral>(y.dtype, [&]<class T>(Tag<T>) {
    Odometer at(y.sizes);
    const int64_t n = ir::numel(y.sizes);
    for (int64_t i = 0; i < n; ++i, at.next())
      if (static_cast<const T*>(y.data)[at.offset(y.strides)] == T{})
        ir::fail(ir::Errc::Argument,
                 std::string(ir::name(a.op)) +
                     ": integer division by zero; expected divisors other than zero, got 0");
  });
}

template <class T>
T floor_divide_of(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    if (y == 0) return x / y;
    T mod = std::fmod(x, y), div = (x - mod) / y;
    if (mod != 0 && (y < 0) != (mod < 0)) div -= 1;
    if (div == 0) return std::copysign(T(0), x / y);
    const T floored = std::floor(div);
    return div - floored > T(0.5) ? floored + 1 : floored;
  } else {
    if (std::is_signed_v<T> && y == T(-1)) return static_cast<T>(-wide(x));
    const T q = static_cast<T>(x / y);
    return x % y != 0 && (x < 0) != (y < 0) ? static_cast<T>(q - 1) : q;
  }
}

template <class T>
T remainder_of(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    T mod = std::fmod(x, y);
    if (mod != 0 && (y < 0) != (mod < 0)) mod += y;
    return mod;
  } else {
    if (std::is_signed_v<T> && y == T(-1)) return 0;
    const T mod = static_cast<T>(x % y);
    return mod != 0 && (y < 0) != (mod < 0) ? static_cast<T>(mod + y) : mod;
  }
}

template <class T>
T fmod_of(T x, T y) {
  if constexpr (std::is_floating_point_v<T>)
    return std::fmod(x, y);
  else
    return std::is_signed_v<T> && y == T(-1) ? T(0) : static_cast<T>(x % y);
}

template <class T>
T pow_of(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::pow(x, y);
  } else {  // a negative exponent is 1 / x^-y, truncated
    if (y < 0)
      return x == 1 ? 1 : x == static_cast<T>(-1) ? (y % 2 != 0 ? static_cast<T>(-1) : 1) : 0;
    auto base = wide(x);
    auto result = wide(T(1));
    for (auto e = wide(y); e != 0; e >>= 1, base *= base)
      if (e & 1) result *= base;
    return static_cast<T>(result);
  }
}

// 0 for NaN, as in ATen.
template <class T>
T sign_of(T x) {
  return static_cast<T>((x > T(0)) - (x < T(0)));
}

template <class T>
T abs_of(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return std::abs(x);
  else if constexpr (std::is_signed_v<T>)
    return x < 0 ? static_cast<T>(-wide(x)) : x;
  else
    return x;
}

/// A row of a b + c, of which c may be one number.
template <class T>
[[gnu::always_inline]] inline void fma_row(char* const* p, const int64_t* s, int64_t n) {
  constexpr auto kUnit = static_cast<int64_t>(sizeof(T));
  const auto *x = reinterpret_cast<const T*>(p[1]), *y = reinterpret_cast<const T*>(p[2]),
             *z = reinterpret_cast<const T*>(p[3]);
  auto* out = reinterpret_cast<T*>(p[0]);
  const bool packed = s[0] == kUnit && s[1] == kUnit && s[2] == kUnit;
  if (packed && s[3] == kUnit) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = store<T>(std::fma(load(x[i]), load(y[i]), load(z[i])));
  } else if (packed && s[3] == 0) {
    const auto added = load(*z);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = store<T>(std::fma(load(x[i]), load(y[i]), added));
  } else {
    for (int64_t i = 0; i < n; ++i)
      at<T>(p[0], i, s[0]) = store<T>(std::fma(
          load(at<T>(p[1], i, s[1])), load(at<T>(p[2], i, s[2])), load(at<T>(p[3], i, s[3]))));
  }
}

/// The same bits; the library's function costs ten times as much.
template <class T>
[[gnu::target("avx2,fma")]] void fma_row_by_instruction(char* const* p, const int64_t* s,
                                                        int64_t n) {
  fma_row<T>(p, s, n);
}

}  // namespace

// Sums of bool are or, products and.
void add(const Args& a) {
  binary<All>(a, [](auto x, auto y) { return wide(x) + wide(y); });
}
void sub(const Args& a) {
  binary<Numbers>(a, [](auto x, auto y) { return wide(x) - wide(y); });
}
void mul(const Args& a) {
  binary<All>(a, [](auto x, auto y) { return wide(x) * wide(y); });
}
void div(const Args& a) {
  binary<Floats>(a, [](auto x, auto y) { return x / y; });
}

void fma(const Args& a) {
  const BufferView* views[] = {&a.out, &a.in[0], &a.in[1], &a.in[2]};
  const bool has_fma = machine::cpu_features().avx2 && machine::cpu_features().fma;
  with_type<Floats>(a.out.dtype, [&]<class T>(Tag<T>) {
    for_each_row(views, [&](char* const* p, const int64_t* s, int64_t n) {
      (has_fma ? fma_row_by_instruction<T> : fma_row<T>)(p, s, n);
    });
  });
}

void floor_divide(const Args& a) {
  require_no_zero(a);
  binary<Numbers>(a, [](auto x, auto y) { return floor_divide_of(x, y); });
}
void remainder(const Args& a) {
  require_no_zero(a);
  binary<Numbers>(a, [](auto x, auto y) { return remainder_of(x, y); });
}
void fmod(const Args& a) {
  require_no_zero(a);
  binary<Numbers>(a, [](auto x, auto y) { return fmod_of(x, y); });
}
void pow(const Args& a) {
  binary<Numbers>(a, [](auto x, auto y) { return pow_of(x, y); });
}
void atan2(const Args& a) {
  binary<Floats>(a, [](auto x, auto y) { return std::atan2(x, y); });
}
void maximum(const Args& a) {
  binary<All>(a, [](auto x, auto y) { return maximum_of(x, y); });
}
void minimum(const Args& a) {
  binary<All>(a, [](auto x, auto y) { return minimum_of(x, y); });
}
void neg(const Args& a) {
  unary<Numbers>(a, [](auto x) { return -wide(x); });
}
void abs(const Args& a) {
  unary<All>(a, [](auto x) { return abs_of(x); });
}
void sign(const Args& a) {
  unary<All>(a, [](auto x) { return sign_of(x); });
}
void floor(const Args& a) {
  unary<Floats>(a, [](auto x) { return std::floor(x); });
}
void ceil(const Args& a) {
  unary<Floats>(a, [](auto x) { return std::ceil(x); });
}
void round(const Args& a) {
  unary<Floats>(a, [](auto x) { return std::nearbyint(x); });
}
void trunc(const Args& a) {
  unary<Floats>(a, [](auto x) { return std::trunc(x); });
}

}  // namespace tandem::runtime::eager::kernels
