#include "ir/buffer.h"

#include <cstring>

#include "ir/half.h"

namespace tandem::ir {
namespace {

template <class T>
T load_as(const void* pointer) {
  T value;
  std::memcpy(&value, pointer, sizeof value);
  return value;
}

template <class T>
void store_as(void* pointer, T value) {
  std::memcpy(pointer, &value, sizeof value);
}

/// The memory at `addresses` as these inputs or outputs lie in it.
template <class Items>
std::vector<BufferView> views_of(const Graph& graph, const Items& items,
                                 std::span<void* const> addresses) {
  std::vector<BufferView> views;
  for (const auto& item : items) {
    const Type& type = graph.type(item.value);
    views.push_back({addresses[views.size()], type.dtype, type.sizes, item.strides});
  }
  return views;
}

}  // namespace

Buffer::Buffer(const Type& type) : type_(type) {
  numel_ = type.is_token ? 0 : int64_t{ir::numel(type.sizes)};
  const int64_t bytes = size_in_bytes(type);
  bytes_.resize(static_cast<size_t>(bytes / 8 + (bytes % 8 != 0)));
}

Number Buffer::at(int64_t i) const {
  return load_element(reinterpret_cast<const char*>(data()) + i * size_of(dtype()), dtype());
}

void Buffer::set(int64_t i, const Number& value) {
  store_element(reinterpret_cast<char*>(data()) + i * size_of(dtype()), dtype(), value);
}

Number load_element(const void* pointer, DType dtype) {
  switch (dtype) {
    case DType::F64:
      return load_as<double>(pointer);
    case DType::F32:
      return load_as<float>(pointer);
    case DType::BF16:
      return bf16_to_float(load_as<uint16_t>(pointer));
    case DType::F16:
      return f16_to_float(load_as<uint16_t>(pointer));
    case DType::I64:
      return load_as<int64_t>(pointer);
    case DType::I32:
      return load_as<int32_t>(pointer);
    case DType::I16:
      return load_as<int16_t>(pointer);
    case DType::I8:
      return load_as<int8_t>(pointer);
    case DType::U8:
      return load_as<uint8_t>(pointer);
    case DType::Bool:
      return load_as<uint8_t>(pointer) != 0;
  }
  return 0;
}

void store_element(void* pointer, DType dtype, const Number& value) {
  const Number stored = rounded_to(dtype, value);
  switch (dtype) {
    case DType::F64:
      return store_as(pointer, stored.to_double());
    case DType::F32:
      return store_as(pointer, static_cast<float>(stored.to_double()));
    case DType::BF16:
      return store_as(pointer, float_to_bf16(static_cast<float>(stored.to_double())));
    case DType::F16:
      return store_as(pointer, float_to_f16(static_cast<float>(stored.to_double())));
    case DType::I64:
      return store_as(pointer, stored.to_int());
    case DType::I32:
      return store_as(pointer, static_cast<int32_t>(stored.to_int()));
    case DType::I16:
      return store_as(pointer, static_cast<int16_t>(stored.to_int()));
    case DType::I8:
      return store_as(pointer, static_cast<int8_t>(stored.to_int()));
    case DType::U8:
    case DType::Bool:
      return store_as(pointer, static_cast<uint8_t>(stored.to_int()));
  }
}

Buffer copy_of(const BufferView& view) {
  Buffer copy(Type{view.dtype, view.sizes});
  const int rank = view.sizes.rank();
  const size_t bytes = size_of(view.dtype);
  Shape index = Shape::filled(rank, 0);
  for (int64_t i = 0; i < copy.numel(); ++i) {
    int64_t at = 0;
    for (int d = 0; d < rank; ++d) at += index[d] * view.strides[d];
    std::memcpy(static_cast<char*>(copy.data()) + i * bytes,
                static_cast<const char*>(view.data) + at * static_cast<int64_t>(bytes), bytes);
    for (int d = rank - 1; d >= 0 && (index[d] += 1) == view.sizes[d]; --d) index[d] = 0;
  }
  return copy;
}

std::vector<BufferView> input_views(const Graph& graph, std::span<void* const> addresses) {
  return views_of(graph, graph.inputs(), addresses);
}

std::vector<BufferView> output_views(const Graph& graph, std::span<void* const> addresses) {
  return views_of(graph, graph.outputs(), addresses);
}

std::vector<void*> addresses_of(std::span<const BufferView> views) {
  std::vector<void*> addresses;
  for (const BufferView& view : views) addresses.push_back(view.data);
  return addresses;
}

}  // namespace tandem::ir
