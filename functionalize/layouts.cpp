#include "functionalize/layouts.h"

#include "ir/base/error.h"
#include "ir/geometry.h"

namespace tandem::functionalize {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::Strides;
using ir::ValueId;

// A graph that no eager program gave may have a view that strides cannot express: it counts as
// contiguous.
Strides of_view(const Graph& graph, EquationId e, ValueId result, const Strides& from) {
  try {
    return ir::placed_view(graph.op(e), graph.type(graph.operand(e, 0)), from, 0, graph.attrs(e),
                           graph.type(result))
        .strides;
  } catch (const ir::Error&) {
    return ir::contiguous_strides(graph.type(result).sizes);
  }
}

Strides result_of(const Graph& graph, EquationId e, ValueId result,
                  const ir::ValueMap<Strides>& strides) {
  const ir::Shape& sizes = graph.type(result).sizes;
  const auto sizes_of = [&](ValueId v) -> const ir::Shape& { return graph.type(v).sizes; };
  if (ir::is_view(graph.op(e))) return of_view(graph, e, result, strides[graph.operand(e, 0)]);
  std::vector<ir::Extent> operands;
  for (ValueId v : graph.operands(e)) operands.push_back({sizes_of(v), strides[v]});
  return ir::result_strides(graph.op(e), operands, sizes);
}

}  // namespace

ir::ValueMap<Strides> traced_strides(const Graph& traced) {
  ir::ValueMap<Strides> strides(traced, {});
  for (const ir::Input& input : traced.inputs()) strides[input.value] = input.strides;
  for (size_t i = 0; i < traced.num_equations(); ++i) {
    const EquationId e = traced.equation_id(i);
    for (ValueId v : traced.results(e))
      strides[v] = traced.type(v).is_token ? Strides() : result_of(traced, e, v, strides);
  }
  return strides;
}

}  // namespace tandem::functionalize
