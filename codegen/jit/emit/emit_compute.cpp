// The table of pointwise ops. emit_one<op> is declared for every op and defined here (integer
// division, powers and remainders: emit_divide.cpp) for exactly the pointwise primitives.
#include "codegen/jit/emit/emit_compute.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "codegen/jit/emit/emit_one.h"
#include "codegen/jit/emit/extreme.h"
#include "codegen/jit/math/math.h"
#include "ir/base/error.h"

namespace tandem::jit {

using ir::DType;
using ir::Op;
using llvm::Value;
namespace Intrinsic = llvm::Intrinsic;

llvm::Type* register_type(llvm::LLVMContext& context, DType dtype) {
  switch (dtype) {
    case DType::F64:
      return llvm::Type::getDoubleTy(context);
    case DType::F32:
    case DType::BF16:
    case DType::F16:
      return llvm::Type::getFloatTy(context);
    case DType::Bool:
      return llvm::Type::getInt1Ty(context);
    default:
      return llvm::Type::getIntNTy(context, static_cast<unsigned>(8 * ir::size_of(dtype)));
  }
}

llvm::Type* with_element(llvm::Type* type, llvm::Type* element) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector ? llvm::FixedVectorType::get(element, vector->getNumElements()) : element;
}

namespace {

bool floats(const Compute& k) { return ir::is_floating(k.from); }
bool is_bool(const Compute& k) { return k.from == DType::Bool; }
bool is_unsigned(DType dtype) { return dtype == DType::Bool || dtype == DType::U8; }
Value* zero(const Compute& k) { return llvm::Constant::getNullValue(k.a->getType()); }
Value* unary(const Compute& k, Intrinsic::ID id) { return k.ir.CreateUnaryIntrinsic(id, k.a); }
Value* binary(const Compute& k, Intrinsic::ID id) {
  return k.ir.CreateBinaryIntrinsic(id, k.a, k.b);
}
/// floor and its like: integers are whole already.
Value* whole(const Compute& k, Intrinsic::ID id) { return floats(k) ? unary(k, id) : k.a; }
Value* one(const Compute& k) { return llvm::ConstantFP::get(k.a->getType(), 1.0); }
Value* math(const Compute& k, MathFn fn) {
  return (k.unit ? emit_math_of_unit : emit_math)(k.ir, k.target, fn, k.a, k.b);
}

Value* compare(const Compute& k, llvm::CmpInst::Predicate on_float,
               llvm::CmpInst::Predicate on_signed, llvm::CmpInst::Predicate on_unsigned) {
  if (floats(k)) return k.ir.CreateFCmp(on_float, k.a, k.b);
  return k.ir.CreateICmp(is_unsigned(k.from) ? on_unsigned : on_signed, k.a, k.b);
}

Value* extremum(const Compute& k, bool max) {
  const auto is_constant = [](const Value* v) { return llvm::isa<llvm::Constant>(v); };
  if (floats(k) && !is_constant(k.a) && !is_constant(k.b) &&
      has_extreme_number(k.target, k.a->getType()))
    return extreme_or_nan(k.ir, k.a, k.b, max);
  if (floats(k)) return binary(k, max ? Intrinsic::maximum : Intrinsic::minimum);
  if (is_unsigned(k.from)) return binary(k, max ? Intrinsic::umax : Intrinsic::umin);
  return binary(k, max ? Intrinsic::smax : Intrinsic::smin);
}

/// Whether 0 <= b < bits: the counts that shift. The count is made 0 where not.
std::pair<Value*, Value*> shift_count(const Compute& k) {
  const unsigned bits = k.a->getType()->getScalarSizeInBits();
  Value* fits = k.ir.CreateICmpULT(k.b, llvm::ConstantInt::get(k.b->getType(), bits));
  return {fits, k.ir.CreateSelect(fits, k.b, zero(k))};
}

/// Towards 0, NaN gives 0, and what is too large the nearest there is. (LLVM's own conversions that
/// say so take an element of a vector after the other.)
Value* saturated(const Compute& k, llvm::Type* type) {
  const unsigned bits = type->getScalarSizeInBits();
  const bool has_sign = !is_unsigned(k.to);
  const auto limit = llvm::APInt::getOneBitSet(128, has_sign ? bits - 1 : bits);
  Value* above = llvm::ConstantFP::get(k.a->getType(), limit.roundToDouble());
  Value* below = has_sign ? k.ir.CreateFNeg(above) : zero(k);
  Value* fits = k.ir.CreateAnd(k.ir.CreateFCmpOLT(k.a, above), k.ir.CreateFCmpOGT(k.a, below));
  Value* inside = k.ir.CreateSelect(fits, k.a, zero(k));
  Value* whole = has_sign ? k.ir.CreateFPToSI(inside, type) : k.ir.CreateFPToUI(inside, type);
  const auto most =
      has_sign ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
  const auto least = has_sign ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt(bits, 0);
  const auto bounded = [&](Value* beyond, const llvm::APInt& bound) {
    whole = k.ir.CreateSelect(beyond, llvm::ConstantInt::get(type, bound), whole);
  };
  bounded(k.ir.CreateFCmpOGE(k.a, above), most);
  bounded(k.ir.CreateFCmpOLE(k.a, below), least);
  return whole;
}

Value* convert_float(const Compute& k, llvm::Type* type) {
  if (ir::is_floating(k.to)) return k.ir.CreateFPCast(k.a, type);
  if (k.to == DType::Bool) return k.ir.CreateFCmpUNE(k.a, zero(k));  // NaN is true
  return saturated(k, type);
}

Value* convert_int(const Compute& k, llvm::Type* type) {
  if (ir::is_floating(k.to))
    return is_unsigned(k.from) ? k.ir.CreateUIToFP(k.a, type) : k.ir.CreateSIToFP(k.a, type);
  if (k.to == DType::Bool) return k.ir.CreateIsNotNull(k.a);
  return k.ir.CreateIntCast(k.a, type, !is_unsigned(k.from));
}

}  // namespace

#define EMIT(op) \
  template <>    \
  Value* emit_one<Op::op>(const Compute& k)
#define MATH(op) \
  EMIT(op) { return math(k, MathFn::op); }
#define COMPARE(op, F, S, U)                                                                      \
  EMIT(op) {                                                                                      \
    return compare(k, llvm::CmpInst::FCMP_##F, llvm::CmpInst::ICMP_##S, llvm::CmpInst::ICMP_##U); \
  }

// Arithmetic on bool is logic: 1 + 1 is stored as 1.
EMIT(add) {
  if (is_bool(k)) return k.ir.CreateOr(k.a, k.b);
  return floats(k) ? k.ir.CreateFAdd(k.a, k.b) : k.ir.CreateAdd(k.a, k.b);
}
EMIT(sub) { return floats(k) ? k.ir.CreateFSub(k.a, k.b) : k.ir.CreateSub(k.a, k.b); }
EMIT(mul) { return floats(k) ? k.ir.CreateFMul(k.a, k.b) : k.ir.CreateMul(k.a, k.b); }
EMIT(div) { return k.ir.CreateFDiv(k.a, k.b); }
EMIT(maximum) { return extremum(k, true); }
EMIT(minimum) { return extremum(k, false); }
EMIT(neg) { return floats(k) ? k.ir.CreateFNeg(k.a) : k.ir.CreateNeg(k.a); }
EMIT(abs) {
  if (floats(k)) return unary(k, Intrinsic::fabs);
  if (is_unsigned(k.from)) return k.a;
  return k.ir.CreateBinaryIntrinsic(Intrinsic::abs, k.a, k.ir.getFalse());
}
// (0 < a) - (a < 0): NaN and -0 give 0, as ATen's.
EMIT(sign) {
  if (is_bool(k)) return k.a;
  const auto number = [&](double v) -> Value* {
    if (floats(k)) return llvm::ConstantFP::get(k.a->getType(), v);
    return llvm::ConstantInt::getSigned(k.a->getType(), static_cast<int64_t>(v));
  };
  const Compute with_zero{k.ir, k.target, k.from, DType::Bool, k.a, zero(k)};
  Value* positive = emit_one<Op::gt>(with_zero);
  Value* negative = emit_one<Op::lt>(with_zero);
  Value* below = k.ir.CreateSelect(negative, number(-1), number(0));
  return k.ir.CreateSelect(positive, number(1), below);
}
EMIT(floor) { return whole(k, Intrinsic::floor); }
EMIT(ceil) { return whole(k, Intrinsic::ceil); }
EMIT(round) { return whole(k, Intrinsic::roundeven); }
EMIT(trunc) { return whole(k, Intrinsic::trunc); }
EMIT(sqrt) { return unary(k, Intrinsic::sqrt); }
EMIT(reciprocal) { return k.ir.CreateFDiv(one(k), k.a); }

MATH(exp)
MATH(exp2)
MATH(expm1)
MATH(log)
MATH(log2)
MATH(log10)
MATH(log1p)
MATH(rsqrt)
MATH(sin)
MATH(cos)
MATH(tan)
MATH(asin)
MATH(acos)
MATH(atan)
MATH(atan2)
MATH(sinh)
MATH(cosh)
MATH(tanh)
MATH(asinh)
MATH(acosh)
MATH(atanh)
MATH(erf)
MATH(erfc)
MATH(sigmoid)

COMPARE(eq, OEQ, EQ, EQ)
COMPARE(ne, UNE, NE, NE)
COMPARE(lt, OLT, SLT, ULT)
COMPARE(le, OLE, SLE, ULE)
COMPARE(gt, OGT, SGT, UGT)
COMPARE(ge, OGE, SGE, UGE)

EMIT(logical_and) { return k.ir.CreateAnd(k.a, k.b); }
EMIT(logical_or) { return k.ir.CreateOr(k.a, k.b); }
EMIT(logical_xor) { return k.ir.CreateXor(k.a, k.b); }
EMIT(logical_not) { return k.ir.CreateNot(k.a); }
EMIT(bitwise_and) { return k.ir.CreateAnd(k.a, k.b); }
EMIT(bitwise_or) { return k.ir.CreateOr(k.a, k.b); }
EMIT(bitwise_xor) { return k.ir.CreateXor(k.a, k.b); }
EMIT(bitwise_not) { return k.ir.CreateNot(k.a); }
EMIT(shift_left) {
  const auto [fits, count] = shift_count(k);
  return k.ir.CreateSelect(fits, k.ir.CreateShl(k.a, count), zero(k));
}
// A count outside leaves the sign alone, which is what a signed shift by bits - 1 gives.
EMIT(shift_right) {
  if (is_unsigned(k.from)) {
    const auto [fits, count] = shift_count(k);
    return k.ir.CreateSelect(fits, k.ir.CreateLShr(k.a, count), zero(k));
  }
  const unsigned bits = k.a->getType()->getScalarSizeInBits();
  Value* most = llvm::ConstantInt::get(k.b->getType(), bits - 1);
  Value* fits = k.ir.CreateICmpULT(k.b, most);
  return k.ir.CreateAShr(k.a, k.ir.CreateSelect(fits, k.b, most));
}

EMIT(where) { return k.ir.CreateSelect(k.a, k.b, k.c); }
EMIT(clone) { return k.a; }
EMIT(stop_gradient) { return k.a; }
EMIT(convert) {
  llvm::Type* type = with_element(k.a->getType(), register_type(k.ir.getContext(), k.to));
  return floats(k) ? convert_float(k, type) : convert_int(k, type);
}

// In memory bool is a byte, and the 16-bit floats, which are f32 in registers, their bits.
EMIT(bitcast) {
  const auto ints = [&](DType dtype) {
    return with_element(k.a->getType(),
                        k.ir.getIntNTy(static_cast<unsigned>(8 * ir::size_of(dtype))));
  };
  const auto is_half = [](DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; };
  Value* bits = is_half(k.from) ? half_bits(k.ir, k.target, k.from, k.a)
                : is_bool(k)    ? k.ir.CreateZExt(k.a, ints(k.from))
                                : k.ir.CreateBitCast(k.a, ints(k.from));
  if (is_half(k.to)) return from_half_bits(k.ir, k.target, k.to, bits);
  if (k.to == DType::Bool) return k.ir.CreateIsNotNull(bits);
  return k.ir.CreateBitCast(bits,
                            with_element(bits->getType(), register_type(k.ir.getContext(), k.to)));
}

#undef EMIT
#undef MATH
#undef COMPARE

namespace {

using Rule = Value* (*)(const Compute&);

struct Kinds {
  ir::OpClass cls;
  ir::OpLevel level;
};

constexpr Kinds kKinds[] = {
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  {ir::OpClass::class_, ir::OpLevel::level},
#include "ir/ops.def"
};

template <size_t i>
constexpr Rule rule_of() {
  if constexpr (kKinds[i].cls == ir::OpClass::Pointwise &&
                kKinds[i].level == ir::OpLevel::Primitive)
    return &emit_one<static_cast<Op>(i)>;
  else
    return nullptr;
}

template <size_t... i>
constexpr std::array<Rule, ir::kOpCount> all_rules(std::index_sequence<i...>) {
  return {rule_of<i>()...};
}

constexpr auto kRules = all_rules(std::make_index_sequence<ir::kOpCount>());

/// Whether a result is to be made a number of a 16-bit format; what only moves is one.
bool rounds(Op op, const Compute& call) {
  const bool to_half = call.to == DType::BF16 || call.to == DType::F16;
  return to_half && (call.from != call.to || !ir::info(op).moves);
}

}  // namespace

Value* emit_op(Op op, const Compute& call) {
  const Rule rule = kRules[static_cast<size_t>(op)];
  TANDEM_CHECK(rule, "not a pointwise primitive: " + std::string(ir::name(op)));
  Value* result = rule(call);
  return rounds(op, call) ? rounded_to_half(call, result) : result;
}

namespace {

std::string function_name(Op op, const Compute& call) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(call.a->getType());
  return fmt::format("tandem.{}.{}.{}.{}{}", ir::name(op), ir::name(call.from), ir::name(call.to),
                     vector ? vector->getNumElements() : 1, call.unit ? ".unit" : "");
}

llvm::Function* function_of(Op op, const Compute& call) {
  llvm::Module& module = *call.ir.GetInsertBlock()->getModule();
  const std::string name = function_name(op, call);
  if (llvm::Function* found = module.getFunction(name)) return found;
  llvm::SmallVector<llvm::Type*, 3> types;
  for (Value* operand : {call.a, call.b, call.c})
    if (operand) types.push_back(operand->getType());
  llvm::Type* result =
      with_element(call.a->getType(), register_type(call.ir.getContext(), call.to));
  auto* function = llvm::Function::Create(llvm::FunctionType::get(result, types, false),
                                          llvm::Function::InternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->setDoesNotThrow();
  function->setDoesNotAccessMemory();
  function->addFnAttr(llvm::Attribute::WillReturn);
  llvm::IRBuilder<> ir(llvm::BasicBlock::Create(module.getContext(), "entry", function));
  const auto argument = [&](unsigned i) {
    return i < types.size() ? function->getArg(i) : nullptr;
  };
  ir.CreateRet(emit_op(
      op, {ir, call.target, call.from, call.to, argument(0), argument(1), argument(2), call.unit}));
  return function;
}

}  // namespace

Value* call_op(Op op, const Compute& call) {
  llvm::SmallVector<Value*, 3> operands;
  for (Value* operand : {call.a, call.b, call.c})
    if (operand) operands.push_back(operand);
  return call.ir.CreateCall(function_of(op, call), operands);
}

}  // namespace tandem::jit
