// What is computed of permuted values element by element, and then reduced or permuted back, is
// computed in the order in which the values lie: rows stay rows in memory, and what nobody needs
// the other way round is never turned (the softmax of a loss over both the rows and the columns of
// one matrix, a norm over channels between two permutations).
#include <algorithm>
#include <numeric>

#include "decomps/candidate.h"
#include "decomps/dims.h"
#include "decomps/simplify.h"
#include "ir/build/rewrite.h"

namespace tandem::decomps {
namespace {

using ir::Attr;
using ir::AttrValue;
using ir::Axes;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::ValueId;

/// The dims of the values as they lie that `dims` of what is permuted by `order` are.
Axes dims_behind(const Axes& order, const Axes& dims) {
  Axes behind;
  for (const ir::Axis d : dims) behind.push_back(order[static_cast<size_t>(d)]);
  std::ranges::sort(behind);
  return behind;
}

/// Which values are computed of permuted ones alone, and whether all of them that belong together
/// lead back.
class Regions {
 public:
  explicit Regions(const Graph& g)
      : permute_of_(g), region_(g.num_values()), leads_back_(g.num_values(), true) {
    std::iota(region_.begin(), region_.end(), 0U);
    for (size_t i = 0; i < g.num_equations(); ++i) visit(g, g.equation_id(i));
    for (const ir::Output& o : g.outputs())
      if (is_computed(g, o.value)) leads_back_[region_of(o.value)] = false;
  }

  /// Whether `v` is permuted, or computed of what is, in a region that is computed as it lies.
  bool is_undone(ValueId v) { return permute_of_[v].valid() && leads_back_[region_of(v)]; }
  /// Whether `e` leads back from such a value.
  bool ends(const Graph& g, EquationId e) { return leads_back(g, e) && is_undone(g.operand(e, 0)); }
  /// How such a value is permuted.
  const Axes& order(const Graph& g, ValueId v) const {
    return g.attr<Axes>(permute_of_[v], Attr::dims);
  }

 private:
  /// Whether `e` reads a permuted value in no order of its own: a reduction, or the permutation
  /// back.
  bool leads_back(const Graph& g, EquationId e) const {
    const bool reduces = ir::info(g.op(e)).cls == ir::OpClass::Reduction;
    if (!reduces && g.op(e) != Op::permute) return false;
    const ValueId v = g.operand(e, 0);
    if (!permute_of_[v].valid()) return false;
    return reduces || g.attr<Axes>(e, Attr::dims) == ir::inverse(order(g, v));
  }

  void visit(const Graph& g, EquationId e) {
    if (leads_back(g, e)) return;
    if (starts(g, e)) permute_of_[g.result(e)] = e;
    if (const EquationId permute = permute_behind(g, e); permute.valid())
      return join(g, e, permute);
    for (const ValueId v : g.operands(e))
      if (is_computed(g, v) || (permute_of_[v].valid() && ir::is_pointwise(g.op(e))))
        leads_back_[region_of(v)] = false;
  }

  /// A permutation after which rows do not lie in memory as such.
  static bool starts(const Graph& g, EquationId e) {
    if (g.op(e) != Op::permute) return false;
    const Axes& order = g.attr<Axes>(e, Attr::dims);
    return order.back() + 1 != std::ssize(order);
  }

  /// The permutation that all operands have that are not repeated, if `e` is computed of such.
  EquationId permute_behind(const Graph& g, EquationId e) const {
    if (!ir::is_pointwise(g.op(e)) || g.equation(e).mark != ir::Mark::Auto) return {};
    EquationId found;
    for (const ValueId v : g.operands(e)) {
      if (!permute_of_[v].valid()) {
        if (!is_repeated(g, v)) return {};
      } else if (!found.valid()) {
        found = permute_of_[v];
      } else if (order(g, v) != g.attr<Axes>(found, Attr::dims)) {
        return {};
      }
    }
    return found;
  }

  void join(const Graph& g, EquationId e, EquationId permute) {
    permute_of_[g.result(e)] = permute;
    const uint32_t region = region_of(g.result(e));
    for (const ValueId v : g.operands(e)) {
      if (!permute_of_[v].valid()) continue;
      const uint32_t other = region_of(v);
      leads_back_[region] = leads_back_[region] && leads_back_[other];
      region_[other] = region;
    }
  }

  bool is_computed(const Graph& g, ValueId v) const {
    return permute_of_[v].valid() && g.result(permute_of_[v]) != v;
  }

  uint32_t region_of(ValueId v) {
    uint32_t at = v.index;
    while (region_[at] != at) at = region_[at] = region_[region_[at]];
    return at;
  }

  ir::ValueMap<EquationId> permute_of_;  // by value: the permutation that it has
  std::vector<uint32_t> region_;         // by value: another of its region, in the end itself
  std::vector<bool> leads_back_;         // by region
};

class Undoing {
 public:
  Undoing(Graph graph, Regions& regions)
      : splicer_(std::move(graph)), regions_(regions), as_it_lies_(splicer_.graph()) {}

  Graph run() {
    for (uint32_t i = 0; i < splicer_.num_equations(); ++i) visit({i});
    return simplify(splicer_.take());
  }

 private:
  void visit(EquationId e) {
    const Graph& g = splicer_.graph();
    const std::vector<ValueId> operands(g.operands(e).begin(), g.operands(e).end());
    const bool ends = regions_.ends(g, e);
    splicer_.at(e);
    if (g.results(e).size() != 1) return;
    const ValueId result = g.result(e);
    if (regions_.is_undone(result))
      as_it_lies_[result] = g.op(e) == Op::permute ? g.operand(e, 0) : computed(e, operands);
    else if (ends)
      splicer_.replace(
          e, {{g.op(e) == Op::permute ? as_it_lies_[operands[0]] : reduced(e, operands[0])}});
  }

  /// f(permute x, expand y) = permute(f(x, permute back(expand y)))
  ValueId computed(EquationId e, std::span<const ValueId> operands) {
    const Graph& g = splicer_.graph();
    const Axes back = ir::inverse(regions_.order(g, g.result(e)));
    const Op op = g.op(e);
    const std::vector<AttrValue> attrs(g.attrs(e).begin(), g.attrs(e).end());
    std::vector<ValueId> lying(g.operands(e).begin(), g.operands(e).end());
    for (size_t i = 0; i < lying.size(); ++i) {
      const ValueId known = as_it_lies_[operands[i]];
      lying[i] = known.valid() ? known : splicer_.builder().permute(lying[i], back);
    }
    return splicer_.builder().emit(op, lying, attrs);
  }

  /// sum(permute x, dims) = permute(sum(x, dims behind)), of which the dims stay as 1
  ValueId reduced(EquationId e, ValueId permuted) {
    const Graph& g = splicer_.graph();
    ir::Builder& b = splicer_.builder();
    const Axes order = regions_.order(g, permuted),
               dims = dims_behind(order, g.attr<Axes>(e, Attr::dims));
    const ir::Shape sizes = g.type(g.result(e)).sizes;
    const ValueId kept = reduce_in_turn(b, g.op(e), as_it_lies_[permuted], runs_of(dims));
    return b.view(b.permute(kept, order), sizes);
  }

  ir::Splicer splicer_;
  Regions& regions_;
  ir::ValueMap<ValueId> as_it_lies_;  // by value: what it is a permutation of, if it is undone
};

}  // namespace

Graph undo_permutations(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = undo_permutations(std::move(graph.subgraph({i})));
  if (std::ranges::count(graph.equations(), Op::permute, &ir::Equation::op) == 0) return graph;
  Regions regions(graph);
  for (size_t i = 0; i < graph.num_equations(); ++i)
    if (regions.ends(graph, graph.equation_id(i))) return Undoing(std::move(graph), regions).run();
  return graph;
}

}  // namespace tandem::decomps
