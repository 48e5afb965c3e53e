// The flow network of a joint graph. Every value is two nodes, in and out: the edge between them
// costs what saving the value costs, the edge from the source to its in what computing it again
// costs; all other edges are infinite. What lies between the saved values and the sink is computed
// in backward, so a cut costs exactly what its plan does.
#ifndef TANDEM_PARTITION_NETWORK_H
#define TANDEM_PARTITION_NETWORK_H

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "partition/analysis.h"

namespace tandem::partition {

/// What a cut may do, and what it costs.
struct Policy {
  /// What saving a value costs; kInfinite: it cannot be saved.
  std::function<int64_t(ir::ValueId)> price;
  /// Why a value of the forward half must not be computed again in backward; null if it may.
  std::function<const char*(ir::ValueId)> ban;
  /// What computing a value of the forward half again costs, in the unit of `price`.
  std::function<int64_t(ir::ValueId)> cost = [](ir::ValueId) { return int64_t{0}; };
};

/// The values to save, in graph order: of the cheapest sets, the one nearest the backward half.
/// Error{Partition} shows a chain of values that can be neither saved nor recomputed.
std::vector<ir::ValueId> cheapest_saved_set(const Analysis& analysis, const Policy& policy);

/// The same, or nothing where that fails.
std::optional<std::vector<ir::ValueId>> cheapest_saved_set_if_any(const Analysis& analysis,
                                                                  const Policy& policy);

/// A chain of values "a -> b -> c", from what forward has to what backward needs, none of which can
/// be saved or recomputed; empty if there is none.
std::string impossible_chain(const Analysis& analysis, const Policy& policy);

/// How messages and reports call a value.
std::string value_name(const ir::Graph& graph, ir::ValueId v);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_NETWORK_H
