// A reduction over several dims runs through its operand element by element, in pieces that lie
// anywhere. Where what it is computed of does not step evenly from one dim to the next (repeated
// along some dims, sliced, permuted), that would have to be written to memory first. Such a
// reduction is cut there: rows first, which are computed where they are reduced, then what they
// give.
#include <algorithm>

#include "decomps/simplify.h"
#include "ir/build/rewrite.h"
#include "ir/geometry.h"

namespace tandem::decomps {
namespace {

using ir::Attr;
using ir::Axes;
using ir::Dim;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::Shape;
using ir::Strides;
using ir::ValueId;

/// A set of dims, by bits.
using DimSet = uint64_t;
static_assert(ir::kMaxRank <= 64);

/// The dims whose steps are not as long as all of the dims behind them, but for those of size 1.
DimSet uneven_dims(const Shape& sizes, const Strides& strides) {
  DimSet uneven = 0;
  int next = -1;  // the dim behind, of more than one element
  for (int d = sizes.rank(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (next >= 0 && strides[d] != strides[next] * sizes[next]) uneven |= DimSet{1} << d;
    next = d;
  }
  return uneven;
}

/// Where what values are computed of steps unevenly, by value.
class Steps {
 public:
  explicit Steps(const Graph& g) : strides_(g), uneven_(g, 0) {
    for (const ir::Input& input : g.inputs())
      lies(g, input.value,
           input.strides.empty() ? ir::contiguous_strides(g.type(input.value).sizes)
                                 : input.strides);
    for (size_t i = 0; i < g.num_equations(); ++i) visit(g, g.equation_id(i));
  }

  DimSet uneven(ValueId v) const { return uneven_[v]; }

 private:
  void visit(const Graph& g, EquationId e) {
    for (const ValueId v : g.results(e)) {
      const Shape& sizes = g.type(v).sizes;
      if (ir::info(g.op(e)).cls == ir::OpClass::View) {
        lies(g, v, view(g, e));
      } else if (g.op(e) == Op::full) {
        lies(g, v, nowhere(sizes));
      } else {
        lies(g, v, ir::contiguous_strides(sizes));
        if (ir::is_pointwise(g.op(e)))
          for (const ValueId operand : g.operands(e)) uneven_[v] |= uneven_[operand];
      }
    }
  }

  void lies(const Graph& g, ValueId v, Strides strides) {
    uneven_[v] = uneven_dims(g.type(v).sizes, strides);
    strides_[v] = std::move(strides);
  }

  /// The strides of what is the same everywhere.
  static Strides nowhere(const Shape& sizes) {
    Strides strides = ir::contiguous_strides(sizes);
    std::ranges::fill(strides, Dim(0));
    return strides;
  }

  /// The strides of a view; of one that needs a copy, its own.
  Strides view(const Graph& g, EquationId e) const {
    const ValueId of = g.operand(e, 0);
    const Shape &from = g.type(of).sizes, &to = g.type(g.result(e)).sizes;
    if (g.op(e) == Op::view)
      return ir::strides_as(from, strides_[of], to).value_or(ir::contiguous_strides(to));
    if (g.op(e) == Op::as_strided || g.op(e) == Op::view_dtype) return ir::contiguous_strides(to);
    return ir::view_geometry(g.op(e), from, strides_[of], g.attrs(e), to).strides;
  }

  ir::ValueMap<Strides> strides_;
  ir::ValueMap<DimSet> uneven_;
};

/// The first of the last dims of reduction `e` that its operand steps evenly through, if they are
/// not all that it reduces.
std::optional<ir::Axis> cut_of(const Graph& g, EquationId e, const Steps& steps) {
  constexpr int64_t kFewElements = 4096;  // that may as well be written
  if (ir::info(g.op(e)).cls != ir::OpClass::Reduction) return {};
  const ValueId v = g.operand(e, 0);
  const auto& dims = g.attr<Axes>(e, Attr::dims);
  const ir::Type& type = g.type(v);
  if (dims.size() < 2 || dims.back() + 1 != type.rank() || ir::numel(type.sizes) <= kFewElements)
    return {};
  for (ir::Axis d = dims.back(); d-- > dims[0];)
    if ((steps.uneven(v) >> d & 1) != 0) return d + 1;
  return {};
}

// sum(x, dims) = sum(sum(x, last dims), others)
void cut_reduction(ir::Splicer& splicer, EquationId e, ir::Axis cut) {
  const Graph& g = splicer.graph();
  ir::Builder& b = splicer.builder();
  const Op op = g.op(e);
  const Shape sizes = g.type(g.result(e)).sizes;
  Axes rows, others;
  for (const ir::Axis d : g.attr<Axes>(e, Attr::dims)) (d < cut ? others : rows).push_back(d);
  const ValueId of_rows = b.reduce(op, g.operand(e, 0), rows, true);
  splicer.replace(e, {{b.view(b.reduce(op, of_rows, others, true), sizes)}});
}

}  // namespace

Graph split_reductions(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = split_reductions(std::move(graph.subgraph({i})));
  ir::Splicer splicer(std::move(graph));
  const Steps steps(splicer.graph());
  for (uint32_t i = 0; i < splicer.num_equations(); ++i) {
    const auto cut = cut_of(splicer.graph(), {i}, steps);
    splicer.at({i});
    if (cut) cut_reduction(splicer, {i}, *cut);
  }
  return splicer.take();
}

}  // namespace tandem::decomps
