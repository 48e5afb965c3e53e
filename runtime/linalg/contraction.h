// Products of two operands whose dimensions have labels, by one matrix product.
#ifndef TANDEM_RUNTIME_LINALG_CONTRACTION_H
#define TANDEM_RUNTIME_LINALG_CONTRACTION_H

#include <bitset>
#include <vector>

#include "runtime/ops/call.h"

namespace tandem::runtime {

/// Dimensions have labels in [0, kLabels).
inline constexpr int kLabels = 128;
using Labels = std::bitset<kLabels>;

/// An operand and its dimensions' labels, no two alike.
struct Labelled {
  V value;
  std::vector<int> dims;

  Labels labels() const {
    Labels set;
    for (const int d : dims) set.set(static_cast<size_t>(d));
    return set;
  }
};

/// Without the labels that are not in `kept`: their elements are summed.
Labelled summed(Call& c, Labelled x, const Labels& kept);
/// In the order of `labels`, which are the operand's.
V arranged(Call& c, const Labelled& x, const std::vector<int>& labels);
/// x * y summed over the labels that are not in `kept`. A label of both has one size in both.
Labelled contracted(Call& c, Labelled x, Labelled y, const Labels& kept);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_LINALG_CONTRACTION_H
