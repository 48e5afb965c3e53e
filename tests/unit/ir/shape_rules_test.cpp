// Shape rules: what they accept, and the text of what they refuse.
#include "ir/shape/shape_rules.h"

#include <gtest/gtest.h>

#include "ir/base/error.h"

namespace tandem::ir {
namespace {

Type f32(const Shape& sizes) { return {DType::F32, sizes}; }
Type i64(const Shape& sizes) { return {DType::I64, sizes}; }
Type boolean(const Shape& sizes) { return {DType::Bool, sizes}; }

std::string infer(Op op, const std::vector<Type>& operands,
                  const std::vector<AttrValue>& attrs = {}) {
  try {
    std::string text;
    for (const Type& type : infer_types(op, operands, attrs))
      text += (text.empty() ? "" : ", ") + to_string(type);
    return text;
  } catch (const Error& error) {
    return std::string(name(error.code())) + " " + error.what();
  }
}

TEST(ShapeRules, EachSizeOfElementsHasItsIntegers) {
  for (DType dtype : {DType::F64, DType::F32, DType::F16, DType::I8, DType::Bool}) {
    const DType integers = integer_of(static_cast<int64_t>(size_of(dtype)));
    EXPECT_TRUE(is_integer(integers)) << name(dtype);
    EXPECT_EQ(size_of(integers), size_of(dtype)) << name(dtype);
  }
}

TEST(ShapeRules, PointwiseOperandsAreEqual) {
  EXPECT_EQ(infer(Op::add, {f32({2}), f32({2})}), "f32[2]");
  EXPECT_EQ(infer(Op::lt, {f32({2}), f32({2})}), "bool[2]");
  EXPECT_EQ(infer(Op::add, {f32({2}), f32({3})}),
            "shape add: operands have different sizes; expected equal sizes, got [2] and [3]");
  EXPECT_EQ(
      infer(Op::add, {f32({2}), i64({2})}),
      "dtype add: operands have different dtypes; expected equal dtypes, got f32[2] and i64[2]");
  EXPECT_EQ(infer(Op::exp, {i64({2})}),
            "dtype exp: operand is not floating; expected f64, f32, bf16 or f16, got i64");
  EXPECT_EQ(infer(Op::sub, {boolean({2}), boolean({2})}),
            "dtype sub: not defined for bool; expected integers or floating operands, got bool");
  EXPECT_EQ(infer(Op::where, {boolean({2}), i64({2}), i64({2})}), "i64[2]");
  EXPECT_EQ(infer(Op::where, {f32({2}), i64({2}), i64({2})}),
            "dtype where: condition is not bool; expected bool, got f32");
}

TEST(ShapeRules, IntegersWhereAtenWantsThem) {
  EXPECT_EQ(infer(Op::bitwise_and, {boolean({2}), boolean({2})}), "bool[2]");
  for (Op shift : {Op::shift_left, Op::shift_right}) {
    const std::string op(name(shift));
    EXPECT_EQ(infer(shift, {i64({2}), i64({2})}), "i64[2]");
    EXPECT_EQ(infer(shift, {boolean({2}), boolean({2})}),
              "dtype " + op + ": operand is not an integer; expected integers, got bool");
    EXPECT_EQ(infer(shift, {f32({2}), f32({2})}),
              "dtype " + op + ": operand is not an integer; expected integers, got f32");
  }
  const auto addcmul = [](const Type& t, Number value) {
    return infer(Op::addcmul, {t, t, t}, {value});
  };
  EXPECT_EQ(addcmul(f32({2}), 0.5), "f32[2]");
  EXPECT_EQ(addcmul(i64({2}), 3), "i64[2]");
  EXPECT_EQ(addcmul(i64({2}), 0.5),
            "dtype addcmul: value is floating; expected an integer value for i64, got 0.5");
  EXPECT_EQ(
      addcmul(boolean({2}), 1),
      "dtype addcmul: not defined for bool; expected integers or floating operands, got bool");
}

TEST(ShapeRules, OperandCounts) {
  EXPECT_EQ(infer(Op::add, {f32({2})}),
            "argument add: wrong number of operands; expected 2 (self, other), got 1");
  EXPECT_EQ(infer(Op::cat, {}, {int64_t{0}}),
            "argument cat: wrong number of operands; expected 1 or more (tensors), got 0");
  EXPECT_EQ(infer(Op::native_layer_norm, {}, {int64_t{1}, 1e-5}),
            "argument native_layer_norm: wrong number of operands; expected 1 to 3 (self, weight, "
            "bias), got 0");
  EXPECT_EQ(infer(Op::neg, {Type::token()}),
            "argument neg: operand is not a tensor; expected tensors, got a token");
}

TEST(ShapeRules, Reductions) {
  const AttrValue order = Dims{};
  EXPECT_EQ(infer(Op::sum, {f32({2, 3, 4})}, {Axes{0, 2}, false, order}), "f32[3]");
  EXPECT_EQ(infer(Op::sum, {i64({2, 3})}, {Axes{1}, true, order}), "i64[2, 1]");
  EXPECT_EQ(infer(Op::sum, {f32({2, 3})}, {Axes{1, 0}, false, order}),
            "argument sum: dims are not ascending; expected ascending dims, got [1, 0]");
  EXPECT_EQ(infer(Op::sum, {f32({2, 3})}, {Axes{}, false, order}),
            "argument sum: no dims to reduce; expected at least one dimension, got []");
  EXPECT_EQ(
      infer(Op::amax, {f32({2, 0})}, {Axes{1}, false, order}),
      "shape amax: dimension 1 is empty; expected at least one element to reduce, got [2, 0]");
  EXPECT_EQ(infer(Op::mean, {i64({2})}, {Axes{0}, false}),
            "dtype mean: operand is not floating; expected f64, f32, bf16 or f16, got i64");
  EXPECT_EQ(infer(Op::argmax, {f32({2, 3})}, {Axes{1}, false, order}), "i64[2]");
}

TEST(ShapeRules, Contractions) {
  const AttrValue any = std::string();
  EXPECT_EQ(infer(Op::mm, {f32({2, 3}), f32({3, 5})}, {any}), "f32[2, 5]");
  EXPECT_EQ(infer(Op::mm, {f32({2, 3}), f32({4, 5})}, {any}),
            "shape mm: inner sizes differ; expected self [n, k] and mat2 [k, m], got [2, 3] and "
            "[4, 5]");
  EXPECT_EQ(infer(Op::mm, {f32({2, 4}), f32({3, 5})}, {any}),
            "shape mm: inner sizes differ; expected self [n, k] and mat2 [k, m], got [2, 4] and "
            "[3, 5]");
  EXPECT_EQ(infer(Op::bmm, {f32({2, 3, 4}), f32({1, 4, 5})}, {any}),
            "shape bmm: batch sizes differ; expected self [b, n, k] and mat2 [b, k, m], got "
            "[2, 3, 4] and [1, 4, 5]");
  EXPECT_EQ(infer(Op::addmm, {f32({5}), f32({2, 3}), f32({3, 5})}, {any}),
            "shape addmm: self does not fit the product; expected self [n, m], mat1 [n, k] and "
            "mat2 [k, m], got [5] and [2, 3] and [3, 5]");
}

TEST(ShapeRules, Views) {
  EXPECT_EQ(infer(Op::slice, {f32({7})}, {int64_t{0}, Dim(1), Dim(6), Dim(2)}), "f32[3]");
  EXPECT_EQ(
      infer(Op::slice, {f32({7})}, {int64_t{0}, Dim(1), Dim(8), Dim(2)}),
      "index slice: range out of bounds; expected 0 <= start <= end <= 7, got start 1 and end "
      "8");
  EXPECT_EQ(infer(Op::diagonal, {f32({3, 5})}, {Dim(3), int64_t{0}, int64_t{1}}), "f32[2]");
  EXPECT_EQ(infer(Op::diagonal, {f32({3, 5})}, {Dim(-9), int64_t{0}, int64_t{1}}), "f32[0]");
  EXPECT_EQ(infer(Op::permute, {f32({3, 5})}, {Axes{1, 1}}),
            "argument permute: dims are not a permutation; expected each of 2 dimensions once, got "
            "[1, 1]");
  EXPECT_EQ(infer(Op::as_strided, {f32({4})}, {Dims{2, 2}, Dims{2, 1}, Dim(1)}),
            "index as_strided: view reaches past its storage; expected at most 4 elements, got 5");
  EXPECT_EQ(infer(Op::select_scatter, {f32({4, 2}), f32({3})}, {int64_t{0}, Dim(1)}),
            "shape select_scatter: src does not fit the viewed part; expected f32[2], got f32[3]");
}

TEST(ShapeRules, IndexAndRandom) {
  EXPECT_EQ(infer(Op::gather, {f32({4, 5}), i64({2, 7})}, {int64_t{1}}), "f32[2, 7]");
  EXPECT_EQ(infer(Op::gather, {f32({4, 5}), i64({5, 1})}, {int64_t{1}}),
            "shape gather: index does not fit; expected index of self's rank, at most self's sizes "
            "but in dim, got [4, 5] and [5, 1]");
  EXPECT_EQ(infer(Op::embedding, {f32({4, 5}), i64({2, 7})}), "f32[2, 7, 5]");
  const std::string no_index = ": index is not an integer; expected i64 or i32, got f32";
  EXPECT_EQ(infer(Op::embedding, {f32({4, 5}), f32({2, 7})}), "dtype embedding" + no_index);
  EXPECT_EQ(infer(Op::gather, {f32({4}), f32({2})}, {int64_t{0}}), "dtype gather" + no_index);
  EXPECT_EQ(infer(Op::index_select, {f32({4}), f32({2})}, {int64_t{0}}),
            "dtype index_select" + no_index);
  EXPECT_EQ(infer(Op::rand, {i64({2})}, {Dims{3}, DType::F32, Dim(0)}), "f32[3]");
  EXPECT_EQ(infer(Op::rand, {i64({3})}, {Dims{3}, DType::F32, Dim(0)}),
            "argument rand: rng has the wrong type; expected i64[2], got i64[3]");
}

TEST(ShapeRules, SizesThatOverflowAreRefused) {
  const Dim huge = int64_t{1} << 40;
  EXPECT_EQ(infer(Op::full, {}, {Dims{huge, huge}, DType::F32, Number(0)}),
            "argument number of elements: 1099511627776 * 1099511627776 overflows 64 bits");
}

}  // namespace
}  // namespace tandem::ir
