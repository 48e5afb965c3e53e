// A cost model with fixed, round prices, so that tests do not depend on the machine.
#ifndef TANDEM_TESTS_UNIT_PARTITION_FIXED_COSTS_H
#define TANDEM_TESTS_UNIT_PARTITION_FIXED_COSTS_H

#include <vector>

#include "ir/interfaces/cost.h"
#include "ir/op.h"

namespace tandem::partition_testing {

/// Per element: 0.02 ns for +, -, *; 0.3 ns for other pointwise ops; a byte to or from memory is
/// 0.05 ns; a contraction runs at 100 Gflop/s. Contractions fuse with nothing.
class FixedCosts final : public ir::CostModel {
 public:
  double seconds(const ir::Graph& g, std::span<const ir::EquationId> equations) const override {
    double sum = 0;
    for (ir::EquationId e : equations) sum += compute_seconds(g, e);
    return sum;
  }

  double compute_seconds(const ir::Graph& g, ir::EquationId e) const override {
    const auto n = static_cast<double>(int64_t{ir::numel(g.type(g.result(e)).sizes)});
    switch (ir::info(g.op(e)).cls) {
      case ir::OpClass::View:
      case ir::OpClass::Factory:
        return 0;
      case ir::OpClass::Contraction: {
        const ir::Shape& a = g.type(g.operands(e)[g.operands(e).size() - 2]).sizes;
        return 2 * n * static_cast<double>(int64_t{a.back()}) / 100e9;
      }
      case ir::OpClass::Reduction:
        return 0.02e-9 * static_cast<double>(int64_t{ir::numel(g.type(g.operand(e, 0)).sizes)});
      default:
        return (is_cheap(g.op(e)) ? 0.02e-9 : 0.3e-9) * n;
    }
  }

  double transfer_seconds(double bytes, double /*reach*/) const override { return 0.05e-9 * bytes; }

  bool may_fuse(const ir::Graph& g, ir::EquationId producer,
                ir::EquationId consumer) const override {
    const auto is_contraction = [&](ir::EquationId e) {
      return ir::info(g.op(e)).cls == ir::OpClass::Contraction;
    };
    return !is_contraction(producer) && !is_contraction(consumer);
  }

  /// All arithmetic, and what crosses a boundary between kernels or the graph's edge.
  double run_seconds(const ir::Graph& half) const override {
    double sum = 0, bytes = 0;
    ir::ValueMap<bool> in_memory(half);
    for (size_t i = 0; i < half.num_equations(); ++i) {
      const ir::EquationId e = half.equation_id(i);
      sum += compute_seconds(half, e);
      for (ir::ValueId v : half.operands(e))
        if (half.producer(v).valid() && !may_fuse(half, half.producer(v), e)) in_memory[v] = true;
    }
    const auto size = [&](ir::ValueId v) {
      return static_cast<double>(int64_t{ir::size_in_bytes(half.type(v))});
    };
    for (const ir::Input& input : half.inputs()) bytes += size(input.value);
    for (const ir::Output& output : half.outputs()) bytes += size(output.value);
    for (uint32_t i = 0; i < half.num_values(); ++i)
      if (in_memory[ir::ValueId{i}]) bytes += 2 * size({i});
    return sum + transfer_seconds(bytes, bytes);
  }

  /// The most bytes that live at once, if every equation's results have memory of their own.
  int64_t arena_bytes(const ir::Graph& half) const override {
    std::vector<size_t> last(half.num_values(), 0);
    for (size_t i = 0; i < half.num_equations(); ++i)
      for (ir::ValueId v : half.operands(half.equation_id(i))) last[v.index] = i;
    for (const ir::Output& o : half.outputs()) last[o.value.index] = half.num_equations();
    std::vector<int64_t> dying(half.num_equations() + 1);
    int64_t live = 0, most = 0;
    for (size_t i = 0; i < half.num_equations(); ++i) {
      for (ir::ValueId v : half.results(half.equation_id(i))) {
        if (half.type(v).is_token || last[v.index] == half.num_equations()) continue;
        live += int64_t{ir::size_in_bytes(half.type(v))};
        dying[last[v.index]] += int64_t{ir::size_in_bytes(half.type(v))};
      }
      most = std::max(most, live);
      live -= dying[i];
    }
    return most;
  }

 private:
  static bool is_cheap(ir::Op op) {
    return op == ir::Op::add || op == ir::Op::sub || op == ir::Op::mul || op == ir::Op::fma ||
           op == ir::Op::neg || op == ir::Op::clone;
  }
};

}  // namespace tandem::partition_testing

#endif  // TANDEM_TESTS_UNIT_PARTITION_FIXED_COSTS_H
