// The partitioners that ship with Tandem.
#ifndef TANDEM_PARTITION_PARTITION_H
#define TANDEM_PARTITION_PARTITION_H

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ir/interfaces/partitioner.h"

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
/// everything else that backward needs is recomputed there, just in time. A result that is held by
/// an eager tape too (`held_outputs`, by output of `core`) passes as itself; all else is an output
/// of its own. Error{Partition} names a value that can be neither.
ir::Partition split(const ir::Graph& core, std::span<const ir::ValueId> saved,
                    const std::vector<bool>& held_outputs = {});

/// Error{Partition} unless the halves are valid graphs and have `core`'s inputs and outputs between
/// them: for a user's own partitioner.
void require_contract(const ir::Graph& core, const ir::Partition& partition,
                      std::string_view partitioner);

/// What an eager tape would hold: the storages of all forward values that the backward half reads.
struct EagerTape {
  int64_t bytes = 0;          // beyond the inputs
  std::vector<bool> outputs;  // by output of the joint graph: whether its storage is among them
};
/// `joint`: a Joint graph, before decomposition.
EagerTape eager_tape(const ir::Graph& joint);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_PARTITION_H
