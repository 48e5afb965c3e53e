// Copies and conversions, selection, and constants.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "machine/memory/crossing_copies.h"
#include "runtime/eager/kernels.h"
#include "runtime/eager/loops.h"

namespace tandem::runtime::eager {
namespace {

/// Floats become integers by truncation, saturated; NaN becomes 0. Integers wrap.
template <class To, class From>
To convert_one(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    if (!(v == v)) return 0;
    constexpr auto kLow = std::numeric_limits<To>::min(), kHigh = std::numeric_limits<To>::max();
    if (v <= static_cast<From>(kLow)) return kLow;
    if (v >= static_cast<From>(kHigh)) return kHigh;
    return static_cast<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

void copy_converted(const BufferView& from, const BufferView& to) {
  with_type<All>(from.dtype, [&]<class From>(Tag<From>) {
    with_type<All>(to.dtype, [&]<class To>(Tag<To>) {
      map<To, From>(to, from, [](Compute<From> v) { return convert_one<Compute<To>>(v); });
    });
  });
}

/// Long runs are copies of their beginning: those the C library makes by the widest vectors that
/// there are, as it fills bytes.
template <class T>
void fill_run(T* to, int64_t n, T value) {
  const int64_t beginning = sizeof(T) == 1 ? n : 2048 / sizeof(T);
  std::fill_n(to, std::min(n, beginning), value);
  for (int64_t i = beginning; i < n; i += beginning)
    std::memcpy(to + i, to, static_cast<size_t>(std::min(n - i, beginning)) * sizeof(T));
}

}  // namespace

void copy_elements(const BufferView& from, const BufferView& to) {
  if (from.dtype != to.dtype) return copy_converted(from, to);
  if (machine::copy_crossing(from, to)) return;
  with_size(to.dtype, [&]<class T>(Tag<T>) { map<T, T>(to, from, [](T v) { return v; }); });
}

uint64_t fill_bits(ir::Op op, std::span<const ir::AttrValue> attrs, DType dtype) {
  uint64_t bits = 0;
  const int index = ir::attr_index(op, ir::Attr::value);
  ir::store_element(&bits, dtype, std::get<Number>(attrs[static_cast<size_t>(index)]));
  return bits;
}

bool gives_zeros(ir::Op op, std::span<const ir::AttrValue> attrs, DType dtype) {
  return op == ir::Op::full && fill_bits(op, attrs, dtype) == 0;
}

namespace kernels {

void convert(const Args& a) { copy_elements(a.in[0], a.out); }
void bitcast(const Args& a) {
  BufferView bits = a.in[0];
  bits.dtype = a.out.dtype;
  copy_elements(bits, a.out);
}
void clone(const Args& a) { copy_elements(a.in[0], a.out); }
void stop_gradient(const Args& a) { copy_elements(a.in[0], a.out); }
void copy(const Args& a) { copy_elements(a.in[1], a.out); }

void where(const Args& a) {
  const BufferView* views[] = {&a.out, &a.in[0], &a.in[1], &a.in[2]};
  with_size(a.out.dtype, [&]<class T>(Tag<T>) {
    for_each_row(views, [&](char* const* p, const int64_t* s, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        at<T>(p[0], i, s[0]) =
            at<bool>(p[1], i, s[1]) ? at<T>(p[2], i, s[2]) : at<T>(p[3], i, s[3]);
    });
  });
}

void fill(const Args& a) {
  const uint64_t bits = fill_bits(a.op, a.attrs, a.out.dtype);
  const BufferView* views[] = {&a.out};
  with_size(a.out.dtype, [&]<class T>(Tag<T>) {
    T value;
    std::memcpy(&value, &bits, sizeof(value));
    for_each_row(views, [&](char* const* p, const int64_t* s, int64_t n) {
      if (s[0] == sizeof(T))
        fill_run(reinterpret_cast<T*>(p[0]), n, value);
      else
        for (int64_t i = 0; i < n; ++i) at<T>(p[0], i, s[0]) = value;
    });
  });
}
void full(const Args& a) { fill(a); }

void iota(const Args& a) {
  const Number first = a.attr<Number>(ir::Attr::first),
               increment = a.attr<Number>(ir::Attr::increment);
  const int64_t n = ir::numel(a.out.sizes);
  with_type<Numbers>(a.out.dtype, [&]<class T>(Tag<T>) {
    auto* out = static_cast<T*>(a.out.data);
    const int64_t stride = a.out.strides[0];
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_integral_v<T>)
        out[i * stride] = static_cast<T>(first.to_int() + i * increment.to_int());
      else
        out[i * stride] = store<T>(static_cast<Compute<T>>(
            first.to_double() + static_cast<double>(i) * increment.to_double()));
    }
  });
}

}  // namespace kernels
}  // namespace tandem::runtime::eager
