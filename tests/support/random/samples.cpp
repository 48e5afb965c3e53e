#include "tests/support/random/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>

#include "autodiff/vjp.h"
#include "ir/base/error.h"
#include "ir/build/builder.h"
#include "ir/interpreter/interpret.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/trace/trace.h"
#include "tests/support/op_samples.h"
#include "tests/support/random/calls.h"
#include "tools/memory.h"

namespace tandem::testing {
namespace {

using ir::Buffer;
using ir::DType;
using ir::Graph;
using ir::Op;
using ir::ValueId;
using Layouts = std::span<const ir::Strides>;

/// Floating numbers in `floating`, others as they are.
Buffer in_dtype(const Buffer& buffer, DType floating) {
  Buffer copy({ir::is_floating(buffer.dtype()) ? floating : buffer.dtype(), buffer.sizes()});
  for (int64_t i = 0; i < copy.numel(); ++i) copy.set(i, buffer.at(i));
  return copy;
}

void add_output(Graph& graph, ValueId v) {
  ir::Output output;
  output.value = v;
  output.name = fmt::format("y{}", graph.outputs().size());
  output.strides = ir::contiguous_strides(graph.type(v).sizes);
  graph.add_output(output);
}

// --- rows

/// It draws floats, whose bits depend on their dtype.
bool draws_floats(Op op) {
  return ir::info(op).cls == ir::OpClass::Random && op != Op::random_bits;
}
bool reads_bits(Op op) {
  return op == Op::bitcast || op == Op::view_dtype || op == Op::view_dtype_copy;
}

bool has_floats(const OpSample& sample) {
  const auto is_floating = [](const Buffer& b) { return ir::is_floating(b.dtype()); };
  return std::ranges::any_of(sample.operands, is_floating) ||
         std::ranges::any_of(sample.attrs, [](const ir::AttrValue& attr) {
           const auto* dtype = std::get_if<DType>(&attr);
           return dtype && ir::is_floating(*dtype);
         });
}

/// An attribute that is a floating dtype follows the program's.
std::vector<ir::AttrValue> attrs_in(std::vector<ir::AttrValue> attrs, DType floating) {
  for (ir::AttrValue& attr : attrs)
    if (auto* dtype = std::get_if<DType>(&attr); dtype && ir::is_floating(*dtype))
      *dtype = floating;
  return attrs;
}

/// The factors that it takes must be self's own.
std::vector<ValueId> lu_operands(ir::Builder& b, const std::vector<ValueId>& given) {
  const ir::ValueList factored = b.emit_all(Op::lu_factor, {given.data(), 1}, {true});
  return {given[0], factored[0], factored[1], given[1]};
}

Graph row_body(Op op, const OpSample& sample, bool in_place, DType floating, Layouts layouts) {
  Graph graph(std::string(ir::name(op)), ir::Level::Traced);
  std::vector<ValueId> operands;
  for (const Buffer& buffer : sample.operands) {
    ir::Input input;
    input.name = fmt::format("x{}", operands.size());
    input.strides = layouts[operands.size()];
    const DType dtype = ir::is_floating(buffer.dtype()) ? floating : buffer.dtype();
    operands.push_back(graph.add_input(input, {dtype, buffer.sizes()}));
  }
  ir::GraphSink sink(graph);
  ir::Builder b(sink);
  if (op == Op::lu_solve) operands = lu_operands(b, operands);
  const std::vector<ir::AttrValue> attrs = attrs_in(sample.attrs, floating);
  if (in_place)
    b.emit_in_place(op, operands, attrs);
  else if (ir::info(op).results.size() > 1)
    b.emit_all(op, operands, attrs);
  else
    b.emit(op, operands, attrs);
  if (in_place) add_output(graph, operands[0]);
  for (const ValueId v : graph.results(graph.equation_id(graph.num_equations() - 1)))
    add_output(graph, v);
  return graph;
}

// --- calls

const CallTable* const* tables(size_t& count) {
  static const std::array<const CallTable*, 6> all = {&listed_calls(), &pointwise_calls(),
                                                      &reduce_calls(), &shape_calls(),
                                                      &linalg_calls(), &network_calls()};
  count = all.size();
  return all.data();
}

/// The table that call number `call` is in, and its place there.
std::pair<const CallTable*, size_t> find_call(size_t call) {
  size_t count = 0;
  const CallTable* const* table = tables(count);
  while (call >= (*table)->calls.size()) call -= (*table++)->calls.size();
  return {*table, call};
}

Tensor tensor_in(const Buffer& buffer, DType floating, const ir::Strides& strides) {
  Buffer copy = in_dtype(buffer, floating);
  const Tensor t = runtime::empty_tensor(copy.sizes(), strides, copy.dtype());
  tools::copy_elements(copy.view(), t.impl()->view());
  return t;
}

/// A call, how many operands its table makes for it, and which of them there are.
struct Traceable {
  const Call* call;
  size_t operands;
  std::vector<size_t> places;
  Number n;
};

/// What a call was recorded as, and the tensors behind the inputs, captured ones after its own. If
/// it draws, an rng is the last input, behind which is none.
struct Recording {
  Graph graph;
  std::vector<Tensor> inputs;
};

Recording record(const Traceable& t, const std::vector<Tensor>& given) {
  const auto trace = std::make_shared<runtime::Trace>("call");
  {
    const runtime::TraceScope scope(trace);
    CallOperands operands(t.operands);
    for (size_t k = 0; k < given.size(); ++k)
      operands[t.places[k]] = trace->add_input(given[k], fmt::format("x{}", k), ir::Role::Primal);
    trace->add_output(trace->resolve(t.call->run(operands, t.n)));
  }
  Recording recording{trace->finish(), trace->real_inputs()};
  Graph& graph = recording.graph;
  const bool is_plain = std::ranges::none_of(
      graph.inputs(), [](const ir::Input& input) { return input.alias_of.has_value(); });
  std::ranges::stable_partition(graph.inputs(),
                                [](const ir::Input& input) { return input.role != ir::Role::Rng; });
  std::erase_if(recording.inputs, [](const Tensor& input) { return !input.defined(); });
  if (!is_plain || !graph.subgraphs().empty() || !graph.epilogue.changes.empty())
    ir::fail(ir::Errc::Unsupported, "it does more than equations do");
  return recording;
}

/// `contents` has captured tensors too, which the call brings itself.
Graph call_body(const Traceable& t, const std::vector<Buffer>& contents, DType floating,
                Layouts layouts) {
  std::vector<Tensor> given;
  for (size_t k = 0; k < t.places.size(); ++k)
    given.push_back(tensor_in(contents[k], floating, layouts[k]));
  Recording recording = record(t, given);
  bool fits = recording.inputs.size() == contents.size();
  for (size_t i = t.places.size(); fits && i < contents.size(); ++i)
    fits = recording.inputs[i].sizes() == contents[i].sizes();
  if (!fits) ir::fail(ir::Errc::Unsupported, "what it captures depends on the layout or dtype");
  return std::move(recording.graph);
}

Buffer contents_of(const Tensor& t) { return ir::copy_of(t.impl()->view()); }

void add_captured(const Traceable& t, DType floating, std::vector<Buffer>& operands) {
  std::vector<Tensor> given;
  for (const Buffer& operand : operands)
    given.push_back(tensor_in(operand, floating, ir::contiguous_strides(operand.sizes())));
  const std::vector<Tensor> inputs = record(t, given).inputs;
  for (size_t i = operands.size(); i < inputs.size(); ++i)
    operands.push_back(contents_of(inputs[i]));
}

/// In which dtypes a body draws. The words of dropout do not depend on its own.
std::vector<DType> draw_dtypes(const Graph& body) {
  std::vector<DType> dtypes;
  for (const ir::Equation& e : body.equations())
    if (ir::info(e.op).cls == ir::OpClass::Random && e.op != Op::dropout)
      dtypes.push_back(body.type(body.results(e)[0]).dtype);
  return dtypes;
}

bool is_finite(const Buffer& buffer) {
  for (int64_t i = 0; i < buffer.numel(); ++i)
    if (!std::isfinite(buffer.at(i).to_double())) return false;
  return true;
}

double power_of_two_above(const Buffer& buffer) {
  double largest = 0.5;
  for (int64_t i = 0; i < buffer.numel(); ++i)
    largest = std::max(largest, std::abs(buffer.at(i).to_double()));
  return std::exp2(std::floor(std::log2(1.1 * largest)) + 1);
}

}  // namespace

std::vector<Op> sampled_rows() {
  std::vector<Op> rows;
  for (int i = 0; i < ir::kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    if (!draws_floats(op) && !op_samples(op, 7).empty()) rows.push_back(op);
  }
  return rows;
}

std::optional<Sample> row_sample(Op op, uint64_t seed, DType floating) {
  static constexpr int64_t kLengths[] = {0, 1, 2, 3, 5, 7, 8, 17, 33};
  std::mt19937_64 random(seed);
  const std::vector<OpSample> all = op_samples(op, kLengths[random() % std::size(kLengths)]);
  if (all.empty()) return std::nullopt;
  OpSample sample = all[random() % all.size()];
  if (op == Op::lu_solve) sample.operands = {sample.operands[0], sample.operands[3]};
  if (reads_bits(op) && has_floats(sample)) return std::nullopt;
  const ir::OpInfo& row = ir::info(op);
  const bool in_place = row.overwrites || (row.in_place && random() % 3 == 0);
  Sample out;
  out.name = fmt::format("{}{}", row.name, in_place ? "_" : "");
  for (const Buffer& operand : sample.operands) out.operands.push_back(in_dtype(operand, floating));
  out.is_fixed.resize(out.operands.size());
  // as_strided speaks of the memory of a contiguous operand.
  out.takes_layouts = row.cls != ir::OpClass::View && !ir::has_attr(op, ir::Attr::strides);
  out.takes_repetitions = row.cls == ir::OpClass::Pointwise && !in_place;
  out.body = [=](DType dtype, Layouts layouts) {
    return row_body(op, sample, in_place, dtype, layouts);
  };
  return out;
}

size_t call_count() {
  size_t tables_count = 0, calls = 0;
  const CallTable* const* all = tables(tables_count);
  for (size_t i = 0; i < tables_count; ++i) calls += all[i]->calls.size();
  return calls;
}

std::string call_text(size_t call) {
  const auto [table, place] = find_call(call);
  return fmt::format("{}: {}", table->calls[place].kind, table->calls[place].text);
}

std::optional<Sample> call_sample(size_t call, uint64_t seed, DType floating) {
  const auto [table, place] = find_call(call);
  Traceable t{&table->calls[place], 0, {}, seed / 2 % 2 ? Number(2) : Number(0.5)};
  const CallOperands operands = table->operands(t.call->kind, seed / 4);
  t.operands = operands.size();
  Sample out;
  out.name = call_text(call);
  for (size_t k = 0; k < operands.size(); ++k)
    if (operands[k].defined()) {
      t.places.push_back(k);
      out.operands.push_back(in_dtype(contents_of(operands[k]), floating));
    }
  try {
    add_captured(t, floating, out.operands);
  } catch (const ir::Error&) {
    return std::nullopt;
  }
  out.is_fixed.resize(t.places.size());
  out.is_fixed.resize(out.operands.size(), true);
  out.body = [t, contents = out.operands](DType dtype, Layouts layouts) {
    return call_body(t, contents, dtype, layouts);
  };
  return out;
}

std::optional<Sample> random_sample(uint64_t seed, DType floating) {
  static const std::vector<Op> rows = sampled_rows();
  static const size_t calls = call_count();
  std::mt19937_64 random(seed);
  const bool is_row = random() % 2 == 0;
  const uint64_t which = random(), how = random();
  return is_row ? row_sample(rows[which % rows.size()], how, floating)
                : call_sample(which % calls, how, floating);
}

std::optional<std::vector<double>> bounds_of(const Sample& sample, DType floating) {
  std::vector<ir::Strides> layouts;
  for (const Buffer& operand : sample.operands)
    layouts.push_back(ir::contiguous_strides(operand.sizes()));
  ir::InterpretOptions options;
  options.in_f64 = true;
  std::vector<double> bounds;
  try {
    std::vector<Buffer> inputs = sample.operands;
    const Graph body = sample.body(floating, layouts);
    if (draws(body)) {
      if (draw_dtypes(body) != draw_dtypes(sample.body(DType::F64, layouts))) return std::nullopt;
      inputs.emplace_back(ir::Type{DType::I64, {2}});
    }
    for (const Buffer& result : ir::interpret(body, inputs, options)) {
      if (!is_finite(result)) return std::nullopt;
      bounds.push_back(power_of_two_above(result));
    }
  } catch (const ir::Error&) {
    return std::nullopt;
  }
  return bounds;
}

bool draws(const Graph& body) {
  return !body.inputs().empty() && body.inputs().back().role == ir::Role::Rng;
}

bool refuses_gradients(const Graph& body) {
  return std::ranges::any_of(body.equations(), [](const ir::Equation& e) {
    const autodiff::VjpRule& rule = autodiff::vjp_rule(e.op);
    return rule.refused != 0 || rule.kind == autodiff::VjpRule::Kind::NotDifferentiable;
  });
}

}  // namespace tandem::testing
