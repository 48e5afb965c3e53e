#include <cmath>
#include <map>

#include "ir/dim.h"
#include "tests/support/random/calls.h"

namespace tandem::testing {

Tensor distinct_numbers(const Shape& sizes) {
  std::vector<Number> values;
  for (int64_t k = 0; k < ir::numel(sizes); ++k)
    values.emplace_back(static_cast<double>((7 * k + 3) % 29) / 10 - 1.4);
  return from_numbers(values, sizes, f64);
}

Tensor numbers_between(const Shape& sizes, double low, double high, bool is_signed) {
  std::vector<Number> values;
  for (int64_t k = 0; k < ir::numel(sizes); ++k) {
    const double value = low + (high - low) * static_cast<double>((11 * k + 5) % 31) / 31;
    values.emplace_back(is_signed && k % 3 == 1 ? -value : value);
  }
  return from_numbers(values, sizes, f64);
}

namespace {

#define CALL(kind, ...)                                                                   \
  {kind, #__VA_ARGS__, [](const CallOperands& o, const Number&) -> Tensor {               \
     [[maybe_unused]] const Tensor &x = o[0], &w = o[1], &n = o[2], &i = o[3], &j = o[4]; \
     return __VA_ARGS__;                                                                  \
   }},
#define NUMBER(...) CALL("NUMBER", __VA_ARGS__)
#define LINE(...) CALL("LINE", __VA_ARGS__)
#define MATRIX(...) CALL("MATRIX", __VA_ARGS__)
#define CUBE(...) CALL("CUBE", __VA_ARGS__)
#define EMPTY(...) CALL("EMPTY", __VA_ARGS__)
#define ZEROS(...) CALL("ZEROS", __VA_ARGS__)
#define SPECIAL(...) CALL("SPECIAL", __VA_ARGS__)
#define INTS(...) CALL("INTS", __VA_ARGS__)
#define BYTES(...) CALL("BYTES", __VA_ARGS__)
#define FLAGS(...) CALL("FLAGS", __VA_ARGS__)
#define HALVES(...) CALL("HALVES", __VA_ARGS__)
#define SINGLES(...) CALL("SINGLES", __VA_ARGS__)

Tensor made(const std::string& kind) {
  static const std::map<std::string, DType> tied = {
      {"INTS", i64}, {"BYTES", u8}, {"FLAGS", boolean}, {"HALVES", f64}, {"SINGLES", f64}};
  static const std::map<std::string, Shape> sizes = {{"NUMBER", {}},     {"LINE", {7}},
                                                     {"MATRIX", {3, 4}}, {"CUBE", {2, 3, 4}},
                                                     {"EMPTY", {0, 3}},  {"SPECIAL", {12}}};
  if (kind == "ZEROS") return tensor({{0.5, 0, -1.5, 2}, {0, 0, 0.75, 0}, {1.25, 0, 3, -0.5}}, f64);
  if (const auto dtype = tied.find(kind); dtype != tied.end())
    return tensor({3, 0, 3, 1, 0, 2, 1, 2, 3, 1, 3, 0}).view({3, 4}).to(dtype->second);
  return distinct_numbers(sizes.at(kind));
}

CallOperands operands(const std::string& kind, uint64_t) {
  return {made(kind), tensor({1, 2, 1, 3}, f64), tensor({2, 1, 3, 1}), tensor({3, -1, 0}),
          tensor({{0, 2}, {1, 0}, {2, 2}})};
}

}  // namespace

const CallTable& reduce_calls() {  // NOLINT(readability-function-size): a table
  static const CallTable table{{
#include "tests/ops/reduce_values.inc"
                               },
                               operands};
  return table;
}

}  // namespace tandem::testing
