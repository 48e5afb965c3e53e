// Every pointwise primitive on every dtype that it takes: emitted code against the kernel
// interpreter, on ordinary and special values.
#include "kernel_writer.h"

namespace tandem::jit {
namespace {

using LK = Loop::Kind;

struct Case {
  Op op;
  int arity;
  double f32_ulp = 0, f64_ulp = 0;  // against libm rounded to the dtype
};

const std::vector<DType> kFloats = {DType::F32, DType::F64, DType::BF16, DType::F16};
const std::vector<DType> kInts = {DType::I64, DType::I32, DType::I16, DType::I8, DType::U8};

/// y = op(operands) over n elements, operand a and result of the dtypes given.
Kernel kernel_of(Op op, const std::vector<DType>& from, DType to, int64_t n) {
  Writer w;
  std::vector<ParamId> params;
  codegen::InstrArgs args;
  for (DType t : from) params.push_back(w.param(t));
  const auto y = w.result(to);
  const auto v = w.loop(LK::Vector, n);
  w.begin(v);
  for (ParamId p : params) args.push_back(w.load(p, {0, {{v, 1}}}));
  w.store(y, {0, {{v, 1}}}, w.compute(op, args, to));
  w.end(v);
  return w.k;
}

void check_op(Op op, const std::vector<DType>& from, DType to, double ulp = 0, int64_t n = 199) {
  SCOPED_TRACE(std::string(ir::name(op)));
  std::vector<Argument> arguments;
  for (DType t : from)
    arguments.push_back(random_argument(t, n, static_cast<uint32_t>(arguments.size()) + 11));
  if (codegen::divides(op) && !ir::is_floating(to))
    for (int64_t i = 0; i < n; ++i)
      if (arguments[1].get(i).to_int() == 0) arguments[1].set(i, -1);
  arguments.emplace_back(to, n);
  check(kernel_of(op, from, to, n), arguments, ulp);
}

double allowed(double ulp, DType t) {
  return t == DType::BF16 || t == DType::F16 ? (ulp == 0 ? 0 : 1) : ulp;
}

TEST(EmitOps, FloatsExact) {
  for (DType t : kFloats) {
    for (Op op : {Op::add, Op::sub, Op::mul, Op::div, Op::maximum, Op::minimum, Op::fmod,
                  Op::remainder, Op::floor_divide})
      check_op(op, {t, t}, t);
    for (Op op : {Op::neg, Op::abs, Op::sign, Op::floor, Op::ceil, Op::round, Op::trunc, Op::sqrt,
                  Op::reciprocal, Op::clone, Op::stop_gradient})
      check_op(op, {t}, t);
    for (Op op : {Op::eq, Op::ne, Op::lt, Op::le, Op::gt, Op::ge})
      check_op(op, {t, t}, DType::Bool);
    check_op(Op::where, {DType::Bool, t, t}, t);
  }
}

TEST(EmitOps, Fma) {
  for (DType t : {DType::F32, DType::BF16, DType::F16}) check_op(Op::fma, {t, t, t}, t);
  for (const Target& target : targets()) {
    if (!target.has("fma")) continue;  // f64 without the instruction is not always exact
    const Kernel k = kernel_of(Op::fma, {DType::F64, DType::F64, DType::F64}, DType::F64, 67);
    std::vector<Argument> arguments;
    for (uint32_t seed : {1u, 2u, 3u}) arguments.push_back(random_argument(DType::F64, 67, seed));
    arguments.emplace_back(DType::F64, 67);
    const Outcome e = interpreted(k, arguments), a = compiled(k, arguments, target);
    for (int64_t i = 0; i < 67; ++i)
      EXPECT_EQ(distance(a.arguments[3].get(i), e.arguments[3].get(i), DType::F64), 0);
  }
}

TEST(EmitOps, Math) {
  const Case cases[] = {
      {Op::exp, 1, 2, 3},   {Op::exp2, 1, 2, 3},  {Op::expm1, 1, 2, 3},   {Op::log, 1, 2, 3},
      {Op::log2, 1, 3, 3},  {Op::log10, 1, 3, 3}, {Op::log1p, 1, 2, 3},   {Op::sin, 1, 3, 4},
      {Op::cos, 1, 3, 4},   {Op::tan, 1, 2, 5},   {Op::asin, 1, 2, 4},    {Op::acos, 1, 2, 4},
      {Op::atan, 1, 2, 4},  {Op::sinh, 1, 2, 4},  {Op::cosh, 1, 2, 4},    {Op::tanh, 1, 3, 4},
      {Op::asinh, 1, 2, 5}, {Op::acosh, 1, 2, 5}, {Op::atanh, 1, 2, 5},   {Op::erf, 1, 3, 3},
      {Op::erfc, 1, 2, 5},  {Op::rsqrt, 1, 3, 3}, {Op::sigmoid, 1, 3, 6}, {Op::pow, 2, 2, 4},
      {Op::atan2, 2, 2, 4},
  };
  for (const Case& c : cases)
    for (DType t : kFloats) {
      // sse differs from the others in the last place, and tan and pow compare with libm's own
      // error
      const double ulp = t == DType::F64 ? c.f64_ulp : c.f32_ulp;
      check_op(c.op, std::vector<DType>(static_cast<size_t>(c.arity), t), t, allowed(ulp, t));
    }
}

TEST(EmitOps, Integers) {
  for (DType t : kInts) {
    for (Op op : {Op::add, Op::sub, Op::mul, Op::floor_divide, Op::remainder, Op::fmod, Op::pow,
                  Op::maximum, Op::minimum, Op::bitwise_and, Op::bitwise_or, Op::bitwise_xor,
                  Op::shift_left, Op::shift_right, Op::gcd})
      check_op(op, {t, t}, t);
    for (Op op : {Op::neg, Op::abs, Op::sign, Op::bitwise_not, Op::clone}) check_op(op, {t}, t);
    for (Op op : {Op::eq, Op::ne, Op::lt, Op::le, Op::gt, Op::ge})
      check_op(op, {t, t}, DType::Bool);
    check_op(Op::where, {DType::Bool, t, t}, t);
  }
}

TEST(EmitOps, Bools) {
  const DType b = DType::Bool;
  for (Op op : {Op::add, Op::mul, Op::maximum, Op::minimum, Op::logical_and, Op::logical_or,
                Op::logical_xor, Op::bitwise_and, Op::bitwise_or, Op::bitwise_xor, Op::eq, Op::ne,
                Op::lt, Op::le, Op::gt, Op::ge})
    check_op(op, {b, b}, b);
  for (Op op : {Op::logical_not, Op::bitwise_not, Op::abs, Op::sign, Op::clone})
    check_op(op, {b}, b);
  check_op(Op::where, {b, b, b}, b);
}

/// Bytes fill vectors, the last of which ends anywhere.
TEST(EmitOps, BytesOfAnyLength) {
  for (const int64_t n : {7, 16, 31, 32, 33, 47, 63, 64, 65, 97, 127, 128, 129})
    for (const DType t : {DType::U8, DType::I8, DType::Bool}) {
      SCOPED_TRACE(n);
      check_op(Op::gt, {t, t}, DType::Bool, 0, n);
      check_op(Op::mul, {t, t}, t, 0, n);
      check_op(Op::where, {DType::Bool, t, t}, t, 0, n);
    }
}

TEST(EmitOps, Convert) {
  for (int from = 0; from < ir::kDTypeCount; ++from)
    for (int to = 0; to < ir::kDTypeCount; ++to)
      check_op(Op::convert, {static_cast<DType>(from)}, static_cast<DType>(to));
}

/// Where the integers end: floats on both sides of it, and of what is rounded to it.
TEST(EmitOps, ConvertsToTheNearestInteger) {
  for (DType from : kFloats)
    for (DType to : kInts) {
      const int bits = static_cast<int>(8 * ir::size_of(to));
      const double beyond = std::ldexp(1.0, to == DType::U8 ? bits : bits - 1);
      std::vector<double> values = {0.0, -0.0, 0.75, -0.75, -1, INFINITY, NAN, 1e30};
      for (double near : {beyond, beyond - 0.5, beyond - 1, beyond + 1, std::nextafter(beyond, 0.0),
                          std::nextafter(float(beyond), 0.0F) * 1.0, std::nextafter(beyond, 1e300)})
        values.push_back(near);
      const auto n = static_cast<int64_t>(values.size());
      Argument x(from, 2 * n);
      for (int64_t i = 0; i < n; ++i) {
        x.set(2 * i, values[static_cast<size_t>(i)]);
        x.set(2 * i + 1, -values[static_cast<size_t>(i)]);
      }
      check(kernel_of(Op::convert, {from}, to, 2 * n), {x, Argument(to, 2 * n)});
    }
}

/// All 65536 patterns of a 16-bit float survive, and every f32 rounds as the interpreter says.
TEST(EmitOps, HalfPatterns) {
  for (DType half : {DType::BF16, DType::F16}) {
    Argument all(half, 65536);
    for (int64_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      std::memcpy(all.at(i), &bits, 2);
    }
    check(kernel_of(Op::convert, {half}, DType::F32, 65536), {all, Argument(DType::F32, 65536)});
    Argument singles(DType::F32, 65536);
    std::mt19937 rng(5);
    for (int64_t i = 0; i < 65536; ++i) {
      uint32_t bits = rng();
      if (i % 2 == 0)  // near a tie of f16, or of bf16
        bits = (bits & (i % 4 == 0 ? 0xffffe000u : 0xffff0000u)) +
               (i % 4 == 0 ? 0x1000u : 0x8000u) + static_cast<uint32_t>(i / 4 % 3) - 1;
      if (half == DType::F16) bits = (bits & 0x8fffffffu) | 0x30000000u;
      std::memcpy(singles.at(i), &bits, 4);
    }
    check(kernel_of(Op::convert, {DType::F32}, half, 65536), {singles, Argument(half, 65536)});
  }
}

/// The whole range of exponents, subnormal numbers among them.
TEST(EmitOps, FmodOfAnyMagnitudes) {
  for (DType t : {DType::F32, DType::F64}) {
    const int64_t n = 2000;
    std::vector<Argument> arguments;
    std::mt19937_64 rng(9);
    for (int a = 0; a < 2; ++a) {
      arguments.emplace_back(t, n);
      for (int64_t i = 0; i < n; ++i) {
        const uint64_t bits = rng();
        std::memcpy(arguments.back().at(i), &bits, ir::size_of(t));
      }
    }
    arguments.emplace_back(t, n);
    for (Op op : {Op::fmod, Op::remainder, Op::floor_divide})
      check(kernel_of(op, {t, t}, t, n), arguments);
  }
}

}  // namespace
}  // namespace tandem::jit
