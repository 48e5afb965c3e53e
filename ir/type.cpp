#include "ir/type.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "ir/half.h"
#include "ir/text/spelling.h"

namespace tandem::ir {

std::string to_string(const Type& type) {
  return type.is_token ? "token" : fmt::format("{}{}", name(type.dtype), to_string(type.sizes));
}

Dim size_in_bytes(const Type& type) {
  if (type.is_token) return 0;
  return checked_mul(numel(type.sizes), static_cast<int64_t>(size_of(type.dtype)), "size in bytes");
}

DType Number::default_dtype() const {
  return kind_ == Kind::Bool ? DType::Bool : kind_ == Kind::Int ? DType::I64 : DType::F32;
}

bool operator==(const Number& a, const Number& b) {
  if (a.kind_ != b.kind_) return false;
  if (!a.is_float()) return a.int_ == b.int_;
  if (std::isnan(a.float_)) return std::isnan(b.float_);
  return std::bit_cast<uint64_t>(a.float_) == std::bit_cast<uint64_t>(b.float_);
}

namespace {

/// Float to integer as `convert` does it: truncate, saturate, NaN is 0.
int64_t saturate(double v, int64_t lo, int64_t hi) {
  if (std::isnan(v)) return 0;
  const double t = std::trunc(v);
  if (t <= static_cast<double>(lo)) return lo;
  if (t >= static_cast<double>(hi)) return hi;
  return static_cast<int64_t>(t);
}

template <class I>
Number to_integer(const Number& v) {
  if (v.is_float())
    return saturate(v.to_double(), std::numeric_limits<I>::min(),
                    static_cast<int64_t>(std::numeric_limits<I>::max()));
  return static_cast<int64_t>(static_cast<I>(v.to_int()));
}

template <class I>
bool holds_integer(const Number& v) {
  using Limits = std::numeric_limits<I>;
  constexpr int64_t kMost = Limits::max(), kLeast = Limits::is_signed ? Limits::min() : -kMost;
  if (!v.is_float()) return v.to_int() >= kLeast && v.to_int() <= kMost;
  const double x = v.to_double();
  return x >= static_cast<double>(Limits::min()) && x <= static_cast<double>(kMost) &&
         x < 0x1p63;  // what the greatest i64 is rounded to
}

bool holds_up_to(double most, const Number& v) {
  const double x = v.to_double();
  return !(std::abs(x) > most) || std::isinf(x);
}

}  // namespace

Number rounded_to(DType dtype, const Number& v) {
  switch (dtype) {
    case DType::F64:
      return v.to_double();
    case DType::F32:
      return v.is_float() ? static_cast<float>(v.to_double()) : static_cast<float>(v.to_int());
    case DType::BF16:
      return bf16_to_float(float_to_bf16(static_cast<float>(v.to_double())));
    case DType::F16:
      return f16_to_float(float_to_f16(static_cast<float>(v.to_double())));
    case DType::I64:
      return to_integer<int64_t>(v);
    case DType::I32:
      return to_integer<int32_t>(v);
    case DType::I16:
      return to_integer<int16_t>(v);
    case DType::I8:
      return to_integer<int8_t>(v);
    case DType::U8:
      return to_integer<uint8_t>(v);
    case DType::Bool:
      return v.to_bool();
  }
  return v;
}

Number constant_of(DType dtype, const Number& value) {
  return is_held_as_double(dtype) ? Number(value.to_double()) : rounded_to(dtype, value);
}

bool holds(DType dtype, const Number& v) {
  switch (dtype) {
    case DType::F64:
    case DType::Bool:
      return true;
    case DType::F32:
      return holds_up_to(std::numeric_limits<float>::max(), v);
    case DType::BF16:
      return holds_up_to(0x1.fep127, v);
    case DType::F16:
      return holds_up_to(65504, v);
    case DType::I64:
      return holds_integer<int64_t>(v);
    case DType::I32:
      return holds_integer<int32_t>(v);
    case DType::I16:
      return holds_integer<int16_t>(v);
    case DType::I8:
      return holds_integer<int8_t>(v);
    case DType::U8:
      return holds_integer<uint8_t>(v);
  }
  return false;
}

Number checked_constant(DType dtype, const Number& value) {
  if (!holds(dtype, value))
    fail(Errc::Argument,
         fmt::format("{}: a number overflows the dtype; expected one that {} holds, got {}",
                     ErrorScope::function(), name(dtype), spell(value)));
  return constant_of(dtype, value);
}

}  // namespace tandem::ir
