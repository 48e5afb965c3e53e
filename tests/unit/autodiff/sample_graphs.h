// The samples as graphs of one equation.
#ifndef TANDEM_TESTS_UNIT_AUTODIFF_SAMPLE_GRAPHS_H
#define TANDEM_TESTS_UNIT_AUTODIFF_SAMPLE_GRAPHS_H

#include "autodiff/vjp.h"
#include "tests/support/gradcheck.h"
#include "tests/unit/autodiff/samples.h"

namespace tandem::test {

inline bool has_derivative(const Sample& sample, size_t operand) {
  return ir::is_floating(sample.operands[operand].dtype()) &&
         !autodiff::vjp_rule(sample.op).refuses(operand);
}

/// One equation, differentiable in every operand of `moving` that it has a derivative by.
/// `coherent`: after what makes gradients derivatives.
inline ir::Graph graph_of(const Sample& sample, bool coherent = false, unsigned moving = ~0u) {
  Program p(ir::Level::Functional, std::string(ir::name(sample.op)));
  std::vector<ir::ValueId> operands;
  for (size_t i = 0; i < sample.operands.size(); ++i)
    operands.push_back(p.input("x" + std::to_string(i), sample.operands[i].type(),
                               has_derivative(sample, i) && (moving >> i & 1) != 0));
  if (coherent) operands = as_differentiated(p.b, sample.op, operands, sample.attrs);
  for (ir::ValueId result : p.b.emit_all(sample.op, operands, sample.attrs))
    p.output(result, ir::is_floating(p.graph.type(result).dtype));
  return p.graph;
}

}  // namespace tandem::test

#endif  // TANDEM_TESTS_UNIT_AUTODIFF_SAMPLE_GRAPHS_H
