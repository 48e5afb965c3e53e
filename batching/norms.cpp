// Norms: a weight that differs by example is multiplied behind the norm itself.
#include "batching/rules.h"

namespace tandem::batching {
namespace {

/// `v` [size, inner...] or [inner...] as [size or 1, 1.., inner.., 1..] beside a result of `rank`
/// dimensions, where it runs over those from `first` on.
V beside(const Examples& e, Value x, int rank, int first) {
  const Shape one = e.sizes(x);
  Shape sizes = Shape::filled(rank, 1);
  sizes[0] = x.batched ? e.c.size : Dim(1);
  for (int d = 0; d < one.rank(); ++d) sizes[first + d] = one[d];
  return e.b.reshape(x.v, sizes);
}

/// The results' first one times weight, plus bias, whose dimensions begin at `first`.
ValueList scaled(const Examples& e, ValueList results, int first) {
  const int rank = e.b.rank(results[0]);
  if (e.count() > 1) results[0] = e.b.mul(results[0], beside(e, e[1], rank, first));
  if (e.count() > 2) results[0] = e.b.add(results[0], beside(e, e[2], rank, first));
  return results;
}

bool has_batched_parameters(const Examples& e) { return e.batched(1) || e.batched(2); }

}  // namespace

const BatchRule batch_native_layer_norm = formula([](Examples e) {
  ValueList operands(e.c.operands);
  operands[0] = e.spread(0);
  if (!has_batched_parameters(e)) return e.b.emit_all(e.c.op, operands, e.c.attrs);
  const ValueList plain = e.b.emit_all(e.c.op, std::span(operands).first(1), e.c.attrs);
  const auto inner = static_cast<int>(e.attr<int64_t>(Attr::normalized_dims));
  return scaled(e, plain, e.b.rank(operands[0]) - inner);
});

const BatchRule batch_native_group_norm = formula([](Examples e) {
  ValueList operands(e.c.operands);
  operands[0] = e.folded(0);
  const bool apart = has_batched_parameters(e);
  const std::span<const V> given(operands.begin(), apart ? 1 : operands.size());
  ValueList results = e.b.emit_all(e.c.op, given, e.c.attrs);
  for (V& v : results) v = e.unfolded(v);
  return apart ? scaled(e, results, 2) : results;
});

}  // namespace tandem::batching
