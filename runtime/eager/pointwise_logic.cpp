// Comparisons, logic and bits.
#include <climits>
#include <numeric>

#include "runtime/eager/loops.h"

namespace tandem::runtime::eager::kernels {
namespace {

template <class F>
void compare(const Args& a, F f) {
  with_type<All>(a.in[0].dtype, [&]<class T>(Tag<T>) { map<bool, T>(a.out, a.in[0], a.in[1], f); });
}

template <class Set, class F>
void binary(const Args& a, F f) {
  with_type<Set>(a.out.dtype, [&]<class T>(Tag<T>) {
    map<T, T>(a.out, a.in[0], a.in[1], [f](T x, T y) { return static_cast<T>(f(x, y)); });
  });
}

template <class T>
bool in_range(T count) {
  constexpr auto kBits = std::is_same_v<T, bool> ? 1 : static_cast<int64_t>(sizeof(T) * CHAR_BIT);
  return static_cast<int64_t>(count) >= 0 && static_cast<int64_t>(count) < kBits;
}

}  // namespace

void eq(const Args& a) {
  compare(a, [](auto x, auto y) { return x == y; });
}
void ne(const Args& a) {
  compare(a, [](auto x, auto y) { return x != y; });
}
void lt(const Args& a) {
  compare(a, [](auto x, auto y) { return x < y; });
}
void le(const Args& a) {
  compare(a, [](auto x, auto y) { return x <= y; });
}
void gt(const Args& a) {
  compare(a, [](auto x, auto y) { return x > y; });
}
void ge(const Args& a) {
  compare(a, [](auto x, auto y) { return x >= y; });
}

void logical_and(const Args& a) {
  binary<Bools>(a, [](bool x, bool y) { return x && y; });
}
void logical_or(const Args& a) {
  binary<Bools>(a, [](bool x, bool y) { return x || y; });
}
void logical_xor(const Args& a) {
  binary<Bools>(a, [](bool x, bool y) { return x != y; });
}
void logical_not(const Args& a) {
  map<bool, bool>(a.out, a.in[0], [](bool x) { return !x; });
}

void bitwise_and(const Args& a) {
  binary<Integral>(a, [](auto x, auto y) { return x & y; });
}
void bitwise_or(const Args& a) {
  binary<Integral>(a, [](auto x, auto y) { return x | y; });
}
void bitwise_xor(const Args& a) {
  binary<Integral>(a, [](auto x, auto y) { return x ^ y; });
}
void bitwise_not(const Args& a) {
  with_type<Integral>(a.out.dtype, [&]<class T>(Tag<T>) {
    map<T, T>(a.out, a.in[0], [](T x) {
      if constexpr (std::is_same_v<T, bool>)
        return !x;
      else
        return static_cast<T>(~x);
    });
  });
}

void gcd(const Args& a) {
  binary<Integers>(a, []<class T>(T x, T y) -> T {
    const auto magnitude = [](T v) {
      const auto wide = static_cast<uint64_t>(v);
      return v < T{} ? -wide : wide;
    };
    return static_cast<T>(std::gcd(magnitude(x), magnitude(y)));
  });
}

void shift_left(const Args& a) {
  binary<Integral>(a, []<class T>(T x, T y) -> T {
    return in_range(y) ? static_cast<T>(static_cast<uint64_t>(x) << y) : T{};
  });
}
void shift_right(const Args& a) {
  binary<Integral>(a, []<class T>(T x, T y) -> T {
    if (in_range(y)) return static_cast<T>(x >> y);
    return static_cast<int64_t>(x) < 0 ? static_cast<T>(-1) : T{};
  });
}

}  // namespace tandem::runtime::eager::kernels
