// Data sets, samplers and batches made of items.
#include <gtest/gtest.h>
#include <tandem/data.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace tandem {
namespace {

using testing::expect_error;
using Numbers = std::vector<int64_t>;

Numbers numbers(const Tensor& tensor) { return tensor.to_vector<int64_t>(); }

Numbers order(const data::SamplerPtr& sampler, uint64_t seed = 0, int64_t epoch = 0) {
  return sampler->order(seed, epoch);
}

Numbers sorted(Numbers numbers) {
  std::ranges::sort(numbers);
  return numbers;
}

Numbers up_to(int64_t n) {
  Numbers all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// --- data sets

TEST(TensorDataset, GivesRowsOfAnyLayoutAndDtype) {
  const Tensor base = arange(24).reshape({4, 6});
  for (const DType dtype : {f64, f32, bf16, f16, i64, i32, i16, i8, u8, boolean}) {
    const Tensor x = base.to(dtype);
    for (const Tensor& layout :
         {x, x.t(), x.slice(1, 0, 6, 2), x.flip({0}), x.select(1, 2).unsqueeze(1).expand({4, 3})}) {
      const data::TensorDataset dataset(layout);
      ASSERT_EQ(dataset.size(), int64_t{layout.size(0)});
      const Tensor batch = dataset.get_batch(Numbers{3, 0, 3});
      EXPECT_EQ(batch.dtype(), dtype);
      EXPECT_EQ(numbers(batch.select(0, 1)), numbers(layout.select(0, 0)));
      for (const int64_t i : {0, 2}) EXPECT_EQ(numbers(batch[i]), numbers(dataset.get(3)));
    }
  }
}

TEST(TensorDataset, GivesTuplesOfSeveralTensors) {
  const data::TensorDataset two(arange(3), arange(6).reshape({3, 2}));
  const auto [x, y] = two.get(1);
  EXPECT_EQ(x.item<int64_t>(), 1);
  EXPECT_EQ(numbers(y), (Numbers{2, 3}));
  const data::TensorDataset three(arange(3), arange(3), zeros({3, 0}));
  EXPECT_EQ(std::get<2>(three.get(2)).sizes(), (Shape{0}));
  EXPECT_EQ(data::TensorDataset(zeros({0, 2})).size(), 0);
}

TEST(TensorDataset, RefusesWhatDoesNotFit) {
  expect_error(Errc::Shape, "tensor 1 has 2 rows; expected 3",
               [] { data::TensorDataset(zeros({3}), zeros({2})); });
  expect_error(Errc::Shape, "at least one dimension", [] { data::TensorDataset(tensor(1.0)); });
  expect_error(Errc::Shape, "at least one dimension", [] { data::TensorDataset{Tensor()}; });
  const data::TensorDataset dataset(zeros({3}));
  for (const int64_t i : {-1, 3}) {
    expect_error(Errc::Index, "of 3", [&] { dataset.get(i); });
    expect_error(Errc::Index, "of 3", [&] { dataset.get_batch(Numbers{0, i}); });
  }
}

TEST(Subset, And_ConcatDataset_SeeItemsByNumber) {
  const data::TensorDataset dataset(arange(10));
  const data::Subset subset(dataset, {7, 2, 2});
  EXPECT_EQ(subset.get(0).item<int64_t>(), 7);
  EXPECT_EQ(numbers(subset.get_batch(Numbers{2, 0})), (Numbers{2, 7}));
  const data::ConcatDataset all(std::vector{subset, data::Subset(dataset, {}), subset});
  ASSERT_EQ(all.size(), 6);
  EXPECT_EQ(all.get(3).item<int64_t>(), 7);
  EXPECT_EQ(all.get(5).item<int64_t>(), 2);
  expect_error(Errc::Index, "item 6 of 6", [&] { all.get(6); });
  expect_error(Errc::Index, "item 10 of 10", [&] { data::Subset(dataset, {1, 10}); });
}

TEST(RandomSplit, IsAPartitionThatFollowsFromTheSeed) {
  const data::TensorDataset dataset(arange(11));
  const auto parts = data::random_split(dataset, std::vector<double>{0.5, 0.3, 0.2}, 3);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].size(), 6);  // what is left over goes to the first
  EXPECT_EQ(parts[1].size(), 3);
  EXPECT_EQ(parts[2].size(), 2);
  Numbers all;
  for (const auto& part : parts)
    all.insert(all.end(), part.indices().begin(), part.indices().end());
  EXPECT_NE(all, up_to(11));
  EXPECT_EQ(sorted(all), up_to(11));
  const auto again = data::random_split(dataset, Numbers{6, 3, 2}, 3);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(again[i].indices(), parts[i].indices());
  EXPECT_NE(data::random_split(dataset, Numbers{6, 5}, 4)[0].indices(), parts[0].indices());
  expect_error(Errc::Argument, "expected all 11",
               [&] { data::random_split(dataset, Numbers{6, 4}); });
  for (const Numbers& wrong : {Numbers{-1, 12}, Numbers{INT64_MAX, INT64_MAX}})
    expect_error(Errc::Argument, "of 11 items", [&] { data::random_split(dataset, wrong); });
  for (const std::vector<double>& wrong :
       {std::vector{0.5, 0.4}, std::vector{1.5, -0.5}, std::vector{double{NAN}}})
    expect_error(Errc::Argument, "expected a sum of 1",
                 [&] { data::random_split(dataset, wrong); });
}

TEST(MapDataset, TakesWhatIsRandomFromTheSample) {
  const data::TensorDataset dataset(arange(4).to(f32));
  const data::MapDataset doubled(dataset, [](const Tensor& x) { return x * 2; });
  EXPECT_EQ(doubled.get(3).item(), 6);
  const data::MapDataset noisy(
      doubled, [](const Tensor& x, data::Random& random) { return x + random.uniform(); });
  data::Random a(1, 2, 3), b(1, 2, 3), c(1, 2, 4);
  const double first = noisy.get(3, a).item();
  EXPECT_EQ(first, noisy.get(3, b).item());
  EXPECT_NE(first, noisy.get(3, c).item());
}

// --- random numbers

TEST(DataRandom, IsEvenAndHasStreams) {
  data::Random random(7);
  std::map<int64_t, int> counts;
  double sum = 0, squares = 0, uniform = 0;
  for (int i = 0; i < 30000; ++i) {
    ++counts[random.below(3)];
    const double normal = random.normal();
    sum += normal;
    squares += normal * normal;
    uniform += random.uniform(2, 4);
  }
  EXPECT_EQ(counts.size(), 3u);
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, 10000, 400);
  EXPECT_NEAR(sum / 30000, 0, 0.03);
  EXPECT_NEAR(squares / 30000, 1, 0.05);
  EXPECT_NEAR(uniform / 30000, 3, 0.02);
  std::set<uint64_t> words;
  for (const uint64_t seed : {0, 1})
    for (const uint64_t epoch : {0, 1})
      for (const uint64_t sample : {0, 1}) words.insert(data::Random(seed, epoch, sample).word());
  EXPECT_EQ(words.size(), 8u);
  for (const int64_t n : {int64_t{0}, int64_t{-1}, INT64_MIN})
    expect_error(Errc::Argument, "at least 1", [&] { random.below(n); });
  EXPECT_GE(random.below(INT64_MAX), 0);
}

// --- samplers

TEST(Samplers, FollowFromSeedAndEpoch) {
  const Tensor weights = tensor({1, 0, 3, 2, 5}, f32);
  for (const data::SamplerPtr& sampler :
       {data::random(20), data::random(20, {.replacement = true, .num_samples = 30}),
        data::random(20, {.num_samples = 45}), data::weighted(weights, 20),
        data::weighted(weights, 4, false), data::subset_random({3, 1, 4, 1, 5, 9, 2, 6})}) {
    EXPECT_EQ(std::ssize(order(sampler)), sampler->size());
    EXPECT_EQ(order(sampler, 5, 6), order(sampler, 5, 6));
    std::set<Numbers> orders;
    for (uint64_t seed = 0; seed < 3; ++seed)
      for (int64_t epoch = 0; epoch < 3; ++epoch) orders.insert(order(sampler, seed, epoch));
    EXPECT_GT(orders.size(), 3u);
  }
}

TEST(Samplers, OrdersAreAllEquallyLikely) {
  std::map<Numbers, int> counts;
  for (int64_t epoch = 0; epoch < 6000; ++epoch) ++counts[order(data::random(3), 1, epoch)];
  ASSERT_EQ(counts.size(), 6u);
  for (const auto& [permutation, count] : counts) EXPECT_NEAR(count, 1000, 120);
}

TEST(Samplers, GiveEachItemAsOftenAsTheySay) {
  EXPECT_EQ(order(data::sequential(4)), up_to(4));
  EXPECT_EQ(sorted(order(data::random(20))), up_to(20));
  const Numbers longer = order(data::random(5, {.num_samples = 12}));
  EXPECT_EQ(sorted({longer.begin(), longer.begin() + 5}), up_to(5));
  EXPECT_EQ(sorted({longer.begin() + 5, longer.begin() + 10}), up_to(5));
  EXPECT_EQ(sorted(order(data::subset_random({8, 8, 3}))), (Numbers{3, 8, 8}));
  EXPECT_EQ(order(data::random(0)), Numbers());
  for (const bool replacement : {true, false})
    EXPECT_EQ(order(data::random(3, {.replacement = replacement, .num_samples = 0})), Numbers());
}

TEST(Samplers, WeightedByWeights) {
  std::map<int64_t, int> counts;
  for (const int64_t i : order(data::weighted(tensor({1, 0, 3, 4}), 40000))) ++counts[i];
  EXPECT_EQ(counts.count(1), 0u);
  EXPECT_NEAR(counts[0], 5000, 300);
  EXPECT_NEAR(counts[2], 15000, 400);
  EXPECT_NEAR(counts[3], 20000, 400);
  std::map<int64_t, int> firsts;
  for (int64_t epoch = 0; epoch < 4000; ++epoch) {
    const Numbers drawn = order(data::weighted(tensor({1, 0, 3, 4}), 3, false), 2, epoch);
    ASSERT_EQ(sorted(drawn), (Numbers{0, 2, 3}));
    ++firsts[drawn[0]];
  }
  EXPECT_NEAR(firsts[0], 500, 80);
  EXPECT_NEAR(firsts[3], 2000, 130);
}

TEST(Samplers, DistributedRanksShareAnEpoch) {
  for (const bool drop_last : {false, true}) {
    std::map<int64_t, int> counts;
    for (int64_t rank = 0; rank < 4; ++rank) {
      const auto sampler = data::distributed(data::random(10), rank, 4, drop_last);
      EXPECT_EQ(sampler->size(), drop_last ? 2 : 3);
      for (const int64_t i : order(sampler, 1, 2)) ++counts[i];
    }
    EXPECT_EQ(counts.size(), drop_last ? 8u : 10u);
  }
  EXPECT_EQ(order(data::distributed(data::sequential(1), 2, 3)), (Numbers{0}));
}

TEST(Samplers, RefuseWhatMakesNoSense) {
  expect_error(Errc::Argument, "got -1", [] { data::sequential(-1); });
  expect_error(Errc::Argument, "2 samples of no items",
               [] { data::random(0, {.replacement = true, .num_samples = 2}); });
  expect_error(Errc::Argument, "num_samples", [] { data::random(2, {.num_samples = -2}); });
  expect_error(Errc::Argument, "3 samples without replacement; expected at most 2",
               [] { data::weighted(tensor({1, 0, 1}), 3, false); });
  for (const double wrong : {-1.0, double(NAN), double(INFINITY)})
    expect_error(Errc::Argument, "weight", [&] { data::weighted(tensor({1.0, wrong}), 1); });
  expect_error(Errc::Argument, "the sum 0", [] { data::weighted(zeros({3}), 1); });
  expect_error(Errc::Shape, "one dimension", [] { data::weighted(zeros({3, 1}), 1); });
  expect_error(Errc::Argument, "rank 3 of 3", [] { data::distributed(data::sequential(9), 3, 3); });
  expect_error(Errc::Argument, "null", [] { data::distributed(nullptr, 0, 1); });
}

// --- batches

struct Sample {
  Tensor image;
  std::pair<Tensor, std::vector<Tensor>> rest;
  TANDEM_FIELDS(Sample, image, rest)
};

TEST(Collate, StacksEachLeaf) {
  const data::Stack stack;
  EXPECT_EQ(stack(std::vector{arange(3), arange(3)}).sizes(), (Shape{2, 3}));
  EXPECT_EQ(stack(std::vector<Tensor>{tensor(1), tensor(2)}).sizes(), (Shape{2}));
  const auto [x, y, names] = stack(std::vector{std::tuple(arange(2), 3, std::string("a")),
                                               std::tuple(arange(2), 4, std::string("b"))});
  EXPECT_EQ(x.sizes(), (Shape{2, 2}));
  EXPECT_EQ(y.dtype(), i64);
  EXPECT_EQ(numbers(y), (Numbers{3, 4}));
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(stack(std::vector{1.5f, 2.5f}).dtype(), f32);
  EXPECT_EQ(stack(std::vector{1.5, 2.5}).dtype(), f64);
  EXPECT_EQ(stack(std::vector{true, false}).dtype(), boolean);
  const auto columns = stack(std::vector<std::vector<int>>{{1, 2, 3}, {4, 5, 6}});
  ASSERT_EQ(columns.size(), 3u);
  EXPECT_EQ(numbers(columns[1]), (Numbers{2, 5}));
}

TEST(Collate, StacksStructs) {
  const auto sample = [](int64_t i) {
    return Sample{full({2, 2}, i), {full({}, i), {full({1}, i), full({3}, i)}}};
  };
  const Sample batch = data::Stack()(std::vector{sample(1), sample(2), sample(3)});
  EXPECT_EQ(batch.image.sizes(), (Shape{3, 2, 2}));
  EXPECT_EQ(numbers(batch.rest.first), (Numbers{1, 2, 3}));
  EXPECT_EQ(batch.rest.second[1].sizes(), (Shape{3, 3}));
}

TEST(Collate, SaysWhichItemDiffers) {
  const data::Stack stack;
  expect_error(Errc::Shape, "item 1 is f32[3]; expected f32[2], as item 0 is",
               [&] { stack(std::vector{zeros({2}), zeros({3})}); });
  expect_error(Errc::DType, "collate: 1: item 2", [&] {
    stack(std::vector{std::pair(zeros({2}), zeros({1})), std::pair(zeros({2}), zeros({1})),
                      std::pair(zeros({2}), zeros({1}, f64))});
  });
  expect_error(Errc::Shape, "collate: rest.1.0: item 1", [&] {
    stack(std::vector{Sample{zeros({1}), {zeros({1}), {zeros({1})}}},
                      Sample{zeros({1}), {zeros({1}), {zeros({2})}}}});
  });
  expect_error(Errc::Shape, "item 1 has 2 parts; expected 1",
               [&] { stack(std::vector<std::vector<int>>{{1}, {1, 2}}); });
  expect_error(Errc::Argument, "item 1 is undefined",
               [&] { stack(std::vector{zeros({2}), Tensor()}); });
}

// --- files of tokens

TEST(MappedTokens, GivesWindowsAndTheirSuccessors) {
  const testing::TemporaryFolder folder;
  const Numbers tokens{5, 0, 65535, 7, 8, 9, 10};
  for (const auto type : {data::TokenType::U16, data::TokenType::U32}) {
    data::save_tokens(folder / "t.bin", tokens, type);
    const data::MappedTokens all(folder / "t.bin", {.block_size = 3, .type = type});
    EXPECT_EQ(all.num_tokens(), 7);
    ASSERT_EQ(all.size(), 4);
    const auto [x, y] = all.get(3);
    EXPECT_EQ(numbers(x), (Numbers{7, 8, 9}));
    EXPECT_EQ(numbers(y), (Numbers{8, 9, 10}));
    const auto batch = all.get_batch(Numbers{0, 3});
    EXPECT_EQ(numbers(batch.first), (Numbers{5, 0, 65535, 7, 8, 9}));
    EXPECT_EQ(numbers(batch.second), (Numbers{0, 65535, 7, 8, 9, 10}));
    const data::MappedTokens apart(folder / "t.bin", {.block_size = 3, .stride = 3, .type = type});
    ASSERT_EQ(apart.size(), 2);
    EXPECT_EQ(numbers(apart.get(1).first), (Numbers{7, 8, 9}));
    EXPECT_EQ(numbers(all.tokens(2, 2)), (Numbers{65535, 7}));
    EXPECT_EQ(all.tokens(7, 0).numel(), 0);
  }
}

TEST(MappedTokens, RefusesWhatIsNoSuchFile) {
  const testing::TemporaryFolder folder;
  data::save_tokens(folder / "t.bin", Numbers{1, 2, 3});
  const auto open = [&](const data::MappedTokensOptions& options) {
    return data::MappedTokens(folder / "t.bin", options);
  };
  expect_error(Errc::File, "3 tokens; expected more than the block_size of 3",
               [&] { open({.block_size = 3}); });
  expect_error(Errc::File, "6 bytes; expected tokens of 4",
               [&] { open({.block_size = 1, .type = data::TokenType::U32}); });
  expect_error(Errc::Argument, "expected at least 1", [&] { open({.block_size = 0}); });
  expect_error(Errc::Argument, "expected at least 1",
               [&] { open({.block_size = 1, .stride = 0}); });
  expect_error(Errc::File, "missing.bin", [&] { data::MappedTokens(folder / "missing.bin"); });
  const data::MappedTokens tokens = open({.block_size = 2});
  for (const int64_t i : {-1, 1}) expect_error(Errc::Index, "of 1", [&] { tokens.get(i); });
  expect_error(Errc::Index, "of 3", [&] { tokens.tokens(2, INT64_MAX); });
  for (const int64_t wrong : {-1, 65536})
    expect_error(Errc::Argument, "token 1",
                 [&] { data::save_tokens(folder / "u.bin", Numbers{0, wrong}); });
  data::save_tokens(folder / "empty.bin", Numbers());
  expect_error(Errc::File, "0 tokens", [&] { data::MappedTokens(folder / "empty.bin"); });
}

}  // namespace
}  // namespace tandem
