// Decomposition in one pass over the equations: every equation is emitted again into a sink that
// turns what is not a Core primitive into what is. What a rule emits goes through the same sink, so
// only the nesting of composites and of subgraphs recurses, never the depth of a graph.
#include "decomps/decompose.h"

#include <optional>

#include "decomps/rules.h"
#include "ir/error.h"

namespace tandem::decomps {

using ir::AttrValue;
using ir::Builder;
using ir::Dim;
using ir::DType;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::OpClass;
using ir::Shape;
using ir::Type;
using ir::ValueId;

Rule rule_of(Op op) {
#define TANDEM_RULE_Primitive(name) nullptr
#define TANDEM_RULE_Composite(name) &rules::name
  static constexpr Rule kRules[] = {
#define OP(name, class_, level, operands, attributes, shape, traits) TANDEM_RULE_##level(name),
#include "ir/ops.def"
  };
  return kRules[static_cast<size_t>(op)];
}

namespace {

bool is_low_precision(const Type& type) {
  return !type.is_token && ir::is_floating(type.dtype) && ir::size_of(type.dtype) < 4;
}

Type widened(Type type) {
  if (is_low_precision(type)) type.dtype = DType::F32;
  return type;
}

/// Ops that only move elements: low precision needs no f32 there.
bool moves_elements(Op op) {
  return op == Op::where || op == Op::convert || op == Op::bitcast || op == Op::clone ||
         op == Op::stop_gradient;
}

/// `dims` (ascending) as runs of neighbours.
std::vector<std::vector<Dim>> runs_of(std::span<const Dim> dims) {
  std::vector<std::vector<Dim>> runs;
  for (Dim d : dims) {
    if (runs.empty() || runs.back().back() + 1 != d) runs.emplace_back();
    runs.back().push_back(d);
  }
  return runs;
}

class DecomposingSink final : public ir::Sink {
 public:
  explicit DecomposingSink(Graph& graph) : graph_(graph), primitives_(graph), builder_(*this) {}

  /// Where primitives go; carries location, grad mode and half.
  ir::GraphSink& primitives() { return primitives_; }
  const Type& type(ValueId v) const override { return graph_.type(v); }

  void emit(Op op, std::span<const ValueId> operands, std::vector<AttrValue> attrs, bool in_place,
            std::span<const Type> types, std::span<ValueId> results) override {
    TANDEM_CHECK(!in_place, "decompose: expected a functional graph");
    if (computes_in_low_precision(op, operands, types))
      results[0] = emit_widened(op, operands, std::move(attrs), types[0]);
    else if (const Rule rule = rule_of(op))
      results[0] = apply(rule, op, operands, attrs, types[0]);
    else if (ir::has_attr(op, ir::Attr::order) && runs_of(dims_of(op, attrs)).size() > 1)
      results[0] = reduce_run_by_run(op, operands[0], dims_of(op, attrs), types[0].sizes);
    else if (const auto product = op == Op::pow ? power_as_product(operands) : std::nullopt)
      results[0] = *product;
    else
      primitives_.emit(op, operands, std::move(attrs), false, types, results);
  }

 private:
  static const std::vector<Dim>& dims_of(Op op, std::span<const AttrValue> attrs) {
    return std::get<std::vector<Dim>>(
        attrs[static_cast<size_t>(ir::attr_index(op, ir::Attr::dims))]);
  }

  bool computes_in_low_precision(Op op, std::span<const ValueId> operands,
                                 std::span<const Type> types) const {
    const OpClass cls = ir::info(op).cls;
    if (cls != OpClass::Pointwise && cls != OpClass::Reduction) return false;
    if (moves_elements(op)) return false;
    for (ValueId v : operands)
      if (is_low_precision(type(v))) return true;
    return is_low_precision(types[0]);
  }

  // Low-precision arithmetic is f32 arithmetic between converts: one rounding per equation.
  ValueId emit_widened(Op op, std::span<const ValueId> operands, std::vector<AttrValue> attrs,
                       const Type& result) {
    std::vector<ValueId> wide;
    for (ValueId v : operands) wide.push_back(builder_.convert(v, widened(type(v)).dtype));
    const Type type = widened(result);
    ValueId out;
    emit(op, wide, std::move(attrs), false, {&type, 1}, {&out, 1});
    return builder_.convert(out, result.dtype);
  }

  ValueId apply(Rule rule, Op op, std::span<const ValueId> operands,
                std::span<const AttrValue> attrs, const Type& result) {
    Context context{builder_, op, operands, attrs, result};
    const ValueId out = rule(context);
    TANDEM_CHECK(type(out) == result, std::string(ir::name(op)) + ": decomposed to " +
                                          to_string(type(out)) + "; expected " + to_string(result));
    return out;
  }

  // A Core reduction runs over neighbouring dims: others become a chain, last run first.
  ValueId reduce_run_by_run(Op op, ValueId v, std::span<const Dim> dims, const Shape& sizes) {
    const auto runs = runs_of(dims);
    for (size_t i = runs.size(); i-- > 0;) v = builder_.reduce(op, v, runs[i], true);
    return builder_.view(v, sizes);
  }

  /// The number that a constant operand holds.
  std::optional<double> constant(ValueId v) const {
    const auto forwards = [&](EquationId e) {
      return graph_.op(e) == Op::expand || graph_.op(e) == Op::convert;
    };
    EquationId e = graph_.producer(v);
    while (e.valid() && forwards(e)) e = graph_.producer(graph_.operand(e, 0));
    if (!e.valid() || graph_.op(e) != Op::full) return std::nullopt;
    return graph_.attr<ir::Number>(e, ir::Attr::value).to_double();
  }

  // As ATen: x^1 = x, x^2 = x x, x^3 = x x x, x^-1 = 1 / x, x^-2 = 1 / (x x)
  std::optional<ValueId> power_as_product(std::span<const ValueId> operands) {
    const ValueId x = operands[0];
    const auto exponent = constant(operands[1]);
    const bool floating = ir::is_floating(type(x).dtype);
    if (exponent == 1) return x;
    if (exponent == 2) return builder_.mul(x, x);
    if (exponent == 3) return builder_.mul(builder_.mul(x, x), x);
    if (exponent == -1 && floating) return builder_.reciprocal(x);
    if (exponent == -2 && floating) return builder_.reciprocal(builder_.mul(x, x));
    return std::nullopt;
  }

  Graph& graph_;
  ir::GraphSink primitives_;
  Builder builder_;
};

/// Emits the equations of graphs, subgraphs in place of the equations that call them.
class Inliner {
 public:
  explicit Inliner(Graph& target) : target_(target), sink_(target) {}

  /// The target's values for the outputs of `source` on `inputs`.
  std::vector<ValueId> run(const Graph& source, std::span<const ValueId> inputs, bool backward) {
    ir::ValueMap<ValueId> map(source);
    for (size_t i = 0; i < inputs.size(); ++i) map[source.inputs()[i].value] = inputs[i];
    for (size_t i = 0; i < source.num_equations(); ++i)
      emit(source, source.equation_id(i), map, backward);
    std::vector<ValueId> outputs;
    for (const ir::Output& o : source.outputs()) outputs.push_back(map[o.value]);
    return outputs;
  }

 private:
  void emit(const Graph& source, EquationId e, ir::ValueMap<ValueId>& map, bool backward) {
    std::vector<ValueId> operands;
    for (ValueId v : source.operands(e)) operands.push_back(map[v]);
    const bool in_backward = backward || source.equation(e).is_backward;
    const std::vector<ValueId> values = ir::info(source.op(e)).cls == OpClass::Control
                                            ? inline_body(source, e, operands, in_backward)
                                            : emit_plain(source, e, operands, in_backward);
    const auto results = source.results(e);
    for (size_t i = 0; i < results.size(); ++i) {
      map[results[i]] = values[i];
      const EquationId producer = target_.producer(values[i]);
      if (!producer.valid()) continue;
      if (target_.hint(values[i]).empty()) target_.set_hint(values[i], source.hint(results[i]));
      ir::Mark& mark = target_.equation(producer).mark;
      if (mark == ir::Mark::Auto) mark = source.equation(e).mark;
    }
  }

  // call and custom_function are their (forward) body; a hook that still stands is the identity.
  std::vector<ValueId> inline_body(const Graph& source, EquationId e,
                                   std::span<const ValueId> operands, bool backward) {
    for (ir::Attr body : {ir::Attr::body, ir::Attr::forward})
      if (ir::has_attr(source.op(e), body))
        return run(source.subgraph(source.attr<ir::SubgraphId>(e, body)), operands, backward);
    return {operands.begin(), operands.end()};
  }

  std::vector<ValueId> emit_plain(const Graph& source, EquationId e,
                                  std::span<const ValueId> operands, bool backward) {
    const ir::Location* location = source.location(e);
    sink_.primitives().location = location ? target_.add_location(*location) : ir::LocationId{};
    sink_.primitives().grad_enabled = source.equation(e).grad_enabled;
    sink_.primitives().is_backward = backward;
    sink_.primitives().region = source.equation(e).region;
    std::vector<Type> types;
    for (ValueId v : source.results(e)) types.push_back(source.type(v));
    std::vector<ValueId> results(types.size());
    const auto attrs = source.attrs(e);
    sink_.emit(source.op(e), operands, {attrs.begin(), attrs.end()}, false, types, results);
    return results;
  }

  Graph& target_;
  DecomposingSink sink_;
};

}  // namespace

Graph decompose(const Graph& graph) {
  Graph core(graph.name, ir::Level::Core);
  std::vector<ValueId> inputs;
  for (const ir::Input& input : graph.inputs())
    inputs.push_back(core.add_input(input, graph.type(input.value)));
  const std::vector<ValueId> values = Inliner(core).run(graph, inputs, false);
  for (size_t i = 0; i < values.size(); ++i) {
    ir::Output output = graph.outputs()[i];
    output.value = values[i];
    core.add_output(std::move(output));
  }
  core.epilogue = graph.epilogue;
  return core;
}

}  // namespace tandem::decomps
