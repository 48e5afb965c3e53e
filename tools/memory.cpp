#include "tools/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ir/base/error.h"
#include "ir/geometry.h"
#include "ir/shape/shape_rules.h"
#include "ir/strides.h"
#include "machine/memory/allocator.h"

namespace tandem::tools {
namespace {

using ir::BufferView;
using ir::Dim;
using ir::Errc;

/// Calls f(element of a, element of b) in row-major order of their common sizes.
template <class F>
void for_each_pair(const BufferView& a, const BufferView& b, F f) {
  const auto bytes = static_cast<int64_t>(ir::size_of(a.dtype));
  const int rank = a.sizes.rank();
  const int64_t count = ir::numel(a.sizes);
  ir::Shape index = ir::Shape::filled(rank, 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at_a = 0, at_b = 0;
    for (int d = 0; d < rank; ++d) {
      at_a += int64_t{index[d]} * int64_t{a.strides[d]};
      at_b += int64_t{index[d]} * int64_t{b.strides[d]};
    }
    f(static_cast<char*>(a.data) + at_a * bytes, static_cast<char*>(b.data) + at_b * bytes);
    for (int d = rank - 1; d >= 0 && (index[d] += 1) == a.sizes[d]; --d) index[d] = 0;
  }
}

void require_same_type(const BufferView& a, const BufferView& b) {
  TANDEM_CHECK(a.dtype == b.dtype && a.sizes == b.sizes, "element by element");
}

BufferView const_view(const ir::Buffer& buffer) {
  return {const_cast<void*>(buffer.data()), buffer.dtype(), buffer.sizes(),
          ir::contiguous_strides(buffer.sizes())};
}

void require_type(const std::string& name, const ir::Type& got, const ir::Type& expected) {
  if (got == expected) return;
  fail(
      got.dtype == expected.dtype ? Errc::Shape : Errc::DType,
      fmt::format("run: input {}: expected {}, got {}", name, to_string(expected), to_string(got)));
}

ir::Buffer rng_state(uint64_t seed) {
  ir::Buffer state(ir::Type{ir::DType::I64, {2}});
  state.as<int64_t>()[0] = static_cast<int64_t>(seed);
  return state;
}

}  // namespace

StridedBuffer::StridedBuffer(const ir::Type& type, const ir::Strides& strides) {
  const ir::Type memory{type.dtype, {ir::extent(type.sizes, strides)}};
  const auto bytes = static_cast<size_t>(int64_t{ir::size_in_bytes(memory)});
  memory_ = {machine::allocate_zeroed(bytes),
             [bytes](void* data) { machine::release(data, bytes); }};
  view_ = {memory_.get(), type.dtype, type.sizes, strides};
}

void copy_elements(const BufferView& from, const BufferView& to) {
  require_same_type(from, to);
  const size_t bytes = ir::size_of(from.dtype);
  for_each_pair(from, to, [&](const void* a, void* b) { std::memcpy(b, a, bytes); });
}

void add_elements(const BufferView& from, const BufferView& to) {
  require_same_type(from, to);
  for_each_pair(from, to, [&](const void* a, void* b) {
    const double sum =
        ir::load_element(a, from.dtype).to_double() + ir::load_element(b, to.dtype).to_double();
    ir::store_element(b, to.dtype, sum);
  });
}

BufferView part_of(const BufferView& view, Dim offset, const ir::Shape& sizes,
                   const ir::Strides& strides) {
  const auto bytes = static_cast<int64_t>(ir::size_of(view.dtype));
  return {static_cast<char*>(view.data) + int64_t{offset} * bytes, view.dtype, sizes, strides};
}

BufferView view_of(BufferView view, std::span<const ir::ViewStep> chain) {
  for (const ir::ViewStep& step : chain) {
    const ir::Type type{view.dtype, view.sizes};
    const ir::Type shown = ir::infer_type(step.op, {&type, 1}, step.attrs);
    const ir::ViewGeometry geometry =
        ir::view_geometry(step.op, view.sizes, view.strides, step.attrs, shown.sizes);
    view = part_of(view, geometry.offset, shown.sizes, geometry.strides);
    view.dtype = shown.dtype;
  }
  return view;
}

// --- inputs

InputMemory::InputMemory(const ir::Graph& graph, const Tensors& tensors, uint64_t seed)
    : graph_(graph), roots_(graph.inputs().size()), views_(graph.inputs().size()) {
  const int count = static_cast<int>(roots_.size());
  for (int i = 0; i < count; ++i)
    if (root(i) == i) add_root(i, tensors, seed);
  for (int i = 0; i < count; ++i)
    if (root(i) != i) add_alias(i);
}

int InputMemory::root(int i) const {
  while (const auto& alias = graph_.inputs()[static_cast<size_t>(i)].alias_of) i = alias->input;
  return i;
}

Dim InputMemory::offset_in_root(int i) const {
  Dim offset = 0;
  while (const auto& alias = graph_.inputs()[static_cast<size_t>(i)].alias_of) {
    offset += alias->offset;
    i = alias->input;
  }
  return offset;
}

void InputMemory::add_root(int i, const Tensors& tensors, uint64_t seed) {
  const ir::Input& input = graph_.inputs()[static_cast<size_t>(i)];
  const ir::Type& type = graph_.type(input.value);
  const auto found = tensors.find(input.name);
  const bool needs_seed = input.role == ir::Role::Rng && found == tensors.end();
  if (found == tensors.end() && !needs_seed)
    fail(Errc::Argument,
         fmt::format("run: no tensor for input {}; expected {}", input.name, to_string(type)));
  const ir::Buffer state = needs_seed ? rng_state(seed) : ir::Buffer();
  const ir::Buffer& values = needs_seed ? state : found->second;
  require_type(input.name, values.type(), type);
  roots_[static_cast<size_t>(i)] = StridedBuffer(type, input.strides);
  views_[static_cast<size_t>(i)] = roots_[static_cast<size_t>(i)].view();
  copy_elements(const_view(values), view(i));
}

void InputMemory::add_alias(int i) {
  const ir::Input& input = graph_.inputs()[static_cast<size_t>(i)];
  const ir::Type& type = graph_.type(input.value);
  const BufferView& whole = view(root(i));
  const Dim offset = offset_in_root(i), reach = offset + ir::extent(type.sizes, input.strides),
            available = ir::extent(whole.sizes, whole.strides);
  const std::string& name = graph_.inputs()[static_cast<size_t>(root(i))].name;
  if (type.dtype != whole.dtype)
    fail(Errc::DType, fmt::format("run: input {}: expected the dtype of {}, which is {}, got {}",
                                  input.name, name, ir::name(whole.dtype), ir::name(type.dtype)));
  if (offset < 0 || reach > available)
    fail(Errc::Argument,
         fmt::format("run: input {}: expected elements within the {} of {}, got [{}, {})",
                     input.name, int64_t{available}, name, int64_t{offset}, int64_t{reach}));
  views_[static_cast<size_t>(i)] = part_of(whole, offset, type.sizes, input.strides);
}

}  // namespace tandem::tools
