// The calls of public functions that the fixtures of tests/ops/ compare with PyTorch
// (tests/ops/*.inc), to be drawn by random programs.
#ifndef TANDEM_TESTS_SUPPORT_RANDOM_CALLS_H
#define TANDEM_TESTS_SUPPORT_RANDOM_CALLS_H

#include <tandem/tandem.h>

#include <string>
#include <vector>

namespace tandem::testing {

using CallOperands = std::vector<Tensor>;

struct Call {
  const char* kind;  // what its operands are
  const char* text;
  Tensor (*run)(const CallOperands& operands, const Number& n);
};
using Calls = std::vector<Call>;

/// Calls whose operands are of one making.
struct CallTable {
  Calls calls;
  /// One of several choices of operands.
  CallOperands (*operands)(const std::string& kind, uint64_t choice);
};

const CallTable& listed_calls();
const CallTable& pointwise_calls();
const CallTable& reduce_calls();
const CallTable& shape_calls();
const CallTable& linalg_calls();
const CallTable& network_calls();

/// f64, no two elements alike, in [-1.4, 1.5).
Tensor distinct_numbers(const Shape& sizes);
/// Numbers of [low, high), of both signs if `is_signed`.
Tensor numbers_between(const Shape& sizes, double low, double high, bool is_signed);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_RANDOM_CALLS_H
