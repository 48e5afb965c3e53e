// What is computed of permuted values or parts of them (permuted by an equation, or as an input
// lies), element by element or along single dims, and then reduced, permuted back or given as a
// result that lies alike, is computed in the order in which the values lie: rows stay rows in
// memory, and what nobody needs the other way round is never turned (the softmax of a loss over
// both the rows and the columns of one matrix, a norm over channels between two permutations).
// What is reduced along other dims than rows and given otherwise is turned in the end.
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

/// `dims`, those whose size is 1 first: where they lie says nothing.
Axes units_first(Axes dims, const ir::Shape& sizes) {
  std::ranges::stable_partition(dims, [&](ir::Axis d) { return sizes[static_cast<int>(d)] == 1; });
  return dims;
}

/// How a dense tensor of these sizes and strides is permuted, if its rows do not lie in memory.
std::optional<Axes> order_in_memory(const ir::Shape& sizes, const ir::Strides& strides) {
  if (sizes.rank() < 2 || ir::is_contiguous(sizes, strides) || !ir::is_dense(sizes, strides))
    return std::nullopt;
  const Axes order = ir::inverse(units_first(ir::memory_order(strides), sizes));
  return moves_rows(order) ? std::optional(order) : std::nullopt;
}

/// The dims of what is permuted by `order`, as they lie, but for those of size 1.
Axes long_dims(const Axes& order, const ir::Shape& sizes) {
  Axes dims;
  for (const ir::Axis d : ir::inverse(order))
    if (sizes[static_cast<int>(d)] != 1) dims.push_back(d);
  return dims;
}

/// Whether all elements lie along one dim: no permutation moves them.
bool is_line(const ir::Shape& sizes) {
  return std::ranges::count_if(sizes, [](ir::Dim size) { return size != 1; }) <= 1;
}

/// Whether values of these sizes lie in one order by either permutation.
bool lie_alike(const Axes& a, const Axes& b, const ir::Shape& sizes) {
  return a == b || long_dims(a, sizes) == long_dims(b, sizes);
}

/// How what is permuted by `order` is so as `to` sizes, which differ in dims of size 1 alone.
std::optional<Axes> order_of_view(const Axes& order, const ir::Shape& from, const ir::Shape& to) {
  const auto is_long = [](ir::Dim size) { return size != 1; };
  Axes shown_by;  // by dim of `from`: that of `to`
  int d = 0;
  for (const ir::Dim size : from) {
    shown_by.push_back(-1);
    if (!is_long(size)) continue;
    while (d < to.rank() && !is_long(to[d])) ++d;
    if (d == to.rank() || to[d] != size) return std::nullopt;
    shown_by.back() = d++;
  }
  Axes lying;  // by dim of what lies: that of `to`
  for (int i = 0; i < to.rank(); ++i)
    if (!is_long(to[i])) lying.push_back(i);
  for (const ir::Axis behind : long_dims(order, from))
    lying.push_back(shown_by[static_cast<size_t>(behind)]);
  if (std::ssize(lying) != to.rank()) return std::nullopt;
  return ir::inverse(lying);
}

/// Whether an op reads or writes places of its first operand, wherever the others lie.
bool reaches_places(Op op) {
  return ir::writes_part(op) || op == Op::index_select || op == Op::gather;
}

/// Whether an op does the same to every line along some dims, whichever way the others lie.
bool works_along_dims(Op op) {
  return reaches_places(op) || op == Op::slice || op == Op::pad || op == Op::cat || op == Op::flip;
}

/// `numbers`, `count` for each dim of what is permuted by `order`, for the dims as they lie.
ir::Dims each_behind(const Axes& order, const ir::Dims& numbers, size_t count) {
  ir::Dims behind;
  for (const ir::Axis d : ir::inverse(order))
    for (size_t i = 0; i < count; ++i)
      behind.push_back(numbers[static_cast<size_t>(d) * count + i]);
  return behind;
}

/// The attributes of what is computed of values permuted by `order`, for the values as they lie.
std::vector<AttrValue> attrs_behind(Op op, std::span<const AttrValue> attrs, const Axes& order) {
  std::vector<AttrValue> behind(attrs.begin(), attrs.end());
  if (!works_along_dims(op) && op != Op::view) return behind;
  for (size_t i = 0; i < behind.size(); ++i) {
    const Attr name = ir::info(op).attrs[i];
    if (name == Attr::dim || name == Attr::dim0 || name == Attr::dim1)
      behind[i] = order[static_cast<size_t>(std::get<int64_t>(behind[i]))];
    if (name == Attr::dims) behind[i] = dims_behind(order, std::get<Axes>(behind[i]));
    if (name == Attr::sizes) behind[i] = each_behind(order, std::get<ir::Dims>(behind[i]), 1);
    if (name == Attr::padding) behind[i] = each_behind(order, std::get<ir::Dims>(behind[i]), 2);
  }
  return behind;
}

/// How what replaces a diagonal of what is permuted by `order` is permuted to replace that of what
/// lies: it has the other dims, in their order, and the diagonal last.
Axes diagonal_behind(const Axes& order, int64_t dim0, int64_t dim1) {
  std::vector<std::pair<ir::Axis, ir::Axis>> others;  // which it is of what lies, and of the source
  for (int64_t d = 0; d < std::ssize(order); ++d)
    if (d != dim0 && d != dim1)
      others.emplace_back(order[static_cast<size_t>(d)], std::ssize(others));
  std::ranges::sort(others);
  Axes behind;
  for (const auto& [lying, of_source] : others) behind.push_back(of_source);
  behind.push_back(std::ssize(others));
  return behind;
}

/// How operand `i` of `e`, whose result is permuted by `order`, is permuted where that is computed
/// as it lies.
Axes operand_behind(const Graph& g, EquationId e, size_t i, const Axes& order) {
  const bool is_index = i == 1 && (g.op(e) == Op::index_add || g.op(e) == Op::index_select);
  if (i == 0 || g.op(e) != Op::diagonal_scatter) return is_index ? Axes{0} : ir::inverse(order);
  return diagonal_behind(order, g.attr<int64_t>(e, Attr::dim0), g.attr<int64_t>(e, Attr::dim1));
}

/// Which values are computed of permuted ones alone, and whether all of them that belong together
/// lead back.
class Regions {
 public:
  explicit Regions(const Graph& g)
      : order_(g),
        is_source_(g),
        region_(g.num_values()),
        leads_back_(g.num_values(), true),
        is_turned_(g.num_values()),
        is_reduced_(g.num_values()) {
    std::iota(region_.begin(), region_.end(), 0U);
    for (const ir::Input& in : g.inputs())
      if (const ir::Type& t = g.type(in.value); !t.is_token)
        if (const auto order = order_in_memory(t.sizes, in.strides)) start(in.value, *order);
    for (size_t i = 0; i < g.num_equations(); ++i) visit(g, g.equation_id(i));
    for (const ir::Output& out : g.outputs())
      if (is_computed(out.value) && !is_line(g.type(out.value).sizes) && !lies_alike(g, out))
        is_turned_[region_of(out.value)] = true;
  }

  /// Whether `v` is permuted, or computed of what is.
  bool is_permuted(ValueId v) const { return order_[v].has_value(); }
  /// And whether it is so in a region that is computed as it lies.
  bool is_undone(ValueId v) {
    if (!is_permuted(v)) return false;
    const uint32_t region = region_of(v);
    return leads_back_[region] && (!is_turned_[region] || is_reduced_[region]);
  }
  /// Whether `v` is permuted so that it lies as what is permuted by `order`.
  bool lies_by(const Graph& g, ValueId v, const Axes& order) const {
    return order_[v] && order_[v]->size() == order.size() &&
           lie_alike(*order_[v], order, g.type(v).sizes);
  }
  /// Whether an undone `v` is what the others are computed of.
  bool is_source(ValueId v) const { return is_source_[v]; }
  /// Whether `e` leads back from such a value.
  bool ends(const Graph& g, EquationId e) { return leads_back(g, e) && is_undone(g.operand(e, 0)); }
  /// Whether an output is such a value.
  bool ends(const ir::Output& out) { return is_computed(out.value) && is_undone(out.value); }
  /// How such a value is permuted.
  const Axes& order(ValueId v) const { return *order_[v]; }

 private:
  void start(ValueId v, const Axes& order) { order_[v] = order, is_source_[v] = true; }
  bool is_computed(ValueId v) const { return order_[v] && !is_source_[v]; }
  /// Whether its permutation moves elements: else it can be read by anything as it lies.
  bool is_moved(const Graph& g, ValueId v) const { return order_[v] && !is_line(g.type(v).sizes); }

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
    const ir::Shape& sizes = g.type(out.value).sizes;
    const auto order = order_in_memory(sizes, out.strides);
    return order && lie_alike(*order, *order_[out.value], sizes);
  }

  void visit(const Graph& g, EquationId e) {
    if (leads_back(g, e)) {
      if (g.op(e) != Op::permute && keeps_rows(g, e))
        is_reduced_[region_of(g.operand(e, 0))] = true;
      return;
    }
    if (g.op(e) == Op::permute && moves_rows(g.attr<Axes>(e, Attr::dims)))
      start(g.result(e), g.attr<Axes>(e, Attr::dims));
    if (const auto order = order_behind(g, e))
      return is_part(g, e) ? start(g.result(e), *order) : join(g, e, *order);
    for (const ValueId v : g.operands(e))
      if (is_moved(g, v) && (is_computed(v) || ir::is_pointwise(g.op(e))))
        leads_back_[region_of(v)] = false;
  }

  /// Whether reduction `e` is along other dims than rows: whose elements lie anywhere.
  static bool keeps_rows(const Graph& g, EquationId e) {
    const auto& dims = g.attr<Axes>(e, Attr::dims);
    return dims.empty() || dims.back() + 1 != g.type(g.operand(e, 0)).rank();
  }

  /// Whether `e` shows a part of what is permuted.
  bool is_part(const Graph& g, EquationId e) const {
    return ir::is_view(g.op(e)) && is_source_[g.operand(e, 0)];
  }

  /// How the result of `e` is permuted, if it is computed of what is.
  std::optional<Axes> order_behind(const Graph& g, EquationId e) const {
    if (g.equation(e).mark != ir::Mark::Auto) return {};
    const Op op = g.op(e);
    std::optional<Axes> found;
    if (ir::is_pointwise(op) || works_along_dims(op))
      found = order_of_operands(g, e);
    else if (op == Op::view && order_[g.operand(e, 0)])
      found = order_of_view(*order_[g.operand(e, 0)], g.type(g.operand(e, 0)).sizes,
                            g.type(g.result(e)).sizes);
    return found && (!is_part(g, e) || moves_rows(*found)) ? found : std::nullopt;
  }

  /// The permutation that all operands have that are not repeated; of those that are longest, as
  /// dims of size 1 may lie anywhere.
  std::optional<Axes> order_of_operands(const Graph& g, EquationId e) const {
    if (reaches_places(g.op(e))) return order_of_places(g, e);
    std::optional<Axes> found;
    size_t most = 0;
    for (const ValueId v : g.operands(e)) {
      if (!order_[v]) continue;
      const size_t dims = long_dims(*order_[v], g.type(v).sizes).size();
      if (!found || dims > most) found = order_[v], most = dims;
    }
    const auto fits = [&](ValueId v) {
      if (order_[v]) return lies_by(g, v, *found);
      return is_repeated(g, v) || is_line(g.type(v).sizes);
    };
    return found && std::ranges::all_of(g.operands(e), fits) ? found : std::nullopt;
  }

  /// (Of an input anything can be picked as it lies.)
  std::optional<Axes> order_of_places(const Graph& g, EquationId e) const {
    const ValueId self = g.operand(e, 0);
    return ir::writes_part(g.op(e)) || is_computed(self) ? order_[self] : std::nullopt;
  }

  void join(const Graph& g, EquationId e, const Axes& order) {
    order_[g.result(e)] = order;
    const uint32_t region = region_of(g.result(e));
    for (const ValueId v : g.operands(e)) {
      if (!order_[v]) continue;
      const uint32_t other = region_of(v);
      if (g.op(e) != Op::view && !lies_by(g, v, order)) {
        if (is_computed(v) && is_moved(g, v)) leads_back_[other] = false;
        continue;
      }
      leads_back_[region] = leads_back_[region] && leads_back_[other];
      is_turned_[region] = is_turned_[region] || is_turned_[other];
      is_reduced_[region] = is_reduced_[region] || is_reduced_[other];
      region_[other] = region;
    }
  }

  uint32_t region_of(ValueId v) {
    uint32_t at = v.index;
    while (region_[at] != at) at = region_[at] = region_[region_[at]];
    return at;
  }

  ir::ValueMap<std::optional<Axes>> order_;  // by value: the permutation that it has
  ir::ValueMap<uint8_t> is_source_;          // by value: a permutation, an input, a part of such
  std::vector<uint32_t> region_;             // by value: another of its region, in the end itself
  std::vector<bool> leads_back_;             // by region: whether no step needs it permuted
  std::vector<bool> is_turned_;              // by region: whether a result lies otherwise
  std::vector<bool> is_reduced_;             // by region: along other dims than rows
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
      as_it_lies_[result] = g.op(e) == Op::permute ? g.operand(e, 0) : computed(e, operands);
      const bool is_read_elsewhere = is_output_[result] || is_line(g.type(result).sizes);
      if (is_read_elsewhere && !regions_.is_source(result))
        splicer_.replace(e, {{permuted(result)}});
    } else if (ends) {
      splicer_.replace(e,
                       {{g.op(e) == Op::permute ? lying(operands[0]) : reduced(e, operands[0])}});
    }
  }

  /// What `v` is a permutation of; an input is one of what its memory holds in order. (A part may
  /// be computed as it lies where the whole is not.)
  ValueId lying(ValueId v) {
    ValueId& lies = as_it_lies_[v];
    if (!lies.valid()) lies = splicer_.builder().permute(v, ir::inverse(regions_.order(v)));
    return lies;
  }
  /// The same in another order of which that is true: dims of size 1 may lie anywhere.
  ValueId lying(ValueId v, const Axes& order) {
    const ValueId lies = lying(v);
    if (regions_.order(v) == order) return lies;
    const ir::Shape sizes = splicer_.graph().type(v).sizes;
    return splicer_.builder().view(lies, ir::Shape(each_behind(order, ir::Dims(sizes), 1)));
  }
  ValueId permuted(ValueId v) {
    return splicer_.builder().permute(as_it_lies_[v], regions_.order(v));
  }

  /// f(permute x, expand y) = permute(f(x, permute back(expand y)))
  ValueId computed(EquationId e, std::span<const ValueId> operands) {
    const Graph& g = splicer_.graph();
    const Axes order = regions_.order(g.result(e));
    const Op op = g.op(e);
    const std::vector<AttrValue> attrs = attrs_behind(op, g.attrs(e), order);
    std::vector<ValueId> values(g.operands(e).begin(), g.operands(e).end());
    for (size_t i = 0; i < values.size(); ++i)
      if (op == Op::view)
        values[i] = lying(operands[i]);
      else if (regions_.lies_by(g, operands[i], order))
        values[i] = lying(operands[i], order);
      else
        values[i] = splicer_.builder().permute(values[i], operand_behind(g, e, i, order));
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
