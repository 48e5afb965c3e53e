// x.index({...}) and x.index_put_({...}, values), views and copies of shapes.h: eager against
// compiled in every setting of autograd, what is a view, and what is refused.
#include <tandem/tandem.h>

#include <cmath>
#include <limits>

#include "tests/e2e/contract.h"
#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

Tensor places(std::initializer_list<Number> list) { return tensor(list, i64); }

const std::vector<Row> kRows{
    {"ReadsViews", tensors({{4, 5}}),
     [](const Tensors& in) -> Tensors {
       return {in[0].index({1, Slice{1, 4, 2}}), in[0].index({ellipsis, newaxis, -1}) * 2};
     }},
    {"WritesThroughViews", tensors({{4, 5}, {3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor x = in[0] * 2;
       x.index({Slice{1, 4}, 0}).mul_(in[1]);
       x.index({0, ellipsis}) = 3;
       return {x};
     }},
    {"ReadsPositions", tensors({{4, 5}}),
     [](const Tensors& in) -> Tensors {
       const Tensor i = places({0, -1, 1});
       return {in[0].index({i}) * 2, in[0].index({Slice{}, i}),
               in[0].index({i, newaxis, i}) * in[0][0][0]};
     }},
    {"ReadsPositionsApart", tensors({{2, 3, 4}}),
     [](const Tensors& in) -> Tensors {
       return {in[0].index({places({0, 1}), Slice{}, places({3, 0}).view({2, 1})}) * 2};
     }},
    {"ReadsPositionsThatAreData",
     [](Source& s) { return Tensors{s.noise({5, 2}, 1), places({4, -1, 0}).view({3, 1})}; },
     [](const Tensors& in) -> Tensors { return {in[0].index({in[1]}).exp()}; }},
    {"WritesARange", tensors({{4, 5}, {5}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_put_({Slice{.start = 1, .step = 2}}, in[1]);
       return {in[0] * in[0]};
     }},
    {"PicksOneOfEachLine",
     [](Source& s) {
       return Tensors{s.noise({3, 7, 2}, 1), s.noise({3, 1, 2}, 2),
                      places({0, 6, 3, 3, 5, 1}).view({3, 1, 2})};
     },
     [](const Tensors& in) -> Tensors {
       const Tensor y = log_softmax(in[0] * in[1], 1) * 2;
       const Tensor picked = gather(y, 1, in[2]), far = gather(in[0] * in[0], 1, in[2]);
       return {picked, far, sum(y), gather(gather(y, 1, in[2]), 1, in[2] * 0)};
     }},
    {"PicksOfTransposedAndWritten",
     [](Source& s) { return Tensors{s.noise({4, 5}, 1), places({4, 0, 2, 2}).view({1, 4})}; },
     [](const Tensors& in) -> Tensors {
       const Tensor x = in[0].t() * 1;
       x.select(0, 2).mul_(3);
       const Tensor picked = x.exp().gather(0, in[1]);
       x.scatter_add_(0, in[1], picked);
       return {picked, x};
     }},
    {"ClassesInAnyOrder",
     [](Source& s) {
       return Tensors{s.noise({2, 4, 3, 3}, 1), (s.noise({2, 3, 3}, 2) * 2 + 2).to(i64)};
     },
     [](const Tensors& in) -> Tensors {
       const Tensor of_class = one_hot(in[1], 4), p = softmax(in[0], 1),
                    classes = of_class.permute({0, 3, 1, 2}).to(f32);
       const Tensor loss = cross_entropy(in[0], in[1], {.reduction = "none"});
       return {sum(p * classes, {2, 3}), loss * square(1 - exp(-loss)), of_class};
     }},
    {"AddsToARange", tensors({{4, 5}, {1, 1, 5}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_put_({2}, in[1], true);
       return {in[0] * in[0]};
     }},
    {"WritesPositionsOfAView", tensors({{4, 5}, {2}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_put_({1, places({0, -1})}, in[1]);
       in[0].index_put_({Slice{2, 4}, places({1, 1, 2})}, in[1].view({2, 1}), true);
       return {in[0] * in[0]};
     }},
    {"IsWrittenACopy", tensors({{4, 5}, {4}}),
     [](const Tensors& in) -> Tensors {
       return {in[0].index_put({Slice{}, 1}, in[1]) * 2,
               index_put(in[0].t(), {places({1}), Slice{1, 3}}, 4) * 3, in[0]};
     }},
    {"WritesThroughAMask", tensors({{4, 5}, {}}),
     [](const Tensors& in) -> Tensors {
       in[0].index_put_({in[0] > 0}, in[1]);
       in[0].index_put_({Slice{1, 3}, in[0][0] > 0.2}, 2);
       in[0].index_put_({0, in[0][1] > 0.2}, in[1], true);
       return {in[0] * 2};
     }},
    {"FindsPlaces", tensors({{4, 5}}),
     [](const Tensors& in) -> Tensors {
       const Tensor found = nonzero_static(in[0].detach() > 0, 4, 0);
       return {found, in[0].index(found.unbind(1)) * 2};
     }},
    {"TurnsAndRepeats", tensors({{4, 5}}),
     [](const Tensors& in) -> Tensors {
       return {in[0].roll({1, -2}, {0, 1}), in[0].rot90().mul(2), in[0].tile({2, 1}) * 3,
               in[0].repeat_interleave(2, 1)};
     }},
    {"RepeatsByData", [](Source& s) { return Tensors{s.noise({3, 2}, 1), places({2, 0, 1})}; },
     [](const Tensors& in) -> Tensors { return {in[0].repeat_interleave(in[1], 0, 3) * 2}; }},
    {"Pads", tensors({{2, 4, 5}}),
     [](const Tensors& in) -> Tensors {
       return {pad(in[0], {1, 2, 3, 0}, "reflect"), pad(in[0], {7, -1}, "replicate") * 2,
               pad(in[0], {5, 1, -1, 3}, "circular")};
     }},
    {"Joins", tensors({{2, 3}, {2, 3}}),
     [](const Tensors& in) -> Tensors {
       return {hstack({in[0], in[1]}), dstack({in[0], in[1]}) * 2, block_diag({in[0], in[1][0]}),
               diag_embed(in[0], 1) * 3};
     }},
    {"MakesGrids", tensors({{3}, {2}}),
     [](const Tensors& in) -> Tensors {
       const Tensors grids = meshgrid({in[0], in[1]}, "xy");
       return {grids[0] * grids[1], broadcast_tensors({in[0].view({3, 1}), in[1]})[1] * 2};
     }},
    {"MakesConstants", tensors({{3}}),
     [](const Tensors& in) -> Tensors {
       const Tensor lower = tril_indices(3, 3);
       lower.add_(1);
       return {in[0] * linspace(0, 1, 3), logspace(0, 2, 3), lower, triu_indices(2, 3, 1)};
     }},
};

TANDEM_CONTRACT(Indexing, kRows);

TEST(Indexing, WhatNamesNoTensorIsAView) {
  const Tensor x = arange(12).view({3, 4});
  x.index({Slice{1, 3}, newaxis, 2}).fill_(-1);
  x.index({}).index({0, ellipsis}).mul_(2);
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{0, 2, 4, 6, 4, 5, -1, 7, 8, 9, -1, 11}));
  EXPECT_TRUE(x.index({ellipsis}).shares_storage(x));
  EXPECT_FALSE(x.index({places({0, 1, 2})}).shares_storage(x));
  EXPECT_FALSE(x.index({x > 0}).shares_storage(x));
}

TEST(Indexing, SecondGradients) {
  const Tensor x = noise({3, 4}, 1, f64).requires_grad_();
  const auto values = [&](const Tensor& t) {
    const Tensor y = (t * t * t).index({places({0, 2, 0}), Slice{1, {}}});
    return pad(y.roll(1, 1), {1, 1}, "circular").sum();
  };
  const Tensor first = grad({values(x)}, {x}, {.create_graph = true})[0];
  const Tensor second = grad({first.sum()}, {x})[0];
  constexpr double kStep = 1e-6;
  const auto slopes = [&](double by) { return grad({values((x + by))}, {x})[0].detach(); };
  expect_close((slopes(kStep) - slopes(-kStep)) / (2 * kStep), second, 1e-6, "second gradient");
}

TEST(Indexing, MasksAreReadEagerlyOnly) {
  const Tensor x = arange(6).view({2, 3}).to(f32), mask = x > 2;
  EXPECT_EQ(x.index({mask}).to_vector<float>(), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(x[mask].to_vector<float>(), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(x.index({0, mask[1]}).to_vector<float>(), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(x.index({x > 9}).sizes(), (Shape{0}));
  const auto read = compile([](const Tensor& t) { return t.index({t > 2}); });
  expect_error(Errc::Trace, "index: a mask chooses elements whose number depends on data",
               [&] { read(x); });
  const auto write =
      compile([](const Tensor& t) { t.index_put_({t.select(1, 0) > 1, places({0})}, 1); });
  expect_error(Errc::Trace, "nonzero_static", [&] { write(x); });
}

TEST(Indexing, Refusals) {
  const Tensor x = zeros({3, 4});
  const auto refused = [](Errc code, const std::string& text, auto use) {
    expect_error(code, text, use);
  };
  refused(Errc::Index, "index: too many indices; expected at most 2 for [3, 4], got 3",
          [&] { x.index({0, 0, 0}); });
  refused(Errc::Argument, "index: several ellipses", [&] { x.index({ellipsis, 0, ellipsis}); });
  refused(Errc::Index, "index: index out of range", [&] { x.index({3}); });
  refused(Errc::Index, "index: index out of range", [&] { x.index({places({-4})}); });
  refused(Errc::Index, "index: index out of range", [&] { x.index({places({0}), places({4})}); });
  refused(Errc::Shape, "index: the mask does not fit", [&] { x.index({ones({4}, boolean)}); });
  refused(Errc::DType, "index: an index is not an integer", [&] { x.index({x}); });
  refused(Errc::Shape, "index: ", [&] { x.index({places({0, 1}), places({0, 1, 2})}); });
  refused(Errc::Shape, "index_put_: ", [&] { x.index_put_({0}, zeros({3})); });
  refused(Errc::Argument, "roll: expected 1 shifts", [&] { x.roll({1, 2}, 0); });
  refused(Errc::Argument, "repeat: negative repeats", [&] { x.repeat({1, -1}); });
  refused(Errc::Argument, "repeat_interleave: negative repeats",
          [&] { x.repeat_interleave(places({1, -1, 0}), 0); });
  refused(Errc::Index, "repeat_interleave: output_size is not what repeats add up to",
          [&] { x.repeat_interleave(places({1, 1, 1}), 0, 4); });
  refused(Errc::Shape, "pad: the padding does not fit mode \"reflect\"",
          [&] { pad(x, {4, 0}, "reflect"); });
  refused(Errc::Argument, "pad: unknown mode", [&] { pad(x, {4, 0}, "mirror"); });
  refused(Errc::Argument, "pad: mode \"circular\" takes no value",
          [&] { pad(x, {1, 0}, "circular", 2); });
  refused(Errc::Argument, "meshgrid: unknown indexing", [&] { meshgrid({x[0]}, "ji"); });
  refused(Errc::DType, "tril_indices: expected i64 or i32", [&] { tril_indices(2, 2, 0, f32); });
}

/// What is picked is looked up before all else is computed of it alone; NaN, infinities and zeros
/// of both signs are picked and come back as they are.
TEST(Indexing, WhatIsPickedIsWhatEagerCodePicks) {
  const auto fn = [](const Tensor& x, const Tensor& i) { return gather(x * -1, 1, i); };
  const auto compiled = compile(fn);
  const auto expect_alike = [](const Tensor& want, const Tensor& got) {
    const Tensor a = nan_to_num(want, 7), b = nan_to_num(got, 7);
    EXPECT_TRUE(equal(a, b) && equal(signbit(a), signbit(b)));
  };
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({nan, 0, -0.0, infinity, -infinity, 1}).view({2, 3}).requires_grad_();
  for (int64_t column = 0; column < 3; ++column) {
    const Tensor i = full({2, 1}, column, i64), tangent = tensor({-0.0, nan}).view({2, 1});
    const Tensor want = fn(x, i), got = compiled(x, i);
    expect_alike(want, got);
    expect_alike(grad({want}, {x}, {.grad_outputs = {tangent}})[0],
                 grad({got}, {x}, {.grad_outputs = {tangent}})[0]);
  }
  for (const int64_t column : {3, -1, -4})
    expect_error(Errc::Index, "out of range", [&] { compiled(x, full({2, 1}, column, i64)); });
  const auto classes = compile([](const Tensor& l) { return one_hot(l, 3).t().to(f32); });
  for (const int64_t label : {3, -1})
    expect_error(Errc::Index, "out of range", [&] { classes(full({2}, label, i64)); });
}

TEST(Indexing, RepeatsThatDoNotFitAreRefusedWhenTheyRun) {
  const auto repeated =
      compile([](const Tensor& x, const Tensor& n) { return x.repeat_interleave(n, 0, 3); });
  const Tensor x = arange(2);
  EXPECT_EQ(repeated(x, places({1, 2})).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 1}));
  for (const Tensor& n : {places({1, 1}), places({3, 1}), places({-1, 4})})
    expect_error(Errc::Index, "index out of range", [&] { repeated(x, n); });
  const auto unknown =
      compile([](const Tensor& t, const Tensor& n) { return t.repeat_interleave(n, 0); });
  expect_error(Errc::Trace, "expected output_size", [&] { unknown(x, places({1, 1})); });
}

}  // namespace
}  // namespace tandem::testing
