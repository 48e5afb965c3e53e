#include <map>

#include "tests/support/random/calls.h"

namespace tandem::testing {
namespace {

#define CALL(kind, ...)                                                                       \
  {kind, #__VA_ARGS__, [](const CallOperands& o, [[maybe_unused]] const Number& n) {          \
     [[maybe_unused]] const Tensor &x = o[0], &y = o[1], &i = o[2], &mask = o[3], &at = o[4]; \
     return Tensor(__VA_ARGS__);                                                              \
   }},
#define UNARY(...) CALL("UNARY", __VA_ARGS__)
#define BINARY(...) CALL("BINARY", __VA_ARGS__)
#define NUMBER(...) CALL("NUMBER", __VA_ARGS__)

Tensor integers(int64_t low, int64_t high) {
  return arange(6).view({2, 3}) * 5 % (high - low) + low;
}

/// Floats where one function or other is defined; integers of all dtypes; truth values.
CallOperands operands(const std::string&, uint64_t choice) {
  static constexpr DType kIntegers[] = {i64, i32, i16, i8, u8};
  const Tensor mask = arange(6).view({2, 3}) % 3 != 1, i = tensor({0}), at = zeros({2, 3}, i64),
               unit = numbers_between({2, 3}, 0.1, 0.9, false),
               above = numbers_between({2, 3}, 1.3, 3, false),
               any = numbers_between({2, 3}, 0.2, 2.5, true),
               ints = integers(1, 5).to(kIntegers[choice / 8 % 5]);
  switch (choice % 8) {
    case 0:
    case 1:
      return {unit, above, i, mask, at};
    case 2:
      return {above, unit, i, mask, at};
    case 3:
    case 4:
      return {any, above, i, mask, at};
    case 5:
      return {any, ints, i, mask, at};
    case 6:
      return {mask, choice / 8 % 2 ? mask : ints, i, mask, at};
    default:
      return {ints, integers(1, 4).to(kIntegers[choice / 40 % 5]), i, mask, at};
  }
}

}  // namespace

const CallTable& listed_calls() {  // NOLINT(readability-function-size): a table
  static const CallTable table{
      {
#define X(op) UNARY(op(x))
          TANDEM_UNARY_IN_PLACE_OPS(X) TANDEM_UNARY_OPS(X) TANDEM_MADE_UNARY_IN_PLACE(X)
              TANDEM_MADE_UNARY(X)
#undef X
#define X(op) UNARY(x.op##_())
                  TANDEM_UNARY_IN_PLACE_OPS(X) TANDEM_MADE_UNARY_IN_PLACE(X)
#undef X
#define X(op) BINARY(op(x, y)) NUMBER(op(x, n)) NUMBER(op(n, x))
                      TANDEM_BINARY_IN_PLACE_OPS(X) TANDEM_BINARY_OPS(X)
                          TANDEM_MADE_BINARY_IN_PLACE(X) TANDEM_MADE_BINARY(X)
#undef X
#define X(op) BINARY(x.op##_(y)) NUMBER(x.op##_(n))
                              TANDEM_BINARY_IN_PLACE_OPS(X) TANDEM_COMPARISON_OPS(X)
                                  TANDEM_MADE_BINARY_IN_PLACE(X)
#undef X
#define X(name, op) UNARY(name(x)) UNARY(x.name##_())
                                      TANDEM_UNARY_ALIASES(X)
#undef X
#define X(name, op) BINARY(name(x, y)) NUMBER(name(x, n)) BINARY(x.name##_(y)) NUMBER(x.name##_(n))
                                          TANDEM_BINARY_ALIASES(X)
#undef X
#include "tests/ops/result_types.inc"
      },
      operands};
  return table;
}

}  // namespace tandem::testing
