// Kernels written by hand: verifier, printer, hash, and the kernel interpreter.
#include "codegen/loops/kernel.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/base/error.h"

namespace tandem::codegen {
namespace {

using ir::DType;
using ir::Op;
using Kind = Instr::Kind;

/// Appends instructions to a kernel.
struct Writer {
  Kernel k;
  InstrId push(Instr i) {
    k.code.push_back(std::move(i));
    return {static_cast<uint32_t>(k.code.size()) - 1};
  }
  LoopId loop(Loop::Kind kind, int64_t extent, LoopId clamp_loop = {}, int64_t total = 0) {
    return k.loops.add({kind, extent, clamp_loop, total});
  }
  void begin(LoopId l) { push({.kind = Kind::LoopBegin, .loop = l}); }
  void end(LoopId l) { push({.kind = Kind::LoopEnd, .loop = l}); }
  DType dtype(ParamId p) const { return k.params[p].dtype; }
  DType dtype(LocalId l) const { return k.locals[l].dtype; }
  static Access access(ParamId p, Affine a) { return {.param = p, .index = std::move(a)}; }
  static Access access(LocalId l, Affine a) { return {.local = l, .index = std::move(a)}; }
  template <class Buffer>
  InstrId load(Buffer b, Affine a) {
    return push({.kind = Kind::Load, .dtype = dtype(b), .access = access(b, std::move(a))});
  }
  template <class Buffer>
  void store(Buffer b, Affine a, InstrId value) {
    push({.kind = Kind::Store,
          .dtype = dtype(b),
          .args = {value},
          .access = access(b, std::move(a))});
  }
  InstrId compute(Op op, InstrArgs args, DType t = DType::F32) {
    return push({.kind = Kind::Compute, .dtype = t, .op = op, .args = std::move(args)});
  }
};

constexpr LocalId kLocal{0};
constexpr Param kRead{DType::F32, Param::Use::Read};
constexpr Param kWrite{DType::F32, Param::Use::Write};

/// y = softmax(x) over rows of 5, two rows a unit, 3 rows.
Kernel softmax() {
  Writer w;
  w.k.name = "softmax";
  w.k.params = {kRead, kWrite};
  w.k.locals = {{DType::F32, 5}};
  const auto unit = w.loop(Loop::Kind::Unit, 2);
  const auto row = w.loop(Loop::Kind::Serial, 2, unit, 3);
  const auto a = w.loop(Loop::Kind::Vector, 5), b = w.loop(Loop::Kind::Vector, 5),
             c = w.loop(Loop::Kind::Vector, 5);
  w.k.accumulators = {{Combine::Max, DType::F32, a, 4, 0}, {Combine::Sum, DType::F32, b, 4, 0}};
  const auto at = [&](LoopId v) { return Affine{0, {{unit, 10}, {row, 5}, {v, 1}}}; };
  w.begin(row);
  w.begin(a);
  const auto x = w.load(ParamId{0}, at(a));
  w.push({.kind = Kind::Accumulate, .accumulator = {0}, .args = {x}});
  w.end(a);
  const auto max = w.push({.kind = Kind::Reduced, .accumulator = {0}});
  w.begin(b);
  const auto e = w.compute(Op::exp, {w.compute(Op::sub, {w.load(ParamId{0}, at(b)), max})});
  w.store(kLocal, {0, {{b, 1}}}, e);
  w.push({.kind = Kind::Accumulate, .accumulator = {1}, .args = {e}});
  w.end(b);
  const auto sum = w.push({.kind = Kind::Reduced, .accumulator = {1}});
  w.begin(c);
  w.store(ParamId{1}, at(c), w.compute(Op::div, {w.load(kLocal, {0, {{c, 1}}}), sum}));
  w.end(c);
  w.end(row);
  return w.k;
}

TEST(Kernel, SoftmaxRuns) {
  const Kernel k = softmax();
  verify(k);
  std::vector<float> x(15), y(15);
  for (int i = 0; i < 15; ++i) x[i] = std::sin(static_cast<float>(i));
  void* params[] = {x.data(), y.data()};
  KernelError error;
  ASSERT_EQ(interpret(k, params, 0, k.units(), &error), 0);
  for (int r = 0; r < 3; ++r) {
    double sum = 0;
    for (int c = 0; c < 5; ++c) sum += std::exp(x[5 * r + c]);
    for (int c = 0; c < 5; ++c) EXPECT_NEAR(y[5 * r + c], std::exp(x[5 * r + c]) / sum, 1e-6);
  }
}

TEST(Kernel, UnitsAndScratch) {
  EXPECT_EQ(softmax().units(), 2);
  EXPECT_EQ(scratch_bytes(softmax()), 64u + 2 * kLocalGap);  // a gap before and behind
}

TEST(Kernel, EqualityIgnoresNames) {
  Kernel a = softmax(), b = softmax();
  b.name = "other";
  EXPECT_EQ(a, b);
  EXPECT_EQ(hash(a), hash(b));
  b.code[4].dtype = DType::F64;
  EXPECT_FALSE(a == b);
  EXPECT_NE(hash(a), hash(b));
  Kernel c = softmax();
  c.params[ParamId{1}].streams = true;
  EXPECT_FALSE(a == c);
  EXPECT_NE(hash(a), hash(c));
  EXPECT_NE(content(a), content(c));
  EXPECT_NE(print(c).find("p1 write f32 streams"), std::string::npos) << print(c);
  Kernel d = softmax();
  d.code[4].access.again = true;
  EXPECT_FALSE(a == d);
  EXPECT_NE(hash(a), hash(d));
}

TEST(Kernel, Prints) {
  const std::string text = print(softmax());
  EXPECT_NE(text.find("kernel softmax(p0 read f32, p1 write f32)"), std::string::npos) << text;
  EXPECT_NE(text.find("serial i1 < 2 and < 3 - 2 * i0 {"), std::string::npos) << text;
  EXPECT_NE(text.find("load p0[10 * i0 + 5 * i1 + i2]"), std::string::npos) << text;
}

TEST(Kernel, VerifierRefuses) {
  Kernel open = softmax();
  open.code.pop_back();
  EXPECT_THROW(verify(open), ir::InternalError);
  Kernel undefined = softmax();
  undefined.code.back().kind = Kind::Compute;
  undefined.code.back().args = {{2}};  // a value of a loop that is closed
  EXPECT_THROW(verify(undefined), ir::InternalError);
  Kernel read_only = softmax();
  read_only.params[ParamId{1}].use = Param::Use::Read;
  EXPECT_THROW(verify(read_only), ir::InternalError);
  Kernel streams_input = softmax();
  streams_input.params[ParamId{0}].streams = true;
  EXPECT_THROW(verify(streams_input), ir::InternalError);
  Kernel two_blocks = softmax();
  Accumulator other = two_blocks.accumulators[AccumulatorId{0}];
  other.block = 2;
  two_blocks.accumulators.add(other);
  EXPECT_THROW(verify(two_blocks), ir::InternalError);
}

TEST(Kernel, IndexOutOfRangeStops) {
  Writer w;
  w.k.params = {kRead, {DType::I64, Param::Use::Read}, kWrite};
  const auto v = w.loop(Loop::Kind::Vector, 3);
  w.begin(v);
  const auto index = w.load(ParamId{1}, {0, {{v, 1}}});
  const auto x = w.push({.kind = Kind::Load,
                         .dtype = DType::F32,
                         .access = {.param = {0}, .indirect = {{index, 1, 4}}}});
  w.store(ParamId{2}, {0, {{v, 1}}}, x);
  w.end(v);
  verify(w.k);
  float table[] = {1, 2, 3, 4}, out[3] = {};
  int64_t indices[] = {3, 4, 0};
  void* params[] = {table, indices, out};
  KernelError error;
  EXPECT_EQ(interpret(w.k, params, 0, 1, &error), 1);
  EXPECT_EQ(error.instruction, x.index);
  EXPECT_EQ(error.value, 4);
  EXPECT_EQ(error.extent, 4);
}

TEST(Kernel, DotOverSerialLoop) {
  Writer w;
  w.k.params = {{DType::I64, Param::Use::Read},
                {DType::I64, Param::Use::Read},
                {DType::I64, Param::Use::Write}};
  const auto v = w.loop(Loop::Kind::Vector, 2), s = w.loop(Loop::Kind::Serial, 3);
  w.k.accumulators = {{Combine::Dot, DType::I64, s, 1, 0}};
  w.begin(v);
  w.begin(s);
  const auto a = w.load(ParamId{0}, {0, {{s, 1}}}), b = w.load(ParamId{1}, {0, {{v, 1}, {s, 2}}});
  w.push({.kind = Kind::Accumulate, .accumulator = {0}, .args = {a, b}});
  w.end(s);
  w.store(ParamId{2}, {0, {{v, 1}}},
          w.push({.kind = Kind::Reduced, .dtype = DType::I64, .accumulator = {0}}));
  w.end(v);
  verify(w.k);
  int64_t x[] = {1, 2, 3}, m[] = {1, 2, 3, 4, 5, 6}, y[2] = {};
  void* params[] = {x, m, y};
  KernelError error;
  ASSERT_EQ(interpret(w.k, params, 0, 1, &error), 0);
  EXPECT_EQ(y[0], 22);
  EXPECT_EQ(y[1], 28);
}

}  // namespace
}  // namespace tandem::codegen
