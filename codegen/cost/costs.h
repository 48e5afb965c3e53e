// Rough costs of one element on one core, in nanoseconds: for the sizes of units, for what is kept
// between sweeps, and for the partitioner.
#ifndef TANDEM_CODEGEN_COST_COSTS_H
#define TANDEM_CODEGEN_COST_COSTS_H

#include <array>
#include <string>
#include <string_view>

#include "codegen/nodes/program.h"

namespace tandem::codegen {

inline constexpr double kLoadCost = 0.06;     // from the nearest caches
inline constexpr double kIndirectCost = 0.5;  // at a position that comes from data
inline constexpr double kMemoryCost = 0.14;   // 4 bytes streamed from memory
inline constexpr double kMatrixCost = 1;      // one element of a matrix times one of its rows
inline constexpr double kUnitCost = 6000;     // what a unit of work should cost
inline constexpr double kScanCost = 5;        // one element of a scan, sort or search
inline constexpr double kThreadCost = 2000;   // what pays for waking a thread

/// Seconds that factors of matrices of these sizes take.
inline double matrix_seconds(const ir::Shape& sizes) {
  return 1e-9 * kMatrixCost * static_cast<double>(int64_t{ir::numel(sizes)}) *
         static_cast<double>(int64_t{sizes.back()});
}

/// The arithmetic of `op`.
double op_cost(ir::Op op);
double node_cost(const Node& node);

/// What the partitioner's prices are made of: times of one core, measured by `tandem calibrate`.
struct CostTable {
  std::array<double, ir::kOpCount> element_ns{};  // by op: one element, operands in registers
  double indirect_ns = 0;                         // one element at a position that comes from data
  // one byte to or from the caches of the cores, the one that they share, and memory, while all
  // cores stream
  double near_byte_ns = 0, shared_byte_ns = 0, byte_ns = 0;
  double near_bytes = 0, shared_bytes = 0;  // what those caches hold, of all cores together
  double library_flops = 0;                 // per second, f32 contractions
  double generated_flops = 0;               // per second, other contractions
};

/// The table for a machine that was not calibrated, and for tests: measured once, the same
/// everywhere.
const CostTable& shipped_costs();
/// "NAME NUMBER" lines, and back. Error{File} says what is malformed.
std::string print(const CostTable& table);
CostTable parse_costs(std::string_view text);
/// The table in the file that TANDEM_COSTS names, read once; without it the shipped one.
const CostTable& machine_costs();

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_COST_COSTS_H
