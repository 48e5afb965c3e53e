// The interpreter's walk over a graph: values, writes through aliases, subgraphs, inputs that share
// storage, and the epilogue.
#include "ir/interpreter/interpret.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/error.h"
#include "ir/interfaces/custom_operator.h"
#include "ir/interpreter/evaluate.h"
#include "ir/shape/shape_rules.h"

namespace tandem::ir {
namespace {

using evaluate::Positions;
using evaluate::Tensor;

/// Reads row-major elements (or none) into `t`, which may be a view.
void load(const Tensor& t, const Buffer& buffer) {
  if (buffer.numel() == 0) return;
  const Tensor values = t.positions ? evaluate::zeros(t.type) : t;
  evaluate::by_category(t.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < buffer.numel(); ++i)
      evaluate::elements<T>(values)[i] = evaluate::number_as<T>(buffer.at(i));
  });
  if (t.positions) evaluate::write(t, values);
}

/// Writes t's elements in row-major order.
void store(const Tensor& t, Buffer& buffer) {
  const Tensor values = evaluate::gathered(t);
  evaluate::by_category(t.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < buffer.numel(); ++i) buffer.set(i, evaluate::elements<T>(values)[i]);
  });
}

Buffer to_buffer(const Tensor& t, bool in_f64) {
  Type type = t.type;
  if (in_f64 && is_floating(type.dtype)) type.dtype = DType::F64;
  Buffer buffer(type);
  store(t, buffer);
  return buffer;
}

// --- equations

class Interpreter {
 public:
  Interpreter(const Graph& graph, const InterpretOptions& options)
      : graph_(graph), options_(options), values_(graph), uses_(use_counts(graph)) {}

  std::vector<Tensor> run(std::span<const Tensor> inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) values_[graph_.inputs()[i].value] = inputs[i];
    for (size_t i = 0; i < graph_.num_equations(); ++i) {
      const EquationId e = graph_.equation_id(i);
      step(e);
      release(e);
    }
    std::vector<Tensor> outputs;
    for (const Output& output : graph_.outputs()) outputs.push_back(values_[output.value]);
    return outputs;
  }

 private:
  void step(EquationId e) {
    const Op op = graph_.op(e);
    if (const auto control = control_step(op)) return (this->*control)(e);
    if (has_attr(op, Attr::body)) return step_subgraph(e, Attr::body);
    if (has_attr(op, Attr::forward)) return step_subgraph(e, Attr::forward);
    if (info(op).cls == OpClass::External) return step_external(e);
    const bool aliases = is_view(op) || info(op).cls == OpClass::Control;
    const bool in_place = graph_.equation(e).in_place;
    std::vector<Tensor> operands;
    for (ValueId v : graph_.operands(e))
      operands.push_back(aliases ? values_[v] : evaluate::gathered(values_[v]));
    Types types;
    if (in_place) types.push_back(operands[0].type);
    for (ValueId v : graph_.results(e)) types.push_back(graph_.type(v));
    const auto results =
        evaluate::evaluate({op, operands, graph_.attrs(e), types, options_.in_f64});
    if (!aliases) {
      for (const Tensor& result : results) evaluate::round_elements(result, options_.in_f64);
      for (const Tensor& result : results) observe(e, operands, result);
    }
    if (in_place) evaluate::write(values_[graph_.operand(e, 0)], results[0]);
    for (size_t i = 0; i < graph_.results(e).size(); ++i)
      values_[graph_.results(e)[i]] = results[i];
  }

  void step_subgraph(EquationId e, Attr body) {
    std::vector<Tensor> operands;
    for (ValueId v : graph_.operands(e)) operands.push_back(values_[v]);
    const Graph& subgraph = graph_.subgraph(graph_.attr<SubgraphId>(e, body));
    const std::vector<Tensor> outputs = Interpreter(subgraph, options_).run(operands);
    const auto results = graph_.results(e);
    for (size_t i = 0; i < results.size(); ++i) values_[results[i]] = outputs[i];
  }

  // --- branches and loops: their results are tensors of their own
  using ControlStep = void (Interpreter::*)(EquationId);
  static ControlStep control_step(Op op) {
    return op == Op::cond         ? &Interpreter::step_cond
           : op == Op::while_loop ? &Interpreter::step_while
           : op == Op::scan       ? &Interpreter::step_scan
                                  : nullptr;
  }

  std::vector<Tensor> operands_of(EquationId e) const {
    std::vector<Tensor> operands;
    for (const ValueId v : graph_.operands(e)) operands.push_back(values_[v]);
    return operands;
  }

  std::vector<Tensor> run_body(EquationId e, Attr body, std::span<const Tensor> inputs) const {
    const Graph& graph = graph_.subgraph(graph_.attr<SubgraphId>(e, body));
    std::vector<Tensor> outputs = Interpreter(graph, options_).run(inputs);
    for (Tensor& output : outputs) output = evaluate::copied(output);
    return outputs;
  }

  static bool is_true(const Tensor& predicate) {
    return to_buffer(predicate, false).at(0).to_double() != 0;
  }

  void set_results(EquationId e, std::span<const Tensor> results) {
    for (size_t i = 0; i < results.size(); ++i)
      values_[graph_.result(e, static_cast<int>(i))] = results[i];
  }

  void step_cond(EquationId e) {
    const std::vector<Tensor> operands = operands_of(e);
    const Attr taken = is_true(operands[0]) ? Attr::then : Attr::otherwise;
    set_results(e, run_body(e, taken, std::span(operands).subspan(1)));
  }

  void step_while(EquationId e) {
    std::vector<Tensor> state = operands_of(e);
    for (Tensor& t : state) t = evaluate::copied(t);
    while (is_true(run_body(e, Attr::condition, state)[0]))
      std::ranges::copy(run_body(e, Attr::body, state), state.begin());
    set_results(e, std::span(state).first(graph_.results(e).size()));
  }

  void step_scan(EquationId e) {
    const auto carries = static_cast<size_t>(graph_.attr<int64_t>(e, Attr::carries));
    const auto whole = carries + static_cast<size_t>(graph_.attr<int64_t>(e, Attr::constants));
    const int64_t length = graph_.attr<Dim>(e, Attr::length);
    const bool reverse = graph_.attr<bool>(e, Attr::reverse);
    const std::vector<Tensor> operands = operands_of(e);
    std::vector<Tensor> state = operands, results;
    for (const ValueId v : graph_.results(e)) results.push_back(evaluate::zeros(graph_.type(v)));
    for (int64_t t = 0; t < length; ++t) {
      const int64_t at = reverse ? length - 1 - t : t;
      for (size_t i = whole; i < operands.size(); ++i) state[i] = slice_at(operands[i], at);
      const std::vector<Tensor> outputs = run_body(e, Attr::body, state);
      for (size_t i = 0; i < outputs.size(); ++i)
        i < carries ? void(state[i] = outputs[i])
                    : evaluate::write(slice_at(results[i], at), outputs[i]);
    }
    for (size_t i = 0; i < carries; ++i) results[i] = evaluate::copied(state[i]);
    set_results(e, results);
  }

  Tensor slice_at(const Tensor& t, int64_t index) const {
    const std::vector<AttrValue> attrs = {int64_t{0}, Dim(index)};
    const Type type = infer_type(Op::select, {&t.type, 1}, attrs);
    return evaluate::evaluate({Op::select, {&t, 1}, attrs, {&type, 1}, options_.in_f64})[0];
  }

  /// The user's code computes in the declared dtypes, also in f64 runs.
  void step_external(EquationId e) {
    std::vector<Buffer> operands, results;
    for (ValueId v : graph_.operands(e)) {
      operands.emplace_back(graph_.type(v));
      store(values_[v], operands.back());
    }
    for (ValueId v : graph_.results(e)) results.emplace_back(graph_.type(v));
    std::vector<BufferView> from = tensors_of(operands), to = tensors_of(results);
    find_custom_operator(graph_.attr<std::string>(e, Attr::operator_name))
        ->run(from, graph_.attr<std::string>(e, Attr::arguments), to);
    for (size_t i = 0; i < results.size(); ++i) {
      Tensor& value = values_[graph_.result(e, static_cast<int>(i))];
      value = evaluate::zeros(results[i].type());
      load(value, results[i]);
    }
  }

  /// What the user's code sees: no tokens.
  static std::vector<BufferView> tensors_of(std::vector<Buffer>& buffers) {
    std::vector<BufferView> views;
    for (Buffer& b : buffers)
      if (!b.type().is_token) views.push_back(b.view());
    return views;
  }

  void observe(EquationId e, std::span<const Tensor> operands, const Tensor& result) {
    if (!options_.after_equation) return;
    Buffer buffer = to_buffer(result, options_.in_f64);
    const auto operand = [&](int i) { return to_buffer(operands[i], options_.in_f64); };
    options_.after_equation({graph_, e, operand}, buffer);
    load(result, buffer);
  }

  /// Forgets values that nothing uses any more.
  void release(EquationId e) {
    for (ValueId v : graph_.operands(e))
      if (--uses_[v.index] == 0) values_[v] = {};
    for (ValueId v : graph_.results(e))
      if (uses_[v.index] == 0) values_[v] = {};
  }

  const Graph& graph_;
  const InterpretOptions& options_;
  ValueMap<Tensor> values_;
  std::vector<uint32_t> uses_;
};

// --- inputs

void check_inputs(const Graph& graph, std::span<const Buffer> buffers, bool in_f64) {
  if (buffers.size() != graph.inputs().size())
    fail(Errc::Argument, fmt::format("interpret: wrong number of inputs; expected {}, got {}",
                                     graph.inputs().size(), buffers.size()));
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Input& input = graph.inputs()[i];
    const Type &expected = graph.type(input.value), &got = buffers[i].type();
    const bool widened = in_f64 && is_floating(expected.dtype) && got.dtype == DType::F64;
    const bool left_out = input.alias_of && buffers[i].numel() == 0;
    if (left_out || expected.is_token) continue;
    if (got.sizes != expected.sizes || (got.dtype != expected.dtype && !widened))
      fail(Errc::Argument,
           fmt::format("interpret: input {} has the wrong type; expected {}, got {}", input.name,
                       to_string(expected), to_string(got)));
  }
}

/// Inputs as tensors that share storage where the graph says so.
class Inputs {
 public:
  Inputs(const Graph& graph, std::span<const Buffer> buffers, bool in_f64) : graph_(graph) {
    check_inputs(graph, buffers, in_f64);
    tensors_.resize(buffers.size());
    std::vector<std::vector<Member>> groups(buffers.size());
    for (int i = 0; i < count(); ++i) {
      auto [root, member] = located(i);
      groups[root].push_back(std::move(member));
    }
    for (std::vector<Member>& members : groups)
      if (!members.empty()) place(members);
    // An alias's own elements count where its root does not reach.
    for (int i = count(); i-- > 0;)
      if (graph.inputs()[i].alias_of) load(tensors_[i], buffers[i]);
    for (int i = 0; i < count(); ++i)
      if (!graph.inputs()[i].alias_of) load(tensors_[i], buffers[i]);
  }

  const std::vector<Tensor>& tensors() const { return tensors_; }

  /// Copies the current elements back.
  void update(std::span<Buffer> buffers) const {
    for (size_t i = 0; i < buffers.size(); ++i) {
      const bool left_out = buffers[i].numel() == 0 && tensors_[i].numel() > 0;
      if (left_out) buffers[i] = Buffer(tensors_[i].type);
      store(tensors_[i], buffers[i]);
    }
  }

 private:
  struct Member {
    int input;
    Positions bytes;  // the first of each element, from the root's first
  };

  int count() const { return static_cast<int>(tensors_.size()); }
  const Type& type(int i) const { return graph_.type(graph_.inputs()[i].value); }
  int64_t size(int i) const { return static_cast<int64_t>(size_of(type(i).dtype)); }

  /// The input in whose storage input `i` lies, and where.
  std::pair<int, Member> located(int i) const {
    int root = i;
    Dim offset = 0;  // in bytes
    while (const auto& alias = graph_.inputs()[root].alias_of) {
      offset += alias->offset * std::min(size(root), size(alias->input));
      root = alias->input;
    }
    const Shape& sizes = type(i).sizes;
    const Strides& strides = graph_.inputs()[i].strides;
    const bool has_strides = strides.rank() == sizes.rank();
    Positions bytes =
        evaluate::strided_positions(sizes, has_strides ? strides : contiguous_strides(sizes), 0);
    for (int64_t& b : bytes) b = b * size(i) + int64_t{offset};
    return {root, {i, std::move(bytes)}};
  }

  /// Gives a root and its aliases one storage that holds them all: of their elements, or if they
  /// are of several dtypes of bytes (so that even an f64 run rounds to the dtypes).
  void place(std::vector<Member>& members) {
    const DType dtype = type(members[0].input).dtype;
    const bool mixed =
        std::ranges::any_of(members, [&](const Member& m) { return type(m.input).dtype != dtype; });
    const int64_t unit = mixed ? 1 : static_cast<int64_t>(size_of(dtype));
    int64_t low = 0, end = 0;
    for (const auto& [i, bytes] : members)
      for (int64_t b : bytes) low = std::min(low, b), end = std::max(end, b + size(i));
    const Type all{mixed ? DType::U8 : dtype, {(end - low) / unit}};
    const auto storage = evaluate::zeros(all).storage;
    for (auto& [i, bytes] : members) {
      bool in_order = !mixed;
      for (size_t k = 0; k < bytes.size(); ++k) {
        bytes[k] = (bytes[k] - low) / unit;
        in_order = in_order && bytes[k] == static_cast<int64_t>(k);
      }
      tensors_[i] = {type(i), storage, nullptr};
      if (mixed) tensors_[i].stored = DType::U8;
      if (!in_order) tensors_[i].positions = std::make_shared<const Positions>(std::move(bytes));
    }
  }

  const Graph& graph_;
  std::vector<Tensor> tensors_;
};

// --- epilogue

Tensor apply_chain(Tensor t, std::span<const ViewStep> chain, bool in_f64) {
  for (const ViewStep& step : chain) {
    const Type type = infer_type(step.op, {&t.type, 1}, step.attrs);
    t = evaluate::evaluate({step.op, {&t, 1}, step.attrs, {&type, 1}, in_f64})[0];
  }
  return t;
}

std::vector<Tensor> results_of(const Graph& graph, const std::vector<Tensor>& inputs,
                               const std::vector<Tensor>& outputs, bool in_f64) {
  if (graph.level == Level::Traced) return outputs;
  std::vector<Tensor> results;
  for (const ResultSource& source : graph.epilogue.results) {
    using Kind = ResultSource::Kind;
    const auto& from = source.kind == Kind::Output         ? outputs
                       : source.kind == Kind::ViewOfResult ? results
                                                           : inputs;
    results.push_back(apply_chain(from[source.index], source.chain, in_f64));
  }
  return results;
}

/// Inputs that became another tensor show what that shows. `results`: the caller's and those
/// behind them.
void change_inputs(const Graph& graph, std::span<const Tensor> results, std::span<Buffer> inputs,
                   bool in_f64) {
  for (const InputChange& change : graph.epilogue.changes)
    if (change.result >= 0) inputs[change.input] = to_buffer(results[change.result], in_f64);
}

std::vector<Tensor> result_outputs(const Graph& graph, const std::vector<Tensor>& outputs) {
  std::vector<Tensor> results;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (graph.outputs()[i].role == Role::Result) results.push_back(outputs[i]);
  return results;
}

std::vector<Buffer> to_buffers(std::span<const Tensor> tensors, bool in_f64) {
  std::vector<Buffer> buffers;
  for (const Tensor& t : tensors) buffers.push_back(to_buffer(t, in_f64));
  return buffers;
}

}  // namespace

std::vector<Buffer> interpret(const Graph& graph, std::span<Buffer> inputs,
                              const InterpretOptions& options) {
  const Inputs loaded(graph, inputs, options.in_f64);
  const auto outputs = Interpreter(graph, options).run(loaded.tensors());
  std::vector<Buffer> buffers = to_buffers(outputs, options.in_f64);
  if (graph.level == Level::Traced) {
    loaded.update(inputs);
    change_inputs(graph, result_outputs(graph, outputs), inputs, options.in_f64);
  }
  return buffers;
}

std::vector<Buffer> interpret_with_epilogue(const Graph& graph, std::span<Buffer> inputs,
                                            const InterpretOptions& options) {
  const Inputs loaded(graph, inputs, options.in_f64);
  std::vector<Tensor> outputs = Interpreter(graph, options).run(loaded.tensors());
  if (graph.level != Level::Traced)  // outputs are values: the writes below do not change them
    for (Tensor& output : outputs) output = evaluate::copied(output);
  for (const InputWrite& w : graph.epilogue.writes)
    evaluate::write(loaded.tensors()[w.input], outputs[w.output]);
  const auto results = results_of(graph, loaded.tensors(), outputs, options.in_f64);
  std::vector<Buffer> buffers = to_buffers(results, options.in_f64);
  loaded.update(inputs);
  change_inputs(graph, graph.level == Level::Traced ? result_outputs(graph, results) : results,
                inputs, options.in_f64);
  return buffers;
}

namespace evaluate {

Tensor hook(const Context& c) { return c.operand(0); }
Tensor first_token(const Context& c) { return zeros(c.result()); }

// The interpreter itself runs ops with subgraphs and custom ones; they have no rule of their own.
static Tensor no_rule(const Context& c) {
  TANDEM_CHECK(false, std::string(name(c.op)) + " is run by the interpreter itself");
  return {};
}
Tensor call(const Context& c) { return no_rule(c); }
Tensor custom_function(const Context& c) { return no_rule(c); }
Tensor cond(const Context& c) { return no_rule(c); }
Tensor while_loop(const Context& c) { return no_rule(c); }
Tensor scan(const Context& c) { return no_rule(c); }
Tensor custom_operator(const Context& c) { return no_rule(c); }
std::array<Tensor, 2> ordered_operator(const Context& c) { return {no_rule(c), no_rule(c)}; }

}  // namespace evaluate
}  // namespace tandem::ir
