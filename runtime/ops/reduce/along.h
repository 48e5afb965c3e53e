// What functions along one dimension share.
#ifndef TANDEM_RUNTIME_OPS_REDUCE_ALONG_H
#define TANDEM_RUNTIME_OPS_REDUCE_ALONG_H

#include <fmt/format.h>
#include <tandem/results.h>

#include "runtime/ops/call.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {

/// self and one of its dimensions; a 0-d tensor counts as one of one element.
struct Along {
  Along(Call& call, const Tensor& self, int64_t given)
      : c(call),
        sizes(self.sizes()),
        x(call.b.at_least_1d(call.in(self))),
        dim(call.b.wrap_dim(given, call.b.rank(x), ir::ErrorScope::function())) {}

  Dim size() const { return c.b.sizes(x)[dim]; }
  /// The result of a scan of `v`.
  V scanned(ir::Op op, V v) const { return c.b.emit(op, {v}, {int64_t{dim}}); }
  /// A result of self's sizes.
  const Tensor& out(V v) const { return c.out(c.b.view(v, sizes)); }
  /// Positions along the dimension, or what is there, with or without it.
  const Tensor& out(V v, bool keepdim) const {
    if (sizes.rank() == 0) return c.out(c.b.view(v, {}));
    return c.out(keepdim ? v : c.b.squeeze(v, ir::Axes{dim}));
  }
  /// The elements at `positions` and these.
  ValuesAndIndices picked(V positions, bool keepdim = true) const {
    return {out(c.b.gather(x, dim, positions), keepdim), out(positions, keepdim)};
  }

  Call& c;
  Shape sizes;
  V x;
  int dim;
};

/// Error{Trace} inside a trace, naming what to call there.
inline void require_no_trace(std::string_view instead) {
  if (Trace::current() != nullptr)
    ir::fail(Errc::Trace, fmt::format("{}: sizes depend on data, which a trace cannot hold; "
                                      "expected {}, got a call inside a trace",
                                      ir::ErrorScope::function(), instead));
}

inline void require_floating(const Tensor& t) {
  if (!ir::is_floating(t.dtype()))
    ir::fail(Errc::DType,
             fmt::format("{}: self is not floating; expected f64, f32, bf16 or f16, got {}",
                         ir::ErrorScope::function(), ir::name(t.dtype())));
}

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_OPS_REDUCE_ALONG_H
