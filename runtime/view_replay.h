// View chains as operations: reading through one, and writing through one functionally.
#ifndef TANDEM_RUNTIME_VIEW_REPLAY_H
#define TANDEM_RUNTIME_VIEW_REPLAY_H

#include <span>
#include <vector>

#include "ir/builder.h"

namespace tandem::runtime {

/// What the chain of views shows of `base`, whatever base's strides (a copy where it must be).
ir::ValueId read_view(ir::Builder& b, ir::ValueId base, std::span<const ir::ViewStep> chain);

/// `base` with zeros where the chain of views shows it.
ir::ValueId zero_viewed_part(ir::Builder& b, ir::ValueId base, std::span<const ir::ViewStep> chain);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_VIEW_REPLAY_H
