// Kernels written by hand, and the comparison of emitted code with the kernel interpreter.
#ifndef TANDEM_TESTS_UNIT_JIT_KERNEL_WRITER_H
#define TANDEM_TESTS_UNIT_JIT_KERNEL_WRITER_H

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "codegen/jit/compile.h"
#include "codegen/loops/scalar_functions.h"
#include "ir/buffer.h"
#include "machine/cpu.h"

namespace tandem::jit {

using codegen::Access;
using codegen::Accumulator;
using codegen::AccumulatorId;
using codegen::Affine;
using codegen::Combine;
using codegen::Instr;
using codegen::InstrId;
using codegen::Kernel;
using codegen::KernelError;
using codegen::LocalId;
using codegen::Loop;
using codegen::LoopId;
using codegen::Param;
using codegen::ParamId;
using ir::DType;
using ir::Op;

/// Appends instructions to a kernel.
struct Writer {
  Kernel k;

  InstrId push(Instr i) {
    k.code.push_back(std::move(i));
    return {static_cast<uint32_t>(k.code.size()) - 1};
  }
  ParamId param(DType dtype, Param::Use use = Param::Use::Read) {
    return k.params.add({dtype, use});
  }
  ParamId result(DType dtype) { return param(dtype, Param::Use::Write); }
  LoopId loop(Loop::Kind kind, int64_t extent, LoopId clamp_loop = {}, int64_t total = 0) {
    return k.loops.add({kind, extent, clamp_loop, total});
  }
  void begin(LoopId l) { push({.kind = Instr::Kind::LoopBegin, .loop = l}); }
  void end(LoopId l) { push({.kind = Instr::Kind::LoopEnd, .loop = l}); }
  InstrId load(ParamId p, Affine a, std::vector<Access::Indirect> indirect = {}) {
    return push({.kind = Instr::Kind::Load,
                 .dtype = k.params[p].dtype,
                 .access = {.param = p, .index = std::move(a), .indirect = std::move(indirect)}});
  }
  InstrId load(LocalId l, Affine a) {
    return push({.kind = Instr::Kind::Load,
                 .dtype = k.locals[l].dtype,
                 .access = {.local = l, .index = std::move(a)}});
  }
  void store(ParamId p, Affine a, InstrId value, std::vector<Access::Indirect> indirect = {}) {
    push({.kind = Instr::Kind::Store,
          .dtype = k.params[p].dtype,
          .args = {value},
          .access = {.param = p, .index = std::move(a), .indirect = std::move(indirect)}});
  }
  void store(LocalId l, Affine a, InstrId value) {
    push({.kind = Instr::Kind::Store,
          .dtype = k.locals[l].dtype,
          .args = {value},
          .access = {.local = l, .index = std::move(a)}});
  }
  InstrId constant(double v, DType t) {
    return push({.kind = Instr::Kind::Constant, .dtype = t, .number = v});
  }
  InstrId compute(Op op, codegen::InstrArgs args, DType t) {
    return push({.kind = Instr::Kind::Compute, .dtype = t, .op = op, .args = std::move(args)});
  }
  AccumulatorId accumulator(Accumulator a) { return k.accumulators.add(a); }
  void accumulate(AccumulatorId accumulator, codegen::InstrArgs args) {
    push({.kind = Instr::Kind::Accumulate, .accumulator = accumulator, .args = std::move(args)});
  }
  InstrId reduced(AccumulatorId accumulator, DType t) {
    return push({.kind = Instr::Kind::Reduced, .dtype = t, .accumulator = accumulator});
  }
};

/// The instruction sets of this CPU, widest first.
inline std::vector<Target> targets() {
  std::vector<Target> all;
  for (const char* isa : {"avx512", "avx2", "sse"}) {
    const auto f = machine::lower_features(machine::cpu_features(), isa);
    Target t{machine::feature_string(f), f.vector_bytes};
    if (all.empty() || !(all.back() == t)) all.push_back(std::move(t));
  }
  return all;
}

/// A kernel argument: elements of one dtype.
struct Argument {
  DType dtype = DType::F32;
  std::vector<std::byte> bytes;

  Argument(DType t, int64_t count) : dtype(t), bytes(ir::size_of(t) * static_cast<size_t>(count)) {}
  int64_t count() const { return static_cast<int64_t>(bytes.size() / ir::size_of(dtype)); }
  std::byte* at(int64_t i) { return bytes.data() + static_cast<size_t>(i) * ir::size_of(dtype); }
  const std::byte* at(int64_t i) const { return const_cast<Argument*>(this)->at(i); }
  ir::Number get(int64_t i) const { return ir::load_element(at(i), dtype); }
  void set(int64_t i, const ir::Number& v) { ir::store_element(at(i), dtype, v); }
};

/// Values of all magnitudes with zeros, infinities and NaN among them (or plain ones around 0).
inline Argument random_argument(DType dtype, int64_t count, uint32_t seed, bool plain = false) {
  Argument a(dtype, count);
  std::mt19937 rng(seed);
  std::normal_distribution<double> normal;
  const double special[] = {0.0, -0.0, 1.0, -1.0, 0.5, INFINITY, -INFINITY, NAN, 1e-40, 3e38};
  for (int64_t i = 0; i < count; ++i) {
    if (!ir::is_floating(dtype)) {
      const int64_t small = static_cast<int64_t>(rng() % 21) - 10;
      const auto wide = static_cast<int64_t>((uint64_t{rng()} << 32) | rng());
      a.set(i, dtype == DType::Bool ? small > 0 : !plain && rng() % 3 == 0 ? wide : small);
    } else if (!plain && rng() % 4 == 0) {
      a.set(i, special[rng() % std::size(special)]);
    } else {
      a.set(i, normal(rng) * (plain ? 1 : std::ldexp(1.0, static_cast<int>(rng() % 41) - 20)));
    }
  }
  return a;
}

/// How far apart two values are, in units in the last place of `dtype`; integers: 0 or infinite.
inline double distance(const ir::Number& a, const ir::Number& b, DType dtype) {
  if (!ir::is_floating(dtype)) return a.to_int() == b.to_int() ? 0 : INFINITY;
  const double x = a.to_double(), y = b.to_double();
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) == std::isnan(y) ? 0 : INFINITY;
  if (x == y) return std::signbit(x) == std::signbit(y) ? 0 : INFINITY;
  if (std::isinf(x) || std::isinf(y)) return INFINITY;
  const int digits = dtype == DType::F64    ? 53
                     : dtype == DType::F32  ? 24
                     : dtype == DType::BF16 ? 8
                                            : 11;
  const int lowest = dtype == DType::F64 ? -1074 : dtype == DType::F16 ? -24 : -149;
  const int exponent = std::max(std::ilogb(y == 0 ? x : y) - digits + 1, lowest);
  return std::ldexp(std::abs(x - y), -exponent);
}

/// What a run returned.
struct Outcome {
  int64_t status = 0;
  KernelError error;
  std::vector<Argument> arguments;
};

/// `numbers`: the table that the function reads, if any; `places`: as CompiledKernels::params.
template <class Function>
Outcome run(const Kernel& k, std::vector<Argument> arguments, Function function,
            const std::vector<uint64_t>& numbers = {}, const std::vector<ParamId>& places = {}) {
  Outcome o;
  std::vector<void*> pointers;
  for (Argument& a : arguments) pointers.push_back(a.bytes.data());
  pointers = jit::arguments(pointers, places, numbers);
  std::vector<std::byte> scratch(codegen::scratch_bytes(k) + 64);
  void* aligned = scratch.data();
  size_t space = scratch.size();
  std::align(64, space - 64, aligned, space);
  o.status = function(pointers.data(), 0, k.units(), aligned, &o.error);
  o.arguments = std::move(arguments);
  return o;
}

inline Outcome interpreted(const Kernel& k, const std::vector<Argument>& arguments) {
  return run(k, arguments, [&](void* const* p, int64_t b, int64_t e, void*, KernelError* error) {
    return codegen::interpret(k, p, b, e, error);
  });
}

inline Outcome compiled(const Kernel& k, const std::vector<Argument>& arguments,
                        const Target& target) {
  const CompiledKernels code = compile_kernels({&k, 1}, target);
  return run(k, arguments, code.functions[0], code.numbers[0], code.params[0]);
}

/// Runs `k` in the interpreter and on every target: each argument must end within `ulp` of the
/// interpreter's, and all targets with FMA must agree to the bit (but for NaN payloads).
inline void check(const Kernel& k, const std::vector<Argument>& arguments, double ulp = 0) {
  codegen::verify(k);
  const Outcome expected = interpreted(k, arguments);
  std::vector<Outcome> all;
  for (const Target& target : targets()) {
    SCOPED_TRACE(target.features + "\n" + codegen::print(k));
    const Outcome actual = compiled(k, arguments, target);
    ASSERT_EQ(actual.status, expected.status);
    const bool fused = target.has("fma");
    for (size_t a = 0; a < arguments.size(); ++a) {
      const Argument &e = expected.arguments[a], &x = actual.arguments[a];
      for (int64_t i = 0; i < e.count(); ++i) {
        ASSERT_LE(distance(x.get(i), e.get(i), e.dtype), ulp)
            << "argument " << a << " element " << i << ": " << x.get(i).to_double() << " for "
            << e.get(i).to_double();
        if (fused && !all.empty()) {
          ASSERT_EQ(distance(x.get(i), all[0].arguments[a].get(i), e.dtype), 0)
              << "targets differ in argument " << a << " element " << i;
        }
      }
    }
    all.push_back(actual);
  }
}

}  // namespace tandem::jit

#endif  // TANDEM_TESTS_UNIT_JIT_KERNEL_WRITER_H
