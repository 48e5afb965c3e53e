// What a selection does with every element of a line: the loops of each instruction set.
#ifndef TANDEM_MACHINE_LINES_SELECTION_H
#define TANDEM_MACHINE_LINES_SELECTION_H

#include <cstdint>
#include <tuple>

#include "machine/lines/ranks.h"

namespace tandem::machine::lines {

/// Of elements of T. One comes before another if its rank is less, or (`descending`) larger.
template <class T>
struct Selection {
  /// first[g]: of elements [g * size, (g + 1) * size) of x [n], the rank that comes first.
  void (*first_of_groups)(const T* x, int64_t n, int64_t size, bool descending, Rank<T>* first);
  /// The places of those of x [n] that come no later than one of rank `bound`, in their order in
  /// `places` [n]; how many there are.
  int64_t (*up_to)(const T* x, int64_t n, Rank<T> bound, bool descending, int32_t* places);
};

using Selections = std::tuple<Selection<float>, Selection<double>, Selection<Bf16>, Selection<F16>,
                              Selection<int64_t>, Selection<int32_t>, Selection<int16_t>,
                              Selection<int8_t>, Selection<uint8_t>, Selection<bool>>;

extern const Selections kSelectionsBase, kSelectionsAvx2, kSelectionsAvx512;

/// Those of this processor.
const Selections& selections();

}  // namespace tandem::machine::lines

#endif  // TANDEM_MACHINE_LINES_SELECTION_H
