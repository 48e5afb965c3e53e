// Prices in true bytes, and bans from what the op table says of each op.
#include "partition/policies.h"

#include <algorithm>
#include <cmath>

#include "partition/flow/min_cut.h"

namespace tandem::partition {
namespace {

using ir::EquationId;
using ir::OpClass;
using ir::ValueId;

// A view that is no smaller than its base is saved as its base, which costs the base's bytes once.
bool cannot_be_saved(const Analysis& a, ValueId v) {
  return a.graph.type(v).is_token || a.is_free_view(v);
}

int64_t price_in_bytes(const Analysis& a, ValueId v) {
  return cannot_be_saved(a, v) ? kInfinite : a.saved_bytes(v);
}

const char* ban_effects_and_contractions(const Analysis& a, ValueId v) {
  if (a.runs_once(a.producer(v))) return "effect: runs once";
  if (a.is(v, OpClass::Contraction)) return "contraction: not recomputed";
  if (a.is(v, OpClass::Scan)) return "scan: not recomputed";
  if (a.is(v, OpClass::Linalg)) return "linalg: not recomputed";
  return nullptr;
}

/// Index ops that write at positions (they have a source operand) copy all of operand 0 and write
/// in sequence.
bool writes_at_positions(const Analysis& a, EquationId e) {
  return a.cls(e) == OpClass::Index && ir::info(a.graph.op(e)).operands.size() == 3;
}

bool reduces_much(const Analysis& a, EquationId e) {
  constexpr int64_t kRatio = 4;
  return a.cls(e) == OpClass::Reduction &&
         kRatio * a.bytes(a.graph.result(e)) < a.bytes(a.graph.operand(e, 0));
}

/// Whether a contraction of the backward half reads `v`, possibly through views: recomputing v
/// then means writing it to memory.
ir::ValueMap<bool> read_by_backward_contractions(const Analysis& a) {
  ir::ValueMap<bool> read(a.graph);
  for (size_t i = a.graph.num_equations(); i-- > 0;) {
    const EquationId e = a.graph.equation_id(i);
    const ValueId result = a.graph.result(e);
    const bool reads = (a.cls(e) == OpClass::Contraction && !a.forward[result]) ||
                       (a.cls(e) == OpClass::View && read[result]);
    for (ValueId v : a.graph.operands(e))
      if (reads) read[v] = true;
  }
  return read;
}

}  // namespace

int64_t picoseconds(double seconds) {
  constexpr double kMost = 1e15;  // a quarter of an hour; thousands of these fit into int64
  if (seconds <= 0) return 0;
  return std::max<int64_t>(std::llround(std::min(seconds * 1e12, kMost)), 1);
}

Policy time_policy(const Analysis& a, const Estimate& estimate, TimePolicy options) {
  const auto ban = [&a, options](ValueId v) -> const char* {
    if (!a.producer(v).valid() || a.is(v, OpClass::View)) return nullptr;
    if (options.anything) return a.runs_once(a.producer(v)) ? "effect: runs once" : nullptr;
    if (const char* reason = ban_effects_and_contractions(a, v)) return reason;
    return writes_at_positions(a, a.producer(v)) ? "writes at indices: not recomputed" : nullptr;
  };
  const auto price = [&a, &estimate, options](ValueId v) {
    if (cannot_be_saved(a, v)) return kInfinite;
    const auto bytes = static_cast<double>(a.saved_bytes(v));
    return picoseconds(estimate.save_seconds(v) + options.seconds_per_byte * bytes);
  };
  return {price, ban,
          [&estimate](ValueId v) { return picoseconds(estimate.recompute_seconds(v)); }};
}

Policy minimal_policy(const Analysis& a) {
  return {.price = [&a](ValueId v) { return price_in_bytes(a, v); },
          .ban = [&a](ValueId v) { return ban_effects_and_contractions(a, v); }};
}

Policy default_policy(const Analysis& a) {
  const auto ban = [&a, read = read_by_backward_contractions(a)](ValueId v) -> const char* {
    if (!a.producer(v).valid() || a.is(v, OpClass::View)) return nullptr;
    if (const char* reason = ban_effects_and_contractions(a, v)) return reason;
    if (writes_at_positions(a, a.producer(v))) return "writes at indices: not recomputed";
    if (reduces_much(a, a.producer(v))) return "reduction of a larger tensor: not recomputed";
    if (read[v]) return "read by a contraction in backward: would be written to memory again";
    return nullptr;
  };
  return {.price = [&a](ValueId v) { return price_in_bytes(a, v); }, .ban = ban};
}

}  // namespace tandem::partition
