// Copies of modules, and their conversion: what changes is what their tensors point to.
#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/nn/module.h>
#include <tandem/ops.h>
#include <tandem/scalar.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "ir/base/error.h"
#include "ir/strides.h"
#include "runtime/nn/tensor_fields.h"
#include "runtime/tape/autograd.h"
#include "runtime/tensor/rearrange.h"
#include "runtime/trace/trace.h"

namespace tandem::nn::fields {
namespace {

using runtime::Storage;
using runtime::TensorImpl;
using structure::Field;
using structure::FieldKind;

/// The tensor that a field holds or, of a Scalar, is; undefined if there is none.
Tensor held_by(const Field& field) {
  if (is_tensor(field)) return tensor_of(field);
  return field.kind == FieldKind::Scalar ? static_cast<Scalar*>(field.value)->tensor() : Tensor();
}

/// Copies the memory that some tensors show, of each storage the bytes from the first to the last,
/// and the tensors.
class MemoryCopy {
 public:
  void note(const Tensor& t);
  Tensor copy_of(const Tensor& t);

 private:
  struct Part {
    size_t begin = SIZE_MAX, end = 0;  // bytes in the storage; end 0: nothing is shown
    std::shared_ptr<Storage> copy = {};
  };
  static constexpr size_t kAlignment = 64;  // of a copy's bytes, as the original's

  std::map<const Storage*, Part> parts_;
  std::map<const TensorImpl*, Tensor> copies_;
};

void MemoryCopy::note(const Tensor& t) {
  const TensorImpl& impl = *t.impl();
  const size_t element = ir::size_of(impl.dtype);
  const auto begin = static_cast<size_t>(int64_t{impl.offset}) * element;
  const auto count = static_cast<size_t>(int64_t{ir::extent(impl.sizes, impl.strides)});
  Part& part = parts_[impl.storage.get()];
  if (count == 0) return;
  part.begin = std::min(part.begin, begin / kAlignment * kAlignment);
  part.end = std::max(part.end, begin + count * element);
}

Tensor MemoryCopy::copy_of(const Tensor& t) {
  Tensor& copy = copies_[t.impl().get()];
  if (copy.defined()) return copy;
  const TensorImpl& from = *t.impl();
  Part& part = parts_.at(from.storage.get());
  if (part.copy == nullptr) {
    const size_t bytes = part.end == 0 ? 0 : part.end - part.begin;
    part.copy = Storage::allocate(bytes);
    if (bytes > 0)
      std::memcpy(part.copy->data(), static_cast<const char*>(from.storage->data()) + part.begin,
                  bytes);
  }
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = part.copy;
  impl->dtype = from.dtype;
  impl->sizes = from.sizes;
  impl->strides = from.strides;
  if (t.numel() > 0)
    impl->offset = from.offset - static_cast<int64_t>(part.begin / ir::size_of(from.dtype));
  impl->is_weak = from.is_weak;
  copy = Tensor(std::move(impl));
  if (t.requires_grad()) copy.requires_grad_();
  return copy;
}

struct Conversion {
  Tensor tensor, converted, grad;
};

Conversion conversion_of(const std::string& name, const Tensor& t, DType dtype) {
  runtime::require_real(t, fmt::format("to: tensor \"{}\"", name));
  if (!t.is_leaf())
    ir::fail(Errc::Autograd, fmt::format("to: tensor \"{}\" is the result of an operation; "
                                         "expected a leaf (use detach)",
                                         name));
  Conversion c{t, t.detach().to(dtype), {}};
  runtime::autograd_meta(*t.impl());
  if (t.grad().defined()) c.grad = t.grad().detach().to(dtype);
  return c;
}

}  // namespace

void copy_memory(const Fields& fields) {
  MemoryCopy copy;
  for (const Field& field : fields) {
    const Tensor t = held_by(field);
    if (!t.defined()) continue;
    runtime::require_real(t, fmt::format("clone: tensor \"{}\"", field.path));
    copy.note(t);
  }
  std::set<const void*> done;  // a struct that several pointers share is listed for each
  for (const Field& field : fields) {
    const Tensor t = held_by(field);
    if (!t.defined() || !done.insert(field.value).second) continue;
    if (is_tensor(field))
      tensor_of(field) = copy.copy_of(t);
    else
      *static_cast<Scalar*>(field.value) = Scalar(copy.copy_of(t));
  }
}

void to(const Fields& fields, DType dtype) {
  if (!ir::is_floating(dtype))
    ir::fail(Errc::DType,
             fmt::format("to: expected a floating dtype for a module, got {}", ir::name(dtype)));
  if (runtime::Trace::current() != nullptr)
    ir::fail(Errc::Trace,
             "to: a module is converted inside a trace, which later calls could not replay; "
             "expected it before, or x.to(dtype) of single tensors");
  const NoGrad no_grad;
  std::vector<Conversion> conversions;
  for (const auto& [name, t] : named_tensors(fields))
    if (ir::is_floating(t.dtype()) && t.dtype() != dtype)
      conversions.push_back(conversion_of(name, t, dtype));
  for (const Conversion& c : conversions) {
    c.tensor.impl()->storage->note_rearranged();  // what was saved of it is stale
    runtime::take_memory(c.tensor, c.converted);
    runtime::store_grad(*c.tensor.impl(), c.grad);
  }
}

}  // namespace tandem::nn::fields
