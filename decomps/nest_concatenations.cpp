// Views of concatenations that lead nowhere but into further concatenations (a padding of several
// dims, dim by dim) become concatenations of views. Lowering then writes the elements of the inner
// ones to where they belong in the outer one, instead of copying them at each level.
#include <algorithm>
#include <unordered_set>

#include "decomps/dims.h"
#include "decomps/simplify.h"
#include "ir/build/rewrite.h"

namespace tandem::decomps {
namespace {

using ir::Attr;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::ValueId;

/// How many parts a concatenation may have, counting those of its parts, for a view of it to be
/// taken apart: so graphs grow by no more than this.
constexpr size_t kMaxParts = 16;

/// Whether a view moves or repeats elements inside dims, whose number stays.
bool is_view_inside_dims(const Graph& g, EquationId e) {
  const Op op = g.op(e);
  if (op != Op::slice && op != Op::flip && op != Op::expand) return false;
  return g.type(g.operand(e, 0)).rank() == g.type(g.result(e)).rank();
}

/// The dims in which such a view shows other than all elements in their order.
DimSet changed_dims(const Graph& g, EquationId e) {
  DimSet dims = 0;
  if (g.op(e) == Op::slice) return only(g.attr<int64_t>(e, Attr::dim));
  if (g.op(e) == Op::flip) {
    for (const ir::Axis d : g.attr<ir::Axes>(e, Attr::dims)) dims |= only(d);
    return dims;
  }
  const ir::Shape &from = g.type(g.operand(e, 0)).sizes, &to = g.type(g.result(e)).sizes;
  for (int d = 0; d < to.rank(); ++d)
    if (from[d] != to[d]) dims |= only(d);
  return dims;
}

/// What becomes of values of a graph.
class Ways {
 public:
  explicit Ways(const Graph& g) : ways_(g.num_values()), parts_(g.num_values(), 1) {
    for (const ir::Output& o : g.outputs()) ways_[o.value.index].only_joined = false;
    for (size_t i = g.num_equations(); i-- > 0;) follow(g, g.equation_id(i));
    for (size_t i = 0; i < g.num_equations(); ++i) count_parts(g, g.equation_id(i));
  }

  /// Whether views of concatenation `e` are taken apart.
  bool takes_apart(const Graph& g, EquationId e) const {
    const uint32_t result = g.result(e).index;
    const Way& way = ways_[result];
    const bool cuts_through = (way.changed & only(g.attr<int64_t>(e, Attr::dim))) != 0;
    return way.only_joined && !cuts_through && parts_[result] <= kMaxParts;
  }

 private:
  struct Way {
    bool only_joined = true;  // all that reads it are concatenations, directly or through views
    DimSet changed = 0;       // by these views
  };

  void follow(const Graph& g, EquationId e) {
    const bool is_view = is_view_inside_dims(g, e);
    const Way behind = is_view ? ways_[g.result(e).index] : Way{g.op(e) == Op::cat};
    for (const ValueId v : g.operands(e)) {
      Way& way = ways_[v.index];
      way.only_joined = way.only_joined && behind.only_joined;
      way.changed |= behind.changed | (is_view ? changed_dims(g, e) : 0);
    }
  }

  void count_parts(const Graph& g, EquationId e) {
    const auto parts = [&](ValueId v) -> size_t& { return parts_[v.index]; };
    if (is_view_inside_dims(g, e)) parts(g.result(e)) = parts(g.operand(e, 0));
    if (g.op(e) != Op::cat) return;
    size_t sum = 0;
    for (const ValueId v : g.operands(e)) sum += parts(v);
    parts(g.result(e)) = sum;
  }

  std::vector<Way> ways_;      // by value
  std::vector<size_t> parts_;  // by value: of a concatenation and of views of it; else 1
};

template <class T>
std::vector<T> to_vector(std::span<const T> list) {
  return {list.begin(), list.end()};
}

class Nester {
 public:
  explicit Nester(Graph graph) : splicer_(std::move(graph)), ways_(splicer_.graph()) {}

  Graph run() {
    for (uint32_t i = 0; i < splicer_.num_equations(); ++i) {
      splicer_.at({i});
      visit({i});
    }
    return splicer_.take();
  }

 private:
  void visit(EquationId e) {
    const Graph& g = splicer_.graph();
    if (g.op(e) == Op::cat && ways_.takes_apart(g, e)) open_.insert(g.result(e).index);
    if (!is_view_inside_dims(g, e) || !open_.contains(g.operand(e, 0).index)) return;
    const ValueId joined = views_joined(e);
    open_.insert(joined.index);
    splicer_.replace(e, {{joined}});
  }

  /// view(cat(x, y, ...)) = cat(view x, view y, ...)
  ValueId views_joined(EquationId view) {
    const Graph& g = splicer_.graph();
    const EquationId cat = g.producer(g.operand(view, 0));
    const int dim = static_cast<int>(g.attr<int64_t>(cat, Attr::dim));
    const View of{g.op(view), g.type(g.result(view)).sizes, to_vector(g.attrs(view))};
    const std::vector<ValueId> parts = to_vector(g.operands(cat));
    std::vector<ValueId> views;
    for (const ValueId part : parts)
      if (splicer_.builder().rank(part) == of.sizes.rank())  // no legacy empty tensor
        views.push_back(view_of_part(of, part, dim));
    return splicer_.builder().cat(views, dim);
  }

  struct View {
    Op op;
    ir::Shape sizes;
    std::vector<ir::AttrValue> attrs;
  };
  /// `view` where it shows `part`, of another size along `dim`, instead of the whole.
  ValueId view_of_part(const View& view, ValueId part, int dim) {
    ir::Builder& b = splicer_.builder();
    if (view.op != Op::expand) return b.emit(view.op, {part}, view.attrs);
    ir::Shape sizes = view.sizes;
    sizes[dim] = b.sizes(part)[dim];
    return b.expand(part, sizes);
  }

  ir::Splicer splicer_;
  Ways ways_;
  std::unordered_set<uint32_t> open_;  // concatenations whose views are taken apart
};

}  // namespace

Graph nest_concatenations(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = nest_concatenations(std::move(graph.subgraph({i})));
  if (std::ranges::count(graph.equations(), Op::cat, &ir::Equation::op) < 2) return graph;
  return Nester(std::move(graph)).run();
}

}  // namespace tandem::decomps
