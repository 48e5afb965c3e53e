// The ops that need a loop or several cases: remainders, floor division, integer powers, and fma
// where the CPU has none.
#include <limits>

#include "codegen/jit/emit/emit_one.h"
#include "codegen/jit/emit/lanes.h"
#include "codegen/jit/math/math.h"

namespace tandem::jit {

using ir::DType;
using ir::Op;
using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

namespace {

Value* number(const Value* like, double v) {
  return llvm::ConstantFP::get(const_cast<Value*>(like)->getType(), v);
}
Value* integer(const Value* like, int64_t v) {
  return llvm::ConstantInt::getSigned(const_cast<Value*>(like)->getType(), v);
}
bool floats(const Compute& k) { return ir::is_floating(k.from); }
Compute with(const Compute& k, Value* a, Value* b) { return {k.ir, k.target, k.from, k.to, a, b}; }

/// while any lane of `again`(x): x = step(x). Splits the block.
template <class Again, class Step>
Value* repeat(llvm::IRBuilder<>& ir, Value* x, Again again, Step step) {
  llvm::Function* f = ir.GetInsertBlock()->getParent();
  auto* head = llvm::BasicBlock::Create(ir.getContext(), "repeat", f);
  auto* body = llvm::BasicBlock::Create(ir.getContext(), "step", f);
  auto* end = llvm::BasicBlock::Create(ir.getContext(), "done", f);
  llvm::BasicBlock* before = ir.GetInsertBlock();
  ir.CreateBr(head);
  ir.SetInsertPoint(head);
  llvm::PHINode* phi = ir.CreatePHI(x->getType(), 2);
  phi->addIncoming(x, before);
  Value* more = again(phi);
  ir.CreateCondBr(more->getType()->isVectorTy() ? ir.CreateOrReduce(more) : more, body, end);
  ir.SetInsertPoint(body);
  phi->addIncoming(step(phi), ir.GetInsertBlock());
  ir.CreateBr(head);
  ir.SetInsertPoint(end);
  return phi;
}

/// Formulas on non-negative doubles.
struct Doubles {
  llvm::IRBuilder<>& ir;
  llvm::Type* ints;

  Value* bits(Value* x) { return ir.CreateBitCast(x, ints); }
  Value* biased(Value* x) { return ir.CreateLShr(bits(x), 52); }

  /// The biased exponent; at most 0 for subnormal numbers.
  Value* exponent(Value* x) {
    Value* scaled = ir.CreateFMul(x, number(x, 0x1p54));
    Value* low = ir.CreateSub(biased(scaled), llvm::ConstantInt::get(ints, 54));
    return ir.CreateSelect(ir.CreateFCmpOLT(x, number(x, 0x1p-1022)), low, biased(x));
  }

  /// x * 2^n for 0 <= n < 2100, where no product overflows.
  Value* scaled(Value* x, Value* n) {
    for (int i = 0; i < 3; ++i) {
      Value* here = ir.CreateBinaryIntrinsic(Intrinsic::smin, n, integer(n, 700));
      Value* power = ir.CreateShl(ir.CreateAdd(here, integer(n, 1023)), 52);
      x = ir.CreateFMul(x, ir.CreateBitCast(power, x->getType()));
      n = ir.CreateSub(n, here);
    }
    return x;
  }
};

/// One step of long division: r minus a multiple of b, exact. `digits` bits of the quotient at a
/// time, so that quotient * b is exact (or fma makes it so).
Value* reduced(Doubles d, Value* r, Value* b, int digits, bool fma) {
  auto& ir = d.ir;
  Value* gap = ir.CreateSub(d.exponent(r), d.exponent(b));
  Value* shift = ir.CreateSub(gap, integer(gap, digits));
  shift = ir.CreateBinaryIntrinsic(Intrinsic::smax, shift, integer(gap, 0));
  Value* divisor = d.scaled(b, shift);
  Value* quotient = ir.CreateUnaryIntrinsic(Intrinsic::trunc, ir.CreateFDiv(r, divisor));
  Value* left =
      fma ? ir.CreateIntrinsic(r->getType(), Intrinsic::fma, {ir.CreateFNeg(quotient), divisor, r})
          : ir.CreateFSub(r, ir.CreateFMul(quotient, divisor));
  // the quotient may have been rounded up
  Value* below = ir.CreateFCmpOLT(left, number(r, 0));
  return ir.CreateSelect(below, ir.CreateFAdd(left, divisor), left);
}

/// The same, one bit at a time: for f64 without fma.
Value* reduced_by_bit(Doubles d, Value* r, Value* b) {
  auto& ir = d.ir;
  Value* gap = ir.CreateSub(d.exponent(r), d.exponent(b));
  gap = ir.CreateBinaryIntrinsic(Intrinsic::smax, gap, integer(gap, 0));
  Value* divisor = d.scaled(b, gap);
  Value* half = ir.CreateFMul(divisor, number(r, 0.5));
  divisor = ir.CreateSelect(ir.CreateFCmpOGT(divisor, r), half, divisor);
  return ir.CreateSelect(ir.CreateFCmpOGE(r, b), ir.CreateFSub(r, divisor), r);
}

Value* fmod_of_doubles(const Compute& k, Value* a, Value* b) {
  auto& ir = k.ir;
  const Doubles d{ir, with_element(a->getType(), ir.getInt64Ty())};
  Value* divisor = ir.CreateUnaryIntrinsic(Intrinsic::fabs, b);
  Value* magnitude = ir.CreateUnaryIntrinsic(Intrinsic::fabs, a);
  Value* finite = ir.CreateFCmpOLT(magnitude, number(a, std::numeric_limits<double>::infinity()));
  Value* valid = ir.CreateAnd(finite, ir.CreateFCmpOGT(divisor, number(a, 0)));
  const bool fma = k.target.has("fma");
  const auto unfinished = [&](Value* left) {
    return ir.CreateAnd(valid, ir.CreateFCmpOGE(left, divisor));
  };
  Value* r =
      repeat(ir, ir.CreateSelect(valid, magnitude, number(a, 0)), unfinished, [&](Value* left) {
        Value* next = k.from != DType::F64 ? reduced(d, left, divisor, 27, false)
                      : fma                ? reduced(d, left, divisor, 50, true)
                                           : reduced_by_bit(d, left, divisor);
        return ir.CreateSelect(unfinished(left), next, left);
      });
  Value* nan = number(a, std::numeric_limits<double>::quiet_NaN());
  return ir.CreateSelect(valid, ir.CreateBinaryIntrinsic(Intrinsic::copysign, r, a), nan);
}

/// r where its sign differs from the divisor's and it is not 0: the remainders that floor division
/// moves.
Value* wrong_sign(const Compute& k, Value* r) {
  const auto negative = [&](Value* v) {
    return floats(k) ? k.ir.CreateFCmpOLT(v, number(v, 0)) : k.ir.CreateICmpSLT(v, integer(v, 0));
  };
  Value* rest = floats(k) ? k.ir.CreateFCmpUNE(r, number(r, 0)) : k.ir.CreateIsNotNull(r);
  return k.ir.CreateAnd(rest, k.ir.CreateXor(negative(r), negative(k.b)));
}

bool is_signed(const Compute& k) { return k.from != DType::U8; }

/// a / b towards 0. Processors divide no vectors of integers; quotients of short ones are as exact
/// in floating point: what lies just below an integer is further from it than they are rounded.
Value* divided(const Compute& k, Value* b) {
  auto& ir = k.ir;
  const unsigned bits = b->getType()->getScalarSizeInBits();
  if (bits > 32 || llvm::isa<llvm::Constant>(b))
    return is_signed(k) ? ir.CreateSDiv(k.a, b) : ir.CreateUDiv(k.a, b);
  llvm::Type* floating = with_element(b->getType(), bits > 16 ? ir.getDoubleTy() : ir.getFloatTy());
  const auto as_floating = [&](Value* v) {
    return is_signed(k) ? ir.CreateSIToFP(v, floating) : ir.CreateUIToFP(v, floating);
  };
  Value* quotient = ir.CreateFDiv(as_floating(k.a), as_floating(b));
  llvm::Type* wide = with_element(b->getType(), ir.getInt32Ty());
  return ir.CreateTrunc(ir.CreateFPToSI(quotient, wide), b->getType());
}

/// b, but 1 in place of -1, by which the instruction traps if it divides the smallest integer.
Value* safe_divisor(const Compute& k) {
  if (!is_signed(k)) return k.b;
  return k.ir.CreateSelect(k.ir.CreateICmpEQ(k.b, integer(k.b, -1)), integer(k.b, 1), k.b);
}

/// The quotient towards 0. That of the smallest integer by -1 wraps.
Value* quotient(const Compute& k) {
  Value* q = divided(k, safe_divisor(k));
  if (!is_signed(k)) return q;
  return k.ir.CreateSelect(k.ir.CreateICmpEQ(k.b, integer(k.b, -1)), k.ir.CreateNeg(k.a), q);
}

Value* rest(const Compute& k) {
  Value* divisor = safe_divisor(k);
  return k.ir.CreateSub(k.a, k.ir.CreateMul(divided(k, divisor), divisor));
}

Value* rounded(const Compute& k, Value* x) {
  const bool half = k.to == DType::BF16 || k.to == DType::F16;
  return half ? rounded_to_half(k, x) : x;
}

// ATen's div_floor: exact where the rounded quotient is not.
Value* floor_divide_floats(const Compute& k) {
  auto& ir = k.ir;
  Value* mod = emit_fmod(k);
  Value* div = rounded(k, ir.CreateFDiv(rounded(k, ir.CreateFSub(k.a, mod)), k.b));
  Value* lower = rounded(k, ir.CreateFSub(div, number(div, 1)));
  div = ir.CreateSelect(wrong_sign(k, mod), lower, div);
  Value* floored = ir.CreateUnaryIntrinsic(Intrinsic::floor, div);
  Value* gap = rounded(k, ir.CreateFSub(div, floored));
  Value* near = ir.CreateFCmpOGT(gap, number(div, 0.5));
  Value* result = ir.CreateSelect(near, ir.CreateFAdd(floored, number(div, 1)), floored);
  Value* plain = ir.CreateFDiv(k.a, k.b);
  Value* signed_zero = ir.CreateBinaryIntrinsic(Intrinsic::copysign, number(div, 0), plain);
  result = ir.CreateSelect(ir.CreateFCmpOEQ(div, number(div, 0)), signed_zero, result);
  return ir.CreateSelect(ir.CreateFCmpOEQ(k.b, number(k.b, 0)), plain, result);
}

Value* integer_power(const Compute& k) {
  auto& ir = k.ir;
  Value* zero = integer(k.a, 0);
  // result, base and exponent travel together as one value
  llvm::Type* type = k.a->getType();
  auto* state_type = llvm::StructType::get(type, type, type);
  const auto pack = [&](Value* result, Value* base, Value* exponent) {
    Value* state = llvm::PoisonValue::get(state_type);
    state = ir.CreateInsertValue(state, result, 0);
    state = ir.CreateInsertValue(state, base, 1);
    return ir.CreateInsertValue(state, exponent, 2);
  };
  Value* negative = is_signed(k)
                        ? ir.CreateICmpSLT(k.b, zero)
                        : llvm::ConstantInt::getFalse(zero->getType()->isVectorTy()
                                                          ? with_element(type, ir.getInt1Ty())
                                                          : ir.getInt1Ty());
  Value* exponent = ir.CreateSelect(negative, zero, k.b);
  Value* end = repeat(
      ir, pack(integer(k.a, 1), k.a, exponent),
      [&](Value* s) { return ir.CreateIsNotNull(ir.CreateExtractValue(s, 2)); },
      [&](Value* s) {
        Value *result = ir.CreateExtractValue(s, 0), *base = ir.CreateExtractValue(s, 1);
        Value* left = ir.CreateExtractValue(s, 2);
        Value* odd = ir.CreateIsNotNull(ir.CreateAnd(left, integer(left, 1)));
        result = ir.CreateSelect(odd, ir.CreateMul(result, base), result);
        return pack(result, ir.CreateMul(base, base), ir.CreateLShr(left, 1));
      });
  // 1 / a^n rounds to 0 except for 1 and -1
  Value* odd = ir.CreateIsNotNull(ir.CreateAnd(k.b, integer(k.b, 1)));
  Value* inverse = ir.CreateSelect(odd, k.a, integer(k.a, 1));
  Value* unit = ir.CreateICmpULE(ir.CreateAdd(k.a, integer(k.a, 1)), integer(k.a, 2));
  unit = ir.CreateAnd(unit, ir.CreateIsNotNull(k.a));
  inverse = ir.CreateSelect(unit, inverse, zero);
  return ir.CreateSelect(negative, inverse, ir.CreateExtractValue(end, 0));
}

/// Euclid's algorithm on the magnitudes.
Value* greatest_divisor(const Compute& k) {
  auto& ir = k.ir;
  const auto magnitude = [&](Value* x) -> Value* {
    return is_signed(k) ? ir.CreateBinaryIntrinsic(Intrinsic::abs, x, ir.getFalse()) : x;
  };
  auto* state_type = llvm::StructType::get(k.a->getType(), k.a->getType());
  const auto pack = [&](Value* a, Value* b) {
    return ir.CreateInsertValue(ir.CreateInsertValue(llvm::PoisonValue::get(state_type), a, 0), b,
                                1);
  };
  Value* end = repeat(
      ir, pack(magnitude(k.a), magnitude(k.b)),
      [&](Value* s) { return ir.CreateIsNotNull(ir.CreateExtractValue(s, 1)); },
      [&](Value* s) {
        Value *a = ir.CreateExtractValue(s, 0), *b = ir.CreateExtractValue(s, 1);
        Value* done = ir.CreateIsNull(b);
        Value* left = ir.CreateURem(a, ir.CreateSelect(done, integer(b, 1), b));
        return pack(ir.CreateSelect(done, a, b), ir.CreateSelect(done, b, left));
      });
  return ir.CreateExtractValue(end, 0);
}

/// f32 fma without the instruction. The product is exact in f64; the sum is rounded to odd, so that
/// rounding it once more to f32 gives what one rounding would.
Value* fma_by_odd_rounding(const Compute& k) {
  auto& ir = k.ir;
  llvm::Type* wide = with_element(k.a->getType(), ir.getDoubleTy());
  llvm::Type* ints = with_element(k.a->getType(), ir.getInt64Ty());
  Value* p = ir.CreateFMul(ir.CreateFPExt(k.a, wide), ir.CreateFPExt(k.b, wide));
  Value* c = ir.CreateFPExt(k.c, wide);
  Value* sum = ir.CreateFAdd(p, c);
  Value* t = ir.CreateFSub(sum, p);
  Value* error = ir.CreateFAdd(ir.CreateFSub(p, ir.CreateFSub(sum, t)), ir.CreateFSub(c, t));
  Value* bits = ir.CreateBitCast(sum, ints);
  Value* even = ir.CreateIsNull(ir.CreateAnd(bits, integer(bits, 1)));
  Value* inexact = ir.CreateFCmpONE(error, number(error, 0));
  Value* away = ir.CreateICmpEQ(ir.CreateFCmpOGT(error, number(error, 0)),
                                ir.CreateFCmpOGT(sum, number(sum, 0)));
  Value* next = ir.CreateAdd(bits, ir.CreateSelect(away, integer(bits, 1), integer(bits, -1)));
  bits = ir.CreateSelect(ir.CreateAnd(even, inexact), next, bits);
  return ir.CreateFPTrunc(ir.CreateBitCast(bits, wide), k.a->getType());
}

}  // namespace

Value* emit_fmod(const Compute& k) {
  if (k.from == DType::F64) return fmod_of_doubles(k, k.a, k.b);
  llvm::Type* wide = with_element(k.a->getType(), k.ir.getDoubleTy());
  Value* r = fmod_of_doubles(k, k.ir.CreateFPExt(k.a, wide), k.ir.CreateFPExt(k.b, wide));
  return k.ir.CreateFPTrunc(r, k.a->getType());
}

template <>
Value* emit_one<Op::fmod>(const Compute& k) {
  return floats(k) ? emit_fmod(k) : rest(k);
}

template <>
Value* emit_one<Op::remainder>(const Compute& k) {
  Value* r = floats(k) ? emit_fmod(k) : rest(k);
  Value* moved = emit_one<Op::add>(with(k, r, k.b));
  return is_signed(k) ? k.ir.CreateSelect(wrong_sign(k, r), moved, r) : r;
}

template <>
Value* emit_one<Op::floor_divide>(const Compute& k) {
  if (floats(k)) return floor_divide_floats(k);
  Value* q = quotient(k);
  if (!is_signed(k)) return q;
  Value* lower = k.ir.CreateSub(q, integer(q, 1));
  return k.ir.CreateSelect(wrong_sign(k, rest(k)), lower, q);
}

template <>
Value* emit_one<Op::pow>(const Compute& k) {
  return floats(k) ? emit_math(k.ir, k.target, MathFn::pow, k.a, k.b) : integer_power(k);
}

template <>
Value* emit_one<Op::gcd>(const Compute& k) {
  return greatest_divisor(k);
}

template <>
Value* emit_one<Op::fma>(const Compute& k) {
  if (k.target.has("fma"))
    return k.ir.CreateIntrinsic(k.a->getType(), Intrinsic::fma, {k.a, k.b, k.c});
  if (k.from != DType::F64) return fma_by_odd_rounding(k);
  Lanes at{k.ir, false, false};
  return fma(Real{&at, k.a, Kind::F64}, Real{&at, k.b, Kind::F64}, Real{&at, k.c, Kind::F64}).value;
}

}  // namespace tandem::jit
