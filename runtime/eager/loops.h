// The loops of pointwise kernels: dimensions sorted and merged for all operands at once, rows run
// by a typed inner loop, in parallel when there is enough to do.
#ifndef TANDEM_RUNTIME_EAGER_LOOPS_H
#define TANDEM_RUNTIME_EAGER_LOOPS_H

#include <array>
#include <cstdint>

#include "ir/base/function_ref.h"
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

/// out[i] = f(x[i]).
template <class R, class T, class F>
void map(const BufferView& out, const BufferView& x, F f) {
  const BufferView* views[] = {&out, &x};
  for_each_row(views, [&](char* const* p, const int64_t* s, int64_t n) {
    if (s[0] == sizeof(R) && s[1] == sizeof(T)) {
      auto* o = reinterpret_cast<R*>(p[0]);
      auto* v = reinterpret_cast<const T*>(p[1]);
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) o[i] = store<R>(f(load(v[i])));
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
    const bool packed = s[0] == static_cast<int64_t>(sizeof(R));
    if (packed && s[1] == kUnit && s[2] == kUnit) {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) o[i] = store<R>(f(load(v[i]), load(w[i])));
    } else if (packed && s[1] == kUnit && s[2] == 0) {
      const auto right = load(*w);
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) o[i] = store<R>(f(load(v[i]), right));
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
