// Guards: what must hold for a compiled variant to serve a call. A miss says which guard failed,
// with expected and actual.
#ifndef TANDEM_RUNTIME_COMPILE_GUARDS_H
#define TANDEM_RUNTIME_COMPILE_GUARDS_H

#include <tandem/compile.h>
#include <tandem/matmul_precision.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/ops/autocast.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {

/// What one tensor must look like.
struct TensorGuard {
  std::string name;  // of the graph input, for messages
  DType dtype = DType::F32;
  Shape sizes;
  Strides strides;  // only those of dims larger than 1 count
  bool requires_grad = false;
  bool receives_gradient = false;
  bool is_weak = false;
  std::optional<bool> is_leaf;         // where the function asks
  std::optional<Dim> storage_offset;   // where the function asks
  std::shared_ptr<TensorImpl> object;  // where the function reaches it by itself
  int same_as = -1;                    // the earlier tensor that is the same object
  int shares_storage = -1;             // the first earlier tensor over the same storage
  int shares_history = -1;             // the first earlier tensor that is a view of the same tensor
  Dim offset = 0;  // from the first tensor's first element (offset_between); 0 if none
};

/// What some tokens of a call's arguments stand for.
struct GuardName {
  std::string name;                          // "x.eps", "size of x.layers"
  size_t tokens = 1;                         // a string's are several
  std::string (*spell)(uint64_t) = nullptr;  // the number that a token is; null: it is none
};

struct Guards {
  std::vector<uint64_t> tokens;      // numbers, strings, container sizes of the arguments
  std::vector<GuardName> names;      // of the tokens, in order
  std::vector<TensorGuard> tensors;  // the arguments' tensors, then the captured ones
  bool grad_mode = true;
  AutocastState autocast;
  MatmulPrecision matmul_precision = MatmulPrecision::Highest;
  bool check_aliasing = true;  // the compiled code depends on which tensors share storage
};

/// The guards that these tensors (arguments, then captures) satisfy.
Guards make_guards(std::span<const uint64_t> tokens, std::span<const Tensor* const> tensors,
                   std::span<const std::string> names);

/// A hash of what arguments look like: of the tokens, and of the dtypes and sizes of the tensors.
/// Who serves a call serves only calls that look the same.
uint64_t look_of(std::span<const uint64_t> tokens, std::span<const Tensor* const> tensors);

/// True if the call satisfies the guards.
bool matches(const Guards& guards, std::span<const uint64_t> tokens,
             std::span<const Tensor* const> tensors);

/// True if these tensors share memory as those did that the guards were made from.
bool shares_as_guarded(const Guards& guards, std::span<const Tensor* const> tensors);

/// Which number, string or container size differs; empty if none does.
std::string explain_tokens(const Guards& guards, std::span<const uint64_t> tokens);

/// The first guard that fails, e.g. "x.b: expected sizes [5, 3], got [7, 3]"; empty if none does.
std::string explain_miss(const Guards& guards, std::span<const uint64_t> tokens,
                         std::span<const Tensor* const> tensors);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_COMPILE_GUARDS_H
