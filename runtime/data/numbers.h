// What the parts of data/ share: tensors of numbers, and which random numbers are whose.
#ifndef TANDEM_RUNTIME_DATA_NUMBERS_H
#define TANDEM_RUNTIME_DATA_NUMBERS_H

#include <tandem/tensor.h>

#include <cstdint>
#include <span>

namespace tandem::data {

/// In the place of a sample: the random numbers of an epoch's order.
inline constexpr uint64_t kOfOrders = ~uint64_t{0};
/// In the place of an epoch: those of random_split.
inline constexpr uint64_t kOfSplits = ~uint64_t{0};

/// i64 [n].
Tensor tensor_of(std::span<const int64_t> numbers);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_DATA_NUMBERS_H
