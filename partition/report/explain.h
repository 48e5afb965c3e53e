// Why a value is saved: what it would take not to save it.
#ifndef TANDEM_PARTITION_REPORT_EXPLAIN_H
#define TANDEM_PARTITION_REPORT_EXPLAIN_H

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "partition/estimate.h"

namespace tandem::partition {

/// The equations that stand in each half, by index, when `saved` is saved.
struct Halves {
  Halves(const Analysis& analysis, std::span<const ir::ValueId> saved);
  bool is_recomputed(size_t i) const { return forward[i] && backward[i]; }
  /// Some equation of backward reads `v`, or backward returns it.
  bool are_given(const Analysis& analysis, ir::ValueId v) const;

  std::vector<bool> forward, backward;
};

/// What backward would have to do if one saved value were not saved.
struct Alternative {
  ir::ValueId saved;
  std::vector<ir::ValueId> needed;  // it, and all that would have to be computed or read with it
  double recompute_seconds = 0;     // all that is computed again, and inputs read for it
};

/// The alternatives to values of a saved set, each to be left out alone.
class Alternatives {
 public:
  Alternatives(const Analysis& analysis, const Estimate& estimate, const Halves& halves,
               std::span<const ir::ValueId> saved);

  Alternative to(ir::ValueId v);

 private:
  std::vector<ir::ValueId> needed_with(ir::ValueId v);

  const Analysis& a_;
  const Estimate& estimate_;
  const Halves& halves_;
  ir::ValueMap<bool> given_;     // saved
  ir::ValueMap<uint32_t> seen_;  // in which search last
  uint32_t searches_ = 0;
};

/// Why a value is saved: because it, or what it would have to be computed from, is banned; because
/// that is cheaper; `otherwise` if it is neither.
std::string reason_against(const Alternative& alternative, const Analysis& analysis,
                           const Estimate& estimate,
                           const std::function<const char*(ir::ValueId)>& ban,
                           const char* otherwise);

/// "gelu h", as reports call a value and what made it.
std::string op_and_name(const Analysis& analysis, ir::ValueId v);
/// What made `v`: its op, or "input".
std::string_view op_name(const Analysis& analysis, ir::ValueId v);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_REPORT_EXPLAIN_H
