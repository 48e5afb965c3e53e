// Copies and conversions, selection, and constants.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "machine/threads/thread_pool.h"
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

// --- copies that cross

constexpr int64_t kFew = 8;  // elements that are not worth a block

/// One of the two dimensions, and how far its elements lie apart.
struct Along {
  int dim = -1;
  int64_t size = 1, from = 0, to = 0;
};

/// The dimension of many elements that lie side by side in `view`.
int contiguous_dim(const BufferView& view) {
  for (int d = 0; d < view.sizes.rank(); ++d)
    if (std::abs(int64_t{view.strides[d]}) == 1 && view.sizes[d] >= kFew) return d;
  return -1;
}

Along along(int dim, const BufferView& from, const BufferView& to) {
  return {dim, from.sizes[dim], from.strides[dim], to.strides[dim]};
}

/// Of `rows` x `columns` elements (constants where a block is whole): columns lie side by side in
/// x, rows in y.
template <class T, int kSide>
[[gnu::always_inline]] inline void copy_block(const T* x, T* y, const Along& row,
                                              const Along& column, int64_t rows, int64_t columns) {
  T block[kSide][kSide];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) block[i][j] = x[i * row.from + j * column.from];
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < rows; ++i) y[i * row.to + j * column.to] = block[i][j];
}

template <class T, int kSide>
void copy_blocks(const T* x, T* y, Along row, Along column) {
  const bool forward = row.to == 1 && column.from == 1;
  for (int64_t j = 0; j < column.size; j += kSide) {
    const int64_t columns = std::min<int64_t>(kSide, column.size - j);
    const T* from = x + j * column.from;
    T* to = y + j * column.to;
    if (forward && row.size == kSide && columns == kSide) {
      row.to = column.from = 1;
      copy_block<T, kSide>(from, to, row, column, kSide, kSide);
    } else {
      copy_block<T, kSide>(from, to, row, column, row.size, columns);
    }
  }
}

template <class T>
void copy_all(const BufferView& from, const BufferView& to, const Along& row, const Along& column) {
  constexpr int kSide = 64 / sizeof(T);
  Shape outer = from.sizes;
  outer[row.dim] = (row.size + kSide - 1) / kSide;
  outer[column.dim] = 1;
  const int64_t grain = std::max<int64_t>(kParallelElements / (kSide * column.size), 1);
  machine::parallel_for(ir::numel(outer), grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const auto* x = static_cast<const T*>(from.data);
      auto* y = static_cast<T*>(to.data);
      Along part = row;
      int64_t rest = unit;
      for (int d = outer.rank() - 1; d >= 0; --d) {
        int64_t index = rest % outer[d];
        rest /= outer[d];
        if (d == row.dim) index *= kSide, part.size = std::min<int64_t>(kSide, row.size - index);
        x += index * from.strides[d];
        y += index * to.strides[d];
      }
      copy_blocks<T, kSide>(x, y, part, column);
    }
  });
}

/// Copies if neighbours of `from` lie along one dimension and those of `to` along another: in
/// square blocks of whole cache lines, so that each line is read once and written once. (Row by row
/// each element would cost a line.) False if they do not.
bool copy_crossing(const BufferView& from, const BufferView& to) {
  const int r = contiguous_dim(to), c = contiguous_dim(from);
  if (r < 0 || c < 0) return false;
  const Along row = along(r, from, to), column = along(c, from, to);
  if (std::abs(row.from) <= 1 || std::abs(column.to) <= 1 || ir::numel(from.sizes) == 0)
    return false;
  with_size(to.dtype, [&]<class T>(Tag<T>) { copy_all<T>(from, to, row, column); });
  return true;
}

}  // namespace

void copy_elements(const BufferView& from, const BufferView& to) {
  if (from.dtype != to.dtype) return copy_converted(from, to);
  if (copy_crossing(from, to)) return;
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
        std::fill_n(reinterpret_cast<T*>(p[0]), n, value);
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
