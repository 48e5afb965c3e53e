// The reference interpreter: every family of ops on small cases, aliasing, subgraphs, the epilogue,
// f64 mode, and randomness.
#include "ir/interpreter/interpret.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/base/error.h"
#include "ir/build/builder.h"
#include "ir/random.h"

namespace tandem::ir {
namespace {

using Values = std::vector<double>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

Buffer buffer(DType dtype, const Shape& sizes, const Values& values) {
  Buffer b({dtype, sizes});
  EXPECT_EQ(b.numel(), static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) b.set(static_cast<int64_t>(i), values[i]);
  return b;
}

Values values_of(const Buffer& b) {
  Values values;
  for (int64_t i = 0; i < b.numel(); ++i) values.push_back(b.at(i).to_double());
  return values;
}

void expect_values(const Values& got, const Values& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const bool equal =
        std::isnan(expected[i])
            ? std::isnan(got[i])
            : got[i] == expected[i] && std::signbit(got[i]) == std::signbit(expected[i]);
    EXPECT_TRUE(equal) << "element " << i << ": expected " << expected[i] << ", got " << got[i];
  }
}

class InterpretTest : public testing::Test {
 protected:
  Graph g{"test", Level::Functional};
  GraphSink sink{g};
  Builder b{sink};
  std::vector<Buffer> inputs;
  InterpretOptions options;

  ValueId input(DType dtype, const Shape& sizes, const Values& values) {
    Input in;
    in.name = "x" + std::to_string(inputs.size());
    in.strides = contiguous_strides(sizes);
    inputs.push_back(buffer(dtype, sizes, values));
    return g.add_input(in, {dtype, sizes});
  }
  ValueId f32(const Values& values) {
    return input(DType::F32, {static_cast<int64_t>(values.size())}, values);
  }
  ValueId i64(const Values& values) {
    return input(DType::I64, {static_cast<int64_t>(values.size())}, values);
  }
  void output(ValueId v) {
    Output out;
    out.value = v;
    out.strides = contiguous_strides(g.type(v).sizes);
    g.add_output(out);
  }
  Buffer run(ValueId v) {
    g.outputs().clear();
    output(v);
    return interpret(g, inputs, options)[0];
  }
  void expect(ValueId v, const Values& expected) { expect_values(values_of(run(v)), expected); }
  void expect_error(ValueId v, Errc code, const std::string& text) {
    try {
      run(v);
      ADD_FAILURE() << "no error; expected " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_EQ(error.what(), text);
    }
  }
};

// --- pointwise

TEST_F(InterpretTest, ArithmeticOfFloats) {
  const ValueId x = f32({1, -2, kInf, kNan, -0.0}), y = f32({3, 4, kInf, 1, 0});
  expect(b.add(x, y), {4, 2, kInf, kNan, 0});
  expect(b.sub(x, y), {-2, -6, kNan, kNan, -0.0});
  expect(b.mul(x, -1), {-1, 2, -kInf, kNan, 0});
  expect(b.maximum(x, y), {3, 4, kInf, kNan, 0});
  expect(b.minimum(x, y), {1, -2, kInf, kNan, -0.0});
  expect(b.relu(x), {1, 0, kInf, kNan, 0});
  expect(b.sign(x), {1, -1, 1, 0, 0});
}

TEST_F(InterpretTest, ResultsAreRoundedToTheirDType) {
  const ValueId x = input(DType::F32, {1}, {16777216});
  expect(b.add(x, 1), {16777216});
  expect(b.convert(b.add(b.convert(x, DType::BF16), 65536), DType::F32), {16777216});
  expect(b.div(input(DType::F16, {1}, {1}), 3), {0.333251953125});
  expect(b.add(input(DType::I8, {1}, {127}), 1), {-128});
  expect(b.add(input(DType::Bool, {1}, {1}), input(DType::Bool, {1}, {1})), {1});
}

TEST_F(InterpretTest, F64ModeRoundsNothing) {
  const ValueId x = input(DType::F32, {1}, {16777216});
  options.in_f64 = true;
  const Buffer result = run(b.mul(b.add(x, 1), 0.1));
  EXPECT_EQ(result.dtype(), DType::F64);
  EXPECT_EQ(result.at(0), Number(16777217 * 0.1));
  inputs[0] = buffer(DType::F64, {1}, {1e300});
  EXPECT_EQ(run(b.add(x, 0)).at(0), Number(1e300));
}

TEST_F(InterpretTest, DivisionAndRemainder) {
  const ValueId x = f32({7, -7, 7, -7, 1, 0}), y = f32({2, 2, -2, -2, 0, 0});
  expect(b.div(x, y), {3.5, -3.5, -3.5, 3.5, kInf, kNan});
  expect(b.floor_divide(x, y), {3, -4, -4, 3, kInf, kNan});
  expect(b.remainder(x, y), {1, 1, -1, -1, kNan, kNan});
  expect(b.fmod(x, y), {1, -1, 1, -1, kNan, kNan});
  const ValueId i = i64({7, -7, 7, -7}), j = i64({2, 2, -2, -2});
  expect(b.div(i, j), {3.5, -3.5, -3.5, 3.5});
  expect(b.floor_divide(i, j), {3, -4, -4, 3});
  expect(b.remainder(i, j), {1, 1, -1, -1});
  expect(b.fmod(i, j), {1, -1, 1, -1});
  expect_error(b.remainder(i, 0), Errc::Argument,
               "remainder: integer division by zero; expected a divisor other than 0, got 0");
}

TEST_F(InterpretTest, IntegersWrap) {
  const double smallest = -9223372036854775808.0;
  const ValueId x = i64({smallest});
  expect(b.neg(x), {smallest});
  expect(b.floor_divide(x, -1), {smallest});
  expect(b.remainder(x, -1), {0});
  expect(b.sub(input(DType::U8, {1}, {3}), 5), {254});
}

TEST_F(InterpretTest, Powers) {
  expect(b.pow(f32({2, -2, 0, kNan}), f32({-1, 3, 0, 0})), {0.5, -8, 1, 1});
  expect(b.pow(i64({2, -1, 3, 0}), i64({10, -3, -1, 0})), {1024, -1, 0, 1});
}

TEST_F(InterpretTest, BitsAndShifts) {
  const ValueId x = input(DType::I32, {4}, {-8, 5, 1, 1}),
                n = input(DType::I32, {4}, {1, 1, 31, 32});
  expect(b.shift_right(x, n), {-4, 2, 0, 0});
  expect(b.shift_left(x, n), {-16, 10, -2147483648.0, 0});
  expect(b.bitwise_not(x), {7, -6, -2, -2});
  expect(b.bitwise_not(input(DType::Bool, {2}, {0, 1})), {1, 0});
  expect(b.bitwise_xor(x, 3), {-5, 6, 2, 2});
}

TEST_F(InterpretTest, ComparisonsAndLogic) {
  const ValueId x = f32({1, kNan, 2}), y = f32({1, kNan, 3});
  expect(b.eq(x, y), {1, 0, 0});
  expect(b.ne(x, y), {0, 1, 1});
  expect(b.ge(x, y), {1, 0, 0});
  expect(b.logical_and(x, f32({0, 1, 5})), {0, 1, 1});
  expect(b.isnan(x), {0, 1, 0});
  expect(b.where(b.lt(x, y), x, y), {1, kNan, 2});
}

TEST_F(InterpretTest, Conversions) {
  const ValueId x = f32({1.9, -1.9, kNan, kInf, 300});
  expect(b.convert(x, DType::I8), {1, -1, 0, 127, 127});
  expect(b.convert(x, DType::Bool), {1, 1, 1, 1, 1});
  expect(b.convert(i64({257, -1}), DType::U8), {1, 255});
  expect(b.convert(i64({16777217}), DType::F32), {16777216});
}

TEST_F(InterpretTest, FmaRoundsOnce) {
  const double x = 1 + std::ldexp(1.0, -12);
  const ValueId a = f32({x}), c = f32({-1 - std::ldexp(1.0, -11)});
  expect(b.fma(a, a, c), {std::ldexp(1.0, -24)});
  expect(b.add(b.mul(a, a), c), {0});
}

TEST_F(InterpretTest, Activations) {
  const ValueId x = input(DType::F64, {3}, {-1, 0, 8});
  const auto near = [&](ValueId v, const Values& expected) {
    const Values got = values_of(run(v));
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-9);
  };
  near(b.sigmoid(x), {0.2689414213699951, 0.5, 0.9996646498695336});
  near(b.emit(Op::gelu, {x}, {std::string("none")}), {-0.15865525393145707, 0, 7.999999999999995});
  near(b.emit(Op::gelu, {x}, {std::string("tanh")}), {-0.15880800939172324, 0, 8});
  near(b.emit(Op::silu, {x}), {-0.2689414213699951, 0, 7.997317198956269});
  near(b.emit(Op::elu, {x}, {1.0}), {-0.6321205588285577, 0, 8});
  near(b.emit(Op::softplus, {x}, {1.0, 20.0}),
       {0.31326168751822286, 0.6931471805599453, 8.000335406372896});
  near(b.emit(Op::hardswish, {x}), {-1.0 / 3, 0, 8});
  near(b.emit(Op::log_sigmoid, {x}),
       {-1.3132616875182228, -0.6931471805599453, -0.00033540637289566238});
  near(b.emit(Op::leaky_relu, {x}, {0.1}), {-0.1, 0, 8});
}

TEST_F(InterpretTest, ClampsAndFills) {
  const ValueId x = f32({-2, 0.5, 3, kNan});
  expect(b.clamp(x, -1, 1), {-1, 0.5, 1, kNan});
  expect(b.masked_fill(x, b.gt(x, 0), -kInf), {-2, -kInf, -kInf, kNan});
  expect(b.emit(Op::triu, {b.view(x, {2, 2})}, {Dim(0)}), {-2, 0.5, 0, kNan});
  expect(b.emit(Op::tril, {b.view(x, {2, 2})}, {Dim(-1)}), {0, 0, 3, 0});
}

TEST_F(InterpretTest, OtherComposites) {
  const ValueId x = f32({1, -2, kNan}), y = f32({3, 0, 1});
  const ValueId half = b.full({3}, DType::F32, 0.5), zero = b.full({3}, DType::F32, 0);
  expect(b.pointwise(Op::lerp, {x, y, half}), {2, -1, kNan});
  expect(b.pointwise(Op::addcmul, {x, y, y}, {Number(2)}), {19, -2, kNan});
  expect(b.pointwise(Op::addcmul, {i64({1}), i64({2}), i64({3})}, {Number(-1)}), {-5});
  expect(b.pointwise(Op::addcdiv, {x, y, y}, {Number(2.0)}), {3, kNan, kNan});
  expect(b.pointwise(Op::xlogy, {zero, f32({0, kInf, kNan})}), {0, 0, kNan});
  expect(b.pointwise(Op::logaddexp, {f32({kInf, -kInf, 0}), f32({kInf, -kInf, -kInf})}),
         {kInf, -kInf, 0});
  expect(b.pointwise(Op::copysign, {f32({1, -2, 3}), f32({-0.0, 1, -1})}), {-1, 2, -3});
  expect(b.pointwise(Op::nan_to_num, {f32({kNan, kInf, -kInf}), half, y, zero}), {0.5, 0, 0});
  expect(b.pointwise(Op::frac, {f32({1.25, -1.25, 3})}), {0.25, -0.25, 0});
  expect(b.pointwise(Op::hypot, {f32({3, 0, kInf}), f32({4, 0, kNan})}), {5, 0, kInf});
  expect(b.pointwise(Op::relu6, {i64({-1, 3, 9})}), {0, 3, 6});
  expect(b.isfinite(x), {1, 1, 0});
}

// --- reductions and contractions

TEST_F(InterpretTest, Reductions) {
  const ValueId x = input(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  expect(b.sum(x), {21});
  expect(b.sum(x, {0}), {5, 7, 9});
  expect(b.sum(x, {1}, true), {6, 15});
  expect(b.mean(x, {1}), {2, 5});
  expect(b.var(x, Axes{1}, 1, false), {1, 1});
  expect(b.var(x, Axes{0}, 0, false), {2.25, 2.25, 2.25});
  expect(b.reduce(Op::prod, x, Axes{0}), {4, 10, 18});
  expect(b.reduce(Op::argmax, x, Axes{1}), {2, 2});
  expect(b.reduce(Op::argmin, x, {}), {0});
  expect(b.sum(input(DType::Bool, {3}, {1, 0, 1})), {2});
}

TEST_F(InterpretTest, ReductionsOfNothingAndOfNaN) {
  const ValueId none = input(DType::F32, {2, 0}, {});
  expect(b.sum(none, {1}), {0, 0});
  expect(b.mean(none, {1}), {kNan, kNan});
  expect(b.reduce(Op::all, none, Axes{1}), {1, 1});
  const ValueId x = f32({1, kNan, 5, kNan});
  expect(b.amax(x, {0}), {kNan});
  expect(b.reduce(Op::argmax, x, {}), {1});
  expect(b.reduce(Op::argmin, x, {}), {1});
  expect(b.amax(f32({-0.0, 0}), {0}), {0});
  expect(b.var(f32({1}), {}, 1, false), {kNan});
  expect(b.logsumexp(f32({-kInf, -kInf}), {}, false), {-kInf});
}

TEST_F(InterpretTest, SoftmaxAlongAnyDimension) {
  const double e = std::exp(1.0);
  const ValueId x = input(DType::F64, {2, 2}, {0, 1, 1, 1});
  const Values columns = values_of(run(b.softmax(x, 0)));
  EXPECT_NEAR(columns[0], 1 / (1 + e), 1e-15);
  EXPECT_NEAR(columns[1], 0.5, 1e-15);
  EXPECT_NEAR(columns[2], e / (1 + e), 1e-15);
  EXPECT_NEAR(values_of(run(b.log_softmax(x, 1)))[0], -std::log(1 + e), 1e-15);
}

TEST_F(InterpretTest, LayerNormWithWeightAndBias) {
  const ValueId x = input(DType::F64, {2, 2}, {1, 3, 5, 5});
  const ValueId w = input(DType::F64, {2}, {2, 1}), bias = input(DType::F64, {2}, {0, 10});
  expect(b.layer_norm(x, w, bias, 1, 0), {-2, 11, kNan, kNan});
}

TEST_F(InterpretTest, CrossEntropy) {
  const ValueId x = input(DType::F64, {2, 2}, {0, 0, 0, 0}), t = i64({1, -100});
  expect(b.cross_entropy(x, t, -100, 0, "none"), {std::log(2.0), 0});
  expect(b.cross_entropy(x, t, -100, 0, "mean"), {std::log(2.0)});
  expect_error(b.cross_entropy(x, i64({0, 2}), -100, 0, "sum"), Errc::Index,
               "cross_entropy: target out of range; expected 0 <= target < 2, got 2");
}

TEST_F(InterpretTest, Contractions) {
  const ValueId a = input(DType::F32, {2, 2}, {1, 2, 3, 4}),
                c = input(DType::F32, {2, 2}, {5, 6, 7, 8});
  expect(b.mm(a, c), {19, 22, 43, 50});
  expect(b.addmm(f32({1, 2}), a, c), {20, 24, 44, 52});
  expect(b.matmul(b.expand(a, {2, 2, 2}), f32({1, 1})), {3, 7, 3, 7});
  expect(b.linear(a, c, {}), {17, 23, 39, 53});
  expect(b.mm(input(DType::F32, {1, 0}, {}), input(DType::F32, {0, 2}, {})), {0, 0});
}

TEST_F(InterpretTest, CausalAttention) {
  const ValueId q = input(DType::F64, {1, 2, 1}, {0, 0}), v = input(DType::F64, {1, 2, 1}, {2, 4});
  expect(b.scaled_dot_product_attention(q, q, v, {}, {}, true), {2, 3});
  const ValueId mask = input(DType::Bool, {2, 2}, {0, 1, 1, 1});
  expect(b.scaled_dot_product_attention(q, q, v, mask, {}, false), {4, 3});
}

// --- views, shapes, index

TEST_F(InterpretTest, Views) {
  const ValueId x = input(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  expect(b.t(x), {1, 4, 2, 5, 3, 6});
  expect(b.view(b.t(x), {6}), {1, 4, 2, 5, 3, 6});
  expect(b.slice(x, 1, 0, 3, 2), {1, 3, 4, 6});
  expect(b.select(b.t(x), 0, -1), {3, 6});
  expect(b.expand(b.select(x, 0, 1), {2, 3}), {4, 5, 6, 4, 5, 6});
  expect(b.diagonal(x, 1, 0, 1), {2, 6});
  expect(b.diagonal(x, -1, 0, 1), {4});
  expect(b.as_strided(x, {2, 2}, {1, 2}, 1), {2, 4, 3, 5});
  expect(b.squeeze(b.unsqueeze(x, 1)), {1, 2, 3, 4, 5, 6});
}

TEST_F(InterpretTest, ViewInverses) {
  const ValueId x = input(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6}), y = f32({7, 8});
  expect(b.select_scatter(x, y, 1, 0), {7, 2, 3, 8, 5, 6});
  expect(b.slice_scatter(x, b.view(y, {2, 1}), 1, 2, 3, 1), {1, 2, 7, 4, 5, 8});
  expect(b.emit(Op::diagonal_scatter, {x, y}, {Dim(1), int64_t{0}, int64_t{1}}),
         {1, 7, 3, 4, 5, 8});
  expect(b.emit(Op::as_strided_scatter, {x, y}, {Dims{2}, Dims{3}, Dim(1)}), {1, 7, 3, 4, 8, 6});
}

TEST_F(InterpretTest, Shapes) {
  const ValueId x = input(DType::F32, {2, 2}, {1, 2, 3, 4});
  expect(b.cat(std::vector{x, b.t(x)}, 1), {1, 2, 1, 3, 3, 4, 2, 4});
  expect(b.stack(std::vector{x, x}, 0), {1, 2, 3, 4, 1, 2, 3, 4});
  expect(b.pad(x, Dims{0, 1, 1, 0}, 9), {9, 1, 2, 9, 3, 4, 9, 9, 9});
  expect(b.pad(x, Dims{0, 0, -1, 0}, 9), {2, 4});
  expect(b.flip(x, Axes{1, 0}), {4, 3, 2, 1});
  expect(b.full({2}, DType::BF16, 1), {1, 1});
  expect(b.iota(3, DType::I64, 5, -2), {5, 3, 1});
}

TEST_F(InterpretTest, Indexing) {
  const ValueId x = input(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6}), i = i64({2, 0});
  expect(b.index_select(x, 1, i), {3, 1, 6, 4});
  expect(b.gather(x, 1, b.view(i, {2, 1})), {3, 4});
  expect(b.gather(x, 0, input(DType::I32, {1, 2}, {1, 0})), {4, 2});
  expect(b.index_add(x, 1, i64({0, 0}), input(DType::F32, {2, 2}, {10, 20, 30, 40})),
         {31, 2, 3, 74, 5, 6});
  expect(b.scatter(x, 1, b.view(i, {2, 1}), input(DType::F32, {2, 2}, {10, 20, 30, 40})),
         {1, 2, 10, 30, 5, 6});
  expect(b.scatter(x, 1, b.view(i64({0, 0}), {1, 2}), input(DType::F32, {1, 2}, {10, 20})),
         {20, 2, 3, 4, 5, 6});  // the last of two
  expect(b.scatter_add(x, 1, b.view(i, {2, 1}), input(DType::F32, {2, 2}, {10, 20, 30, 40})),
         {1, 2, 13, 34, 5, 6});
  expect(b.embedding(x, i64({1, 1, 0})), {4, 5, 6, 4, 5, 6, 1, 2, 3});
}

TEST_F(InterpretTest, AnIndexOutOfRangeIsAnError) {
  const ValueId x = input(DType::F32, {1, 5}, {1, 2, 3, 4, 5});
  expect_error(b.gather(x, 1, input(DType::I64, {1, 1}, {7})), Errc::Index,
               "gather: index out of range; expected 0 <= index < 5, got 7");
}

// --- aliasing

class TracedTest : public InterpretTest {
 protected:
  TracedTest() { g.level = Level::Traced; }

  /// An input over the memory of the first one; the test gives it a buffer.
  ValueId alias_of_first(const char* name, const Type& type, const Strides& strides, Dim offset) {
    Input alias;
    alias.name = name;
    alias.strides = strides;
    alias.alias_of = AliasOf{0, offset};
    return g.add_input(std::move(alias), type);
  }
};

TEST_F(TracedTest, WritesShowThroughEveryAlias) {
  const ValueId x = input(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  const ValueId row = b.select(x, 0, 1), column = b.select(b.t(x), 0, 0);
  b.pointwise_in_place(Op::mul, {row, b.number(10, row)});
  expect(b.clone(column), {1, 40});
  expect_values(values_of(inputs[0]), {1, 2, 3, 40, 50, 60});
}

TEST_F(TracedTest, AViewOfATransposedViewStillAliases) {
  const ValueId x = b.clone(input(DType::F32, {2, 2}, {1, 2, 3, 4}));
  const ValueId flat = b.view(b.t(x), {4});
  b.emit_in_place(Op::fill, std::vector{b.slice(flat, 0, 1, 2)}, {Number(9.0)});
  expect(x, {1, 2, 9, 4});
}

TEST_F(TracedTest, AWriteReadsItsOperandsFirst) {
  const ValueId x = input(DType::F32, {2, 2}, {1, 2, 3, 4});
  b.pointwise_in_place(Op::add, {x, b.t(x)});
  expect(x, {2, 5, 5, 8});
}

TEST_F(TracedTest, InputsThatAliasShareTheirStorage) {
  const ValueId x = input(DType::F32, {4}, {1, 2, 3, 4});
  const ValueId y = alias_of_first("part", {DType::F32, {3}}, {1}, 2);  // reaches one past x
  inputs.push_back(buffer(DType::F32, {3}, {0, 0, 5}));
  b.pointwise_in_place(Op::neg, {y});
  expect(x, {1, 2, -3, -4});
  expect_values(values_of(inputs[1]), {-3, -4, -5});
}

TEST_F(TracedTest, InputsAreLaidOutByTheirStrides) {
  const ValueId x = input(DType::F32, {2, 2}, {1, 2, 3, 4});
  g.inputs()[0].strides = {1, 2};
  const ValueId y = alias_of_first("whole", {DType::F32, {4}}, {1}, 0);
  inputs.emplace_back();
  expect(y, {1, 3, 2, 4});
  expect(x, {1, 2, 3, 4});
}

TEST_F(TracedTest, InputsOfTwoDtypesShareBytes) {
  const ValueId x = input(DType::F32, {3}, {1, -2, 3});
  const ValueId y = alias_of_first("bits", {DType::I32, {2}}, {1}, 1);
  inputs.emplace_back();
  b.pointwise_in_place(Op::bitwise_and, {y, b.full({}, DType::I32, 0x7fffffff)});  // |x|
  b.emit_in_place(Op::fill, std::vector{b.slice(x, 0, 2, 3, 1)}, {Number(0.5)});
  expect(x, {1, 2, 0.5});
  expect(y, {0x40000000, 0x3f000000});
}

TEST_F(TracedTest, AnInputOfSmallerElementsSharesParts) {
  const ValueId x = input(DType::I32, {2}, {0x01020304, 0});
  const ValueId y = alias_of_first("bytes", {DType::U8, {3}}, {2}, 1);
  inputs.emplace_back();
  b.pointwise_in_place(Op::bitwise_or, {y, b.full({}, DType::U8, 0x10)});
  expect(x, {0x11021304, 0x1000});
  expect(y, {0x13, 0x11, 0x10});
}

// --- subgraphs, epilogue, options

TEST_F(InterpretTest, CallsRunTheirSubgraph) {
  Graph body("body", Level::Functional);
  GraphSink body_sink(body);
  Builder body_builder(body_sink);
  Input in;
  in.name = "a";
  const Type type{DType::F32, {2}};
  const ValueId a = body.add_input(in, type);
  for (ValueId v : {body_builder.add(a, 1), body_builder.neg(a)}) {
    Output out;
    out.value = v;
    body.add_output(out);
  }
  const ValueId x = f32({1, 2});
  const SubgraphId id = g.add_subgraph(body);
  const std::vector<Type> types(2, type);
  const auto results = b.emit_call(Op::call, std::vector{x}, {id}, types);
  expect(b.mul(results[0], results[1]), {-2, -6});
}

TEST_F(InterpretTest, TheEpilogueWritesInputsAndFindsResults) {
  const ValueId x = input(DType::F32, {2, 2}, {1, 2, 3, 4});
  output(b.mul(x, 2));
  g.outputs()[0].role = Role::MutatedInput;
  g.outputs()[0].target = 0;
  output(x);
  g.epilogue.writes = {InputWrite{0, 0, 1, false}};
  const auto source = [](ResultSource::Kind kind, int index, std::vector<ViewStep> chain) {
    return ResultSource{kind, index, std::move(chain), false};
  };
  const ViewStep row{Op::select, {int64_t{0}, Dim(1)}}, unsqueeze{Op::unsqueeze, {int64_t{0}}};
  g.epilogue.results = {source(ResultSource::Kind::Output, 1, {}),
                        source(ResultSource::Kind::ViewOfInput, 0, {row}),
                        source(ResultSource::Kind::ViewOfResult, 1, {unsqueeze})};
  const auto results = interpret_with_epilogue(g, inputs);
  expect_values(values_of(inputs[0]), {2, 4, 6, 8});
  expect_values(values_of(results[0]), {1, 2, 3, 4});  // a value, taken before the write
  expect_values(values_of(results[1]), {6, 8});
  EXPECT_EQ(to_string(results[2].type()), "f32[1, 2]");
}

TEST_F(InterpretTest, EachEquationsResultCanBeChangedBeforeItsUse) {
  std::string seen;
  options.after_equation = [&](const Evaluated& e, Buffer& result) {
    seen += std::string(name(e.graph.op(e.equation))) + " of " +
            std::to_string(e.operand(0).at(0).to_int()) + ", ";
    result.set(0, result.at(0).to_double() + 1);
  };
  const ValueId x = f32({1, 2});
  expect(b.view(b.neg(b.neg(x)), {1, 2}), {1, 2});
  EXPECT_EQ(seen, "neg of 1, neg of 0, ");
}

TEST_F(InterpretTest, WrongInputsAreRefused) {
  const ValueId x = f32({1, 2});
  const ValueId y = b.neg(x);
  inputs[0] = buffer(DType::F32, {3}, {1, 2, 3});
  expect_error(y, Errc::Argument,
               "interpret: input x0 has the wrong type; expected f32[2], got f32[3]");
  inputs.clear();
  expect_error(y, Errc::Argument, "interpret: wrong number of inputs; expected 1, got 0");
}

TEST_F(InterpretTest, AMillionEquationsInARow) {
  ValueId x = f32({0});
  const ValueId one = b.full({1}, DType::F32, 1);
  for (int i = 0; i < 1'000'000; ++i) x = b.emit(Op::add, {x, one});
  expect(x, {1'000'000});
}

// --- randomness

TEST(Philox, KnownAnswers) {
  using Words = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32_10(0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  static_assert(philox4x32_10(0, 0)[0] == 0x6627e8d5);
  EXPECT_NE(philox4x32_10(1, 0), philox4x32_10(0, 1));
}

TEST(Philox, WordsOfElements) {
  EXPECT_EQ(random_word32(3, 10, 5), philox4x32_10(3, 11)[1]);
  const auto words = philox4x32_10(3, 12);
  EXPECT_EQ(random_word64(3, 10, 5), words[2] | uint64_t{words[3]} << 32);
  EXPECT_EQ(random_counters(DType::F32, 5), 2);
  EXPECT_EQ(random_counters(DType::F64, 5), 3);
}

TEST(Philox, NormalsInvertTheCdf) {
  // Tail probabilities (2 j + 1) 2^-25 and 2^-54, against an independent inverse.
  EXPECT_NEAR(normal_from_word(uint32_t{0}), 5.419983174916869, 2e-6);
  EXPECT_NEAR(normal_from_word(uint32_t{600000} << 8), 1.8021256857669115, 5e-7);
  EXPECT_NEAR(normal_from_word(uint32_t{0x400000} << 8), 0.674489656412197, 1e-7);
  EXPECT_NEAR(normal_from_word(uint64_t{0}), 8.292361075813595, 1e-14);
  EXPECT_NEAR(normal_from_word(uint64_t{1000} << 11), 7.3347380140439435, 1e-14);
  EXPECT_NEAR(normal_from_word(uint64_t{1} << 62), 0.6744897501960816, 1e-15);
  EXPECT_EQ(normal_from_word(0x80000000u), -normal_from_word(uint32_t{0}));
}

class RandomTest : public InterpretTest {
 protected:
  ValueId rng = i64({7, 100});
  ValueId random(Op op, int64_t n, DType dtype, Dim offset) {
    return b.emit(op, {rng}, {Dims{n}, dtype, offset});
  }
};

TEST_F(RandomTest, BitsAreWordsFromTheOffset) {
  expect(random(Op::random_bits, 2, DType::I32, 3),
         {double(int32_t(random_word32(7, 103, 0))), double(int32_t(random_word32(7, 103, 1)))});
  EXPECT_EQ(run(random(Op::random_bits, 2, DType::I64, 3)).at(1),
            Number(static_cast<int64_t>(random_word64(7, 103, 1))));
}

TEST_F(RandomTest, UniformsAreTheTopBits) {
  expect(random(Op::rand, 1, DType::F32, 0), {std::ldexp(random_word32(7, 100, 0) >> 8, -24)});
  expect(random(Op::rand, 1, DType::F64, 0),
         {std::ldexp(double(random_word64(7, 100, 0) >> 11), -53)});
  expect(random(Op::rand, 1, DType::BF16, 0), {std::ldexp(random_word32(7, 100, 0) >> 24, -8)});
}

TEST_F(RandomTest, NormalsHaveTheirMoments) {
  const int64_t n = 100'000;
  for (DType dtype : {DType::F32, DType::F64}) {
    double sum = 0, squares = 0;
    for (double v : values_of(run(random(Op::randn, n, dtype, 0)))) sum += v, squares += v * v;
    EXPECT_NEAR(sum / n, 0, 0.01);
    EXPECT_NEAR(squares / n, 1, 0.02);
  }
}

TEST_F(RandomTest, DropoutScalesWhatItKeeps) {
  const ValueId x = b.full({1000}, DType::F32, 3);
  int kept = 0;
  for (double v : values_of(run(b.emit(Op::dropout, {x, rng}, {0.25, Dim(0)})))) {
    EXPECT_TRUE(v == 0 || v == 4) << v;
    kept += v != 0;
  }
  EXPECT_NEAR(kept, 750, 50);
  expect(b.slice(b.emit(Op::dropout, {x, rng}, {1.0, Dim(0)}), 0, 0, 2), {0, 0});
}

}  // namespace
}  // namespace tandem::ir
