// A reduction over several dims runs through its operand element by element, in pieces that lie
// anywhere. Where what it is computed of does not step evenly from one dim to the next (repeated
// along some dims, sliced, permuted), that would have to be written to memory first. Such a
// reduction is cut there: rows first, which are computed where they are reduced, then what they
// give.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <vector>

#include "decomps/dims.h"
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

/// The dims whose steps are not as long as all of the dims behind them, but for those of size 1.
DimSet uneven_dims(const Shape& sizes, const Strides& strides) {
  DimSet uneven = 0;
  int next = -1;  // the dim behind, of more than one element
  for (int d = sizes.rank(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    if (next >= 0 && strides[d] != strides[next] * sizes[next]) uneven |= only(d);
    next = d;
  }
  return uneven;
}

/// Where what values are computed of steps unevenly, by value.
class Steps {
 public:
  explicit Steps(const Graph& g) : strides_(g), uneven_(g, 0), is_updated_(g, 0) {
    for (size_t i = 0; i < g.inputs().size(); ++i)
      is_updated_[g.inputs()[i].value] = ir::is_overwritten(g, static_cast<int>(i)) ? 1 : 0;
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
      } else if (ir::writes_part(g.op(e)) && is_updated_[g.operand(e, 0)] != 0) {
        is_updated_[v] = 1;
        lies(g, v, strides_[g.operand(e, 0)]);
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
  ir::ValueMap<uint8_t> is_updated_;  // whether the new contents of an input are written in it
};

/// Whether `e` reduces several dims to the last, of many elements.
bool can_be_cut(const Graph& g, EquationId e) {
  constexpr int64_t kFewElements = 4096;  // that may as well be written
  if (ir::info(g.op(e)).cls != ir::OpClass::Reduction) return false;
  const auto& dims = g.attr<Axes>(e, Attr::dims);
  const Shape& sizes = g.type(g.operand(e, 0)).sizes;
  return dims.size() >= 2 && dims.back() + 1 == sizes.rank() && ir::numel(sizes) > kFewElements;
}

/// The first of the last dims of such a reduction that its operand steps evenly through, if they
/// are not all that it reduces.
std::optional<ir::Axis> cut_of(const Graph& g, EquationId e, const Steps& steps) {
  const auto& dims = g.attr<Axes>(e, Attr::dims);
  for (ir::Axis d = dims.back(); d-- > dims[0];)
    if ((steps.uneven(g.operand(e, 0)) & only(d)) != 0) return d + 1;
  return {};
}

// sum(x, dims) = sum(sum(x, last dims), others)
void cut_reduction(ir::Splicer& splicer, EquationId e, ir::Axis cut) {
  const Graph& g = splicer.graph();
  ir::Builder& b = splicer.builder();
  const Shape sizes = g.type(g.result(e)).sizes;
  std::array<Axes, 2> runs;
  for (const ir::Axis d : g.attr<Axes>(e, Attr::dims)) runs[d < cut ? 0 : 1].push_back(d);
  splicer.replace(e, {{b.view(reduce_in_turn(b, g.op(e), g.operand(e, 0), runs), sizes)}});
}

/// By reduction that is cut, where.
std::map<uint32_t, ir::Axis> cuts_of(const Graph& g) {
  std::vector<EquationId> candidates;
  for (uint32_t i = 0; i < g.num_equations(); ++i)
    if (can_be_cut(g, {i})) candidates.push_back({i});
  std::map<uint32_t, ir::Axis> cuts;
  if (candidates.empty()) return cuts;
  const Steps steps(g);
  for (const EquationId e : candidates)
    if (const auto cut = cut_of(g, e, steps)) cuts[e.index] = *cut;
  return cuts;
}

}  // namespace

Graph split_reductions(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = split_reductions(std::move(graph.subgraph({i})));
  const std::map<uint32_t, ir::Axis> cuts = cuts_of(graph);
  if (cuts.empty()) return graph;
  ir::Splicer splicer(std::move(graph));
  for (uint32_t i = 0; i < splicer.num_equations(); ++i) {
    splicer.at({i});
    if (const auto cut = cuts.find(i); cut != cuts.end()) cut_reduction(splicer, {i}, cut->second);
  }
  return splicer.take();
}

}  // namespace tandem::decomps
