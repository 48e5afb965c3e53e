// Memory of tensors: from the caching allocator, or foreign.
#include <algorithm>
#include <cstring>

#include "ir/base/error.h"
#include "ir/strides.h"
#include "machine/memory/allocator.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {

std::shared_ptr<Storage> Storage::allocate(size_t bytes, bool zeroed) {
  auto storage = std::make_shared<Storage>();
  storage->data_ = zeroed ? machine::allocate_zeroed(bytes) : machine::allocate(bytes);
  storage->bytes_ = bytes;
  storage->owned_ = true;
  return storage;
}

std::shared_ptr<Storage> Storage::wrap(void* data, size_t bytes, std::function<void(void*)> deleter,
                                       bool read_only) {
  auto storage = std::make_shared<Storage>();
  storage->data_ = data;
  storage->bytes_ = bytes;
  storage->deleter_ = std::move(deleter);
  storage->read_only_ = read_only;
  return storage;
}

std::shared_ptr<Storage> Storage::traced(bool read_only) {
  auto storage = std::make_shared<Storage>();
  storage->read_only_ = read_only;
  return storage;
}

void Storage::grow(size_t bytes) {
  if (bytes <= bytes_) return;
  if (!owned_)
    ir::fail(Errc::Mutation,
             "resize_: the memory is not the library's own; expected sizes that it holds");
  void* larger = machine::allocate(bytes);
  std::memcpy(larger, data_, bytes_);
  std::memset(static_cast<char*>(larger) + bytes_, 0, bytes - bytes_);
  machine::release(data_, bytes_);
  data_ = larger;
  bytes_ = bytes;
}

Storage::~Storage() {
  if (owned_) machine::release(data_, bytes_);
  if (deleter_) deleter_(data_);
}

Tensor empty_tensor(const Shape& sizes, DType dtype) {
  return empty_tensor(sizes, ir::contiguous_strides(sizes), dtype);
}

/// Of memory that reaches to the last element, gaps included.
static size_t bytes_of(const Shape& sizes, const Strides& strides, DType dtype) {
  const auto size = static_cast<int64_t>(ir::size_of(dtype));
  const char* const what = "tensor size in bytes";
  ir::checked_mul(ir::numel(sizes), size, what);
  return static_cast<size_t>(
      int64_t{ir::checked_mul(ir::extent(sizes, strides, what), size, what)});
}

static Tensor new_tensor(const Shape& sizes, const Strides& strides, DType dtype, bool zeroed) {
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = Storage::allocate(bytes_of(sizes, strides, dtype), zeroed);
  impl->dtype = dtype;
  impl->sizes = sizes;
  impl->strides = strides;
  return Tensor(std::move(impl));
}

Tensor empty_tensor(const Shape& sizes, const Strides& strides, DType dtype) {
  return new_tensor(sizes, strides, dtype, false);
}

Tensor zero_tensor(const Shape& sizes, DType dtype) {
  return new_tensor(sizes, ir::contiguous_strides(sizes), dtype, true);
}

Tensor view_tensor(const Tensor& like, const Shape& sizes, const Strides& strides, Dim offset) {
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = like.impl()->storage;
  impl->dtype = like.impl()->dtype;
  impl->sizes = sizes;
  impl->strides = strides;
  impl->offset = offset;
  return Tensor(std::move(impl));
}

Dim offset_between(const TensorImpl& tensor, const TensorImpl& other) {
  const auto size = static_cast<int64_t>(ir::size_of(tensor.dtype)),
             other_size = static_cast<int64_t>(ir::size_of(other.dtype));
  return (tensor.offset * size - other.offset * other_size) / std::min(size, other_size);
}

bool share_storage(const Tensor& a, const Tensor& b) {
  return a.impl()->storage == b.impl()->storage;
}

}  // namespace tandem::runtime
