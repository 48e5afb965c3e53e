// What index functions refuse, what they write, and forms with a given maximum size.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>

#include "tests/support/expect_error.h"

namespace tandem::testing {
namespace {

using Values = std::vector<double>;

Values values(const Tensor& t) { return t.to_vector<double>(); }

TEST(IndexFunctions, RefuseWithTheNameThatWasCalled) {
  const Tensor x = zeros({3, 2}), i = tensor({0, 1}), table = zeros({4, 2});
  const Tensor places = zeros({2, 2}, i64);
  expect_error(Errc::Argument, "scatter_reduce: unknown reduction; expected one of amax, amin",
               [&] { scatter_reduce(x, 0, places, ones({2, 2}), "max"); });
  expect_error(Errc::Argument, "scatter_: unknown reduction; expected one of add, multiply",
               [&] { x.scatter_(0, places, 2, "amax"); });
  expect_error(Errc::Argument, "index_reduce_: unknown reduction",
               [&] { x.index_reduce_(0, i, ones({2, 2}), "sum"); });
  expect_error(Errc::Shape, "index_reduce: source does not fit; expected [2, 2], got [2, 3]",
               [&] { index_reduce(x, 0, i, ones({2, 3}), "prod"); });
  expect_error(Errc::DType, "index_add: alpha of integers is floating",
               [&] { index_add(zeros({3}, i64), 0, i, ones({2}, i64), 0.5); });
  expect_error(Errc::DType, "scatter_reduce: no mean of bool",
               [&] { scatter_reduce(x > 0, 0, places, places > 0, "mean"); });
  expect_error(Errc::Argument, "embedding: no sparse gradients",
               [&] { embedding(table, i, {.sparse = true}); });
  expect_error(Errc::Index, "embedding: padding_idx out of range; expected -4 to 3, got 4",
               [&] { embedding(table, i, {.padding_idx = 4}); });
  expect_error(Errc::Argument, "embedding_bag: indices of one dimension have no bags",
               [&] { embedding_bag(table, i); });
  expect_error(Errc::Argument, "embedding_bag: unknown mode; expected sum, mean or max, got min",
               [&] { embedding_bag(table, i, {.offsets = i, .mode = "min"}); });
  expect_error(Errc::Argument, "embedding_bag: offsets do not begin where indices do",
               [&] { embedding_bag(table, i, {.offsets = i + 1}); });
  expect_error(Errc::Argument, "embedding_bag: offsets go beyond the indices",
               [&] { embedding_bag(table, i, {.offsets = i * 9}); });
  expect_error(Errc::Argument, "embedding_bag: per_sample_weights; expected mode sum",
               [&] { embedding_bag(table, i, {.offsets = i, .per_sample_weights = i}); });
  expect_error(Errc::DType, "igamma: expected a floating dtype", [&] { igamma(i, i); });
}

TEST(IndexFunctions, WrongOffsetsLeaveTheTableAsItIs) {
  const Tensor table = full({4, 3}, 5), before = table.clone(), i = arange(2);
  expect_error(Errc::Argument, "embedding_bag: offsets do not begin where indices do",
               [&] { embedding_bag(table, i, {.offsets = i + 1, .max_norm = 1}); });
  EXPECT_TRUE(equal(table, before));
}

/// Of bags of equal length, as of the same ones with offsets.
TEST(IndexFunctions, BagsOfEqualLengthAreBags) {
  for (const DType dtype : {f32, f64, f16, bf16})
    for (const auto& [bags, length] : {std::pair<int64_t, int64_t>{5, 3}, {90, 40}, {4, 0}, {0, 3}})
      for (const int form : {0, 1, 2, 3}) {
        const Tensor table = randint(-9, 9, {70, 30}).to(dtype).t().requires_grad_();
        const Tensor places = randint(0, 30, {length, bags}).t(),
                     weights = randint(-3, 3, {bags, length}).to(dtype);
        EmbeddingBagOptions o{.mode = form < 2 ? "sum" : "mean"};
        if (form % 2 == 1) o.padding_idx = -2;
        if (form == 1) o.per_sample_weights = weights;
        EmbeddingBagOptions with_offsets = o;
        with_offsets.offsets = arange(bags) * length;
        if (form == 1) with_offsets.per_sample_weights = weights.reshape({-1});
        const auto equal_bags = [&](const Tensor& t) { return embedding_bag(t, places, o); };
        const Tensor expected = embedding_bag(table, places.reshape({-1}), with_offsets);
        const Tensor g = grad({expected.sum()}, {table})[0];
        for (const Tensor& got : {equal_bags(table), compile(equal_bags)(table)}) {
          EXPECT_EQ(got.dtype(), dtype);
          EXPECT_TRUE(equal(got, expected));
          EXPECT_TRUE(allclose(grad({got.sum()}, {table})[0], g, 2e-2, 2e-2));
        }
      }
  expect_error(Errc::Index, "index out of range",
               [] { embedding_bag(zeros({4, 9000}), tensor({{0, 4}})); });
}

TEST(IndexFunctions, MaxNormScalesTheTable) {
  const Tensor table = tensor({{3, 4}, {0.3, 0.4}, {6, 8}}, f64).requires_grad_();
  const Tensor rows = embedding(table, tensor({0, 1, 0}), {.max_norm = 1.0});
  EXPECT_NEAR(table.detach()[0][1].item(), 0.8, 1e-7);
  EXPECT_EQ(table.detach()[1][1].item(), 0.4);
  EXPECT_EQ(table.detach()[2][1].item(), 8);
  rows.sum().backward();
  EXPECT_EQ(values(table.grad()), Values({2, 2, 1, 1, 0, 0}));
  const auto traced =
      compile([](const Tensor& t) { return embedding(t, tensor({0}), {.max_norm = 1.0}); });
  expect_error(Errc::Trace, "embedding: max_norm writes the table", [&] { traced(table); });
}

TEST(IndexFunctions, BytesAreMasks) {
  const Tensor x = arange(4).to(f32), bytes = tensor({1, 0, 0, 2}, u8);
  EXPECT_EQ(values(x.index({bytes})), Values({0, 3}));
  EXPECT_EQ(values(x.index_put({bytes}, 7)), Values({7, 1, 2, 7}));
}

TEST(IndexFunctions, UniqueOfAGivenSize) {
  const auto search = [](const Tensor& x) {
    const Unique u = unique_static(x, 4, {}, -1);
    return std::vector<Tensor>{u.values, u.inverse, u.counts};
  };
  const auto compiled = compile(search);
  const Tensor x = tensor({{3, 1}, {3, 2}});
  for (const auto& found : {search(x), compiled(x)}) {
    EXPECT_EQ(values(found[0]), Values({1, 2, 3, -1}));
    EXPECT_EQ(values(found[1]), Values({2, 0, 2, 1}));
    EXPECT_EQ(values(found[2]), Values({1, 1, 2, 0}));
  }
  EXPECT_EQ(values(unique_static(x, 2).values), Values({1, 2}));
  EXPECT_EQ(values(unique_consecutive_static(tensor({1, 1, 2, 1}), 5).values),
            Values({1, 2, 1, 0, 0}));
  EXPECT_EQ(values(unique_static(tensor({{2, 1}, {2, 1}, {0, 5}}), 2, 0).values),
            Values({0, 5, 2, 1}));
}

/// Of n elements in runs.
void check_unique(const Unique& u, const Tensor& flat) {
  const int64_t n = flat.numel();
  EXPECT_EQ(u.counts.sum().item<int64_t>(), n);
  EXPECT_EQ(u.counts.sizes(), Shape({u.values.size(0)}));
  EXPECT_TRUE(equal(u.values.index_select(0, u.inverse.flatten()), flat));
  EXPECT_TRUE(equal(u.counts, bincount(u.inverse.flatten(), {}, int64_t{u.values.size(0)})));
}

TEST(IndexFunctions, UniqueGivesEveryElementBack) {
  for (const DType dtype : {f64, bf16, i64, i16, u8, boolean}) {
    const Tensor x = randint(0, 2, {7, 40}).to(dtype);
    for (const Tensor& t : {x, x.t(), x.slice(1, 0, 40, 3), x.select(0, 1).expand({3, 40}),
                            x.slice(0, 0, 0), x.slice(0, 0, 1).slice(1, 0, 1), zeros({9}, dtype)}) {
      check_unique(unique(t), t.flatten());
      check_unique(unique_consecutive(t), t.flatten());
    }
  }
  for (const DType dtype : {f32, f16, i32, i8, boolean})
    for (const int64_t every : {1, 3, 4096, 5000}) {  // as long as runs are, or shorter
      const Tensor long_runs = remainder(floor_divide(arange(20001), every), 2).to(dtype);
      check_unique(unique_consecutive(long_runs), long_runs);
      EXPECT_EQ(unique_consecutive(long_runs).values.size(0), (20001 + every - 1) / every);
    }
  const Tensor numbers = tensor({-0.0, 0.0, NAN, NAN, 1.0});
  EXPECT_EQ(values(unique_consecutive(numbers).counts), Values({2, 1, 1, 1}));
}

/// Each of two elements of one place, both zero: what ATen refuses.
TEST(IndexFunctions, ProductsOfSeveralZerosHaveSecondGradients) {
  const Tensor x = tensor({2.0}, f64).requires_grad_(), src = zeros({2}, f64).requires_grad_();
  const Tensor y = scatter_reduce(x, 0, tensor({0, 0}), src, "prod");
  const auto first = grad({y.sum()}, {src}, {.create_graph = true})[0];
  EXPECT_EQ(values(first), Values({0, 0}));
  EXPECT_EQ(values(grad({first[0]}, {src})[0]), Values({0, 2}));
}

/// Of one element beside an index, of a few and of many, which are taken one by one and as views.
TEST(IndexFunctions, TakeAndAddWhatLiesBesideAnIndex) {
  const std::vector<int64_t> index{4, 0, 4, 2, 1, 4};
  const Tensor places = from_data(index, {6});
  for (const DType dtype : {f32, f64, bf16, i64, u8})
    for (const auto& [before, after] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 2}, {16, 1}, {1, 17}, {7, 0}, {5, 11}})
      for (const bool is_dense : {true, false}) {
        const auto numbers = [&, before = before, after = after](int64_t n) {
          const Tensor dense = randint(0, 9, {before, n, after}).to(dtype);
          return is_dense ? dense : dense.transpose(0, 2).contiguous().transpose(0, 2);
        };
        const Tensor x = numbers(5), source = numbers(6), sums = x.clone();
        const Tensor taken = index_select(x, 1, places);
        for (int64_t i = 0; i < 6; ++i) {
          const int64_t place = index[static_cast<size_t>(i)];
          EXPECT_TRUE(equal(taken.select(1, i), x.select(1, place)));
          sums.select(1, place).add_(source.select(1, i));
        }
        EXPECT_TRUE(equal(index_add(x, 1, places, source), sums))
            << ir::name(dtype) << " " << before << " " << after;
      }
}

TEST(IndexFunctions, WriteIntoGivenTensors) {
  const Tensor x = arange(6).to(f64).view({3, 2}), out = zeros({0}, f64),
               places = zeros({1, 2}, i64);
  scatter_reduce_out(out, x, 0, places, full({1, 2}, 9.0, f64), "amax");
  EXPECT_EQ(values(out), Values({9, 9, 2, 3, 4, 5}));
  const ValuesAndIndices largest{zeros({0}, f64), zeros({0}, i64)};
  max_out(largest, x, 1);
  EXPECT_EQ(values(largest.values), Values({1, 3, 5}));
}

TEST(IndexFunctions, BytesAreAddedInPartsOfNone) {
  const auto sum = compile([](const Tensor& x, const Tensor& src) {
    return index_add(x, 0, tensor({1}), src, 0) + src * 0;
  });
  EXPECT_EQ(values(sum(tensor({5, 6}, u8), tensor({3}, u8))), Values({5, 6}));
}

TEST(IndexFunctions, DropoutsInPlace) {
  const Tensor x = ones({4, 8}), same = ones({4, 8});
  manual_seed(3);
  const Tensor expected = dropout(x, 0.5);
  manual_seed(3);
  EXPECT_TRUE(dropout_(x, 0.5).equal(expected));
  EXPECT_TRUE(alpha_dropout_(same, 0.5, false).equal(ones({4, 8})));
  const Tensor planes = ones({2, 3, 4});
  feature_dropout_(planes, 0.5);
  for (const double channel : values(planes.amax({2}) - planes.amin({2}))) EXPECT_EQ(channel, 0);
}

}  // namespace
}  // namespace tandem::testing
