// What a rule of simplify sees, and the rules that stand in files of their own. Internal.
#ifndef TANDEM_DECOMPS_CANDIDATE_H
#define TANDEM_DECOMPS_CANDIDATE_H

#include <optional>
#include <span>

#include "decomps/fold.h"
#include "ir/build/builder.h"
#include "ir/graph.h"

namespace tandem::decomps {

using Result = std::optional<ir::ValueId>;

/// The equation that a rule looks at: not yet in the graph, its operands are.
struct Candidate {
  ir::Builder& b;
  const ir::Graph& graph;
  ir::Op op;
  std::span<const ir::ValueId> operands;
  std::span<const ir::AttrValue> attrs;
  const ir::Type& type;

  ir::ValueId operator[](int i) const { return operands[static_cast<size_t>(i)]; }
  template <class T>
  const T& attr(ir::Attr name) const {
    return std::get<T>(attrs[static_cast<size_t>(ir::attr_index(op, name))]);
  }
  bool is(ir::ValueId v, ir::Op defined_by) const {
    return graph.producer(v).valid() && graph.op(graph.producer(v)) == defined_by;
  }
  /// Operand `i` of the equation that defines `v`.
  ir::ValueId behind(ir::ValueId v, int i = 0) const { return graph.operand(graph.producer(v), i); }
  /// An attribute of the equation that defines `v`.
  template <class T>
  const T& attr_behind(ir::ValueId v, ir::Attr name) const {
    return graph.attr<T>(graph.producer(v), name);
  }
  std::optional<ir::Number> constant(ir::ValueId v) const { return decomps::constant(graph, v); }
  bool is_constant(ir::ValueId v, const ir::Number& number) const {
    return decomps::is_constant(graph, v, number);
  }
  /// The operand beside constant `number` of a binary equation, in either order.
  Result beside(const ir::Number& number) const {
    if (is_constant(operands[1], number)) return operands[0];
    if (is_constant(operands[0], number)) return operands[1];
    return std::nullopt;
  }
};

/// Whether an index picks one element of each line along `dim` of what has these sizes.
bool picks_one_of_each_line(const ir::Shape& index, ir::Shape sizes, int64_t dim);

/// Whether `e` adds one number to each line along its dim, of zeros: scatter_add(0, dim, index,
/// source). In backward alone, where the index has been looked up, so that nobody need look at it.
bool scatters_one_to_each_line(const ir::Graph& graph, ir::EquationId e);

/// Whether `v` is a constant or repeated by an expand, or computed of such values, or padded, in
/// few steps: its permutation is as little work as it is.
bool is_repeated(const ir::Graph& graph, ir::ValueId v);

/// Whether `v` is made by putting zeros around something.
bool pads_with_zeros(const ir::Graph& graph, ir::ValueId v);

/// Values that are picked or repeated (picked_and_repeated.cpp).
Result gather_of_pointwise(const Candidate& c);
Result sum_of_scattered(const Candidate& c);
Result sum_of_padded(const Candidate& c);
Result reduction_of_repeated(const Candidate& c);
Result permute_of_repeated(const Candidate& c);

}  // namespace tandem::decomps

#endif  // TANDEM_DECOMPS_CANDIDATE_H
