#include "ir/random.h"

#include <fmt/format.h>
#include <tandem/data/random.h>

#include "ir/base/error.h"

namespace tandem::data {
namespace {

/// A key for each part of what `key` stands for.
uint64_t key_of_part(uint64_t key, uint64_t part) { return ir::random_word64(key, part, 0); }

}  // namespace

Random::Random(uint64_t seed, uint64_t epoch, uint64_t sample)
    : key_(key_of_part(key_of_part(seed, epoch), sample)) {}

uint64_t Random::word() {
  if (left_ == 0) {
    words_ = ir::philox4x32_10(key_, counter_++);
    left_ = 4;
  }
  left_ -= 2;
  const auto at = static_cast<size_t>(left_);
  return words_[at] | uint64_t{words_[at + 1]} << 32;
}

double Random::uniform() { return static_cast<double>(word() >> 11) * 0x1p-53; }

int64_t Random::below(int64_t n) {
  if (n < 1)
    ir::fail(ir::Errc::Argument, fmt::format("Random::below: expected at least 1, got {}", n));
  const auto count = static_cast<uint64_t>(n);
  const uint64_t unused = (0 - count) % count;  // 2^64 mod n: so many words would favour some
  for (;;) {
    const uint64_t word = this->word();
    if (word >= unused) return static_cast<int64_t>(word % count);
  }
}

double Random::normal() { return ir::normal_from_word(word()); }

}  // namespace tandem::data
