// A typed strided view of memory: all that the three evaluators (reference, eager, generated)
// share.
#ifndef TANDEM_IR_BUFFER_H
#define TANDEM_IR_BUFFER_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "graph.h"

namespace tandem::ir {

/// Memory of one tensor; not owned.
struct BufferView {
  void* data = nullptr;  // of the first element
  DType dtype = DType::F32;
  Shape sizes;
  Strides strides;  // elements
};

/// An owned contiguous tensor, for the interpreter, tools and tests.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(const Type& type);  // zero-filled

  const Type& type() const { return type_; }
  DType dtype() const { return type_.dtype; }
  const Shape& sizes() const { return type_.sizes; }
  int64_t numel() const { return numel_; }
  size_t bytes() const { return bytes_.size() * sizeof(uint64_t); }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes_.data());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes_.data());
  }
  BufferView view() {
    return {bytes_.data(), type_.dtype, type_.sizes, contiguous_strides(type_.sizes)};
  }

  /// Element `i` in row-major order, widened; `set` rounds to the dtype as `convert` does.
  Number at(int64_t i) const;
  void set(int64_t i, const Number& value);

 private:
  Type type_;
  int64_t numel_ = 0;
  std::vector<uint64_t> bytes_;  // 8-byte aligned storage
};

/// Element at `pointer`, widened; and its inverse.
Number load_element(const void* pointer, DType dtype);
void store_element(void* pointer, DType dtype, const Number& value);

/// A contiguous copy of `view`.
Buffer copy_of(const BufferView& view);

/// The memory at `addresses` as a graph's inputs, or outputs, lie in it.
std::vector<BufferView> input_views(const Graph& graph, std::span<void* const> addresses);
std::vector<BufferView> output_views(const Graph& graph, std::span<void* const> addresses);
/// The address of each view's first element.
std::vector<void*> addresses_of(std::span<const BufferView> views);

}  // namespace tandem::ir

#endif  // TANDEM_IR_BUFFER_H
