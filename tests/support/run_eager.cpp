#include "tests/support/run_eager.h"

#include <tandem/autograd.h>
#include <tandem/autograd/forward.h>

#include "runtime/ops/dispatch.h"
#include "runtime/tensor/tensor_impl.h"
#include "tools/memory.h"

namespace tandem::testing {
namespace {

Tensor tensor_of(const ir::Buffer& buffer, const Strides& strides) {
  ir::Buffer copy = buffer;
  const Tensor t = runtime::empty_tensor(buffer.sizes(), strides, buffer.dtype());
  tools::copy_elements(copy.view(), t.impl()->view());
  return t;
}

class EagerRun {
 public:
  /// `directions`: of what moves, in place of gradients; or null.
  EagerRun(const ir::Graph& graph, const tools::Tensors& tensors,
           const tools::Tensors* directions = nullptr)
      : graph_(graph), tensors_(tensors), directions_(directions), values_(graph) {}

  tools::Tensors run() {
    for (size_t i = 0; i < graph_.inputs().size(); ++i) bind(i);
    for (size_t i = 0; i < graph_.num_equations(); ++i) step(graph_.equation_id(i));
    for (const ir::Output& output : graph_.outputs())
      results_.emplace(output.name, ir::copy_of(values_[output.value].impl()->view()));
    for (const ir::Input& input : graph_.inputs())
      results_.emplace("mutated:" + input.name, ir::copy_of(values_[input.value].impl()->view()));
    directions_ != nullptr ? add_tangents() : add_gradients();
    return std::move(results_);
  }

 private:
  void bind(size_t i) {
    const ir::Input& input = graph_.inputs()[i];
    Tensor& value = values_[input.value];
    if (input.alias_of) return bind_alias(input);
    const Tensor leaf = tensor_of(tensors_.at(input.name), input.strides);
    leaves_.push_back(leaf);
    value = leaf;
    if (directions_ != nullptr) return bind_dual(input, leaf);
    if (!input.requires_grad) return;
    leaf.requires_grad_();
    // A leaf may not be written; twice negated it is the same number in the same layout.
    for (int k = 0; k < 2; ++k)
      value =
          runtime::dispatch(ir::Op::neg, {&value, 1}, {}, false, {&graph_.type(input.value), 1})[0];
  }

  void bind_dual(const ir::Input& input, const Tensor& leaf) {
    if (const auto direction = directions_->find(input.name); direction != directions_->end())
      values_[input.value] = make_dual(leaf, tensor_of(direction->second, input.strides));
  }

  void bind_alias(const ir::Input& input) {
    leaves_.emplace_back();
    const ir::Type& type = graph_.type(input.value);
    const auto list = [](std::span<const Dim> s) { return std::vector<Dim>(s.begin(), s.end()); };
    const Tensor& root = values_[graph_.inputs()[static_cast<size_t>(input.alias_of->input)].value];
    values_[input.value] = runtime::dispatch(
        ir::Op::as_strided, {&root, 1},
        {list(type.sizes), list(input.strides), input.alias_of->offset}, false, {&type, 1})[0];
  }

  void step(ir::EquationId e) {
    const ir::Equation& equation = graph_.equation(e);
    const GradMode mode(equation.grad_enabled);
    std::vector<Tensor> operands;
    for (ir::ValueId v : graph_.operands(e)) operands.push_back(values_[v]);
    const auto values = equation.in_place ? graph_.operands(e).first(1) : graph_.results(e);
    ir::Types types;
    for (ir::ValueId v : values) types.push_back(graph_.type(v));
    const auto results =
        runtime::dispatch(equation.op, operands, graph_.attrs(e), equation.in_place, types);
    for (size_t i = 0; i < graph_.results(e).size(); ++i) values_[values[i]] = results[i];
  }

  void add_tangents() {
    for (const ir::Output& output : graph_.outputs()) {
      if (!output.requires_grad) continue;
      const Tensor tangent = unpack_dual(values_[output.value]).tangent;
      results_.emplace("moved:" + output.name, tangent.defined()
                                                   ? ir::copy_of(tangent.impl()->view())
                                                   : ir::Buffer(graph_.type(output.value)));
    }
  }

  void add_gradients() {
    std::vector<Tensor> outputs, tangents, inputs;
    for (const ir::Output& output : graph_.outputs()) {
      if (!output.requires_grad || !values_[output.value].requires_grad()) continue;
      const ir::Buffer& tangent = tensors_.at("tangent:" + output.name);
      outputs.push_back(values_[output.value]);
      tangents.push_back(tensor_of(tangent, ir::contiguous_strides(tangent.sizes())));
    }
    // Asked of the graph: a write may have made a leaf that takes no gradient require one.
    for (size_t i = 0; i < leaves_.size(); ++i)
      if (graph_.inputs()[i].requires_grad) inputs.push_back(leaves_[i]);
    std::vector<Tensor> gradients(inputs.size());
    if (!outputs.empty() && !inputs.empty())
      gradients = grad(outputs, inputs, {.grad_outputs = tangents, .allow_unused = true});
    size_t next = 0;
    for (const ir::Input& input : graph_.inputs()) {
      if (!input.requires_grad) continue;
      const Tensor& gradient = gradients[next++];
      results_.emplace("grad:" + input.name, gradient.defined()
                                                 ? ir::copy_of(gradient.impl()->view())
                                                 : ir::Buffer(graph_.type(input.value)));
    }
  }

  const ir::Graph& graph_;
  const tools::Tensors& tensors_;
  const tools::Tensors* directions_;
  ir::ValueMap<Tensor> values_;
  std::vector<Tensor> leaves_;  // by input; undefined for aliases
  tools::Tensors results_;
};

}  // namespace

tools::Tensors run_eager(const ir::Graph& traced, const tools::Tensors& tensors) {
  return EagerRun(traced, tensors).run();
}

tools::Tensors run_moving(const ir::Graph& traced, const tools::Tensors& tensors,
                          const tools::Tensors& directions) {
  const DualLevel level;
  return EagerRun(traced, tensors, &directions).run();
}

}  // namespace tandem::testing
