// Emitted kernels against the kernel interpreter: structure, memory, reductions, errors.
#include "codegen/jit/emit/emit.h"

#include <bit>

#include "codegen/jit/llvm.h"
#include "codegen/jit/object.h"
#include "kernel_writer.h"

namespace tandem::jit {
namespace {

using Kind = Instr::Kind;
using LK = Loop::Kind;

const int64_t kLengths[] = {0, 1, 7, 16, 17, 67, 4099};

/// y = a * x + y-like chain over a vector of n.
Kernel pointwise(int64_t n, DType t = DType::F32, int64_t stride = 1) {
  Writer w;
  const auto a = w.param(t), b = w.param(t), y = w.result(t);
  const auto v = w.loop(LK::Vector, n);
  w.begin(v);
  const Affine at{stride < 0 ? -stride * std::max<int64_t>(n - 1, 0) : 0, {{v, stride}}};
  const auto x = w.load(a, at);
  const auto sum = w.compute(Op::add, {x, w.load(b, {0, {{v, 1}}})}, t);
  w.store(y, at, w.compute(Op::mul, {sum, w.constant(1.25, t)}, t));
  w.end(v);
  return w.k;
}

TEST(Emit, Pointwise) {
  for (int64_t n : kLengths)
    for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I64, DType::I8})
      check(pointwise(n, t), {random_argument(t, n, 1), random_argument(t, n, 2), Argument(t, n)});
}

/// The gradient of `steps` sines, one of the other: a long chain, of which all values are needed
/// again in the end.
Kernel gradient_of_sines(int64_t n, int steps, DType t) {
  Writer w;
  const auto x = w.param(t), y = w.result(t);
  const auto v = w.loop(LK::Vector, n);
  w.begin(v);
  std::vector<InstrId> values{w.load(x, {0, {{v, 1}}})};
  for (int i = 1; i < steps; ++i) values.push_back(w.compute(Op::sin, {values.back()}, t));
  InstrId gradient = w.compute(Op::cos, {values.back()}, t);
  for (int i = steps - 2; i >= 0; --i)
    gradient =
        w.compute(Op::mul, {gradient, w.compute(Op::cos, {values[static_cast<size_t>(i)]}, t)}, t);
  w.store(y, {0, {{v, 1}}}, gradient);
  w.end(v);
  return w.k;
}

TEST(Emit, LongChains) {
  for (int64_t n : {7, 300})
    for (int steps : {6, 14})
      for (DType t : {DType::F32, DType::F64})
        check(gradient_of_sines(n, steps, t), {random_argument(t, n, 5), Argument(t, n)}, 64);
}

TEST(Emit, Strides) {
  for (int64_t n : {1, 2, 7, 8, 16, 67, 131})
    for (int64_t stride : {-1, -3, 2, 5, 300})
      for (DType t : {DType::F32, DType::F64, DType::BF16, DType::I16, DType::I8}) {
        const int64_t size = std::abs(stride) * n;
        check(pointwise(n, t, stride),
              {random_argument(t, size, 1), random_argument(t, n, 2), Argument(t, size)});
      }
}

/// softmax over rows of n, `rows` rows in chunks of `chunk`.
Kernel softmax(int64_t rows, int64_t n, int64_t chunk, int64_t lanes, int64_t block) {
  Writer w;
  const auto in = w.param(DType::F32), out = w.result(DType::F32);
  w.k.locals = {{DType::F32, n}};
  const auto unit = w.loop(LK::Unit, (rows + chunk - 1) / chunk);
  const auto row = w.loop(LK::Serial, chunk, unit, rows);
  const auto a = w.loop(LK::Vector, n), b = w.loop(LK::Vector, n), c = w.loop(LK::Vector, n);
  const auto max = w.accumulator({Combine::Max, DType::F32, a, lanes, block});
  const auto sum = w.accumulator({Combine::Sum, DType::F32, b, lanes, block});
  const auto at = [&](LoopId v) { return Affine{0, {{unit, chunk * n}, {row, n}, {v, 1}}}; };
  w.begin(row);
  w.begin(a);
  w.accumulate(max, {w.load(in, at(a))});
  w.end(a);
  const auto m = w.reduced(max, DType::F32);
  w.begin(b);
  const auto shifted = w.compute(Op::sub, {w.load(in, at(b)), m}, DType::F32);
  const auto e = w.compute(Op::exp, {shifted}, DType::F32);
  w.store(LocalId{0}, {0, {{b, 1}}}, e);
  w.accumulate(sum, {e});
  w.end(b);
  const auto total = w.reduced(sum, DType::F32);
  w.begin(c);
  const auto y = w.load(LocalId{0}, {0, {{c, 1}}});
  w.store(out, at(c), w.compute(Op::div, {y, total}, DType::F32));
  w.end(c);
  w.end(row);
  return w.k;
}

TEST(Emit, Softmax) {
  for (int64_t n : {1, 5, 16, 67, 300, 1024})
    for (int64_t block : {0, 64, 128})
      check(
          softmax(5, n, 2, std::min<int64_t>(64, std::bit_floor(static_cast<uint64_t>(n))), block),
          {random_argument(DType::F32, 5 * n, 3, true), Argument(DType::F32, 5 * n)}, 8);
}

/// One value of n elements by `combine`.
Kernel reduction(Combine combine, DType t, int64_t n, int64_t lanes, int64_t block,
                 int64_t stride = 1) {
  Writer w;
  const bool position = combine == Combine::ArgMax || combine == Combine::ArgMin;
  const DType result = position ? DType::I64 : t;
  const auto x = w.param(t), y = w.result(result);
  const auto v = w.loop(LK::Vector, n);
  const auto acc = w.accumulator({combine, t, v, lanes, block});
  w.begin(v);
  w.accumulate(acc, {w.load(x, {0, {{v, stride}}})});
  w.end(v);
  w.store(y, {0, {}}, w.reduced(acc, result));
  return w.k;
}

TEST(Emit, ReductionsInOrder) {
  for (int64_t n : {0, 1, 17, 67, 4099})
    for (auto [c, t] : {std::pair{Combine::Sum, DType::F32},
                        {Combine::Sum, DType::BF16},
                        {Combine::Prod, DType::F64},
                        {Combine::Max, DType::F32}})
      for (auto [lanes, block] : {std::pair{1, 0}, {4, 0}, {64, 0}, {16, 96}, {1, 1}, {32, 1000}})
        check(reduction(c, t, n, lanes, block),
              {random_argument(t, n, static_cast<uint32_t>(n), true), Argument(t, 1)});
}

TEST(Emit, ReductionsOfSpecialValues) {
  for (int64_t n : {7, 67, 500})
    for (Combine c : {Combine::Sum, Combine::Max, Combine::Min, Combine::ArgMax, Combine::ArgMin})
      for (DType t : {DType::F32, DType::F64})
        for (uint32_t seed : {1u, 2u, 3u, 4u}) {
          const bool position = c == Combine::ArgMax || c == Combine::ArgMin;
          check(reduction(c, t, n, 16, 0),
                {random_argument(t, n, seed), Argument(position ? DType::I64 : t, 1)});
        }
}

TEST(Emit, UnorderedReductions) {
  for (int64_t n : kLengths)
    for (DType t : {DType::I64, DType::I32, DType::U8, DType::Bool, DType::I16})
      for (Combine c : {Combine::Sum, Combine::Prod, Combine::Max, Combine::Min, Combine::Any,
                        Combine::All, Combine::ArgMax, Combine::ArgMin}) {
        const bool logical = c == Combine::Any || c == Combine::All;
        if (logical != (t == DType::Bool)) continue;
        const bool position = c == Combine::ArgMax || c == Combine::ArgMin;
        check(reduction(c, t, n, 1, 100),
              {random_argument(t, n, 5), Argument(position ? DType::I64 : t, 1)});
      }
}

TEST(Emit, ReductionOfClampedChunks) {
  for (int64_t total : {1, 63, 64, 65, 200, 1000}) {
    Writer w;
    const auto x = w.param(DType::F32), y = w.result(DType::F32);
    const int64_t chunk = 100, units = (total + chunk - 1) / chunk;
    const auto u = w.loop(LK::Unit, units);
    const auto v = w.loop(LK::Vector, chunk, u, total);
    const auto acc = w.accumulator({Combine::Sum, DType::F32, v, 16, 0});
    w.begin(v);
    w.accumulate(acc, {w.load(x, {0, {{u, chunk}, {v, 1}}})});
    w.end(v);
    w.store(y, {0, {{u, 1}}}, w.reduced(acc, DType::F32));
    check(w.k, {random_argument(DType::F32, total, 6, true), Argument(DType::F32, units)});
  }
}

/// Column reductions: a Serial loop over rows in a Vector loop over columns.
TEST(Emit, Columns) {
  for (int64_t n : {1, 7, 16, 67, 130})
    for (Combine c : {Combine::Sum, Combine::Max, Combine::ArgMax, Combine::Dot})
      for (DType t : {DType::F32, DType::I64}) {
        Writer w;
        const DType result = c == Combine::ArgMax ? DType::I64 : t;
        const auto x = w.param(t), y = w.result(result);
        const auto v = w.loop(LK::Vector, n), s = w.loop(LK::Serial, 9);
        const auto acc = w.accumulator({c, t, s, 1, 0});
        w.begin(v);
        w.begin(s);
        const auto e = w.load(x, {0, {{v, 1}, {s, n}}});
        if (c == Combine::Dot)
          w.accumulate(acc, {e, w.load(x, {0, {{s, 1}}})});
        else
          w.accumulate(acc, {e});
        w.end(s);
        w.store(y, {0, {{v, 1}}}, w.reduced(acc, result));
        w.end(v);
        check(w.k, {random_argument(t, 9 * std::max<int64_t>(n, 9), 7), Argument(result, n)});
      }
}

/// A register tile of a matrix product: 3 rows of A [3, k] by a vector of columns of B [k, n].
TEST(Emit, Tile) {
  const int64_t k = 20, n = 37;
  Writer w;
  const auto a = w.param(DType::F64), b = w.param(DType::F64), c = w.result(DType::F64);
  const auto v = w.loop(LK::Vector, n), s = w.loop(LK::Serial, k);
  std::vector<AccumulatorId> dots;
  for (int r = 0; r < 3; ++r) dots.push_back(w.accumulator({Combine::Dot, DType::F64, s, 1, 0}));
  w.begin(v);
  w.begin(s);
  const auto right = w.load(b, {0, {{v, 1}, {s, n}}});
  for (int r = 0; r < 3; ++r) w.accumulate(dots[r], {w.load(a, {r * k, {{s, 1}}}), right});
  w.end(s);
  for (int r = 0; r < 3; ++r) w.store(c, {r * n, {{v, 1}}}, w.reduced(dots[r], DType::F64));
  w.end(v);
  const Outcome expected =
      interpreted(w.k, {random_argument(DType::F64, 3 * k, 8, true),
                        random_argument(DType::F64, k * n, 9, true), Argument(DType::F64, 3 * n)});
  for (const Target& t : targets()) {
    if (!t.has("fma")) continue;
    const Outcome actual =
        compiled(w.k,
                 {random_argument(DType::F64, 3 * k, 8, true),
                  random_argument(DType::F64, k * n, 9, true), Argument(DType::F64, 3 * n)},
                 t);
    EXPECT_EQ(actual.arguments[2].bytes, expected.arguments[2].bytes);
  }
}

/// out[i] = table[index[i], i], index checked.
Kernel gather(int64_t n, int64_t rows) {
  Writer w;
  const auto table = w.param(DType::F32), index = w.param(DType::I64), out = w.result(DType::F32);
  const auto v = w.loop(LK::Vector, n);
  w.begin(v);
  const auto i = w.load(index, {0, {{v, 1}}});
  w.store(out, {0, {{v, 1}}}, w.load(table, {0, {{v, 1}}}, {{i, n, rows}}));
  w.end(v);
  return w.k;
}

Argument indices(int64_t n, int64_t rows) {
  Argument a(DType::I64, n);
  for (int64_t i = 0; i < n; ++i) a.set(i, i * 7 % rows);
  return a;
}

TEST(Emit, Gather) {
  for (int64_t n : {1, 7, 16, 67, 300})
    check(gather(n, 11),
          {random_argument(DType::F32, n * 11, 1), indices(n, 11), Argument(DType::F32, n)});
}

TEST(Emit, IndexOutOfRange) {
  for (int64_t n : {1, 7, 16, 67, 300})
    for (int64_t value : {int64_t{-1}, int64_t{11}, INT64_MIN, INT64_MAX}) {
      const int64_t where = n / 2;
      std::vector<Argument> arguments = {random_argument(DType::F32, n * 11, 1), indices(n, 11),
                                         Argument(DType::F32, n)};
      arguments[1].set(where, value);
      if (where + 1 < n) arguments[1].set(where + 1, 12);
      const Kernel k = gather(n, 11);
      for (const Target& t : targets()) {
        const Outcome o = compiled(k, arguments, t);
        ASSERT_EQ(o.status, 1);
        EXPECT_EQ(o.error.instruction, 2);
        EXPECT_EQ(o.error.value, value);
        EXPECT_EQ(o.error.extent, 11);
        EXPECT_EQ(o.arguments[2].get(where).to_double(), 0);  // nothing is stored there
      }
    }
}

/// out[index[r], c] += x[r, c]
TEST(Emit, ScatterAdd) {
  const int64_t rows = 9, n = 19, slots = 4;
  Writer w;
  const auto index = w.param(DType::I64), x = w.param(DType::F32),
             out = w.param(DType::F32, Param::Use::ReadWrite);
  const auto r = w.loop(LK::Serial, rows), v = w.loop(LK::Vector, n);
  w.begin(r);
  const auto i = w.load(index, {0, {{r, 1}}});
  w.begin(v);
  const auto old = w.load(out, {0, {{v, 1}}}, {{i, n, slots}});
  const auto sum = w.compute(Op::add, {old, w.load(x, {0, {{r, n}, {v, 1}}})}, DType::F32);
  w.store(out, {0, {{v, 1}}}, sum, {{i, n, slots}});
  w.end(v);
  w.end(r);
  check(w.k, {indices(rows, slots), random_argument(DType::F32, rows * n, 2, true),
              random_argument(DType::F32, slots * n, 3, true)});
}

TEST(Emit, IntegerDivisionByZero) {
  for (Op op : {Op::floor_divide, Op::remainder, Op::fmod})
    for (int64_t n : {1, 16, 67}) {
      Writer w;
      const auto a = w.param(DType::I32), b = w.param(DType::I32), y = w.result(DType::I32);
      const auto v = w.loop(LK::Vector, n);
      w.begin(v);
      const auto x = w.load(a, {0, {{v, 1}}});
      const auto q = w.compute(op, {x, w.load(b, {0, {{v, 1}}})}, DType::I32);
      w.store(y, {0, {{v, 1}}}, q);
      w.end(v);
      Argument divisor(DType::I32, n);
      for (int64_t i = 0; i < n; ++i) divisor.set(i, i % 5 == 4 ? -1 : i - 7 == 0 ? 3 : i - 7);
      check(w.k, {random_argument(DType::I32, n, 4), divisor, Argument(DType::I32, n)});
      divisor.set(n / 2, 0);
      for (const Target& t : targets()) {
        const Outcome o =
            compiled(w.k, {random_argument(DType::I32, n, 4), divisor, Argument(DType::I32, n)}, t);
        ASSERT_EQ(o.status, 1);
        EXPECT_EQ(o.error.instruction, q.index);
        EXPECT_EQ(o.error.extent, 0);
      }
    }
}

TEST(Emit, IndexValues) {
  Writer w;
  const int64_t rows = 5, n = 21;
  const auto y = w.result(DType::I64), m = w.result(DType::Bool);
  const auto u = w.loop(LK::Unit, rows), v = w.loop(LK::Vector, n);
  w.begin(v);
  const auto column = w.push({.kind = Kind::Index, .dtype = DType::I64, .affine = {3, {{v, 2}}}});
  const auto row = w.push({.kind = Kind::Index, .dtype = DType::I64, .affine = {0, {{u, 4}}}});
  const auto both =
      w.push({.kind = Kind::Index, .dtype = DType::I64, .affine = {-1, {{u, 100}, {v, 1}}}});
  w.store(y, {0, {{u, n}, {v, 1}}}, both);
  w.store(m, {0, {{u, n}, {v, 1}}}, w.compute(Op::le, {column, row}, DType::Bool));
  w.end(v);
  check(w.k, {Argument(DType::I64, rows * n), Argument(DType::Bool, rows * n)});
}

TEST(Emit, RandomBits) {
  for (DType t : {DType::I32, DType::I64})
    for (int64_t n : {1, 7, 16, 67, 256})
      for (int64_t first : {0, 6}) {
        Writer w;
        const auto rng = w.param(DType::I64), y = w.result(t);
        const auto u = w.loop(LK::Unit, 3), v = w.loop(LK::Vector, n);
        const auto key = w.load(rng, {0, {}}), base = w.load(rng, {1, {}});
        w.begin(v);
        const auto bits = w.push({.kind = Kind::RandomBits,
                                  .dtype = t,
                                  .args = {key, base},
                                  .number = int64_t{17},
                                  .affine = {first, {{u, n}, {v, 1}}}});
        w.store(y, {0, {{u, n}, {v, 1}}}, bits);
        w.end(v);
        Argument words(DType::I64, 2);
        words.set(0, int64_t{0x123456789abcdef0});
        words.set(1, int64_t{0x1ffffffff});
        check(w.k, {words, Argument(t, 3 * n)});
      }
}

// At some of the offsets the stores are aligned, at the others not.
TEST(Emit, StreamedStores) {
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::I8, DType::Bool})
    for (int64_t n : {7, 64, 67, 300})
      for (int64_t offset = 0; offset < 16; ++offset) {
        Writer w;
        const auto x = w.param(t), y = w.result(t);
        w.k.params[y].streams = true;
        const auto row = w.loop(LK::Unit, 3), v = w.loop(LK::Vector, n);
        w.begin(v);
        w.store(y, {offset, {{row, n}, {v, 1}}}, w.load(x, {0, {{row, n}, {v, 1}}}));
        w.end(v);
        check(w.k,
              {random_argument(t, 3 * n, static_cast<uint32_t>(n)), Argument(t, 3 * n + offset)});
      }
}

bool has_streaming_stores(const codegen::Kernel& kernel, const Target& target) {
  llvm::LLVMContext context;
  llvm::Module module("test", context);
  emit_kernel(module, Form{kernel}, target, "kernel");
  return compile_assembly(module, target).find("movnt") != std::string::npos;
}

// Other stores complete the cache lines: vectors past the caches would wait for memory each.
TEST(Emit, RowsShorterThanACacheLineAreNotStreamed) {
  for (const int64_t columns : {2, 4, 64}) {
    Writer w;
    const auto x = w.param(DType::F64), y = w.result(DType::F64);
    w.k.params[y].streams = true;
    const auto row = w.loop(LK::Unit, 50), v = w.loop(LK::Vector, columns);
    w.begin(v);
    w.store(y, {0, {{row, 70}, {v, 1}}}, w.load(x, {0, {{row, columns}, {v, 1}}}));
    w.end(v);
    check(w.k, {random_argument(DType::F64, 50 * columns, 1), Argument(DType::F64, 50 * 70)});
    for (const Target& target : targets())
      EXPECT_EQ(has_streaming_stores(w.k, target), columns == 64);
  }
}

// Rows and columns exchanged, in lines where they are whole and aligned.
TEST(Emit, StreamedTransposition) {
  for (DType t : {DType::F32, DType::F64, DType::BF16})
    for (int64_t n : {48, 37})
      for (int64_t m : {64, 50})
        for (bool inner_rows : {false, true}) {
          Writer w;
          const auto x = w.param(t), y = w.result(t);
          w.k.params[y].streams = true;
          const auto u = w.loop(LK::Unit, 2);
          const auto outer = w.loop(LK::Serial, inner_rows ? m : n);
          const auto inner = w.loop(LK::Vector, inner_rows ? n : m);
          const LoopId row = inner_rows ? inner : outer, column = inner_rows ? outer : inner;
          const codegen::Affine to{
              0, {{u, n * m}, {outer, column == outer ? n : 1}, {inner, column == inner ? n : 1}}};
          const codegen::Affine from{
              0, {{u, n * m}, {outer, row == outer ? m : 1}, {inner, row == inner ? m : 1}}};
          w.begin(outer);
          w.begin(inner);
          w.store(y, to, w.load(x, from));
          w.end(inner);
          w.end(outer);
          check(w.k,
                {random_argument(t, 2 * n * m, static_cast<uint32_t>(n)), Argument(t, 2 * n * m)});
        }
}

// What streams is the param, not the local of the same number.
TEST(Emit, TranspositionIntoALocalIsNotStreamed) {
  constexpr int64_t kSide = 64;
  Writer w;
  const auto x = w.param(DType::F32), y = w.result(DType::F32);
  w.k.params[y].streams = true;
  w.k.locals = {{DType::F32, 1}, {DType::F32, kSide * kSide}};
  const LocalId tile{y.index};
  const auto outer = w.loop(LK::Serial, kSide), inner = w.loop(LK::Vector, kSide);
  const auto each = w.loop(LK::Serial, kSide * kSide);
  w.begin(outer);
  w.begin(inner);
  w.store(tile, {0, {{outer, 1}, {inner, kSide}}}, w.load(x, {0, {{outer, kSide}, {inner, 1}}}));
  w.end(inner);
  w.end(outer);
  w.begin(each);
  w.store(y, {0, {{each, 1}}}, w.load(tile, {0, {{each, 1}}}));
  w.end(each);
  check(w.k, {random_argument(DType::F32, kSide * kSide, 1), Argument(DType::F32, kSide * kSide)});
  for (const Target& target : targets()) EXPECT_FALSE(has_streaming_stores(w.k, target));
}

TEST(Emit, ScalarKernel) {
  Writer w;
  const auto x = w.param(DType::F32), y = w.result(DType::F32);
  const auto u = w.loop(LK::Unit, 3), o = w.loop(LK::Unit, 5);
  const auto s = w.loop(LK::Serial, 6);
  const auto acc = w.accumulator({Combine::Sum, DType::F32, s, 1, 0});
  w.begin(s);
  w.accumulate(acc, {w.compute(Op::cos, {w.load(x, {0, {{u, 30}, {o, 6}, {s, 1}}})}, DType::F32)});
  w.end(s);
  w.store(y, {0, {{u, 5}, {o, 1}}}, w.reduced(acc, DType::F32));
  check(w.k, {random_argument(DType::F32, 90, 4, true), Argument(DType::F32, 15)}, 64);
}

TEST(Emit, EqualKernelsCompileOnce) {
  Kernel a = pointwise(100), b = pointwise(100), c = pointwise(101);
  b.name = "other";
  const Kernel all[] = {a, b, c};
  const CompiledKernels first = compile_kernels(all);
  EXPECT_EQ(first.functions[0], first.functions[1]);
  EXPECT_NE(first.functions[0], first.functions[2]);
  EXPECT_EQ(compile_kernels({&b, 1}).functions[0], first.functions[0]);
  EXPECT_TRUE(compile_kernels({}).functions.empty());
}

}  // namespace
}  // namespace tandem::jit
