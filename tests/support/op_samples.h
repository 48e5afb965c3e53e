// Operands and attributes for every op, at any length.
#ifndef TANDEM_TESTS_SUPPORT_OP_SAMPLES_H
#define TANDEM_TESTS_SUPPORT_OP_SAMPLES_H

#include <cstdint>
#include <vector>

#include "ir/buffer.h"
#include "ir/graph.h"

namespace tandem::testing {

struct OpSample {
  std::vector<ir::Buffer> operands;
  std::vector<ir::AttrValue> attrs;
};

/// Samples of `op` whose main dimension is `length`, in f32, f64, i64, i32 and bool as far as the
/// op takes them; floating values lie where the op is smooth. None for lengths that it does not
/// take; none at all for ops with subgraphs.
std::vector<OpSample> op_samples(ir::Op op, int64_t length);

/// Overwrites part of the floating operands with NaN, infinities, zeros of both signs and numbers
/// near overflow and near zero.
void add_special_values(OpSample& sample, uint64_t seed);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_OP_SAMPLES_H
