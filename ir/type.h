// The type of a value (element type and sizes, or an effect token), and numbers.
#ifndef TANDEM_IR_TYPE_H
#define TANDEM_IR_TYPE_H

#include <tandem/ir/export.h>
#include <tandem/ir/inline_vector.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dim.h"
#include "dtype.h"

namespace tandem::ir {

/// A dense index into one of a graph's tables; `Tag` keeps the kinds apart.
template <class Tag>
struct Id {
  static constexpr uint32_t kNone = ~uint32_t{0};
  uint32_t index = kNone;
  bool valid() const { return index != kNone; }
  friend auto operator<=>(Id, Id) = default;
};
using ValueId = Id<struct ValueTag>;
using ValueList = InlineVector<ValueId, 4>;
using EquationId = Id<struct EquationTag>;
using SubgraphId = Id<struct SubgraphTag>;
using LocationId = Id<struct LocationTag>;

/// What a value is: a tensor of `dtype` and `sizes`, or a token that orders effects (then dtype and
/// sizes are unused).
struct Type {
  DType dtype = DType::F32;
  Shape sizes;
  bool is_token = false;

  static Type token() { return {DType::Bool, {}, true}; }
  int rank() const { return sizes.rank(); }
  friend bool operator==(const Type&, const Type&) = default;
};

/// Of an equation's results.
using Types = InlineVector<Type, 2>;

/// "f32[2, 3]", "i64[]", "token".
TANDEM_API std::string to_string(const Type& type);
/// Whether a value of this type has a gradient and a tangent: a token has none.
inline bool is_differentiable(const Type& type) {
  return !type.is_token && is_differentiable(type.dtype);
}
/// Bytes of a contiguous tensor of this type (0 for a token). Checked.
TANDEM_API Dim size_in_bytes(const Type& type);

/// A number as the user wrote it: bool, integer or floating. Equality is exact; NaN equals NaN; 0.0
/// differs from -0.0.
class TANDEM_API Number {
 public:
  enum class Kind : uint8_t { Bool, Int, Float };

  Number() : Number(int64_t{0}) {}
  Number(bool v) : kind_(Kind::Bool), int_(v) {}  // NOLINT
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  Number(I v) : kind_(Kind::Int), int_(static_cast<int64_t>(v)) {}  // NOLINT
  template <std::floating_point F>
  Number(F v) : kind_(Kind::Float), float_(static_cast<double>(v)) {}  // NOLINT
  Number(Dim d) : Number(int64_t{d}) {}                                // NOLINT

  Kind kind() const { return kind_; }
  bool is_float() const { return kind_ == Kind::Float; }
  double to_double() const { return is_float() ? float_ : static_cast<double>(int_); }
  int64_t to_int() const { return is_float() ? static_cast<int64_t>(float_) : int_; }
  bool to_bool() const { return is_float() ? float_ != 0 : int_ != 0; }
  /// The dtype a number has in promotion when nothing else decides: bool, i64, f32 (the default
  /// floating dtype).
  DType default_dtype() const;

  friend TANDEM_API bool operator==(const Number& a, const Number& b);

 private:
  Kind kind_;
  int64_t int_ = 0;
  double float_ = 0;
};

/// `value` as it is stored in `dtype`: rounded, wrapped or truncated as `convert` does, then
/// widened again.
TANDEM_API Number rounded_to(DType dtype, const Number& value);
/// The one spelling of a constant of this dtype: of floating dtypes a floating number, which
/// whoever evaluates it rounds; of others rounded_to.
TANDEM_API Number constant_of(DType dtype, const Number& value);

/// Whether ATen converts `value` to `dtype`: it lies between the least and the greatest number
/// there, or is an infinity or NaN that the dtype has. Negative integers wrap into unsigned dtypes.
TANDEM_API bool holds(DType dtype, const Number& value);
/// constant_of a number that a caller gave; Error if the dtype does not hold it.
TANDEM_API Number checked_constant(DType dtype, const Number& value);

}  // namespace tandem::ir

#endif  // TANDEM_IR_TYPE_H
