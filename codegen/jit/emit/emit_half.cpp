// bf16 and f16 against f32: exact widening, narrowing by round to nearest even. f16 uses the
// conversion instructions where the CPU has them, and integer formulas otherwise.
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <numeric>

#include "codegen/jit/emit/emit_compute.h"

namespace tandem::jit {

using ir::DType;
using llvm::Value;

namespace {

/// 32-bit patterns of floats, scalars or vectors.
struct Bits {
  llvm::IRBuilder<>& ir;
  llvm::Type* ints;
  llvm::Type* floats;
  llvm::Type* shorts;

  Bits(llvm::IRBuilder<>& builder, Value* like)
      : ir(builder),
        ints(with_element(like->getType(), ir.getInt32Ty())),
        floats(with_element(like->getType(), ir.getFloatTy())),
        shorts(with_element(like->getType(), ir.getInt16Ty())) {}

  Value* of(Value* x) { return ir.CreateBitCast(x, ints); }
  Value* real(Value* x) { return ir.CreateBitCast(x, floats); }
  Value* number(uint32_t v) { return llvm::ConstantInt::get(ints, v); }
  Value* mask(Value* x, uint32_t v) { return ir.CreateAnd(x, number(v)); }
  /// x + half a unit of bit `shift`, ties to even.
  Value* rounded(Value* x, unsigned shift) {
    Value* odd = mask(ir.CreateLShr(x, shift), 1);
    return ir.CreateAdd(x, ir.CreateAdd(odd, number((1u << (shift - 1)) - 1)));
  }
};

/// The pattern of the rounded value, still as 32 bits: what is stored is its upper half.
Value* round_to_bf16(Bits b, Value* x) {
  Value* bits = b.of(x);
  Value* nan = b.ir.CreateFCmpUNO(x, x);
  Value* quiet = b.ir.CreateOr(bits, b.number(0x400000));
  return b.mask(b.ir.CreateSelect(nan, quiet, b.rounded(bits, 16)), 0xffff0000);
}

bool has_f16(const Target& target) { return target.has("f16c") || target.has("avx512f"); }

Value* f16_bits_of(Bits b, Value* x) {
  Value* bits = b.of(x);
  Value* magnitude = b.mask(bits, 0x7fffffff);
  Value* normal =
      b.ir.CreateLShr(b.rounded(b.ir.CreateSub(magnitude, b.number(0x38000000)), 13), 13);
  // adding 0.5 leaves a subnormal f16 in the low bits, rounded
  Value* sum = b.ir.CreateFAdd(b.real(magnitude), llvm::ConstantFP::get(b.floats, 0.5));
  Value* small = b.ir.CreateSub(b.of(sum), b.number(0x3f000000));
  Value* nan = b.ir.CreateICmpUGT(magnitude, b.number(0x7f800000));
  Value* special = b.ir.CreateSelect(nan, b.number(0x7e00), b.number(0x7c00));
  Value* result =
      b.ir.CreateSelect(b.ir.CreateICmpULT(magnitude, b.number(0x38800000)), small, normal);
  result = b.ir.CreateSelect(b.ir.CreateICmpUGE(magnitude, b.number(0x47800000)), special, result);
  result = b.ir.CreateOr(result, b.mask(b.ir.CreateLShr(bits, 16), 0x8000));
  return b.ir.CreateTrunc(result, b.shorts);
}

/// The first `count` lanes of a vector, or more than it has; a scalar is a vector of one.
Value* lanes_of(llvm::IRBuilder<>& ir, Value* x, unsigned count) {
  if (!x->getType()->isVectorTy())
    x = ir.CreateInsertElement(llvm::PoisonValue::get(llvm::FixedVectorType::get(x->getType(), 1)),
                               x, uint64_t{0});
  const unsigned have = llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements();
  if (have == count) return x;
  std::vector<int> lanes(count, -1);
  std::iota(lanes.begin(), lanes.begin() + std::min(have, count), 0);
  return ir.CreateShuffleVector(x, lanes);
}

/// By the conversion instruction. (As an fptrunc, LLVM would move operations before it into half
/// arithmetic, which this CPU does not have.)
Value* f16_bits_by_instruction(Bits b, Value* x) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(x->getType());
  const unsigned lanes = vector ? vector->getNumElements() : 1;
  const unsigned width = lanes <= 4 ? 4 : lanes <= 8 ? 8 : 16;
  Value* nearest = b.ir.getInt32(0);
  Value* full = lanes_of(b.ir, x, width);
  Value* bits = nullptr;
  if (width == 16) {
    Value* none = llvm::Constant::getNullValue(llvm::FixedVectorType::get(b.ir.getInt16Ty(), 16));
    bits = b.ir.CreateIntrinsic(llvm::Intrinsic::x86_avx512_mask_vcvtps2ph_512, {},
                                {full, nearest, none, b.ir.getInt16(0xffff)});
  } else {
    const auto id =
        width == 4 ? llvm::Intrinsic::x86_vcvtps2ph_128 : llvm::Intrinsic::x86_vcvtps2ph_256;
    bits = b.ir.CreateIntrinsic(id, {}, {full, nearest});
  }
  return vector ? lanes_of(b.ir, bits, lanes) : b.ir.CreateExtractElement(bits, uint64_t{0});
}

Value* from_f16_bits(Bits b, Value* stored) {
  Value* bits = b.ir.CreateZExt(stored, b.ints);
  Value* magnitude = b.ir.CreateShl(b.mask(bits, 0x7fff), 13);
  Value* scaled =
      b.of(b.ir.CreateFMul(b.real(magnitude), llvm::ConstantFP::get(b.floats, 0x1p112)));
  Value* special = b.ir.CreateICmpUGE(magnitude, b.number(0x7c00 << 13));
  Value* result =
      b.ir.CreateSelect(special, b.ir.CreateOr(magnitude, b.number(0x7f800000)), scaled);
  return b.real(b.ir.CreateOr(result, b.ir.CreateShl(b.mask(bits, 0x8000), 16)));
}

/// What from_half_bits made a float of by instruction, null if it did not: LLVM does not look
/// through the fence.
Value* widened_f16(Value* x) {
  const auto* fence = llvm::dyn_cast<llvm::IntrinsicInst>(x);
  if (!fence || fence->getIntrinsicID() != llvm::Intrinsic::arithmetic_fence) return nullptr;
  const auto* wide = llvm::dyn_cast<llvm::FPExtInst>(fence->getArgOperand(0));
  const auto* half = wide ? llvm::dyn_cast<llvm::BitCastInst>(wide->getOperand(0)) : nullptr;
  return half ? half->getOperand(0) : nullptr;
}

/// The same of bf16.
Value* widened_bf16(Value* x) {
  const auto* real = llvm::dyn_cast<llvm::BitCastInst>(x);
  const auto* upper = real ? llvm::dyn_cast<llvm::BinaryOperator>(real->getOperand(0)) : nullptr;
  if (!upper || upper->getOpcode() != llvm::Instruction::Shl) return nullptr;
  const auto* wide = llvm::dyn_cast<llvm::ZExtInst>(upper->getOperand(0));
  return wide && wide->getSrcTy()->getScalarType()->isIntegerTy(16) ? wide->getOperand(0) : nullptr;
}

/// The bits of a float that was widened from them, null if it was not; of its magnitude and its
/// negative, whose sign is the first bit in any format.
Value* known_bits(llvm::IRBuilder<>& ir, DType dtype, Value* x) {
  constexpr uint64_t kSign = 0x8000, kRest = 0x7fff;
  const auto widened = dtype == DType::F16 ? widened_f16 : widened_bf16;
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(x);
  const auto* unary = llvm::dyn_cast<llvm::UnaryOperator>(x);
  if (call && call->getIntrinsicID() == llvm::Intrinsic::fabs) {
    Value* bits = widened(call->getArgOperand(0));
    return bits ? ir.CreateAnd(bits, llvm::ConstantInt::get(bits->getType(), kRest)) : nullptr;
  }
  if (unary && unary->getOpcode() == llvm::Instruction::FNeg) {
    Value* bits = widened(unary->getOperand(0));
    return bits ? ir.CreateXor(bits, llvm::ConstantInt::get(bits->getType(), kSign)) : nullptr;
  }
  return widened(x);
}

bool is_constant_of(DType dtype, Value* x) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(x);
  if (constant && x->getType()->isVectorTy()) constant = constant->getSplatValue();
  const auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
  if (!number) return false;
  llvm::APFloat value = number->getValueAPF();
  bool loses = true;
  value.convert(dtype == DType::F16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(),
                llvm::APFloat::rmNearestTiesToEven, &loses);
  return !loses;
}

/// Whether x is seen to be a number of `dtype`, which rounding would leave as it is: widened from
/// one, or chosen or made whole from such.
bool is_number_of(DType dtype, Value* x) {
  if ((dtype == DType::F16 ? widened_f16 : widened_bf16)(x) || is_constant_of(dtype, x))
    return true;
  const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(x);
  switch (call ? call->getIntrinsicID() : llvm::Intrinsic::not_intrinsic) {
    case llvm::Intrinsic::fabs:
    case llvm::Intrinsic::floor:
    case llvm::Intrinsic::ceil:
    case llvm::Intrinsic::trunc:
    case llvm::Intrinsic::roundeven:
      return is_number_of(dtype, call->getArgOperand(0));
    case llvm::Intrinsic::maximum:
    case llvm::Intrinsic::minimum:
      return is_number_of(dtype, call->getArgOperand(0)) &&
             is_number_of(dtype, call->getArgOperand(1));
    default:
      break;
  }
  const auto* negated = llvm::dyn_cast<llvm::UnaryOperator>(x);
  return negated && is_number_of(dtype, negated->getOperand(0));
}

}  // namespace

Value* half_bits(llvm::IRBuilder<>& ir, const Target& target, DType dtype, Value* x) {
  if (Value* bits = known_bits(ir, dtype, x)) return bits;
  Bits b(ir, x);
  if (dtype == DType::BF16) return ir.CreateTrunc(ir.CreateLShr(b.of(x), 16), b.shorts);
  return has_f16(target) ? f16_bits_by_instruction(b, x) : f16_bits_of(b, x);
}

Value* from_half_bits(llvm::IRBuilder<>& ir, const Target& target, DType dtype, Value* bits) {
  Bits b(ir, bits);
  if (dtype == DType::BF16) return b.real(ir.CreateShl(ir.CreateZExt(bits, b.ints), 16));
  if (!has_f16(target)) return from_f16_bits(b, bits);
  // LLVM would move operations before an fpext into half arithmetic: the CPU has none, and what
  // stands for its maximum loses NaN.
  Value* half = ir.CreateBitCast(bits, with_element(bits->getType(), ir.getHalfTy()));
  return ir.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {b.floats},
                            {ir.CreateFPExt(half, b.floats)});
}

Value* rounded_to_half(const Compute& k, Value* x) {
  if (x->getType()->getScalarType()->isDoubleTy())
    x = k.ir.CreateFPTrunc(x, with_element(x->getType(), k.ir.getFloatTy()));
  if (is_number_of(k.to, x)) return x;
  Bits b(k.ir, x);
  if (k.to == DType::BF16) return b.real(round_to_bf16(b, x));
  return from_half_bits(k.ir, k.target, DType::F16, half_bits(k.ir, k.target, DType::F16, x));
}

}  // namespace tandem::jit
