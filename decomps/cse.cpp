// Common subexpressions: a table of the equations by what they compute (op, operands, attributes).
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "decomps/simplify.h"

namespace tandem::decomps {
namespace {

using ir::AttrValue;
using ir::Dim;
using ir::EquationId;
using ir::Graph;
using ir::ValueId;

class Hash {
 public:
  void add(uint64_t word) {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15u;
    state_ ^= state_ >> 32;
  }
  void add(ValueId v) { add(uint64_t{v.index}); }
  void add(const AttrValue& attr) {
    std::visit([&](const auto& value) { add_value(value); }, attr);
  }
  size_t get() const { return state_; }

 private:
  void add_value(bool value) { add(uint64_t{value}); }
  void add_value(int64_t value) { add(static_cast<uint64_t>(value)); }
  void add_value(Dim d) { add_value(int64_t{d}); }
  void add_value(ir::DType dtype) { add(static_cast<uint64_t>(dtype)); }
  void add_value(ir::SubgraphId id) { add(uint64_t{id.index}); }
  void add_value(double value) { add(std::isnan(value) ? 0 : std::bit_cast<uint64_t>(value)); }
  void add_value(const ir::Number& n) {
    n.is_float() ? add_value(n.to_double()) : add_value(n.to_int());
  }
  void add_value(const std::string& text) { add(std::hash<std::string>()(text)); }
  void add_value(const ir::Dims& dims) {
    for (Dim d : dims) add_value(d);
  }

  uint64_t state_ = 0;
};

/// Equations with effects, subgraphs or the user's code stand for themselves.
bool may_merge(const Graph& graph, EquationId e) {
  const ir::Equation& equation = graph.equation(e);
  if (equation.in_place || equation.result_count != 1) return false;
  const ir::OpClass cls = ir::info(equation.op).cls;
  if (cls == ir::OpClass::Control || cls == ir::OpClass::External) return false;
  return !graph.type(graph.result(e)).is_token;
}

/// For each value the first that is equal to it, found in one walk over the equations.
class Merger {
 public:
  explicit Merger(const Graph& graph)
      : graph_(graph), table_(std::bit_ceil(2 * graph.num_equations() + 1)) {
    for (uint32_t v = 0; v < graph.num_values(); ++v) first_.push_back({v});
    for (size_t i = 0; i < graph.num_equations(); ++i) add(graph.equation_id(i));
  }

  std::span<const ValueId> first() const { return first_; }
  EquationId first(EquationId e) const { return graph_.producer(first_[graph_.result(e).index]); }

 private:
  void add(EquationId e) {
    if (!may_merge(graph_, e)) return;
    EquationId& known = slot(e);
    if (known.valid())
      first_[graph_.result(e).index] = graph_.result(known);
    else
      known = e;
  }

  /// The place of `e` in the table: of an equal equation, or free.
  EquationId& slot(EquationId e) {
    const size_t mask = table_.size() - 1;
    for (size_t i = hash(e) & mask;; i = (i + 1) & mask)
      if (!table_[i].valid() || are_equal(table_[i], e)) return table_[i];
  }

  /// Operand `i`; those of a commutative op are in the order of their ids.
  ValueId operand(EquationId e, size_t i) const {
    const auto operands = graph_.operands(e);
    const auto at = [&](size_t k) { return first_[operands[k].index]; };
    if (!ir::info(graph_.op(e)).commutative) return at(i);
    return i == 0 ? std::min(at(0), at(1)) : std::max(at(0), at(1));
  }

  size_t hash(EquationId e) const {
    Hash hash;
    hash.add(static_cast<uint64_t>(graph_.op(e)));
    for (size_t i = 0; i < graph_.operands(e).size(); ++i) hash.add(operand(e, i));
    for (const AttrValue& attr : graph_.attrs(e)) hash.add(attr);
    return hash.get();
  }

  bool are_equal(EquationId a, EquationId b) const {
    if (graph_.op(a) != graph_.op(b) || graph_.operands(a).size() != graph_.operands(b).size())
      return false;
    for (size_t i = 0; i < graph_.operands(a).size(); ++i)
      if (operand(a, i) != operand(b, i)) return false;
    return std::ranges::equal(graph_.attrs(a), graph_.attrs(b), ir::same);
  }

  const Graph& graph_;
  std::vector<ValueId> first_;     // by value
  std::vector<EquationId> table_;  // open addressing; at most half full
};

/// `to` stands for `from` as well from now on.
void take_over(Graph& graph, EquationId from, EquationId to) {
  if (!graph.equation(from).is_backward) graph.equation(to).is_backward = false;
  graph.inherit(graph.result(to), graph, graph.result(from));
}

}  // namespace

Graph eliminate_common_subexpressions(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = eliminate_common_subexpressions(std::move(graph.subgraph({i})));
  const Merger merger(graph);
  std::vector<EquationId> stay;
  for (size_t i = 0; i < graph.num_equations(); ++i) {
    const EquationId e = graph.equation_id(i);
    if (!may_merge(graph, e) || merger.first(e) == e)
      stay.push_back(e);
    else
      take_over(graph, e, merger.first(e));
  }
  graph.rename_uses(merger.first());
  graph.keep_only(stay);
  return graph;
}

}  // namespace tandem::decomps
