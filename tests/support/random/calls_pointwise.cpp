#include "tests/support/random/calls.h"

namespace tandem::testing {
namespace {

#define CALL(kind, ...)                                                     \
  {kind, #__VA_ARGS__, [](const CallOperands& o, const Number&) -> Tensor { \
     [[maybe_unused]] const Tensor &x = o[0], &y = o[1];                    \
     return __VA_ARGS__;                                                    \
   }},
#define UNARY(...) CALL("UNARY", __VA_ARGS__)
#define BINARY(...) CALL("BINARY", __VA_ARGS__)
#define INTEGERS(...) CALL("INTEGERS", __VA_ARGS__)

/// Where one function or other is not defined: below 0, between 0 and 1, above 1.
CallOperands operands(const std::string& kind, uint64_t choice) {
  const Shape sizes = choice / 3 % 2 == 0 ? Shape{7} : Shape{3, 4};
  if (kind == "INTEGERS") return {arange(12).view({3, 4}) - 5, arange(12).view({3, 4}) % 5 + 1};
  const Tensor unit = numbers_between(sizes, 0.1, 0.9, false),
               above = numbers_between(sizes, 1.3, 3, false),
               any = numbers_between(sizes, 0.2, 2.5, true);
  if (choice % 3 == 0) return {unit, above};
  return choice % 3 == 1 ? CallOperands{above, unit} : CallOperands{any, above};
}

}  // namespace

const CallTable& pointwise_calls() {
  static const CallTable table{{
#include "tests/ops/pointwise_values.inc"
                               },
                               operands};
  return table;
}

}  // namespace tandem::testing
