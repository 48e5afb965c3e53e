// One public call: a Builder over EagerSink, with the user's source location.
#ifndef TANDEM_RUNTIME_CALL_H
#define TANDEM_RUNTIME_CALL_H

#include <tandem/scalar.h>
#include <tandem/tensor.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "ir/builder.h"
#include "runtime/dispatch.h"

namespace tandem::runtime {

using V = ir::ValueId;

/// A dimension as Builder takes it; what is out of range stays out of range.
inline int as_int(int64_t dim) { return static_cast<int>(std::clamp<int64_t>(dim, -1000, 1000)); }

class Call {
 public:
  explicit Call(const SourceLocation& at) : scope_(at), b(sink_) {}

  V in(const Tensor& t) { return sink_.add(t); }
  /// A number becomes a 0-d value of the dtype that promotion beside `like` gives it.
  V in(const Located& operand, V like) {
    return operand.tensor != nullptr ? in(*operand.tensor) : b.number(operand.number, like);
  }
  std::optional<V> maybe(const Tensor& t) {
    return t.defined() ? std::optional(in(t)) : std::nullopt;
  }
  const Tensor& out(V v) const { return sink_.tensor(v); }

 private:
  LocationScope scope_;
  EagerSink sink_;

 public:
  ir::Builder b;
};

/// What the tape itself computes with.
Tensor clone_tensor(const Tensor& t);
Tensor add_tensors(const Tensor& a, const Tensor& b);
void add_into(const Tensor& self, const Tensor& other);
Tensor full_tensor(const Shape& sizes, DType dtype, const Number& value);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_CALL_H
