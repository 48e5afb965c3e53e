// What may be written in place.
#include <fmt/format.h>

#include "ir/base/error.h"
#include "ir/geometry.h"
#include "ir/strides.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/view_history.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {
namespace {

[[noreturn]] void refuse_write(ir::Op op, Errc code, std::string_view why) {
  ir::fail(code, fmt::format("{}_: {}", ir::name(op), why));
}

/// What autograd refuses of a write in grad mode through a view.
void check_view_writable(TensorImpl& self, ir::Op op, ir::FunctionRef<bool()> gets_history) {
  const ViewOf& view = *self.autograd->view;
  const bool followed = gets_history();
  if (followed && view.origin == ViewOrigin::WithoutGrad)
    refuse_write(op, Errc::Autograd,
                 "a view made under NoGrad is written in grad mode; expected a view made in grad "
                 "mode");
  if (followed && view.origin == ViewOrigin::OneOfMany)
    refuse_write(op, Errc::Autograd,
                 "a part that split, chunk or unbind gave is written in grad mode; expected a view "
                 "made by slice, select or tensor_split, or NoGrad");
  if (followed && view.origin == ViewOrigin::OfCustomFunction)
    refuse_write(op, Errc::Autograd,
                 "a custom function's result that lies in the memory of another tensor (it gave an "
                 "input, or a view of one) is written in grad mode; expected a clone() in its "
                 "forward");
  const Tensor base(view.base);
  if (requires_grad(base) && is_leaf(base))
    refuse_write(op, Errc::Autograd,
                 "a view of a leaf that requires grad is written in place; expected a view of a "
                 "tensor that is not a leaf, or NoGrad");
  if (followed) follow_arrangement(self);
}

/// Whether what `op` writes to places that are one is the same: a number, or what stands there.
bool writes_equals(ir::Op op, std::span<const Tensor> operands) {
  return op == ir::Op::fill || (op == ir::Op::copy && operands[1].impl() == operands[0].impl());
}

void check_no_overlap(const TensorImpl& impl, ir::Op op) {
  if (!is_contiguous(impl.sizes, impl.strides) && ir::self_overlaps(impl.sizes, impl.strides))
    refuse_write(op, Errc::Mutation,
                 fmt::format("elements share memory, so that a write is not well defined; expected "
                             "a tensor without overlap, got strides {} of {} (clone it first)",
                             to_string(impl.strides), to_string(impl.sizes)));
}

}  // namespace

void check_writable(std::span<const Tensor> operands, ir::Op op) {
  if (!writes_equals(op, operands)) check_no_overlap(*operands[0].impl(), op);
  const ir::Type type = operands[0].impl()->type();
  check_writable(operands[0], op, [&] { return tape_wants(op, operands, {&type, 1}); });
}

void check_writable(const Tensor& self, ir::Op op, ir::FunctionRef<bool()> gets_history) {
  const TensorImpl& impl = *self.impl();
  if (impl.storage->read_only())
    refuse_write(op, Errc::Mutation, "the tensor's memory is read-only; expected writable memory");
  if (!grad_enabled()) return;
  if (const Trace* trace = Trace::current();
      trace != nullptr && trace->is_detached(self) && gets_history())
    refuse_write(op, Errc::Unsupported,
                 "inside a trace what was detached in place, or given other memory by set_, is "
                 "written with a gradient; expected detach() and a new tensor");
  const AutogradMeta* meta = meta_of(self);
  if (meta == nullptr) return;
  if (meta->view) check_view_writable(*self.impl(), op, gets_history);
  if (requires_grad(self) && is_leaf(self))
    refuse_write(op, Errc::Autograd,
                 "a leaf that requires grad is written in place; expected a tensor that is not a "
                 "leaf, or NoGrad");
}

namespace {

/// From the first byte to one past the last, in the storage.
struct Bytes {
  int64_t begin, end;
};
Bytes bytes_of(const TensorImpl& t) {
  const auto size = static_cast<int64_t>(ir::size_of(t.dtype));
  return {t.offset * size, (t.offset + ir::numel(t.sizes)) * size};
}

bool is_dense(const TensorImpl& t) { return ir::is_dense(t.sizes, t.strides); }

bool is_apart(const TensorImpl& a, const TensorImpl& b, Sharing allowed) {
  if (&a == &b) return allowed == Sharing::AllOrNothing;
  if (a.storage != b.storage || !is_dense(a) || !is_dense(b)) return true;
  if (ir::numel(a.sizes) == 0 || ir::numel(b.sizes) == 0) return true;
  const Bytes in_a = bytes_of(a), in_b = bytes_of(b);
  if (in_a.begin >= in_b.end || in_b.begin >= in_a.end) return true;
  const bool is_all = in_a.begin == in_b.begin && in_a.end == in_b.end && a.strides == b.strides;
  return is_all && allowed == Sharing::AllOrNothing;
}

}  // namespace

bool is_apart(const Tensor& written, const Tensor& read, Sharing allowed) {
  return is_apart(*in_current_trace(written).impl(), *in_current_trace(read).impl(), allowed);
}

void check_apart(const Tensor& written, const Tensor& read, Sharing allowed) {
  if (!is_apart(written, read, allowed))
    ir::fail(Errc::Mutation,
             fmt::format("what is written and an operand lie in the same memory; expected {} "
                         "(clone the operand first)",
                         allowed == Sharing::Nothing ? "memory of its own"
                                                     : "none of that memory or, in the same "
                                                       "arrangement, all of it"));
}

}  // namespace tandem::runtime
