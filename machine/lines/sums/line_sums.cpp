// Running sums of lines of any layout. A line is summed in chunks: what is before a chunk is added
// to the sums in it. So several threads may sum the chunks of one line: first each by itself, then,
// when all are known, its elements. Floating sums run in f64, and their bits depend on the line's
// elements alone; integers wrap.
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "machine/cpu.h"
#include "machine/halves/halves.h"
#include "machine/lines/line.h"
#include "machine/lines/lines.h"
#include "machine/lines/sums/running_sums.h"
#include "machine/memory/arena.h"
#include "machine/rounding.h"

namespace tandem::machine::lines {
namespace {

constexpr int64_t kChunk = 4096;
constexpr int64_t kPiece = 128;  // elements of a line that are brought side by side

template <class T>
using Sum = std::conditional_t<std::is_floating_point_v<Compute<T>>, double, uint64_t>;
template <class T>
using Sums = std::array<Sum<T>, kSideBySide>;

/// Short integers, whose sums are the same in any order: one after the other.
template <class T>
struct IntegerSums {
  static uint64_t of_run(const T* x, int64_t n, uint64_t carry, uint64_t local, T* out) {
    if (out == nullptr) {
      for (int64_t k = 0; k < n; ++k) local += static_cast<uint64_t>(x[k]);
      return local;
    }
    uint64_t sum = carry + local;
    for (int64_t k = 0; k < n; ++k) out[k] = static_cast<T>(sum += static_cast<uint64_t>(x[k]));
    return sum - carry;
  }
  static void of_lines(const T* x, int64_t stride, int64_t n, const uint64_t* carry,
                       uint64_t* local, T* out, int64_t out_stride) {
    std::array<uint64_t, kSideBySide> sums;
    for (size_t l = 0; l < kSideBySide; ++l) sums[l] = carry[l] + local[l];
    for (int64_t k = 0; k < n; ++k) {
      for (size_t l = 0; l < kSideBySide; ++l)
        sums[l] += static_cast<uint64_t>(x[k * stride + static_cast<int64_t>(l)]);
      if (out == nullptr) continue;
      for (size_t l = 0; l < kSideBySide; ++l)
        out[k * out_stride + static_cast<int64_t>(l)] = static_cast<T>(sums[l]);
    }
    for (size_t l = 0; l < kSideBySide; ++l) local[l] = sums[l] - carry[l];
  }
  static void of_runs(const T* x, int64_t apart, int64_t lines, int64_t n, T* out,
                      int64_t out_apart) {
    for (int64_t l = 0; l < lines; ++l) of_run(x + l * apart, n, 0, 0, out + l * out_apart);
  }
};

/// The loops for elements of T, halves aside.
template <class T>
auto sums_of() {
  const RunningSumKernels& kernels =
      *for_this_processor(&kRunningSumsBase, &kRunningSumsAvx2, &kRunningSumsAvx512);
  if constexpr (std::is_same_v<T, float>)
    return kernels.f32;
  else if constexpr (std::is_same_v<T, double>)
    return kernels.f64;
  else if constexpr (std::is_same_v<T, int64_t>)
    return kernels.i64;
  else
    return IntegerSums<T>{};
}

/// Copies elements of a line to memory where they lie side by side. (Turned round, as gradients
/// of sums are summed, vectors do it.)
template <class T, class U>
void bring(const Line<T>& line, U* to) {
  if (line.stride == -1)
    for (int64_t k = 0; k < line.size; ++k) to[k] = line.first[-k];
  else
    for (int64_t k = 0; k < line.size; ++k) to[k] = line[k];
}
template <class T>
void take_back(const T* from, const Line<T>& line) {
  if (line.stride == -1)
    for (int64_t k = 0; k < line.size; ++k) line.first[-k] = from[k];
  else
    for (int64_t k = 0; k < line.size; ++k) line[k] = from[k];
}

/// A piece of a line as what it is computed in, side by side: where it lies, if it lies so.
template <class T>
class Piece {
 public:
  Piece(const Piece&) = delete;
  Piece() = default;
  Piece& operator=(const Piece&) = delete;

  const Compute<T>* read(const Line<const T>& line) {
    if constexpr (is_half<T>) {
      if (line.stride == 1) {
        machine::widen(line.first, line.size, numbers_);
      } else {
        T halves[kPiece];
        bring(line, halves);
        machine::widen(halves, line.size, numbers_);
      }
    } else {
      if (line.stride == 1) return line.first;
      bring(line, numbers_);
    }
    return numbers_;
  }
  /// Where what is written comes to.
  Compute<T>* room(const Line<T>& line) {
    if constexpr (!is_half<T>)
      if (line.stride == 1) return line.first;
    return numbers_;
  }
  void write(const Line<T>& line) const {
    if constexpr (is_half<T>) {
      if (line.stride == 1) return machine::narrow(numbers_, line.size, line.first);
      T halves[kPiece];
      machine::narrow(numbers_, line.size, halves);
      take_back(halves, line);
    } else if (line.stride != 1) {
      take_back(numbers_, line);
    }
  }

 private:
  Compute<T> numbers_[kPiece];
};

/// Sums in a chunk of a line, which begin with `carry`; they go to `out` if there is one. Returns
/// what the chunk comes to by itself.
template <class T>
Sum<T> sum_line(const Line<const T>& in, Sum<T> carry, const Line<T>* out) {
  const auto sums = sums_of<Compute<T>>();
  const bool is_run = !is_half<T> && in.stride == 1 && (out == nullptr || out->stride == 1);
  Piece<T> from, to;
  Sum<T> local = 0;
  for (int64_t k = 0, n; k < in.size; k += n) {
    n = is_run ? in.size : std::min(kPiece, in.size - k);
    const Compute<T>* const numbers = from.read(in.part(k, n));
    if (out == nullptr) {
      local = sums.of_run(numbers, n, carry, local, nullptr);
      continue;
    }
    const Line<T> piece = out->part(k, n);
    local = sums.of_run(numbers, n, carry, local, to.room(piece));
    to.write(piece);
  }
  return local;
}

/// Copies a row of so many lines to what it is computed in, and back.
template <class T>
void bring_row(const T* row, int count, Compute<T>* to) {
  if constexpr (is_half<T>)
    machine::widen(row, count, to);
  else
    std::memcpy(to, row, static_cast<size_t>(count) * sizeof(T));
}
template <class T>
void take_row_back(const Compute<T>* from, int count, T* row) {
  if constexpr (is_half<T>)
    machine::narrow(from, count, row);
  else
    std::memcpy(row, from, static_cast<size_t>(count) * sizeof(T));
}

/// The same of `count` lines that lie side by side; `in` and `out` are the first of them.
template <class T>
void sum_neighbours(const Line<const T>& in, int count, const Sums<T>& carry, Sums<T>& local,
                    const Line<T>* out) {
  const auto sums = sums_of<Compute<T>>();
  if constexpr (!is_half<T>)
    if (count == kSideBySide)
      return sums.of_lines(in.first, in.stride, in.size, carry.data(), local.data(),
                           out != nullptr ? out->first : nullptr, out != nullptr ? out->stride : 0);
  Compute<T> numbers[kPiece * kSideBySide] = {};
  for (int64_t k = 0; k < in.size; k += kPiece) {
    const int64_t n = std::min(kPiece, in.size - k);
    for (int64_t i = 0; i < n; ++i) bring_row(&in[k + i], count, numbers + i * kSideBySide);
    sums.of_lines(numbers, kSideBySide, n, carry.data(), local.data(),
                  out != nullptr ? numbers : nullptr, kSideBySide);
    if (out == nullptr) continue;
    for (int64_t i = 0; i < n; ++i) take_row_back(numbers + i * kSideBySide, count, &(*out)[k + i]);
  }
}

/// The same of lines of neighbours, `in` and `out` the first of them; of halves those of short ones
/// that are neighbours too.
template <class T>
void sum_runs(const Line<const T>& in, int64_t apart, int64_t lines, const Line<T>& out,
              int64_t out_apart) {
  const auto sums = sums_of<Compute<T>>();
  if constexpr (!is_half<T>) {
    sums.of_runs(in.first, apart, lines, in.size, out.first, out_apart);
  } else {
    const int64_t n = in.size, most = kPiece / n;
    float numbers[kPiece];
    for (int64_t l = 0, count; l < lines; l += count) {
      count = std::min(most, lines - l);
      machine::widen(in.first + l * n, count * n, numbers);
      sums.of_runs(numbers, n, count, n, numbers, n);
      machine::narrow(numbers, count * n, out.first + l * n);
    }
  }
}

/// Running sums of all lines of a tensor.
template <class T>
class LineSums {
 public:
  LineSums(const ir::BufferView& in, const ir::BufferView& out, int64_t dim)
      : in_(in, dim),
        out_(out, dim),
        chunks_(ceil_div(in_.size(), kChunk)),
        side_by_side_(std::min(in_.side_by_side(), out_.side_by_side())),
        are_runs_(are_runs(in_) && are_runs(out_)) {}

  void run() const {
    if (chunks_ > 1 && in_.count() < 2 * num_threads() && num_threads() > 1)
      sum_by_chunks();
    else
      sum_by_lines();
  }

 private:
  int64_t bundles() const { return ceil_div(in_.count(), kSideBySide); }
  int lines_of(int64_t bundle) const {
    return static_cast<int>(std::min<int64_t>(in_.count() - bundle * kSideBySide, kSideBySide));
  }

  /// Whether sum_runs sums such lines.
  template <class U>
  static bool are_runs(const Lines<U>& lines) {
    const int64_t n = lines.size();
    const bool is_one_piece = !is_half<T> || (n <= kPiece && lines.apart() == n);
    return n >= 1 && n <= kChunk && lines.stride() == 1 && lines.apart() && is_one_piece;
  }

  void sum_by_lines() const {
    const int64_t size = std::max<int64_t>(in_.size(), 1);
    const int64_t grain = std::max(
        {kGrain / size, int64_t{1}, std::min<int64_t>(in_.count() / num_threads(), kSideBySide)});
    parallel_for(in_.count(), grain, [&](int64_t begin, int64_t end, int) {
      if (are_runs_)
        return sum_runs<T>(in_[begin], *in_.apart(), end - begin, out_[begin], *out_.apart());
      for (int count; begin < end; begin += count) sum_lines(begin, count = together(begin, end));
    });
  }

  /// How many lines from `first` on are summed at once: of those side by side no more.
  int together(int64_t first, int64_t end) const {
    int64_t count = std::min<int64_t>(end - first, kSideBySide);
    if (side_by_side_ > 0) count = std::min(count, side_by_side_ - first % side_by_side_);
    return static_cast<int>(count);
  }
  bool are_side_by_side(int64_t first, int count) const {
    constexpr int kFew = 12;  // fewer are summed faster one by one
    return side_by_side_ > 0 && count >= kFew && first % side_by_side_ + count <= side_by_side_;
  }

  void sum_lines(int64_t first, int count) const {
    Sums<T> carry{};
    for (int64_t c = 0; c < chunks_; ++c) {
      const Sums<T> local = sum_chunk(first, count, c, carry, true);
      for (int l = 0; l < count; ++l)
        carry[static_cast<size_t>(l)] += local[static_cast<size_t>(l)];
    }
  }

  /// First what each chunk comes to by itself, then from what is before it.
  void sum_by_chunks() const {
    const ArenaLease lease =
        borrow_arena(static_cast<size_t>(bundles() * chunks_) * sizeof(Sums<T>));
    auto* const carries = reinterpret_cast<Sums<T>*>(lease.data());  // of a bundle one by one
    const auto for_each_chunk = [&](auto f) {
      parallel_for(bundles() * chunks_, ceil_div(kGrain, kChunk),
                   [&](int64_t begin, int64_t end, int) {
                     for (int64_t i = begin; i < end; ++i) f(i / chunks_, i % chunks_, carries[i]);
                   });
    };
    for_each_chunk([&](int64_t bundle, int64_t chunk, Sums<T>& own) {
      own = sum_chunk(bundle * kSideBySide, lines_of(bundle), chunk, {}, false);
    });
    for (int64_t bundle = 0; bundle < bundles(); ++bundle) {
      Sums<T> before{};
      for (int64_t c = 0; c < chunks_; ++c)
        for (size_t l = 0; l < kSideBySide; ++l) {
          Sum<T>& own = carries[bundle * chunks_ + c][l];
          before[l] += std::exchange(own, before[l]);
        }
    }
    for_each_chunk([&](int64_t bundle, int64_t chunk, const Sums<T>& carry) {
      sum_chunk(bundle * kSideBySide, lines_of(bundle), chunk, carry, true);
    });
  }

  /// What chunk number `chunk` of `count` lines comes to; `writes`: their elements, beginning with
  /// `carry`.
  Sums<T> sum_chunk(int64_t first, int count, int64_t chunk, const Sums<T>& carry,
                    bool writes) const {
    const int64_t begin = chunk * kChunk, n = std::min(kChunk, in_.size() - begin);
    Sums<T> local{};
    const auto with_line = [&](int64_t line, auto f) {
      const Line<T> out = out_[line].part(begin, n);
      f(in_[line].part(begin, n), writes ? &out : nullptr);
    };
    if (are_side_by_side(first, count)) {
      with_line(first, [&](const Line<const T>& in, const Line<T>* out) {
        sum_neighbours(in, count, carry, local, out);
      });
      return local;
    }
    for (int l = 0; l < count; ++l)
      with_line(first + l, [&](const Line<const T>& in, const Line<T>* out) {
        const auto at = static_cast<size_t>(l);
        local[at] = sum_line(in, carry[at], out);
      });
    return local;
  }

  Lines<const T> in_;
  Lines<T> out_;
  int64_t chunks_;
  int64_t side_by_side_;  // so many lines follow each other so; 0: none do
  bool are_runs_;
};

}  // namespace

void cumsum(std::span<const ir::BufferView> in, std::span<const int64_t> numbers,
            const ir::BufferView& out) {
  with_type<Numbers>(out.dtype,
                     [&]<class T>(Tag<T>) { LineSums<T>(in[0], out, numbers[0]).run(); });
}

}  // namespace tandem::machine::lines
