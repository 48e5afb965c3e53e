// Gradients of a joint graph against central differences of the functional graph, both run by the
// f64 interpreter. Needs ir/ only.
#ifndef TANDEM_TESTS_SUPPORT_GRADCHECK_H
#define TANDEM_TESTS_SUPPORT_GRADCHECK_H

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "ir/interpreter/interpret.h"
#include "tests/support/program.h"

namespace tandem::test {

/// Whether the op's gradient is its derivative; by design it is not where a write was hidden from
/// autograd (filetests/joint/kept_history.ir).
inline bool has_true_gradient(ir::Op op) {
  return op != ir::Op::keep_history && op != ir::Op::keep_backward;
}

/// Whether operand 0 is a symmetric matrix of which the op reads one triangle.
inline bool reads_one_triangle(ir::Op op, std::span<const ir::AttrValue> attrs) {
  return op == ir::Op::cholesky || op == ir::Op::eigh ||
         ((op == ir::Op::pinv || op == ir::Op::truncated_pinv) && std::get<bool>(attrs[0]));
}

/// Operands of which gradients are derivatives. ATen's are: by a matrix that stays symmetric,
/// though one triangle is read, and by a matrix that its factors follow.
inline std::vector<ir::ValueId> as_differentiated(ir::Builder& b, ir::Op op,
                                                  std::vector<ir::ValueId> operands,
                                                  std::span<const ir::AttrValue> attrs) {
  if (reads_one_triangle(op, attrs))
    operands[0] = b.mul(b.add(operands[0], b.transpose(operands[0], -2, -1)), 0.5);
  if (op == ir::Op::lu_solve) {
    const ir::ValueList factored = b.emit_all(ir::Op::lu_factor, {operands.data(), 1}, {true});
    operands[1] = factored[0], operands[2] = factored[1];
  }
  return operands;
}

inline std::vector<ir::Buffer> run_in_f64(const ir::Graph& graph, std::vector<ir::Buffer> inputs) {
  ir::InterpretOptions options;
  options.in_f64 = true;
  return ir::interpret(graph, inputs, options);
}

/// One random tangent per Tangent input of `joint`.
inline std::vector<ir::Buffer> random_tangents(const ir::Graph& joint) {
  std::vector<ir::Buffer> tangents;
  Numbers numbers(99);
  for (const ir::Input& input : joint.inputs()) {
    if (input.role != ir::Role::Tangent) continue;
    tangents.emplace_back(joint.type(input.value));
    for (int64_t i = 0; i < tangents.back().numel(); ++i)
      tangents.back().set(i, numbers.uniform(-1, 1));
  }
  return tangents;
}

/// sum over the tangents of tangent * output.
inline double weighted_outputs(const ir::Graph& functional, const ir::Graph& joint,
                               const std::vector<ir::Buffer>& inputs,
                               const std::vector<ir::Buffer>& tangents) {
  const std::vector<ir::Buffer> outputs = run_in_f64(functional, inputs);
  double sum = 0;
  size_t next = 0;
  for (const ir::Input& input : joint.inputs()) {
    if (input.role != ir::Role::Tangent) continue;
    const ir::Buffer &w = tangents[next++], &y = outputs[static_cast<size_t>(input.target)];
    for (int64_t i = 0; i < w.numel(); ++i)
      if (std::isfinite(y.at(i).to_double())) sum += w.at(i).to_double() * y.at(i).to_double();
  }
  return sum;
}

/// "" if joint's gradients agree with differences of `functional`, else what differs.
inline std::string compare_gradients(const ir::Graph& functional, const ir::Graph& joint,
                                     const std::vector<ir::Buffer>& inputs,
                                     double tolerance = 1e-6) {
  constexpr double kStep = 1e-6;
  const std::vector<ir::Buffer> tangents = random_tangents(joint);
  std::vector<ir::Buffer> all = inputs;
  all.insert(all.end(), tangents.begin(), tangents.end());
  const std::vector<ir::Buffer> outputs = run_in_f64(joint, all);
  std::vector<bool> has_gradient(inputs.size());
  const auto slope = [&](size_t input, int64_t i) {
    std::vector<ir::Buffer> moved = inputs;
    const double x = inputs[input].at(i).to_double();
    if (!std::isfinite(x)) return 0.0;
    moved[input].set(i, x + kStep);
    const double above = weighted_outputs(functional, joint, moved, tangents);
    moved[input].set(i, x - kStep);
    return (above - weighted_outputs(functional, joint, moved, tangents)) / (2 * kStep);
  };
  bool has_nan_output = false;
  for (size_t k = 0; k < joint.outputs().size(); ++k)
    for (int64_t i = 0; joint.outputs()[k].role != ir::Role::Gradient && i < outputs[k].numel();
         ++i)
      has_nan_output |= std::isnan(outputs[k].at(i).to_double());
  const auto check = [&](size_t input, int64_t i, double got) {
    const double expected = slope(input, i);
    // Where the function itself is NaN (the variance of one element), so is its gradient.
    const bool undefined = std::isnan(got) && has_nan_output;
    const bool close =
        undefined || std::abs(got - expected) <= tolerance * (1 + std::abs(expected));
    return close ? std::string()
                 : fmt::format("input {} element {}: gradient {}, difference {}\n", input, i, got,
                               expected);
  };
  std::string problems;
  for (size_t k = 0; k < joint.outputs().size(); ++k) {
    if (joint.outputs()[k].role != ir::Role::Gradient) continue;
    const size_t input = static_cast<size_t>(joint.outputs()[k].target);
    has_gradient[input] = true;
    for (int64_t i = 0; i < outputs[k].numel(); ++i)
      problems += check(input, i, outputs[k].at(i).to_double());
  }
  for (size_t input = 0; input < inputs.size(); ++input)  // a symbolic zero must be zero
    for (int64_t i = 0; i < inputs[input].numel(); ++i)
      if (functional.inputs()[input].requires_grad && !has_gradient[input])
        problems += check(input, i, 0);
  return problems;
}

/// The backward of `joint` as a function of its own: (primals, tangents) -> gradients, to be
/// differentiated again.
inline ir::Graph as_functional(ir::Graph joint) {
  joint.level = ir::Level::Functional;
  joint.epilogue = {};
  for (ir::Input& input : joint.inputs()) {
    input.requires_grad |= input.role == ir::Role::Tangent;
    if (input.role == ir::Role::Tangent) input.role = ir::Role::Primal;
    input.target = -1;
  }
  std::erase_if(joint.outputs(), [](const ir::Output& o) { return o.role != ir::Role::Gradient; });
  for (ir::Output& output : joint.outputs()) {
    output.role = ir::Role::Result;
    output.requires_grad = true;
    output.target = -1;
  }
  for (size_t i = 0; i < joint.num_equations(); ++i)
    joint.equation(joint.equation_id(i)).is_backward = false;
  return joint;
}

}  // namespace tandem::test

#endif  // TANDEM_TESTS_SUPPORT_GRADCHECK_H
