// What the tests of the inline math share: functions over arrays compiled from the formulas, exact
// references, and the distance between the two.
#ifndef TANDEM_TESTS_UNIT_JIT_MATH_CHECK_H
#define TANDEM_TESTS_UNIT_JIT_MATH_CHECK_H

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "codegen/jit/llvm.h"
#include "codegen/jit/math/math.h"
#include "codegen/jit/object.h"

namespace tandem::jit {

using Loop = void (*)(const void* x, const void* y, void* out, int64_t count);

inline std::string features() {
  std::string all = "+sse4.1,+sse4.2,+popcnt";
  const auto add = [&](bool has, const char* names) { all += has ? std::string(",") + names : ""; };
  add(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
      "+avx,+avx2,+fma,+f16c,+bmi,+bmi2");
  add(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"),
      "+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512cd");
  return all;
}

// How the operand is known.
enum class Domain { Any, Unit };

// A loop over `count` elements (a multiple of `lanes`), `lanes` at a time.
inline void add_loop(llvm::Module& module, const Target& target, MathFn fn, bool single,
                     unsigned lanes, Domain domain) {
  auto& context = module.getContext();
  llvm::IRBuilder<> ir(context);
  auto* pointer = ir.getPtrTy();
  auto* type =
      llvm::FunctionType::get(ir.getVoidTy(), {pointer, pointer, pointer, ir.getInt64Ty()}, false);
  const MathInfo& info = math_functions()[static_cast<size_t>(fn)];
  auto* f =
      llvm::Function::Create(type, llvm::Function::ExternalLinkage, std::string(info.name), module);
  auto* entry = llvm::BasicBlock::Create(context, "entry", f);
  auto* body = llvm::BasicBlock::Create(context, "body", f);
  auto* end = llvm::BasicBlock::Create(context, "end", f);
  llvm::Type* element = single ? ir.getFloatTy() : ir.getDoubleTy();
  llvm::Type* vector = lanes == 1 ? element : llvm::FixedVectorType::get(element, lanes);
  ir.SetInsertPoint(entry);
  ir.CreateBr(body);
  ir.SetInsertPoint(body);
  llvm::PHINode* i = ir.CreatePHI(ir.getInt64Ty(), 2);
  const auto load = [&](unsigned argument) {
    return ir.CreateAlignedLoad(vector, ir.CreateGEP(element, f->getArg(argument), i),
                                llvm::Align(4));
  };
  llvm::Value* x = load(0);
  llvm::Value* result = info.arity == 2          ? emit_math(ir, target, fn, x, load(1))
                        : domain == Domain::Unit ? emit_math_of_unit(ir, target, fn, x)
                                                 : emit_math(ir, target, fn, x);
  ir.CreateAlignedStore(result, ir.CreateGEP(element, f->getArg(2), i), llvm::Align(4));
  llvm::Value* next = ir.CreateAdd(i, ir.getInt64(lanes));
  i->addIncoming(ir.getInt64(0), entry);
  i->addIncoming(next, ir.GetInsertBlock());
  ir.CreateCondBr(ir.CreateICmpSLT(next, f->getArg(3)), body, end);
  ir.SetInsertPoint(end);
  ir.CreateRetVoid();
}

inline Code compile_all(bool single, unsigned lanes, const std::string& feature_string,
                        Domain domain) {
  llvm::LLVMContext context;
  llvm::Module module("math", context);
  const Target target{feature_string, feature_string.find("avx512") != std::string::npos ? 64 : 32};
  std::vector<std::string> names;
  for (size_t i = 0; i < math_functions().size(); ++i) {
    add_loop(module, target, static_cast<MathFn>(i), single, lanes, domain);
    names.emplace_back(math_functions()[i].name);
  }
  return Code::load(compile_object(module, target), names);
}

// The code of all functions for this CPU, or with SSE2 alone (any x86-64).
inline const Code& code(bool single, unsigned lanes, bool sse2 = false,
                        Domain domain = Domain::Any) {
  static std::map<std::tuple<bool, unsigned, bool, Domain>, Code> compiled;
  const auto key = std::tuple(single, lanes, sse2, domain);
  if (!compiled.contains(key))
    compiled[key] = compile_all(single, lanes, sse2 ? "+sse2" : features(), domain);
  return compiled[key];
}

template <typename T>
std::vector<T> run(const Code& code, MathFn fn, const std::vector<T>& x, const std::vector<T>& y) {
  std::vector<T> out(x.size());
  const auto loop = reinterpret_cast<Loop>(code.entry(static_cast<size_t>(fn)));
  loop(x.data(), y.data(), out.data(), static_cast<int64_t>(x.size()));
  return out;
}

// The exact functions, in T = double or long double.
template <typename T>
T reference(MathFn fn, T x, T y) {
  switch (fn) {
    case MathFn::exp:
      return std::exp(x);
    case MathFn::exp2:
      return std::exp2(x);
    case MathFn::expm1:
      return std::expm1(x);
    case MathFn::log:
      return std::log(x);
    case MathFn::log2:
      return std::log2(x);
    case MathFn::log10:
      return std::log10(x);
    case MathFn::log1p:
      return std::log1p(x);
    case MathFn::sin:
      return std::sin(x);
    case MathFn::cos:
      return std::cos(x);
    case MathFn::tan:
      return std::tan(x);
    case MathFn::asin:
      return std::asin(x);
    case MathFn::acos:
      return std::acos(x);
    case MathFn::atan:
      return std::atan(x);
    case MathFn::atan2:
      return std::atan2(x, y);
    case MathFn::sinh:
      return std::sinh(x);
    case MathFn::cosh:
      return std::cosh(x);
    case MathFn::tanh:
      return std::tanh(x);
    case MathFn::asinh:
      return std::asinh(x);
    case MathFn::acosh:
      return std::acosh(x);
    case MathFn::atanh:
      return std::atanh(x);
    case MathFn::erf:
      return std::erf(x);
    case MathFn::erfc:
      return std::erfc(x);
    // glibc's long double pow is wrong for an infinite base and a huge exponent.
    case MathFn::pow:
      return std::isinf(x) ? std::pow(static_cast<double>(x), static_cast<double>(y))
                           : std::pow(x, y);
    case MathFn::rsqrt:
      return 1 / std::sqrt(x);
    case MathFn::sigmoid:
      return 1 / (1 + std::exp(-x));
  }
  return 0;
}

template <typename T>
bool same(T a, T b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
}

// Distance in units of T's last place at `exact`; infinite for a wrong NaN, infinity or sign of
// zero.
template <typename T, typename Exact>
double ulp_error(T got, Exact exact) {
  const T rounded = static_cast<T>(exact);
  if (same(got, rounded) && !std::isfinite(rounded)) return 0;
  if (got != got || exact != exact) return INFINITY;
  if (got == 0 && rounded == 0 && std::signbit(got) != std::signbit(rounded)) return INFINITY;
  const T largest = std::numeric_limits<T>::max();
  const Exact g =
      std::isinf(got)
          ? std::copysign(static_cast<Exact>(largest) * (1 + std::numeric_limits<T>::epsilon() / 2),
                          static_cast<Exact>(got))
          : got;
  const Exact e = std::isinf(exact) ? std::copysign(static_cast<Exact>(largest) * 2, exact) : exact;
  int exponent = 0;
  std::frexp(rounded == 0 || std::isinf(rounded) ? got : e, &exponent);
  const Exact unit = std::ldexp(Exact(1), std::max(exponent, std::numeric_limits<T>::min_exponent) -
                                              std::numeric_limits<T>::digits);
  return static_cast<double>(std::abs(g - e) / unit);
}

template <typename T>
std::vector<T> specials() {
  using L = std::numeric_limits<T>;
  std::vector<T> v = {0,
                      1,
                      2,
                      3,
                      0.5,
                      1.5,
                      88,
                      104,
                      700,
                      745,
                      1e5,
                      1e6,
                      1e30,
                      L::min(),
                      L::denorm_min(),
                      L::max(),
                      L::infinity(),
                      L::epsilon()};
  for (int i = 1; i <= 64; ++i) {
    const T multiple = static_cast<T>(i * 1.5707963267948966);
    v.insert(v.end(), {multiple, std::nextafter(multiple, T(0)), static_cast<T>(i) / 8,
                       static_cast<T>(std::ldexp(1.0, i))});
  }
  for (const T x : {T(1), T(0.5), T(2.414213562373095), T(0.4142135623730950), T(0.92),
                    T(0.7071067811865476), T(1e5), T(1048576)}) {
    v.insert(v.end(), {std::nextafter(x, T(0)), std::nextafter(x, T(1e30))});
  }
  const size_t count = v.size();
  for (size_t i = 0; i < count; ++i) v.push_back(-v[i]);
  v.push_back(L::quiet_NaN());
  return v;
}

inline void pad(auto& v, auto value) {
  while (v.size() % 64 != 0) v.push_back(value);
}

}  // namespace tandem::jit

#endif  // TANDEM_TESTS_UNIT_JIT_MATH_CHECK_H
