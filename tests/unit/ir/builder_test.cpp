// The builder: promotion as torch.result_type, broadcasting, and what each composed function emits.
#include "ir/build/builder.h"

#include <gtest/gtest.h>

#include <set>

#include "ir/base/error.h"

namespace tandem::ir {
namespace {

/// A graph under construction, with some of its values weak.
class TestSink final : public Sink {
 public:
  explicit TestSink(Graph& graph) : graph_(graph), sink_(graph) {}
  const Type& type(ValueId v) const override { return graph_.type(v); }
  bool is_weak(ValueId v) const override { return weak.contains(v.index); }
  bool can_view(ValueId, const Shape&) const override { return viewable; }
  void emit(Op op, std::span<const ValueId> operands, AttrsRef attrs, bool in_place,
            std::span<const Type> types, std::span<ValueId> results) override {
    sink_.emit(op, operands, attrs, in_place, types, results);
  }

  std::set<uint32_t> weak;
  bool viewable = true;

 private:
  Graph& graph_;
  GraphSink sink_;
};

class BuilderTest : public testing::Test {
 protected:
  Graph g{"test", Level::Traced};
  TestSink sink{g};
  Builder b{sink};

  ValueId input(DType dtype, const Shape& sizes = {}) {
    Input in;
    in.name = "x" + std::to_string(g.inputs().size());
    in.strides = contiguous_strides(sizes);
    return g.add_input(in, {dtype, sizes});
  }
  ValueId weak(DType dtype) {
    const ValueId v = input(dtype);
    sink.weak.insert(v.index);
    return v;
  }
  std::string type(ValueId v) { return to_string(g.type(v)); }
  /// The names of the equations so far: "expand add".
  std::string ops() {
    std::string text;
    for (const Equation& e : g.equations())
      text += (text.empty() ? "" : " ") + std::string(name(e.op)) + (e.in_place ? "_" : "");
    return text;
  }
};

#define EXPECT_FAILS(statement, error_code, text)     \
  try {                                               \
    statement;                                        \
    ADD_FAILURE() << "no error; expected " << (text); \
  } catch (const Error& error) {                      \
    EXPECT_EQ(error.code(), error_code);              \
    EXPECT_EQ(std::string(error.what()), text);       \
  }

struct PromotionCase {
  DType a;
  int a_kind;  // 2: with dimensions, 1: 0-d, 0: number
  DType b;
  int b_kind;
  DType expected;
};

TEST_F(BuilderTest, ResultTypeFollowsTorch) {
  using enum DType;
  const PromotionCase cases[] = {
      {F32, 2, I64, 2, F32},   {I32, 2, I64, 2, I64},   {U8, 2, I8, 2, I16},
      {BF16, 2, F16, 2, F32},  {Bool, 2, U8, 2, U8},    {F32, 2, F64, 1, F32},
      {F16, 2, F32, 1, F16},   {I32, 2, I64, 1, I32},   {I32, 2, F64, 1, F64},
      {Bool, 2, I64, 1, I64},  {I64, 2, F32, 0, F32},   {F64, 2, F32, 0, F64},
      {BF16, 2, F64, 0, BF16}, {I8, 2, I64, 0, I8},     {Bool, 2, I64, 0, I64},
      {U8, 2, Bool, 0, U8},    {F32, 1, F64, 1, F64},   {I32, 1, I64, 0, I32},
      {I32, 1, F64, 0, F32},   {I64, 0, F64, 0, F32},   {F32, 1, F64, 0, F32},
      {F16, 1, F32, 0, F16},   {Bool, 1, Bool, 0, Bool}};
  const auto make = [&](DType dtype, int kind) {
    return kind == 0 ? weak(dtype) : input(dtype, kind == 2 ? Shape{3} : Shape{});
  };
  for (const auto& [a, a_kind, b_type, b_kind, expected] : cases) {
    const ValueId both[] = {make(a, a_kind), make(b_type, b_kind)};
    const ValueId swapped[] = {both[1], both[0]};
    EXPECT_EQ(name(b.result_type(both)), name(expected)) << name(a) << " with " << name(b_type);
    EXPECT_EQ(b.result_type(swapped), b.result_type(both));
  }
}

TEST_F(BuilderTest, NumbersDoNotRaiseTensorsWithinTheirCategory) {
  EXPECT_EQ(type(b.mul(input(DType::F32, {2}), 0.5)), "f32[2]");
  EXPECT_EQ(type(b.mul(input(DType::BF16, {2}), 0.5)), "bf16[2]");
  EXPECT_EQ(type(b.add(input(DType::I32, {2}), 1)), "i32[2]");
  EXPECT_EQ(type(b.add(input(DType::I32, {2}), 1.5)), "f32[2]");
  EXPECT_EQ(type(b.add(input(DType::Bool, {2}), 1)), "i64[2]");
  EXPECT_EQ(type(b.sub(1, input(DType::U8, {2}))), "u8[2]");
}

TEST_F(BuilderTest, ResultDTypesByFamily) {
  const ValueId i = input(DType::I64, {2}), f = input(DType::F32, {2});
  EXPECT_EQ(type(b.div(i, i)), "f32[2]");
  EXPECT_EQ(type(b.exp(i)), "f32[2]");
  EXPECT_EQ(type(b.pow(i, 2)), "i64[2]");
  EXPECT_EQ(type(b.floor_divide(i, 2)), "i64[2]");
  EXPECT_EQ(type(b.lt(i, 2.5)), "bool[2]");
  EXPECT_EQ(type(b.logical_and(f, i)), "bool[2]");
  EXPECT_EQ(type(b.isnan(i)), "bool[2]");
  EXPECT_EQ(type(b.sum(input(DType::Bool, {2}))), "i64[]");
  EXPECT_EQ(b.floor(i), i);
  EXPECT_EQ(type(b.where(b.lt(f, 0), 0, f)), "f32[2]");
  EXPECT_EQ(type(b.masked_fill(i, b.lt(f, 0), 7)), "i64[2]");
}

TEST_F(BuilderTest, BroadcastingIsExplicit) {
  const ValueId a = input(DType::F32, {3, 1}), c = input(DType::F32, {4});
  EXPECT_EQ(type(b.add(a, c)), "f32[3, 4]");
  EXPECT_EQ(ops(), "expand expand add");
  EXPECT_FAILS(b.add(input(DType::F32, {2, 3}), c), Errc::Shape,
               "add: sizes do not broadcast; expected equal sizes or 1 in each dimension from the "
               "last, got [2, 3] and [4]");
  EXPECT_EQ(type(b.add(input(DType::F32, {0, 1}), c)), "f32[0, 4]");
}

TEST_F(BuilderTest, NumbersAreFullThenExpand) {
  b.add(input(DType::F32, {2}), 1);
  EXPECT_EQ(ops(), "full expand add");
  EXPECT_EQ(g.attr<Number>(EquationId{0}, Attr::value), Number(1.0));
}

TEST_F(BuilderTest, WhatChangesNothingIsItsOperand) {
  const ValueId x = input(DType::F32, {2, 3});
  EXPECT_EQ(b.view(x, {2, -1}), x);
  EXPECT_EQ(b.expand(x, {-1, 3}), x);
  EXPECT_EQ(b.convert(x, DType::F32), x);
  EXPECT_EQ(b.slice(x, 0, {}, {}), x);
  EXPECT_EQ(b.permute(x, {0, -1}), x);
  EXPECT_EQ(b.sum_to(x, {2, 3}), x);
  EXPECT_EQ(ops(), "");
}

TEST_F(BuilderTest, Views) {
  const ValueId x = input(DType::F32, {2, 3, 4});
  EXPECT_EQ(type(b.view(x, {-1, 4})), "f32[6, 4]");
  EXPECT_EQ(type(b.transpose(x, -1, 0)), "f32[4, 3, 2]");
  EXPECT_EQ(type(b.select(x, 1, -1)), "f32[2, 4]");
  EXPECT_EQ(type(b.slice(x, 2, -3, 100, 2)), "f32[2, 3, 2]");
  EXPECT_EQ(type(b.slice(x, 2, 3, 1)), "f32[2, 3, 0]");
  EXPECT_EQ(type(b.flatten(x, 1, -1)), "f32[2, 12]");
  EXPECT_EQ(type(b.unsqueeze(x, -1)), "f32[2, 3, 4, 1]");
  EXPECT_EQ(type(b.squeeze(b.unsqueeze(x, 0))), "f32[2, 3, 4]");
  EXPECT_EQ(type(b.diagonal(x, -1, 1, 2)), "f32[2, 2]");
  EXPECT_EQ(type(b.as_strided(x, {2, 2}, {1, 4}, 3)), "f32[2, 2]");
  EXPECT_FAILS(b.select(x, 1, 3), Errc::Index,
               "select: index out of range; expected -3 <= index < 3, got 3");
  EXPECT_FAILS(b.transpose(x, 3, 0), Errc::Index,
               "transpose: dimension out of range; expected -3 <= dim < 3, got 3");
  EXPECT_FAILS(b.view(x, {5, -1}), Errc::Shape,
               "view: the size -1 can't be inferred; expected one -1 and sizes that divide 24 "
               "elements, got [5, -1]");
}

TEST_F(BuilderTest, ReshapeCopiesWhereTheSinkCannotView) {
  const ValueId x = input(DType::F32, {2, 3});
  b.reshape(x, {6});
  EXPECT_EQ(ops(), "view");
  sink.viewable = false;
  b.reshape(x, {6});
  EXPECT_EQ(ops(), "view clone view");
}

TEST_F(BuilderTest, Joining) {
  const ValueId x = input(DType::F32, {2, 3}), i = input(DType::I64, {1, 3});
  const ValueId empty = input(DType::F32, {0});
  EXPECT_EQ(type(b.cat(std::vector{x, i, empty}, 0)), "f32[3, 3]");
  EXPECT_EQ(type(b.stack(std::vector{x, x}, -1)), "f32[2, 3, 2]");
  EXPECT_EQ(type(b.pad(x, std::vector<Dim>{1, 0, -1, 2}, 0)), "f32[3, 4]");
  EXPECT_EQ(type(b.flip(x, ir::Axes{-1})), "f32[2, 3]");
}

TEST_F(BuilderTest, Reductions) {
  const ValueId x = input(DType::F32, {2, 3, 4}), scalar = input(DType::F32);
  EXPECT_EQ(type(b.sum(x)), "f32[]");
  EXPECT_EQ(type(b.sum(x, {-1, 0}, true)), "f32[1, 3, 1]");
  EXPECT_EQ(type(b.reduce(Op::argmax, x, {})), "i64[]");
  EXPECT_EQ(type(b.reduce(Op::argmax, x, {}, true)), "i64[1, 1, 1]");
  EXPECT_EQ(type(b.reduce(Op::any, x, ir::Axes{1})), "bool[2, 4]");
  EXPECT_EQ(type(b.var(x, ir::Axes{2}, 1, false)), "f32[2, 3]");
  EXPECT_EQ(type(b.sum(scalar, {-1})), "f32[]");
  EXPECT_EQ(type(b.softmax(scalar, 0)), "f32[]");
  EXPECT_EQ(type(b.sum_to(x, {3, 1})), "f32[3, 1]");
  EXPECT_FAILS(b.sum(x, {1, -2}), Errc::Argument,
               "sum: dimension 1 appears twice; expected each at most once");
}

TEST_F(BuilderTest, MatmulCases) {
  const auto product = [&](const Shape& a, const Shape& c) {
    return type(b.matmul(input(DType::F32, a), input(DType::F32, c)));
  };
  EXPECT_EQ(product({3}, {3}), "f32[]");
  EXPECT_EQ(product({2, 3}, {3}), "f32[2]");
  EXPECT_EQ(product({3}, {3, 4}), "f32[4]");
  EXPECT_EQ(product({2, 3}, {3, 4}), "f32[2, 4]");
  EXPECT_EQ(product({5, 2, 3}, {3, 4}), "f32[5, 2, 4]");
  EXPECT_EQ(product({5, 2, 3}, {3}), "f32[5, 2]");
  EXPECT_EQ(product({3}, {5, 3, 4}), "f32[5, 4]");
  EXPECT_EQ(product({2, 3}, {5, 3, 4}), "f32[5, 2, 4]");
  EXPECT_EQ(product({6, 1, 2, 3}, {5, 3, 4}), "f32[6, 5, 2, 4]");
  EXPECT_EQ(product({0, 2, 3}, {3, 4}), "f32[0, 2, 4]");
  EXPECT_FAILS(
      product({2, 3}, {4, 5}), Errc::Shape,
      "mm: inner sizes differ; expected self [n, k] and mat2 [k, m], got [2, 3] and [4, 5]");
}

TEST_F(BuilderTest, LinearIsAddmmOfTheTransposedWeight) {
  const ValueId x = input(DType::F32, {5, 2, 3}), w = input(DType::F32, {4, 3});
  EXPECT_EQ(type(b.linear(x, w, input(DType::F32, {4}))), "f32[5, 2, 4]");
  EXPECT_EQ(ops(), "transpose view expand addmm view");
  EXPECT_EQ(type(b.linear(input(DType::F32, {3}), w, {})), "f32[4]");
}

TEST_F(BuilderTest, CrossEntropyTakesClassesInDimensionOne) {
  const ValueId x = input(DType::F32, {2, 5, 3}), t = input(DType::I64, {2, 3});
  EXPECT_EQ(type(b.cross_entropy(x, t, -100, 0, "none")), "f32[2, 3]");
  EXPECT_EQ(type(b.cross_entropy(x, t, -100, 0, "mean")), "f32[]");
  EXPECT_EQ(type(b.cross_entropy(input(DType::F32, {5}), input(DType::I64), -100, 0, "none")),
            "f32[]");
}

TEST_F(BuilderTest, AttentionExpandsItsMask) {
  const ValueId q = input(DType::F32, {2, 4, 8}), k = input(DType::F32, {2, 6, 8});
  const ValueId v = input(DType::F32, {2, 6, 5}), mask = input(DType::Bool, {4, 6});
  EXPECT_EQ(type(b.scaled_dot_product_attention(q, k, v, mask, {}, false)), "f32[2, 4, 5]");
}

TEST_F(BuilderTest, InPlace) {
  const ValueId f = input(DType::F32, {2}), i = input(DType::I64, {2}), d = input(DType::F64, {2});
  b.pointwise_in_place(Op::add, {f, i});
  EXPECT_EQ(ops(), "convert add_");
  b.pointwise_in_place(Op::add, {f, d});
  EXPECT_EQ(ops(), "convert add_ convert add convert copy_");
  EXPECT_FAILS(b.pointwise_in_place(Op::add, {i, f}), Errc::DType,
               "add_: result type f32 can't be cast to i64; expected a dtype of self's category or "
               "a lower one");
  EXPECT_FAILS(b.pointwise_in_place(Op::add, {f, input(DType::F32, {3, 2})}), Errc::Shape,
               "expand: sizes do not broadcast; expected sizes that [3, 2] broadcasts to, got [2]");
}

TEST_F(BuilderTest, InPlaceDivisionOfIntegersIsRefused) {
  const ValueId i = input(DType::I64, {2});
  EXPECT_THROW(b.pointwise_in_place(Op::div, {i, i}), Error);
}

TEST_F(BuilderTest, NewEquationsCarryTheSinksMarks) {
  GraphSink marked(g);
  marked.grad_enabled = false;
  marked.is_backward = true;
  marked.region = 3;
  marked.location = g.add_location({"a.cpp", 7});
  Builder builder(marked);
  builder.neg(input(DType::F32));
  const Equation& e = g.equations().back();
  EXPECT_FALSE(e.grad_enabled);
  EXPECT_TRUE(e.is_backward);
  EXPECT_EQ(e.region, 3u);
  EXPECT_EQ(g.location({0})->line, 7u);
}

}  // namespace
}  // namespace tandem::ir
