#include "tests/support/check_compiled.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tandem::testing {
namespace {

/// Everything that one run leaves behind.
struct Outcome {
  Tensors inputs, results, gradients;
  std::vector<uint64_t> versions;
};

void run_backward(Outcome& outcome) {
  std::vector<Tensor> outputs, tangents;
  for (size_t i = 0; i < outcome.results.size(); ++i) {
    const Tensor& r = outcome.results[i];
    if (!r.defined() || !r.requires_grad()) continue;
    outputs.push_back(r);
    tangents.push_back(noise(r.sizes(), 1000 + i, r.dtype()));
  }
  std::vector<Tensor> leaves;
  for (const Tensor& t : outcome.inputs)
    if (t.is_leaf() && t.requires_grad()) leaves.push_back(t);
  if (outputs.empty() || leaves.empty()) return;
  outcome.gradients = grad(outputs, leaves, {.grad_outputs = tangents, .allow_unused = true});
}

template <class Fn>
Outcome run(const Fn& fn, Tensors inputs, bool check_grad) {
  Outcome outcome;
  outcome.inputs = std::move(inputs);
  outcome.results = fn(outcome.inputs);
  for (const Tensor& t : outcome.inputs) outcome.versions.push_back(t.version());
  if (check_grad) run_backward(outcome);
  return outcome;
}

double tolerance_for(const Tensor& t, double f32_tolerance) {
  return t.dtype() == f64             ? std::min(f32_tolerance, 1e-12)
         : ir::is_floating(t.dtype()) ? f32_tolerance
                                      : 0;
}

void expect_same_tensor(const Tensor& expected, const Tensor& actual, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(expected.defined(), actual.defined()) << what;
  if (!expected.defined()) return;
  expect_close(expected.detach(), actual.detach(), tolerance_for(expected, tolerance), what);
  EXPECT_EQ(expected.requires_grad(), actual.requires_grad()) << what << ": requires_grad";
  EXPECT_EQ(expected.is_leaf(), actual.is_leaf()) << what << ": is_leaf";
}

/// Gradients may be laid out otherwise; everything else may not.
void expect_same_layout(const Tensor& expected, const Tensor& actual, const std::string& what) {
  if (!expected.defined() || expected.numel() == 0) return;
  for (int d = 0; d < expected.sizes().rank(); ++d) {
    if (expected.sizes()[d] <= 1) continue;
    EXPECT_EQ(int64_t{expected.strides()[d]}, int64_t{actual.strides()[d]})
        << what << ": stride of dim " << d;
  }
}

/// "is input 2, shares storage with result 0, ...": how result `i` relates to the inputs and
/// earlier results.
std::string relations(const Outcome& o, size_t i) {
  std::string text;
  const auto relate = [&](const Tensor& other, const std::string& name) {
    if (!other.defined() || !o.results[i].defined()) return;
    if (o.results[i].is_same(other)) text += "is " + name + ", ";
    if (o.results[i].shares_storage(other)) text += "shares storage with " + name + ", ";
  };
  for (size_t k = 0; k < o.inputs.size(); ++k) relate(o.inputs[k], fmt::format("input {}", k));
  for (size_t k = 0; k < i; ++k) relate(o.results[k], fmt::format("result {}", k));
  return text;
}

void compare(const Outcome& eager, const Outcome& compiled, const CheckOptions& options) {
  ASSERT_EQ(eager.results.size(), compiled.results.size());
  for (size_t i = 0; i < eager.results.size(); ++i) {
    expect_same_tensor(eager.results[i], compiled.results[i], options.tolerance,
                       fmt::format("result {}", i));
    expect_same_layout(eager.results[i], compiled.results[i], fmt::format("result {}", i));
    EXPECT_EQ(relations(eager, i), relations(compiled, i)) << "result " << i;
  }
  for (size_t i = 0; i < eager.inputs.size(); ++i)
    expect_same_tensor(eager.inputs[i], compiled.inputs[i], options.tolerance,
                       fmt::format("input {}", i));
  EXPECT_EQ(eager.versions, compiled.versions) << "versions of the inputs";
  ASSERT_EQ(eager.gradients.size(), compiled.gradients.size());
  for (size_t i = 0; i < eager.gradients.size(); ++i)
    expect_same_tensor(eager.gradients[i], compiled.gradients[i], options.tolerance,
                       fmt::format("gradient {}", i));
}

}  // namespace

Tensor noise(const Shape& sizes, uint64_t seed, DType dtype) {
  std::vector<double> values(static_cast<size_t>(int64_t{ir::numel(sizes)}));
  uint64_t state = seed * 0x9E3779B97F4A7C15ull + 1;
  for (double& v : values) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    v = static_cast<double>(state >> 11) * 0x1p-52 - 1;
  }
  return from_data(values, sizes).to(dtype);
}

void expect_close(const Tensor& expected, const Tensor& actual, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(expected.dtype(), actual.dtype()) << what;
  ASSERT_EQ(ir::to_string(expected.sizes()), ir::to_string(actual.sizes())) << what;
  const std::vector<double> e = expected.to_vector<double>(), a = actual.to_vector<double>();
  double largest = 0;
  for (double v : e)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < e.size(); ++i) {
    if ((std::isnan(e[i]) && std::isnan(a[i])) || e[i] == a[i]) continue;
    ASSERT_LE(std::abs(e[i] - a[i]), tolerance * largest)
        << what << ": element " << i << ": expected " << e[i] << ", got " << a[i];
  }
}

void check_compiled(const Program& program, const std::function<Tensors()>& make_inputs,
                    const CheckOptions& options) {
  const Outcome eager = run(program, make_inputs(), options.check_grad);
  for (const char* partition : options.partitions) {
    SCOPED_TRACE(partition);
    const auto compiled = compile([&program](const Tensors& inputs) { return program(inputs); },
                                  {.partition = partition});
    compare(eager, run(compiled, make_inputs(), options.check_grad), options);
    compare(eager, run(compiled, make_inputs(), options.check_grad),
            options);  // the second call is served by the cache
  }
}

}  // namespace tandem::testing
