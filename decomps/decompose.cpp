// Decomposition in one pass over the equations: every equation is emitted again into a sink that
// turns what is not a Core primitive into what is. What a rule emits goes through the same sink, so
// only the nesting of composites and of subgraphs recurses, never the depth of a graph.
#include "decomps/decompose.h"

#include <algorithm>
#include <optional>

#include "decomps/dims.h"
#include "decomps/rules/rules.h"
#include "ir/base/error.h"
#include "ir/build/effect.h"

namespace tandem::decomps {

using ir::AttrValue;
using ir::Builder;
using ir::DType;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::OpClass;
using ir::Shape;
using ir::Type;
using ir::Types;
using ir::ValueId;

Rule rule_of(Op op) {
#define TANDEM_RULE_Primitive(name) nullptr
#define TANDEM_RULE_Composite(name) \
  [](Context& c) { return ir::listed<ir::ValueList>(rules::name(c)); }
  static constexpr Rule kRules[] = {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  TANDEM_RULE_##level(name),
#include "ir/ops.def"
  };
  return kRules[static_cast<size_t>(op)];
}

namespace {

bool is_low_precision(const Type& type) { return !type.is_token && ir::is_half(type.dtype); }

Type widened(Type type) {
  if (is_low_precision(type)) type.dtype = DType::F32;
  return type;
}

}  // namespace

bool computes_halves_in_f32(Op op) {
  const ir::OpInfo& info = ir::info(op);
  return (info.cls == OpClass::Pointwise || info.cls == OpClass::Reduction) && !info.moves;
}

namespace {

Types result_types(const Graph& graph, EquationId e) {
  Types types;
  for (ValueId v : graph.results(e)) types.push_back(graph.type(v));
  return types;
}

class DecomposingSink final : public ir::Sink {
 public:
  explicit DecomposingSink(Graph& graph) : graph_(graph), primitives_(graph), builder_(*this) {}

  /// Where primitives go; carries location, grad mode and half.
  ir::GraphSink& primitives() { return primitives_; }
  const Type& type(ValueId v) const override { return graph_.type(v); }

  /// Whether an equation may stand in a Core graph as it is.
  bool is_core(Op op, std::span<const ValueId> operands, std::span<const AttrValue> attrs,
               std::span<const Type> types) const {
    if (rule_of(op) || computes_in_low_precision(op, operands, types)) return false;
    if (op == Op::pow) return !is_product(constant(operands[1]), types[0].dtype);
    return !ir::has_attr(op, ir::Attr::order) || is_one_run(dims_of(op, attrs));
  }

  void emit(Op op, std::span<const ValueId> operands, ir::AttrsRef attrs, bool in_place,
            std::span<const Type> types, std::span<ValueId> results) override {
    TANDEM_CHECK(!in_place, "decompose: expected a functional graph");
    if (is_core(op, operands, attrs, types))
      primitives_.emit(op, operands, attrs, false, types, results);
    else
      std::ranges::copy(decomposed(op, operands, attrs, types), results.begin());
  }

 private:
  ir::ValueList decomposed(Op op, std::span<const ValueId> operands, ir::AttrsRef attrs,
                           std::span<const Type> types) {
    if (computes_in_low_precision(op, operands, types))
      return emit_widened(op, operands, attrs, types);
    if (const Rule rule = rule_of(op)) return apply(rule, op, operands, attrs, types);
    if (op == Op::pow) return {power_as_product(operands[0], *constant(operands[1]))};
    const ValueId kept = reduce_in_turn(builder_, op, operands[0], runs_of(dims_of(op, attrs)));
    return {builder_.view(kept, types[0].sizes)};
  }

  static const ir::Axes& dims_of(Op op, std::span<const AttrValue> attrs) {
    return std::get<ir::Axes>(attrs[static_cast<size_t>(ir::attr_index(op, ir::Attr::dims))]);
  }

  bool computes_in_low_precision(Op op, std::span<const ValueId> operands,
                                 std::span<const Type> types) const {
    if (!computes_halves_in_f32(op)) return false;
    for (ValueId v : operands)
      if (is_low_precision(type(v))) return true;
    return std::ranges::any_of(types, is_low_precision);
  }

  // Low-precision arithmetic is f32 arithmetic between converts: one rounding per equation.
  ir::ValueList emit_widened(Op op, std::span<const ValueId> operands, ir::AttrsRef attrs,
                             std::span<const Type> types) {
    ir::ValueList wide;
    for (ValueId v : operands) wide.push_back(builder_.convert(v, widened(type(v)).dtype));
    Types wide_types;
    for (const Type& type : types) wide_types.push_back(widened(type));
    ir::ValueList out(types.size());
    emit(op, wide, attrs, false, wide_types, out);
    for (size_t i = 0; i < types.size(); ++i) out[i] = builder_.convert(out[i], types[i].dtype);
    return out;
  }

  ir::ValueList apply(Rule rule, Op op, std::span<const ValueId> operands,
                      std::span<const AttrValue> attrs, std::span<const Type> types) {
    Context context{builder_, op, operands, attrs, types};
    const ir::ValueList out = rule(context);
    for (size_t i = 0; i < types.size(); ++i)
      TANDEM_CHECK(type(out[i]) == types[i], std::string(ir::name(op)) + ": decomposed to " +
                                                 to_string(type(out[i])) + "; expected " +
                                                 to_string(types[i]));
    return out;
  }

  /// The number that a constant operand holds, or a difference of such: the exponent that a power's
  /// rule gives.
  std::optional<double> constant(ValueId v) const {
    const auto forwards = [&](EquationId e) {
      return graph_.op(e) == Op::expand || graph_.op(e) == Op::convert;
    };
    EquationId e = graph_.producer(v);
    while (e.valid() && forwards(e)) e = graph_.producer(graph_.operand(e, 0));
    if (!e.valid()) return std::nullopt;
    if (graph_.op(e) == Op::full) return graph_.attr<ir::Number>(e, ir::Attr::value).to_double();
    if (graph_.op(e) != Op::sub) return std::nullopt;
    const auto from = constant(graph_.operand(e, 0)), less = constant(graph_.operand(e, 1));
    return from && less ? std::optional(*from - *less) : std::nullopt;
  }

  static bool is_product(std::optional<double> exponent, DType dtype) {
    if (exponent == 1 || exponent == 2 || exponent == 3) return true;
    return ir::is_floating(dtype) && (exponent == -1 || exponent == -2);
  }

  // As ATen: x^1 = x, x^2 = x x, x^3 = x x x, x^-1 = 1 / x, x^-2 = 1 / (x x)
  ValueId power_as_product(ValueId x, double exponent) {
    if (exponent == 1) return x;
    if (exponent == 2) return builder_.mul(x, x);
    if (exponent == 3) return builder_.mul(builder_.mul(x, x), x);
    return builder_.reciprocal(exponent == -1 ? x : builder_.mul(x, x));
  }

  Graph& graph_;
  ir::GraphSink primitives_;
  Builder builder_;
};

/// Emits the equations of graphs, subgraphs in place of the equations that call them.
class Inliner {
 public:
  Inliner(Graph& target, IsInlined is_inlined)
      : target_(target), is_inlined_(is_inlined), sink_(target) {}

  /// The target's values for the outputs of `source` on `inputs`.
  ir::ValueList run(const Graph& source, std::span<const ValueId> inputs, bool backward) {
    Body body{source, ir::ValueMap<ValueId>(source), target_.add_locations(source), backward};
    for (size_t i = 0; i < inputs.size(); ++i) body.map[source.inputs()[i].value] = inputs[i];
    for (size_t i = 0; i < source.num_equations(); ++i) emit(body, source.equation_id(i));
    ir::ValueList outputs;
    for (const ir::Output& o : source.outputs()) outputs.push_back(body.map[o.value]);
    return outputs;
  }

 private:
  /// A graph whose equations are being emitted.
  struct Body {
    const Graph& source;
    ir::ValueMap<ValueId> map;  // to the target's values
    uint32_t first_location;    // of the source's among the target's
    bool backward;

    bool is_backward(EquationId e) const { return backward || source.equation(e).is_backward; }
    ir::LocationId location(EquationId e) const {
      const ir::LocationId id = source.equation(e).location;
      return id.valid() ? ir::LocationId{first_location + id.index} : id;
    }
  };

  void emit(Body& body, EquationId e) {
    const Graph& source = body.source;
    const auto results = source.results(e);
    operands_.clear();
    for (ValueId v : source.operands(e)) operands_.push_back(body.map[v]);
    if (stays(source, e)) return copy(body, e);
    const ir::ValueList operands(operands_);  // a body within uses the memory again
    const ir::ValueList values = is_inlined_(source.op(e))
                                     ? inline_body(source, e, operands, body.is_backward(e))
                                     : decomposed(body, e, operands);
    for (size_t i = 0; i < results.size(); ++i) {
      body.map[results[i]] = values[i];
      target_.inherit(values[i], source, results[i]);
    }
  }

  bool stays(const Graph& source, EquationId e) const {
    return !is_inlined_(source.op(e)) &&
           sink_.is_core(source.op(e), operands_, source.attrs(e), result_types(source, e));
  }

  void copy(Body& body, EquationId e) {
    TANDEM_CHECK(!body.source.equation(e).in_place, "decompose: expected a functional graph");
    const EquationId id = target_.append_copy(body.source, e, body.map, body.first_location);
    target_.equation(id).is_backward = body.is_backward(e);
    for (const ir::Attr attr : ir::info(target_.op(id)).attrs)
      if (ir::type_of(attr) == ir::AttrType::Graph) {
        const auto of = body.source.attr<ir::SubgraphId>(e, attr);
        target_.set_attr(
            id, attr,
            target_.add_subgraph(decompose_inlining(body.source.subgraph(of), is_inlined_)));
      }
  }

  // What has a (forward) body becomes that; a hook that still stands is the identity.
  ir::ValueList inline_body(const Graph& source, EquationId e, std::span<const ValueId> operands,
                            bool backward) {
    for (ir::Attr body : {ir::Attr::body, ir::Attr::forward})
      if (ir::has_attr(source.op(e), body))
        return run(source.subgraph(source.attr<ir::SubgraphId>(e, body)), operands, backward);
    return operands;
  }

  ir::ValueList decomposed(const Body& body, EquationId e, std::span<const ValueId> operands) {
    const Graph& source = body.source;
    sink_.primitives().location = body.location(e);
    sink_.primitives().grad_enabled = source.equation(e).grad_enabled;
    sink_.primitives().is_backward = body.is_backward(e);
    sink_.primitives().region = source.equation(e).region;
    ir::ValueList results(source.results(e).size());
    sink_.emit(source.op(e), operands, source.attrs(e), false, result_types(source, e), results);
    return results;
  }

  Graph& target_;
  const IsInlined is_inlined_;
  DecomposingSink sink_;
  std::vector<ValueId> operands_;  // of the equation that is being emitted
};

}  // namespace

Graph decompose_inlining(const Graph& graph, IsInlined is_inlined) {
  Graph core(graph.name, ir::Level::Core);
  core.reserve(graph, 3);
  std::vector<ValueId> inputs;
  for (const ir::Input& input : graph.inputs())
    inputs.push_back(core.add_input(input, graph.type(input.value)));
  const ir::ValueList values = Inliner(core, is_inlined).run(graph, inputs, false);
  for (size_t i = 0; i < values.size(); ++i) {
    ir::Output output = graph.outputs()[i];
    output.value = values[i];
    core.add_output(std::move(output));
  }
  core.epilogue = graph.epilogue;
  return ir::join_orders(std::move(core));
}

Graph decompose(const Graph& graph) {
  return decompose_inlining(graph, [](Op op) { return ir::info(op).inlined; });
}

}  // namespace tandem::decomps
