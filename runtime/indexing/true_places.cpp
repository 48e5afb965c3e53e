// Blocks of a mask are counted, among threads; then each knows where its places begin.
#include "runtime/indexing/true_places.h"

#include <algorithm>
#include <array>
#include <span>

#include "machine/threads/thread_pool.h"
#include "runtime/tape/autograd.h"

namespace tandem::runtime {
namespace {

constexpr int64_t kBlock = 4096, kBlocksPerThread = 4;

/// Where positions are written: along dimension d that of the k-th place at first[d][k * step].
struct Columns {
  std::vector<int64_t*> first;
  int64_t step;
};

class TruePlaces {
 public:
  explicit TruePlaces(const Tensor& mask)
      : dense_(mask.contiguous()),
        flags_(dense_.data<bool>(), static_cast<size_t>(mask.numel())),
        begins_((flags_.size() + kBlock - 1) / kBlock) {
    for (const Dim n : mask.sizes()) sizes_.push_back(n);
    for_each_block([&](size_t b) { begins_[b] = std::ranges::count(block(b), true); });
    for (int64_t& begin : begins_) count_ += std::exchange(begin, count_);
  }

  int64_t count() const { return count_; }

  void write(const Columns& to) const {
    if (!sizes_.empty()) for_each_block([&](size_t b) { write_block(b, to); });
  }

 private:
  template <class F>
  void for_each_block(F f) const {
    machine::parallel_for(static_cast<int64_t>(begins_.size()), kBlocksPerThread,
                          [&](int64_t begin, int64_t end, int) {
                            for (int64_t b = begin; b < end; ++b) f(static_cast<size_t>(b));
                          });
  }

  std::span<const bool> block(size_t b) const {
    return flags_.subspan(b * kBlock, std::min<size_t>(kBlock, flags_.size() - b * kBlock));
  }

  void write_block(size_t b, const Columns& to) const {
    const std::span<const bool> flags = block(b);
    std::array<int32_t, kBlock> offsets;
    size_t found = 0;
    for (size_t i = 0; i < flags.size(); ++i) {
      offsets[found] = static_cast<int32_t>(i);
      found += static_cast<size_t>(flags[i]);
    }
    write_positions(static_cast<int64_t>(b) * kBlock, {offsets.data(), found}, begins_[b], to);
  }

  /// The positions of places `first` + each of `offsets`, which ascend, from the k-th on. Only
  /// where a new row begins are numbers divided.
  void write_positions(int64_t first, std::span<const int32_t> offsets, int64_t k,
                       const Columns& to) const {
    const size_t last = sizes_.size() - 1;
    std::vector<int64_t> row(last);
    int64_t begin = 0, end = 0;  // of the row
    for (const int32_t offset : offsets) {
      const int64_t place = first + offset;
      if (place >= end) {
        int64_t rest = place / sizes_[last];
        begin = rest * sizes_[last], end = begin + sizes_[last];
        for (size_t d = last; d-- > 0; rest /= sizes_[d]) row[d] = rest % sizes_[d];
      }
      for (size_t d = 0; d < last; ++d) to.first[d][k * to.step] = row[d];
      to.first[last][k++ * to.step] = place - begin;
    }
  }

  Tensor dense_;
  std::span<const bool> flags_;
  std::vector<int64_t> sizes_, begins_;  // begins: how many are true before each block
  int64_t count_ = 0;
};

}  // namespace

Tensor true_places(const Tensor& mask) {
  const TruePlaces places(mask);
  Tensor positions = empty_tensor({places.count(), mask.dim()}, i64);
  Columns columns{.first = {}, .step = mask.dim()};
  for (int64_t d = 0; d < mask.dim(); ++d) columns.first.push_back(positions.data<int64_t>() + d);
  places.write(columns);
  return positions;
}

std::vector<Tensor> true_positions(const Tensor& mask) {
  const TruePlaces places(mask);
  std::vector<Tensor> positions;
  Columns columns{.first = {}, .step = 1};
  for (int64_t d = 0; d < mask.dim(); ++d) {
    positions.push_back(empty_tensor({places.count()}, i64));
    columns.first.push_back(positions.back().data<int64_t>());
  }
  places.write(columns);
  return positions;
}

}  // namespace tandem::runtime
