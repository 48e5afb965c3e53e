// The table of evaluation rules by op, and what they share.
#include "ir/interpreter/evaluate.h"

#include "ir/base/error.h"
#include "ir/buffer.h"
#include "ir/half.h"

namespace tandem::ir::evaluate {
namespace {

using Rule = Tensors (*)(const Context&);
constexpr Rule kRules[] = {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  [](const Context& c) { return listed<Tensors>(name(c)); },
#include "ir/ops.def"
};

template <class Stored>
void wrap(std::vector<int64_t>& values) {
  for (int64_t& v : values) v = static_cast<Stored>(v);
}

template <class F>
void round_with(std::vector<double>& values, F rounded) {
  for (double& v : values) v = rounded(static_cast<float>(v));
}

}  // namespace

Tensors evaluate(const Context& c) { return kRules[static_cast<size_t>(c.op)](c); }

Tensor zeros(const Type& type) {
  Tensor t{type, std::make_shared<Storage>(), nullptr};
  const auto count = static_cast<size_t>(t.numel());
  if (is_floating(type.dtype))
    t.storage->floats.resize(count);
  else
    t.storage->ints.resize(count);
  return t;
}

namespace {

/// The bytes of element `i` of a storage of `dtype`.
uint64_t bits_at(const Storage& storage, DType dtype, int64_t i) {
  uint64_t bits = 0;
  const auto at = static_cast<size_t>(i);
  store_element(&bits, dtype,
                is_held_as_double(dtype) ? Number(storage.floats[at]) : Number(storage.ints[at]));
  return bits;
}

/// Calls f(number of a stored element, shift in it, shift in the shown one) for each byte of the
/// element of `t`, which reinterprets its storage, at `position`.
template <class F>
void for_each_byte(const Tensor& t, int64_t position, F f) {
  const int64_t size = size_of(*t.stored);
  for (int64_t k = 0, n = size_of(t.dtype()); k < n; ++k)
    f((position + k) / size, 8 * ((position + k) % size), 8 * k);
}

Number read_bytes(const Tensor& t, int64_t position) {
  uint64_t bits = 0;
  for_each_byte(t, position, [&](int64_t element, int64_t from, int64_t to) {
    bits |= (bits_at(*t.storage, *t.stored, element) >> from & 0xff) << to;
  });
  return load_element(&bits, t.dtype());
}

void write_bytes(const Tensor& t, int64_t position, const Number& value) {
  uint64_t bits = 0;
  store_element(&bits, t.dtype(), value);
  for_each_byte(t, position, [&](int64_t element, int64_t to, int64_t from) {
    uint64_t stored = bits_at(*t.storage, *t.stored, element);
    stored = (stored & ~(uint64_t{0xff} << to)) | (bits >> from & 0xff) << to;
    const Number written = load_element(&stored, *t.stored);
    const auto at = static_cast<size_t>(element);
    if (is_floating(*t.stored))
      t.storage->floats[at] = written.to_double();
    else
      t.storage->ints[at] = written.to_int();
  });
}

}  // namespace

Tensor copied(const Tensor& t) {
  Tensor copy = zeros(t.type);
  if (t.stored) {
    by_category(t.dtype(), [&]<class T>(T) {
      for (int64_t i = 0, n = t.numel(); i < n; ++i)
        elements<T>(copy)[i] = number_as<T>(read_bytes(t, t.position(i)));
    });
    return copy;
  }
  by_category(t.dtype(), [&]<class T>(T) {
    const T* from = elements<T>(t);
    T* to = elements<T>(copy);
    for (int64_t i = 0, n = t.numel(); i < n; ++i) to[i] = from[t.position(i)];
  });
  return copy;
}

Tensor gathered(const Tensor& t) { return t.positions ? copied(t) : t; }

void write(const Tensor& target, const Tensor& values) {
  by_category(target.dtype(), [&]<class T>(T) {
    const T* from = elements<T>(values);
    T* to = elements<T>(target);
    for (int64_t i = 0, n = target.numel(); i < n; ++i) {
      if (target.stored)
        write_bytes(target, target.position(i), from[i]);
      else
        to[target.position(i)] = from[i];
    }
  });
}

Positions strided_positions(const Shape& sizes, const Strides& strides, int64_t offset) {
  Positions positions(static_cast<size_t>(int64_t{numel(sizes)}));
  for_each_index(sizes, [&](const Shape& index, int64_t i) {
    positions[i] = offset + position_of(index, strides);
  });
  return positions;
}

void round_elements(const Tensor& t, bool in_f64) {
  switch (t.dtype()) {
    case DType::F64:
    case DType::I64:
      return;
    case DType::F32:
      return in_f64 ? void() : round_with(t.storage->floats, [](float v) { return v; });
    case DType::BF16:
      return in_f64 ? void() : round_with(t.storage->floats, [](float v) {
        return bf16_to_float(float_to_bf16(v));
      });
    case DType::F16:
      return in_f64 ? void() : round_with(t.storage->floats, [](float v) {
        return f16_to_float(float_to_f16(v));
      });
    case DType::I32:
      return wrap<int32_t>(t.storage->ints);
    case DType::I16:
      return wrap<int16_t>(t.storage->ints);
    case DType::I8:
      return wrap<int8_t>(t.storage->ints);
    case DType::U8:
      return wrap<uint8_t>(t.storage->ints);
    case DType::Bool:
      return wrap<bool>(t.storage->ints);
  }
}

}  // namespace tandem::ir::evaluate
