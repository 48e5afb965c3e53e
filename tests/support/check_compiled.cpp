#include "tests/support/check_compiled.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tandem::testing {
namespace {

/// `function`, then what the caller does with its results.
Program followed_by(const Program& function, const Afterwards& afterwards) {
  if (!afterwards) return function;
  return [=](const Tensors& inputs) {
    Tensors results = function(inputs);
    const EnableGrad grad_mode;
    const Tensors more = afterwards(inputs, results);
    results.insert(results.end(), more.begin(), more.end());
    return results;
  };
}

void expect_same(const Program& eager, const Program& compiled, const MakeInputs& make_inputs,
                 const RunOptions& how, const CheckOptions& options) {
  const Outcome expected = run(followed_by(eager, options.afterwards), make_inputs, how);
  const Outcome actual = run(followed_by(compiled, options.afterwards), make_inputs, how);
  EXPECT_EQ(difference(expected, actual, options.tolerance), "");
  // What came before that which failed may have written.
  if (!expected.forward_error || how.calls > 1 || options.afterwards) return;
  EXPECT_EQ(untouched(actual, make_inputs, how), "") << "after the error";
}

void check_setting(const Program& function, const MakeInputs& make_inputs, RunOptions how,
                   const CheckOptions& options) {
  for (const char* partition : options.partitions) {
    SCOPED_TRACE(partition);
    CompileOptions compile_options;
    compile_options.partition = partition;
    compile_options.backend = options.backend;
    const auto compiled =
        compile([&function](const Tensors& inputs) { return function(inputs); }, compile_options);
    for (const int calls : {1, 1, 2}) {  // the second is served by the cache
      SCOPED_TRACE(fmt::format("calls: {}", calls));
      how.calls = calls;
      expect_same(function, compiled, make_inputs, how, options);
    }
  }
}

const char* name(Setting setting) {
  switch (setting) {
    case Setting::Plain:
      return "plain";
    case Setting::Leaf:
      return "leaf";
    case Setting::NonLeaf:
      return "non-leaf";
  }
  return "";
}

}  // namespace

Tensor noise(const Shape& sizes, uint64_t seed, DType dtype) {
  return Source(Setting::Plain).noise(sizes, seed, dtype);
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

void check_compiled(const Program& function, const MakeInputs& make_inputs,
                    const CheckOptions& options) {
  for (const CallSetting& setting : options.settings) {
    SCOPED_TRACE(fmt::format("{} inputs, {} mode", name(setting.inputs),
                             setting.grad_mode ? "grad" : "no_grad"));
    check_setting(
        function, make_inputs,
        {.setting = setting.inputs, .grad_mode = setting.grad_mode, .backward = options.check_grad},
        options);
  }
}

void check_compiled(const Program& function, const std::function<Tensors()>& make_inputs,
                    const CheckOptions& options) {
  const MakeInputs as_given = [&](Source& source) {
    const Tensors inputs = make_inputs();
    for (const Tensor& t : inputs)
      if (t.is_leaf() && t.requires_grad()) source.add_leaf(t);
    return inputs;
  };
  check_setting(function, as_given, {.backward = options.check_grad}, options);
}

}  // namespace tandem::testing
