#include "runtime/ops/eager_sink.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "ir/base/error.h"
#include "ir/geometry.h"
#include "ir/strides.h"
#include "runtime/eager/compiled_ops.h"
#include "runtime/eager/kernels.h"
#include "runtime/levels/dual.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/anomaly.h"
#include "runtime/tape/autograd.h"
#include "runtime/tensor/rearrange.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {

using eager::Pending;
using ir::ValueId;

// --- values

ValueId EagerSink::add(const Tensor& t) {
  if (!t.defined()) ir::fail(Errc::Argument, "undefined tensor; expected a tensor, got none");
  return add(Slot{t, t.impl()->type(), true});
}

ValueId EagerSink::add_type(const ir::Type& type) { return add(Slot{Tensor(), type}); }

ValueId EagerSink::add(Slot&& slot) {
  if (few_.size() < kFew) {
    few_.push_back(std::move(slot));
    return {static_cast<uint32_t>(few_.size() - 1)};
  }
  if (more_ == nullptr) more_ = std::make_unique<std::deque<Slot>>();
  more_->push_back(std::move(slot));
  return {static_cast<uint32_t>(kFew + more_->size() - 1)};
}

const Tensor& EagerSink::tensor(ValueId v) {
  if (slot(v).pending >= 0) compute({&v, 1});
  return read(v);
}

/// What does not wait. A number becomes a tensor here: of one element, be it seen as many.
const Tensor& EagerSink::read(ValueId v) {
  Slot& s = slot(v);
  if (!s.bits) return s.tensor;
  s.tensor = empty_tensor({}, s.type.dtype);
  TensorImpl& element = *s.tensor.impl();
  std::memcpy(element.data(), &*s.bits, ir::size_of(s.type.dtype));
  element.sizes = s.type.sizes;
  element.strides = s.strides;
  s.bits.reset();
  return s.tensor;
}

bool EagerSink::is_weak(ValueId v) const {
  const Tensor& t = slot(v).tensor;
  return t.defined() && t.impl()->is_weak;
}

const Strides& EagerSink::strides(ValueId v) const {
  const Slot& s = slot(v);
  if (s.pending >= 0 || s.bits) return s.strides;
  TANDEM_CHECK(s.tensor.defined(), "a rule reads a value that it does not declare to read");
  return s.tensor.impl()->strides;
}

bool EagerSink::can_view(ValueId v, const Shape& sizes) const {
  return ir::strides_as(type(v).sizes, strides(v), sizes).has_value();
}

// --- equations

namespace {

std::optional<ValueId> shown_by(ir::Op op, std::span<const ValueId> operands) {
  return ir::is_view(op) ? std::optional(operands[0]) : std::nullopt;
}

}  // namespace

void EagerSink::emit(ir::Op op, std::span<const ValueId> operands, ir::AttrsRef attrs,
                     bool in_place, std::span<const ir::Type> types, std::span<ValueId> results) {
  if (!in_place && waits(op, operands, types)) return wait(op, operands, attrs, types, results);
  if (!types.empty())
    if (const auto bits = number_bits(op, operands, attrs, types[0])) {
      results[0] =
          add(Slot{.type = types[0], .bits = bits, .strides = Strides::filled(types[0].rank(), 0)});
      return;
    }
  ir::InlineVector<Tensor, 4> tensors;
  for (ValueId v : operands) {
    tensors.push_back(tensor(v));
    TANDEM_CHECK(tensors.back().defined(), "a rule reads a value that it does not declare to read");
  }
  if (in_place) check_written(operands[0]);
  if (in_place) types = {&type(operands[0]), 1};
  const TensorList out = dispatch(op, tensors, attrs, in_place, types);
  for (size_t i = 0; i < results.size(); ++i)
    results[i] =
        add(Slot{.tensor = out[i], .type = out[i].impl()->type(), .shown = shown_by(op, operands)});
}

/// What each element of the result is, if that is a number or one seen as many, which most
/// operations read by its value: it need not become a tensor first, or a view of one. (What is
/// recorded, or looked at by a level, does.)
std::optional<uint64_t> EagerSink::number_bits(ir::Op op, std::span<const ValueId> operands,
                                               ir::AttrsRef attrs, const ir::Type& type) const {
  const bool is_full = op == ir::Op::full && type.rank() == 0;
  if (!is_full && (op != ir::Op::expand || !slot(operands[0]).bits)) return std::nullopt;
  if (!BelowTape::active() &&
      (Trace::current() != nullptr || level_depth() != 0 || detects_anomaly()))
    return std::nullopt;
  return is_full ? eager::fill_bits(op, attrs, type.dtype) : slot(operands[0]).bits;
}

/// Of what the caller gave, before it was converted or expanded. (What is written may be a view of
/// what was given to be written.)
void EagerSink::check_written(ValueId self) const {
  const Slot* written = &slot(self);
  const Tensor& tensor = written->tensor;
  while (written->shown) written = &slot(*written->shown);
  const auto check = [&](const Slot& slot) {
    if (slot.given && &slot != written) check_apart(tensor, slot.tensor, Sharing::AllOrNothing);
  };
  for (const Slot& slot : few_) check(slot);
  if (more_) std::ranges::for_each(*more_, check);
}

// --- those that wait

void EagerSink::expect(Dim elements) { expects_many_ = eager::are_many(elements); }

bool EagerSink::waits(ir::Op op, std::span<const ValueId> operands,
                      std::span<const ir::Type> types) const {
  if (mode_ == Mode::AtOnce || !eager::may_wait(op)) return false;
  const auto is_large = [](const ir::Type& t) {
    return t.rank() > 0 && eager::are_many(ir::numel(t.sizes));
  };
  const auto has_many = [&](ValueId v) { return slot(v).pending >= 0 || is_large(type(v)); };
  if (!expects_many_ && std::ranges::none_of(operands, has_many) &&
      std::ranges::none_of(types, is_large))
    return false;
  if (detects_anomaly() || level_depth() != 0) return false;
  if (waiting_) return waiting_->grad_mode == grad_enabled();
  return Trace::current() == nullptr && !BelowTape::active();
}

Strides EagerSink::strides_of(ir::Op op, std::span<const ValueId> operands,
                              std::span<const ir::AttrValue> attrs, const ir::Type& type) const {
  if (ir::is_view(op)) {
    const ValueId from = operands[0];
    return ir::placed_view(op, slot(from).type, strides(from), 0, attrs, type).strides;
  }
  ir::InlineVector<ir::Extent, 4> extents;
  for (ValueId v : operands) extents.push_back({slot(v).type.sizes, strides(v)});
  return ir::result_strides(op, {extents.data(), extents.size()}, type.sizes);
}

void EagerSink::wait(ir::Op op, std::span<const ValueId> operands, ir::AttrsRef attrs,
                     std::span<const ir::Type> types, std::span<ValueId> results) {
  if (!waiting_) waiting_ = std::make_unique<Waiting>(Waiting{.grad_mode = grad_enabled()});
  const auto number = static_cast<int>(waiting_->equations.size());
  Pending equation{.op = op, .attrs = {attrs.begin(), attrs.end()}};
  for (ValueId v : operands) {
    equation.operands.push_back(v.index);
    if (slot(v).pending >= 0) continue;
    const Tensor& operand = read(v);
    require_real(operand, ir::name(op));
    waiting_->reads.push_back({number, operand, operand.impl()->storage->version()});
  }
  for (size_t i = 0; i < types.size(); ++i) {
    equation.types.push_back(types[i]);
    results[i] = add(Slot{.type = types[i],
                          .pending = number,
                          .strides = strides_of(op, operands, attrs, types[i]),
                          .shown = shown_by(op, operands)});
    equation.results.push_back(results[i].index);
  }
  waiting_->equations.push_back(std::move(equation));
}

/// No call writes what its earlier operations, still to run, read.
void EagerSink::check_unchanged(const std::vector<bool>& needed) const {
  for (const auto& [equation, tensor, version] : waiting_->reads)
    TANDEM_CHECK(
        !needed[static_cast<size_t>(equation)] || tensor.impl()->storage->version() == version,
        "a call wrote what an operation that waits reads");
}

/// Several passes over memory gain; so does one that reads a tensor twice, whose gradients would be
/// added up.
bool EagerSink::gain_as_one(std::span<const Pending* const> equations) const {
  const auto passes =
      std::ranges::count_if(equations, [](const Pending* p) { return !ir::is_view(p->op); });
  if (passes != 1 || equations.size() == 1 || !waiting_->grad_mode) return passes > 1;
  std::vector<uint32_t> differentiated;
  for (const Pending* p : equations)
    for (uint32_t v : p->operands)
      if (slot({v}).pending < 0 && slot({v}).tensor.requires_grad()) differentiated.push_back(v);
  std::ranges::sort(differentiated);
  return std::ranges::adjacent_find(differentiated) != differentiated.end();
}

void EagerSink::compute(std::span<const ValueId> values) {
  if (!waiting_) return;
  std::vector<bool> needed(waiting_->equations.size());
  std::vector<ValueId> wanted;
  const auto need = [&](ValueId v) {
    if (slot(v).pending >= 0) needed[static_cast<size_t>(slot(v).pending)] = true;
    return slot(v).pending >= 0;
  };
  for (ValueId v : values)
    if (need(v)) wanted.push_back(v);
  for (size_t i = needed.size(); i-- > 0;)
    if (needed[i])
      for (uint32_t v : waiting_->equations[i].operands) need({v});
  std::vector<const Pending*> equations;
  for (size_t i = 0; i < needed.size(); ++i)
    if (needed[i]) equations.push_back(&waiting_->equations[i]);
  check_unchanged(needed);
  const GradMode mode(waiting_->grad_mode);
  if (gain_as_one(equations) && run_as_one(equations, wanted)) return;
  for (const Pending* equation : equations) run_at_once(*equation);
}

void EagerSink::run_at_once(const Pending& equation) {
  ir::InlineVector<Tensor, 4> operands;
  for (uint32_t v : equation.operands) operands.push_back(slot({v}).tensor);
  const TensorList out = dispatch(equation.op, operands, equation.attrs, false,
                                  {equation.types.data(), equation.types.size()});
  for (size_t i = 0; i < out.size(); ++i) {
    Slot& result = slot({equation.results[i]});
    result.tensor = out[i], result.pending = -1;
  }
}

/// False if the data are wrong: one by one, the operation at fault says so in the user's terms.
bool EagerSink::run_as_one(std::span<const Pending* const> equations,
                           std::span<const ValueId> wanted) {
  eager::FusedCall call;
  std::unordered_map<uint32_t, uint32_t> number;  // by value, among those of the call
  const auto input = [&](const Tensor& t) {
    for (size_t i = 0; i < call.inputs.size(); ++i)
      if (call.inputs[i].impl() == t.impl()) return static_cast<uint32_t>(i);
    call.inputs.push_back(t);
    return static_cast<uint32_t>(call.inputs.size() - 1);
  };
  for (const Pending* p : equations)
    for (uint32_t v : p->operands)
      if (slot({v}).pending < 0 && !number.contains(v)) number[v] = input(slot({v}).tensor);
  auto next = static_cast<uint32_t>(call.inputs.size());
  for (const Pending* p : equations) {
    call.equations.push_back(*p);
    for (uint32_t& v : call.equations.back().operands) v = number.at(v);
    for (uint32_t v : p->results) number[v] = next++;
  }
  for (ValueId v : wanted) call.outputs.push_back(number.at(v.index));
  std::vector<Tensor> results;
  try {
    results = eager::run_fused(call);
  } catch (const Error& error) {
    if (error.code() != Errc::Index) throw;
    return false;
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    Slot& result = slot(wanted[i]);
    result.tensor = results[i], result.pending = -1;
  }
  return true;
}

}  // namespace tandem::runtime
