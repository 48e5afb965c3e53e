// What losses share.
#ifndef TANDEM_RUNTIME_NETWORKS_LOSSES_H
#define TANDEM_RUNTIME_NETWORKS_LOSSES_H

#include <fmt/format.h>
#include <tandem/ops/networks.h>

#include "ir/base/error.h"
#include "runtime/ops/call.h"

namespace tandem::runtime {

/// The losses as `reduction` asks: "none", "mean" or "sum".
inline V reduced(Call& c, V losses, std::string_view reduction) {
  if (reduction == "none") return losses;
  if (reduction == "mean") return c.b.mean(losses);
  if (reduction == "sum") return c.b.sum(losses);
  ir::fail(Errc::Argument, fmt::format("{}: unknown reduction; expected \"none\", \"mean\" or "
                                       "\"sum\", got \"{}\"",
                                       ir::ErrorScope::function(), reduction));
}
inline Tensor reduced_tensor(Call& c, V losses, std::string_view reduction) {
  return c.out(reduced(c, losses, reduction));
}

inline void require_same_sizes(Call& c, V a, V b, const char* name) {
  if (c.b.sizes(a) != c.b.sizes(b))
    ir::fail(Errc::Shape,
             fmt::format("{}: {} does not fit; expected {}, got {}", ir::ErrorScope::function(),
                         name, to_string(c.b.sizes(a)), to_string(c.b.sizes(b))));
}

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_NETWORKS_LOSSES_H
