// Bodies of branches and loops in the making: graphs of their own, closed over nothing.
#ifndef TANDEM_IR_BUILD_BODY_GRAPH_H
#define TANDEM_IR_BUILD_BODY_GRAPH_H

#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tandem::ir {

/// What a step sees of something of this type, which has a dimension 0; and `length` of `slice`.
Type slice_of(const Type& type);
Type stack_of(const Type& slice, Dim length);

std::vector<Type> input_types(const Graph& graph);
std::vector<Type> output_types(const Graph& graph);

/// Puts a body's graph into a graph whose inputs are in another order.
class BodyGraph {
 public:
  explicit BodyGraph(std::string name) : graph_(std::move(name), Level::Functional) {}
  ValueId input(const Type& type, const std::string& name);
  void output(ValueId value, const std::string& name);
  /// The outputs of `body` on these inputs.
  std::vector<ValueId> add(const Graph& body, std::span<const ValueId> inputs);
  Graph& graph() { return graph_; }
  Graph take() { return std::move(graph_); }

 private:
  Graph graph_;
};

}  // namespace tandem::ir

#endif  // TANDEM_IR_BUILD_BODY_GRAPH_H
