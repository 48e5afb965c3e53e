// Dispatch: the one way by which an op on tensors happens. The public functions call a Builder over
// EagerSink; the sink calls dispatch for each equation, which records it (inside a trace) or runs
// it (outside), and puts it on the autograd tape.
#ifndef TANDEM_RUNTIME_OPS_DISPATCH_H
#define TANDEM_RUNTIME_OPS_DISPATCH_H

#include <tandem/tensor.h>

#include <source_location>
#include <span>
#include <vector>

#include "ir/base/inline_vector.h"
#include "ir/build/builder.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {

/// Runs or records one equation on promoted, broadcast operands. `types`: of its results. In place:
/// operand 0, of the one type, is written and returned. Steps: check that no operand is dead or of
/// another trace; result geometry; record into the current trace or run the eager kernel
/// (composites: their decomposition, without grad mode); then, in grad mode and if an operand
/// requires grad, the tape. What carries a tangent, or stands for many examples, takes the way of
/// runtime/levels/.
TensorList dispatch(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs, bool in_place,
                    std::span<const ir::Type> types);

/// The same without the tape and outside traces: what dispatch does when it runs.
TensorList run_eager(ir::Op op, std::span<const Tensor> operands,
                     std::span<const ir::AttrValue> attrs, bool in_place,
                     std::span<const ir::Type> types);

/// While it lives nobody asks for other results of `op` than this one: they are left out (their
/// tensors hold anything) where it runs at once, its kernel can do so, and neither the tape nor a
/// level looks at results.
class OnlyResult {
 public:
  OnlyResult(ir::Op op, size_t result);
  ~OnlyResult();
  OnlyResult(const OnlyResult&) = delete;
  OnlyResult& operator=(const OnlyResult&) = delete;
};

/// The strides of the result of an op that is no view, with these sizes.
Strides result_strides(ir::Op op, std::span<const Tensor> operands, const Shape& sizes);

/// The user's source line for equations that are dispatched while it lives (the outermost one
/// counts).
class LocationScope {
 public:
  explicit LocationScope(const std::source_location& location);
  ~LocationScope();
  LocationScope(const LocationScope&) = delete;
  LocationScope& operator=(const LocationScope&) = delete;

 private:
  bool outermost_;
};
const std::source_location& current_location();

bool grad_enabled();
/// Sets grad mode of this thread; returns the old one. (Public RAII: tandem::NoGrad,
/// tandem::EnableGrad.)
bool set_grad_enabled(bool enabled);

/// Below the tape while it lives: operations run at once, leave no history and make views without a
/// memory of their base. For the inside of kernels.
class BelowTape {
 public:
  BelowTape();
  ~BelowTape();
  BelowTape(const BelowTape&) = delete;
  BelowTape& operator=(const BelowTape&) = delete;
  static bool active();

 private:
  bool previous_;
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_OPS_DISPATCH_H
