#include "runtime/control/levels.h"

#include <tandem/autograd.h>
#include <tandem/ops.h>
#include <tandem/ops/shapes.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "autodiff/forward/forward_graph.h"
#include "batching/batch.h"
#include "functionalize/functionalize.h"
#include "ir/build/body_graph.h"
#include "ir/build/builder.h"
#include "runtime/control/body.h"
#include "runtime/control/equation.h"
#include "runtime/levels/batched.h"
#include "runtime/levels/dual.h"
#include "runtime/trace/dispatch_graph.h"
#include "runtime/trace/trace.h"

namespace tandem::control {

using ir::Attr;
using ir::BodyGraph;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::Type;
using ir::ValueId;
using runtime::LevelDepth;
using runtime::Trace;
using Flags = std::vector<bool>;
using Types = std::vector<Type>;
using Values = std::vector<ValueId>;

Tensor any_example(const Tensor& condition) {
  const size_t depth = runtime::batch_depth({&condition, 1});
  if (depth == 0) return condition;
  const Tensor all = runtime::all_examples(condition, depth);
  const LevelDepth around(depth - 1);
  return any_example(any(all));
}

void warn_of_select(const char* what) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true))
    std::fprintf(stderr,
                 "tandem: vmap computes %s for all examples: the predicate differs between them\n",
                 what);
}

Tensors select_branches(const Graph& graph, EquationId e, const Tensors& operands) {
  warn_of_select("both branches of a cond");
  const std::span<const Tensor> inputs = std::span(operands).subspan(1);
  const auto branch = [&](Attr attr) {
    return runtime::dispatch_graph(graph.subgraph(graph.attr<ir::SubgraphId>(e, attr)), inputs);
  };
  Tensors results = branch(Attr::then);
  const Tensors others = branch(Attr::otherwise);
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = where(operands[0], results[i], others[i]);
  return results;
}

namespace {

Type all_of(const Type& one, ir::Dim size) {
  return {one.dtype, batching::with_examples(size, one.sizes)};
}

/// A body for all examples of level `depth`, of inputs of which some are batched: which of its
/// outputs are. (`has_history`: as a body's; not of a forward half, whose history is its node's.)
struct AllExamples {
  Graph graph;
  Flags batched;
};

AllExamples body_of_all(const Graph& body, const Flags& batched, size_t depth,
                        bool has_history = true) {
  const ir::Dim size = runtime::level_at(depth).batch->size;
  const auto trace = std::make_shared<Trace>(body.name);
  trace->note_body();
  AllExamples made;
  {
    const runtime::LevelsAside alone(depth);
    const runtime::TraceScope recording(trace);
    Tensors inputs;
    for (size_t i = 0; i < batched.size(); ++i) {
      const Type type = body.type(body.inputs()[i].value);
      const Type seen = batched[i] ? all_of(type, size) : type;
      const Tensor port =
          has_history ? port_of(*trace, seen) : trace->add_port(seen, "port", ir::Role::Primal, -1);
      inputs.push_back(batched[i] ? runtime::one_example(port, 1) : port);
    }
    const EnableGrad mode;  // (whether a gradient sees it, the equation says)
    const Tensors results = runtime::dispatch_graph(body, inputs);
    const LevelDepth seen(0);
    for (const Tensor& t : results) {
      made.batched.push_back(runtime::is_batched(t));
      trace->add_output(clone(made.batched.back() ? t.impl()->batched->physical : t));
    }
  }
  made.graph = functionalize::functionalize(trace->finish());
  return made;
}

/// A body in the making whose outputs are batched where they have to be.
struct Spread : BodyGraph {
  explicit Spread(const std::string& name) : BodyGraph(name), sink(graph()), b(sink) {}

  Values add_inputs(const Types& types) {
    Values values;
    for (const Type& type : types) values.push_back(input(type, "x"));
    return values;
  }
  /// The value for all examples.
  ValueId spread(ValueId v, bool batched, ir::Dim size) {
    if (batched) return v;
    const ir::Shape sizes = batching::with_examples(size, b.type(v).sizes);
    return b.clone(b.expand(v, sizes));
  }

  ir::GraphSink sink;
  ir::Builder b;
};

class Examples {
 public:
  Examples(const Graph& graph, EquationId e, const Tensors& operands, size_t depth)
      : g_(graph), e_(e), depth_(depth), size_(runtime::level_at(depth).batch->size) {
    for (const Tensor& t : operands) {
      batched_.push_back(runtime::batch_depth(t) == depth);
      operands_.push_back(batched_.back() ? t.impl()->batched->physical : t);
    }
  }

  Tensors cond() {
    const Flags inputs(batched_.begin() + 1, batched_.end());
    AllExamples then = all(Attr::then, inputs), otherwise = all(Attr::otherwise, inputs);
    const Flags given = joined(then.batched, otherwise.batched);
    Types types = input_types(operands_);
    types.erase(types.begin());
    return run({as_given(then, types, given), as_given(otherwise, types, given)}, {}, given);
  }

  Tensors scan() {
    const size_t carries = number(Attr::carries), whole = carries + number(Attr::constants);
    const AllExamples step = settled(carries);
    Flags given = step.batched;
    for (size_t i = 0; i < carries; ++i) given[i] = batched_[i];
    Types types = input_types(operands_);
    const LevelDepth around(depth_ - 1);
    for (size_t i = whole; i < operands_.size(); ++i) {  // slices lie in front, then examples
      if (batched_[i]) operands_[i] = transpose(operands_[i], 0, 1);
      types[i] = ir::slice_of(operands_[i].impl()->type());
    }
    Tensors results = run({as_given(step, types, given)},
                          {static_cast<int64_t>(carries), static_cast<int64_t>(whole - carries),
                           g_.attr<ir::Dim>(e_, Attr::length), g_.attr<bool>(e_, Attr::reverse)},
                          given);
    return results;
  }

  Tensors while_loop() {
    const size_t carries = number(Attr::carries);
    AllExamples condition, step;
    Flags before;
    do {  // (what differs between examples may be found by a step)
      step = settled(carries);
      before = batched_;
      condition = body_of_all(body(Attr::condition), batched_, depth_);
      if (condition.batched[0]) std::fill_n(batched_.begin(), carries, true);
    } while (batched_ != before);
    const Flags given(batched_.begin(), batched_.begin() + static_cast<ptrdiff_t>(carries));
    const Types types = input_types(operands_);
    if (!condition.batched[0])
      return run({as_given(condition, types, {false}), as_given(step, types, given)},
                 {static_cast<int64_t>(carries)}, given);
    warn_of_select("the steps of a while_loop");
    return run({any_of(condition, types), kept_where_done(condition, step, types, carries)},
               {static_cast<int64_t>(carries)}, given);
  }

 private:
  const Graph& body(Attr attr) const { return g_.subgraph(g_.attr<ir::SubgraphId>(e_, attr)); }
  size_t number(Attr attr) const { return static_cast<size_t>(g_.attr<int64_t>(e_, attr)); }
  AllExamples all(Attr attr, const Flags& inputs) const {
    return body_of_all(body(attr), inputs, depth_);
  }

  static Flags joined(Flags a, const Flags& b) {
    for (size_t i = 0; i < a.size(); ++i) a[i] = a[i] || b[i];
    return a;
  }

  /// A step, once the carries that it batches are batched.
  AllExamples settled(size_t carries) {
    for (;;) {
      AllExamples step = all(Attr::body, batched_);
      bool is_settled = true;
      for (size_t i = 0; i < carries; ++i) {
        is_settled = is_settled && (batched_[i] || !step.batched[i]);
        batched_[i] = batched_[i] || step.batched[i];
      }
      if (is_settled) return step;
    }
  }

  /// The types of operands, for all examples where these are batched.
  Types input_types(const Tensors& operands) const {
    Types types;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Type type = g_.type(g_.operands(e_)[i]);
      types.push_back(batched_[i] ? all_of(type, size_) : type);
    }
    return types;
  }

  Graph as_given(const AllExamples& body, const Types& types, const Flags& given) const {
    Spread graph(body.graph.name);
    const Values outputs = graph.add(body.graph, graph.add_inputs(types));
    for (size_t i = 0; i < outputs.size(); ++i)
      graph.output(given[i] ? graph.spread(outputs[i], body.batched[i], size_) : outputs[i], "y");
    return graph.take();
  }

  Graph any_of(const AllExamples& condition, const Types& types) const {
    Spread graph("any_example");
    const ValueId all = graph.add(condition.graph, graph.add_inputs(types))[0];
    graph.output(graph.b.emit(Op::any, {all}, {ir::Axes{0}, false, ir::Dims{}}), "y");
    return graph.take();
  }

  Graph kept_where_done(const AllExamples& condition, const AllExamples& step, const Types& types,
                        size_t carries) const {
    Spread graph("step_of_some");
    const Values inputs = graph.add_inputs(types);
    const ValueId goes_on = graph.add(condition.graph, inputs)[0];
    const Values next = graph.add(step.graph, inputs);
    for (size_t i = 0; i < carries; ++i) {
      ValueId mask = goes_on;
      while (graph.b.rank(mask) < types[i].rank()) mask = graph.b.unsqueeze(mask, -1);
      graph.output(graph.b.where(mask, graph.spread(next[i], step.batched[i], size_), inputs[i]),
                   "y");
    }
    return graph.take();
  }

  /// The equation with these bodies, at the levels around. `given`: which results are batched.
  Tensors run(std::vector<Graph> bodies, const std::vector<ir::AttrValue>& others,
              const Flags& given) {
    const bool is_scan = g_.op(e_) == Op::scan;
    const size_t carries = is_scan ? number(Attr::carries) : given.size();
    const LevelDepth around(depth_ - 1);
    Types types, results;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Type one = g_.type(g_.operands(e_)[i]);
      if (batched_[i] && operands_[i].dim() == one.rank())  // a carry that a step batches
        operands_[i] = clone(expand(operands_[i], batching::with_examples(size_, one.sizes)));
      types.push_back(operands_[i].impl()->type());
    }
    for (size_t i = 0; i < given.size(); ++i) {
      Type type = g_.type(g_.results(e_)[i]);
      if (given[i] && i < carries) type = all_of(type, size_);
      if (given[i] && i >= carries)
        type = ir::stack_of(all_of(ir::slice_of(type), size_), type.sizes[0]);
      results.push_back(type);
    }
    Tensors all = runtime::dispatch_graph(
        equation_graph(g_.op(e_), types, std::move(bodies), others, results), operands_);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!given[i]) continue;
      if (i >= carries) all[i] = clone(transpose(all[i], 0, 1)).contiguous();
      all[i] = runtime::one_example(all[i], depth_);
    }
    return all;
  }

  const Graph& g_;
  const EquationId e_;
  const size_t depth_;
  const ir::Dim size_;
  Tensors operands_;
  Flags batched_;
};

}  // namespace

Tensors dispatch_examples(const Graph& graph, EquationId e, const Tensors& operands, size_t depth) {
  Examples examples(graph, e, operands, depth);
  if (graph.op(e) == Op::cond) return examples.cond();
  return graph.op(e) == Op::scan ? examples.scan() : examples.while_loop();
}

Tensors dispatch_graph_of_all(const Graph& graph, const Tensors& operands, size_t depth) {
  Flags batched;
  Tensors all;
  for (const Tensor& t : operands) {
    batched.push_back(runtime::batch_depth({&t, 1}) == depth);
    all.push_back(batched.back() ? t.impl()->batched->physical : t);
  }
  const AllExamples body = body_of_all(graph, batched, depth, /*has_history=*/false);
  Tensors results;
  {
    const LevelDepth around(depth - 1);
    results = runtime::dispatch_graph(body.graph, all);
  }
  for (size_t i = 0; i < results.size(); ++i)
    if (body.batched[i]) results[i] = runtime::one_example(results[i], depth);
  return results;
}

Moved dispatch_moving(const Graph& graph, const Tensors& operands, size_t depth) {
  Graph flagged = graph;
  Tensors all = operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Tensor tangent = runtime::tangent_at(operands[i], depth);
    flagged.inputs()[i].requires_grad = tangent.defined();
    if (tangent.defined()) all.push_back(tangent);
  }
  const Graph moved = autodiff::jvp(flagged);
  Moved made;
  {
    const LevelDepth around(depth - 1);
    made.values = runtime::dispatch_graph(moved, all);
  }
  const size_t count = graph.outputs().size();
  size_t next = count;
  for (const ir::Output& output : graph.outputs()) {
    const bool has =
        output.role == ir::Role::Result && ir::is_differentiable(graph.type(output.value));
    made.tangents.push_back(has && moved.outputs()[next].requires_grad ? made.values[next]
                                                                       : Tensor());
    next += has ? 1 : 0;
  }
  made.values.resize(count);
  return made;
}

}  // namespace tandem::control
