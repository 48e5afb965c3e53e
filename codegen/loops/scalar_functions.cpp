#include "codegen/loops/scalar_functions.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/base/error.h"
#include "ir/buffer.h"
#include "ir/half.h"

namespace tandem::codegen {
namespace {

using ir::DType;
using ir::Op;

using FloatFunction = double (*)(double a, double b, DType dtype);
using IntFunction = int64_t (*)(int64_t a, int64_t b, DType dtype);
using Compare = bool (*)(double a, double b);
using IntCompare = bool (*)(int64_t a, int64_t b);

double round_to(double v, DType dtype) {
  switch (dtype) {
    case DType::F32:
      return static_cast<float>(v);
    case DType::BF16:
      return ir::bf16_to_float(ir::float_to_bf16(static_cast<float>(v)));
    case DType::F16:
      return ir::f16_to_float(ir::float_to_f16(static_cast<float>(v)));
    default:
      return v;
  }
}

int64_t wrap(int64_t v, DType dtype) {
  switch (dtype) {
    case DType::I32:
      return static_cast<int32_t>(v);
    case DType::I16:
      return static_cast<int16_t>(v);
    case DType::I8:
      return static_cast<int8_t>(v);
    case DType::U8:
      return static_cast<uint8_t>(v);
    case DType::Bool:
      return v != 0;
    default:
      return v;
  }
}

int64_t bits_of(DType dtype) { return static_cast<int64_t>(ir::size_of(dtype)) * 8; }

int64_t saturated(double v, DType dtype) {
  if (dtype == DType::Bool) return v != 0;  // NaN is true
  if (std::isnan(v)) return 0;
  if (dtype == DType::U8) return v <= 0 ? 0 : v >= 255 ? 255 : static_cast<int64_t>(v);
  const double limit = std::ldexp(1.0, static_cast<int>(bits_of(dtype)) - 1);
  const auto max = static_cast<int64_t>((uint64_t{1} << (bits_of(dtype) - 1)) - 1);
  return v >= limit ? max : v < -limit ? -max - 1 : static_cast<int64_t>(v);
}

// --- floats
double maximum(double a, double b, DType) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}
double minimum(double a, double b, DType) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
}
double remainder(double a, double b, DType dtype) {
  const double r = std::fmod(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? round_to(r + b, dtype) : r;
}
// ATen's div_floor: exact where the rounded quotient is not.
double floor_divide(double a, double b, DType t) {
  if (b == 0) return a / b;
  const double mod = std::fmod(a, b);
  double div = round_to(round_to(a - mod, t) / b, t);
  if (mod != 0 && ((b < 0) != (mod < 0))) div = round_to(div - 1, t);
  if (div == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(div);
  return round_to(div - floored, t) > 0.5 ? floored + 1 : floored;
}
double sigmoid(double a, double, DType) {
  return a >= 0 ? 1 / (1 + std::exp(-a)) : std::exp(a) / (1 + std::exp(a));
}
double sign(double a, double, DType) { return (0 < a) - (a < 0); }

// --- integers (unsigned arithmetic wraps)
int64_t power(int64_t a, int64_t b, DType) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 != 0 ? -1 : 1) : 0;
  uint64_t result = 1, base = static_cast<uint64_t>(a);
  for (; b > 0; b /= 2, base *= base)
    if (b % 2 == 1) result *= base;
  return static_cast<int64_t>(result);
}
// b is not 0; -1 apart because the smallest integer divided by it overflows.
int64_t quotient(int64_t a, int64_t b) {
  return b == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(a)) : a / b;
}
int64_t rest(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
int64_t floor_divide(int64_t a, int64_t b, DType) {
  return quotient(a, b) - (rest(a, b) != 0 && ((rest(a, b) < 0) != (b < 0)));
}
int64_t remainder(int64_t a, int64_t b, DType) {
  const int64_t r = rest(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
uint64_t magnitude(int64_t a) {
  return a < 0 ? -static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
}
int64_t gcd(int64_t a, int64_t b, DType) {
  return static_cast<int64_t>(std::gcd(magnitude(a), magnitude(b)));
}
int64_t shift_left(int64_t a, int64_t b, DType dtype) {
  return b < 0 || b >= bits_of(dtype) ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
}
int64_t shift_right(int64_t a, int64_t b, DType dtype) {
  if (b < 0 || b >= bits_of(dtype)) return a < 0 ? -1 : 0;
  return a >> b;
}

struct Row {
  FloatFunction on_float = nullptr;
  IntFunction on_int = nullptr;
  Compare compare_float = nullptr;
  IntCompare compare_int = nullptr;
};

#define FLOAT(expression) +[](double a, double b, DType) -> double { return (void)b, expression; }
#define INT(expression)                               \
  +[](int64_t sa, int64_t sb, DType) -> int64_t {     \
    const auto a = static_cast<uint64_t>(sa);         \
    const auto b = static_cast<uint64_t>(sb);         \
    return (void)b, static_cast<int64_t>(expression); \
  }
#define COMPARE(op)                                                      \
  {nullptr, nullptr, +[](double a, double b) -> bool { return a op b; }, \
   +[](int64_t a, int64_t b) -> bool { return a op b; }}

std::array<Row, ir::kOpCount> make_table() {
  std::array<Row, ir::kOpCount> t{};
  const auto set = [&](Op op, FloatFunction f, IntFunction i = nullptr) {
    t[static_cast<size_t>(op)] = {f, i, nullptr, nullptr};
  };
  const auto compare = [&](Op op, Row row) { t[static_cast<size_t>(op)] = row; };
  set(Op::add, FLOAT(a + b), INT(a + b));
  set(Op::sub, FLOAT(a - b), INT(a - b));
  set(Op::mul, FLOAT(a * b), INT(a * b));
  set(Op::div, FLOAT(a / b));
  set(Op::floor_divide, floor_divide, floor_divide);
  set(Op::remainder, remainder, remainder);
  set(Op::fmod, FLOAT(std::fmod(a, b)), +[](int64_t a, int64_t b, DType) { return rest(a, b); });
  set(Op::gcd, nullptr, gcd);
  set(Op::pow, FLOAT(std::pow(a, b)), power);
  set(Op::atan2, FLOAT(std::atan2(a, b)));
  set(Op::maximum, maximum, +[](int64_t a, int64_t b, DType) { return std::max(a, b); });
  set(Op::minimum, minimum, +[](int64_t a, int64_t b, DType) { return std::min(a, b); });
  set(Op::neg, FLOAT(-a), INT(-a));
  set(Op::abs, FLOAT(std::fabs(a)), INT(sa < 0 ? -a : a));
  set(Op::sign, sign, +[](int64_t a, int64_t, DType) -> int64_t { return (0 < a) - (a < 0); });
  set(Op::floor, FLOAT(std::floor(a)));
  set(Op::ceil, FLOAT(std::ceil(a)));
  set(Op::round, FLOAT(std::nearbyint(a)));
  set(Op::trunc, FLOAT(std::trunc(a)));
  set(Op::exp, FLOAT(std::exp(a)));
  set(Op::exp2, FLOAT(std::exp2(a)));
  set(Op::expm1, FLOAT(std::expm1(a)));
  set(Op::log, FLOAT(std::log(a)));
  set(Op::log2, FLOAT(std::log2(a)));
  set(Op::log10, FLOAT(std::log10(a)));
  set(Op::log1p, FLOAT(std::log1p(a)));
  set(Op::sqrt, FLOAT(std::sqrt(a)));
  set(Op::rsqrt, FLOAT(1 / std::sqrt(a)));
  set(Op::reciprocal, FLOAT(1 / a));
  set(Op::sin, FLOAT(std::sin(a)));
  set(Op::cos, FLOAT(std::cos(a)));
  set(Op::tan, FLOAT(std::tan(a)));
  set(Op::asin, FLOAT(std::asin(a)));
  set(Op::acos, FLOAT(std::acos(a)));
  set(Op::atan, FLOAT(std::atan(a)));
  set(Op::sinh, FLOAT(std::sinh(a)));
  set(Op::cosh, FLOAT(std::cosh(a)));
  set(Op::tanh, FLOAT(std::tanh(a)));
  set(Op::asinh, FLOAT(std::asinh(a)));
  set(Op::acosh, FLOAT(std::acosh(a)));
  set(Op::atanh, FLOAT(std::atanh(a)));
  set(Op::erf, FLOAT(std::erf(a)));
  set(Op::erfc, FLOAT(std::erfc(a)));
  set(Op::sigmoid, sigmoid);
  compare(Op::eq, COMPARE(==));
  compare(Op::ne, COMPARE(!=));
  compare(Op::lt, COMPARE(<));
  compare(Op::le, COMPARE(<=));
  compare(Op::gt, COMPARE(>));
  compare(Op::ge, COMPARE(>=));
  set(Op::logical_and, nullptr, INT(a != 0 && b != 0));
  set(Op::logical_or, nullptr, INT(a != 0 || b != 0));
  set(Op::logical_xor, nullptr, INT((a != 0) != (b != 0)));
  set(Op::logical_not, nullptr, INT(a == 0));
  set(Op::bitwise_and, nullptr, INT(a & b));
  set(Op::bitwise_or, nullptr, INT(a | b));
  set(Op::bitwise_xor, nullptr, INT(a ^ b));
  // bool: ~0 and ~1 wrap to 1; so negate it as logic
  set(
      Op::bitwise_not, nullptr,
      +[](int64_t a, int64_t, DType t) -> int64_t { return t == DType::Bool ? a == 0 : ~a; });
  set(Op::shift_left, nullptr, shift_left);
  set(Op::shift_right, nullptr, shift_right);
  return t;
}

#undef FLOAT
#undef INT
#undef COMPARE

const Row& row_of(Op op) {
  static const std::array<Row, ir::kOpCount> table = make_table();
  return table[static_cast<size_t>(op)];
}

double fma_rounded(double a, double b, double c, DType dtype) {
  if (dtype == DType::F64) return std::fma(a, b, c);
  return round_to(std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)),
                  dtype);
}

}  // namespace

Cell rounded(Cell value, DType dtype) {
  if (ir::is_floating(dtype)) return {round_to(value.f, dtype), 0};
  return {0, wrap(value.i, dtype)};
}

Cell convert(Cell value, DType from, DType to) {
  if (ir::is_floating(from) && ir::is_floating(to)) return {round_to(value.f, to), 0};
  if (ir::is_floating(from)) return {0, saturated(value.f, to)};
  if (ir::is_integral(to)) return {0, wrap(value.i, to)};
  // i64 to f32 rounds once, not by way of f64
  if (to == DType::F32) return {static_cast<float>(value.i), 0};
  if (to == DType::F64) return {static_cast<double>(value.i), 0};
  return {round_to(static_cast<float>(value.i), to), 0};
}

Cell bitcast(Cell value, DType from, DType to) {
  uint64_t bits = 0;
  ir::store_element(&bits, from,
                    ir::is_held_as_double(from) ? ir::Number(value.f) : ir::Number(value.i));
  const ir::Number seen = ir::load_element(&bits, to);
  return ir::is_held_as_double(to) ? Cell{seen.to_double(), 0} : Cell{0, seen.to_int()};
}

bool divides(Op op) { return ir::info(op).effect == ir::Effect::MayFail; }

Cell compute(Op op, std::span<const Cell> args, std::span<const DType> from, DType to) {
  switch (op) {
    case Op::where:
      return args[0].i != 0 ? args[1] : args[2];
    case Op::convert:
      return convert(args[0], from[0], to);
    case Op::bitcast:
      return bitcast(args[0], from[0], to);
    case Op::clone:
    case Op::stop_gradient:
      return args[0];
    case Op::fma:
      return {fma_rounded(args[0].f, args[1].f, args[2].f, to), 0};
    default:
      break;
  }
  const Row& row = row_of(op);
  const Cell b = args.size() > 1 ? args[1] : Cell{};
  if (row.compare_float != nullptr)
    return {0, ir::is_held_as_double(from[0]) ? row.compare_float(args[0].f, b.f)
                                              : row.compare_int(args[0].i, b.i)};
  if (ir::is_held_as_double(to)) {
    TANDEM_CHECK(row.on_float != nullptr, "no float function for " + std::string(ir::name(op)));
    return {round_to(row.on_float(args[0].f, b.f, to), to), 0};
  }
  TANDEM_CHECK(row.on_int != nullptr, "no integer function for " + std::string(ir::name(op)));
  return {0, wrap(row.on_int(args[0].i, b.i, to), to)};
}

}  // namespace tandem::codegen
