#include "runtime/control/gradient.h"

#include <tandem/autograd.h>

#include <algorithm>

#include "autodiff/joint.h"
#include "ir/build/builder.h"
#include "ir/build/rewrite.h"
#include "runtime/control/body.h"
#include "runtime/tape/autograd.h"
#include "runtime/trace/dispatch_graph.h"

namespace tandem::control {
namespace {

using ir::Graph;
using ir::Op;
using ir::Type;
using ir::ValueId;
using Types = std::vector<Type>;
using Values = std::vector<ValueId>;

bool is_float(const Type& type) { return ir::is_differentiable(type.dtype); }

/// Which operands a gradient flows to.
std::vector<bool> needed(const Tensors& operands) {
  std::vector<bool> needs;
  for (const Tensor& t : operands)
    needs.push_back(is_float(t.impl()->type()) && runtime::requires_grad(t));
  return needs;
}

/// The gradients of a body: a graph of its inputs and of a tangent for each floating output.
class BodyGradient {
 public:
  BodyGradient(Graph body, const std::vector<bool>& needs) : inputs_(body.inputs().size()) {
    for (size_t i = 0; i < inputs_; ++i) body.inputs()[i].requires_grad = needs[i];
    for (ir::Output& output : body.outputs())
      output.requires_grad = is_float(body.type(output.value));
    joint_ = autodiff::joint(body);
  }

  /// Adds them to `graph`: by input of the body its gradient, or none where nothing arrives.
  /// `tangents`: by output of the body.
  Values add_to(BodyGraph& graph, const Values& inputs, const Values& tangents) const {
    Values arguments;
    for (size_t i = 0; i < joint_.inputs().size(); ++i)
      arguments.push_back(i < inputs_ ? inputs[i]
                                      : tangents[static_cast<size_t>(joint_.inputs()[i].target)]);
    const Values outputs = graph.add(joint_, arguments);
    Values gradients(inputs_);
    for (size_t o = 0; o < outputs.size(); ++o)
      if (joint_.outputs()[o].role == ir::Role::Gradient)
        gradients[static_cast<size_t>(joint_.outputs()[o].target)] = outputs[o];
    return gradients;
  }

 private:
  size_t inputs_;
  Graph joint_;
};

/// A graph in the making, with its builder.
struct Half : BodyGraph {
  explicit Half(const std::string& name) : BodyGraph(name), sink(graph()), b(sink) {}

  ValueId input_of(const Type& type, ir::Role role, int target = -1) {
    const ValueId v = input(type, "x");
    graph().inputs().back().role = role;
    graph().inputs().back().target = target;
    return v;
  }
  void output_of(ValueId v, ir::Role role, int target = -1) {
    output(v, "y");
    graph().outputs().back().role = role;
    graph().outputs().back().target = target;
  }
  Types types(const Values& values) const {
    Types types;
    for (const ValueId v : values) types.push_back(b.type(v));
    return types;
  }
  ValueId zeros(const Type& type) { return b.full(type.sizes, type.dtype, 0); }
  ValueId or_zeros(ValueId v, const Type& type) { return v.valid() ? v : zeros(type); }

  /// Without what no output needs, all of one half.
  Graph finished() {
    Graph done = ir::remove_dead_code(take());
    for (size_t i = 0; i < done.num_equations(); ++i)
      done.equation(done.equation_id(i)).is_backward = false;
    return done;
  }

  ir::GraphSink sink;
  ir::Builder b;
};

Types output_types(const Graph& graph) {
  Types types;
  for (const ir::Output& output : graph.outputs()) types.push_back(graph.type(output.value));
  return types;
}

Values inputs_of(Half& half, const Types& types, ir::Role role) {
  Values values;
  for (const Type& type : types) values.push_back(half.input_of(type, role));
  return values;
}

/// A tangent for each floating result.
Values tangents_of(Half& half, const Types& results) {
  Values tangents(results.size());
  for (size_t i = 0; i < results.size(); ++i)
    if (is_float(results[i]))
      tangents[i] = half.input_of(results[i], ir::Role::Tangent, static_cast<int>(i));
  return tangents;
}

void append_valid(Values& to, const Values& from) {
  for (const ValueId v : from)
    if (v.valid()) to.push_back(v);
}

/// What backward reads of these operands: copies of those that the program writes.
Values kept_of(Half& forward, std::span<const ValueId> operands, const std::vector<bool>& written,
               size_t first) {
  Values kept;
  for (size_t i = 0; i < operands.size(); ++i)
    kept.push_back(written[first + i] ? forward.b.clone(operands[i]) : operands[i]);
  return kept;
}

/// Tangents of the results behind the first `count` that are copies of written operands. Backward
/// hands them to its equation, which does not read them: a gradient of the gradient is refused
/// there.
Values unread_tangents(Half& backward, const Types& operands, const std::vector<bool>& written,
                       size_t first, size_t count) {
  Values unread;
  for (size_t i = first; i < operands.size(); ++i) {
    if (!written[i]) continue;
    if (is_float(operands[i]))
      unread.push_back(backward.input_of(operands[i], ir::Role::Tangent, static_cast<int>(count)));
    ++count;
  }
  return unread;
}

/// The outputs of a forward half. What backward reads and is no operand is a result too, which
/// nobody sees: a gradient of the gradient would have to go through it.
void give(Half& forward, const Values& results, const Values& kept) {
  for (const ValueId v : results) forward.output_of(v, ir::Role::Result);
  for (const ValueId v : kept)
    if (forward.graph().input_index(v) < 0) forward.output_of(v, ir::Role::Result);
  for (const ValueId v : kept) forward.output_of(v, ir::Role::Saved);
}

/// The first `count` results.
Tensors run_halves(const Graph& forward, const Graph& backward, const Tensors& operands,
                   size_t count) {
  Tensors results = runtime::dispatch_function(forward, backward, operands);
  results.resize(count);
  return results;
}

// --- cond

/// (operands, tangents) -> a gradient for each operand that needs one.
Graph branch_gradient(const Graph& branch, const std::vector<bool>& needs, const Types& unread) {
  Half half(branch.name + "_backward");
  Types types;
  for (const ir::Input& input : branch.inputs()) types.push_back(branch.type(input.value));
  const Values inputs = inputs_of(half, types, ir::Role::Primal);
  Values tangents;
  for (const Type& type : output_types(branch))
    tangents.push_back(is_float(type) ? half.input_of(type, ir::Role::Primal) : ValueId());
  inputs_of(half, unread, ir::Role::Primal);
  const Values gradients = BodyGradient(branch, needs).add_to(half, inputs, tangents);
  for (size_t i = 0; i < types.size(); ++i)
    if (needs[i]) half.output_of(half.or_zeros(gradients[i], types[i]), ir::Role::Result);
  return half.finished();
}

Graph cond_forward(const Types& operands, const Graph& then, const Graph& otherwise,
                   const std::vector<bool>& written) {
  Half half("cond");
  const Values inputs = inputs_of(half, operands, ir::Role::Primal);
  const ir::SubgraphId a = half.graph().add_subgraph(then),
                       b = half.graph().add_subgraph(otherwise);
  const Values results = half.b.emit_call(Op::cond, inputs, {a, b}, output_types(then));
  give(half, results, kept_of(half, inputs, written, 0));
  return half.take();
}

Graph cond_backward(const Types& operands, const Graph& then, const Graph& otherwise,
                    std::vector<bool> needs, const std::vector<bool>& written) {
  Half half("cond_backward");
  Values inputs = inputs_of(half, operands, ir::Role::Saved);
  append_valid(inputs, tangents_of(half, output_types(then)));
  const Values unread = unread_tangents(half, operands, written, 0, then.outputs().size());
  append_valid(inputs, unread);
  const Types extra = half.types(unread);
  needs.erase(needs.begin());  // the predicate's
  const Graph gradients = branch_gradient(then, needs, extra);
  const Types types = output_types(gradients);
  const ir::SubgraphId a = half.graph().add_subgraph(gradients),
                       b = half.graph().add_subgraph(branch_gradient(otherwise, needs, extra));
  const Values results = half.b.emit_call(Op::cond, inputs, {a, b}, types);
  size_t next = 0;
  for (size_t i = 0; i < needs.size(); ++i)
    if (needs[i]) half.output_of(results[next++], ir::Role::Gradient, static_cast<int>(i) + 1);
  return half.take();
}

// --- scan

class ScanGradient {
 public:
  ScanGradient(const Graph& body, const ScanShape& shape, Types operands, Types results,
               const std::vector<bool>& needs)
      : body_(body),
        shape_(shape),
        operands_(std::move(operands)),
        results_(std::move(results)),
        needs_(needs) {
    for (size_t i = 0; i < shape.carries; ++i) needs_[i] = is_float(operands_[i]);
  }

  /// Gives the carries that each step began with, too.
  Graph forward(const std::vector<bool>& written) const {
    Half half("scan");
    const Values inputs = inputs_of(half, operands_, ir::Role::Primal);
    Graph step = body_;
    Types types = results_;
    for (size_t i = 0; i < shape_.carries; ++i) {
      ir::Output output = step.outputs()[i];
      output.value = step.inputs()[i].value;
      step.add_output(std::move(output));
      types.push_back(stacked(operands_[i]));
    }
    const Values all =
        half.b.emit_call(Op::scan, inputs, attrs(half, std::move(step), shape_), types);
    const auto own = all.begin() + static_cast<ptrdiff_t>(results_.size());
    Values kept(own, all.end());
    for (const ValueId v :
         kept_of(half, std::span(inputs).subspan(shape_.carries), written, shape_.carries))
      kept.push_back(v);
    give(half, {all.begin(), own}, kept);
    return half.take();
  }

  Graph backward(const std::vector<bool>& written) const {
    Half half("scan_backward");
    Values begun, constants, xs;
    for (size_t i = 0; i < shape_.carries; ++i)
      begun.push_back(half.input_of(stacked(operands_[i]), ir::Role::Saved));
    for (size_t i = shape_.carries; i < operands_.size(); ++i)
      (i < whole() ? constants : xs).push_back(half.input_of(operands_[i], ir::Role::Saved));
    const Values tangents = tangents_of(half, results_);
    const Values unread = unread_parts(half, written);
    constants.insert(constants.end(), unread.begin(), unread.end());

    Values inputs;
    Types types;
    for (size_t i = 0; i < whole(); ++i) {  // the sums that go from step to step
      if (!needs_[i]) continue;
      inputs.push_back(i < shape_.carries ? tangents[i] : half.zeros(operands_[i]));
      types.push_back(operands_[i]);
    }
    ScanShape shape{inputs.size(), constants.size(), shape_.length, !shape_.reverse};
    for (const Values* list : {&constants, &begun, &xs})
      inputs.insert(inputs.end(), list->begin(), list->end());
    append_valid(inputs,
                 {tangents.begin() + static_cast<ptrdiff_t>(shape_.carries), tangents.end()});
    for (size_t i = whole(); i < operands_.size(); ++i)
      if (needs_[i]) types.push_back(operands_[i]);
    const Values gradients =
        half.b.emit_call(Op::scan, inputs, attrs(half, step(half.types(unread)), shape), types);
    size_t next = 0;
    for (size_t i = 0; i < operands_.size(); ++i)
      if (needs_[i]) half.output_of(gradients[next++], ir::Role::Gradient, static_cast<int>(i));
    return half.take();
  }

 private:
  /// As unread_tangents; of the carries that are kept one slice is enough.
  Values unread_parts(Half& half, const std::vector<bool>& written) const {
    Values unread;
    size_t result = results_.size();
    for (size_t i = 0; i < shape_.carries; ++i, ++result)
      if (is_float(operands_[i]) && shape_.length > 0)
        unread.push_back(half.b.select(
            half.input_of(stacked(operands_[i]), ir::Role::Tangent, static_cast<int>(result)), 0,
            0));
    append_valid(unread, unread_tangents(half, operands_, written, shape_.carries, result));
    return unread;
  }

  size_t whole() const { return shape_.carries + shape_.constants; }

  Type stacked(const Type& slice) const { return stack_of(slice, shape_.length); }

  static std::vector<ir::AttrValue> attrs(Half& half, Graph body, const ScanShape& shape) {
    return {half.graph().add_subgraph(std::move(body)), static_cast<int64_t>(shape.carries),
            static_cast<int64_t>(shape.constants), ir::Dim(shape.length), shape.reverse};
  }

  Type input_type(size_t i) const { return body_.type(body_.inputs()[i].value); }

  /// (gradients of the carries, sums of the constants'; constants, carries, slices, tangents of the
  /// ys) -> (the former, gradients of the slices).
  Graph step(const Types& unread) const {
    Half half("body_backward");
    Values sums(operands_.size()), inputs(operands_.size()), tangents(results_.size());
    const auto add = [&](const Type& type) { return half.input_of(type, ir::Role::Primal); };
    for (size_t i = 0; i < whole(); ++i)
      if (needs_[i]) sums[i] = add(input_type(i));
    for (size_t i = shape_.carries; i < whole(); ++i) inputs[i] = add(input_type(i));
    std::ranges::for_each(unread, add);
    for (size_t i = 0; i < shape_.carries; ++i) inputs[i] = add(input_type(i));
    for (size_t i = whole(); i < operands_.size(); ++i) inputs[i] = add(input_type(i));
    const Types outputs = output_types(body_);
    for (size_t i = 0; i < outputs.size(); ++i)
      if (is_float(outputs[i])) tangents[i] = i < shape_.carries ? sums[i] : add(outputs[i]);
    const Values gradients = BodyGradient(body_, needs_).add_to(half, inputs, tangents);
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!needs_[i]) continue;
      const bool adds = i >= shape_.carries && i < whole();
      const ValueId gradient = adds && gradients[i].valid() ? half.b.add(sums[i], gradients[i])
                               : adds                       ? sums[i]
                                                            : gradients[i];
      half.output_of(half.or_zeros(gradient, input_type(i)), ir::Role::Result);
    }
    return half.finished();
  }

  const Graph& body_;
  const ScanShape shape_;
  const Types operands_, results_;
  std::vector<bool> needs_;  // by operand; of carries all that are floating
};

}  // namespace

bool wants_gradient(const Tensors& operands) {
  const std::vector<bool> needs = needed(operands);
  return grad_enabled() && std::ranges::find(needs, true) != needs.end();
}

Tensors differentiable_cond(const Tensors& operands, const Graph& then, const Graph& otherwise,
                            const std::vector<bool>& written) {
  const Types types = types_of(operands);
  return run_halves(cond_forward(types, then, otherwise, written),
                    cond_backward(types, then, otherwise, needed(operands), written), operands,
                    then.outputs().size());
}

Tensors differentiable_scan(const Tensors& operands, const Graph& body, const ScanShape& shape,
                            const std::vector<ir::Type>& results,
                            const std::vector<bool>& written) {
  const ScanGradient gradient(body, shape, types_of(operands), results, needed(operands));
  return run_halves(gradient.forward(written), gradient.backward(written), operands,
                    results.size());
}

}  // namespace tandem::control
