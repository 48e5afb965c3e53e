// Recording: stand-ins for real tensors, equations, and the end of a trace.
#include "runtime/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "functionalize/view_inverse.h"
#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "ir/build/effect.h"
#include "ir/build/rewrite.h"
#include "ir/geometry.h"
#include "ir/verify/verify.h"
#include "runtime/levels/batched.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/autograd.h"
#include "runtime/trace/trace_marks.h"

namespace tandem::runtime {
namespace {

thread_local Trace* t_current = nullptr;

/// Values with more elements are not followed as constants.
constexpr int64_t kLargestConstant = 16;

std::string place(const std::source_location& at) {
  return at.line() == 0 ? "an unknown place" : fmt::format("{}:{}", at.file_name(), at.line());
}

/// `what` names the tensor or its user, if anything does.
[[noreturn]] void refuse_foreign(const Tensor& t, std::string_view what) {
  ir::fail(Errc::Trace,
           fmt::format("{}{}a traced tensor is used after its trace or on another "
                       "thread; expected one that can be read here, got one made at {}",
                       what, what.empty() ? "" : ": ", place(t.impl()->made_at)));
}

/// Runs the equation on the operands' constant values, if all have one; else as many undefined
/// tensors.
TensorList constant_results(ir::Op op, std::span<const Tensor> operands,
                            std::span<const ir::AttrValue> attrs, std::span<const ir::Type> types) {
  const auto is_large = [](const ir::Type& type) {
    return type.is_token || int64_t{ir::numel(type.sizes)} > kLargestConstant;
  };
  if (ir::info(op).effect >= ir::Effect::Random || std::ranges::any_of(types, is_large))
    return TensorList(types.size());
  ir::InlineVector<Tensor, 4> values;
  for (const Tensor& t : operands) {
    values.push_back(constant_value(t));
    if (!values.back().defined()) return TensorList(types.size());
  }
  return run_eager(op, values, attrs, false, types);
}

}  // namespace

Trace::Trace(std::string name) : graph_(std::move(name), ir::Level::Traced) {}

Trace* Trace::current() { return t_current; }

void Trace::require_nesting() const {
  int depth = 1;
  for (const Trace* t = enclosing_; t != nullptr; t = t->enclosing_) ++depth;
  if (depth > ir::kMaxNesting)
    ir::fail(Errc::Unsupported,
             fmt::format("{}: inside a trace branches, loops, custom functions and hooks lie too "
                         "deep one inside another; expected at most {}",
                         graph_.name, ir::kMaxNesting - 1));
}

TraceScope::TraceScope(std::shared_ptr<Trace> trace)
    : trace_(std::move(trace)), previous_(t_current) {
  trace_->enclosing_ = previous_;
  trace_->require_nesting();
  trace_->recording_ = true;
  t_current = trace_.get();
}

TraceScope::~TraceScope() {
  trace_->recording_ = false;
  t_current = previous_;
}

OutermostTrace::OutermostTrace() : previous_(t_current) {
  while (t_current != nullptr && t_current->enclosing_ != nullptr && !t_current->is_body_)
    t_current = t_current->enclosing_;
}

OutermostTrace::~OutermostTrace() { t_current = previous_; }

// --- inputs

Tensor Trace::traced_tensor(ir::ValueId value, const ir::Type& type, const Strides& strides,
                            Dim offset, std::shared_ptr<Storage> storage) {
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = std::move(storage);
  impl->dtype = type.dtype;
  impl->sizes = type.sizes;
  impl->strides = strides;
  impl->offset = offset;
  impl->trace = weak_from_this();
  impl->value = value;
  impl->made_at = current_location();
  return Tensor(std::move(impl));
}

std::string Trace::unique_name(std::string name) const {
  if (!input_names_.contains(name)) return name;
  for (int i = 1;; ++i)
    if (std::string other = fmt::format("{}_{}", name, i); !input_names_.contains(other))
      return other;
}

std::optional<ir::AliasOf> Trace::alias_among_inputs(const Tensor& real, int* first) const {
  std::optional<ir::AliasOf> found;
  const auto sharing = inputs_over_.find(real.impl()->storage.get());
  if (sharing == inputs_over_.end()) return found;
  for (const int i : sharing->second) {
    const Tensor& earlier = real_inputs_[static_cast<size_t>(i)];
    const bool detached = autograd_base(earlier) != autograd_base(real);
    if (found && detached) continue;
    *first = i;
    found = ir::AliasOf{i, offset_between(*real.impl(), *earlier.impl()), detached};
    if (!detached) break;
  }
  return found;
}

Tensor Trace::add_input(const Tensor& real, std::string name, ir::Role role) {
  if (const auto it = stand_ins_.find(real.impl().get()); it != stand_ins_.end()) return it->second;
  if (real.impl()->is_traced() && !is_within_trace_of(real)) refuse_foreign(real, name);
  ir::Input input;
  input.role = role;
  input.name = unique_name(std::move(name));
  input_names_.insert(input.name);
  input.requires_grad = receives_gradient(real);
  input.strides = real.impl()->strides;
  int first = -1;
  input.alias_of = alias_among_inputs(real, &first);
  const ir::ValueId value = graph_.add_input(std::move(input), real.impl()->type());
  auto storage = first >= 0 ? input_stand_ins_[static_cast<size_t>(first)].impl()->storage
                            : Storage::traced(real.impl()->storage->read_only());
  Tensor stand_in = traced_tensor(value, real.impl()->type(), real.impl()->strides,
                                  real.impl()->offset, std::move(storage));
  if (const auto it = base_stand_ins_.find(real.impl().get()); it != base_stand_ins_.end()) {
    it->second->value = value;
    it->second->storage = stand_in.impl()->storage;
    it->second->made_at = stand_in.impl()->made_at;
    stand_in = Tensor(it->second);
  }
  stand_in.impl()->is_weak = real.impl()->is_weak;
  copy_autograd_state(real, stand_in);
  stand_ins_.emplace(real.impl().get(), stand_in);
  inputs_over_[real.impl()->storage.get()].push_back(static_cast<int>(real_inputs_.size()));
  real_inputs_.push_back(real);
  input_stand_ins_.push_back(stand_in);
  first_seen_.push_back(without_history(stand_in).impl());
  return stand_in;
}

/// A leaf stays a leaf, anything else has a history outside; views of one tensor stay views of one.
void Trace::copy_autograd_state(const Tensor& real, const Tensor& stand_in) {
  const AutogradMeta* from = real.impl()->autograd.get();
  const bool is_view = from != nullptr && from->view != nullptr;
  if (!requires_grad(real) && !is_view) return;
  AutogradMeta& meta = autograd_meta(*stand_in.impl());
  meta.requires_grad = receives_gradient(real);
  meta.outside_history = meta.requires_grad && !is_leaf(real);
  if (meta.requires_grad && is_leaf(real)) meta.hooks = from->hooks;
  if (!is_view) return;
  meta.view = std::make_unique<ViewOf>(*from->view);
  meta.view->base = base_stand_in(from->view->base, stand_in.impl()->storage);
  // What stands for the base began, with zeros, as the base is. The view is met later: what the
  // trace did to the base meanwhile is news to it, as is what happened between the view and the
  // trace.
  const AutogradMeta* real_base = from->view->base->autograd.get();
  const uint64_t real_arrangement = real_base != nullptr ? real_base->arrangement : 0;
  meta.view->base_generation = 0;
  meta.view->base_arrangement = from->view->base_arrangement - real_arrangement;
  meta.view->version = from->view->version - from->view->base->storage->version();
}

std::shared_ptr<TensorImpl> Trace::base_stand_in(const std::shared_ptr<TensorImpl>& real_base,
                                                 const std::shared_ptr<Storage>& storage) {
  if (const auto it = stand_ins_.find(real_base.get()); it != stand_ins_.end())
    return it->second.impl();
  std::shared_ptr<TensorImpl>& known = base_stand_ins_[real_base.get()];
  if (known == nullptr) {
    const Tensor real(real_base);
    known =
        traced_tensor({}, real_base->type(), real_base->strides, real_base->offset, storage).impl();
    copy_autograd_state(real, Tensor(known));
  }
  return known;
}

std::vector<bool> Trace::inputs_require_grad() const {
  std::vector<bool> required;
  for (const Tensor& t : input_stand_ins_) required.push_back(requires_grad(t));
  return required;
}

bool Trace::is_within_trace_of(const Tensor& t) const {
  const auto trace = t.impl()->trace.lock();
  const Trace* outer = enclosing_;
  while (outer != nullptr && outer != trace.get()) outer = outer->enclosing_;
  return outer != nullptr;
}

/// A body captures what stands for `outside` in the trace around it, which is known to share memory
/// with views that were made there.
Tensor Trace::capture(const Tensor& outside) {
  const bool through = is_body_ && enclosing_ != nullptr && !is_batched(outside);
  const Tensor real = through ? enclosing_->resolve(outside) : outside;
  const bool is_parameter = receives_gradient(real) && is_leaf(real);
  return note_captured(add_input(real, fmt::format("captured_{}", real_inputs_.size()),
                                 is_parameter ? ir::Role::Parameter : ir::Role::Primal));
}

namespace {

/// One whose examples have a history has one in the body too.
Tensor capture_example(Trace& trace, const Tensor& example) {
  const size_t known = trace.real_inputs().size();
  const Tensor stand_in = trace.capture(example);
  if (trace.real_inputs().size() == known || receives_gradient(stand_in)) return stand_in;
  if (!ir::is_differentiable(example.dtype()) || !is_differentiated(example)) return stand_in;
  trace.graph().inputs().back().requires_grad = true;
  AutogradMeta& meta = autograd_meta(*stand_in.impl());
  meta.requires_grad = meta.outside_history = true;
  return stand_in;
}

}  // namespace

Tensor Trace::resolve(const Tensor& t) {
  if (!t.defined()) ir::fail(Errc::Argument, "undefined tensor; expected a tensor, got none");
  const TensorImpl& impl = *t.impl();
  // Who takes part in equations are all its examples, but in a body one.
  if (is_batched(t)) return is_aside(impl.batched->level) ? capture_example(*this, t) : t;
  if (!impl.is_traced()) return capture(t);
  if (impl.trace.lock().get() == this) return t;
  if (is_within_trace_of(t)) return capture(t);
  refuse_foreign(t, "");
}

int Trace::input_index(const Tensor& stand_in) const {
  if (!stand_in.defined() || !stand_in.impl()->is_traced()) return -1;
  if (const int known = graph_.input_index(stand_in.impl()->value); known >= 0) return known;
  // By t_, set_, ...
  const auto changed = [&](const Tensor& t) { return t.impl() == stand_in.impl(); };
  const auto it = std::ranges::find_if(input_stand_ins_, changed);
  return it == input_stand_ins_.end() ? -1 : static_cast<int>(it - input_stand_ins_.begin());
}

// --- equations

ir::EquationId Trace::append_ordered(ir::Op op, const ir::ValueList& operands, ir::AttrsRef attrs,
                                     std::span<const ir::Type> types) {
  const ir::Type token[] = {ir::Type::token()};
  if (!token_.valid()) token_ = graph_.result(graph_.append(ir::Op::first_token, {}, {}, token));
  ir::ValueList all(1, token_);
  all.append(operands);
  std::vector<ir::Type> results(1, token[0]);
  results.insert(results.end(), types.begin(), types.end());
  const ir::EquationId e = graph_.append(op, all, attrs, results);
  token_ = graph_.result(e);
  return e;
}

ir::EquationId Trace::append(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs,
                             bool in_place, std::span<const ir::Type> types) {
  ir::ValueList values;
  for (const Tensor& t : operands) values.push_back(t.impl()->value);
  const bool is_ordered = ir::info(op).effect == ir::Effect::Ordered;
  const ir::EquationId e = is_ordered ? append_ordered(op, values, attrs, types)
                                      : graph_.append(op, values, attrs, types, in_place);
  graph_.equation(e).grad_enabled = grad_enabled();
  mark_for_partition(graph_.equation(e));
  if (!in_place && ir::must_run(ir::effect_of(graph_, e)))
    graph_.equation(e).mark = ir::Mark::Auto;  // never computed again as it is
  const std::source_location& at = current_location();
  if (at.line() != 0)
    graph_.set_location(
        e, graph_.add_location({at.file_name(), at.line(), ir::ErrorScope::function()}));
  return e;
}

TensorList Trace::record(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs,
                         bool in_place, std::span<const ir::Type> types) {
  if (!given_back_.empty())
    for (size_t i = 0; i < operands.size(); ++i) check_given_back(operands[i], in_place && i == 0);
  if (in_place) {
    const ir::EquationId e = append(op, operands, attrs, true, {});
    operands[0].impl()->storage->bump_version();
    writes_.push_back({e.index, operands[0].impl()->storage.get()});
    return {operands[0]};
  }
  TensorList results = ir::is_view(op) ? record_view(op, operands, attrs, types)
                                       : record_values(op, operands, attrs, types);
  const TensorList constants = constant_results(op, operands, attrs, types);
  for (size_t i = 0; i < results.size(); ++i) {
    TensorImpl& impl = *results[i].impl();
    impl.constant = constants[i];
    impl.constant_version = impl.storage->version();
  }
  return results;
}

TensorList Trace::record_view(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs,
                              std::span<const ir::Type> types) {
  const TensorImpl& from = *operands[0].impl();
  const ir::ViewGeometry geometry =  // before the equation: a view may be refused
      placed_view(op, from.type(), from.strides, from.offset, attrs, types[0]);
  const std::shared_ptr<Storage> storage = from.storage;
  if (functionalize::cuts_history(op))
    roots_.try_emplace(storage.get(),
                       view_of(operands[0]) ? Tensor(view_of(operands[0])->base) : operands[0]);
  const ir::EquationId e = append(op, operands, attrs, false, types);
  return {traced_tensor(graph_.result(e), types[0], geometry.strides, geometry.offset, storage)};
}

TensorList Trace::record_values(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs,
                                std::span<const ir::Type> types) {
  const ir::EquationId e = append(op, operands, attrs, false, types);
  const size_t tokens = graph_.results(e).size() - types.size();
  TensorList results;
  for (size_t i = 0; i < types.size(); ++i)
    results.push_back(traced_tensor(graph_.results(e)[tokens + i], types[i],
                                    result_strides(op, operands, types[i].sizes), 0,
                                    Storage::traced()));
  return results;
}

Tensor Trace::add_port(const ir::Type& type, std::string name, ir::Role role, int target) {
  ir::Input input;
  input.role = role;
  input.name = unique_name(std::move(name));
  input_names_.insert(input.name);
  input.strides = ir::contiguous_strides(type.sizes);
  input.target = target;
  const Strides strides = input.strides;
  const ir::ValueId value = graph_.add_input(std::move(input), type);
  real_inputs_.push_back({});
  input_stand_ins_.push_back(
      traced_tensor(value, type, strides, 0, Storage::traced(role == ir::Role::Rng)));
  first_seen_.push_back(without_history(input_stand_ins_.back()).impl());
  return input_stand_ins_.back();
}

Tensor Trace::rng() {
  if (enclosing_ != nullptr) return capture(enclosing_->rng());
  if (!rng_.defined()) rng_ = add_port({DType::I64, {2}}, "rng", ir::Role::Rng, -1);
  return rng_;
}

Dim Trace::take_draws(Dim blocks) {
  if (enclosing_ != nullptr) return enclosing_->take_draws(blocks);
  return std::exchange(draws_, draws_ + blocks);
}

// --- the end

int Trace::add_output(const Tensor& t, ir::Role role, int target, std::string name) {
  if (!t.defined()) return -1;
  const Tensor traced = resolve(t);
  check_given_back(traced, false);
  ir::Output output;
  output.value = traced.impl()->value;
  output.role = role;
  output.name = name.empty() ? fmt::format("out{}", graph_.outputs().size()) : std::move(name);
  output.requires_grad = requires_grad(traced);
  output.strides = traced.strides();
  output.target = target;
  graph_.add_output(std::move(output));
  return static_cast<int>(graph_.outputs().size()) - 1;
}

// A slot that still holds the stand-in of what it held before needs no write: changes in place of
// that tensor are mutations of an input like any other.
void Trace::append_grad_writes() {
  for (const GradSlot& slot : grad_slots_) {
    const TensorImpl& impl = *stand_in(slot.input).impl();
    const Tensor now = impl.autograd ? impl.autograd->grad : Tensor();
    const bool same = slot.grad_input < 0
                          ? !now.defined()
                          : now.defined() && now.impl() == stand_in(slot.grad_input).impl();
    if (same) continue;
    const std::string name = "grad_" + graph_.inputs()[static_cast<size_t>(slot.input)].name;
    graph_.epilogue.grads.push_back(
        {slot.input, add_output(now, ir::Role::Gradient, slot.input, name)});
  }
}

// A hook sees the gradients of all uses of what it is put on, also of earlier ones: its equation
// goes where the tensor got its present value. Of several on one value the first has the gradient
// first, so its equation is the last.
void Trace::insert_hooks() {
  if (hooks_.empty()) return;
  std::ranges::reverse(hooks_);
  std::ranges::stable_sort(hooks_, {}, &HookAt::equation);
  ir::Rewriter rewriter(graph_);
  rewriter.copy_inputs();
  auto next = hooks_.begin();
  for (size_t i = 0; i <= graph_.num_equations(); ++i) {
    for (; next != hooks_.end() && next->equation == i; ++next) {
      const ir::ValueId value = rewriter[next->value];
      const ir::SubgraphId backward = rewriter.target().add_subgraph(std::move(next->backward));
      rewriter.set(next->value, rewriter.builder().emit(ir::Op::hook, {value}, {backward}));
    }
    if (i < graph_.num_equations()) rewriter.copy(graph_.equation_id(i));
  }
  rewriter.copy_outputs();
  graph_ = rewriter.take();
}

ir::Graph Trace::finish() {
  append_changes();
  append_grad_writes();
  graph_.epilogue.rng_draws = draws_;
  insert_hooks();
  return std::move(graph_);
}

void Trace::use_grad_slot(TensorImpl& stand_in) {
  const int input = input_index(Tensor(stand_in.shared_from_this()));
  if (input < 0 || std::ranges::count(grad_slots_, input, &GradSlot::input) != 0) return;
  grad_slots_.push_back({input, -1});
  const size_t slot = grad_slots_.size() - 1;
  const Tensor& real = real_inputs_[static_cast<size_t>(input)];
  const Tensor grad = real.defined() ? load_grad(*real.impl()) : Tensor();
  if (!grad.defined()) return;
  const std::string name = graph_.inputs()[static_cast<size_t>(input)].name + "_grad";
  const Tensor traced = add_input(grad, name, ir::Role::Primal);
  autograd_meta(stand_in).grad = traced;
  grad_slots_[slot].grad_input = input_index(traced);
}

void Trace::record_hook(const Tensor& t, const std::function<Tensor(const Tensor&)>& hook) {
  if (input_index(t) >= 0)
    ir::fail(Errc::Unsupported,
             "register_hook: inside a trace on a tensor from outside, where the hook would stay; "
             "expected one that the function computes (or a hook registered before the call)");
  const auto backward = std::make_shared<Trace>(graph_.name + "_hook");
  {
    const TraceScope recording(backward);
    const GradMode no_grad(false);
    const Tensor grad = backward->add_port(t.impl()->type(), "grad", ir::Role::Primal, -1);
    const Tensor replaced = hook(grad);
    backward->add_output(replaced.defined() ? replaced : grad);
    if (backward->real_inputs().size() != 1)
      ir::fail(Errc::Trace,
               "register_hook: inside a trace a hook may only use the gradient that it is given; "
               "expected a custom function, which can save other tensors");
  }
  const ir::EquationId producer = graph_.producer(t.impl()->value);
  size_t after = producer.index + size_t{1};
  for (const Write& write : writes_)
    if (write.storage == t.impl()->storage.get()) after = std::max(after, write.equation + 1);
  hooks_.push_back({after, t.impl()->value, backward->finish()});
}

// --- traced tensors outside

bool is_value(const Tensor& t) { return t.impl()->trace.expired() || t.impl()->value.valid(); }

Tensor constant_value(const Tensor& t) {
  if (!t.impl()->is_traced()) return {};
  const TensorImpl& impl = *t.impl();
  return impl.constant_version == impl.storage->version() ? impl.constant : Tensor();
}

void require_real(const Tensor& t, std::string_view what) {
  if (!t.defined())
    ir::fail(Errc::Argument,
             fmt::format("{}: undefined tensor; expected a tensor, got none", what));
  refuse_batched(t, what);
  const bool traced = t.impl()->is_traced();
  if (!traced && t_current == nullptr) return;
  const auto trace = traced ? t.impl()->trace.lock() : nullptr;
  if (!traced || (trace != nullptr && trace.get() == t_current))
    ir::fail(Errc::Trace, fmt::format("{}: the value is not known while the function is traced "
                                      "(compile what comes before and after this line as "
                                      "functions of their own); expected none asked for, got a "
                                      "tensor made at {}",
                                      what, place(t.impl()->made_at)));
  refuse_foreign(t, what);
}

void require_operand(const Tensor& t, std::string_view what) {
  if (t.defined() && is_batched(t))
    batch_depth(t);
  else
    require_real(t, what);
}

}  // namespace tandem::runtime
