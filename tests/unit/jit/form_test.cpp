// Kernels that differ only in numbers: which share code, and that what code reads from a table
// gives the bits of what stands in it.
#include "codegen/jit/form.h"

#include <limits>

#include "tests/unit/jit/kernel_writer.h"

namespace tandem::jit {
namespace {

using LK = Loop::Kind;
using ir::Number;

constexpr int64_t kElements = 67;  // whole vectors and a rest

/// A kernel of a vector loop over x, of `dtype`, in which body(x, constant()) computes what is
/// stored. Each use has a constant of its own.
struct Body {
  Writer w;
  DType dtype;
  Number number;
  ParamId x = w.param(dtype);
  LoopId loop = w.loop(LK::Vector, kElements);
  InstrId element;

  Body(DType t, const Number& n) : dtype(t), number(n) {
    w.begin(loop);
    element = w.load(x, {0, {{loop, 1}}});
  }
  InstrId constant() {
    return w.push({.kind = Instr::Kind::Constant, .dtype = dtype, .number = number});
  }
  void store(InstrId value, DType t) { w.store(w.result(t), {0, {{loop, 1}}}, value); }
  void op(Op op, codegen::InstrArgs args, DType t) { store(w.compute(op, std::move(args), t), t); }
  Kernel take() {
    w.end(loop);
    return std::move(w.k);
  }
};

/// Every op that may read its number, with x on either side, and a store of it.
Kernel all_ops(DType dtype, const Number& number) {
  Body b(dtype, number);
  const InstrId x = b.element;
  for (Op op : {Op::add, Op::sub, Op::mul}) {
    b.op(op, {x, b.constant()}, dtype);
    b.op(op, {b.constant(), x}, dtype);
  }
  for (Op op : {Op::eq, Op::ne, Op::lt, Op::le, Op::gt, Op::ge})
    b.op(op, {x, b.constant()}, DType::Bool);
  const InstrId chooses = b.w.compute(Op::gt, {x, b.constant()}, DType::Bool);
  b.op(Op::where, {chooses, b.constant(), x}, dtype);
  b.store(b.constant(), dtype);
  if (ir::is_floating(dtype)) {
    b.op(Op::div, {x, b.constant()}, dtype);
    b.op(Op::div, {b.constant(), x}, dtype);
    b.op(Op::fma, {x, b.constant(), b.constant()}, dtype);
  }
  return b.take();
}

std::vector<Argument> arguments_of(const Kernel& k) {
  std::vector<Argument> arguments;
  for (const Param& p : k.params) arguments.emplace_back(p.dtype, kElements);
  arguments[0] = random_argument(k.params[ParamId{0}].dtype, kElements, 7);
  return arguments;
}

void expect_same(const Outcome& a, const Outcome& b) {
  for (size_t i = 0; i < a.arguments.size(); ++i)
    for (int64_t e = 0; e < kElements; ++e)
      ASSERT_EQ(distance(a.arguments[i].get(e), b.arguments[i].get(e), a.arguments[i].dtype), 0)
          << "argument " << i << " element " << e << ": " << a.arguments[i].get(e).to_double()
          << " and " << b.arguments[i].get(e).to_double();
}

/// The extremes of a dtype and what is special about it; none a power of two, none 0.
std::vector<Number> ordinary_numbers(DType dtype) {
  if (dtype == DType::U8) return {3, 100, 255};
  if (!ir::is_floating(dtype)) {
    const auto bits = 8 * ir::size_of(dtype);
    const auto largest = static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
    return {3, -3, largest, -largest, 100};
  }
  const double least = dtype == DType::F64 ? 0x1p-1074 : dtype == DType::F16 ? 0x1p-24 : 0x1p-149;
  const double largest = dtype == DType::F64   ? std::numeric_limits<double>::max()
                         : dtype == DType::F16 ? 65504
                                               : 3e38;
  return {NAN,       INFINITY, -INFINITY,
          largest,   -largest, dtype == DType::BF16 ? 0x1.8p-130 : 3 * least,
          1.0 / 3,   3,        -1e-3,
          0x1.8p-14, 5.5};
}

constexpr DType kNumbers[] = {DType::F64, DType::F32, DType::BF16, DType::F16, DType::I64,
                              DType::I32, DType::I16, DType::I8,   DType::U8};

std::vector<Kernel> kernels_of(DType dtype, const std::vector<Number>& numbers) {
  std::vector<Kernel> kernels;
  for (const Number& n : numbers) kernels.push_back(all_ops(dtype, n));
  return kernels;
}

TEST(Forms, KernelsThatDifferInNumbersShareCodeAndHaveTheBitsOfTheirOwn) {
  for (DType dtype : kNumbers)
    for (const Target& target : targets()) {
      SCOPED_TRACE(std::string(ir::name(dtype)) + " " + target.features);
      const std::vector<Kernel> kernels = kernels_of(dtype, ordinary_numbers(dtype));
      std::vector<Outcome> own;
      for (const Kernel& k : kernels) own.push_back(compiled(k, arguments_of(k), target));
      const CompiledKernels code = compile_kernels(kernels, target);
      for (size_t i = 0; i < kernels.size(); ++i) {
        EXPECT_EQ(code.functions[i], code.functions[0]);
        EXPECT_FALSE(code.numbers[i].empty());
        expect_same(run(kernels[i], arguments_of(kernels[i]), code.functions[i], code.numbers[i],
                        code.params[i]),
                    own[i]);
      }
    }
}

TEST(Forms, ZerosAndPowersOfTwoHaveTheBitsOfTheirOwn) {
  for (DType dtype : kNumbers) {
    SCOPED_TRACE(ir::name(dtype));
    std::vector<Number> numbers = {0.0, -0.0, 1, -1, 2, 0.5, 64};
    if (!ir::is_floating(dtype)) numbers = {0, 1, 2, 64, 127};
    const std::vector<Kernel> kernels = kernels_of(dtype, numbers);
    std::vector<Outcome> own;
    for (const Kernel& k : kernels) own.push_back(compiled(k, arguments_of(k), native_target()));
    const CompiledKernels code = compile_kernels(kernels);
    for (size_t i = 0; i < kernels.size(); ++i)
      expect_same(run(kernels[i], arguments_of(kernels[i]), code.functions[i], code.numbers[i],
                      code.params[i]),
                  own[i]);
  }
}

/// x `op` number.
Kernel one_op(Op op, DType dtype, const Number& number) {
  Body b(dtype, number);
  b.op(op, {b.element, b.constant()}, dtype);
  return b.take();
}

/// sin(sin(x) * number), whose code knows whether the product is within [-1, 1].
Kernel sine_of_product(double number) {
  Body b(DType::F32, number);
  const InstrId sine = b.w.compute(Op::sin, {b.element}, DType::F32);
  b.op(Op::sin, {b.w.compute(Op::mul, {sine, b.constant()}, DType::F32)}, DType::F32);
  return b.take();
}

bool is_open(const Kernel& k) { return !opened(k).form.open.empty(); }

TEST(Forms, NumbersThatMakeBetterCodeStayInIt) {
  EXPECT_TRUE(is_open(one_op(Op::mul, DType::F32, 2)));
  EXPECT_TRUE(is_open(one_op(Op::mul, DType::I32, 3)));
  EXPECT_FALSE(is_open(one_op(Op::mul, DType::I32, -4)));
  EXPECT_TRUE(is_open(one_op(Op::div, DType::F32, 3)));
  EXPECT_FALSE(is_open(one_op(Op::div, DType::F32, 0.25)));
  for (Op op : {Op::maximum, Op::minimum, Op::pow, Op::fmod}) {
    EXPECT_FALSE(is_open(one_op(op, DType::F32, 3))) << ir::name(op);
    EXPECT_FALSE(is_open(one_op(op, DType::I32, 3))) << ir::name(op);
  }
  EXPECT_FALSE(is_open(one_op(Op::floor_divide, DType::I32, 3)));
  EXPECT_FALSE(is_open(one_op(Op::logical_and, DType::Bool, true)));
}

TEST(Forms, NumbersThatBoundARangeStayInTheCode) {
  EXPECT_FALSE(is_open(sine_of_product(0.5)));
  EXPECT_TRUE(is_open(sine_of_product(3)));
  const Kernel both[] = {sine_of_product(1e5), sine_of_product(3)};
  const CompiledKernels code = compile_kernels(both);
  for (size_t i = 0; i < 2; ++i)
    expect_same(
        run(both[i], arguments_of(both[i]), code.functions[i], code.numbers[i], code.params[i]),
        compiled(both[i], arguments_of(both[i]), native_target()));
}

TEST(Forms, ANumberThatChangesIsCompiledTwiceAtMost) {
  const Kernel kernels[] = {one_op(Op::add, DType::F32, 3), one_op(Op::add, DType::F32, 5),
                            one_op(Op::add, DType::F32, 7)};
  const CompiledKernels first = compile_kernels({&kernels[0], 1});
  const CompiledKernels second = compile_kernels({&kernels[1], 1});
  const CompiledKernels third = compile_kernels({&kernels[2], 1});
  EXPECT_TRUE(first.numbers[0].empty());
  EXPECT_NE(first.functions[0], second.functions[0]);
  EXPECT_EQ(second.functions[0], third.functions[0]);
  EXPECT_EQ(compile_kernels({&kernels[0], 1}).functions[0], first.functions[0]);
}

TEST(Forms, AreToldApartByTheirKernelsAndByWhatIsOpen) {
  const Form three = opened(one_op(Op::add, DType::F32, 3)).form;
  const Form five = opened(one_op(Op::add, DType::F32, 5)).form;
  EXPECT_EQ(three, five);
  EXPECT_EQ(hash(three), hash(five));
  EXPECT_EQ(content(three), content(five));
  EXPECT_NE(content(three), content(opened(one_op(Op::mul, DType::F32, 3)).form));
  EXPECT_NE(content(three), content(Form{three.kernel}));
  EXPECT_NE(three, Form{three.kernel});
}

}  // namespace
}  // namespace tandem::jit
