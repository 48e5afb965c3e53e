#include <map>

#include "ir/dim.h"
#include "tests/support/random/calls.h"

namespace tandem::testing {
namespace {

Tensor written(const Tensor& x, const Indices& places, const Located& values) {
  const Tensor copy = x.clone();
  copy.index_put_(places, values);
  return copy;
}

#define CALL(kind, ...)                                                                      \
  {kind, #__VA_ARGS__, [](const CallOperands& o, const Number&) -> Tensor {                  \
     [[maybe_unused]] const Tensor &x = o[0], &mask = o[1], &i = o[2], &j = o[3], &n = o[4]; \
     return __VA_ARGS__;                                                                     \
   }},
#define NUMBER(...) CALL("NUMBER", __VA_ARGS__)
#define LINE(...) CALL("LINE", __VA_ARGS__)
#define MATRIX(...) CALL("MATRIX", __VA_ARGS__)
#define CUBE(...) CALL("CUBE", __VA_ARGS__)
#define IMAGE(...) CALL("IMAGE", __VA_ARGS__)
#define EMPTY(...) CALL("EMPTY", __VA_ARGS__)
#define MASKED(...) CALL("MASKED", __VA_ARGS__)

CallOperands operands(const std::string& kind, uint64_t) {
  static const std::map<std::string, Shape> all = {
      {"NUMBER", {}},          {"LINE", {5}},     {"MATRIX", {3, 4}}, {"CUBE", {2, 3, 4}},
      {"IMAGE", {1, 2, 3, 4}}, {"EMPTY", {0, 3}}, {"MASKED", {3, 4}},
  };
  const Shape& sizes = all.at(kind);
  const Tensor x = arange(1, ir::numel(sizes) + 1).view(sizes);
  return {x.to(f64) / 8, x % 3 == 0, tensor({2, 0, -1}), tensor({0, 1}).view({2, 1}),
          tensor({1, 0, 2})};
}

}  // namespace

const CallTable& shape_calls() {  // NOLINT(readability-function-size): a table
  static const CallTable table{{
#include "tests/ops/shape_values.inc"
                               },
                               operands};
  return table;
}

}  // namespace tandem::testing
