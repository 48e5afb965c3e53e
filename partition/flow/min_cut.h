// Minimum cut of a flow network given as plain arrays; the only user of Boost.Graph.
#ifndef TANDEM_PARTITION_FLOW_MIN_CUT_H
#define TANDEM_PARTITION_FLOW_MIN_CUT_H

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tandem::partition {

/// A capacity that no cut can pay.
inline constexpr int64_t kInfinite = std::numeric_limits<int64_t>::max();

struct FlowEdge {
  int from = 0, to = 0;
  int64_t capacity = 0;
};

/// Nodes are [0, nodes). The sum of the finite capacities must fit into int64.
struct FlowNetwork {
  int nodes = 0, source = 0, sink = 0;
  std::vector<FlowEdge> edges;
};

struct Cut {
  /// The edges, ascending, of the minimum cut that is nearest the sink: on its side are the nodes
  /// that can still reach it when a maximum flow runs. They are the same for every algorithm.
  std::vector<size_t> edges;
  int64_t value = 0;
};

/// Finds minimum cuts of one network at different capacities.
class MinCut {
 public:
  explicit MinCut(const FlowNetwork& network);
  MinCut(MinCut&&) noexcept;
  ~MinCut();

  /// Where edge i has `capacities[i]`; the same ones must be infinite as in the network. Nothing if
  /// no finite cut exists.
  std::optional<Cut> at(std::span<const int64_t> capacities) const;

 private:
  struct Solver;
  std::unique_ptr<const Solver> solver_;
};

std::vector<int64_t> capacities_of(const FlowNetwork& network);

/// At the network's own capacities.
std::optional<Cut> min_cut(const FlowNetwork& network);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_FLOW_MIN_CUT_H
