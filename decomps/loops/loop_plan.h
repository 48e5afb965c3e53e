// What a scan need not do step by step: found in its body, before anything is rewritten.
#ifndef TANDEM_DECOMPS_LOOPS_LOOP_PLAN_H
#define TANDEM_DECOMPS_LOOPS_LOOP_PLAN_H

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace tandem::decomps {

/// The equation of a scan, with its body.
struct Scan {
  Scan(const ir::Graph& graph, ir::EquationId e);

  size_t ys() const { return results.size() - carries; }
  ir::ValueId input(size_t i) const { return body.inputs()[i].value; }
  ir::ValueId output(size_t i) const { return body.outputs()[i].value; }

  ir::Graph body;
  std::vector<ir::ValueId> operands, results;
  size_t carries, whole;  // carries; carries and constants
  ir::Dim length;
  bool reverse;
};

/// Ids are of the body's.
struct LoopPlan {
  /// A sum over the steps of products or sums, each seen through views and permutations.
  struct Term {
    ir::EquationId root;
    std::vector<ir::EquationId> chain;  // from the root on
  };
  struct Sum {
    size_t carry;
    std::vector<Term> terms;
  };
  /// A y that is a product with something that no step changes.
  struct Product {
    size_t y;
    ir::EquationId root;
  };

  ir::ValueMap<bool> invariant;        // the same in every step
  std::vector<ir::EquationId> before;  // products of slices with what is invariant
  std::vector<ir::ValueId> constants;  // what is computed once, before the loop
  std::vector<Sum> sums;               // carries that are sums after the loop
  std::vector<Product> after;          // ys that are products after the loop
  std::vector<ir::ValueId> stacks;     // the ys that the loop still gives
  std::vector<size_t> carries;         // those it still has
  ir::ValueMap<bool> needed;           // what it takes or computes
  std::vector<ir::EquationId> steps;   // what each of its steps computes
};

/// None if every step does what it must. `uses`: of the graph's values.
std::optional<LoopPlan> plan_of(const Scan& scan, const std::vector<uint32_t>& uses);

/// What lies behind views.
ir::ValueId viewed(const ir::Graph& graph, ir::ValueId v);
/// What `v` is the transpose of, if it is.
std::optional<ir::ValueId> transposed(const ir::Graph& graph, ir::ValueId v);
/// Which slice of `scan` it is, counted among the inputs; or none.
std::optional<size_t> slice_index(const Scan& scan, ir::ValueId v);

}  // namespace tandem::decomps

#endif  // TANDEM_DECOMPS_LOOPS_LOOP_PLAN_H
