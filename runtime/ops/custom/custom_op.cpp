// Calls of custom operators, eager and as an equation. Inside a trace, and on the tape, the
// operator is a function: it works on copies of what it writes, and ordinary copies write the new
// contents back, so views and gradients need know nothing of it.
#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/custom_op.h>
#include <tandem/ops.h>

#include <algorithm>
#include <unordered_set>

#include "autodiff/vjp.h"
#include "ir/base/error.h"
#include "ir/strides.h"
#include "runtime/levels/batched.h"
#include "runtime/levels/dual.h"
#include "runtime/ops/call.h"
#include "runtime/ops/custom/operator_impl.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/nodes.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {
namespace {

Dim end_of(const Tensor& t) { return ir::end_of({t.sizes(), t.strides(), t.impl()->offset}); }

/// The elements' offsets.
std::unordered_set<int64_t> addresses(const Tensor& t) {
  std::unordered_set<int64_t> out{static_cast<int64_t>(t.impl()->offset)};
  for (int d = 0; d < t.sizes().rank(); ++d) {
    std::unordered_set<int64_t> next;
    for (int64_t at : out)
      for (int64_t i = 0; i < t.sizes()[d]; ++i) next.insert(at + i * int64_t{t.strides()[d]});
    out = std::move(next);
  }
  return out;
}

bool overlap(const Tensor& a, const Tensor& b) {
  if (!share_storage(a, b) || a.numel() == 0 || b.numel() == 0) return false;
  if (a.dtype() != b.dtype()) return true;
  if (end_of(a) <= b.impl()->offset || end_of(b) <= a.impl()->offset) return false;
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
    for (const Tensor& t : tensors) {
      require_clear_history(t);
      edges.push_back(gradient_edge(t));
    }
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
