// The partitioners that ship with Tandem.
#ifndef TANDEM_PARTITION_PARTITION_H
#define TANDEM_PARTITION_PARTITION_H

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ir/partitioner.h"

namespace tandem::partition {

/// "default", "reference", "save-all", "recompute-all", and with a number "memory_budget=0.5",
/// "saved_budget=0.5" (of what they bound, 0 to 1) and "saved_bytes=1000000". Error{Argument} lists
/// the known names for any other.
std::unique_ptr<ir::Partitioner> make_partitioner(std::string_view name);
/// Those without a number.
std::vector<std::string_view> partitioner_names();

/// Chooses what to save of a Core joint graph.
using ChooseSaved = std::function<std::vector<ir::ValueId>(const ir::Graph& core)>;
/// A user's own.
std::unique_ptr<ir::Partitioner> make_partitioner(std::string name, ChooseSaved choose);

/// Splits `core` so that exactly `saved` (values of its forward half, none of which depends on a
/// tangent; a view as what it shows, unless it is smaller) pass from forward to backward;
/// everything else that backward needs is recomputed there, just in time. Error{Partition} names a
/// value that can be neither.
ir::Partition split(const ir::Graph& core, std::span<const ir::ValueId> saved);

/// Bytes that an eager tape would hold for `joint` (a Joint graph, before decomposition) beyond its
/// inputs: the storages of all forward values that the backward half reads.
int64_t tape_bytes(const ir::Graph& joint);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_PARTITION_H
