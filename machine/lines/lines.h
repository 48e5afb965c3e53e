// Functions along one dimension of a tensor, on the pool: scans, sorts and searches. Eager and
// compiled code call them; ir/ops.def has one row of the class Scan for each, and says what it
// does. A line is what the dimension runs over; lines are shared among threads, a long one is
// sorted by several. What comes out does not depend on how many there are.
#ifndef TANDEM_MACHINE_LINES_LINES_H
#define TANDEM_MACHINE_LINES_LINES_H

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/buffer.h"

namespace tandem::machine {

/// out = f(in), of any strides. `numbers`: the op's attributes in their order.
using LineFunction = void (*)(std::span<const ir::BufferView> in, std::span<const int64_t> numbers,
                              const ir::BufferView& out);

/// The function of the op of this name.
LineFunction line_function(std::string_view name);

// Those of line_scans.cpp, sums/line_sums.cpp, line_sorts.cpp, line_searches.cpp and (by element)
// gamma.cpp.
namespace lines {
// clang-format off
#define TANDEM_LINE_FUNCTIONS(X)                                                                \
  X(cumsum)                                                                                     \
  X(cumprod)                                                                                    \
  X(logcumsumexp) X(linear_scan) X(cummax_indices) X(cummin_indices) X(argsort) X(topk_indices) \
      X(kth_index) X(median_index) X(mode_index) X(searchsorted) X(igamma) X(igammac)
#define X(name)                                                                   \
  void name(std::span<const ir::BufferView> in, std::span<const int64_t> numbers, \
            const ir::BufferView& out);
TANDEM_LINE_FUNCTIONS(X)
#undef X
}  // namespace lines

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LINES_LINES_H
