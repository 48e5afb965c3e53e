// Matrices of tensors: what matrices.h's functions run over.
#ifndef TANDEM_MACHINE_LINALG_MATRIX_H
#define TANDEM_MACHINE_LINALG_MATRIX_H

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>

#include "ir/base/error.h"
#include "machine/linalg/lapack.h"
#include "machine/linalg/matrices.h"
#include "machine/memory/arena.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine::matrices {

/// The elements of one matrix, or of a vector: a column.
template <class T>
struct Matrix {
  T* first;
  int64_t rows, columns, row_step, column_step;  // steps in elements
  T& operator()(int64_t r, int64_t c) const { return first[r * row_step + c * column_step]; }
  T& operator[](int64_t r) const { return first[r * row_step]; }
  Matrix transposed() const { return {first, columns, rows, column_step, row_step}; }
};

template <class T>
Matrix<T> column_major(T* first, int64_t rows, int64_t columns) {
  return {first, rows, columns, 1, rows};
}
template <class T>
Matrix<T> row_major(T* first, int64_t rows, int64_t columns) {
  return {first, rows, columns, columns, 1};
}

inline constexpr int64_t kTile = 16;

/// Rows that become columns, each without gaps: of a whole tile both sides are lines.
template <class T>
void turn_tile(const T* from, int64_t row_step, T* to, int64_t column_step) {
  T tile[kTile][kTile];
  for (int64_t r = 0; r < kTile; ++r)
    for (int64_t c = 0; c < kTile; ++c) tile[c][r] = from[r * row_step + c];
  for (int64_t c = 0; c < kTile; ++c) std::copy_n(tile[c], kTile, to + c * column_step);
}

/// By tiles: where the orders of the two differ, lines of both stay in the nearest cache.
template <class T, class U>
void copy_by_tiles(const Matrix<T>& from, const Matrix<U>& to) {
  const bool turns = from.column_step == 1 && to.row_step == 1;
  for (int64_t r0 = 0; r0 < to.rows; r0 += kTile)
    for (int64_t c0 = 0; c0 < to.columns; c0 += kTile) {
      if constexpr (std::is_same_v<std::remove_const_t<T>, U>)
        if (turns && r0 + kTile <= to.rows && c0 + kTile <= to.columns) {
          turn_tile<U>(&from(r0, c0), from.row_step, &to(r0, c0), to.column_step);
          continue;
        }
      for (int64_t r = r0; r < std::min(r0 + kTile, to.rows); ++r)
        for (int64_t c = c0; c < std::min(c0 + kTile, to.columns); ++c) to(r, c) = from(r, c);
    }
}

template <class T, class U>
void copy(const Matrix<T>& from, const Matrix<U>& to) {
  if (to.rows == 0 || to.columns == 0) return;  // there may be no memory either
  if constexpr (std::is_same_v<std::remove_const_t<T>, U>) {
    if (from.column_step == 1 && to.column_step == 1) {
      for (int64_t r = 0; r < to.rows; ++r) std::copy_n(&from(r, 0), to.columns, &to(r, 0));
      return;
    }
    if (from.row_step == 1 && (to.row_step == 1 || to.column_step == 1))
      return copy(from.transposed(), to.transposed());
  }
  copy_by_tiles(from, to);
}

/// A tensor as matrices in its last two dimensions (vectors in the last, numbers), numbered in
/// row-major order of those before.
template <class T>
class Batch {
 public:
  Batch(const ir::BufferView& view, int inner = 2)
      : view_(view), outer_(view.sizes.rank() - inner) {
    for (int d = 0; d < outer_; ++d) count_ *= int64_t{view.sizes[d]};
  }
  int64_t count() const { return count_; }
  bool is_batch() const { return outer_ > 0; }
  int64_t rows() const { return size(0); }
  int64_t columns() const { return size(1); }
  Matrix<T> operator[](int64_t i) const {
    int64_t offset = 0;
    for (int d = outer_ - 1; d > 0; --d) {
      offset += i % int64_t{view_.sizes[d]} * int64_t{view_.strides[d]};
      i /= int64_t{view_.sizes[d]};
    }
    if (outer_ > 0) offset += i * int64_t{view_.strides[0]};
    return {static_cast<T*>(view_.data) + offset, rows(), columns(), step(0), step(1)};
  }

 private:
  int64_t size(int d) const {
    return outer_ + d < view_.sizes.rank() ? int64_t{view_.sizes[outer_ + d]} : 1;
  }
  int64_t step(int d) const {
    return outer_ + d < view_.sizes.rank() ? int64_t{view_.strides[outer_ + d]} : 0;
  }
  const ir::BufferView& view_;
  int outer_;
  int64_t count_ = 1;
};

/// Working memory of one matrix, taken piece by piece.
template <class T>
class Scratch {
 public:
  Scratch(uint8_t* memory, const lapack::Work& work)
      : floats_(reinterpret_cast<T*>(memory)),
        ints_(reinterpret_cast<int*>(memory + static_cast<size_t>(work.floats) * sizeof(T))) {}
  T* floats(int64_t n) { return std::exchange(floats_, floats_ + n); }
  int* ints(int64_t n) { return std::exchange(ints_, ints_ + n); }

 private:
  T* floats_;
  int* ints_;
};

/// The first matrix of a batch that failed, and its `info`.
struct Failure {
  int64_t matrix = -1;
  int info = 0;
};

/// What is worth a thread, in operations.
inline constexpr double kGrain = 50000;

/// f(number of the matrix, Scratch<T>), which returns its `info`, for `count` matrices of `flops`
/// each, among threads.
template <class T, class F>
Failure for_each_matrix(int64_t count, double flops, const lapack::Work& work, F f) {
  const size_t bytes = (static_cast<size_t>(work.floats) * sizeof(T) +
                        static_cast<size_t>(work.ints) * sizeof(int) + 127) /
                       128 * 128;
  const auto grain = std::max<int64_t>(static_cast<int64_t>(kGrain / std::max(flops, 1.0)), 1);
  const auto workers = static_cast<int>(std::clamp<int64_t>(count / grain, 1, num_threads()));
  const ArenaLease memory = borrow_arena(bytes * static_cast<size_t>(workers));
  std::mutex mutex;
  Failure failure;
  const auto range = [&](int64_t begin, int64_t end, int worker) {
    const lapack::Call call;
    for (int64_t i = begin; i < end; ++i) {
      uint8_t* const own = memory.data() + bytes * static_cast<size_t>(worker);
      const int info = f(i, Scratch<T>(own, work));
      if (info == 0) continue;
      const std::lock_guard guard(mutex);
      if (failure.matrix < 0 || i < failure.matrix) failure = {i, info};
    }
  };
  parallel_for(
      count, grain,
      [](void* context, int64_t begin, int64_t end, int worker) {
        (*static_cast<decltype(range)*>(context))(begin, end, worker);
      },
      const_cast<void*>(static_cast<const void*>(&range)), workers);
  return failure;
}

/// Throws if there is a failure: "cholesky: of matrix 3 of the batch <what>".
template <class Describe>
void report(const MatrixCall& call, bool is_batch, const Failure& failure, Describe describe) {
  if (failure.matrix < 0) return;
  const std::string which =
      is_batch ? "matrix " + std::to_string(failure.matrix) + " of the batch" : "the matrix";
  ir::fail(ir::Errc::Argument,
           std::string(call.name) + ": " + which + " " + describe(failure.info));
}

/// f(T()) for the types of matrices.
template <class F>
void with_matrix_type(ir::DType dtype, F f) {
  TANDEM_CHECK(dtype == ir::DType::F32 || dtype == ir::DType::F64, "a matrix of this dtype");
  if (dtype == ir::DType::F32)
    f(float());
  else
    f(double());
}

}  // namespace tandem::machine::matrices

#endif  // TANDEM_MACHINE_LINALG_MATRIX_H
