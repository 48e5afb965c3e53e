#include "runtime/tensor/whole_memory.h"

#include <tandem/autograd.h>
#include <tandem/ops.h>

#include <algorithm>

#include "ir/base/error.h"
#include "ir/strides.h"
#include "runtime/levels/batched.h"
#include "runtime/levels/dual.h"
#include "runtime/tape/autograd.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {
namespace {

/// What `t` is a differentiable view of, or `t`.
Tensor root_of(const Tensor& t) {
  const ViewOf* view = view_of(t);
  return view != nullptr ? Tensor(view->base) : t;
}

}  // namespace

// --- what a trace knows of memory

int Trace::input_over(const Tensor& t) const {
  int found = -1;
  for (size_t i = 0; i < first_seen_.size(); ++i) {
    if (first_seen_[i]->storage != t.impl()->storage) continue;
    if (autograd_base(input_stand_ins_[i]) == autograd_base(t)) return static_cast<int>(i);
    if (found < 0) found = static_cast<int>(i);
  }
  return found;
}

Tensor Trace::memory_input(int input) {
  const auto i = static_cast<size_t>(input);
  const Tensor& real = real_inputs_[i];
  const bool grown = resized_.contains(input_stand_ins_[i].impl().get());
  if (!real.defined() || real.impl()->is_traced() || grown)
    ir::fail(Errc::Unsupported,
             "as_strided: inside a trace it reaches outside a tensor whose memory is not known (a "
             "resized one, or one of an enclosing trace); expected a view that the tensor holds");
  for (const MemorySlot& slot : memory_slots_)
    if (autograd_base(stand_in(slot.input)) == autograd_base(stand_in(input)) &&
        share_storage(stand_in(slot.input), stand_in(input)))
      return stand_in(slot.memory_input);
  const GradMode as_of_the_input(true);
  const std::string name = graph_.inputs()[i].name + "_memory";
  const Tensor memory = add_input(row_of_memory(real), name, ir::Role::Primal);
  memory_slots_.push_back({input, input_index(memory)});
  return memory;
}

Tensor Trace::root_over(const Tensor& t) const {
  const auto known = roots_.find(t.impl()->storage.get());
  return known != roots_.end() ? known->second : root_of(t);
}

namespace {

[[noreturn]] void refuse(std::string_view why) {
  ir::fail(Errc::Unsupported, "as_strided: " + std::string(why));
}

/// Of an input's memory: `t` may be the input itself, or what else lies there.
Tensor memory_of_input(Trace& trace, int input, const Tensor& t) {
  const Tensor memory = trace.memory_input(input);
  if (autograd_base(trace.stand_in(input)) == autograd_base(t)) return memory;
  if (receives_gradient(t))
    refuse(
        "inside a trace a detached tensor with a gradient of its own reaches outside itself; "
        "expected a view that it contains");
  return memory.detach();
}

}  // namespace

Tensor in_memory_order(const Tensor& t, const SourceLocation& at) {
  if (t.is_contiguous()) return t;
  if (!ir::is_dense(t.sizes(), t.strides())) return {};
  return permute(t, ir::memory_order(t.strides()), at);
}

Tensor row_of_memory(const Tensor& t) {
  const TensorImpl& impl = *t.impl();
  const Tensor base = root_of(t);
  if (requires_grad(base) && ir::self_overlaps(base.impl()->sizes, base.impl()->strides))
    refuse(
        "an expanded tensor that requires grad reaches outside itself; expected one without "
        "repeated elements");
  const auto length = static_cast<int64_t>(impl.storage->bytes() / ir::size_of(impl.dtype));
  const Tensor row = view_tensor(t, {length}, {1}, 0);
  remember_memory(base, row, view_of(t));
  return row;
}

Tensor whole_memory(const Tensor& given, const SourceLocation& at) {
  refuse_tangents({&given, 1}, "as_strided beyond the tensor");
  refuse_batched(given, "as_strided beyond the tensor");
  Trace* trace = Trace::current();
  if (trace == nullptr) return row_of_memory(given);
  const Tensor t = trace->resolve(given);
  if (const int input = trace->input_over(t); input >= 0) {
    const Tensor memory = memory_of_input(*trace, input, t);
    return memory.dtype() == t.dtype() ? memory : view(memory, t.dtype(), at);
  }
  const Tensor root = trace->root_over(t);
  const Tensor memory =
      in_memory_order(root.impl() == root_of(t).impl() ? root : root.detach(at), at);
  if (!memory.defined())
    refuse(
        "inside a trace the tensor's memory is shown by none; expected a tensor that fills its "
        "memory, or a view of one");
  return memory.dtype() == t.dtype() ? memory : view(memory, t.dtype(), at);
}

}  // namespace tandem::runtime
