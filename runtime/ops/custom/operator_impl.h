// A registered operator: its definition with the schema sorted out, and checked runs of the user's
// code.
#ifndef TANDEM_RUNTIME_OPS_CUSTOM_OPERATOR_IMPL_H
#define TANDEM_RUNTIME_OPS_CUSTOM_OPERATOR_IMPL_H

#include <tandem/custom_op.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/interfaces/custom_operator.h"
#include "runtime/ops/custom/operator_schema.h"

namespace tandem::runtime {

/// A definition with its schema sorted out.
struct OperatorImpl final : ir::CustomOperator {
  explicit OperatorImpl(OperatorDefinition given);

  const std::string& name() const { return schema.name; }
  bool is_ordered() const override { return definition.ordered; }
  bool gives_nothing() const { return written.empty() && new_results == 0; }
  ir::Op op() const { return is_ordered() ? ir::Op::ordered_operator : ir::Op::custom_operator; }
  std::vector<ir::Type> result_types(std::span<const ir::Type> operands,
                                     std::string_view arguments) const override;
  void run(std::span<const ir::BufferView> operands, std::string_view arguments,
           std::span<const ir::BufferView> results) const override;

  /// Runs the user's code on `tensors` and checks what it did; the results that it gave.
  std::vector<Tensor> run_checked(const std::vector<Tensor>& tensors,
                                  const std::vector<Number>& numbers) const;
  std::vector<TensorType> new_types(const std::vector<TensorType>& tensors,
                                    const std::vector<Number>& numbers) const;
  /// The schema's results: aliases of arguments, and the new ones in between.
  std::vector<Tensor> arrange(const std::vector<Tensor>& tensors,
                              std::vector<Tensor> new_results) const;
  bool saves(const std::string& argument) const {
    return std::ranges::count(definition.saves, argument) != 0;
  }

  OperatorDefinition definition;
  OperatorSchema schema;
  std::vector<OperatorSchema::Argument> tensors, numbers;  // arguments by kind
  std::vector<size_t> written;                             // among the tensors
  std::vector<int> aliased;  // by result: the tensor argument, or -1 for a new one
  size_t new_results = 0;

 private:
  void check_definition() const;
  std::vector<Tensor> lent(const std::vector<Tensor>& tensors) const;
  void check_new(const std::vector<Tensor>& results, const std::vector<Tensor>& arguments,
                 const std::vector<Number>& given) const;
};

/// Error{code} that names the operator.
[[noreturn]] void refuse(const OperatorImpl& op, Errc code, const std::string& problem);
/// The numbers of a call, as the attribute `arguments` has them.
std::string spelled(const std::vector<Number>& numbers);
/// The names that may be saved, in order: arguments, then results as the gradient sees them.
std::vector<std::string> savable(const OperatorImpl& op);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_OPS_CUSTOM_OPERATOR_IMPL_H
