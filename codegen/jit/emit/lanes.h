// Small value types over llvm::IRBuilder that let the inline math be written as formulas. A Real,
// Int or Mask is one IR value: a scalar or a vector of any length. Only operations with one exact
// result on every CPU are offered, so bits do not depend on the vector width or the instruction set
// (a CPU without FMA aside).
#ifndef TANDEM_CODEGEN_JIT_EMIT_LANES_H
#define TANDEM_CODEGEN_JIT_EMIT_LANES_H

#include <cstdint>
#include <span>

namespace llvm {
class IRBuilderBase;
class Type;
class Value;
}  // namespace llvm

namespace tandem::jit {

/// Where instructions go and what the CPU has.
struct Lanes {
  llvm::IRBuilderBase& ir;
  bool fma = true;
  bool avx512 = false;  // AVX-512 F and VL
};

/// The arithmetic of a Real. Wide is f64 arithmetic on data that came from f32 and goes back to it,
/// so that approximations may stop near 2^-30.
enum class Kind : uint8_t { F32, Wide, F64 };

struct Mask {
  Lanes* at;
  llvm::Value* value;
};

struct Int {
  Lanes* at;
  llvm::Value* value;
};

struct Real {
  Lanes* at;
  llvm::Value* value;
  Kind kind;

  bool single() const { return kind == Kind::F32; }
  /// A splat of `number`, rounded to this arithmetic.
  Real constant(double number) const;
  /// One of two numbers by element type.
  double pick(double f32, double f64) const { return single() ? f32 : f64; }
  int mantissa_bits() const { return single() ? 23 : 52; }
  int exponent_bias() const { return single() ? 127 : 1023; }
};

Real operator+(Real a, Real b);
Real operator-(Real a, Real b);
Real operator*(Real a, Real b);
Real operator/(Real a, Real b);
inline Real operator+(Real a, double b) { return a + a.constant(b); }
inline Real operator-(Real a, double b) { return a - a.constant(b); }
inline Real operator*(Real a, double b) { return a * a.constant(b); }
inline Real operator/(Real a, double b) { return a / a.constant(b); }
inline Real operator+(double a, Real b) { return b.constant(a) + b; }
inline Real operator-(double a, Real b) { return b.constant(a) - b; }
inline Real operator*(double a, Real b) { return b.constant(a) * b; }
inline Real operator/(double a, Real b) { return b.constant(a) / b; }
Real operator-(Real a);

/// a * b + c rounded once; without FMA hardware emulated to (nearly always) the same result.
Real fma(Real a, Real b, Real c);
inline Real fma(Real a, double b, Real c) { return fma(a, a.constant(b), c); }
inline Real fma(Real a, Real b, double c) { return fma(a, b, a.constant(c)); }
inline Real fma(Real a, double b, double c) { return fma(a, a.constant(b), a.constant(c)); }
/// a * b + c where a second rounding does no harm: two operations without FMA hardware.
Real mad(Real a, Real b, Real c);
inline Real mad(Real a, double b, Real c) { return mad(a, a.constant(b), c); }
inline Real mad(Real a, double b, double c) { return mad(a, a.constant(b), a.constant(c)); }
Real sqrt(Real a);
Real abs(Real a);
/// `a`, but LLVM does not look through it.
Real opaque(Real a);
Real copysign(Real magnitude, Real sign);

/// Ordered comparisons: false when an operand is NaN.
Mask operator<(Real a, Real b);
Mask operator<=(Real a, Real b);
Mask operator==(Real a, Real b);
inline Mask operator>(Real a, Real b) { return b < a; }
inline Mask operator>=(Real a, Real b) { return b <= a; }
inline Mask operator<(Real a, double b) { return a < a.constant(b); }
inline Mask operator<=(Real a, double b) { return a <= a.constant(b); }
inline Mask operator>(Real a, double b) { return a > a.constant(b); }
inline Mask operator>=(Real a, double b) { return a >= a.constant(b); }
inline Mask operator==(Real a, double b) { return a == a.constant(b); }
Mask operator&(Mask a, Mask b);
Mask operator|(Mask a, Mask b);
Mask operator!(Mask a);
Mask is_nan(Real a);
Mask sign_bit(Real a);

Real select(Mask condition, Real a, Real b);
inline Real select(Mask condition, Real a, double b) { return select(condition, a, a.constant(b)); }
inline Real select(Mask condition, double a, Real b) { return select(condition, b.constant(a), b); }
/// Bounds that let NaN pass.
inline Real at_most(Real a, double bound) { return select(a > bound, bound, a); }
inline Real at_least(Real a, double bound) { return select(a < bound, bound, a); }

Int bits(Real a);
/// The bit pattern as a Real of `like`'s kind.
Real from_bits(Int a, Real like);
Int operator+(Int a, Int b);
Int operator-(Int a, Int b);
Int operator+(Int a, int64_t b);
Int operator-(Int a, int64_t b);
Int operator-(int64_t a, Int b);
Int operator*(Int a, int64_t b);
Int operator&(Int a, int64_t b);
Int operator|(Int a, int64_t b);
Int operator^(Int a, Int b);
Int shl(Int a, int count);
Int lshr(Int a, int count);
Mask operator==(Int a, int64_t b);

/// f32 to Wide and back.
Real widen(Real a);
Real narrow(Real a);

/// 1.5 * 2^23 or 1.5 * 2^52. x + magic rounds |x| < 2^21 (2^50) to an integer n, whose low bits are
/// in the bits of the sum.
double magic(Real like);

/// Whether `scale` is one instruction, which takes no time over lanes that a select masks away.
bool scales_at_once(Real a);
/// a * 2^n, rounded once, where `n` is integral and sum == n + magic(a) + 2 * bias. Needs -2 * bias
/// < n <= 2 * bias.
Real scale(Real a, Real n, Real sum);

/// Coefficients of one polynomial for each kind, lowest degree first.
struct Coefficients {
  std::span<const double> f32, wide, f64;
};
/// c0 + c1 x + c2 x^2 + ... by Horner's rule.
Real horner(Real x, const Coefficients& coefficients);

/// table[index] for every lane. The table becomes a constant of the module.
Real lookup(Int index, std::span<const double> table, const char* name, Real like);

/// `usual` where !rare, else slow(x). The slow form is an out-of-line function of the module,
/// called only if a lane is rare. Splits the block: the builder must stand at the end of a block
/// without terminator, and stands in another one after.
Real where_rare(Mask rare, Real x, Real usual, const char* name, Real (*slow)(Real));

}  // namespace tandem::jit

#endif  // TANDEM_CODEGEN_JIT_EMIT_LANES_H
