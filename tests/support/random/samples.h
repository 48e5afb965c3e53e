// What random programs draw beside steps of their own: an equation of any row of ops.def
// (op_samples.h), or a call of a public function (calls.h), with operands that suit it.
#ifndef TANDEM_TESTS_SUPPORT_RANDOM_SAMPLES_H
#define TANDEM_TESTS_SUPPORT_RANDOM_SAMPLES_H

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/buffer.h"
#include "ir/graph.h"

namespace tandem::testing {

struct Sample {
  std::string name;  // of the row, with "_" of its writing form; or the call as it is written
  std::vector<ir::Buffer> operands;
  std::vector<bool> is_fixed;  // by operand: no other numbers nor layouts do
  /// Any other layout of the operands does as well; so do repeated elements.
  bool takes_layouts = true, takes_repetitions = false;
  /// A Traced graph from operands, and an rng if it draws, to results, floating ones in this dtype.
  /// Throws Error for what cannot be traced.
  std::function<ir::Graph(ir::DType floating, std::span<const ir::Strides> layouts)> body;
};

/// The rows that are drawn: all that have samples, but draws of floats, whose bits depend on the
/// dtype: they have steps of their own.
std::vector<ir::Op> sampled_rows();
/// Equations of `op`, those that write among them.
std::optional<Sample> row_sample(ir::Op op, uint64_t seed, ir::DType floating);

size_t call_count();
std::string call_text(size_t call);
std::optional<Sample> call_sample(size_t call, uint64_t seed, ir::DType floating);

/// One of all, rows and calls alike often; none if what was drawn does not suit the dtype.
std::optional<Sample> random_sample(uint64_t seed, ir::DType floating);

/// A power of two that is larger than each of the results, by the sample's own operands; none if
/// they are not finite, cannot be computed, or are drawn otherwise in f64. The same whatever dtype
/// is asked for later.
std::optional<std::vector<double>> bounds_of(const Sample& sample, ir::DType floating);

/// Whether the last input of `body` is an rng.
bool draws(const ir::Graph& body);

/// Whether some operand of an equation of `body` has no derivative, which is an Error.
bool refuses_gradients(const ir::Graph& body);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_RANDOM_SAMPLES_H
