// Why a value is saved: what it would take not to save it.
#ifndef TANDEM_PARTITION_REPORT_EXPLAIN_H
#define TANDEM_PARTITION_REPORT_EXPLAIN_H

#include <functional>
#include <span>
#include <string>

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

/// For each saved value: what backward would have to do if that alone were not saved.
class Alternatives {
 public:
  Alternatives(const Analysis& analysis, const Estimate& estimate,
               std::span<const ir::ValueId> saved);

  /// Seconds of all that would have to be computed again, and of reading inputs for it.
  double recompute_seconds(ir::ValueId v) const;

  /// Why `v` is saved: because it, or what it would have to be computed from, is banned; because
  /// that is cheaper; `otherwise` if it is neither.
  std::string reason(ir::ValueId v, const std::function<const char*(ir::ValueId)>& ban,
                     const char* otherwise) const;

 private:
  /// Calls visit for `v` and every value that would have to be computed or read with it.
  template <class Visit>
  void for_each_needed(ir::ValueId v, Visit visit) const;

  const Analysis& a_;
  const Estimate& estimate_;
  const Halves halves_;
  ir::ValueMap<bool> given_;  // saved
};

/// "gelu h", as reports call a value and what made it.
std::string op_and_name(const Analysis& analysis, ir::ValueId v);
/// What made `v`: its op, or "input".
std::string_view op_name(const Analysis& analysis, ir::ValueId v);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_REPORT_EXPLAIN_H
