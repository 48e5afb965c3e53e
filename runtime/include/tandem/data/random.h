// Random numbers of data: which sample comes when, and how it is cropped. Apart from the generator
// of operations (manual_seed), so that one does not move the other.
#ifndef TANDEM_DATA_RANDOM_H
#define TANDEM_DATA_RANDOM_H

#include <tandem/ir/export.h>

#include <array>
#include <cstdint>

namespace tandem::data {

/// A stream of random numbers that follows from its numbers alone: a loader gives each sample of
/// each epoch its own, so that it does not matter which thread makes what, or where a run was
/// resumed. Philox4x32-10.
class TANDEM_API Random {
 public:
  explicit Random(uint64_t seed, uint64_t epoch = 0, uint64_t sample = 0);

  uint64_t word();
  /// In [0, 1), a multiple of 2^-53.
  double uniform();
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// In [0, n), all equally likely. Error unless n is positive.
  int64_t below(int64_t n);
  /// True with this probability.
  bool chance(double probability) { return uniform() < probability; }
  /// Of the standard normal distribution.
  double normal();

 private:
  uint64_t key_, counter_ = 0;
  std::array<uint32_t, 4> words_ = {};
  int left_ = 0;  // of words_
};

}  // namespace tandem::data

#endif  // TANDEM_DATA_RANDOM_H
