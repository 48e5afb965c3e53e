// The rules of iteration spaces: what a node's is, and when two can be one.
#ifndef TANDEM_CODEGEN_FUSION_DOMAIN_H
#define TANDEM_CODEGEN_FUSION_DOMAIN_H

#include <optional>

#include "codegen/fusion/fuse.h"

namespace tandem::codegen {

/// Whether a node can share a kernel with others at all.
bool is_fusible(const Node& node);
Domain domain_of(const Node& node);
/// The iteration space of two groups' nodes together; nothing if they do not fit.
std::optional<Domain> united(const Domain& a, const Domain& b);
/// The domain with a dim of `size` of its own, whose steps are `inner` elements apart; nothing if
/// loops cannot realise that.
std::optional<Domain> with_dim(const Domain& domain, int64_t inner, int64_t size);
/// Whether memory steps unevenly somewhere inside a row: a loop over the row is then several.
bool steps_inside_rows(const Domain& domain);
/// The same of what one node, no row node, reads and writes.
bool steps_inside_rows(const Node& node, int64_t cols);
/// Whether `consumer` can take operand `view`, computed by `producer` in the same kernel.
bool passes_in_registers(const Node& producer, const Node& consumer, const View& view,
                         const Domain& domain);

}  // namespace tandem::codegen

#endif  // TANDEM_CODEGEN_FUSION_DOMAIN_H
