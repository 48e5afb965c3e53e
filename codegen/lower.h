// Lowering: a graph of primitives becomes a Plan: fusion into kernels, library calls, memory plan.
#ifndef TANDEM_CODEGEN_LOWER_H
#define TANDEM_CODEGEN_LOWER_H

#include <memory>
#include <vector>

#include "codegen/plan.h"
#include "ir/interfaces/cost.h"
#include "machine/memory/guard_pages.h"

namespace tandem::codegen {

struct LowerOptions {
  /// MutatedInput outputs that may be written straight into their input's memory (by output index).
  std::vector<int> write_into_input;
  /// Of the last level cache, as far as it is ours; 0 if unknown. Values that are large beside it
  /// are written past the caches.
  int64_t cache_bytes = 0;
  /// Of the processor's widest. What is worth it depends on them, no result does.
  int vector_bytes = 64;
  /// Of f32 products.
  machine::MatmulPrecision matmul_precision = machine::MatmulPrecision::Highest;
  /// A library function does without what no step reads, though this may change the last bits of
  /// what it gives beside that: not for halves of one graph, which may both compute the same.
  bool leaves_out_unread = false;
  /// Each buffer of the arena lies between guard pages, and no two share memory one after the other
  /// (but in place): for tests.
  machine::GuardPages guard_pages = machine::GuardPages::None;
};

/// A Functional-or-later graph of primitives (Core, Forward, Backward) -> Plan. Inputs have the
/// strides that the graph says; outputs are laid out as the graph says.
Plan lower(const ir::Graph& graph, const LowerOptions& options = {});

/// The planner's own answers, for the partitioner.
std::unique_ptr<ir::CostModel> make_cost_model();
std::unique_ptr<ir::ContractionPlanner> make_contraction_planner();

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_LOWER_H
