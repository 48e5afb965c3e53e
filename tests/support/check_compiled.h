// check_compiled: runs a function eagerly and compiled on equal inputs and compares everything a
// caller can see.
#ifndef TANDEM_TESTS_SUPPORT_CHECK_COMPILED_H
#define TANDEM_TESTS_SUPPORT_CHECK_COMPILED_H

#include <tandem/tandem.h>

#include <functional>
#include <vector>

namespace tandem::testing {

using Tensors = std::vector<Tensor>;
using Program = std::function<Tensors(const Tensors&)>;

struct CheckOptions {
  std::vector<const char*> partitions = {"default"};
  bool check_grad = true;   // backward with random tangents through every result that requires grad
  double tolerance = 1e-5;  // of f32 results, relative to the largest magnitude; f64: 1e-12
};

/// Fails the running GoogleTest if the compiled function differs from the eager one in: results,
/// gradients of the inputs, final contents of the inputs, which results are inputs or share storage
/// with them, requires_grad, is_leaf, versions. `make_inputs` is called anew for each run and must
/// give equal inputs every time.
void check_compiled(const Program& program, const std::function<Tensors()>& make_inputs,
                    const CheckOptions& options = {});

/// Values in [-1, 1) that depend on `seed` alone.
Tensor noise(const Shape& sizes, uint64_t seed, DType dtype = f32);

/// Fails if the tensors' types or values differ by more than `tolerance` of the largest magnitude;
/// NaN equals NaN.
void expect_close(const Tensor& expected, const Tensor& actual, double tolerance,
                  const std::string& what);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_CHECK_COMPILED_H
