// The table of inline functions, and how a plain IR value becomes the operand of a formula.
#include "codegen/jit/math/math.h"

#include "codegen/jit/llvm.h"
#include "codegen/jit/math/math_rules.h"
#include "ir/base/error.h"

namespace tandem::jit {
namespace {

using Unary = Real (*)(Real);
using Binary = Real (*)(Real, Real);

// f32 data computed in f64, for functions too rare to deserve formulas that are careful in f32.
template <Unary rule>
Real wide(Real x) {
  return x.single() ? narrow(rule(widen(x))) : rule(x);
}

template <Binary rule>
Real wide(Real x, Real y) {
  return x.single() ? narrow(rule(widen(x), widen(y))) : rule(x, y);
}

constexpr MathInfo kInfo[] = {
    {"exp", 1, 1.1, 1.1},     {"exp2", 1, 1.1, 1.1},  {"expm1", 1, 1.7, 2.0},
    {"log", 1, 1.3, 1.3},     {"log2", 1, 1.7, 1.7},  {"log10", 1, 1.7, 1.7},
    {"log1p", 1, 1.5, 1.5},   {"sin", 1, 2.0, 2.5},   {"cos", 1, 2.0, 2.5},
    {"tan", 1, 0.6, 4.0},     {"asin", 1, 0.6, 2.5},  {"acos", 1, 0.6, 2.5},
    {"atan", 1, 0.6, 2.0},    {"atan2", 2, 0.6, 3.0}, {"sinh", 1, 0.6, 2.5},
    {"cosh", 1, 0.6, 2.5},    {"tanh", 1, 2.0, 2.5},  {"asinh", 1, 0.6, 3.5},
    {"acosh", 1, 0.6, 3.5},   {"atanh", 1, 0.6, 3.5}, {"erf", 1, 1.5, 1.5},
    {"erfc", 1, 1.0, 4.0},    {"pow", 2, 0.6, 2.0},   {"rsqrt", 1, 1.5, 1.5},
    {"sigmoid", 1, 2.0, 2.5},
};

struct Rule {
  Unary one;
  Binary two = nullptr;
  Unary on_unit = nullptr;  // `one` for arguments within [-1, 1]
};

constexpr Rule kRules[] = {
    {rules::exp},
    {rules::exp2},
    {rules::expm1},
    {rules::log},
    {rules::log2},
    {rules::log10},
    {rules::log1p},
    {rules::sin, nullptr, rules::sin_of_unit},
    {rules::cos, nullptr, rules::cos_of_unit},
    {rules::tan},
    {wide<rules::asin>},
    {wide<rules::acos>},
    {wide<rules::atan>},
    {nullptr, wide<rules::atan2>},
    {wide<rules::sinh>},
    {wide<rules::cosh>},
    {rules::tanh},
    {wide<rules::asinh>},
    {wide<rules::acosh>},
    {wide<rules::atanh>},
    {rules::erf},
    {wide<rules::erfc>},
    {nullptr, wide<rules::pow>},
    {rules::rsqrt},
    {rules::sigmoid},
};
static_assert(std::size(kInfo) == std::size(kRules));
static_assert(std::size(kInfo) == static_cast<size_t>(MathFn::sigmoid) + 1);

Lanes lanes(llvm::IRBuilderBase& ir, const Target& target) {
  return {ir, target.has("fma"), target.has("avx512f") && target.has("avx512vl")};
}

Real real(Lanes& at, llvm::Value* x) {
  return {&at, x, x->getType()->getScalarType()->isFloatTy() ? Kind::F32 : Kind::F64};
}

}  // namespace

std::span<const MathInfo> math_functions() { return kInfo; }

llvm::Value* emit_math(llvm::IRBuilderBase& ir, const Target& target, MathFn fn, llvm::Value* x,
                       llvm::Value* y) {
  const auto index = static_cast<size_t>(fn);
  TANDEM_CHECK((kInfo[index].arity == 2) == (y != nullptr), "wrong operand count");
  Lanes at = lanes(ir, target);
  if (y) return kRules[index].two(real(at, x), real(at, y)).value;
  return kRules[index].one(real(at, x)).value;
}

llvm::Value* emit_math_of_unit(llvm::IRBuilderBase& ir, const Target& target, MathFn fn,
                               llvm::Value* x, llvm::Value* y) {
  const Unary rule = kRules[static_cast<size_t>(fn)].on_unit;
  if (!rule) return emit_math(ir, target, fn, x, y);
  Lanes at = lanes(ir, target);
  return rule(real(at, x)).value;
}

}  // namespace tandem::jit
