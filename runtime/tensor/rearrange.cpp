#include "runtime/tensor/rearrange.h"

#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/ops.h>

#include <cstring>

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "runtime/levels/batched.h"
#include "runtime/levels/dual.h"
#include "runtime/ops/call.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/autograd.h"
#include "runtime/tensor/undo.h"
#include "runtime/trace/trace.h"

namespace tandem {
namespace runtime {
namespace {

void copy_geometry(TensorImpl& to, const TensorImpl& from) {
  to.storage = from.storage;
  to.dtype = from.dtype;
  to.sizes = from.sizes;
  to.strides = from.strides;
  to.offset = from.offset;
  to.value = from.value;
  to.constant = from.constant;
  to.constant_version = from.constant_version;
}

[[noreturn]] void refuse(std::string_view op, Errc code, std::string_view why) {
  ir::fail(code, fmt::format("{}: {}", op, why));
}

/// The tensor that changes: in a trace the stand-in, which a captured tensor's handle is not.
Tensor changeable(const Tensor& self, std::string_view op) {
  if (!self.defined()) refuse(op, Errc::Argument, "undefined tensor; expected a tensor, got none");
  refuse_tangents({&self, 1}, op);
  refuse_batched(self, op);
  Trace* trace = Trace::current();
  if (trace == nullptr) {
    require_real(self, op);
    return self;
  }
  const Tensor stand_in = trace->resolve(self);
  if (stand_in.impl() != self.impl())
    refuse(op, Errc::Mutation,
           "a captured tensor itself is changed inside a trace, which later calls could not "
           "replay; expected an argument of the traced function");
  return self;
}

/// What autograd refuses of changes that it follows.
void check_history(const Tensor& self, std::string_view op) {
  if (!requires_grad(self)) return;
  if (is_leaf(self) && grad_enabled())
    refuse(op, Errc::Autograd,
           "a leaf that requires grad is changed in place; expected a tensor that is not a leaf, "
           "or NoGrad");
  if (!is_leaf(self) && !grad_enabled())
    refuse(op, Errc::Autograd,
           "the history of a computed tensor can't follow a change under NoGrad; expected grad "
           "mode, or a detached tensor");
}

/// As for writes: not of views whose history a change would cut off from their siblings'.
void check_origin(const Tensor& self, std::string_view op) {
  const ViewOf* view = view_of(self);
  if (view == nullptr || !grad_enabled() || !requires_grad(Tensor(view->base))) return;
  if (view->origin == ViewOrigin::OneOfMany)
    refuse(op, Errc::Autograd,
           "a part that split, chunk or unbind gave, or a view of one, is changed in grad mode; "
           "expected a view made by slice, select or tensor_split, or NoGrad");
}

bool is_view_of_another(const Tensor& t) {
  const AutogradMeta* meta = t.impl()->autograd.get();
  return meta != nullptr && meta->view != nullptr;
}

}  // namespace

Tensor base_of(const Tensor& t) {
  Trace* trace = Trace::current();
  const Tensor seen = trace != nullptr ? trace->resolve(t) : t;
  return is_view_of_another(seen) ? Tensor(seen.impl()->autograd->view->base) : Tensor();
}

void take_arrangement(const Tensor& self, const Tensor& shown) {
  const std::shared_ptr<TensorImpl> from = shown.impl();
  copy_geometry(*self.impl(), *from);
  AutogradMeta& meta = autograd_meta(*self.impl());
  ++meta.arrangement;
  AutogradMeta* seen = from->autograd.get();
  if (seen == nullptr) return;
  const bool keeps_history = requires_grad(self) && is_leaf(self);
  if (seen->node && !keeps_history) set_history(self, seen->node, seen->result);
  // A view stays a view, by one step more; a base stays a base.
  if (meta.view && seen->view) meta.view = std::move(seen->view);
}

void take_memory(const Tensor& self, const Tensor& other) {
  copy_geometry(*self.impl(), *other.impl());
  AutogradMeta& meta = autograd_meta(*self.impl());
  ++meta.arrangement;
  meta.view = nullptr;
}

void grow(const Tensor& self, const Shape& sizes) {
  TensorImpl& impl = *self.impl();
  const Dim count = ir::numel(impl.sizes), added = ir::numel(sizes) - count;
  const Dim end = impl.offset + ir::numel(sizes);
  impl.storage->grow(
      static_cast<size_t>(int64_t{ir::checked_mul(end, ir::size_of(impl.dtype), "resize_")}));
  impl.sizes = sizes;
  impl.strides = ir::contiguous_strides(sizes);
  const auto bytes = static_cast<int64_t>(ir::size_of(impl.dtype));
  std::memset(static_cast<char*>(impl.data()) + count * bytes, 0,
              static_cast<size_t>(added * bytes));
  ++autograd_meta(impl).arrangement;
}

void drop_history(const Tensor& self) {
  AutogradMeta& meta = autograd_meta(*self.impl());
  meta.node = nullptr;
  meta.result = 0;
  meta.requires_grad = false;
  meta.outside_history = false;
  meta.accumulator.reset();
}

}  // namespace runtime

namespace {

/// self becomes what make(self) shows.
template <class Make>
const Tensor& rearranged(const Tensor& self, std::string_view op, Make make) {
  const Tensor target = runtime::changeable(self, op);
  runtime::check_history(target, op);
  runtime::check_origin(target, op);
  const Tensor base = runtime::base_of(target);
  if (base.defined() && base.requires_grad() && base.is_leaf() && runtime::grad_enabled())
    runtime::refuse(op, Errc::Autograd,
                    "a view of a leaf that requires grad is changed in place; expected a view of a "
                    "tensor that is not a leaf, or NoGrad");
  const Tensor shown = make(target);
  runtime::Undo undo;
  undo.note(target);
  target.impl()->storage->note_rearranged();
  runtime::take_arrangement(target, shown);
  undo.keep();
  return self;
}

}  // namespace

const Tensor& Tensor::t_(SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return rearranged(*this, "t_", [&](const Tensor& x) { return tandem::t(x, at); });
}
const Tensor& Tensor::transpose_(int64_t dim0, int64_t dim1, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return rearranged(*this, "transpose_",
                    [&](const Tensor& x) { return tandem::transpose(x, dim0, dim1, at); });
}
const Tensor& Tensor::swapaxes_(int64_t dim0, int64_t dim1, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return transpose_(dim0, dim1, at);
}
const Tensor& Tensor::swapdims_(int64_t dim0, int64_t dim1, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return transpose_(dim0, dim1, at);
}
const Tensor& Tensor::squeeze_(const DimList& dims, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return rearranged(*this, "squeeze_",
                    [&](const Tensor& x) { return tandem::squeeze(x, dims, at); });
}
const Tensor& Tensor::unsqueeze_(int64_t dim, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return rearranged(*this, "unsqueeze_",
                    [&](const Tensor& x) { return tandem::unsqueeze(x, dim, at); });
}
const Tensor& Tensor::as_strided_(const Shape& sizes, const Strides& strides,
                                  std::optional<Dim> storage_offset, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  return rearranged(*this, "as_strided_", [&](const Tensor& x) {
    return tandem::as_strided(x, sizes, strides, storage_offset, at);
  });
}

namespace {

void check_resizable(const Tensor& self) {
  if (runtime::is_view_of_another(self))
    runtime::refuse("resize_", Errc::Mutation,
                    "a view is resized, which would show memory that is not its own; expected a "
                    "tensor that is not a view (use as_strided)");
  if (runtime::requires_grad(self))
    runtime::refuse("resize_", Errc::Autograd,
                    "a tensor that requires grad is resized; expected one that does not");
}

/// In a trace: the elements in the order of memory and zeros after them, as a new value.
void grow_traced(const Tensor& target, const Shape& sizes, const SourceLocation& at) {
  runtime::Trace& trace = *runtime::Trace::current();
  const long owners = trace.input_index(target) >= 0 ? 2 : 1;  // the trace keeps one of an input
  if (target.numel() > 0 && target.impl()->storage.use_count() > owners)
    runtime::refuse("resize_", Errc::Unsupported,
                    "inside a trace a tensor grows whose memory other tensors show; expected one "
                    "without views, or sizes that its memory holds");
  const Dim added = ir::numel(sizes) - target.numel();
  const Tensor old = tandem::as_strided(target, {target.numel()}, {1}, {}, at);
  const Tensor filled = tandem::cat({old, zeros({added}, target.dtype(), at)}, 0, at);
  const Tensor shown = tandem::view(filled, sizes, at);
  trace.note_resized(target);
  const auto storage = target.impl()->storage;
  runtime::take_memory(target, shown.detach(at));
  target.impl()->storage = storage;
}

}  // namespace

const Tensor& Tensor::resize_as_(const Tensor& other, SourceLocation at) const {
  const ir::ErrorScope errors(at, "resize_as", true);
  return resize_(other.sizes(), at);
}
const Tensor& Tensor::resize_(const Shape& sizes, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  const Tensor target = runtime::changeable(*this, "resize_");
  check_resizable(target);
  for (Dim d : sizes)
    if (d < 0)
      ir::fail(Errc::Shape, fmt::format("resize_: negative size; expected sizes >= 0, got {}",
                                        ir::to_string(sizes)));
  const runtime::LocationScope scope(at);
  const NoGrad no_grad;
  const bool fits = ir::numel(sizes) <= target.numel();
  runtime::Undo undo;
  if (!target.impl()->is_traced()) undo.note(target);
  if (fits) {
    const Tensor shown = tandem::as_strided(target, sizes, ir::contiguous_strides(sizes), {}, at);
    runtime::take_arrangement(target, shown);
  } else if (target.impl()->is_traced()) {
    grow_traced(target, sizes, at);
  } else {
    runtime::grow(target, sizes);
  }
  target.impl()->storage->note_rearranged();
  undo.keep();
  return *this;
}

const Tensor& Tensor::set_(const Tensor& source, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  const Tensor target = runtime::changeable(*this, "set_");
  if (!source.defined() || source.dtype() != target.dtype())
    runtime::refuse("set_", Errc::DType,
                    fmt::format("expected a source of {}, got {}", ir::name(target.dtype()),
                                source.defined() ? ir::name(source.dtype()) : "none"));
  const bool differentiable = target.requires_grad() || source.requires_grad();
  if (differentiable && runtime::grad_enabled())
    runtime::refuse("set_", Errc::Autograd,
                    "no gradient flows through the exchange of memory; expected tensors that do "
                    "not require grad, or NoGrad");
  const Tensor shown = source.detach(at);
  runtime::Undo undo;
  undo.note(target);
  target.impl()->storage->note_rearranged();
  runtime::take_memory(target, shown);
  undo.keep();
  if (runtime::Trace* trace = runtime::Trace::current()) trace->note_detached(target);
  return *this;
}

const Tensor& Tensor::detach_(SourceLocation at) const {
  const ir::ErrorScope errors(at);
  const Tensor target = runtime::changeable(*this, "detach_");
  if (runtime::is_view_of_another(target))
    runtime::refuse("detach_", Errc::Autograd,
                    "a view is detached in place; expected a tensor that is not a view (use "
                    "detach)");
  if (runtime::Trace* trace = runtime::Trace::current()) {
    const Tensor shown = target.detach(at);
    target.impl()->value = shown.impl()->value;
    trace->note_detached(target);
  }
  runtime::drop_history(target);
  return *this;
}

}  // namespace tandem
