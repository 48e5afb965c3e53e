// Custom operators: checked calls of the user's code, eager and as an equation. Inside a trace, and
// on the tape, the operator is a function: it works on copies of what it writes, and ordinary
// copies write the new contents back, so views and gradients need know nothing of it.
#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/custom_op.h>
#include <tandem/ops.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <sstream>
#include <unordered_set>

#include "autodiff/vjp.h"
#include "ir/base/error.h"
#include "ir/interfaces/custom_operator.h"
#include "ir/strides.h"
#include "ir/text/spelling.h"
#include "ir/verify/verify.h"
#include "runtime/eager/copy.h"
#include "runtime/levels/batched.h"
#include "runtime/levels/dual.h"
#include "runtime/ops/call.h"
#include "runtime/ops/custom/operator_schema.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/nodes.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {

/// A definition with its schema sorted out.
struct OperatorImpl final : ir::CustomOperator {
  explicit OperatorImpl(OperatorDefinition given);

  const std::string& name() const { return schema.name; }
  bool is_ordered() const override { return definition.ordered; }
  bool gives_nothing() const { return written.empty() && new_results == 0; }
  ir::Op op() const { return is_ordered() ? ir::Op::ordered_operator : ir::Op::custom_operator; }
  std::vector<ir::Type> result_types(std::span<const ir::Type> operands,
                                     std::string_view arguments) const override;
  void run(std::span<const ir::BufferView> operands, std::string_view arguments,
           std::span<const ir::BufferView> results) const override;

  /// Runs the user's code on `tensors` and checks what it did; the results that it gave.
  std::vector<Tensor> run_checked(const std::vector<Tensor>& tensors,
                                  const std::vector<Number>& numbers) const;
  std::vector<TensorType> new_types(const std::vector<TensorType>& tensors,
                                    const std::vector<Number>& numbers) const;
  /// The schema's results: aliases of arguments, and the new ones in between.
  std::vector<Tensor> arrange(const std::vector<Tensor>& tensors,
                              std::vector<Tensor> new_results) const;
  bool saves(const std::string& argument) const {
    return std::ranges::count(definition.saves, argument) != 0;
  }

  OperatorDefinition definition;
  OperatorSchema schema;
  std::vector<OperatorSchema::Argument> tensors, numbers;  // arguments by kind
  std::vector<size_t> written;                             // among the tensors
  std::vector<int> aliased;  // by result: the tensor argument, or -1 for a new one
  size_t new_results = 0;

 private:
  void check_definition() const;
  std::vector<Tensor> lent(const std::vector<Tensor>& tensors) const;
  void check_new(const std::vector<Tensor>& results, const std::vector<Tensor>& arguments,
                 const std::vector<Number>& given) const;
};

namespace {

[[noreturn]] void refuse(const OperatorImpl& op, Errc code, const std::string& problem) {
  ir::fail(code, fmt::format("{}: {}", op.name(), problem));
}

TensorType type_of(const Tensor& t) { return {t.dtype(), t.sizes()}; }
std::string text(const TensorType& type) { return ir::to_string(ir::Type{type.dtype, type.sizes}); }

std::string spelled(const std::vector<Number>& numbers) {
  std::string out;
  for (const Number& n : numbers) out += (out.empty() ? "" : " ") + ir::spell(n);
  return out;
}

std::vector<Number> numbers_of(std::string_view arguments) {
  std::istringstream words{std::string(arguments)};
  std::vector<Number> numbers;
  for (std::string word; words >> word;) {
    if (word == "true" || word == "false")
      numbers.emplace_back(word == "true");
    else if (word.find_first_of(".enai") != std::string::npos)
      numbers.emplace_back(std::strtod(word.c_str(), nullptr));
    else
      numbers.emplace_back(static_cast<int64_t>(std::strtoll(word.c_str(), nullptr, 10)));
  }
  return numbers;
}

/// A tensor over memory that somebody else owns.
Tensor wrapped(const ir::BufferView& view, bool read_only) {
  return from_blob(view.data, view.sizes, view.strides, view.dtype, {}, read_only);
}

/// The contents of what may not change, to find an undeclared write by.
class Snapshot {
 public:
  Snapshot(const OperatorImpl& op, const std::vector<Tensor>& tensors) : op_(op) {
    if (!ir::verification_enabled()) return;
    for (size_t i = 0; i < tensors.size(); ++i)
      if (std::ranges::count(op.written, i) == 0 && !overlaps_written(tensors, i))
        before_.emplace_back(i, contents(tensors[i]));
  }
  void compare(const std::vector<Tensor>& tensors) const {
    for (const auto& [i, before] : before_) {
      const Tensor now = contents(tensors[i]);
      const auto bytes = static_cast<size_t>(int64_t{now.numel()}) * ir::size_of(now.dtype());
      if (std::memcmp(now.impl()->data(), before.impl()->data(), bytes) != 0)
        refuse(op_, Errc::Mutation,
               fmt::format("it wrote argument {}, which its schema does not declare; expected "
                           "Tensor(a!) {}",
                           op_.tensors[i].name, op_.tensors[i].name));
    }
  }

 private:
  bool overlaps_written(const std::vector<Tensor>& tensors, size_t i) const {
    return std::ranges::any_of(op_.written,
                               [&](size_t w) { return tensors[w].shares_storage(tensors[i]); });
  }
  static Tensor contents(const Tensor& t) {
    const Tensor copy = empty_tensor(t.sizes(), t.dtype());
    copy_elements(*copy.impl(), *t.impl());
    return copy;
  }

  const OperatorImpl& op_;
  std::vector<std::pair<size_t, Tensor>> before_;
};

Dim end_of(const Tensor& t) { return ir::end_of({t.sizes(), t.strides(), t.storage_offset()}); }

/// The elements' offsets.
std::unordered_set<int64_t> addresses(const Tensor& t) {
  std::unordered_set<int64_t> out{static_cast<int64_t>(t.storage_offset())};
  for (int d = 0; d < t.sizes().rank(); ++d) {
    std::unordered_set<int64_t> next;
    for (int64_t at : out)
      for (int64_t i = 0; i < t.sizes()[d]; ++i) next.insert(at + i * int64_t{t.strides()[d]});
    out = std::move(next);
  }
  return out;
}

bool overlap(const Tensor& a, const Tensor& b) {
  if (!a.shares_storage(b) || a.numel() == 0 || b.numel() == 0) return false;
  if (a.dtype() != b.dtype()) return true;
  if (end_of(a) <= b.storage_offset() || end_of(b) <= a.storage_offset()) return false;
  const auto in_a = addresses(a);
  return std::ranges::any_of(addresses(b), [&](int64_t at) { return in_a.contains(at); });
}

/// On copies, one argument's write is not seen through another.
void refuse_overlap(const OperatorImpl& op, const std::vector<Tensor>& tensors) {
  for (size_t w : op.written)
    for (size_t i = 0; i < tensors.size(); ++i)
      if (i != w && overlap(tensors[w], tensors[i]))
        refuse(op, Errc::Mutation,
               fmt::format("argument {}, which it writes, overlaps {}; inside a trace or on the "
                           "tape expected arguments that do not (clone one)",
                           op.tensors[w].name, op.tensors[i].name));
}

void check_call(const OperatorImpl& op, const std::vector<Tensor>& tensors,
                const std::vector<Number>& numbers) {
  if (tensors.size() != op.tensors.size() || numbers.size() != op.numbers.size())
    refuse(op, Errc::Argument,
           fmt::format("wrong number of arguments; expected {} tensors and {} numbers, got {} and "
                       "{}",
                       op.tensors.size(), op.numbers.size(), tensors.size(), numbers.size()));
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].defined())
      refuse(op, Errc::Argument,
             fmt::format("argument {} is undefined; expected a tensor", op.tensors[i].name));
  for (size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i].is_float() && op.numbers[i].kind != "float")
      refuse(op, Errc::Argument,
             fmt::format("{} {}: expected an integer, got a float", op.numbers[i].kind,
                         op.numbers[i].name));
}

std::vector<Tensor> functional(const std::shared_ptr<const OperatorImpl>& op,
                               const std::vector<Tensor>& tensors,
                               const std::vector<Number>& numbers);

/// Inside vmap: example by example, each of which the tape follows if `grad_mode`.
std::vector<Tensor> example_by_example(const std::shared_ptr<const OperatorImpl>& op,
                                       const std::vector<Tensor>& tensors,
                                       const std::vector<Number>& numbers, bool grad_mode,
                                       size_t depth) {
  const GradMode mode(grad_mode);
  return each_example(op->name(), tensors, depth, [&](const std::vector<Tensor>& example) {
    return functional(op, example, numbers);
  });
}

/// The functional form: the written arguments' new contents, then the new results. The tape follows
/// what it is made of if `grad_mode`.
std::vector<Tensor> as_function(const std::shared_ptr<const OperatorImpl>& operation,
                                const std::vector<Tensor>& tensors,
                                const std::vector<Number>& numbers, bool grad_mode) {
  const OperatorImpl& op = *operation;
  if (const size_t depth = batch_level_of(op.op(), tensors))
    return example_by_example(operation, tensors, numbers, grad_mode, depth);
  Trace* trace = Trace::current();
  if (trace == nullptr) {
    std::vector<Tensor> copies = tensors, results;
    for (size_t w : op.written) results.push_back(copies[w] = clone_tensor(tensors[w]));
    std::ranges::move(op.run_checked(copies, numbers), std::back_inserter(results));
    return results;
  }
  std::vector<Tensor> operands;
  std::vector<ir::Type> types;
  for (const Tensor& t : tensors) {
    operands.push_back(trace->resolve(t));
    types.push_back(operands.back().impl()->type());
  }
  const std::string numbers_text = spelled(numbers);
  const std::vector<ir::Type> results = op.result_types(types, numbers_text);
  const auto made = trace->record(op.op(), operands, {op.name(), numbers_text}, false, results);
  return {made.begin(), made.end()};
}

// --- gradients

struct OperatorContext final : FunctionContext {
  std::shared_ptr<const OperatorImpl> op;
  std::vector<Number> numbers;
};

/// The names that may be saved, in order: arguments, then results as the gradient sees them.
std::vector<std::string> savable(const OperatorImpl& op) {
  std::vector<std::string> names;
  for (const auto& t : op.tensors) names.push_back(t.name);
  for (size_t w : op.written) names.push_back(op.tensors[w].name + "!");
  for (size_t i = 0; i < op.aliased.size(); ++i)
    if (op.aliased[i] < 0) names.push_back(op.schema.results[i].name);
  return names;
}

std::vector<Tensor> run_gradient(FunctionContext& context, const std::vector<Tensor>& grads) {
  const auto& c = static_cast<OperatorContext&>(context);
  const OperatorImpl& op = *c.op;
  OperatorGradient call{.numbers = c.numbers};
  call.grads = grads;
  size_t next = 0;
  const std::vector<std::string> names = savable(op);
  for (size_t i = 0; i < names.size(); ++i)
    (i < op.tensors.size() ? call.arguments : call.results)
        .push_back(op.saves(names[i]) ? c.saved()[next++] : Tensor());
  return op.definition.gradient(call);
}

/// The functional form with its own gradient.
std::vector<Tensor> as_differentiable(const std::shared_ptr<const OperatorImpl>& op,
                                      const std::vector<Tensor>& tensors,
                                      const std::vector<Number>& numbers) {
  auto context = std::make_shared<OperatorContext>();
  context->op = op;
  context->numbers = numbers;
  FunctionCall call(op->name().c_str(), &run_gradient, tensors, context, context.get());
  std::vector<Tensor> outputs;
  {
    const bool mode = grad_enabled();
    const NoGrad no_grad;
    outputs = as_function(op, tensors, numbers, mode);
    std::vector<Tensor> all = tensors, saved;
    for (size_t w : op->written)  // about to be overwritten
      if (op->saves(op->tensors[w].name)) all[w] = clone_tensor(tensors[w]);
    all.insert(all.end(), outputs.begin(), outputs.end());
    const std::vector<std::string> names = savable(*op);
    for (size_t i = 0; i < names.size(); ++i)
      if (op->saves(names[i])) saved.push_back(all[i]);
    context->save_for_backward(std::move(saved));
  }
  call.finish(outputs);
  return outputs;
}

/// On the tape where a gradient would need a formula that there is none of.
struct NoFormula final : Node {
  NoFormula(Edges next, std::string operator_name)
      : Node(std::move(next)), name_(std::move(operator_name)) {}
  std::string name() const override { return name_; }
  std::vector<Tensor> apply(std::vector<Tensor>, std::span<const bool>) override {
    ir::fail(Errc::Autograd, autodiff::not_differentiable(name_));
  }
  void release() override {}

 private:
  std::string name_;
};

void forbid_gradients(const OperatorImpl& op, const std::vector<Tensor>& tensors,
                      const std::vector<Tensor>& outputs) {
  for (const Tensor& output : outputs) {
    if (!ir::is_differentiable(output.dtype())) continue;
    Edges edges;
    for (const Tensor& t : tensors) edges.push_back(gradient_edge(t));
    set_history(output, make_node<NoFormula>(std::move(edges), op.name()));
  }
}

/// In place, at once.
std::vector<Tensor> run_directly(const OperatorImpl& op, const std::vector<Tensor>& tensors,
                                 const std::vector<Number>& numbers) {
  for (size_t w : op.written) check_writable({&tensors[w], 1}, op.op());
  std::vector<Tensor> results = op.run_checked(tensors, numbers);
  for (size_t w : op.written) {
    tensors[w].impl()->storage->bump_version();
    set_written_history(tensors[w], nullptr, 0);
  }
  return op.arrange(tensors, std::move(results));
}

bool is_on_tape(const OperatorImpl& op, const std::vector<Tensor>& tensors) {
  return !op.gives_nothing() && grad_enabled() &&
         std::ranges::any_of(tensors, &Tensor::requires_grad);
}

std::vector<Tensor> functional(const std::shared_ptr<const OperatorImpl>& op,
                               const std::vector<Tensor>& tensors,
                               const std::vector<Number>& numbers) {
  if (!is_on_tape(*op, tensors)) return as_function(op, tensors, numbers, grad_enabled());
  if (op->definition.gradient) return as_differentiable(op, tensors, numbers);
  std::vector<Tensor> outputs = as_function(op, tensors, numbers, true);
  forbid_gradients(*op, tensors, outputs);
  return outputs;
}

std::vector<Tensor> call(const std::shared_ptr<const OperatorImpl>& op,
                         const std::vector<Tensor>& given, const std::vector<Number>& numbers) {
  check_call(*op, given, numbers);
  std::vector<Tensor> tensors;
  for (const Tensor& t : given) tensors.push_back(in_current_trace(t));
  const size_t depth = batch_level_of(op->op(), tensors);
  refuse_tangents(tensors, op->name(), depth);
  if (Trace::current() == nullptr && depth == 0 && !is_on_tape(*op, tensors))
    return run_directly(*op, tensors, numbers);
  refuse_overlap(*op, tensors);
  for (size_t w : op->written) check_writable({&tensors[w], 1}, op->op());
  std::vector<Tensor> outputs = functional(op, tensors, numbers);
  for (size_t k = 0; k < op->written.size(); ++k) tensors[op->written[k]].copy_(outputs[k]);
  outputs.erase(outputs.begin(), outputs.begin() + static_cast<ptrdiff_t>(op->written.size()));
  return op->arrange(tensors, std::move(outputs));
}

}  // namespace

OperatorImpl::OperatorImpl(OperatorDefinition given)
    : definition(std::move(given)), schema(parse_schema(definition.schema)) {
  for (const auto& a : schema.arguments) (a.kind == "Tensor" ? tensors : numbers).push_back(a);
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].written) written.push_back(i);
  for (const auto& r : schema.results) {
    const auto of = std::ranges::find_if(
        tensors, [&](const auto& t) { return !r.alias.empty() && t.alias == r.alias; });
    if (!r.alias.empty() && of == tensors.end())
      refuse(*this, Errc::Parse, fmt::format("no argument has the alias {} of a result", r.alias));
    aliased.push_back(of == tensors.end() ? -1 : static_cast<int>(of - tensors.begin()));
    new_results += aliased.back() < 0;
  }
  check_definition();
}

void OperatorImpl::check_definition() const {
  if (!definition.run) refuse(*this, Errc::Argument, "expected a definition with `run`");
  if (tensors.empty()) refuse(*this, Errc::Argument, "expected at least one tensor argument");
  if (gives_nothing() && !is_ordered())
    refuse(*this, Errc::Argument, "expected a written argument, a result of its own, or `ordered`");
  if (new_results > 0 && !definition.shape)
    refuse(*this, Errc::Argument, "expected `shape`, which gives the types of its results");
  const std::vector<std::string> names = savable(*this);
  for (const std::string& name : definition.saves)
    if (std::ranges::count(names, name) == 0)
      refuse(*this, Errc::Argument,
             fmt::format("`saves` names {}; expected an argument, `argument!` for what it is after "
                         "the call, or a new result",
                         name));
}

std::vector<TensorType> OperatorImpl::new_types(const std::vector<TensorType>& of,
                                                const std::vector<Number>& given) const {
  if (new_results == 0) return {};
  std::vector<TensorType> types = definition.shape(of, given);
  if (types.size() != new_results)
    refuse(*this, Errc::Shape,
           fmt::format("`shape` gives the wrong number of types; expected {}, "
                       "got {}",
                       new_results, types.size()));
  return types;
}

std::vector<ir::Type> OperatorImpl::result_types(std::span<const ir::Type> operands,
                                                 std::string_view arguments) const {
  if (operands.size() != tensors.size())
    refuse(*this, Errc::Graph,
           fmt::format("wrong number of operands; expected {}, got {}", tensors.size(),
                       operands.size()));
  const std::vector<Number> given = numbers_of(arguments);
  if (given.size() != numbers.size())
    refuse(
        *this, Errc::Graph,
        fmt::format("wrong number of numbers; expected {}, got {}", numbers.size(), given.size()));
  std::vector<TensorType> of;
  for (const ir::Type& t : operands) of.push_back({t.dtype, t.sizes});
  std::vector<ir::Type> types;
  for (size_t w : written) types.push_back(operands[w]);
  for (const TensorType& t : new_types(of, given)) types.push_back({t.dtype, t.sizes});
  return types;
}

void OperatorImpl::run(std::span<const ir::BufferView> operands, std::string_view arguments,
                       std::span<const ir::BufferView> results) const {
  std::vector<Tensor> given;
  for (const ir::BufferView& view : operands) given.push_back(wrapped(view, true));
  for (size_t k = 0; k < written.size(); ++k) {
    const Tensor contents = wrapped(results[k], false);
    copy_elements(*contents.impl(), *given[written[k]].impl());
    given[written[k]] = contents;
  }
  const std::vector<Tensor> made = run_checked(given, numbers_of(arguments));
  for (size_t i = 0; i < made.size(); ++i)
    copy_elements(*wrapped(results[written.size() + i], false).impl(), *made[i].impl());
}

/// Twins over the same memory, for the user's code: without history, with versions of their own
/// (the call advances the real ones once), and read-only where it may not write.
std::vector<Tensor> OperatorImpl::lent(const std::vector<Tensor>& given) const {
  std::map<const Storage*, std::shared_ptr<Storage>> storages;
  for (size_t i = 0; i < given.size(); ++i) {
    const std::shared_ptr<Storage>& real = given[i].impl()->storage;
    const bool writes =
        std::ranges::any_of(written, [&](size_t w) { return given[w].shares_storage(given[i]); });
    storages.emplace(real.get(),
                     Storage::wrap(real->data(), real->bytes(), [real](void*) {}, !writes));
  }
  std::vector<Tensor> twins;
  for (const Tensor& t : given) {
    twins.push_back(without_history(t));
    twins.back().impl()->storage = storages[t.impl()->storage.get()];
  }
  return twins;
}

std::vector<Tensor> OperatorImpl::run_checked(const std::vector<Tensor>& on,
                                              const std::vector<Number>& given) const {
  const Snapshot snapshot(*this, on);
  const std::vector<Tensor> arguments = lent(on);
  std::vector<Tensor> results;
  {
    const NoGrad no_grad;
    results = definition.run(arguments, given);
  }
  check_new(results, arguments, given);
  snapshot.compare(on);
  return results;
}

void OperatorImpl::check_new(const std::vector<Tensor>& results,
                             const std::vector<Tensor>& arguments,
                             const std::vector<Number>& given) const {
  if (results.size() != new_results)
    refuse(
        *this, Errc::Argument,
        fmt::format("`run` gives the wrong number of results; expected {} that are no arguments, "
                    "got {}",
                    new_results, results.size()));
  std::vector<TensorType> of;
  for (const Tensor& t : arguments) of.push_back(type_of(t));
  const std::vector<TensorType> types = new_types(of, given);
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string got = results[i].defined() ? text(type_of(results[i])) : "undefined";
    if (got != text(types[i]))
      refuse(*this, Errc::Shape,
             fmt::format("result {} is not what `shape` says; expected {}, got "
                         "{}",
                         i, text(types[i]), got));
    for (size_t a = 0; a < arguments.size(); ++a)
      if (results[i].shares_storage(arguments[a]))
        refuse(*this, Errc::Mutation,
               fmt::format("result {} shares memory with argument {}, which its schema does not "
                           "declare; expected a tensor of its own, or Tensor({}) in the schema",
                           i, tensors[a].name, tensors[a].alias.empty() ? "a" : tensors[a].alias));
  }
}

std::vector<Tensor> OperatorImpl::arrange(const std::vector<Tensor>& arguments,
                                          std::vector<Tensor> made) const {
  std::vector<Tensor> results;
  size_t next = 0;
  for (size_t i = 0; i < aliased.size(); ++i) {
    if (aliased[i] < 0) {
      results.push_back(std::move(made[next++]));
      continue;
    }
    const Tensor& argument = arguments[static_cast<size_t>(aliased[i])];
    results.push_back(definition.view ? definition.view(i, argument) : argument);
    if (!results.back().shares_storage(argument))
      refuse(*this, Errc::Mutation,
             fmt::format("`view` gives a tensor of its own for result {}; expected a view of "
                         "argument {}",
                         i, tensors[static_cast<size_t>(aliased[i])].name));
  }
  return results;
}

}  // namespace tandem::runtime

namespace tandem {

std::vector<Tensor> Operator::operator()(const std::vector<Tensor>& tensors,
                                         const std::vector<Number>& numbers,
                                         SourceLocation at) const {
  const runtime::LocationScope location(at);
  return runtime::call(impl_, tensors, numbers);
}

Operator register_operator(OperatorDefinition definition) {
  auto impl = std::make_shared<const runtime::OperatorImpl>(std::move(definition));
  ir::register_custom_operator(impl->name(), impl);
  return Operator(std::move(impl));
}

}  // namespace tandem
