#include <cmath>
#include <map>

#include "ir/dim.h"
#include "tests/support/random/calls.h"

namespace tandem::testing {
namespace {

Tensor spd(const Tensor& x) { return x.matmul(x.mT()) + eye(x.size(-2), {}, x.dtype()); }
Tensor sym(const Tensor& x) { return x + x.mT(); }

#define CALL(kind, ...)                                                                   \
  {kind, #__VA_ARGS__, [](const CallOperands& o, const Number&) -> Tensor {               \
     [[maybe_unused]] const Tensor &x = o[0], &u = o[1], &v = o[2], &y = o[3], &z = o[4], \
                                   &k = o[5];                                             \
     return __VA_ARGS__;                                                                  \
   }},
#define NUMBER(...) CALL("NUMBER", __VA_ARGS__)
#define LINE(...) CALL("LINE", __VA_ARGS__)
#define MATRIX(...) CALL("MATRIX", __VA_ARGS__)
#define CUBE(...) CALL("CUBE", __VA_ARGS__)
#define SQUARE(...) CALL("SQUARE", __VA_ARGS__)
#define BATCH(...) CALL("BATCH", __VA_ARGS__)
#define TALL(...) CALL("TALL", __VA_ARGS__)
#define WIDE(...) CALL("WIDE", __VA_ARGS__)
#define EMPTY(...) CALL("EMPTY", __VA_ARGS__)
#define NONE(...) CALL("NONE", __VA_ARGS__)
#define ZERO(...) CALL("ZERO", __VA_ARGS__)
#define INTS(...) CALL("INTS", __VA_ARGS__)
#define SINGLES(...) CALL("SINGLES", __VA_ARGS__)
#define HALVES(...) CALL("HALVES", __VA_ARGS__)

Tensor made(const std::string& kind) {
  static const std::map<std::string, Shape> sizes = {
      {"NUMBER", {}},     {"LINE", {4}},        {"MATRIX", {3, 4}}, {"CUBE", {2, 3, 4}},
      {"SQUARE", {3, 3}}, {"BATCH", {2, 3, 3}}, {"TALL", {4, 2}},   {"WIDE", {2, 2, 4}},
      {"EMPTY", {0, 3}},  {"NONE", {2, 0, 0}},  {"ZERO", {0, 3, 3}}};
  static const std::map<std::string, DType> whole = {
      {"INTS", i64}, {"SINGLES", f64}, {"HALVES", f64}};
  if (const auto dtype = whole.find(kind); dtype != whole.end())
    return tensor({3, 0, 3, 1, 0, 2, 1, 2, 3, 1, 3, 0}).view({3, 4}).to(dtype->second);
  const Tensor x = distinct_numbers(sizes.at(kind));
  return kind == "SQUARE" || kind == "BATCH" ? x + eye(3, {}, f64) * 2 : x;
}

CallOperands operands(const std::string& kind, uint64_t) {
  return {made(kind),
          tensor({1, -2, 0.5}, f64),
          tensor({1.5, -0.5, 2, 1}, f64),
          distinct_numbers({4, 2}),
          distinct_numbers({2, 4, 3}),
          arange(1, 9).view({4, 2})};
}

}  // namespace

const CallTable& linalg_calls() {  // NOLINT(readability-function-size): a table
  static const CallTable table{{
#include "tests/ops/linalg_values.inc"
                               },
                               operands};
  return table;
}

}  // namespace tandem::testing
