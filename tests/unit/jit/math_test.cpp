// Measures the inline math against libm in the next larger type: f32 on a sample of all bit
// patterns, f64 on random ones. Prints the largest error of each function and asserts the bound of
// math_functions(); checks special values and that the bits do not depend on the vector width.
#include "codegen/jit/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "codegen/jit/llvm.h"
#include "codegen/jit/object.h"

namespace tandem::jit {
namespace {

using Loop = void (*)(const void* x, const void* y, void* out, int64_t count);

std::string features() {
  std::string all = "+sse4.1,+sse4.2,+popcnt";
  const auto add = [&](bool has, const char* names) { all += has ? std::string(",") + names : ""; };
  add(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
      "+avx,+avx2,+fma,+f16c,+bmi,+bmi2");
  add(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"),
      "+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512cd");
  return all;
}

// A loop over `count` elements (a multiple of `lanes`), `lanes` at a time.
void add_loop(llvm::Module& module, const Target& target, MathFn fn, bool single, unsigned lanes) {
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
  llvm::Value* result =
      info.arity == 2 ? emit_math(ir, target, fn, x, load(1)) : emit_math(ir, target, fn, x);
  ir.CreateAlignedStore(result, ir.CreateGEP(element, f->getArg(2), i), llvm::Align(4));
  llvm::Value* next = ir.CreateAdd(i, ir.getInt64(lanes));
  i->addIncoming(ir.getInt64(0), entry);
  i->addIncoming(next, ir.GetInsertBlock());
  ir.CreateCondBr(ir.CreateICmpSLT(next, f->getArg(3)), body, end);
  ir.SetInsertPoint(end);
  ir.CreateRetVoid();
}

Code compile_all(bool single, unsigned lanes, const std::string& feature_string) {
  llvm::LLVMContext context;
  llvm::Module module("math", context);
  const Target target{feature_string, feature_string.find("avx512") != std::string::npos ? 64 : 32};
  std::vector<std::string> names;
  for (size_t i = 0; i < math_functions().size(); ++i) {
    add_loop(module, target, static_cast<MathFn>(i), single, lanes);
    names.emplace_back(math_functions()[i].name);
  }
  return Code::load(compile_object(module, target), names);
}

// The code of all functions for this CPU, or with SSE2 alone (any x86-64).
const Code& code(bool single, unsigned lanes, bool sse2 = false) {
  static std::map<std::tuple<bool, unsigned, bool>, Code> compiled;
  const auto key = std::tuple(single, lanes, sse2);
  if (!compiled.contains(key))
    compiled[key] = compile_all(single, lanes, sse2 ? "+sse2" : features());
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

void pad(auto& v, auto value) {
  while (v.size() % 64 != 0) v.push_back(value);
}

constexpr uint64_t kStride = 4099;

struct Samples32 {
  std::vector<float> x, y;
};

// Every kStride-th f32 bit pattern and the special values; for two operands all pairs of specials
// and random pairs.
Samples32 samples32(int arity) {
  Samples32 s;
  const std::vector<float> special = specials<float>();
  if (arity == 1) {
    s.x = special;
    for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += kStride)
      s.x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  } else {
    for (const float a : special) {
      for (const float b : special) s.x.push_back(a), s.y.push_back(b);
    }
    std::mt19937 random(1);
    for (int i = 0; i < 400000; ++i) {
      const bool any = i % 4 == 0;
      s.x.push_back(any ? std::bit_cast<float>(static_cast<uint32_t>(random()))
                        : std::exp2(static_cast<float>(random()) * 0x1p-28f - 8));
      s.y.push_back(any ? std::bit_cast<float>(static_cast<uint32_t>(random()))
                        : static_cast<float>(random()) * 0x1p-27f - 16);
    }
  }
  pad(s.x, 1.0f);
  s.y.resize(s.x.size(), 1.0f);
  return s;
}

struct Samples64 {
  std::vector<double> x, y;
};

Samples64 samples64(int arity) {
  Samples64 s;
  const std::vector<double> special = specials<double>();
  std::mt19937_64 random(2);
  const auto wide = [&] { return std::bit_cast<double>(random()); };
  const auto usual = [&] {
    const double size = std::exp2(static_cast<double>(random()) * 0x1p-64 * 24 - 12);
    return random() % 2 ? size : -size;
  };
  for (const double a : special) {
    if (arity == 1) s.x.push_back(a);
    for (size_t j = 0; arity == 2 && j < special.size(); ++j)
      s.x.push_back(a), s.y.push_back(special[j]);
  }
  for (int i = 0; i < 60000; ++i) {
    s.x.push_back(i % 8 ? usual() : wide());
    s.y.resize(s.x.size() - 1, 1.0);
    s.y.push_back(i % 8 ? usual() : wide());
    if (arity == 2 && i % 2) s.x.back() = std::abs(s.x.back());
  }
  pad(s.x, 1.0);
  s.y.resize(s.x.size(), 1.0);
  return s;
}

template <typename T, typename Exact, typename Samples>
void check_accuracy(const Code& loops, MathFn fn, const Samples& s, double bound) {
  const std::vector<T> out = run(loops, fn, s.x, s.y);
  double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const double error = ulp_error(out[i], reference<Exact>(fn, s.x[i], s.y[i]));
    if (!(error <= worst)) worst = error, at = i;
    if (worst == INFINITY) break;
  }
  std::printf("  %-8s %s %8.3f ulp (bound %.1f) at %a, %a: %a\n",
              math_functions()[static_cast<size_t>(fn)].name.data(), sizeof(T) == 4 ? "f32" : "f64",
              worst, bound, static_cast<double>(s.x[at]), static_cast<double>(s.y[at]),
              static_cast<double>(out[at]));
  EXPECT_LE(worst, bound) << math_functions()[static_cast<size_t>(fn)].name;
}

class Math : public testing::TestWithParam<size_t> {
 protected:
  MathFn fn() const { return static_cast<MathFn>(GetParam()); }
  const MathInfo& info() const { return math_functions()[GetParam()]; }
};

TEST_P(Math, F32IsWithinItsBound) {
  check_accuracy<float, double>(code(true, 16), fn(), samples32(info().arity), info().f32_ulp);
}

TEST_P(Math, F64IsWithinItsBound) {
  check_accuracy<double, long double>(code(false, 8), fn(), samples64(info().arity),
                                      info().f64_ulp);
}

// Without FMA the exact steps are emulated and the polynomials round once more for each term.
TEST_P(Math, CpuWithoutFmaIsNearlyAsGood) {
  check_accuracy<float, double>(code(true, 4, true), fn(), samples32(info().arity),
                                info().f32_ulp + 0.5);
  check_accuracy<double, long double>(code(false, 2, true), fn(), samples64(info().arity),
                                      info().f64_ulp + 0.5);
}

template <typename T, typename Samples>
void check_widths(MathFn fn, const Samples& s, std::initializer_list<unsigned> widths) {
  const std::vector<T> first = run(code(sizeof(T) == 4, *widths.begin()), fn, s.x, s.y);
  for (const unsigned lanes : widths) {
    const std::vector<T> other = run(code(sizeof(T) == 4, lanes), fn, s.x, s.y);
    size_t different = 0;
    for (size_t i = 0; i < other.size(); ++i) different += !same(first[i], other[i]);
    EXPECT_EQ(different, 0u) << math_functions()[static_cast<size_t>(fn)].name << " with " << lanes
                             << " lanes";
  }
}

TEST_P(Math, BitsDoNotDependOnTheVectorWidth) {
  check_widths<float>(fn(), samples32(info().arity), {16, 1, 4, 8, 64});
  check_widths<double>(fn(), samples64(info().arity), {8, 1, 2, 4});
}

INSTANTIATE_TEST_SUITE_P(All, Math, testing::Range(size_t{0}, math_functions().size()),
                         [](const auto& info) {
                           return std::string(math_functions()[info.param].name);
                         });

// Large arguments, where the reduction must know 2/pi to a thousand bits.
TEST(MathLarge, SineOfHugeArguments) {
  std::mt19937_64 random(3);
  std::vector<double> x;
  for (int i = 0; i < 4096; ++i)
    x.push_back(std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 950) - 40));
  x[0] = 0x1.6ac5b262ca1ffp+849;  // the double nearest to a multiple of pi/2
  const auto out = run(code(false, 8), MathFn::cos, x, x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, ulp_error(out[i], std::cos(static_cast<long double>(x[i]))));
  EXPECT_LE(worst, 2.5);
}

}  // namespace
}  // namespace tandem::jit
