#include "ir/build/body_graph.h"

#include <fmt/format.h>

#include "ir/build/inline.h"
#include "ir/strides.h"

namespace tandem::ir {

Type slice_of(const Type& type) {
  Type slice{type.dtype, {}};
  for (int d = 1; d < type.rank(); ++d) slice.sizes.push_back(type.sizes[d]);
  return slice;
}

Type stack_of(const Type& slice, Dim length) {
  Type type{slice.dtype, {length}};
  for (const Dim size : slice.sizes) type.sizes.push_back(size);
  return type;
}

std::vector<Type> input_types(const Graph& graph) {
  std::vector<Type> types;
  for (const Input& input : graph.inputs()) types.push_back(graph.type(input.value));
  return types;
}

std::vector<Type> output_types(const Graph& graph) {
  std::vector<Type> types;
  for (const Output& output : graph.outputs()) types.push_back(graph.type(output.value));
  return types;
}

ValueId BodyGraph::input(const Type& type, const std::string& name) {
  Input input;
  input.name = fmt::format("{}_{}", name, graph_.inputs().size());
  input.strides = contiguous_strides(type.sizes);
  return graph_.add_input(std::move(input), type);
}

void BodyGraph::output(ValueId value, const std::string& name) {
  Output output;
  output.value = value;
  output.name = name;
  output.strides = contiguous_strides(graph_.type(value).sizes);
  graph_.add_output(std::move(output));
}

std::vector<ValueId> BodyGraph::add(const Graph& body, std::span<const ValueId> inputs) {
  return inline_graph(graph_, body, inputs, false);
}

}  // namespace tandem::ir
