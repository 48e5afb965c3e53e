#include "tests/support/run_eager.h"

#include <tandem/autograd.h>
#include <tandem/autograd/forward.h>
#include <tandem/autograd/vmap.h>

#include <algorithm>

#include "ir/strides.h"
#include "runtime/levels/batched.h"
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

/// Where a run's tensors come from and its results go.
class Ends {
 public:
  virtual ~Ends() = default;
  virtual Tensor make(const std::string& name, const Strides& strides) const = 0;
  virtual void take(const std::string& name, const Tensor& result) = 0;
};

class OneRun final : public Ends {
 public:
  explicit OneRun(const tools::Tensors& tensors) : tensors_(tensors) {}
  Tensor make(const std::string& name, const Strides& strides) const override {
    return tensor_of(tensors_.at(name), strides);
  }
  void take(const std::string& name, const Tensor& result) override {
    results.emplace(name, ir::copy_of(result.impl()->view()));
  }
  tools::Tensors results;

 private:
  const tools::Tensors& tensors_;
};

/// Examples of vmap, of which those that are called in `shared` are the first one's.
class Examples final : public Ends {
 public:
  Examples(const std::vector<tools::Tensors>& examples, const std::set<std::string>& shared)
      : results(examples.size()), examples_(examples), shared_(shared) {}

  Tensor make(const std::string& name, const Strides& strides) const override {
    const ir::Buffer& first = examples_[0].at(name);
    if (shared_.contains(name)) return tensor_of(first, strides);
    const auto count = static_cast<int64_t>(examples_.size());
    Shape sizes{count};
    Strides all{std::max<Dim>(1, ir::end_of({first.sizes(), strides, 0}))};
    for (const Dim d : first.sizes()) sizes.push_back(d);
    for (const Dim d : strides) all.push_back(d);
    const Tensor t = runtime::empty_tensor(sizes, all, first.dtype());
    for (size_t k = 0; k < examples_.size(); ++k) {
      ir::Buffer copy = examples_[k].at(name);
      tools::copy_elements(copy.view(), t[static_cast<int64_t>(k)].impl()->view());
    }
    return runtime::one_example(t, 1);
  }
  void take(const std::string& name, const Tensor& result) override {
    const Tensor all = runtime::all_examples(result, 1);
    const runtime::LevelDepth around(0);
    for (size_t k = 0; k < results.size(); ++k)
      results[k].emplace(name, ir::copy_of(all[static_cast<int64_t>(k)].impl()->view()));
  }
  std::vector<tools::Tensors> results;

 private:
  const std::vector<tools::Tensors>& examples_;
  const std::set<std::string>& shared_;
};

class EagerRun {
 public:
  /// `directions`: of what moves, in place of gradients; or null.
  EagerRun(const ir::Graph& graph, Ends& ends, const tools::Tensors* directions = nullptr)
      : graph_(graph), ends_(ends), directions_(directions), values_(graph) {}

  void run() {
    for (size_t i = 0; i < graph_.inputs().size(); ++i) bind(i);
    for (size_t i = 0; i < graph_.num_equations(); ++i) step(graph_.equation_id(i));
    for (const ir::Output& output : graph_.outputs())
      ends_.take(output.name, values_[output.value]);
    for (const ir::Input& input : graph_.inputs())
      ends_.take("mutated:" + input.name, values_[input.value]);
    directions_ != nullptr ? add_tangents() : add_gradients();
  }

 private:
  void bind(size_t i) {
    const ir::Input& input = graph_.inputs()[i];
    Tensor& value = values_[input.value];
    if (input.alias_of) return bind_alias(input);
    const Tensor leaf = ends_.make(input.name, input.strides);
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
      take("moved:" + output.name, tangent, output.value);
    }
  }

  void add_gradients() {
    std::vector<Tensor> outputs, tangents, inputs;
    for (const ir::Output& output : graph_.outputs()) {
      if (!output.requires_grad || !values_[output.value].requires_grad()) continue;
      outputs.push_back(values_[output.value]);
      tangents.push_back(ends_.make("tangent:" + output.name,
                                    ir::contiguous_strides(graph_.type(output.value).sizes)));
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
      take("grad:" + input.name, gradients[next++], input.value);
    }
  }

  /// An undefined one as zeros, in the type of `like`.
  void take(const std::string& name, const Tensor& t, ir::ValueId like) {
    const ir::Type& type = graph_.type(like);
    ends_.take(name, t.defined() ? t : runtime::zero_tensor(type.sizes, type.dtype));
  }

  const ir::Graph& graph_;
  Ends& ends_;
  const tools::Tensors* directions_;
  ir::ValueMap<Tensor> values_;
  std::vector<Tensor> leaves_;  // by input; undefined for aliases
};

}  // namespace

tools::Tensors run_eager(const ir::Graph& traced, const tools::Tensors& tensors) {
  OneRun ends(tensors);
  EagerRun(traced, ends).run();
  return std::move(ends.results);
}

tools::Tensors run_moving(const ir::Graph& traced, const tools::Tensors& tensors,
                          const tools::Tensors& directions) {
  const DualLevel level;
  OneRun ends(tensors);
  EagerRun(traced, ends, &directions).run();
  return std::move(ends.results);
}

namespace {

struct BatchLevel {
  explicit BatchLevel(size_t size) {
    runtime::enter_level(runtime::Batch{Dim(size), Randomness::Same});
  }
  ~BatchLevel() { runtime::leave_level(); }
  BatchLevel(const BatchLevel&) = delete;
  BatchLevel& operator=(const BatchLevel&) = delete;
};

}  // namespace

std::vector<tools::Tensors> run_batched(const ir::Graph& traced,
                                        const std::vector<tools::Tensors>& examples,
                                        const std::set<std::string>& shared) {
  const BatchLevel level(examples.size());
  Examples ends(examples, shared);
  EagerRun(traced, ends).run();
  return std::move(ends.results);
}

}  // namespace tandem::testing
