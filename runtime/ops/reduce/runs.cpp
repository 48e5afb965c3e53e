// Beginnings of runs are counted in blocks, among threads; then each block knows its first run.
#include "runtime/ops/reduce/runs.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ir/base/error_scope.h"
#include "machine/element.h"
#include "machine/threads/thread_pool.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {
namespace {

constexpr int64_t kBlock = 4096, kBlocksPerThread = 4;

template <class T>
class RunFinder {
 public:
  RunFinder(const T* x, int64_t n) : x_(x), n_(n), firsts_((n + kBlock - 1) / kBlock + 1) {
    for_each_block([&](int64_t b, int64_t begin, int64_t end) {
      int64_t count = 0;
      for (int64_t i = begin; i < end; ++i) count += begins(i);
      firsts_[static_cast<size_t>(b)] = count;
    });
    int64_t runs = 0;
    for (int64_t& first : firsts_) runs += std::exchange(first, runs);
  }

  int64_t count() const { return firsts_.back(); }

  /// values and places [count()], the first element of each run and where it lies; numbers [n].
  void write(T* values, int64_t* places, int64_t* numbers) const {
    for_each_block([&](int64_t b, int64_t begin, int64_t end) {
      const auto at = static_cast<size_t>(b);
      write_block(begin, end, firsts_[at], firsts_[at + 1], values, places, numbers);
    });
  }

 private:
  template <class F>
  void for_each_block(F f) const {
    machine::parallel_for(static_cast<int64_t>(firsts_.size()) - 1, kBlocksPerThread,
                          [&](int64_t first, int64_t last, int) {
                            for (int64_t b = first; b < last; ++b)
                              f(b, b * kBlock, std::min((b + 1) * kBlock, n_));
                          });
  }

  bool begins(int64_t i) const {
    return i == 0 || machine::load(x_[i]) != machine::load(x_[i - 1]);
  }

  /// What begins no run is written over by what begins the next: nothing is to be foretold.
  void write_block(int64_t i, int64_t end, int64_t run, int64_t last_run, T* values,
                   int64_t* places, int64_t* numbers) const {
    const T* const x = x_;  // which no write changes
    for (; i < end && run < last_run; ++i) {
      const bool is_first = i == 0 || machine::load(x[i]) != machine::load(x[i - 1]);
      values[run] = x[i], places[run] = i;
      run += is_first;
      numbers[i] = run - 1;
    }
    std::fill(numbers + i, numbers + end, last_run - 1);
  }

  const T* x_;
  int64_t n_;
  std::vector<int64_t> firsts_;  // the number of the first run that begins in each block; of all
};

/// In place of where runs begin, of `n` elements in all.
void lengths_of(int64_t* places, int64_t runs, int64_t n) {
  for (int64_t r = 0; r < runs; ++r) places[r] = (r + 1 < runs ? places[r + 1] : n) - places[r];
}

}  // namespace

Unique runs_of(const Tensor& vector) {
  require_real(vector, ir::ErrorScope::function());
  const Tensor dense = vector.contiguous();
  const int64_t n = dense.numel();
  Unique runs;
  runs.inverse = empty_tensor({n}, i64);
  machine::with_type<machine::All>(dense.dtype(), [&]<class T>(machine::Tag<T>) {
    const RunFinder<T> finder(static_cast<const T*>(dense.impl()->data()), n);
    runs.values = empty_tensor({finder.count()}, dense.dtype());
    runs.counts = empty_tensor({finder.count()}, i64);
    int64_t* const lengths = runs.counts.data<int64_t>();
    finder.write(static_cast<T*>(runs.values.impl()->data()), lengths,
                 runs.inverse.data<int64_t>());
    lengths_of(lengths, finder.count(), n);
  });
  return runs;
}

}  // namespace tandem::runtime
