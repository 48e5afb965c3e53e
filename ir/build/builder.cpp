// Builder: emission, and the sink that records into a graph.
#include "ir/build/builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/error.h"
#include "ir/shape/shape_rules.h"

namespace tandem::ir {

void GraphSink::emit(Op op, std::span<const ValueId> operands, AttrsRef attrs, bool in_place,
                     std::span<const Type> types, std::span<ValueId> results) {
  const EquationId e = graph_.append(op, operands, attrs, types, in_place);
  Equation& equation = graph_.equation(e);
  equation.location = location;
  equation.grad_enabled = grad_enabled;
  equation.is_backward = is_backward;
  equation.region = region;
  std::ranges::copy(graph_.results(e), results.begin());
}

InlineVector<Type, 4> Builder::types_of(std::span<const V> values) const {
  InlineVector<Type, 4> types;
  for (V v : values) types.push_back(type(v));
  return types;
}

ValueId Builder::emit(Op op, std::initializer_list<V> operands, AttrsRef attrs) {
  return emit(op, std::span(operands.begin(), operands.size()), attrs);
}

ValueId Builder::emit(Op op, std::span<const V> operands, AttrsRef attrs) {
  const ValueList results = emit_all(op, operands, attrs);
  TANDEM_CHECK(results.size() == 1, std::string(name(op)) + " has several results");
  return results[0];
}

ValueList Builder::emit_all(Op op, std::span<const V> operands, AttrsRef attrs) {
  const Types types = infer_types(op, types_of(operands), attrs);
  ValueList results(types.size());
  sink_.emit(op, operands, attrs, false, types, results);
  return results;
}

void Builder::emit_in_place(Op op, std::span<const V> operands, AttrsRef attrs) {
  if (!info(op).in_place)
    fail(Errc::Mutation, fmt::format("{}: no writing form; expected an op that has one", name(op)));
  const Type result_type = infer_type(op, types_of(operands), attrs);
  if (result_type != type(operands[0]))
    fail(Errc::Mutation,
         fmt::format("{}_: the result does not fit what is written; expected {}, got {}", name(op),
                     to_string(type(operands[0])), to_string(result_type)));
  sink_.emit(op, operands, attrs, true, {}, {});
}

std::vector<ValueId> Builder::emit_call(Op op, std::span<const V> operands, AttrsRef attrs,
                                        std::span<const Type> types) {
  TANDEM_CHECK(info(op).open_results, std::string(name(op)) + ": its row says what it gives");
  std::vector<V> results(types.size());
  sink_.emit(op, operands, attrs, false, types, results);
  return results;
}

int Builder::wrap_dim(int64_t dim, int rank, std::string_view op) const {
  if (dim < -rank || dim >= rank)
    fail(Errc::Index, fmt::format("{}: dimension out of range; expected {} <= dim < {}, got {}", op,
                                  -rank, rank, dim));
  return static_cast<int>(dim < 0 ? dim + rank : dim);
}

Axes Builder::wrap_dims(std::span<const Axis> dims, int rank, std::string_view op) const {
  Axes wrapped;
  wrapped.reserve(dims.size());
  for (Axis dim : dims) {
    const int d = wrap_dim(dim, rank, op);
    if (std::ranges::count(wrapped, Axis{d}))
      fail(Errc::Argument,
           fmt::format("{}: dimension {} appears twice; expected each at most once", op, d));
    wrapped.push_back(d);
  }
  return wrapped;
}

}  // namespace tandem::ir
