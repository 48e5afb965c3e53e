#include "tools/graph_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/base/error.h"
#include "runtime/compile/pipeline.h"
#include "tools/memory.h"

namespace tandem::tools {
namespace {

using ir::BufferView;
using ir::Errc;
using ir::Graph;
using ir::ResultSource;
using ir::Role;

// --- names

/// Names the outputs that have none. Error{Argument} if two are called the same.
void name_outputs(Graph& graph) {
  std::set<std::string> names;
  for (size_t k = 0; k < graph.outputs().size(); ++k) {
    std::string& name = graph.outputs()[k].name;
    if (name.empty()) name = fmt::format("output{}", k);
    if (!names.insert(name).second)
      ir::fail(Errc::Argument,
               fmt::format("run: two outputs are named {}; expected different names", name));
  }
}

std::vector<const ir::Output*> results_of(const Graph& traced) {
  std::vector<const ir::Output*> results;
  for (const ir::Output& output : traced.outputs())
    if (output.role == Role::Result) results.push_back(&output);
  return results;
}

std::string tangent_name(const ir::Output& output) { return "tangent:" + output.name; }

/// Error{Argument} if a tensor is neither an input's nor a tangent.
void refuse_unknown(const Graph& traced, const Tensors& tensors) {
  std::set<std::string> known;
  for (const ir::Input& input : traced.inputs())
    if (!input.alias_of) known.insert(input.name);
  for (const ir::Output* output : results_of(traced)) known.insert(tangent_name(*output));
  for (const auto& [name, buffer] : tensors)
    if (!known.contains(name))
      ir::fail(Errc::Argument,
               fmt::format("run: tensor {} is no input (or an alias of one) and no tangent; "
                           "expected {}",
                           name, fmt::join(known, ", ")));
}

// --- one half

/// The outputs of one run: memory of their own, or an input's.
class Outputs {
 public:
  Outputs(const Graph& graph, const ir::Executable& executable,
          std::span<const BufferView> inputs) {
    for (size_t k = 0; k < graph.outputs().size(); ++k) {
      const int same = executable.output_from_input(static_cast<int>(k)),
                into = executable.output_into_input(static_cast<int>(k));
      const ir::Output& output = graph.outputs()[k];
      const ir::Type& type = graph.type(output.value);
      buffers_.push_back(same >= 0 || into >= 0 ? StridedBuffer()
                                                : StridedBuffer(type, output.strides));
      views_.push_back(same >= 0   ? inputs[static_cast<size_t>(same)]
                       : into >= 0 ? inputs[static_cast<size_t>(into)]
                                   : buffers_.back().view());
    }
    executable.run(ir::addresses_of(inputs), ir::addresses_of(views_));
  }
  const BufferView& operator[](size_t k) const { return views_[k]; }

  /// Gives output `k` memory of its own.
  void separate(size_t k) {
    StridedBuffer copy({views_[k].dtype, views_[k].sizes}, ir::contiguous_strides(views_[k].sizes));
    copy_elements(views_[k], copy.view());
    buffers_[k] = std::move(copy);
    views_[k] = buffers_[k].view();
  }

 private:
  std::vector<StridedBuffer> buffers_;
  std::vector<BufferView> views_;
};

// --- the run

class Run {
 public:
  Run(const CompiledGraphs& graphs, const Tensors& tensors, const RunOptions& options)
      : graphs_(graphs),
        forward_(graphs.forward),
        tensors_(tensors),
        options_(options),
        memory_(graphs.traced, tensors, options.seed) {}

  Tensors run() {
    const auto executable = options_.backend->compile(forward_);
    Outputs values(forward_, *executable, memory_.views());
    // A write below must not change a value that is an untouched input.
    for (size_t k = 0; k < forward_.outputs().size(); ++k)
      if (executable->output_from_input(static_cast<int>(k)) >= 0 && has_writes())
        values.separate(k);
    if (options_.grad) add_gradients(values);
    for (const ir::InputWrite& write : forward_.epilogue.writes)
      if (executable->output_into_input(write.output) < 0)
        copy_elements(values[static_cast<size_t>(write.output)], memory_.view(write.input));
    add_results(values);
    add_mutated();
    add_grad_slots(values);
    return std::move(results_);
  }

 private:
  bool has_writes() const { return !forward_.epilogue.writes.empty(); }
  const ir::Input& input(int i) const { return graphs_.traced.inputs()[static_cast<size_t>(i)]; }

  void add(const std::string& name, const BufferView& view) {
    if (!results_.emplace(name, ir::copy_of(view)).second)
      ir::fail(Errc::Argument, fmt::format("run: two results are named {}", name));
  }

  // --- forward
  void add_results(const Outputs& values) {
    const std::vector<BufferView> views =
        trace_results([&](int k) { return values[static_cast<size_t>(k)]; },
                      [&](int i) { return memory_.view(i); });
    const auto outputs = results_of(graphs_.traced);
    for (size_t r = 0; r < views.size(); ++r) add(outputs[r]->name, views[r]);
  }

  /// The caller's results as views of what `output(k)` and `input(i)` give.
  template <class OfOutput, class OfInput>
  std::vector<BufferView> trace_results(OfOutput output, OfInput input) const {
    using Kind = ResultSource::Kind;
    std::vector<BufferView> views;
    for (const ResultSource& source : forward_.epilogue.results) {
      const BufferView base = source.kind == Kind::Output ? output(source.index)
                              : source.kind == Kind::ViewOfResult
                                  ? views[static_cast<size_t>(source.index)]
                                  : input(source.index);
      views.push_back(view_of(base, source.chain));
    }
    return views;
  }

  /// The number of the output of the first of these writes into the memory in which input `i` lies,
  /// or -1.
  template <class Counts>
  int written_to(int i, Counts counts) const {
    for (const ir::InputWrite& write : forward_.epilogue.writes)
      if (memory_.root(write.input) == memory_.root(i) && counts(write)) return write.output;
    return -1;
  }
  int final_contents(int i) const {
    return written_to(i, [](const ir::InputWrite&) { return true; });
  }
  int final_history(int i) const {
    return written_to(i, [](const ir::InputWrite& write) { return !write.no_grad; });
  }

  void add_mutated() {
    for (size_t i = 0; i < graphs_.traced.inputs().size(); ++i)
      if (final_contents(static_cast<int>(i)) >= 0)
        add("mutated:" + input(static_cast<int>(i)).name, memory_.view(static_cast<int>(i)));
  }

  /// Gradients that the program itself left in `.grad`.
  void add_grad_slots(const Outputs& values) {
    for (const ir::GradWrite& write : forward_.epilogue.grads)
      if (write.output >= 0)
        add("grad:" + input(write.input).name, values[static_cast<size_t>(write.output)]);
  }

  // --- backward
  static StridedBuffer zeros(const ir::Type& type) {
    return {type, ir::contiguous_strides(type.sizes)};
  }

  void add_gradients(const Outputs& values) {
    std::vector<StridedBuffer> tangents, gradients;
    for (const ir::Output& output : forward_.outputs())
      tangents.push_back(zeros(forward_.type(output.value)));
    for (const ir::Input& i : graphs_.traced.inputs())
      gradients.push_back(zeros(graphs_.traced.type(i.value)));
    distribute_tangents(tangents, gradients);
    if (!graphs_.backward.outputs().empty()) run_backward(values, tangents, gradients);
    for (size_t i = 0; i < gradients.size(); ++i)
      if (graphs_.traced.inputs()[i].requires_grad)
        add("grad:" + input(static_cast<int>(i)).name, gradients[i].view());
  }

  /// A result's tangent belongs to what the result is a view of; of a written input, to what was
  /// written, if autograd saw it.
  void distribute_tangents(const std::vector<StridedBuffer>& tangents,
                           const std::vector<StridedBuffer>& gradients) {
    const auto of_output = [&](int k) { return tangents[static_cast<size_t>(k)].view(); };
    const auto of_input = [&](int i) {
      const int output = final_history(i);
      if (output < 0) return gradients[static_cast<size_t>(i)].view();
      if (memory_.root(i) == i) return of_output(output);
      const BufferView& view = memory_.view(i);
      return part_of(of_output(output), memory_.offset_in_root(i), view.sizes, view.strides);
    };
    const std::vector<BufferView> targets = trace_results(of_output, of_input);
    const auto outputs = results_of(graphs_.traced);
    for (size_t r = 0; r < targets.size(); ++r)
      if (takes_tangent(*outputs[r])) add_tangent(*outputs[r], targets[r]);
  }

  bool takes_tangent(const ir::Output& output) const {
    if (!output.requires_grad && tensors_.contains(tangent_name(output)))
      ir::fail(Errc::Autograd, fmt::format("run: {}: the output does not require grad; expected "
                                           "tangents of those that do",
                                           tangent_name(output)));
    return output.requires_grad;
  }

  void add_tangent(const ir::Output& output, const BufferView& target) {
    const ir::Type type{target.dtype, target.sizes};
    const auto found = tensors_.find(tangent_name(output));
    ir::Buffer tangent = found != tensors_.end() ? found->second : ir::Buffer(type);
    if (found == tensors_.end()) {
      if (tangent.numel() != 1)
        ir::fail(Errc::Argument, fmt::format("run: no tensor {}; expected {} (only an output of "
                                             "one element has ones by default)",
                                             tangent_name(output), to_string(type)));
      tangent.set(0, 1.0);
    }
    if (tangent.type() != type)
      ir::fail(tangent.dtype() == type.dtype ? Errc::Shape : Errc::DType,
               fmt::format("run: {}: expected {}, got {}", tangent_name(output), to_string(type),
                           to_string(tangent.type())));
    add_elements(tangent.view(), target);
  }

  void run_backward(const Outputs& values, const std::vector<StridedBuffer>& tangents,
                    const std::vector<StridedBuffer>& gradients) {
    const Graph& backward = graphs_.backward;
    std::vector<BufferView> inputs;
    for (const ir::Input& in : backward.inputs()) {
      const auto output = static_cast<size_t>(in.target);
      inputs.push_back(in.role == Role::Tangent ? tangents[output].view() : values[output]);
    }
    const std::vector<StridedBuffer> laid_out = with_layouts(backward, inputs);
    const auto executable = options_.backend->compile(backward);
    const Outputs results(backward, *executable, inputs);
    for (size_t k = 0; k < backward.outputs().size(); ++k)
      if (const ir::Output& output = backward.outputs()[k]; output.role == Role::Gradient)
        add_elements(results[k], gradients[static_cast<size_t>(output.target)].view());
  }

  /// Copies the inputs that do not have the strides of the graph's; keeps the copies.
  static std::vector<StridedBuffer> with_layouts(const Graph& graph,
                                                 std::vector<BufferView>& inputs) {
    std::vector<StridedBuffer> copies;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ir::Input& input = graph.inputs()[i];
      if (inputs[i].strides == input.strides) continue;
      copies.emplace_back(graph.type(input.value), input.strides);
      copy_elements(inputs[i], copies.back().view());
      inputs[i] = copies.back().view();
    }
    return copies;
  }

  const CompiledGraphs& graphs_;
  const Graph& forward_;
  const Tensors& tensors_;
  const RunOptions& options_;
  InputMemory memory_;
  Tensors results_;
};

void require_differentiable(const Graph& traced) {
  const auto takes_part = [](const auto& port) { return port.requires_grad; };
  if (std::ranges::none_of(traced.outputs(), takes_part))
    ir::fail(Errc::Autograd, "no output requires grad; expected one for gradients");
}

}  // namespace

Tensors run_graph(Graph traced, const Tensors& tensors, const RunOptions& options) {
  if (traced.level != ir::Level::Traced)
    ir::fail(Errc::Argument,
             fmt::format("run: expected a graph of level traced, got {}", ir::name(traced.level)));
  name_outputs(traced);
  refuse_unknown(traced, tensors);
  if (options.grad) require_differentiable(traced);
  const CompiledGraphs graphs =
      runtime::run_pipeline(std::move(traced), {.partitioner = options.partitioner});
  return Run(graphs, tensors, options).run();
}

ir::PartitionReport explain(Graph traced, const ir::Partitioner& partitioner) {
  if (traced.level != ir::Level::Traced)
    ir::fail(Errc::Argument, fmt::format("explain: expected a graph of level traced, got {}",
                                         ir::name(traced.level)));
  require_differentiable(traced);
  return runtime::run_pipeline(std::move(traced), {.partitioner = &partitioner}).partition;
}

}  // namespace tandem::tools
