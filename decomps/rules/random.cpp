// Random values from Philox words, bit for bit as ir/random.h defines them.
#include "ir/random.h"

#include <cmath>

#include "decomps/rules/rules.h"

namespace tandem::decomps::rules {
namespace {

V words(Builder& b, V rng, const Shape& sizes, DType dtype, Dim offset) {
  return b.emit(Op::random_bits, {rng}, {sizes, dtype, offset});
}

/// Bits [low, low + count) of integers.
V bits(Builder& b, V integers, int64_t low, int64_t count) {
  return b.bitwise_and(b.shift_right(integers, low), (int64_t{1} << count) - 1);
}

/// The top `digits` bits of words times 2^-digits, in [0, 1).
V uniform(Builder& b, V words, int digits, DType dtype) {
  const int64_t width = b.dtype(words) == DType::I64 ? 64 : 32;
  return b.mul(b.convert(bits(b, words, width - digits, digits), dtype), std::ldexp(1.0, -digits));
}

/// standard_normal's arithmetic as equations.
struct Equations {
  Builder& b;
  Shape sizes;
  DType dtype;

  V constant(double x) { return b.full(sizes, dtype, x); }
  V mul(V x, V y) { return b.mul(x, y); }
  V div(V x, V y) { return b.div(x, y); }
  V add(V x, V y) { return b.add(x, y); }
  V sub(V x, V y) { return b.sub(x, y); }
  V fma(V x, V y, V z) { return b.fma(x, y, z); }
  V sqrt(V x) { return b.sqrt(x); }
  V neg(V x) { return b.neg(x); }
  V less(V x, V y) { return b.lt(x, y); }
  V select(V condition, V x, V y) { return b.where(condition, x, y); }
};

DType computed_in(DType dtype) { return dtype == DType::F64 ? DType::F64 : DType::F32; }

V words_of_result(Context& c) {
  return words(c.b, c[0], c.result().sizes, ir::random_word_dtype(c.result().dtype),
               c.attr<Dim>(Attr::offset));
}

}  // namespace

V rand(Context& c) {
  const DType dtype = c.result().dtype;
  const V u = uniform(c.b, words_of_result(c), ir::uniform_digits(dtype), computed_in(dtype));
  return c.b.convert(u, dtype);
}

V randn(Context& c) {
  Builder& b = c.b;
  const DType dtype = computed_in(c.result().dtype);
  const ir::NormalFormula formula = ir::normal_formula(dtype);
  const V w = words_of_result(c);
  // Below the sign bit the word's next `digits - 1` bits.
  const int64_t width = b.dtype(w) == DType::I64 ? 64 : 32;
  const V j = bits(b, w, width - formula.digits, formula.digits - 1);
  Equations equations{b, c.result().sizes, dtype};
  const V normal =
      ir::standard_normal(equations, formula, b.lt(w, 0), b.convert(b.add(b.mul(j, 2), 1), dtype));
  return b.convert(normal, c.result().dtype);
}

// x (u >= p ? 1 / (1 - p) : 0), u uniform in f32: u is a multiple of 2^-digits, and the multiples
// compare like u and p
V dropout(Context& c) {
  Builder& b = c.b;
  const double p = c.attr<double>(Attr::p);
  const int digits = ir::uniform_digits(DType::F32);
  const V w = words(b, c[1], c.result().sizes, DType::I32, c.attr<Dim>(Attr::offset));
  const auto threshold = static_cast<int64_t>(std::ceil(std::ldexp(p, digits)));
  const V keep = b.ge(bits(b, w, 32 - digits, digits), threshold);
  const DType dtype = c.result().dtype;
  const V noise = b.where(keep, b.full(c.result().sizes, dtype, 1 / (1 - p)),
                          b.full(c.result().sizes, dtype, 0.0));
  return b.mul(c[0], noise);
}

}  // namespace tandem::decomps::rules
