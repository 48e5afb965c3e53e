// The flow network of a joint graph. Every value is two nodes, in and out, and the edge between
// them costs what saving the value costs; all other edges are infinite. Cut edges are the saved
// values; what lies between them and the sink is computed in backward.
#ifndef TANDEM_PARTITION_NETWORK_H
#define TANDEM_PARTITION_NETWORK_H

#include <cstdint>
#include <functional>
#include <vector>

#include "partition/analysis.h"

namespace tandem::partition {

/// What a cut may do, and what it costs.
struct Policy {
  /// What saving a value costs; kInfinite: it cannot be saved.
  std::function<int64_t(ir::ValueId)> price;
  /// Why a value of the forward half must not be computed again in backward; null if it may.
  std::function<const char*(ir::ValueId)> ban;
};

/// The values to save, in graph order: of the cheapest sets, the one nearest the backward half.
/// Error{Partition} shows a chain of values that can be neither saved nor recomputed.
std::vector<ir::ValueId> cheapest_saved_set(const Analysis& analysis, const Policy& policy);

/// How messages and reports call a value.
std::string value_name(const ir::Graph& graph, ir::ValueId v);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_NETWORK_H
