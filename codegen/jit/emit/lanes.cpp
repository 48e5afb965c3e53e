// The operations of lanes.h as IR instructions.
#include "codegen/jit/emit/lanes.h"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "codegen/jit/llvm.h"
#include "ir/base/error.h"

namespace tandem::jit {
namespace {

using llvm::Intrinsic::ID;

unsigned lane_count(llvm::Type* type) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector ? vector->getNumElements() : 1;
}

llvm::Type* with_element(llvm::Type* type, llvm::Type* element) {
  return type->isVectorTy() ? llvm::FixedVectorType::get(element, lane_count(type)) : element;
}

llvm::Type* int_type(llvm::Type* real) {
  return with_element(real,
                      llvm::IntegerType::get(real->getContext(), real->getScalarSizeInBits()));
}

Real like(Real a, llvm::Value* value) { return {a.at, value, a.kind}; }
Int int_constant(Int a, int64_t b) {
  return {a.at, llvm::ConstantInt::getSigned(a.value->getType(), b)};
}

llvm::Value* call(Lanes& at, ID id, std::initializer_list<llvm::Value*> arguments) {
  return at.ir.CreateIntrinsic((*arguments.begin())->getType(), id, arguments);
}

llvm::Value* cast_to(Lanes& at, llvm::Value* value, llvm::Type* element) {
  return at.ir.CreateFPCast(value, with_element(value->getType(), element));
}

// The product of two f32 is exact in f64, so only the final conversion rounds a second time.
Real fma_through_f64(Real a, Real b, Real c) {
  auto& ir = a.at->ir;
  const auto up = [&](Real v) { return cast_to(*a.at, v.value, ir.getDoubleTy()); };
  return like(a,
              cast_to(*a.at, ir.CreateFAdd(ir.CreateFMul(up(a), up(b)), up(c)), ir.getFloatTy()));
}

// Dekker: a * b = high + low exactly (away from overflow), then low joins after the large parts
// have met.
Real fma_by_splitting(Real a, Real b, Real c) {
  const auto upper = [](Real v) { return from_bits(bits(v) & ~int64_t{0x7ffffff}, v); };
  const Real a1 = upper(a), b1 = upper(b), a2 = a - a1, b2 = b - b1;
  const Real high = a * b;
  const Real low = ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2;
  const Real sum = high + c, t = sum - high;
  const Real rest = ((high - (sum - t)) + (c - t)) + low, exact = sum + rest;
  const Mask is_finite = abs(exact) <= std::numeric_limits<double>::max();
  return select(is_finite & !(rest == 0), exact, sum);  // a sum of -0 stays that
}

/// The same where a * b overflows, though with c it may not: on smaller numbers.
Real fma_by_scaling(Real a, Real b, Real c) {
  const auto is_finite = [](Real v) { return abs(v) <= std::numeric_limits<double>::max(); };
  const Mask is_large = is_finite(a) & is_finite(b) & !(abs(a * b) <= 0x1p1000);
  const Real down = select(is_large, a.constant(0x1p-540), a.constant(1));
  const Real up = select(is_large, a.constant(0x1p540), a.constant(1));
  return fma_by_splitting(a * down, b * down, c * down * down) * up * up;
}

}  // namespace

Real Real::constant(double number) const {
  return like(*this, llvm::ConstantFP::get(value->getType(), number));
}

Real operator+(Real a, Real b) { return like(a, a.at->ir.CreateFAdd(a.value, b.value)); }
Real operator-(Real a, Real b) { return like(a, a.at->ir.CreateFSub(a.value, b.value)); }
Real operator*(Real a, Real b) { return like(a, a.at->ir.CreateFMul(a.value, b.value)); }
Real operator/(Real a, Real b) { return like(a, a.at->ir.CreateFDiv(a.value, b.value)); }
Real operator-(Real a) { return like(a, a.at->ir.CreateFNeg(a.value)); }

Real fma(Real a, Real b, Real c) {
  if (a.at->fma) return like(a, call(*a.at, llvm::Intrinsic::fma, {a.value, b.value, c.value}));
  return a.single() ? fma_through_f64(a, b, c) : fma_by_scaling(a, b, c);
}

Real mad(Real a, Real b, Real c) { return a.at->fma ? fma(a, b, c) : a * b + c; }
Real sqrt(Real a) { return like(a, call(*a.at, llvm::Intrinsic::sqrt, {a.value})); }
Real abs(Real a) { return like(a, call(*a.at, llvm::Intrinsic::fabs, {a.value})); }

Real opaque(Real a) { return like(a, call(*a.at, llvm::Intrinsic::arithmetic_fence, {a.value})); }

Real copysign(Real magnitude, Real sign) {
  return like(magnitude, call(*sign.at, llvm::Intrinsic::copysign, {magnitude.value, sign.value}));
}

Mask operator<(Real a, Real b) { return {a.at, a.at->ir.CreateFCmpOLT(a.value, b.value)}; }
Mask operator<=(Real a, Real b) { return {a.at, a.at->ir.CreateFCmpOLE(a.value, b.value)}; }
Mask operator==(Real a, Real b) { return {a.at, a.at->ir.CreateFCmpOEQ(a.value, b.value)}; }
Mask operator&(Mask a, Mask b) { return {a.at, a.at->ir.CreateAnd(a.value, b.value)}; }
Mask operator|(Mask a, Mask b) { return {a.at, a.at->ir.CreateOr(a.value, b.value)}; }
Mask operator!(Mask a) { return {a.at, a.at->ir.CreateNot(a.value)}; }
Mask is_nan(Real a) { return {a.at, a.at->ir.CreateFCmpUNO(a.value, a.value)}; }

Mask sign_bit(Real a) {
  const Int i = bits(a);
  return {a.at, a.at->ir.CreateICmpSLT(i.value, int_constant(i, 0).value)};
}

Real select(Mask condition, Real a, Real b) {
  return like(a, a.at->ir.CreateSelect(condition.value, a.value, b.value));
}

Int bits(Real a) { return {a.at, a.at->ir.CreateBitCast(a.value, int_type(a.value->getType()))}; }
Real from_bits(Int a, Real sample) {
  return like(sample, a.at->ir.CreateBitCast(a.value, sample.value->getType()));
}
Int operator+(Int a, Int b) { return {a.at, a.at->ir.CreateAdd(a.value, b.value)}; }
Int operator-(Int a, Int b) { return {a.at, a.at->ir.CreateSub(a.value, b.value)}; }
Int operator+(Int a, int64_t b) { return a + int_constant(a, b); }
Int operator-(Int a, int64_t b) { return a - int_constant(a, b); }
Int operator-(int64_t a, Int b) { return int_constant(b, a) - b; }
Int operator*(Int a, int64_t b) {
  return {a.at, a.at->ir.CreateMul(a.value, int_constant(a, b).value)};
}
Int operator&(Int a, int64_t b) {
  return {a.at, a.at->ir.CreateAnd(a.value, int_constant(a, b).value)};
}
Int operator|(Int a, int64_t b) {
  return {a.at, a.at->ir.CreateOr(a.value, int_constant(a, b).value)};
}
Int operator^(Int a, Int b) { return {a.at, a.at->ir.CreateXor(a.value, b.value)}; }
Int shl(Int a, int count) { return {a.at, a.at->ir.CreateShl(a.value, count)}; }
Int lshr(Int a, int count) { return {a.at, a.at->ir.CreateLShr(a.value, count)}; }
Mask operator==(Int a, int64_t b) {
  return {a.at, a.at->ir.CreateICmpEQ(a.value, int_constant(a, b).value)};
}

Real widen(Real a) { return {a.at, cast_to(*a.at, a.value, a.at->ir.getDoubleTy()), Kind::Wide}; }
Real narrow(Real a) { return {a.at, cast_to(*a.at, a.value, a.at->ir.getFloatTy()), Kind::F32}; }

double magic(Real sample) { return sample.pick(0x1.8p23, 0x1.8p52); }

namespace {

ID scalef_id(bool single, unsigned bytes) {
  if (bytes == 64)
    return single ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_512
                  : llvm::Intrinsic::x86_avx512_mask_scalef_pd_512;
  if (bytes == 32)
    return single ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_256
                  : llvm::Intrinsic::x86_avx512_mask_scalef_pd_256;
  return single ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_128
                : llvm::Intrinsic::x86_avx512_mask_scalef_pd_128;
}

llvm::Value* scalef_register(Lanes& at, llvm::Value* a, llvm::Value* n, bool single) {
  auto& ir = at.ir;
  const unsigned lanes = lane_count(a->getType()), bytes = lanes * (single ? 4 : 8);
  llvm::Value* every = llvm::ConstantInt::getSigned(ir.getIntNTy(std::max(8u, lanes)), -1);
  std::vector<llvm::Value*> arguments = {a, n, llvm::Constant::getNullValue(a->getType()), every};
  if (bytes == 64) arguments.push_back(ir.getInt32(4));  // the rounding mode of MXCSR
  return ir.CreateIntrinsic(scalef_id(single, bytes), {}, arguments);
}

// vscalef on vectors longer than a register: one instruction for each register's part.
llvm::Value* scalef(Lanes& at, llvm::Value* a, llvm::Value* n, bool single) {
  const unsigned lanes = lane_count(a->getType()), most = single ? 16 : 8;
  if (lanes <= most) return scalef_register(at, a, n, single);
  std::vector<int> low, high, both;
  for (unsigned i = 0; i < lanes; ++i)
    (i < lanes / 2 ? low : high).push_back(static_cast<int>(i)),
        both.push_back(static_cast<int>(i));
  const auto half = [&](const std::vector<int>& part) {
    return scalef(at, at.ir.CreateShuffleVector(a, part), at.ir.CreateShuffleVector(n, part),
                  single);
  };
  llvm::Value* first = half(low);
  return at.ir.CreateShuffleVector(first, half(high), both);
}

}  // namespace

bool scales_at_once(Real a) {
  const unsigned bytes = lane_count(a.value->getType()) * (a.single() ? 4 : 8);
  return a.at->avx512 && bytes >= 16 && (bytes & (bytes - 1)) == 0;
}

// With h = (n + 2 bias) / 2 the factors 2^(h - bias) and 2^(n - h + bias) are both normal numbers,
// and only the second product can round: the same result as the one instruction of AVX-512.
Real scale(Real a, Real n, Real sum) {
  if (scales_at_once(a)) return like(a, scalef(*a.at, a.value, n.value, a.single()));
  const Int i = bits(sum), half = lshr(i, 1);
  const Real first = from_bits(shl(half, a.mantissa_bits()), a);
  const Real second = from_bits(shl(i - half, a.mantissa_bits()), a);
  return a * first * second;
}

Real horner(Real x, const Coefficients& coefficients) {
  const auto c = x.kind == Kind::F32    ? coefficients.f32
                 : x.kind == Kind::Wide ? coefficients.wide
                                        : coefficients.f64;
  TANDEM_CHECK(!c.empty(), "no polynomial for this kind of arithmetic");
  Real sum = x.constant(c.back());
  for (size_t i = c.size() - 1; i-- > 0;) sum = mad(sum, x, x.constant(c[i]));
  return sum;
}

namespace {

llvm::GlobalVariable* constant_table(llvm::Module& module, std::span<const double> table,
                                     const char* name) {
  if (auto* found = module.getGlobalVariable(name, true)) return found;
  auto* data = llvm::ConstantDataArray::get(module.getContext(),
                                            llvm::ArrayRef<double>(table.data(), table.size()));
  return new llvm::GlobalVariable(module, data->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                  data, name);
}

}  // namespace

Real lookup(Int index, std::span<const double> table, const char* name, Real sample) {
  auto& ir = index.at->ir;
  llvm::Value* base = constant_table(*ir.GetInsertBlock()->getModule(), table, name);
  llvm::Value* address = ir.CreateGEP(ir.getDoubleTy(), base, index.value);
  llvm::Type* type = sample.value->getType();
  if (!type->isVectorTy()) return like(sample, ir.CreateLoad(type, address));
  return like(sample, ir.CreateMaskedGather(type, address, llvm::Align(8)));
}

namespace {

std::string type_suffix(llvm::Type* type) {
  return (type->isVectorTy() ? ".v" + std::to_string(lane_count(type)) : ".") +
         (type->getScalarType()->isFloatTy() ? "f32" : "f64");
}

// Made once for each module and type; a kernel with twenty cosines has one copy.
llvm::Function* slow_function(Real x, llvm::Type* type, const char* name, Real (*slow)(Real)) {
  llvm::Module& module = *x.at->ir.GetInsertBlock()->getModule();
  const std::string full = "tandem." + std::string(name) + type_suffix(type);
  if (llvm::Function* found = module.getFunction(full)) return found;
  auto* function = llvm::Function::Create(llvm::FunctionType::get(type, {type}, false),
                                          llvm::Function::InternalLinkage, full, module);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addFnAttr(llvm::Attribute::Cold);
  function->setDoesNotThrow();
  llvm::IRBuilder<> ir(llvm::BasicBlock::Create(module.getContext(), "entry", function));
  Lanes at{ir, x.at->fma, x.at->avx512};
  ir.CreateRet(slow({&at, function->getArg(0), x.kind}).value);
  return function;
}

// slow(x) in pieces that are one register of f64: one short function serves all widths.
llvm::Value* call_slow(Real x, const char* name, Real (*slow)(Real)) {
  auto& ir = x.at->ir;
  const unsigned register_lanes = x.at->avx512 ? 8 : x.at->fma ? 4 : 2;
  const unsigned lanes = lane_count(x.value->getType()), piece = std::min(lanes, register_lanes);
  if (lanes == piece)
    return ir.CreateCall(slow_function(x, x.value->getType(), name, slow), {x.value});
  llvm::Type* type = llvm::FixedVectorType::get(x.value->getType()->getScalarType(), piece);
  llvm::Function* function = slow_function(x, type, name, slow);
  llvm::SmallVector<llvm::Value*, 16> results;
  for (unsigned from = 0; from < lanes; from += piece) {
    llvm::SmallVector<int, 8> indices(piece);
    std::iota(indices.begin(), indices.end(), static_cast<int>(from));
    results.push_back(ir.CreateCall(function, {ir.CreateShuffleVector(x.value, indices)}));
  }
  return llvm::concatenateVectors(ir, results);
}

}  // namespace

Real where_rare(Mask rare, Real x, Real usual, const char* name, Real (*slow)(Real)) {
  auto& ir = x.at->ir;
  llvm::BasicBlock* from = ir.GetInsertBlock();
  auto* call_block = llvm::BasicBlock::Create(ir.getContext(), name, from->getParent());
  auto* join = llvm::BasicBlock::Create(ir.getContext(), "join", from->getParent());
  llvm::Value* any = x.value->getType()->isVectorTy() ? ir.CreateOrReduce(rare.value) : rare.value;
  llvm::MDNode* weights = llvm::MDBuilder(ir.getContext()).createBranchWeights(1, 100000);
  ir.CreateCondBr(any, call_block, join, weights);
  ir.SetInsertPoint(call_block);
  const Real mixed = select(rare, like(x, call_slow(x, name, slow)), usual);
  ir.CreateBr(join);
  ir.SetInsertPoint(join);
  llvm::PHINode* result = ir.CreatePHI(x.value->getType(), 2);
  result->addIncoming(usual.value, from);
  result->addIncoming(mixed.value, call_block);
  return like(x, result);
}

}  // namespace tandem::jit
