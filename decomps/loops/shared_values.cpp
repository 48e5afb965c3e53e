#include "decomps/loops/shared_values.h"

#include <algorithm>
#include <set>

#include "ir/build/effect.h"

namespace tandem::decomps {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::ValueId;

/// Finds for each value of the second body the one of the first that is computed alike.
class Comparison {
 public:
  explicit Comparison(const BodyPair& bodies)
      : first_(bodies.first),
        second_(bodies.second),
        same_(second_),
        readers_(first_.num_values()) {
    for (uint32_t i = 0; i < first_.num_equations(); ++i) {
      const auto operands = first_.operands(EquationId{i});
      (operands.empty() ? alone_ : readers_[operands[0].index]).push_back({i});
    }
    for (size_t i = 0; i < bodies.inputs.size(); ++i)
      same_[second_.inputs()[i].value] = bodies.inputs[i];
    for (uint32_t i = 0; i < second_.num_equations(); ++i) compare({i});
  }

  /// Invalid if there is none.
  ValueId operator[](ValueId v) const { return same_[v]; }

 private:
  void compare(EquationId e) {
    if (ir::effect_of(second_, e) != ir::Effect::Pure) return;
    ir::ValueList operands;
    for (const ValueId v : second_.operands(e)) operands.push_back(same_[v]);
    if (!std::ranges::all_of(operands, &ValueId::valid)) return;
    for (const EquationId known : operands.empty() ? alone_ : readers_[operands[0].index]) {
      if (first_.op(known) != second_.op(e) ||
          !std::ranges::equal(first_.operands(known), operands) ||
          !std::ranges::equal(first_.attrs(known), second_.attrs(e), ir::same))
        continue;
      for (size_t r = 0; r < second_.results(e).size(); ++r)
        same_[second_.results(e)[r]] = first_.results(known)[r];
      return;
    }
  }

  const Graph &first_, &second_;
  ir::ValueMap<ValueId> same_;
  std::vector<std::vector<EquationId>> readers_;  // by value of the first: as first operand
  std::vector<EquationId> alone_;                 // equations of the first without operands
};

class Choice {
 public:
  Choice(const BodyPair& bodies, const Comparison& same)
      : g_(bodies.second), again_(g_), must_be_there_(g_), readers_(g_.num_values()) {
    ir::ValueMap<bool> varies(g_);
    for (size_t i = 0; i < bodies.varies.size(); ++i)
      varies[g_.inputs()[i].value] = bodies.varies[i];
    for (uint32_t i = 0; i < g_.num_equations(); ++i) {
      const EquationId e{i};
      const auto operands = g_.operands(e);
      const bool changes = std::ranges::any_of(operands, [&](ValueId v) { return varies[v]; });
      for (const ValueId v : g_.results(e)) {
        varies[v] = changes;
        again_[v] = changes && same[v].valid();
      }
      for (const ValueId v : operands) add_reader(v, e);
    }
    for (const ir::Output& output : g_.outputs()) must_be_there_[output.value] = true;
  }

  std::set<ValueId> run() const {
    std::set<ValueId> chosen;
    for (uint32_t i = 0; i < g_.num_equations(); ++i)
      for (const ValueId v : g_.results(EquationId{i})) {
        if (!again_[v]) continue;
        if (ir::info(g_.op({i})).cls == ir::OpClass::Contraction) chosen.insert(v);
        if (chosen.contains(v)) move_on(v, chosen);
      }
    return chosen;
  }

 private:
  void add_reader(ValueId v, EquationId e) {
    readers_[v.index].push_back(e);
    const auto results = g_.results(e);
    if (results.empty() || !again_[results[0]]) must_be_there_[v] = true;
  }

  /// What reads `v` in its place, if that takes no more memory.
  void move_on(ValueId v, std::set<ValueId>& chosen) const {
    if (must_be_there_[v]) return;
    std::set<ValueId> later;
    int64_t more = 0;
    for (const EquationId e : readers_[v.index])
      for (const ValueId result : g_.results(e))
        if (!chosen.contains(result) && later.insert(result).second)
          more += ir::size_in_bytes(g_.type(result));
    if (more > ir::size_in_bytes(g_.type(v))) return;
    chosen.erase(v);
    chosen.merge(later);
  }

  const Graph& g_;
  ir::ValueMap<bool> again_;          // computed by the first body too
  ir::ValueMap<bool> must_be_there_;  // read by what only the second does
  std::vector<std::vector<EquationId>> readers_;
};

}  // namespace

std::vector<SharedValue> choose_shared_values(const BodyPair& bodies, int64_t most_bytes) {
  const Comparison same(bodies);
  std::vector<SharedValue> values;
  for (const ValueId v : Choice(bodies, same).run()) {
    most_bytes -= ir::size_in_bytes(bodies.second.type(v));
    values.push_back({same[v], v});
  }
  return most_bytes < 0 ? std::vector<SharedValue>() : values;
}

}  // namespace tandem::decomps
