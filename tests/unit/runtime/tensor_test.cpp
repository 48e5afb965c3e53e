// Eager tensors: geometry, views, promotion, writes, printing, data.
#include <gtest/gtest.h>
#include <tandem/autograd.h>
#include <tandem/indexing.h>
#include <tandem/ops.h>

#include <array>
#include <cmath>

#include "ir/build/builder.h"
#include "runtime/ops/eager_sink.h"

namespace tandem {
namespace {

using Values = std::vector<double>;

Values values(const Tensor& t) { return t.to_vector<double>(); }
Tensor counted(const Shape& sizes, DType dtype = f32) {
  return arange(ir::numel(sizes), dtype).view(sizes);
}

template <class F>
Errc code_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  ADD_FAILURE() << "expected an Error";
  return Errc::Unsupported;
}

TEST(Tensor, FactoriesFill) {
  EXPECT_EQ(values(zeros({2})), Values({0, 0}));
  EXPECT_EQ(values(full({2}, 7, i64)), Values({7, 7}));
  EXPECT_EQ(values(arange(2, 11, 3)), Values({2, 5, 8}));
  EXPECT_EQ(arange(3).dtype(), i64);
  EXPECT_EQ(arange(1.5).dtype(), f32);
  EXPECT_EQ(values(eye(2)), Values({1, 0, 0, 1}));
  EXPECT_EQ(tensor({1, 2.5}).dtype(), f32);
  EXPECT_EQ(tensor({1, 2}).dtype(), i64);
  EXPECT_EQ(tensor({true}).dtype(), boolean);
  EXPECT_EQ(tensor({{1, 2}, {3, 4}}).sizes(), Shape({2, 2}));
}

// Those of many elements are made by code, others by a kernel.
TEST(Tensor, RangesOfAnyLengthAreTheSame) {
  for (DType dtype : {i64, i32, i16, i8, u8, f32, f64, bf16, f16}) {
    const Number first = ir::is_floating(dtype) ? Number(-1.7) : Number(3);
    const Number step = ir::is_floating(dtype) ? Number(0.3) : Number(2);
    const auto range = [&](int64_t n) {
      const double end = first.to_double() + static_cast<double>(n) * step.to_double();
      return arange(first, ir::is_floating(dtype) ? Number(end) : Number(std::llround(end)), step,
                    dtype);
    };
    const Tensor few = range(1000), many = range(40000);
    EXPECT_EQ(values(few), values(many.slice(0, 0, few.size(0)))) << ir::name(dtype);
  }
}

TEST(Tensor, FillsAnyLayout) {
  for (DType dtype : {i64, i32, i16, i8, u8, boolean, f32, f64, bf16, f16})
    for (const Number value : {Number(1), Number(-0.0)}) {
      const Tensor x = zeros({6, 5, 4}, dtype);
      for (const Tensor& part : {x, x.transpose(0, 2), x.slice(1, 1, {}, 2), x.slice(2, 0, 0),
                                 x.select(0, 2).select(0, 1)}) {
        x.zero_();
        part.fill_(value);
        const Tensor wanted = tensor(value).to(dtype).expand(part.sizes());
        EXPECT_EQ(values(1 / part.to(f64)), values(1 / wanted.to(f64))) << ir::name(dtype);
        EXPECT_EQ(x.to(f64).sum().item(), part.to(f64).sum().item()) << ir::name(dtype);
      }
    }
}

TEST(Tensor, ViewsShareStorage) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(values(x.t()), Values({0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(x.t().strides(), Strides({1, 3}));
  EXPECT_EQ(values(x[1]), Values({3, 4, 5}));
  EXPECT_EQ(values(x.slice(1, 0, 3, 2)), Values({0, 2, 3, 5}));
  EXPECT_EQ(values(x.slice(1, -2)), Values({1, 2, 4, 5}));
  EXPECT_EQ(values(x.diagonal()), Values({0, 4}));
  EXPECT_EQ(values(x.diagonal(-1)), Values({3}));
  EXPECT_EQ(values(x.as_strided({2, 2}, {1, 2}, 1)), Values({1, 3, 2, 4}));
  EXPECT_EQ(x.unsqueeze(-1).sizes(), Shape({2, 3, 1}));
  EXPECT_EQ(x.unsqueeze(0).squeeze().sizes(), Shape({2, 3}));
  EXPECT_EQ(x[0].expand({4, 3}).strides(), Strides({0, 1}));
  EXPECT_TRUE(x.t().shares_storage(x));
  EXPECT_FALSE(x.t().reshape({6}).shares_storage(x));
  EXPECT_TRUE(x.reshape({3, 2}).shares_storage(x));
  EXPECT_EQ(code_of([&] { x.t().view({6}); }), Errc::Shape);
  EXPECT_EQ(x.chunk(2, 1).size(), 2u);
  EXPECT_EQ(x.split(2, 1)[1].sizes(), Shape({2, 1}));
}

TEST(Tensor, WritesGoThroughViews) {
  const Tensor x = zeros({2, 3});
  x[0] = 5;
  x.slice(1, 2) = tensor({7, 8}).unsqueeze(1);
  x[1][0] += 0.5;
  EXPECT_EQ(values(x), Values({5, 5, 7, 0.5, 0, 8}));
  Tensor y = x;
  y = x[1];  // rebinds
  EXPECT_EQ(values(x), Values({5, 5, 7, 0.5, 0, 8}));
  EXPECT_EQ(y.version(), 3u);
}

TEST(Tensor, WritesThatNothingShowsAreRefused) {
  const Tensor x = counted({4});
  EXPECT_EQ(code_of([&] { x.index({x > 1}) = 5; }), Errc::Mutation);
  EXPECT_EQ(code_of([&] { x.index({tensor({0, 2})}) = 5; }), Errc::Mutation);
  EXPECT_EQ(code_of([&] { (x + 1) = 5; }), Errc::Mutation);
  EXPECT_EQ(values(x), Values({0, 1, 2, 3}));
  x.index({1}) = 7;
  x.detach()[2] = 8;
  EXPECT_EQ(values(x), Values({0, 7, 8, 3}));
  std::array<float, 2> own{1, 2};
  from_blob(own.data(), {2}, {1}, f32, {}) = 9;
  EXPECT_EQ(own[1], 9);
}

// All is read before any is written, where the write is not refused.
TEST(Tensor, OverlappingOperandsOfWrites) {
  const Tensor x = counted({6});
  x.slice(0, 1, 6, 2).add_(x.slice(0, 1, 4));
  EXPECT_EQ(values(x), Values({0, 2, 2, 5, 4, 8}));
  x.copy_(x.flip(0));
  EXPECT_EQ(values(x), Values({8, 4, 5, 2, 2, 0}));
  const Tensor square = counted({2, 2});
  EXPECT_EQ(code_of([&] { square.copy_(square.t()); }), Errc::Mutation);
  EXPECT_EQ(code_of([&] { x.slice(0, 1).add_(x.slice(0, 0, 5)); }), Errc::Mutation);
  EXPECT_EQ(code_of([&] { x[0].expand({3}).add_(1); }), Errc::Mutation);
  EXPECT_EQ(values(square), Values({0, 1, 2, 3}));
}

TEST(Tensor, ForeignMemory) {
  float data[] = {1, 2, 3, 4};
  int deleted = 0;
  {
    const Tensor x = from_blob(data, {2, 2}, {1, 2}, f32, [&](void*) { ++deleted; });
    x.mul_(2);
    EXPECT_EQ(values(x), Values({2, 6, 4, 8}));
    const Tensor y = x[0];
    EXPECT_EQ(deleted, 0);
  }
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(data[3], 8);
  const Tensor frozen = from_blob(data, {4}, {1}, f32, {}, true);
  EXPECT_EQ(code_of([&] { frozen.zero_(); }), Errc::Mutation);
  EXPECT_EQ(values(frozen + 1), Values({3, 5, 7, 9}));
}

TEST(Tensor, PromotesAsATen) {
  const Tensor f = ones({2}), h = ones({2}, bf16), i = ones({2}, i64), d0 = full({}, 1, f64);
  EXPECT_EQ((f + 1.5).dtype(), f32);
  EXPECT_EQ((h * 0.5).dtype(), bf16);
  EXPECT_EQ((i + 1.5).dtype(), f32);
  EXPECT_EQ((i + 1).dtype(), i64);
  EXPECT_EQ((i / 2).dtype(), f32);
  EXPECT_EQ((f + d0).dtype(), f32);
  EXPECT_EQ((i + f).dtype(), f32);
  EXPECT_EQ((h + f).dtype(), f32);
  EXPECT_EQ((f > 0).dtype(), boolean);
  EXPECT_EQ(sum(f > 0).dtype(), i64);
  EXPECT_EQ((f * Scalar(2.0)).dtype(), f32);
  EXPECT_EQ(code_of([&] { i.add_(0.5); }), Errc::DType);
}

TEST(Tensor, PointwiseKeepsDenseLayouts) {
  const Tensor x = counted({2, 3}).t();
  EXPECT_EQ((x + 1).strides(), x.strides());
  EXPECT_EQ(relu(x).strides(), x.strides());
  EXPECT_EQ((x + counted({3, 2})).strides(), x.strides());  // the first operand decides
  EXPECT_TRUE((counted({3, 2}) + x).is_contiguous());
  EXPECT_EQ(x.clone().strides(), x.strides());
  EXPECT_TRUE(x.contiguous().is_contiguous());
  EXPECT_EQ(values(x + counted({3, 2})), Values({0, 4, 3, 7, 6, 10}));
}

TEST(Tensor, Reductions) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(x.sum().item(), 276);
  EXPECT_EQ(values(x.sum(0)), Values({12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34}));
  EXPECT_EQ(values(x.sum({0, 2})), Values({60, 92, 124}));
  EXPECT_EQ(x.sum({1, 2}, true).sizes(), Shape({2, 1, 1}));
  EXPECT_EQ(values(x.amax({1})), Values({8, 9, 10, 11, 20, 21, 22, 23}));
  EXPECT_EQ(values(x.permute({2, 0, 1}).sum(0)), values(x.sum(2)));
  const auto [v, where] = tensor({{1, 5, 2}, {7, 0, 7}}).max(1);
  EXPECT_EQ(values(v), Values({5, 7}));
  EXPECT_EQ(values(where), Values({1, 0}));
  EXPECT_EQ(argmax(x).item<int64_t>(), 23);
  EXPECT_TRUE(std::isnan(tensor({1.0, NAN, 3.0}).max().item()));
  EXPECT_NEAR(tensor({1.0, 2.0, 4.0}).var().item(), 7.0 / 3, 1e-6);
  EXPECT_EQ(zeros({0, 3}).sum(0).sizes(), Shape({3}));
  EXPECT_EQ(code_of([] { zeros({0, 3}).amax(0); }), Errc::Shape);
  EXPECT_EQ(x.prod().item(), 0);
  EXPECT_TRUE((x >= 0).all().item<bool>());
}

TEST(Tensor, LargeSumsStayAccurate) {
  const Tensor x = full({1000003}, 0.1);
  EXPECT_NEAR(x.sum().item(), 100000.3, 0.05);
  EXPECT_NEAR(x.slice(0, 0, 1000000).view({1000, 1000}).sum(0)[3].item(), 100.0, 1e-3);
}

TEST(Tensor, MatrixProducts) {
  const Tensor a = counted({2, 3}), b = counted({3, 2});
  EXPECT_EQ(values(a.matmul(b)), Values({10, 13, 28, 40}));
  EXPECT_EQ(values(b.t().matmul(a.t())), Values({10, 28, 13, 40}));
  EXPECT_EQ(values(a.to(f64).matmul(b.to(f64))), Values({10, 13, 28, 40}));
  EXPECT_EQ(values(a.to(i64).matmul(b.to(i64))), Values({10, 13, 28, 40}));
  EXPECT_EQ(values(a.to(bf16).matmul(b.to(bf16))), Values({10, 13, 28, 40}));
  EXPECT_EQ(values(a.slice(1, 0, 3, 2).matmul(ones({2, 1}))), Values({2, 8}));
  EXPECT_EQ(values(linear(a, b.t(), tensor({1.0, 2.0}))), Values({11, 15, 29, 42}));
  EXPECT_EQ(a.expand({4, 2, 3}).matmul(b).sizes(), Shape({4, 2, 2}));
  EXPECT_EQ(values(zeros({2, 0}).matmul(zeros({0, 1}))), Values({0, 0}));
  EXPECT_EQ(code_of([&] { a.matmul(a); }), Errc::Shape);
}

TEST(Tensor, IndexOps) {
  const Tensor x = counted({3, 2});
  EXPECT_EQ(values(x[tensor({2, 0})]), Values({4, 5, 0, 1}));
  EXPECT_EQ(values(x.gather(1, tensor({1, 0, 1}).unsqueeze(1))), Values({1, 2, 5}));
  EXPECT_EQ(values(embedding(x, tensor({{1, 1}}))), Values({2, 3, 2, 3}));
  EXPECT_EQ(values(index_add(zeros({3}), 0, tensor({1, 1}), tensor({2.0, 3.0}))),
            Values({0, 5, 0}));
  EXPECT_EQ(values(scatter_add(zeros({3}), 0, tensor({2, 0, 2}), ones({3}))), Values({1, 0, 2}));
  EXPECT_EQ(code_of([&] { x.index_select(0, tensor({3})); }), Errc::Index);
  EXPECT_EQ(values(cat({x, x + 10}, 1).slice(0, 0, 1)), Values({0, 1, 10, 11}));
  EXPECT_EQ(values(pad(tensor({1, 2}), {1, 2}, 9)), Values({9, 1, 2, 9, 9}));
  EXPECT_EQ(values(one_hot(tensor({1, 0}), 2)), Values({0, 1, 1, 0}));
}

/// A number, and one that is seen as many, become tensors as late as an equation reads them.
TEST(Tensor, NumbersOfRulesBecomeTensors) {
  for (const DType dtype : {f64, f32, bf16, f16, i64, i32, i16, i8, u8, boolean})
    for (const ir::Number& number : {ir::Number(-0.0), ir::Number(NAN), ir::Number(1)}) {
      if (number.is_float() && !ir::is_floating(dtype)) continue;
      runtime::EagerSink sink;
      ir::Builder b(sink);
      const ir::ValueId one = b.full({}, dtype, number), many = b.expand(one, {2, 3}),
                        none = b.expand(one, {0, 3});
      EXPECT_TRUE(sink.can_view(many, {6}));  // of one element, as of a row
      const Tensor &shown = sink.tensor(many), &single = sink.tensor(one);
      EXPECT_EQ(sink.tensor(b.neg(b.neg(b.convert(many, f64)))).sizes(), Shape({2, 3}));
      EXPECT_EQ(shown.strides(), Strides({0, 0}));
      EXPECT_EQ(sink.tensor(none).numel(), 0);
      EXPECT_FALSE(shown.shares_storage(single));
      for (const Tensor& t : {shown[1][2], single}) {
        EXPECT_EQ(t.dtype(), dtype);
        const double expected = number.to_double(), got = t.item();
        EXPECT_TRUE(std::isnan(expected)
                        ? std::isnan(got)
                        : got == expected && std::signbit(got) == std::signbit(expected));
      }
    }
}

TEST(Tensor, NumbersAsResultsAreTheirOwn) {
  const Tensor a = full({}, 2.5), b = full({}, 2.5);
  a.add_(1);
  EXPECT_EQ(values(a), Values({3.5}));
  EXPECT_EQ(values(b), Values({2.5}));
  EXPECT_EQ(code_of([&] { full({}, 1).expand({3}).add_(1); }), Errc::Mutation);
  const Tensor x = full({}, 2, f32).requires_grad_();
  EXPECT_EQ(values(grad({x * x * 3 + 1}, {x})[0]), Values({12}));
  EXPECT_EQ(values(where(tensor({true, false}), 1, 0)), Values({1, 0}));
}

TEST(Tensor, IntegerArithmetic) {
  const Tensor a = tensor({7, -7}), b = tensor({2, 2});
  EXPECT_EQ(values(floor_divide(a, b)), Values({3, -4}));
  EXPECT_EQ(values(a % 3), Values({1, 2}));
  EXPECT_EQ(values(fmod(a, 3)), Values({1, -1}));
  EXPECT_EQ(values(pow(a, 2)), Values({49, 49}));
  EXPECT_EQ(values(full({1}, 127, i8) + full({1}, 1, i8)), Values({-128}));
  EXPECT_EQ(code_of([&] { a % 0; }), Errc::Argument);
  EXPECT_EQ(values(tensor({300.7, -1.0, NAN}).to(u8)), Values({255, 0, 0}));
}

TEST(Tensor, RandomIsReproducible) {
  manual_seed(3);
  const Tensor a = rand({1000}), b = randn({100000}), c = randint(3, 9, {1000});
  manual_seed(3);
  EXPECT_EQ(values(rand({1000})), values(a));
  EXPECT_NE(values(rand({1000})), values(a));
  EXPECT_GE(a.min().item(), 0);
  EXPECT_LT(a.max().item(), 1);
  EXPECT_NEAR(b.mean().item(), 0, 0.02);
  EXPECT_NEAR(b.std().item(), 1, 0.02);
  EXPECT_EQ(c.min().item(), 3);
  EXPECT_EQ(c.max().item(), 8);
  const Tensor kept = dropout(ones({10000}), 0.25);
  EXPECT_NEAR(kept.mean().item(), 1, 0.05);
  EXPECT_NEAR(kept.max().item(), 4.0 / 3, 1e-6);
}

TEST(Tensor, PrintsAsPyTorch) {
  EXPECT_EQ(tensor({1.0, 2.0}).to_string(), "tensor([1., 2.])");
  EXPECT_EQ(tensor({1.5, -2.25}).to_string(), "tensor([ 1.5000, -2.2500])");
  EXPECT_EQ(tensor({{1, 2}, {30, 4}}).to_string(), "tensor([[ 1,  2],\n        [30,  4]])");
  EXPECT_EQ(tensor(3.0, f64).to_string(), "tensor(3., dtype=f64)");
  EXPECT_EQ(tensor({1e-7, 1.0}).to_string(), "tensor([1.0000e-07, 1.0000e+00])");
  EXPECT_EQ(arange(2000).to_string(), "tensor([   0,    1,    2, ..., 1997, 1998, 1999])");
  EXPECT_EQ(zeros({0, 2}).to_string(), "tensor([], sizes=[0, 2])");
  EXPECT_EQ(ones({1}).requires_grad_().to_string(), "tensor([1.], requires_grad=true)");
  EXPECT_EQ((ones({1}).requires_grad_() * 2).to_string(), "tensor([2.], grad_fn=mul)");
}

TEST(Tensor, ErrorsNameTheProblem) {
  const Tensor x = ones({2, 3});
  EXPECT_EQ(code_of([&] { x + ones({2, 2}); }), Errc::Shape);
  EXPECT_EQ(code_of([&] { x[2]; }), Errc::Index);
  EXPECT_EQ(code_of([&] { x.item(); }), Errc::Shape);
  EXPECT_EQ(code_of([&] { x.data<double>(); }), Errc::DType);
  EXPECT_EQ(code_of([&] { Tensor() + x; }), Errc::Argument);
  EXPECT_EQ(code_of([&] { Tensor().sizes(); }), Errc::Argument);
}

TEST(Tensor, SizesAreWhatProgramsCountIn) {
  const std::vector<int64_t> wide{2, 3};
  const std::vector<int> narrow{2, 3};
  const std::vector<size_t> unsigned_ones{2, 3};
  const std::array<int64_t, 2> fixed{2, 3};
  const Shape expected{2, 3};
  EXPECT_EQ(zeros(wide).sizes(), expected);
  EXPECT_EQ(ones(narrow).sizes(), expected);
  EXPECT_EQ(full(unsigned_ones, 1).sizes(), expected);
  EXPECT_EQ(zeros(fixed).sizes(), expected);
  EXPECT_EQ(zeros(std::span<const int64_t>(wide)).sizes(), expected);
  EXPECT_EQ(zeros({6}).view(wide).sizes(), expected);
  EXPECT_EQ(zeros({6}).reshape(narrow).sizes(), expected);
  EXPECT_EQ(zeros({3}).expand(wide).sizes(), expected);
  EXPECT_EQ(zeros({3, 2}).permute(std::vector<int64_t>{1, 0}).sizes(), expected);
  EXPECT_EQ(zeros({6}).as_strided(wide, std::vector<int64_t>{3, 1}).sizes(), expected);
  EXPECT_EQ(zeros({2, 3}).sum(std::vector<int64_t>{0, 1}).sizes(), Shape());
  EXPECT_EQ(zeros({5}).split_with_sizes(wide).size(), 2u);
  EXPECT_EQ(zeros({5}).split(wide).size(), 2u);
  EXPECT_EQ(zeros({5}).tensor_split(narrow).size(), 3u);
  EXPECT_EQ(split_with_sizes(zeros({5}), wide).size(), 2u);
  EXPECT_EQ(Shape{wide}, expected);
  EXPECT_EQ(zeros({2, 3}).view({-1}).sizes(), Shape({6}));
  EXPECT_EQ(code_of([] { zeros(std::vector<int>(20, 1)); }), Errc::Shape);
}

TEST(Scalar, IsAHandle) {
  const Scalar lr(0.5);
  const Scalar same = lr;
  lr.set(0.25);
  EXPECT_EQ(same.value(), 0.25);
  EXPECT_EQ(values(tensor({4.0}) * same), Values({1}));
  EXPECT_EQ((ones({}, f32) * same).dtype(), f32);
}

}  // namespace
}  // namespace tandem
