// Writes at positions that are data: scatter_, index_copy_, index_fill_, index_put_ and
// masked_scatter_, their functional and out= forms, and what they refuse. Expected values are
// PyTorch's.
#include <tandem/ops/out_forms.h>

#include "tests/e2e/contract.h"
#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

Tensor positions(std::initializer_list<int64_t> list) {
  Tensor t = zeros({static_cast<int64_t>(list.size())}, i64);
  int64_t i = 0;
  for (int64_t position : list) t.select(0, i++).fill_(position);
  return t;
}

const std::vector<Row> kRows{
    {"Scatter", tensors({{4, 3}, {2, 3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor index = positions({1, 0, 3, 2, 0, 0}).view({2, 3});
       in[0].scatter_(0, index, in[1]);
       return {in[0] * 2};
     }},
    {"ScatterANumber", tensors({{4, 3}}),
     [](const Tensors& in) -> Tensors {
       in[0].scatter_(1, positions({1, 2}).view({2, 1}), 5);
       return {in[0] * in[0]};
     }},
    {"ScatterOneOnTheOther", tensors({{4}, {3}}),
     [](const Tensors& in) -> Tensors {
       return {scatter(in[0], 0, positions({1, 1, 2}), in[1]) * 2};
     }},
    {"ScatterALargerSource", tensors({{4}, {3}}),
     [](const Tensors& in) -> Tensors {
       return {scatter(in[0], 0, positions({2, 0}), in[1]) * 2};
     }},
    {"ScatterAtPositionsThatAreData",
     [](Source& s) {
       return Tensors{s.noise({5, 2}, 1), s.noise({3, 2}, 2),
                      positions({4, 1, 0, 0, 2, 3}).view({3, 2})};
     },
     [](const Tensors& in) -> Tensors {
       in[0].mul_(2).scatter_(0, in[2], in[1]);
       return {in[0].sum({0})};
     }},
    {"IndexCopy", tensors({{4, 3}, {4, 2}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_copy_(1, positions({2, 0}), in[1]);
       return {in[0] * in[0]};
     }},
    {"IndexCopyThroughAView", tensors({{3, 4}, {4, 2}}),
     [](const Tensors& in) -> Tensors {
       in[0].t().index_copy_(1, positions({2, 0}), in[1]);
       return {in[0] * in[0]};
     }},
    {"IndexFill", tensors({{4, 3}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_fill_(0, positions({-1, 1}), 3);
       return {in[0] * 2};
     }},
    {"IndexFillWithAValue", tensors({{4, 3}, {}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_fill_(1, positions({0, 2}), in[1]);
       return {in[0] * 2};
     }},
    {"IndexPut", tensors({{4, 3}, {3, 3}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_put_({positions({1, -1, 0})}, in[1]);
       return {in[0] * 2};
     }},
    {"IndexPutOfBroadcastPositions", tensors({{3, 4}, {2}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_put_({positions({0, 2}).view({2, 1}), positions({1, 3})}, in[1]);
       return {in[0] * in[0]};
     }},
    {"IndexPutBehindAWholeDimension", tensors({{2, 4, 3}, {2, 2, 3}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_put_({Tensor(), positions({3, 0})}, in[1]);
       return {in[0] * 2};
     }},
    {"IndexPutOfDimensionsThatAreApart", tensors({{2, 3, 4}, {2, 3}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_put_({positions({0, 1}), Tensor(), positions({1, 3})}, in[1]);
       return {in[0] * 2};
     }},
    {"IndexPutAccumulates", tensors({{4, 2}, {3, 2}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_put_({positions({1, 1, 2})}, in[1], true);
       return {in[0] * in[0]};
     }},
    {"IndexPutANumber", tensors({{4, 2}}),
     [](const Tensors& in) -> Tensors {
       return {index_put(in[0], {positions({1, 3}), positions({0, 0})}, 7) * 2};
     }},
    {"IndexPutByAMaskOfRows", tensors({{4, 3}, {2, 3}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_put_({positions({1, 0, 1, 0}) > 0}, in[1]);
       return {in[0] * in[0]};
     }},
    {"IndexPutByAMaskOfOneRowForAll", tensors({{4, 3}, {3}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_put_({positions({1, 0, 1, 0}) > 0}, in[1]);
       return {in[0] * 2};
     }},
    {"IndexPutByAMaskOfElements", tensors({{2, 3}, {4}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_put_({positions({1, 0, 1, 0, 1, 1}).view({2, 3}) > 0}, in[1]);
       return {in[0] * in[0]};
     }},
    {"IndexPutByAMaskOfData", tensors({{2, 3}, {}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_put_({in[0] > 0}, in[1]);
       return {in[0] * in[0]};
     }},
    {"IndexPutByAMaskThroughAView", tensors({{3, 2}, {2}}),
     [](const Tensors& in) -> Tensors {
       in[0].t().index_put_({positions({0, 1}) > 0}, 4);
       in[0].select(1, 0).index_put_({positions({0, 1, 1}) > 0}, in[1]);
       return {in[0] * in[0]};
     }},
    {"IndexPutByAMaskThatAdds", tensors({{4, 3}, {2, 3}}),
     [](const Tensors& in) -> Tensors {
       return {index_put(in[0], {positions({1, 0, 0, 1}) > 0}, in[1], true) * 2};
     }},
    {"IndexPutByAMaskBehindAWholeDimension", tensors({{2, 4, 3}, {2, 2, 3}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_put_({Tensor(), positions({0, 1, 1, 0}) > 0}, in[1]);
       return {in[0] * in[0]};
     }},
    {"IndexPutByAMaskWithTheWrongNumberOfRows", tensors({{4}, {3}}),
     [](const Tensors& in) -> Tensors {
       return {index_put(in[0], {positions({0, 1, 1, 0}) > 0}, in[1])};
     }},
    {"MaskedScatter", tensors({{2, 3}, {8}}),
     [](const Tensors& in) -> Tensors {
       in[0].masked_scatter_(in[0] > 0, in[1]);
       return {in[0] * 2};
     }},
    {"MaskedScatterOfABroadcastMask", tensors({{2, 3}, {2, 4}}),
     [](const Tensors& in) -> Tensors {
       return {masked_scatter(in[0], positions({1, 1, 0}) > 0, in[1]) * in[0]};
     }},
    {"UnderNoGrad", tensors({{4, 3}, {2, 3}}),
     [](const Tensors& in) -> Tensors {
       {
         const NoGrad no_grad;
         in[0].index_copy_(0, positions({3, 1}), in[1]);
       }
       return {in[0] * in[0]};
     }},
    {"IntoOut", tensors({{4}, {2}}),
     [](const Tensors& in) -> Tensors {
       const NoGrad no_grad;
       const Tensor out = zeros({0}), index = positions({2, 0});
       scatter_out(out, in[0], 0, index, in[1]);
       index_copy_out(out, out * 2, 0, index, in[1]);
       index_fill_out(out, out + 1, 0, positions({1}), 3);
       index_put_out(out, out * 2, {index}, in[1]);
       masked_scatter_out(out, out + 1, out > 2, in[0]);
       return {out};
     }},
};

TANDEM_CONTRACT(IndexWrites, kRows);

using Values = std::vector<double>;

TEST(IndexWrites, Values) {
  const Tensor x = zeros({4}), index = positions({1, 1, 2}), src = arange(1, 4).to(f32);
  const auto values = [](const Tensor& t) { return t.to_vector<double>(); };
  EXPECT_EQ(values(scatter(x, 0, index, src)), Values({0, 2, 3, 0}));
  EXPECT_EQ(values(index_copy(x, 0, index, src)), Values({0, 2, 3, 0}));
  EXPECT_EQ(values(index_put(x, {index}, src)), Values({0, 2, 3, 0}));
  EXPECT_EQ(values(index_put(x, {index}, src, true)), Values({0, 3, 3, 0}));
  EXPECT_EQ(values(index_fill(x, 0, positions({-1, 0}), 3)), Values({3, 0, 0, 3}));
  EXPECT_EQ(values(index_put(zeros({3, 2}), {positions({0, 2}), positions({1, -2})}, 5)),
            Values({0, 5, 0, 0, 5, 0}));
  const Tensor mask = positions({1, 1, 0}) > 0;
  EXPECT_EQ(values(index_put(zeros({3, 2}), {mask}, arange(4).to(f32).view({2, 2}))),
            Values({0, 1, 2, 3, 0, 0}));
  EXPECT_EQ(values(index_put(ones({3, 2}), {mask}, arange(2).to(f32).view({2, 1}), true)),
            Values({1, 1, 2, 2, 1, 1}));
  EXPECT_EQ(values(index_put(zeros({2, 3}), {Tensor(), mask}, arange(4).to(f32).view({2, 2}))),
            Values({0, 1, 0, 2, 3, 0}));
  EXPECT_EQ(values(index_put(zeros({3}), {mask & mask.logical_not()}, zeros({0}))),
            Values({0, 0, 0}));
  EXPECT_EQ(values(masked_scatter(zeros({2, 3}), mask, arange(8).to(f32))),
            Values({0, 1, 0, 2, 3, 0}));
  EXPECT_EQ(values(masked_scatter(zeros({3}), mask.logical_not() & mask, zeros({0}))),
            Values({0, 0, 0}));
}

/// Gradients where two elements fall on one place.
TEST(IndexWrites, GradientsOfColliding) {
  using Function = std::function<Tensor(const Tensor&, const Tensor&)>;
  const Tensor index = positions({1, 1, 2}), scale = arange(1, 5).to(f32);
  for (const Function& function : {
           Function([=](const Tensor& x, const Tensor& s) { return scatter(x, 0, index, s); }),
           Function([=](const Tensor& x, const Tensor& s) { return index_copy(x, 0, index, s); }),
           Function([=](const Tensor& x, const Tensor& s) { return index_put(x, {index}, s); }),
       }) {
    const Tensor x = zeros({4}).requires_grad_(), s = ones({3}).requires_grad_();
    (function(x, s) * scale).sum().backward();
    EXPECT_EQ(x.grad().to_vector<double>(), Values({1, 0, 0, 4}));
    EXPECT_EQ(s.grad().to_vector<double>(), Values({2, 2, 3}));
  }
}

TEST(IndexWrites, BumpTheVersionOnce) {
  const Tensor x = zeros({4}), index = positions({1, 1, 2}), src = ones({3});
  x.scatter_(0, index, src);
  x.index_copy_(0, index, src);
  x.index_fill_(0, index, 1);
  x.index_put_({index}, src);
  x.masked_scatter_(x > 0, ones({4}));
  EXPECT_EQ(x.version(), 5u);
}

TEST(IndexWrites, Refusals) {
  const auto refused = [](Errc code, const std::string& text,
                          const std::function<void(const Tensor&)>& body) {
    const Tensor x = zeros({4, 3});
    const auto fn = [&](const Tensor& t) { body(t); };
    expect_error(code, text, [&] { fn(x); });
    expect_error(code, text, [&] { compile(fn)(x); });
    EXPECT_EQ(x.to_vector<double>(), Values(12, 0));
    EXPECT_EQ(x.version(), 0u);
  };
  const Tensor index = positions({1, 0});
  refused(Errc::Index, "index out of range",
          [=](const Tensor& x) { x.scatter_(0, positions({4}).view({1, 1}), 1); });
  refused(Errc::Index, "index out of range",
          [=](const Tensor& x) { x.index_copy_(0, positions({-1}), ones({1, 3})); });
  refused(Errc::Index, "index out of range",
          [=](const Tensor& x) { x.index_put_({positions({1}), positions({3})}, 1); });
  refused(Errc::Index, "index out of range",
          [=](const Tensor& x) { x.masked_scatter_(x == 0, ones({11})); });
  refused(Errc::Shape, "index_copy_: src does not fit",
          [=](const Tensor& x) { x.index_copy_(0, index, ones({3, 3})); });
  refused(Errc::Shape, "index_fill_: value is not one element",
          [=](const Tensor& x) { x.index_fill_(0, index, ones({2})); });
  refused(Errc::DType, "index_put_: the values' dtype differs",
          [=](const Tensor& x) { x.index_put_({index}, ones({2, 3}, i64)); });
  refused(Errc::DType, "index_put_: an index is not an integer",
          [=](const Tensor& x) { x.index_put_({x}, 1); });
  const Tensor mask = positions({1, 0, 1, 1}) > 0;
  for (int64_t rows : {2, 4})
    refused(Errc::Index, "index out of range",
            [=](const Tensor& x) { x.index_put_({mask}, ones({rows, 3})); });
  refused(Errc::Shape, "index_put_: the mask does not fit",
          [=](const Tensor& x) { x.index_put_({Tensor(), mask}, 1); });
  refused(Errc::Index, "index_put_: too many indices",
          [=](const Tensor& x) { x.index_put_({index, index, index}, 1); });
  refused(Errc::DType, "masked_scatter_: mask is not a mask",
          [=](const Tensor& x) { x.masked_scatter_(x, x); });
}

}  // namespace
}  // namespace tandem::testing
