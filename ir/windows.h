// Where the windows of pools lie.
#ifndef TANDEM_IR_WINDOWS_H
#define TANDEM_IR_WINDOWS_H

#include <algorithm>
#include <cstdint>
#include <span>

#include "attr.h"
#include "op.h"

namespace tandem::ir {

/// Elements begin, begin + step, ... below end.
struct WindowRange {
  int64_t begin = 0, end = 0, step = 1;
};

/// The windows along one dimension.
struct WindowLine {
  int64_t input = 0, output = 0;
  int64_t window = 0;  // 0: adaptive
  int64_t stride = 1, padding = 0, dilation = 1;

  WindowRange at(int64_t i) const {
    if (window == 0) return {i * input / output, ((i + 1) * input + output - 1) / output, 1};
    const int64_t start = i * stride - padding;
    const int64_t begin = start < 0 ? start + (dilation - 1 - start) / dilation * dilation : start;
    return {begin, std::min(start + (window - 1) * dilation + 1, input), dilation};
  }
};

/// Of spatial dimension `d` of an op with these attributes, over `input` elements; the result has
/// `sizes` (window_spread: its operand, of `output` elements).
inline WindowLine window_line(std::span<const AttrValue> attrs, Op op, size_t d, int64_t input,
                              int64_t dilation, int64_t output = -1) {
  const auto number = [&](Attr attr) -> int64_t {
    const auto& numbers = std::get<Dims>(attrs[static_cast<size_t>(attr_index(op, attr))]);
    return numbers.empty() ? Dim(0) : numbers[d];
  };
  return {input,
          output < 0 ? number(Attr::sizes) : output,
          number(Attr::window),
          number(Attr::stride),
          number(Attr::padding),
          dilation};
}

}  // namespace tandem::ir

#endif  // TANDEM_IR_WINDOWS_H
