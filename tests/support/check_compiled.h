// check_compiled: runs a function eagerly and compiled on equal inputs and compares everything a
// caller can see.
#ifndef TANDEM_TESTS_SUPPORT_CHECK_COMPILED_H
#define TANDEM_TESTS_SUPPORT_CHECK_COMPILED_H

#include <memory>

#include "tests/support/outcome.h"

namespace tandem::testing {

/// How inputs take part in autograd, and the grad mode of the call.
struct CallSetting {
  Setting inputs;
  bool grad_mode;
};
inline const std::vector<CallSetting> kAllSettings{{Setting::Plain, true},
                                                   {Setting::Leaf, true},
                                                   {Setting::NonLeaf, true},
                                                   {Setting::Leaf, false},
                                                   {Setting::NonLeaf, false}};
inline const std::vector<CallSetting> kLeavesInGradMode{{Setting::Leaf, true}};

/// What a caller does, in grad mode, with the inputs and results of a call; more results.
using Afterwards = std::function<Tensors(const Tensors& inputs, const Tensors& results)>;

struct CheckOptions {
  std::vector<const char*> partitions = {"default"};
  bool check_grad = true;   // backward with small tangents through every result that requires grad
  double tolerance = 1e-5;  // of f32 results, relative to the largest magnitude; f64: 1e-12
  std::vector<CallSetting> settings = kAllSettings;
  std::shared_ptr<const ir::Backend> backend;  // null: the JIT
  Afterwards afterwards = nullptr;             // in eager mode, after each call
};

/// Fails the running GoogleTest if the compiled function differs from the eager one, in any of the
/// settings, in: results, gradients, final contents, sizes, strides and offsets of the inputs,
/// identity and shared memory of results and inputs, requires_grad, is_leaf, versions, grad slots.
/// Called once, again (which the cache serves), and twice in a row on the same inputs. Where eager
/// throws an Error the compiled function must throw one of the same kind and leave the inputs
/// untouched.
void check_compiled(const Program& function, const MakeInputs& make_inputs,
                    const CheckOptions& options = {});

/// The same in the one setting that the inputs come in. `make_inputs` is called anew for each run
/// and must give equal inputs every time.
void check_compiled(const Program& function, const std::function<Tensors()>& make_inputs,
                    const CheckOptions& options = {});

/// Values in [-1, 1) that depend on `seed` alone.
Tensor noise(const Shape& sizes, uint64_t seed, DType dtype = f32);

/// Fails if the tensors' types or values differ by more than `tolerance` of the largest magnitude;
/// NaN equals NaN.
void expect_close(const Tensor& expected, const Tensor& actual, double tolerance,
                  const std::string& what);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_SUPPORT_CHECK_COMPILED_H
