#include "functionalize/checks.h"

#include <algorithm>
#include <vector>

#include "ir/build/effect.h"

namespace tandem::functionalize {
namespace {

using ir::EquationId;
using ir::Op;
using ir::ValueId;

/// An index, and how long what it points into is.
struct Index {
  ValueId value;
  ir::Dim length;
};

class Checks {
 public:
  explicit Checks(ir::Graph& graph) : graph_(graph), sink_(graph), b_(sink_) {}

  void keep() {
    for (const EquationId e : dead_checks()) {
      sink_.at(graph_.equation(e));
      sink_.grad_enabled = false;
      const ValueId check = check_of(e);
      all_ = all_.valid() ? b_.logical_or(all_, check) : check;
    }
    if (!all_.valid()) return;
    ir::Output output;
    output.value = all_;
    output.name = "checks";
    graph_.add_output(std::move(output));
  }

 private:
  bool has_elements(ValueId v) const { return ir::numel(graph_.type(v).sizes) > 0; }

  /// Whether data can make `e` fail.
  bool may_fail(EquationId e) const {
    if (ir::effect_of(graph_, e) != ir::Effect::MayFail) return false;
    if (is_index(e)) return has_elements(graph_.operand(e, 1));
    if (ir::info(graph_.op(e)).cls == ir::OpClass::Linalg)
      return has_elements(graph_.operand(e, 0));
    return ir::is_integer(graph_.type(graph_.result(e)).dtype) && has_elements(graph_.result(e));
  }
  bool is_index(EquationId e) const {
    return ir::info(graph_.op(e)).cls == ir::OpClass::Index || graph_.op(e) == Op::cross_entropy;
  }

  /// Equations that nothing live reads, last first; one that reads another checks that too.
  std::vector<EquationId> dead_checks() const {
    std::vector<EquationId> dead;
    ir::ValueMap<uint8_t> used(graph_);
    for (const ir::Output& output : graph_.outputs()) used[output.value] = 1;
    for (size_t i = graph_.num_equations(); i-- > 0;) {
      const EquationId e = graph_.equation_id(i);
      const auto is_live = [&](ValueId v) { return used[v] != 0; };
      const bool live =
          std::ranges::any_of(graph_.results(e), is_live) || ir::must_run(ir::effect_of(graph_, e));
      if (!live && !may_fail(e)) continue;
      if (!live) dead.push_back(e);
      if (live || !is_index(e))
        for (const ValueId v : graph_.operands(e)) used[v] = 1;
      else
        used[graph_.operand(e, 1)] = 1;
    }
    return dead;
  }

  Index index_of(EquationId e) {
    const ValueId index = graph_.operand(e, 1);
    const ir::Shape table = graph_.type(graph_.operand(e, 0)).sizes;
    if (graph_.op(e) == Op::embedding) return {index, table[0]};
    if (graph_.op(e) != Op::cross_entropy)
      return {index, table[static_cast<int>(graph_.attr<int64_t>(e, ir::Attr::dim))]};
    const ValueId ignored = b_.eq(index, graph_.attr<int64_t>(e, ir::Attr::ignore_index));
    return {b_.where(ignored, 0, index), table[1]};
  }

  /// A bool that needs what makes `e` fail.
  ValueId check_of(EquationId e) {
    if (!is_index(e)) return b_.reduce(Op::any, b_.ne(graph_.results(e)[0], 0), {});
    const Index index = index_of(e);
    const ValueId table = b_.expand(b_.full({}, ir::DType::Bool, false), {index.length});
    const ValueId flat = b_.reshape(index.value, {b_.numel(index.value)});
    return b_.reduce(Op::any, b_.index_select(table, 0, flat), {});
  }

  ir::Graph& graph_;
  ir::GraphSink sink_;
  ir::Builder b_;
  ValueId all_;
};

}  // namespace

void keep_checks(ir::Graph& graph) { Checks(graph).keep(); }

}  // namespace tandem::functionalize
