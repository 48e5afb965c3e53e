// The one rewriter: every pass that maps a graph to a graph copies equations in order through it.
#ifndef TANDEM_IR_REWRITE_H
#define TANDEM_IR_REWRITE_H

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "builder.h"
#include "export.h"
#include "graph.h"

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
  std::vector<ValueId> operands_;      // of the equation that is being copied
};

/// What a callback returns for one equation: nothing (copy it), or the values that stand for its
/// results.
using Replacement = std::optional<ValueList>;
using RewriteRule = std::function<Replacement(Rewriter& rewriter, EquationId e)>;

/// Copies `graph` with `rule` applied to every equation of it and (first) of its subgraphs, which
/// keep their ids.
TANDEM_API Graph rewrite(const Graph& graph, const RewriteRule& rule);

/// `graph` and its subgraphs without equations whose results are not used (no effects, not in
/// place), and without the subgraphs that only those named. Inputs stay.
TANDEM_API Graph remove_dead_code(Graph graph);

}  // namespace tandem::ir

#endif  // TANDEM_IR_REWRITE_H
