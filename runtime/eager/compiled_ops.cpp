#include "runtime/eager/compiled_ops.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "codegen/loops/scalar_ops.h"
#include "ir/base/error.h"
#include "ir/build/rewrite.h"
#include "ir/strides.h"
#include "machine/library/bf16_matmul.h"
#include "runtime/backends/backends.h"
#include "runtime/compile/pipeline.h"
#include "runtime/eager/kept_code.h"
#include "runtime/eager/kernels.h"
#include "runtime/eager/key.h"
#include "runtime/ops/matmul_precision.h"

namespace tandem::runtime::eager {
namespace {

using ir::Graph;
using ir::Op;
using ir::OpClass;
using ir::OpInfo;
using ir::OpLevel;
using ir::ValueId;

/// From so many elements on; below, what code saves is less than a call of it costs. A reduction,
/// or a long function of each element, gains from fewer on, and a chain of kernels, which costs a
/// call for each, from where it is worth making code for.
constexpr int64_t kMany = 16384, kManyOfLong = 256, kManyOfChain = 64;

/// TANDEM_COMPILED_OPS_FROM sets another number for all.
std::optional<int64_t> chosen_elements() {
  static const std::optional<int64_t> chosen = []() -> std::optional<int64_t> {
    const char* text = std::getenv("TANDEM_COMPILED_OPS_FROM");
    if (text == nullptr || *text == 0) return {};
    return std::atoll(text);
  }();
  return chosen;
}

int64_t many_of(Op op) {
  if (!has_kernel(op)) return kManyOfChain;
  if (ir::info(op).cls == OpClass::Reduction) return kManyOfLong;
  const bool is_long =
      ir::is_pointwise(op) && !ir::is_composite(op) && codegen::scalar_op(op).is_long();
  return is_long ? kManyOfLong : kMany;
}

constexpr int64_t kMaxHeldBytes = int64_t{64} << 20;

/// Whether the library multiplies matrices of `dtype` as they are. (Halves that it does not take
/// are widened: code does so where it multiplies, or not at all.)
bool multiplies_in_library(DType dtype) {
  return dtype == DType::F32 || (dtype == DType::BF16 && machine::has_bf16_products());
}

/// Whether code beats the operation's kernel. (Views are free, scans, factors and products in
/// f32 are the library's in any case; what fills memory with a number is as fast as memory.)
bool gains(Op op, DType dtype) {
  const OpInfo& info = ir::info(op);
  switch (info.cls) {
    case OpClass::Pointwise:
      return op != Op::copy && op != Op::fill && op != Op::stop_gradient;
    case OpClass::Reduction:
    case OpClass::Shape:
    case OpClass::Index:
    case OpClass::Random:
      return true;
    case OpClass::Contraction:
      return info.level == OpLevel::Composite || !multiplies_in_library(dtype);
    case OpClass::Factory:
      return op == Op::iota;
    case OpClass::View:
    case OpClass::Scan:
    case OpClass::Linalg:
    case OpClass::Control:
    case OpClass::External:
      return false;
  }
  return false;
}

// --- what is asked for

/// The integer, from -2 to 4, that all elements of `t` are, if that shows without a look at each.
std::optional<ir::Number> small_integer(const TensorImpl& t) {
  const bool is_one = std::ranges::all_of(t.strides, [](int64_t s) { return s == 0; });
  if (!is_one || ir::numel(t.sizes) == 0) return {};
  const ir::Number number = ir::load_element(t.data(), t.dtype);
  const double value = number.to_double();
  const bool is_small = value >= -2 && value <= 4 && value == std::trunc(value);
  return is_small ? std::optional(number) : std::nullopt;
}

/// What an operation, its write or its gradient is made from. Tensors stand in `inputs`, each once;
/// a value is one of them, a number, or only a type.
struct Request {
  enum class Kind : uint8_t { Results, Write, Gradients };
  static constexpr int kTypeOnly = -1, kAbsent = -2, kNumber = -3;
  struct Value {
    int input;
    ir::Type type;
    ir::Number number = {};
  };
  Kind kind;
  Op op;
  std::span<const ir::AttrValue> attrs;
  std::vector<const Tensor*> inputs;
  std::vector<Value> operands, results, grads;
  std::span<const bool> wanted;             // gradients, by operand
  std::span<const Strides> result_strides;  // of Results

  /// The number of `t` among the inputs; what lies where another does is that one.
  int input(const Tensor& t) {
    const TensorImpl& impl = *t.impl();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const TensorImpl& other = *inputs[i]->impl();
      if (impl.data() == other.data() && impl.dtype == other.dtype && impl.sizes == other.sizes &&
          impl.strides == other.strides)
        return static_cast<int>(i);
    }
    inputs.push_back(&t);
    return static_cast<int>(inputs.size()) - 1;
  }
  Value value(const Tensor& t) { return {input(t), t.impl()->type()}; }
  /// `t` as an operand: an exponent that makes a power, or its gradient, a product is a number.
  Value operand(const Tensor& t) {
    const bool is_exponent = op == Op::pow && operands.size() == 1;
    const auto number = is_exponent ? small_integer(*t.impl()) : std::nullopt;
    return number ? Value{kNumber, t.impl()->type(), *number} : value(t);
  }
};

std::string key_of(const Request& r) {
  Key key;
  key.add(r.kind), key.add(r.op), key.add(r.attrs), key.add(float32_matmul_precision());
  for (const Tensor* t : r.inputs) key.add(t->impl()->strides);
  for (const auto* values : {&r.operands, &r.results, &r.grads}) {
    key.add(values->size());
    for (const Request::Value& v : *values) key.add(v.input), key.add(v.type), key.add(v.number);
  }
  for (bool b : r.wanted) key.add(b);
  for (const Strides& strides : r.result_strides) key.add(strides);
  return key.take();
}

// --- its graph

/// A graph of one request, and its machine code.
struct CompiledOp {
  Graph graph;
  std::unique_ptr<ir::Executable> executable;  // null if there are no outputs
  std::vector<int> inputs;                     // by input of the graph: which of the request's
  struct Result {
    enum class From : uint8_t { Nothing, Input, Output } from = From::Nothing;
    int index = 0;
  };
  std::vector<Result> results;  // by result, or by operand of Gradients
  bool only_views = false;      // nothing is computed: not compiled, as views need no copies
  int64_t held_bytes = 0;
};

/// Of a value without a tensor nothing may be read but its type.
class OpGraph {
 public:
  explicit OpGraph(const Request& request, CompiledOp& to)
      : r_(request), to_(to), sink_(graph_), builder_(sink_) {
    graph_.name = std::string(ir::name(request.op));
    graph_.level = ir::Level::Functional;
    for (const Tensor* t : r_.inputs) add_input(t->impl()->type(), t->impl()->strides);
  }

  void make() {
    switch (r_.kind) {
      case Request::Kind::Results:
        return make_results();
      case Request::Kind::Write:
        return make_write();
      case Request::Kind::Gradients:
        return make_gradients();
    }
  }

  /// Without the inputs that nobody reads.
  Graph take() {
    const Graph live = ir::remove_dead_code(std::move(graph_));
    const std::vector<uint32_t> uses = ir::use_counts(live);
    for (size_t i = 0; i < live.inputs().size(); ++i) {
      if (uses[live.inputs()[i].value.index] == 0) continue;
      TANDEM_CHECK(i < r_.inputs.size(), "a rule reads a value that it does not declare to read");
      to_.inputs.push_back(static_cast<int>(i));
    }
    return ir::remove_unread_inputs(live);
  }

 private:
  ValueId add_input(const ir::Type& type, const Strides& strides) {
    const size_t number = graph_.inputs().size();
    return graph_.add_input({.name = "x" + std::to_string(number), .strides = strides}, type);
  }

  ir::ValueList values(std::span<const Request::Value> list) {
    ir::ValueList ids;
    for (const Request::Value& v : list)
      ids.push_back(
          v.input >= 0                    ? graph_.inputs()[static_cast<size_t>(v.input)].value
          : v.input == Request::kNumber   ? builder_.full(v.type.sizes, v.type.dtype, v.number)
          : v.input == Request::kTypeOnly ? add_input(v.type, ir::contiguous_strides(v.type.sizes))
                                          : ValueId());
    return ids;
  }

  void make_results() {
    const ir::ValueList made = builder_.emit_all(r_.op, values(r_.operands), r_.attrs);
    for (size_t i = 0; i < made.size(); ++i) add_output(made[i], r_.result_strides[i]);
  }

  void make_write() {
    const ir::ValueList made = builder_.emit_all(r_.op, values(r_.operands), r_.attrs);
    graph_.add_output({.value = made[0],
                       .role = ir::Role::MutatedInput,
                       .strides = r_.inputs[0]->impl()->strides,
                       .target = 0});
    graph_.epilogue.writes.push_back({.output = 0, .input = 0});
  }

  void make_gradients() {
    const ir::ValueList operands = values(r_.operands), results = values(r_.results),
                        grads = values(r_.grads);
    autodiff::VjpContext context{builder_, r_.op, operands, results, r_.attrs, grads, r_.wanted};
    for (const auto& gradient : autodiff::apply_vjp(context)) {
      const int input = gradient ? input_of(*gradient) : -1;
      if (input >= 0)
        to_.results.push_back({CompiledOp::Result::From::Input, input});
      else if (gradient)
        add_output(*gradient, ir::contiguous_strides(graph_.type(*gradient).sizes));
      else
        to_.results.emplace_back();
    }
  }

  int input_of(ValueId v) const {
    for (size_t i = 0; i < r_.inputs.size(); ++i)
      if (graph_.inputs()[i].value == v) return static_cast<int>(i);
    return -1;
  }

  void add_output(ValueId v, const Strides& strides) {
    to_.results.push_back(
        {CompiledOp::Result::From::Output, static_cast<int>(graph_.outputs().size())});
    graph_.add_output({.value = v, .role = ir::Role::Result, .strides = strides});
  }

  const Request& r_;
  CompiledOp& to_;
  Graph graph_;
  ir::GraphSink sink_;
  ir::Builder builder_;
};

void compile(const Request& request, CompiledOp& op) {
  OpGraph graph(request, op);
  graph.make();
  Graph functional = graph.take();
  if (functional.outputs().empty()) return;
  const auto is_view = [](const ir::Equation& e) { return ir::is_view(e.op); };
  op.only_views = request.kind == Request::Kind::Gradients &&
                  std::ranges::all_of(functional.equations(), is_view);
  if (op.only_views) return;
  op.graph = run_pipeline_from_functional(std::move(functional), {.contract = false}).forward;
  op.executable =
      compile_for_any_size(op.graph, {.matmul_precision = of_machine(float32_matmul_precision())});
  op.held_bytes = op.graph.held_bytes() + op.executable->report().held_bytes;
}

/// The one for `request`, compiled if it is new. (Two threads that ask at once may both compile.)
std::shared_ptr<const CompiledOp> compiled_op(const Request& request) {
  static auto& kept = *new KeptCode<CompiledOp>(kMaxHeldBytes);
  std::string key = key_of(request);
  if (auto found = kept.find(key)) return found;
  auto made = std::make_shared<CompiledOp>();
  compile(request, *made);
  kept.keep(std::move(key), made);
  return made;
}

// --- a run

std::vector<void*> addresses(const CompiledOp& op, const Request& request) {
  std::vector<void*> from;
  for (int i : op.inputs) from.push_back(request.inputs[static_cast<size_t>(i)]->impl()->data());
  return from;
}

/// New tensors with the graph's outputs.
TensorList run(const CompiledOp& op, const Request& request) {
  TensorList outputs;
  std::vector<void*> to;
  for (const ir::Output& output : op.graph.outputs()) {
    const ir::Type& type = op.graph.type(output.value);
    outputs.push_back(empty_tensor(type.sizes, output.strides, type.dtype));
    to.push_back(outputs.back().impl()->data());
  }
  op.executable->run(addresses(op, request), to);
  return outputs;
}

template <class T>
T in_order(const T& of_dims, const ir::Axes& order) {
  T out;
  for (const ir::Axis d : order) out.push_back(of_dims[static_cast<int>(d)]);
  return out;
}

/// What is computed element by element may be so in any order of dims: operands in that in which
/// `like` lies in memory, so that rows are rows there too.
class AsTheyLie {
 public:
  AsTheyLie(Op op, std::span<const Tensor> operands, const Strides& like)
      : given_(operands), order_(ir::memory_order(like)) {
    const auto fits = [&](const Tensor& t) { return t.dim() == 0 || t.dim() == like.rank(); };
    const bool asks_where = op == Op::tril || op == Op::triu;
    if (!ir::is_pointwise(op) || asks_where || std::ranges::is_sorted(order_) ||
        !std::ranges::all_of(operands, fits))
      return;
    for (const Tensor& t : operands) ordered_.push_back(t.dim() == 0 ? t : turned(t, order_));
  }

  bool is_other() const { return !ordered_.empty(); }
  std::span<const Tensor> operands() const {
    return is_other() ? std::span<const Tensor>(ordered_) : given_;
  }
  Strides strides(const Strides& of) const { return is_other() ? in_order(of, order_) : of; }
  /// A result of such operands as one of those that were given.
  Tensor back(const Tensor& result) const {
    return is_other() ? turned(result, ir::inverse(order_)) : result;
  }

 private:
  static Tensor turned(const Tensor& t, const ir::Axes& order) {
    const TensorImpl& impl = *t.impl();
    return view_tensor(t, in_order(impl.sizes, order), in_order(impl.strides, order), impl.offset);
  }

  std::span<const Tensor> given_;
  ir::Axes order_;
  std::vector<Tensor> ordered_;
};

/// f(), or nothing if the data are wrong.
template <class F>
auto unless_data_fail(Op op, F f) -> std::optional<decltype(f())> {
  if (ir::info(op).effect != ir::Effect::MayFail) return f();
  try {
    return f();
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

bool are_many(Dim elements) { return elements >= chosen_elements().value_or(kMany); }

bool runs_compiled(Op op, DType dtype, Dim elements, Dim results) {
  if (elements < chosen_elements().value_or(many_of(op)) || !gains(op, dtype)) return false;
  constexpr int64_t kFew = 16;  // long sums: the kernel's chains of adds are shorter, and lose less
  const bool loses_less = op == Op::sum && results < kFew && ir::is_floating(dtype);
  return !loses_less ||
         (ir::size_of(dtype) == 2 && are_many(elements));  // which halves do not show
}

std::optional<TensorList> run_compiled(Op op, std::span<const Tensor> operands,
                                       std::span<const ir::AttrValue> attrs,
                                       std::span<const Strides> strides) {
  const AsTheyLie lying(op, operands, strides[0]);
  const Strides ordered[] = {lying.strides(strides[0])};
  Request request{.kind = Request::Kind::Results, .op = op, .attrs = attrs};
  for (const Tensor& t : lying.operands()) request.operands.push_back(request.operand(t));
  request.result_strides = lying.is_other() ? ordered : strides;
  auto results = unless_data_fail(op, [&] { return run(*compiled_op(request), request); });
  if (results && lying.is_other()) (*results)[0] = lying.back((*results)[0]);
  return results;
}

bool write_compiled(Op op, std::span<const Tensor> given, std::span<const ir::AttrValue> attrs) {
  const OpInfo& info = ir::info(op);
  const bool may_fail = info.effect == ir::Effect::MayFail;
  if (info.overwrites || (may_fail && info.cls != OpClass::Index)) return false;
  const AsTheyLie lying(op, given, given[0].impl()->strides);
  const std::span<const Tensor> operands = lying.operands();
  Request request{.kind = Request::Kind::Write, .op = op, .attrs = attrs};
  for (const Tensor& t : operands) request.operands.push_back(request.operand(t));
  const auto compiled = compiled_op(request);
  if (compiled->executable->output_from_input(0) == 0) return true;
  const TensorImpl& self = *operands[0].impl();
  const bool direct = compiled->executable->output_into_input(0) == 0;
  // A kernel writes but what is named, and needs no memory for gaps.
  if (!direct && (may_fail || !ir::is_dense(self.sizes, self.strides))) return false;
  const Tensor out = direct ? operands[0] : empty_tensor(self.sizes, self.strides, self.dtype);
  void* const to = out.impl()->data();
  const auto run = [&] {
    compiled->executable->run(addresses(*compiled, request), {&to, 1});
    return true;
  };
  if (!unless_data_fail(op, run)) return false;
  if (!direct) copy_elements(out.impl()->view(), self.view());
  return true;
}

std::optional<std::vector<Tensor>> gradients_compiled(Op op, std::span<const RuleValue> operands,
                                                      std::span<const RuleValue> results,
                                                      std::span<const ir::AttrValue> attrs,
                                                      std::span<const Tensor> grads,
                                                      std::span<const bool> wanted) {
  Request request{.kind = Request::Kind::Gradients, .op = op, .attrs = attrs, .wanted = wanted};
  for (const RuleValue& v : operands)
    request.operands.push_back(v.tensor.defined() ? request.operand(v.tensor)
                                                  : Request::Value{Request::kTypeOnly, v.type});
  for (const RuleValue& v : results)
    request.results.push_back(v.tensor.defined() ? request.value(v.tensor)
                                                 : Request::Value{Request::kTypeOnly, v.type});
  for (const Tensor& g : grads)
    request.grads.push_back(g.defined() ? request.value(g) : Request::Value{Request::kAbsent, {}});
  const auto compiled = compiled_op(request);
  if (compiled->only_views) return {};
  return unless_data_fail(op, [&] {
    const TensorList outputs = compiled->executable ? run(*compiled, request) : TensorList();
    std::vector<Tensor> gradients;
    for (const auto& [from, index] : compiled->results) {
      using From = CompiledOp::Result::From;
      const auto i = static_cast<size_t>(index);
      gradients.push_back(from == From::Input    ? *request.inputs[i]
                          : from == From::Output ? outputs[i]
                                                 : Tensor());
    }
    return gradients;
  });
}

}  // namespace tandem::runtime::eager
