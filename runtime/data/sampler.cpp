#include <fmt/format.h>
#include <tandem/data/dataset.h>
#include <tandem/data/sampler.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/base/error.h"
#include "runtime/data/numbers.h"

namespace tandem::data {

Sampler::~Sampler() = default;

namespace {

/// An epoch's order has random numbers of its own.
Random random_of(uint64_t seed, int64_t epoch) {
  return Random(seed, static_cast<uint64_t>(epoch), kOfOrders);
}

void check_size(const char* function, int64_t size) {
  if (size < 0)
    ir::fail(Errc::Argument, fmt::format("{}: expected a size, got {}", function, size));
}

class Sequential final : public Sampler {
 public:
  explicit Sequential(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  std::vector<int64_t> order(uint64_t /*seed*/, int64_t /*epoch*/) const override {
    std::vector<int64_t> order(static_cast<size_t>(size_));
    std::iota(order.begin(), order.end(), int64_t{0});
    return order;
  }

 private:
  int64_t size_;
};

class RandomOrder final : public Sampler {
 public:
  RandomOrder(int64_t items, int64_t samples) : items_(items), samples_(samples) {}
  int64_t size() const override { return samples_; }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override {
    Random random = random_of(seed, epoch);
    std::vector<int64_t> order;
    while (std::ssize(order) < samples_) {
      const std::vector<int64_t> more = detail::permutation(items_, random);
      order.insert(order.end(), more.begin(),
                   more.begin() + std::min(items_, samples_ - std::ssize(order)));
    }
    return order;
  }

 private:
  int64_t items_, samples_;
};

class RandomDraws final : public Sampler {
 public:
  RandomDraws(int64_t items, int64_t samples) : items_(items), samples_(samples) {}
  int64_t size() const override { return samples_; }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override {
    Random random = random_of(seed, epoch);
    std::vector<int64_t> order(static_cast<size_t>(samples_));
    for (int64_t& item : order) item = random.below(items_);
    return order;
  }

 private:
  int64_t items_, samples_;
};

class WeightedDraws final : public Sampler {
 public:
  WeightedDraws(std::span<const double> weights, int64_t samples)
      : sums_(weights.size()), samples_(samples) {
    std::partial_sum(weights.begin(), weights.end(), sums_.begin());
  }
  int64_t size() const override { return samples_; }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override {
    Random random = random_of(seed, epoch);
    std::vector<int64_t> order(static_cast<size_t>(samples_));
    for (int64_t& item : order) item = at(random.uniform() * sums_.back());
    return order;
  }

 private:
  /// The first item whose sum is above `x`, which may have been rounded up to the last sum.
  int64_t at(double x) const {
    const double below_all = std::min(x, std::nextafter(sums_.back(), 0.0));
    return std::ranges::upper_bound(sums_, below_all) - sums_.begin();
  }

  std::vector<double> sums_;
  int64_t samples_;
};

/// By exponential variates (Efraimidis and Spirakis 2006): the smallest come first.
class WeightedOrder final : public Sampler {
 public:
  WeightedOrder(std::vector<double> weights, int64_t samples)
      : weights_(std::move(weights)), samples_(samples) {}
  int64_t size() const override { return samples_; }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override {
    Random random = random_of(seed, epoch);
    std::vector<std::pair<double, int64_t>> keys;
    for (size_t i = 0; i < weights_.size(); ++i) {
      const double variate = -std::log1p(-random.uniform());
      if (weights_[i] > 0) keys.emplace_back(variate / weights_[i], static_cast<int64_t>(i));
    }
    std::ranges::sort(keys);
    std::vector<int64_t> order(static_cast<size_t>(samples_));
    for (size_t i = 0; i < order.size(); ++i) order[i] = keys[i].second;
    return order;
  }

 private:
  std::vector<double> weights_;
  int64_t samples_;
};

class RandomSubset final : public Sampler {
 public:
  explicit RandomSubset(std::vector<int64_t> indices) : indices_(std::move(indices)) {}
  int64_t size() const override { return std::ssize(indices_); }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override {
    Random random = random_of(seed, epoch);
    std::vector<int64_t> order = detail::permutation(size(), random);
    for (int64_t& item : order) item = indices_[static_cast<size_t>(item)];
    return order;
  }

 private:
  std::vector<int64_t> indices_;
};

class Distributed final : public Sampler {
 public:
  Distributed(SamplerPtr all, int64_t rank, int64_t ranks, bool drop_last)
      : all_(std::move(all)), rank_(rank), ranks_(ranks), drop_last_(drop_last) {}
  int64_t size() const override {
    return all_->size() / ranks_ + (!drop_last_ && all_->size() % ranks_ != 0 ? 1 : 0);
  }
  std::vector<int64_t> order(uint64_t seed, int64_t epoch) const override {
    const std::vector<int64_t> all = all_->order(seed, epoch);
    std::vector<int64_t> order(static_cast<size_t>(size()));
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = all[(static_cast<size_t>(rank_) + i * static_cast<size_t>(ranks_)) % all.size()];
    return order;
  }

 private:
  SamplerPtr all_;
  int64_t rank_, ranks_;
  bool drop_last_;
};

std::vector<double> checked_weights(const Tensor& weights) {
  if (!weights.defined() || weights.dim() != 1)
    ir::fail(Errc::Shape, "weighted: expected weights of one dimension");
  std::vector<double> numbers = weights.to_vector<double>();
  double sum = 0;
  for (const double weight : numbers) {
    if (!(weight >= 0) || !std::isfinite(weight))
      ir::fail(
          Errc::Argument,
          fmt::format("weighted: a weight of {}; expected a finite number, not negative", weight));
    sum += weight;
  }
  if (!(sum > 0) || !std::isfinite(sum))
    ir::fail(Errc::Argument,
             fmt::format("weighted: weights with the sum {}; expected a positive one", sum));
  return numbers;
}

}  // namespace

SamplerPtr sequential(int64_t size) {
  check_size("sequential", size);
  return std::make_shared<Sequential>(size);
}

SamplerPtr random(int64_t size, const RandomSamplerOptions& options) {
  check_size("random", size);
  const int64_t samples = options.num_samples == -1 ? size : options.num_samples;
  check_size("random: num_samples", samples);
  if (samples > 0 && size == 0)
    ir::fail(Errc::Argument, fmt::format("random: {} samples of no items", samples));
  if (options.replacement) return std::make_shared<RandomDraws>(size, samples);
  return std::make_shared<RandomOrder>(size, samples);
}

SamplerPtr weighted(const Tensor& weights, int64_t num_samples, bool replacement) {
  check_size("weighted: num_samples", num_samples);
  std::vector<double> numbers = checked_weights(weights);
  if (replacement) return std::make_shared<WeightedDraws>(numbers, num_samples);
  const auto positive = std::ranges::count_if(numbers, [](double weight) { return weight > 0; });
  if (num_samples > positive)
    ir::fail(Errc::Argument,
             fmt::format("weighted: {} samples without replacement; expected at most {}, as many "
                         "as there are weights above zero",
                         num_samples, positive));
  return std::make_shared<WeightedOrder>(std::move(numbers), num_samples);
}

SamplerPtr subset_random(std::vector<int64_t> indices) {
  return std::make_shared<RandomSubset>(std::move(indices));
}

SamplerPtr distributed(SamplerPtr all, int64_t rank, int64_t world_size, bool drop_last) {
  if (all == nullptr) ir::fail(Errc::Argument, "distributed: expected a sampler, got null");
  if (rank < 0 || rank >= world_size)
    ir::fail(Errc::Argument, fmt::format("distributed: rank {} of {}", rank, world_size));
  return std::make_shared<Distributed>(std::move(all), rank, world_size, drop_last);
}

}  // namespace tandem::data
