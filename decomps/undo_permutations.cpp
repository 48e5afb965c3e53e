// What is computed of permuted values (by an equation, or as an input lies) element by element, and
// then reduced, permuted back or given as a result that lies alike, is computed in the order in
// which the values lie: rows stay rows in memory, and what nobody needs
// the other way round is never turned (the softmax of a loss over both the rows and the columns of
// one matrix, a norm over channels between two permutations).
#include <algorithm>
#include <numeric>
#include <optional>

#include "decomps/candidate.h"
#include "decomps/dims.h"
#include "decomps/simplify.h"
#include "ir/build/rewrite.h"
#include "ir/geometry.h"
#include "ir/strides.h"

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

/// Whether rows do not lie in memory as such after this permutation.
bool moves_rows(const Axes& order) { return order.back() + 1 != std::ssize(order); }

/// How a dense tensor of these sizes and strides is permuted, if its rows do not lie in memory.
std::optional<Axes> order_in_memory(const ir::Shape& sizes, const ir::Strides& strides) {
  if (sizes.rank() < 2 || ir::is_contiguous(sizes, strides) || !ir::is_dense(sizes, strides))
    return std::nullopt;
  const Axes order = ir::inverse(ir::memory_order(strides));
  return moves_rows(order) ? std::optional(order) : std::nullopt;
}

/// Which values are computed of permuted ones alone, and whether all of them that belong together
/// lead back.
class Regions {
 public:
  explicit Regions(const Graph& g)
      : order_(g), is_source_(g), region_(g.num_values()), leads_back_(g.num_values(), true) {
    std::iota(region_.begin(), region_.end(), 0U);
    for (const ir::Input& in : g.inputs())
      if (const ir::Type& t = g.type(in.value); !t.is_token)
        if (const auto order = order_in_memory(t.sizes, in.strides)) start(in.value, *order);
    for (size_t i = 0; i < g.num_equations(); ++i) visit(g, g.equation_id(i));
    for (const ir::Output& out : g.outputs())
      if (is_computed(out.value) && !lies_alike(g, out)) leads_back_[region_of(out.value)] = false;
  }

  /// Whether `v` is permuted, or computed of what is, in a region that is computed as it lies.
  bool is_undone(ValueId v) { return order_[v] && leads_back_[region_of(v)]; }
  /// Whether an undone `v` is what the others are computed of.
  bool is_source(ValueId v) const { return is_source_[v]; }
  /// Whether `e` leads back from such a value.
  bool ends(const Graph& g, EquationId e) { return leads_back(g, e) && is_undone(g.operand(e, 0)); }
  /// Whether an output is such a value, and lies as it does.
  bool ends(const ir::Output& out) { return is_computed(out.value) && is_undone(out.value); }
  /// How such a value is permuted.
  const Axes& order(ValueId v) const { return *order_[v]; }

 private:
  void start(ValueId v, const Axes& order) { order_[v] = order, is_source_[v] = true; }
  bool is_computed(ValueId v) const { return order_[v] && !is_source_[v]; }

  /// Whether `e` reads a permuted value in no order of its own: a reduction, or the permutation
  /// back.
  bool leads_back(const Graph& g, EquationId e) const {
    const bool reduces = ir::info(g.op(e)).cls == ir::OpClass::Reduction;
    if (!reduces && g.op(e) != Op::permute) return false;
    const ValueId v = g.operand(e, 0);
    if (!order_[v]) return false;
    return reduces || g.attr<Axes>(e, Attr::dims) == ir::inverse(order(v));
  }

  bool lies_alike(const Graph& g, const ir::Output& out) const {
    return order_in_memory(g.type(out.value).sizes, out.strides) == order_[out.value];
  }

  void visit(const Graph& g, EquationId e) {
    if (leads_back(g, e)) return;
    if (g.op(e) == Op::permute && moves_rows(g.attr<Axes>(e, Attr::dims)))
      start(g.result(e), g.attr<Axes>(e, Attr::dims));
    if (const auto order = order_behind(g, e)) return join(g, e, *order);
    for (const ValueId v : g.operands(e))
      if (is_computed(v) || (order_[v] && ir::is_pointwise(g.op(e))))
        leads_back_[region_of(v)] = false;
  }

  /// The permutation that all operands have that are not repeated, if `e` is computed of such.
  std::optional<Axes> order_behind(const Graph& g, EquationId e) const {
    if (!ir::is_pointwise(g.op(e)) || g.equation(e).mark != ir::Mark::Auto) return {};
    std::optional<Axes> found;
    for (const ValueId v : g.operands(e)) {
      if (!order_[v]) {
        if (!is_repeated(g, v)) return {};
      } else if (!found) {
        found = order_[v];
      } else if (order_[v] != found) {
        return {};
      }
    }
    return found;
  }

  void join(const Graph& g, EquationId e, const Axes& order) {
    order_[g.result(e)] = order;
    const uint32_t region = region_of(g.result(e));
    for (const ValueId v : g.operands(e)) {
      if (!order_[v]) continue;
      const uint32_t other = region_of(v);
      leads_back_[region] = leads_back_[region] && leads_back_[other];
      region_[other] = region;
    }
  }

  uint32_t region_of(ValueId v) {
    uint32_t at = v.index;
    while (region_[at] != at) at = region_[at] = region_[region_[at]];
    return at;
  }

  ir::ValueMap<std::optional<Axes>> order_;  // by value: the permutation that it has
  ir::ValueMap<uint8_t> is_source_;          // by value: a permutation or an input
  std::vector<uint32_t> region_;             // by value: another of its region, in the end itself
  std::vector<bool> leads_back_;             // by region
};

class Undoing {
 public:
  Undoing(Graph graph, Regions& regions)
      : splicer_(std::move(graph)),
        regions_(regions),
        as_it_lies_(splicer_.graph()),
        is_output_(splicer_.graph()) {
    for (const ir::Output& out : splicer_.graph().outputs()) is_output_[out.value] = true;
  }

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
    if (regions_.is_undone(result)) {
      as_it_lies_[result] = regions_.is_source(result) ? g.operand(e, 0) : computed(e, operands);
      if (is_output_[result] && !regions_.is_source(result))
        splicer_.replace(e, {{permuted(result)}});
    } else if (ends) {
      splicer_.replace(e,
                       {{g.op(e) == Op::permute ? lying(operands[0]) : reduced(e, operands[0])}});
    }
  }

  /// What `v` is a permutation of; an input is one of what its memory holds in order.
  ValueId lying(ValueId v) {
    ValueId& lies = as_it_lies_[v];
    if (!lies.valid()) lies = splicer_.builder().permute(v, ir::inverse(regions_.order(v)));
    return lies;
  }
  ValueId permuted(ValueId v) {
    return splicer_.builder().permute(as_it_lies_[v], regions_.order(v));
  }

  /// f(permute x, expand y) = permute(f(x, permute back(expand y)))
  ValueId computed(EquationId e, std::span<const ValueId> operands) {
    const Graph& g = splicer_.graph();
    const Axes back = ir::inverse(regions_.order(g.result(e)));
    const Op op = g.op(e);
    const std::vector<AttrValue> attrs(g.attrs(e).begin(), g.attrs(e).end());
    std::vector<ValueId> values(g.operands(e).begin(), g.operands(e).end());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = regions_.is_undone(operands[i]) ? lying(operands[i])
                                                  : splicer_.builder().permute(values[i], back);
    return splicer_.builder().emit(op, values, attrs);
  }

  /// sum(permute x, dims) = permute(sum(x, dims behind)), of which the dims stay as 1
  ValueId reduced(EquationId e, ValueId permuted) {
    const Graph& g = splicer_.graph();
    ir::Builder& b = splicer_.builder();
    const Axes order = regions_.order(permuted),
               dims = dims_behind(order, g.attr<Axes>(e, Attr::dims));
    const ir::Shape sizes = g.type(g.result(e)).sizes;
    const ValueId kept = reduce_in_turn(b, g.op(e), lying(permuted), runs_of(dims));
    return b.view(b.permute(kept, order), sizes);
  }

  ir::Splicer splicer_;
  Regions& regions_;
  ir::ValueMap<ValueId> as_it_lies_;  // by value: what it is a permutation of, if it is undone
  ir::ValueMap<uint8_t> is_output_;
};

}  // namespace

Graph undo_permutations(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = undo_permutations(std::move(graph.subgraph({i})));
  Regions regions(graph);
  bool any =
      std::ranges::any_of(graph.outputs(), [&](const auto& out) { return regions.ends(out); });
  for (size_t i = 0; !any && i < graph.num_equations(); ++i)
    any = regions.ends(graph, graph.equation_id(i));
  return any ? Undoing(std::move(graph), regions).run() : graph;
}

}  // namespace tandem::decomps
