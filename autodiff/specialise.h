// A Backward graph for a call in which some tangents are undefined or some gradients unwanted.
#ifndef TANDEM_AUTODIFF_SPECIALISE_H
#define TANDEM_AUTODIFF_SPECIALISE_H

#include <span>

#include "ir/graph.h"

namespace tandem::autodiff {

/// `backward` with only what the defined tangents (by tangent input, in order) contribute to the
/// wanted gradients (by output). What depends on tangents, but on no defined one, is zero: it is
/// not computed, and a gradient that is zero is left out. Inputs and outputs that stay are in the
/// old order; a saved input that nothing reads any more is left out.
ir::Graph specialise_backward(const ir::Graph& backward, std::span<const bool> defined_tangents,
                              std::span<const bool> wanted_gradients);

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_SPECIALISE_H
