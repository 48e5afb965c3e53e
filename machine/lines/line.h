// Lines of tensors: what lines.h's functions run over.
#ifndef TANDEM_MACHINE_LINES_LINE_H
#define TANDEM_MACHINE_LINES_LINE_H

#include <algorithm>
#include <optional>

#include "ir/buffer.h"
#include "machine/element.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine::lines {

/// The elements of one line.
template <class T>
struct Line {
  T* first;
  int64_t size, stride;  // elements
  T& operator[](int64_t i) const { return first[i * stride]; }
  Line part(int64_t begin, int64_t count) const { return {first + begin * stride, count, stride}; }
};

/// A tensor as lines along `dim`, numbered in row-major order of the other dimensions.
template <class T>
class Lines {
 public:
  Lines(const ir::BufferView& view, int64_t dim)
      : view_(view), dim_(static_cast<int>(dim)), data_(static_cast<T*>(view.data)) {
    for (int d = view.sizes.rank() - 1; d >= 0; --d)
      if (d != dim_ && view.sizes[d] != 1) add_dim(view.sizes[d], view.strides[d]);
  }
  int64_t count() const { return count_; }
  int64_t size() const { return view_.sizes[dim_]; }
  int64_t stride() const { return view_.strides[dim_]; }
  /// How far each line is from the next, if that is the same everywhere.
  std::optional<int64_t> apart() const { return step_; }
  /// So many lines follow each other side by side, those after a multiple of it; 0: none do.
  int64_t side_by_side() const { return innermost_ == 1 ? together_ : 0; }
  Line<T> operator[](int64_t line) const {
    return {data_ + (step_ ? line * *step_ : offset(line)), size(), stride()};
  }

 private:
  /// The next one outwards.
  void add_dim(int64_t size, int64_t stride) {
    if (count_ == 1)
      step_ = innermost_ = stride;
    else if (step_ && stride != count_ * *step_)
      step_.reset();
    count_ *= size;
    if (step_) together_ = count_;
  }

  int64_t offset(int64_t line) const {
    int64_t offset = 0;
    for (int d = view_.sizes.rank() - 1; d >= 0; --d) {
      if (d == dim_) continue;
      const int64_t size = view_.sizes[d];
      offset += line % size * int64_t{view_.strides[d]};
      line /= size;
    }
    return offset;
  }

  const ir::BufferView& view_;
  int dim_;
  T* data_;
  int64_t count_ = 1, together_ = 1, innermost_ = 0;
  std::optional<int64_t> step_ = 0;  // from each line to the next, if that is the same everywhere
};

/// What is worth a thread, in elements.
inline constexpr int64_t kGrain = 16384;

/// f(number of the line, worker) for `count` lines of `size` elements, among threads; it must not
/// throw.
template <class F>
void for_each_line(int64_t count, int64_t size, F f) {
  const int64_t grain = std::max<int64_t>(kGrain / std::max<int64_t>(size, 1), 1);
  parallel_for(count, grain, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) f(i, worker);
  });
}

}  // namespace tandem::machine::lines

#endif  // TANDEM_MACHINE_LINES_LINE_H
