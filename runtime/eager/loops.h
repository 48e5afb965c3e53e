// The loops of pointwise kernels: dimensions sorted and merged for all operands at once, rows run
// by a typed inner loop, in parallel when there is enough to do.
#ifndef TANDEM_RUNTIME_EAGER_LOOPS_H
#define TANDEM_RUNTIME_EAGER_LOOPS_H

#include <algorithm>
#include <array>
#include <cstdint>

#include "ir/base/function_ref.h"
#include "machine/halves/halves.h"
#include "runtime/eager/element.h"
#include "runtime/eager/kernel_table.h"

namespace tandem::runtime::eager {

inline constexpr int kMaxOperands = 4;
/// Work below this many elements is not shared among threads.
inline constexpr int64_t kParallelElements = 32768;

/// data[i] and strides[i] (bytes): the output and the operands of one row of n elements.
using RowFunction = ir::FunctionRef<void(char* const* data, const int64_t* strides, int64_t n)>;

/// Runs `row` over all elements of views of equal sizes; views[0] is the output. `row` must not
/// throw.
void for_each_row(std::span<const BufferView* const> views, RowFunction row);

template <class T>
T& at(char* data, int64_t i, int64_t stride) {
  return *reinterpret_cast<T*>(data + i * stride);
}

/// How many elements of a run are widened together: they stay in the first-level cache.
inline constexpr int64_t kPart = 256;

/// A part of a run as what is computed with: halves widened, all else as it lies.
template <class T>
class PartRead {
 public:
  const Compute<T>* operator()(const T* x, int64_t n) {
    if constexpr (is_half<T>) {
      machine::widen(x, n, wide_);
      return wide_;
    } else {
      return x;
    }
  }

 private:
  float wide_[is_half<T> ? kPart : 1];
};

/// out[i] = f(i), which halves narrow, for up to kPart of them.
template <class R, class F>
void write_part(R* out, int64_t n, F f) {
  if constexpr (is_half<R>) {
    float wide[kPart];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) wide[i] = f(i);
    machine::narrow(wide, n, out);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = f(i);
  }
}

/// f(begin, n) for the parts of a run, which is one if nothing is widened or narrowed.
template <class... T, class F>
void for_each_part(int64_t n, F f) {
  if constexpr ((is_half<T> || ...)) {
    for (int64_t begin = 0; begin < n; begin += kPart) f(begin, std::min(n - begin, kPart));
  } else {
    f(0, n);
  }
}

/// out[i] = f(x[i]).
template <class R, class T, class F>
void map(const BufferView& out, const BufferView& x, F f) {
  const BufferView* views[] = {&out, &x};
  for_each_row(views, [&](char* const* p, const int64_t* s, int64_t n) {
    if (s[0] == sizeof(R) && s[1] == sizeof(T)) {
      auto* o = reinterpret_cast<R*>(p[0]);
      auto* v = reinterpret_cast<const T*>(p[1]);
      for_each_part<R, T>(n, [&](int64_t begin, int64_t count) {
        PartRead<T> read;
        const auto* from = read(v + begin, count);
        write_part(o + begin, count, [&](int64_t i) { return f(from[i]); });
      });
      return;
    }
    for (int64_t i = 0; i < n; ++i) at<R>(p[0], i, s[0]) = store<R>(f(load(at<T>(p[1], i, s[1]))));
  });
}

/// out[i] = f(x[i], y[i]).
template <class R, class T, class F>
void map(const BufferView& out, const BufferView& x, const BufferView& y, F f) {
  const BufferView* views[] = {&out, &x, &y};
  for_each_row(views, [&](char* const* p, const int64_t* s, int64_t n) {
    auto* o = reinterpret_cast<R*>(p[0]);
    auto* v = reinterpret_cast<const T*>(p[1]);
    auto* w = reinterpret_cast<const T*>(p[2]);
    constexpr auto kUnit = static_cast<int64_t>(sizeof(T));
    const bool packed = s[0] == static_cast<int64_t>(sizeof(R)) && s[1] == kUnit;
    if (packed && s[2] == kUnit) {
      for_each_part<R, T>(n, [&](int64_t begin, int64_t count) {
        PartRead<T> read_left, read_right;
        const auto *left = read_left(v + begin, count), *right = read_right(w + begin, count);
        write_part(o + begin, count, [&](int64_t i) { return f(left[i], right[i]); });
      });
    } else if (packed && s[2] == 0) {
      const auto right = load(*w);
      for_each_part<R, T>(n, [&](int64_t begin, int64_t count) {
        PartRead<T> read;
        const auto* left = read(v + begin, count);
        write_part(o + begin, count, [&](int64_t i) { return f(left[i], right); });
      });
    } else {
      for (int64_t i = 0; i < n; ++i)
        at<R>(p[0], i, s[0]) = store<R>(f(load(at<T>(p[1], i, s[1])), load(at<T>(p[2], i, s[2]))));
    }
  });
}

/// A walk over the positions of a shape in row-major order.
class Odometer {
 public:
  explicit Odometer(const Shape& sizes) : sizes_(sizes), index_(Shape::filled(sizes.rank(), 0)) {}
  const Shape& index() const { return index_; }
  void next() {
    for (int d = sizes_.rank() - 1; d >= 0; --d) {
      index_[d] += 1;
      if (index_[d] < sizes_[d]) return;
      index_[d] = 0;
    }
  }
  int64_t offset(const Strides& strides) const {
    int64_t offset = 0;
    for (int d = 0; d < sizes_.rank(); ++d) offset += int64_t{index_[d]} * int64_t{strides[d]};
    return offset;
  }

 private:
  Shape sizes_, index_;
};

/// A contiguous copy of the view's elements in memory of its own.
class Packed {
 public:
  explicit Packed(const BufferView& from);
  Packed(const Shape& sizes, DType dtype);
  ~Packed();
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
  const BufferView& view() const { return view_; }

 private:
  BufferView view_;
  size_t bytes_;
};

}  // namespace tandem::runtime::eager

#endif  // TANDEM_RUNTIME_EAGER_LOOPS_H
