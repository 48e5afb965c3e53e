// Tensor's own methods: geometry, elements, and what autograd asks of one tensor.
#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/scalar.h>
#include <tandem/tensor.h>

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "ir/buffer.h"
#include "ir/geometry.h"
#include "runtime/levels/batched.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/autograd.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/trace/trace.h"

namespace tandem {

using runtime::TensorImpl;

namespace {

const TensorImpl& get(const Tensor& t, const char* what) {
  if (!t.defined())
    ir::fail(Errc::Argument,
             fmt::format("{}: undefined tensor; expected a tensor, got none", what));
  return *t.impl();
}

/// A traced function may branch on what it asks of a tensor from outside, which is therefore an
/// input, so that it is guarded, even if the branch does not use it.
const TensorImpl& asked(const Tensor& t, const char* what) {
  const TensorImpl& impl = get(t, what);
  runtime::Trace* trace = runtime::Trace::asking();
  if (trace && !impl.is_traced() && !runtime::is_batched(t)) trace->resolve(t);
  return impl;
}

}  // namespace

DType Tensor::dtype() const { return asked(*this, "dtype").dtype; }
const Shape& Tensor::sizes() const { return asked(*this, "sizes").sizes; }
const Strides& Tensor::strides() const { return asked(*this, "strides").strides; }
Dim Tensor::storage_offset() const {
  const TensorImpl& impl = get(*this, "storage_offset");
  runtime::ask_offset(*this);
  return impl.offset;
}
int64_t Tensor::dim() const { return asked(*this, "dim").sizes.rank(); }
Dim Tensor::numel() const { return ir::numel(asked(*this, "numel").sizes); }

Dim Tensor::size(int64_t dim, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  const Shape& sizes = this->sizes();
  const int64_t d = dim < 0 ? dim + sizes.rank() : dim;
  if (d < 0 || d >= sizes.rank())
    ir::fail(Errc::Index, fmt::format("size: dimension out of range; expected {} <= dim < {}, got "
                                      "{}",
                                      -sizes.rank(), sizes.rank(), dim));
  return sizes[static_cast<int>(d)];
}

bool Tensor::is_contiguous() const {
  const TensorImpl& impl = asked(*this, "is_contiguous");
  return ir::is_contiguous(impl.sizes, impl.strides);
}

bool Tensor::is_same(const Tensor& other) const {
  runtime::Trace* trace = defined() && other.defined() ? runtime::innermost_asking() : nullptr;
  return trace != nullptr ? trace->ask_same(*this, other) : impl_ == other.impl_;
}

bool Tensor::shares_storage(const Tensor& other) const {
  get(*this, "shares_storage");
  get(other, "shares_storage");
  runtime::Trace* trace = runtime::innermost_asking();
  return trace != nullptr ? trace->ask_sharing(*this, other) : runtime::share_storage(*this, other);
}

uint64_t Tensor::version() const { return get(*this, "version").storage->version(); }
void Tensor::mark_written() const { get(*this, "mark_written").storage->bump_version(); }

void* Tensor::data_checked(size_t element_bytes, bool floating) const {
  const TensorImpl& impl = get(*this, "data");
  runtime::require_real(*this, "data");
  const bool is_half = ir::is_half(impl.dtype);
  if (element_bytes != ir::size_of(impl.dtype) ||
      floating != (ir::is_floating(impl.dtype) && !is_half))
    ir::fail(Errc::DType, fmt::format("data: the element type does not fit; expected one for {}, "
                                      "got {} bytes",
                                      ir::name(impl.dtype), element_bytes));
  return impl.data();
}

Number Tensor::item_number(SourceLocation at) const {
  const ir::ErrorScope errors(at, "item");
  const TensorImpl& impl = get(*this, "item");
  if (numel() != 1)
    ir::fail(Errc::Shape,
             fmt::format("item: expected one element, got {}", ir::to_string(impl.sizes)));
  const Tensor constant = runtime::constant_value(*this);
  if (!constant.defined()) runtime::require_real(*this, "item");
  const TensorImpl& from = constant.defined() ? *constant.impl() : impl;
  return ir::load_element(from.data(), from.dtype);
}

void Tensor::for_each_number(const std::function<void(const Number&)>& visit) const {
  get(*this, "to_vector");
  runtime::require_real(*this, "to_vector");
  ir::Buffer elements = ir::copy_of(impl_->view());
  for (int64_t i = 0; i < elements.numel(); ++i) visit(elements.at(i));
}

// --- autograd

bool Tensor::requires_grad() const {
  if (defined()) asked(*this, "requires_grad");
  return runtime::requires_grad(*this);
}

const Tensor& Tensor::requires_grad_(bool value) const {
  get(*this, "requires_grad_");
  if (value && !ir::is_differentiable(dtype()))
    ir::fail(Errc::DType, fmt::format("requires_grad_: only floating tensors have gradients, got "
                                      "{}",
                                      ir::name(dtype())));
  if (!runtime::is_leaf(*this)) {
    if (!value)
      ir::fail(Errc::Autograd,
               "requires_grad_: only leaves can change it; expected a leaf, got the result of an "
               "operation (use detach)");
    return *this;
  }
  if (runtime::Trace::current() == nullptr) runtime::require_operand(*this, "requires_grad_");
  const bool before = runtime::receives_gradient(*this);
  if (runtime::Trace* trace = runtime::Trace::current();
      trace && value != before && !runtime::is_batched(*this)) {
    if (trace->resolve(*this).impl() != impl())
      ir::fail(Errc::Mutation,
               "requires_grad_: a captured tensor itself is changed inside a trace, which later "
               "calls could not replay; expected an argument of the traced function");
    trace->note_requires_grad(*this, value);
  }
  if (value || impl_->autograd) runtime::autograd_meta(*impl_).requires_grad = value;
  return *this;
}

bool Tensor::is_leaf() const {
  get(*this, "is_leaf");
  runtime::Trace* trace = runtime::Trace::asking();
  if (trace && trace == runtime::Trace::current() && !runtime::is_batched(*this))
    trace->ask_leaf(*this);
  return runtime::is_leaf(*this);
}

Tensor Tensor::grad() const {
  get(*this, "grad");
  return runtime::load_grad(*runtime::in_current_trace(*this).impl());
}

void Tensor::set_grad(const Tensor& grad) const {
  get(*this, "set_grad");
  if (grad.defined() && (grad.sizes() != sizes() || grad.dtype() != dtype()))
    ir::fail(Errc::Shape,
             fmt::format("set_grad: the gradient does not fit; expected {}, got {}",
                         ir::to_string(impl_->type()), ir::to_string(grad.impl()->type())));
  if (grad.defined() && runtime::Trace::current() == nullptr) {
    runtime::require_operand(*this, "set_grad");
    runtime::require_operand(grad, "set_grad: the gradient");
  }
  if (grad.defined() && grad.impl() == impl())
    ir::fail(Errc::Argument, "set_grad: a tensor can't be its own gradient");
  runtime::store_grad(*runtime::in_current_trace(*this).impl(), grad);
}

void Tensor::backward(const Tensor& gradient, bool retain_graph, bool create_graph,
                      SourceLocation at) const {
  runtime::backward(*this, gradient, retain_graph || create_graph, create_graph, at);
}

void Tensor::retain_grad() const { runtime::retain_grad(*this); }

void Tensor::register_hook(std::function<Tensor(const Tensor&)> hook) const {
  runtime::register_hook(*this, std::move(hook));
}

// --- Scalar

Scalar::Scalar(const Number& value) {
  const DType dtype = value.is_float() ? f64 : i64;
  tensor_ = runtime::empty_tensor({}, dtype);
  ir::store_element(tensor_.impl()->data(), dtype, value);
  tensor_.impl()->is_weak = true;
}

Scalar::Scalar(const Tensor& zero_dim) : tensor_(zero_dim) {
  if (!zero_dim.defined() || zero_dim.impl()->is_weak) return;
  if (zero_dim.dim() != 0)
    ir::fail(Errc::Shape, fmt::format("Scalar: expected a tensor without dimensions, got {}",
                                      to_string(zero_dim.sizes())));
  tensor_ = zero_dim.alias();
  tensor_.impl()->is_weak = true;
}

void Scalar::set(const Number& value, SourceLocation at) const {
  tensor_.fill_(Located(value, at));
}

// --- writing through a temporary

const Tensor& Tensor::operator=(const Located& value) && {
  const bool is_seen = !defined() || impl_.use_count() > 1 || impl_->storage.use_count() > 1 ||
                       impl_->storage->is_foreign();
  const ir::ErrorScope errors(value.location);
  if (!is_seen)
    ir::fail(Errc::Mutation,
             "operator=: nothing shows what the temporary that is assigned to holds; expected a "
             "view (a slice, x.index of integers and ranges); x.index_put_ writes through masks "
             "and tensors of positions");
  return copy_(value);
}

// --- grad mode

bool grad_enabled() { return runtime::grad_enabled(); }
GradMode::GradMode(bool enabled) : previous_(runtime::set_grad_enabled(enabled)) {}
GradMode::~GradMode() { runtime::set_grad_enabled(previous_); }

}  // namespace tandem
