// The flow network of a joint graph. Every value is two nodes, in and out: the edge between them
// costs what saving the value costs, the edge from the source to its in what computing it again
// costs; all other edges are infinite. What lies between the saved values and the sink is computed
// in backward, so a cut costs exactly what its set does.
#ifndef TANDEM_PARTITION_FLOW_NETWORK_H
#define TANDEM_PARTITION_FLOW_NETWORK_H

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "partition/analysis.h"
#include "partition/flow/min_cut.h"

namespace tandem::partition {

/// What saving a value costs; kInfinite: it cannot be saved.
using Price = std::function<int64_t(ir::ValueId)>;

/// What a cut may do, and what it costs.
struct Policy {
  Price price;
  /// Why a value of the forward half must not be computed again in backward; null if it may.
  std::function<const char*(ir::ValueId)> ban;
  /// What computing a value of the forward half again costs, in the unit of `price`.
  std::function<int64_t(ir::ValueId)> cost = [](ir::ValueId) { return int64_t{0}; };
};

/// The values that backward needs and that depend on no tangent, as a flow network. Nodes that are
/// on one side of every cheapest cut that is nearest the sink are one.
struct ValueNetwork {
  FlowNetwork flow;
  /// By edge: the value that is saved where it is cut, if any; in graph order.
  std::vector<ir::ValueId> saved;
};
ValueNetwork make_network(const Analysis& analysis, const Policy& policy);

/// Values to save, in graph order, and what saving them and computing the rest again costs by the
/// policy's prices.
struct CheapestSet {
  std::vector<ir::ValueId> values;
  int64_t cost = 0;
};

/// Finds the cheapest sets to save at several prices.
class CheapestSets {
 public:
  CheapestSets(const Analysis& analysis, const Policy& policy)
      : analysis_(analysis),
        policy_(policy),
        network_(make_network(analysis, policy)),
        capacities_(capacities_of(network_.flow)),
        min_cut_(network_.flow) {}

  /// Of the cheapest sets, the one nearest the backward half. Error{Partition} shows a chain of
  /// values that can be neither saved nor recomputed.
  CheapestSet find() const;
  /// The same, or nothing where that fails.
  std::optional<CheapestSet> find_if_any() const;
  /// The same at another price, which must be infinite, and nothing, for the same values.
  CheapestSet find_at(const Price& price) const;

 private:
  std::optional<CheapestSet> find(std::span<const int64_t> capacities) const;
  CheapestSet required(std::optional<CheapestSet> saved) const;

  const Analysis& analysis_;
  Policy policy_;
  ValueNetwork network_;
  std::vector<int64_t> capacities_;
  MinCut min_cut_;
};

/// The values that CheapestSets finds.
std::vector<ir::ValueId> cheapest_saved_set(const Analysis& analysis, const Policy& policy);

/// A chain of values "a -> b -> c", from what forward has to what backward needs, none of which can
/// be saved or recomputed; empty if there is none.
std::string impossible_chain(const Analysis& analysis, const Policy& policy);

/// How messages and reports call a value.
std::string value_name(const ir::Graph& graph, ir::ValueId v);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_FLOW_NETWORK_H
