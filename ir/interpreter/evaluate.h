// Internal to the interpreter: its tensors, and one evaluation rule per op. A rule is the op's
// definition as plain loops. Floating elements are held as double and all others as int64_t;
// whoever calls a rule rounds its result to the dtype afterwards.
#ifndef TANDEM_IR_INTERPRETER_EVALUATE_H
#define TANDEM_IR_INTERPRETER_EVALUATE_H

#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace tandem::ir::evaluate {

/// Elements of one memory; which vector is used follows from the dtype.
struct Storage {
  std::vector<double> floats;
  std::vector<int64_t> ints;
};

/// Where elements are, in row-major order of the tensor they make up.
using Positions = std::vector<int64_t>;

struct Tensor {
  Type type;
  std::shared_ptr<Storage> storage;
  std::shared_ptr<const Positions> positions;  // in `storage`; none: element i is at i
  // The storage holds elements of this dtype, of which this tensor shows the bytes as another:
  // positions (which there are) count bytes.
  std::optional<DType> stored = std::nullopt;

  DType dtype() const { return type.dtype; }
  const Shape& sizes() const { return type.sizes; }
  int64_t numel() const { return ir::numel(type.sizes); }
  int64_t position(int64_t i) const { return positions ? (*positions)[i] : i; }
};

/// All of the tensor's storage: T is double for floating dtypes, int64_t for the others. Element i
/// is at position(i), which is i unless the tensor is a view.
template <class T>
T* elements(const Tensor& t) {
  if constexpr (std::same_as<T, double>)
    return t.storage->floats.data();
  else
    return t.storage->ints.data();
}

/// f(double()) or f(int64_t()), by what elements of the dtype are held as.
template <class F>
decltype(auto) by_category(DType dtype, F f) {
  return is_held_as_double(dtype) ? f(double()) : f(int64_t());
}

/// `value` in category T.
template <class T>
T number_as(const Number& value) {
  if constexpr (std::same_as<T, double>)
    return value.to_double();
  else
    return value.to_int();
}

Tensor zeros(const Type& type);
/// The elements in order, in a storage of their own; `t` itself unless it is a view.
Tensor gathered(const Tensor& t);
/// A new storage with t's elements in order.
Tensor copied(const Tensor& t);
/// Writes `values` (not a view) into the elements of `target`, wherever they are.
void write(const Tensor& target, const Tensor& values);

/// Positions of a tensor of `sizes` whose element at index is at offset + sum of index * stride.
Positions strided_positions(const Shape& sizes, const Strides& strides, int64_t offset);
/// Calls f(index, i) for every index of `sizes`, i counting them in row-major order.
template <class F>
void for_each_index(const Shape& sizes, F f) {
  const int64_t count = numel(sizes);
  Shape index = Shape::filled(sizes.rank(), 0);
  for (int64_t i = 0; i < count; ++i) {
    f(std::as_const(index), i);
    for (int d = sizes.rank() - 1; d >= 0 && (index[d] += 1) == sizes[d]; --d) index[d] = 0;
  }
}
/// The row-major position of `index` in a tensor with these contiguous strides.
inline int64_t position_of(const Shape& index, const Strides& strides) {
  int64_t position = 0;
  for (int d = 0; d < index.rank(); ++d) position += index[d] * strides[d];
  return position;
}

/// Rounds every element of `t` (not a view) to its dtype: integers wrap; floats are left alone if
/// `in_f64`.
void round_elements(const Tensor& t, bool in_f64);

/// What a rule sees. Operands are not views, but for those of View and Control ops.
struct Context {
  Op op;
  std::span<const Tensor> operands;
  std::span<const AttrValue> attrs;
  std::span<const Type> results;
  bool in_f64 = false;

  const Tensor& operand(int i) const { return operands[i]; }
  const Type& result(int i = 0) const { return results[i]; }
  template <class T>
  const T& attr(Attr name) const {
    return std::get<T>(attrs[attr_index(op, name)]);
  }
};

// The rule of each op. One that is never defined does not link.
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  ResultsOf<Tensor, count_results(operands)> name(const Context& c);
#include "ir/ops.def"

using Tensors = std::vector<Tensor>;

/// Runs the rule of c.op. Results of View and Control ops alias operand 0.
Tensors evaluate(const Context& c);

}  // namespace tandem::ir::evaluate

#endif  // TANDEM_IR_INTERPRETER_EVALUATE_H
