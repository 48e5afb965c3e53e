// How passes map a graph to a graph: the Rewriter copies equations in order, the Splicer replaces
// some and leaves the others where they are.
#ifndef TANDEM_IR_BUILD_REWRITE_H
#define TANDEM_IR_BUILD_REWRITE_H

#include <tandem/ir/export.h>
#include <tandem/ir/graph.h>

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "builder.h"

namespace tandem::ir {

/// Copies a graph equation by equation; the target starts with the source's name and level.
/// Subgraphs that no copied equation names are left behind. Locations, grad mode, the half
/// (is_backward), the checkpoint region, marks and hints are carried over to whatever a callback
/// emits in place of an equation.
class TANDEM_API Rewriter {
 public:
  explicit Rewriter(const Graph& source);

  const Graph& source() const { return source_; }
  Graph& target() { return target_; }
  Builder& builder() { return builder_; }
  GraphSink& sink() { return sink_; }

  /// The target's value for a source value; an internal error if it has none yet.
  ValueId operator[](ValueId source_value) const;
  bool has(ValueId source_value) const { return map_[source_value].valid(); }
  void set(ValueId source_value, ValueId target_value) { map_[source_value] = target_value; }
  ValueList operands(EquationId e) const;
  /// e's attributes, with subgraphs renamed to the target's.
  std::vector<AttrValue> attrs(EquationId e);
  /// The target's id for a source subgraph, which is carried over on first use.
  SubgraphId subgraph(SubgraphId source_subgraph);
  /// Appends `replacement` to the target and makes it stand for a source subgraph.
  SubgraphId set_subgraph(SubgraphId source_subgraph, Graph replacement);

  /// Copies all inputs, with their names, roles and types.
  void copy_inputs();
  /// Appends `e` as it is (operands mapped, subgraphs carried over), and maps its results.
  void copy(EquationId e);
  /// Makes new equations carry e's location, grad mode, half, checkpoint region.
  void at(EquationId e);
  /// Makes `values` stand for e's results; they take over its hints and its mark unless they have
  /// their own.
  void replace(EquationId e, std::span<const ValueId> values);
  /// Copies all outputs (values mapped) and the epilogue.
  void copy_outputs();
  Graph take() { return std::move(target_); }

 private:
  void rename_subgraphs(EquationId from, EquationId to);

  const Graph& source_;
  Graph target_;
  GraphSink sink_;
  Builder builder_;
  ValueMap<ValueId> map_;
  std::vector<SubgraphId> subgraphs_;  // source index -> target
};

/// What a callback returns for one equation: nothing (copy it), or the values that stand for its
/// results.
using Replacement = std::optional<ValueList>;
using RewriteRule = std::function<Replacement(Rewriter& rewriter, EquationId e)>;

/// Copies `graph` with `rule` applied to every equation of it and (first) of its subgraphs, which
/// keep their ids.
TANDEM_API Graph rewrite(const Graph& graph, const RewriteRule& rule);

/// Replaces equations of a graph by others that stand in their place, and copies none. All
/// equations are visited in order. References into the graph end where something is emitted.
class TANDEM_API Splicer {
 public:
  explicit Splicer(Graph graph);

  Graph& graph() { return graph_; }
  const Graph& graph() const { return graph_; }
  Builder& builder() { return builder_; }
  GraphSink& sink() { return sink_; }
  /// What stands for a value that was there.
  ValueId operator[](ValueId v) const { return stands_for_[v.index]; }
  /// How many equations there are to visit.
  size_t num_equations() const { return is_replaced_.size(); }

  /// Visits `e`: its operands become what stands for them by now, and new equations take its place
  /// and carry its location, grad mode, half, checkpoint region.
  void at(EquationId e);
  /// Makes `values` stand for the results of `e`, the equation visited, as Rewriter::replace does.
  void replace(EquationId e, std::span<const ValueId> values);
  /// The graph, without dead code.
  Graph take();

 private:
  Graph graph_;
  GraphSink sink_;
  Builder builder_;
  std::vector<ValueId> stands_for_;  // by value that was there: itself, or what replaces it
  std::vector<uint32_t> first_new_;  // by equation visited: the first that was emitted in its place
  std::vector<bool> is_replaced_;
};

/// `graph` and its subgraphs without equations whose results are not used (unless they must run),
/// and without the subgraphs that only those named. Inputs stay.
TANDEM_API Graph remove_dead_code(Graph graph);

/// `graph` without the inputs that no equation or output reads.
TANDEM_API Graph remove_unread_inputs(const Graph& graph);

}  // namespace tandem::ir

#endif  // TANDEM_IR_BUILD_REWRITE_H
