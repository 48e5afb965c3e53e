// One public call: a Builder over EagerSink, with the user's source location.
#ifndef TANDEM_RUNTIME_OPS_CALL_H
#define TANDEM_RUNTIME_OPS_CALL_H

#include <tandem/scalar.h>
#include <tandem/tensor.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "ir/base/function_ref.h"
#include "ir/build/builder.h"
#include "runtime/ops/autocast.h"
#include "runtime/ops/dispatch.h"
#include "runtime/ops/eager_sink.h"

namespace tandem::runtime {

using V = ir::ValueId;

/// A dimension as Builder takes it; what is out of range stays out of range.
inline int as_int(int64_t dim) { return static_cast<int>(std::clamp<int64_t>(dim, -1000, 1000)); }

class Call {
 public:
  /// `function` as the user calls it; errors name it.
  explicit Call(const SourceLocation& at, std::string_view function = __builtin_FUNCTION(),
                bool in_place = false)
      : scope_(at), errors_(at, function, in_place), casts_(function), b(sink_) {}

  /// `name`: of the argument, for errors.
  V in(const Tensor& t, const char* name = "self") {
    if (!t.defined())
      ir::fail(Errc::Argument,
               std::string("undefined tensor as ") + name + "; expected a tensor, got none");
    return sink_.add(cast(t));
  }
  /// As autocast has it (<tandem/autocast.h>), for who looks at operands before they are in.
  Tensor cast(const Tensor& t) const { return casts_.active() ? casts_(t) : t; }
  /// Operands that autocast gives one dtype, before the first is in.
  void note_together(std::initializer_list<const Tensor*> operands) {
    casts_.note_together(operands);
  }
  /// A number becomes a 0-d value of the dtype that promotion beside `like` gives it.
  V in(const Located& operand, V like, const char* name = "self") {
    return operand.tensor != nullptr ? in(*operand.tensor, name) : b.number(operand.number, like);
  }
  /// A number that the user gave, everywhere, in `dtype`; Error if it does not hold the number.
  V given(const Number& value, DType dtype, const Shape& sizes = {}) {
    return b.full(sizes, dtype, ir::checked_constant(dtype, value));
  }
  /// One that is written as a tensor of it would be: as in ATen, halves round it to infinity.
  V written(const Number& value, DType dtype) {
    return ir::is_half(dtype) ? b.full({}, dtype, value) : given(value, dtype);
  }
  std::optional<V> maybe(const Tensor& t) {
    return t.defined() ? std::optional(sink_.add(cast(t))) : std::nullopt;
  }
  /// As EagerSink::expect.
  void expect(Dim elements) { sink_.expect(elements); }
  const Tensor& out(V v) { return sink_.tensor(v); }
  /// Several, where operations that they share are to run once.
  template <class... Vs>
  std::array<Tensor, sizeof...(Vs)> outs(Vs... values) {
    const V list[] = {values...};
    sink_.compute(list);
    return {sink_.tensor(values)...};
  }

 private:
  LocationScope scope_;
  ir::ErrorScope errors_;
  OperandCasts casts_;
  EagerSink sink_{EagerSink::Mode::MayWait};

 public:
  ir::Builder b;
};

/// A fresh tensor in the layout of `like`, as ATen's preserve_format has it. make(order) gives its
/// elements, contiguous in memory of their own, with the dimensions of `like` in this order.
Tensor in_layout_of(const Tensor& like, const SourceLocation& at,
                    ir::FunctionRef<Tensor(const ir::Axes& order)> make);
/// `t` itself if it lies as a fresh tensor in the layout of `like`, else a copy that does.
Tensor laid_out_like(const Tensor& t, const Tensor& like, const SourceLocation& at);

/// What the tape itself computes with.
Tensor clone_tensor(const Tensor& t);
Tensor add_tensors(const Tensor& a, const Tensor& b);
void add_into(const Tensor& self, const Tensor& other);
Tensor full_tensor(const Shape& sizes, DType dtype, const Number& value);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_OPS_CALL_H
