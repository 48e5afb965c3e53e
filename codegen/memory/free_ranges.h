// Free memory of an arena.
#ifndef TANDEM_CODEGEN_MEMORY_FREE_RANGES_H
#define TANDEM_CODEGEN_MEMORY_FREE_RANGES_H

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

namespace tandem::codegen {

/// Free ranges of an arena that grows as needed. Of no bytes there is no range.
class FreeRanges {
 public:
  /// The smallest free range that fits, else the end of the arena.
  int64_t take(int64_t bytes) {
    if (bytes == 0) return 0;
    const auto best = by_size_.lower_bound({bytes, 0});
    if (best == by_size_.end()) return grow(bytes);
    const auto [size, offset] = *best;
    erase(free_.find(offset));
    if (size > bytes) insert(offset + bytes, size - bytes);
    return offset;
  }

  void give(int64_t offset, int64_t bytes) {
    if (bytes == 0) return;
    auto next = free_.lower_bound(offset);
    if (next != free_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        erase(before);
      }
    }
    insert(offset, bytes);
  }

  int64_t end() const { return end_; }

 private:
  using Iterator = std::map<int64_t, int64_t>::iterator;

  /// Extends the arena; a free range at its end is used up first.
  int64_t grow(int64_t bytes) {
    int64_t offset = end_;
    if (!free_.empty()) {
      const auto last = std::prev(free_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        erase(last);
      }
    }
    end_ = offset + bytes;
    return offset;
  }

  void insert(int64_t offset, int64_t bytes) {
    free_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
  }
  Iterator erase(Iterator r) {
    by_size_.erase({r->second, r->first});
    return free_.erase(r);
  }

  std::map<int64_t, int64_t> free_;                // offset -> size
  std::set<std::pair<int64_t, int64_t>> by_size_;  // size, offset
  int64_t end_ = 0;
};

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_MEMORY_FREE_RANGES_H
