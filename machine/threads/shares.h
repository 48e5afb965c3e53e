// The work of one parallel region, to be claimed piece by piece. Units are dealt into shares, one a
// thread, so that from region to region a thread works on the same data; a thread whose share is
// used up helps with the others.
#ifndef TANDEM_MACHINE_THREADS_SHARES_H
#define TANDEM_MACHINE_THREADS_SHARES_H

#include <array>
#include <atomic>
#include <cstdint>
#include <utility>

namespace tandem::machine {

/// How a region's units are cut: shares of pieces of `piece` units. No share is empty.
struct Cut {
  int64_t units = 0;
  int64_t piece = 1;
  int shares = 1;
};

inline constexpr int kMostShares = 16;   // a thread looks at all before it gives up
inline constexpr int kMostPieces = 256;  // of a share

/// The cut for `threads` threads into pieces of at least `grain` units; units >= threads * grain.
Cut cut_for(int64_t units, int64_t grain, int threads);

/// Pieces [begin, end) of a share.
struct Claim {
  int begin = 0, end = 0;
  bool empty() const { return begin == end; }
  int pieces() const { return end - begin; }
};

/// Units [begin, end) of a claim on share number `share`.
std::pair<int64_t, int64_t> units_of(const Cut& cut, int share, Claim claim);

/// What is left to claim of one share. The number of the region is part of the word, so a claim on
/// behalf of a region that is over finds nothing.
class Share {
 public:
  void open(uint32_t epoch, Claim all) {
    left_.store(word_of(epoch, all), std::memory_order_release);
  }

  /// Whether something is left to claim of region `epoch`.
  bool is_left(uint32_t epoch) const {
    const uint64_t word = left_.load(std::memory_order_relaxed);
    return word >> 32 == epoch && !left_of(word).empty();
  }

  /// Claims half of what is left, but at most `most` pieces (at least one), if that still belongs
  /// to region `epoch`, and if `may()`, which runs while the region is known to be unfinished
  /// provided that something is then claimed.
  template <class May>
  Claim claim(uint32_t epoch, int most, May may) {
    for (uint64_t old = left_.load(std::memory_order_acquire);;) {
      const Claim left = left_of(old);
      if (old >> 32 != epoch || left.empty() || !may()) return {};
      const Claim mine{left.begin, left.begin + std::min((left.pieces() + 1) / 2, most)};
      if (left_.compare_exchange_weak(old, word_of(epoch, {mine.end, left.end}),
                                      std::memory_order_acq_rel, std::memory_order_acquire))
        return mine;
    }
  }

 private:
  static uint64_t word_of(uint32_t epoch, Claim left) {
    return uint64_t{epoch} << 32 | static_cast<uint64_t>(left.begin) << 16 |
           static_cast<uint64_t>(left.end);
  }
  static Claim left_of(uint64_t word) {
    return {static_cast<int>(word >> 16 & 0xffff), static_cast<int>(word & 0xffff)};
  }

  std::atomic<uint64_t> left_{0};
};

/// The shares of the newest region.
class Shares {
 public:
  /// Opens region `epoch`, all of whose predecessors are done, and returns how many pieces it has.
  int open(const Cut& cut, uint32_t epoch);

  /// Whether something is left to claim of region `epoch`, which has so many shares.
  bool is_left(uint32_t epoch, int shares) const;

  /// Share::claim on share number `share`.
  template <class May>
  Claim claim(int share, uint32_t epoch, int most, May may) {
    return shares_[static_cast<size_t>(share)].claim(epoch, most, may);
  }

 private:
  class alignas(128) Apart : public Share {};

  std::array<Apart, kMostShares> shares_;
};

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_THREADS_SHARES_H
