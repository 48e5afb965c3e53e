// Operators of the user's own: C++ code that eager, traced and compiled programs call like any
// other operation.
#ifndef TANDEM_CUSTOM_OP_H
#define TANDEM_CUSTOM_OP_H

#include <tandem/tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace tandem {

struct TensorType {
  DType dtype = DType::F32;
  Shape sizes;
};

/// What a gradient formula sees. Tensors are in the schema's order.
struct OperatorGradient {
  std::vector<Tensor> arguments;  // before the call; undefined unless in `saves`
  std::vector<Tensor> results;    // the written arguments' new contents, then the new ones; same
  std::vector<Tensor> grads;      // of `results`; maybe undefined
  std::vector<Number> numbers;
};

/// An operator: what it does to its arguments (the schema), how it runs, and what it returns.
///   const Operator axpy = register_operator({
///       .schema = "mine::axpy_(Tensor(a!) y, Tensor x, float alpha) -> Tensor(a!)",
///       .run = [](const std::vector<Tensor>& t, const std::vector<Number>& n) { ...; return
///           std::vector<Tensor>(); }});
///   axpy({y, x}, {0.5});
struct OperatorDefinition {
  /// name(argument, ...) -> result, or (result, ...), or (). An argument is `Tensor x`, `float f`,
  /// `int i` or `bool b`; `Tensor(a!) x` is written. A result is `Tensor`, maybe with a name (else
  /// it is called result0, ...); `Tensor(a)` or `Tensor(a!)` is argument `a` itself or, by `view`,
  /// a view of it.
  std::string schema;
  /// Runs on real tensors, which may have any strides: writes the arguments that the schema says it
  /// writes, no others, and gives the results that are no arguments, in memory of their own. What
  /// it gives is a function of its arguments; called by any number of threads, also on copies.
  std::function<std::vector<Tensor>(const std::vector<Tensor>& tensors,
                                    const std::vector<Number>& numbers)>
      run;
  /// Types of the results that `run` gives; may be left out if there are none.
  std::function<std::vector<TensorType>(const std::vector<TensorType>& tensors,
                                        const std::vector<Number>& numbers)>
      shape = {};
  /// Result number `result` (of the schema) as a view of the argument it aliases, by view
  /// operations; left out: the argument itself.
  std::function<Tensor(size_t result, const Tensor& argument)> view = {};
  /// One gradient (maybe undefined) for each tensor argument, by tandem's operations; left out: the
  /// operator is not differentiable.
  std::function<std::vector<Tensor>(const OperatorGradient& call)> gradient = {};
  /// What `gradient` reads: names of arguments (as they were before the call), `x!` for the new
  /// contents of a written x, names of new results.
  std::vector<std::string> saves = {};
  /// Does something else too (prints, counts, sends): every call happens once and in the program's
  /// order among those of ordered operators, whether or not its results are read; it is never
  /// merged with another or computed again. Such an operator may have no results. In a compiled
  /// function those that gradients call run in the order of the backward sweep, if a gradient
  /// arrives at one of their arguments.
  bool ordered = false;
};

namespace runtime {
struct OperatorImpl;
}

/// A handle to a registered operator.
class TANDEM_API Operator {
 public:
  explicit Operator(std::shared_ptr<const runtime::OperatorImpl> impl) : impl_(std::move(impl)) {}
  /// The results in the schema's order. Wrong declarations are Errors: a result of another type
  /// than `shape` says or in memory of an argument, always; a write that the schema does not
  /// declare, in dev builds and with TANDEM_VERIFY=1.
  std::vector<Tensor> operator()(const std::vector<Tensor>& tensors,
                                 const std::vector<Number>& numbers = {},
                                 SourceLocation at = SourceLocation::current()) const;

 private:
  std::shared_ptr<const runtime::OperatorImpl> impl_;
};

/// Makes an operator known to the process, for good: graphs name it in text and JSON. Error{Parse}
/// for a malformed schema, Error{Argument} for a name that is taken.
TANDEM_API Operator register_operator(OperatorDefinition definition);

}  // namespace tandem

#endif  // TANDEM_CUSTOM_OP_H
