#include "partition/schedule.h"

#include <set>

#include "ir/rewrite.h"

namespace tandem::partition {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::ValueId;

class Scheduler {
 public:
  explicit Scheduler(const Graph& half)
      : half_(half),
        storage_(half),
        uses_(half),
        waiting_(half.num_equations()),
        users_(half.num_values()) {
    for (const ir::Input& input : half.inputs()) storage_[input.value] = input.value;
    for (size_t i = 0; i < half.num_equations(); ++i) read(half.equation_id(i));
    constexpr int kAlways = 1 << 30;  // inputs and outputs live on
    for (const ir::Input& input : half.inputs()) uses_[input.value] += kAlways;
    for (const ir::Output& output : half.outputs()) uses_[storage_[output.value]] += kAlways;
  }

  Graph run() {
    ir::Rewriter rewriter(half_);
    rewriter.copy_inputs();
    while (!ready_.empty()) {
      const uint32_t e = next();
      ready_.erase(e);
      rewriter.copy({e});
      finish({e});
    }
    rewriter.copy_outputs();
    return rewriter.take();
  }

 private:
  bool is_view(EquationId e) const { return ir::info(half_.op(e)).cls == ir::OpClass::View; }

  void read(EquationId e) {
    for (ValueId v : half_.results(e))
      storage_[v] = is_view(e) ? ValueId(storage_[half_.operand(e, 0)]) : v;
    for (ValueId v : half_.operands(e)) {
      ++uses_[storage_[v]];
      if (!half_.producer(v).valid()) continue;
      users_[v.index].push_back(e);
      ++waiting_[e.index];
    }
    if (waiting_[e.index] == 0) ready_.insert(e.index);
  }

  int64_t bytes(ValueId v) const {
    return half_.type(v).is_token ? 0 : int64_t{ir::size_in_bytes(half_.type(v))};
  }

  /// By how many bytes more live after `e` than before.
  int64_t growth(EquationId e) const {
    int64_t sum = 0;
    if (!is_view(e))
      for (ValueId v : half_.results(e)) sum += bytes(v);
    const auto operands = half_.operands(e);
    for (size_t i = 0; i < operands.size(); ++i) {
      const ValueId storage = storage_[operands[i]];
      int here = 0, before = 0;
      for (size_t k = 0; k < operands.size(); ++k) {
        here += storage_[operands[k]] == storage;
        before += k < i && storage_[operands[k]] == storage;
      }
      if (before == 0 && uses_[storage] == here) sum -= bytes(storage);
    }
    return sum;
  }

  /// Of the first few equations that can run, the one after which least memory is in use.
  uint32_t next() const {
    constexpr int kWindow = 64;
    uint32_t best = *ready_.begin();
    int64_t least = growth({best});
    int seen = 0;
    for (uint32_t e : ready_) {
      if (++seen > kWindow) break;
      const int64_t grows = growth({e});
      if (grows < least) best = e, least = grows;
    }
    return best;
  }

  void finish(EquationId e) {
    for (ValueId v : half_.operands(e)) --uses_[storage_[v]];
    for (ValueId v : half_.results(e))
      for (EquationId user : users_[v.index])
        if (--waiting_[user.index] == 0) ready_.insert(user.index);
  }

  const Graph& half_;
  ir::ValueMap<ValueId> storage_;  // of the value whose memory a value shows
  ir::ValueMap<int> uses_;         // of a storage, by equations that have not run
  std::vector<int> waiting_;       // operands that are not there yet
  std::vector<std::vector<EquationId>> users_;
  std::set<uint32_t> ready_;
};

}  // namespace

Graph low_peak_order(const Graph& half, const ir::CostModel& costs) {
  Graph other = Scheduler(half).run();
  return costs.arena_bytes(other) < costs.arena_bytes(half) ? other : half;
}

}  // namespace tandem::partition
