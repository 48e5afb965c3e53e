// DataLoader: what it gives, whoever makes it, and that it goes on where it was.
#include <gtest/gtest.h>
#include <tandem/data.h>
#include <tandem/tandem.h>

#include <stdexcept>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace tandem {
namespace {

using testing::expect_error;
using Numbers = std::vector<int64_t>;
using Batches = std::vector<Numbers>;

template <class Loader>
Batches pass(Loader& loader) {
  Batches batches;
  for (const Tensor& batch : loader) batches.push_back(batch.to_vector<int64_t>());
  return batches;
}

data::DataLoader<data::TensorDataset<Tensor>> numbers_up_to(
    int64_t n, const data::DataLoaderOptions& options) {
  return data::DataLoader(data::TensorDataset(arange(n)), options);
}

/// Each item with random numbers of its own.
auto noisy(int64_t n) {
  return data::MapDataset(
      data::TensorDataset(arange(n)),
      [](const Tensor& x, data::Random& random) { return x * 1000 + random.below(1000); });
}

TEST(DataLoader, GivesBatchesInOrder) {
  for (const int workers : {0, 1, 3}) {
    auto all = numbers_up_to(7, {.batch_size = 3, .num_workers = workers});
    EXPECT_EQ(all.size(), 3);
    EXPECT_EQ(pass(all), (Batches{{0, 1, 2}, {3, 4, 5}, {6}}));
    EXPECT_EQ(pass(all), (Batches{{0, 1, 2}, {3, 4, 5}, {6}}));
    auto full = numbers_up_to(7, {.batch_size = 3, .drop_last = true, .num_workers = workers});
    EXPECT_EQ(full.size(), 2);
    EXPECT_EQ(pass(full), (Batches{{0, 1, 2}, {3, 4, 5}}));
    EXPECT_EQ(full.epoch(), 1);
    auto none = numbers_up_to(0, {.batch_size = 3, .shuffle = true, .num_workers = workers});
    EXPECT_EQ(pass(none), Batches());
  }
}

TEST(DataLoader, OrderAndNoiseDoNotDependOnWorkers) {
  std::vector<Batches> expected;
  for (const int workers : {0, 1, 2, 5}) {
    data::DataLoader loader(noisy(50),
                            {.batch_size = 4, .shuffle = true, .num_workers = workers, .seed = 9});
    std::vector<Batches> epochs{pass(loader), pass(loader)};
    EXPECT_NE(epochs[0], epochs[1]);
    if (expected.empty()) expected = epochs;
    EXPECT_EQ(epochs, expected);
  }
}

TEST(DataLoader, LeavesTheGeneratorAlone) {
  manual_seed(3);
  const double expected = rand({1}).item();
  manual_seed(3);
  data::DataLoader loader(noisy(10), {.batch_size = 2, .shuffle = true, .num_workers = 2});
  pass(loader);
  EXPECT_EQ(rand({1}).item(), expected);
}

TEST(DataLoader, WholeBatchesAreItemsStacked) {
  const Tensor x = randn({10, 3}), y = arange(10);
  const data::TensorDataset dataset(x.t().contiguous().t(), y);
  data::DataLoader fast(dataset, {.batch_size = 4, .shuffle = true});
  data::DataLoader slow(data::MapDataset(dataset, [](const auto& item) { return item; }),
                        {.batch_size = 4, .shuffle = true});
  auto it = slow.begin();
  for (const auto& [a, b] : fast) {
    EXPECT_TRUE(equal(a, it->first));
    EXPECT_TRUE(equal(b, it->second));
    ++it;
  }
}

TEST(DataLoader, GivesBatchesThatMayBeTrainedOn) {
  const Tensor w = ones({3}).requires_grad_();
  data::DataLoader loader(data::TensorDataset(ones({4, 3}), ones({4})),
                          {.batch_size = 2, .num_workers = 1});
  for (auto& [x, y] : loader) {
    EXPECT_FALSE(x.requires_grad());
    sum(matmul(x, w) - y).backward();
  }
  EXPECT_EQ(w.grad().to_vector<double>(), (std::vector<double>{4, 4, 4}));
}

TEST(DataLoader, TakesACollateFunction) {
  const auto longest = [](const std::vector<Tensor>& items) {
    Dim length = 0;
    for (const Tensor& item : items) length = std::max<Dim>(length, item.numel());
    std::vector<Tensor> padded;
    for (const Tensor& item : items) padded.push_back(pad(item, {0, length - item.numel()}));
    return stack(padded);
  };
  data::DataLoader loader(
      data::MapDataset(data::TensorDataset(arange(4)),
                       [](const Tensor& i) { return ones({i.item<int64_t>()}); }),
      {.batch_size = 2, .num_workers = 2}, longest);
  std::vector<Shape> sizes;
  for (const Tensor& batch : loader) sizes.push_back(batch.sizes());
  EXPECT_EQ(sizes, (std::vector<Shape>{{2, 1}, {2, 3}}));
}

TEST(DataLoader, TakesPartsOfDataSets) {
  const data::TensorDataset all(arange(10));
  const data::Subset part(all, {5, 7, 9});
  data::DataLoader some(part, {.batch_size = 2});
  EXPECT_EQ(pass(some), (Batches{{5, 7}, {9}}));
  data::DataLoader more(data::ConcatDataset(std::vector{part, data::Subset(all, {0})}),
                        {.batch_size = 3, .num_workers = 1});
  EXPECT_EQ(pass(more), (Batches{{5, 7, 9}, {0}}));
}

TEST(DataLoader, TakesASampler) {
  auto loader = numbers_up_to(10, {.batch_size = 2, .sampler = data::subset_random({3, 4, 5})});
  EXPECT_EQ(loader.size(), 2);
  Numbers all;
  for (const Tensor& batch : loader)
    for (const int64_t i : batch.to_vector<int64_t>()) all.push_back(i);
  std::ranges::sort(all);
  EXPECT_EQ(all, (Numbers{3, 4, 5}));
}

// --- leaving early, exceptions

TEST(DataLoader, APassMayBeLeft) {
  for (const int workers : {0, 2}) {
    const data::DataLoaderOptions options{.batch_size = 1, .shuffle = true, .num_workers = workers};
    auto unbroken = numbers_up_to(20, options), loader = numbers_up_to(20, options);
    const std::vector<Batches> epochs{pass(unbroken), pass(unbroken), pass(unbroken)};
    for (const Tensor& batch : loader) {
      EXPECT_EQ(batch.to_vector<int64_t>(), epochs[0][0]);
      break;
    }
    EXPECT_EQ(loader.epoch(), 0);
    EXPECT_EQ(loader.position(), 1);
    EXPECT_EQ(pass(loader), epochs[1]);
    loader.set_epoch(0);
    EXPECT_EQ(pass(loader), epochs[0]);
    loader.set_epoch(2);
    EXPECT_EQ(pass(loader), epochs[2]);
    loader.begin();  // and never asked again
  }
}

TEST(DataLoader, MayBeMoved) {
  auto loader = numbers_up_to(4, {.batch_size = 2, .num_workers = 1});
  auto it = loader.begin();
  auto moved = std::move(loader);
  ++it;
  EXPECT_EQ(it->to_vector<int64_t>(), (Numbers{2, 3}));
  EXPECT_EQ(pass(moved).size(), 2u);
}

TEST(DataLoader, ExceptionsComeInTheirTurn) {
  for (const int workers : {0, 1, 4}) {
    data::DataLoader loader(data::MapDataset(data::TensorDataset(arange(40)),
                                             [](const Tensor& x) {
                                               if (x.item<int64_t>() == 20)
                                                 throw std::out_of_range("twenty");
                                               return x;
                                             }),
                            {.batch_size = 2, .num_workers = workers});
    int64_t given = 0;
    const auto run = [&] {
      for (const Tensor& batch : loader) given += int64_t{batch.numel()};
    };
    EXPECT_THROW(run(), std::out_of_range);
    EXPECT_EQ(given, 20);
    EXPECT_EQ(loader.position(), 20);
    EXPECT_THROW(run(), std::out_of_range);
    EXPECT_EQ(loader.epoch(), 1);
  }
  data::DataLoader uneven(
      data::MapDataset(data::TensorDataset(arange(4)),
                       [](const Tensor& x) { return ones({x.item<int64_t>() / 3}); }),
      {.batch_size = 4, .num_workers = 2});
  expect_error(Errc::Shape, "item 3 is f32[1]; expected f32[0]", [&] { uneven.begin(); });
}

TEST(DataLoader, RefusesWrongOptions) {
  const auto refused = [](const data::DataLoaderOptions& options, const char* part) {
    expect_error(Errc::Argument, part, [&] { numbers_up_to(3, options); });
  };
  refused({.batch_size = 0}, "batch_size is 0; expected at least 1");
  refused({.num_workers = -1}, "num_workers is -1");
  refused({.num_workers = 100000}, "expected 0 to 1024");
  refused({.prefetch_factor = 0}, "prefetch_factor is 0");
  refused({.shuffle = true, .sampler = data::sequential(3)}, "expected one of them");
  auto beyond = numbers_up_to(3, {.sampler = data::sequential(4)});
  expect_error(Errc::Index, "item 3 of 3", [&] { beyond.begin(); });
  auto loader = numbers_up_to(3, {});
  expect_error(Errc::Argument, "at least 0", [&] { loader.set_epoch(-1); });
  numbers_up_to(3, {.batch_size = INT64_MAX / 2});
}

// --- state

/// The batches of `epochs` epochs, with the state before each kept if `states` is given.
template <class Loader>
Batches run(Loader& loader, int64_t epochs, std::vector<NamedTensors>* states = nullptr) {
  Batches batches;
  while (loader.epoch() < epochs) {
    for (const Tensor& batch : loader) {
      batches.push_back(batch.to_vector<int64_t>());
      if (states != nullptr) states->push_back(loader.state_dict());
    }
    batches.push_back({});  // the end of an epoch is seen too
  }
  return batches;
}

TEST(DataLoader, GoesOnFromAnyState) {
  const testing::TemporaryFolder folder;
  for (const bool drop_last : {false, true}) {
    const auto make = [&](int workers, uint64_t seed) {
      return data::DataLoader(noisy(11), {.batch_size = 3,
                                          .shuffle = true,
                                          .drop_last = drop_last,
                                          .num_workers = workers,
                                          .seed = seed});
    };
    auto unbroken = make(2, 5);
    std::vector<NamedTensors> states;
    const Batches expected = run(unbroken, 3, &states);
    size_t given = 0;
    for (size_t i = 0; i < states.size(); ++i) {
      while (expected[given].empty()) ++given;  // ends of epochs
      ++given;
      save_safetensors(folder / "state", states[i]);
      auto resumed = make(static_cast<int>(i % 3), 77);
      resumed.load_state_dict(load_safetensors(folder / "state"));
      EXPECT_EQ(run(resumed, 3),
                Batches(expected.begin() + static_cast<ptrdiff_t>(given), expected.end()));
    }
  }
}

TEST(DataLoader, StateMayBeLoadedInTheMiddleOfAPass) {
  data::DataLoader loader(noisy(12), {.batch_size = 2, .shuffle = true, .num_workers = 2});
  const NamedTensors start = loader.state_dict();
  const Batches first = pass(loader);
  for ([[maybe_unused]] const Tensor& batch : loader) break;
  loader.load_state_dict(start);
  EXPECT_EQ(pass(loader), first);
}

TEST(DataLoader, RefusesStatesOfOthers) {
  auto loader = numbers_up_to(4, {.batch_size = 2, .shuffle = true, .seed = 1});
  const NamedTensors good = loader.state_dict();
  const auto with = [&](const char* name, const Tensor& value) {
    NamedTensors state = good;
    for (auto& [key, tensor] : state)
      if (key == name) tensor = value;
    return state;
  };
  const auto refused = [&](const NamedTensors& state, const char* part) {
    expect_error(Errc::Argument, part, [&] { loader.load_state_dict(state); });
  };
  refused({}, "expected an i64 number \"seed\"");
  refused(with("epoch", Tensor()), "\"epoch\"");
  refused(with("epoch", tensor(1.0)), "\"epoch\"");
  refused(with("position", arange(2)), "\"position\"");
  refused(with("position", tensor(5)), "item 5 of 4");
  refused(with("epoch", tensor(-1)), "epoch -1");
  refused(numbers_up_to(5, {}).state_dict(), "of 5 items an epoch; expected 4");
  EXPECT_EQ(pass(loader), [&] {
    auto other = numbers_up_to(4, {.batch_size = 2, .shuffle = true, .seed = 1});
    return pass(other);
  }());
}

TEST(DataLoader, SeedsOf64BitsSurvive) {
  auto loader = numbers_up_to(9, {.shuffle = true, .seed = ~uint64_t{0}});
  auto other = numbers_up_to(9, {.shuffle = true});
  other.load_state_dict(loader.state_dict());
  EXPECT_EQ(pass(other), pass(loader));
}

}  // namespace
}  // namespace tandem
