#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/data/loader.h>
#include <tandem/ops.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "ir/base/error.h"

namespace tandem::data::detail {

/// What is left of an epoch, batch by batch. Workers take batches in turn, at most `window` ahead
/// of what was given, and leave each, or the exception in its place, in a slot of its own.
class Loader::Run {
 public:
  Run(const Loader& loader, std::vector<int64_t> order)
      : make_(loader.make_),
        seed_(loader.options_.seed),
        epoch_(loader.epoch_),
        batch_size_(loader.options_.batch_size),
        first_(loader.position_),
        order_(std::move(order)),
        batches_(count(loader.options_.drop_last)) {}
  ~Run() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    may_start_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void start(int64_t workers, int64_t prefetch_factor) {
    workers = std::min(workers, batches_);
    slots_.resize(static_cast<size_t>(std::min(workers * prefetch_factor, batches_)));
    workers_.reserve(static_cast<size_t>(workers));
    try {
      while (std::ssize(workers_) < workers) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error& e) {
      ir::fail(Errc::OutOfMemory, fmt::format("DataLoader: cannot start thread {} of {}: {}",
                                              workers_.size() + 1, workers, e.what()));
    }
  }

  /// Null at the end. `position` becomes the place of the item behind the batch.
  std::shared_ptr<void> next(int64_t& position) {
    if (given_ == batches_) return nullptr;
    std::shared_ptr<void> batch = workers_.empty() ? make(given_) : take();
    ++given_;
    position = std::min(first_ + given_ * batch_size_, std::ssize(order_));
    return batch;
  }

 private:
  struct Slot {
    std::shared_ptr<void> batch;
    std::exception_ptr failure;
    bool ready = false;
  };

  int64_t count(bool drop_last) const {
    const int64_t left = std::ssize(order_) - first_;
    return left / batch_size_ + (!drop_last && left % batch_size_ != 0 ? 1 : 0);
  }
  Slot& slot_of(int64_t batch) { return slots_[static_cast<size_t>(batch % std::ssize(slots_))]; }

  std::shared_ptr<void> make(int64_t batch) const {
    const NoGrad no_grad;
    const int64_t begin = first_ + batch * batch_size_;
    const int64_t size = std::min(batch_size_, std::ssize(order_) - begin);
    const auto indices =
        std::span(order_).subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
    return make_({indices, seed_, epoch_, begin});
  }

  Slot made(int64_t batch) const {
    try {
      return {make(batch), nullptr, true};
    } catch (...) {
      return {nullptr, std::current_exception(), true};
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      may_start_.wait(lock, [&] {
        return stopped_ || taken_ == batches_ || taken_ < given_by_workers_ + std::ssize(slots_);
      });
      if (stopped_ || taken_ == batches_) return;
      const int64_t batch = taken_++;
      lock.unlock();
      Slot slot = made(batch);
      lock.lock();
      slot_of(batch) = std::move(slot);
      is_ready_.notify_one();
    }
  }

  std::shared_ptr<void> take() {
    Slot slot;
    {
      std::unique_lock lock(mutex_);
      Slot& next = slot_of(given_);
      is_ready_.wait(lock, [&] { return next.ready; });
      slot = std::exchange(next, {});
      ++given_by_workers_;
    }
    may_start_.notify_all();
    if (slot.failure != nullptr) std::rethrow_exception(slot.failure);
    return std::move(slot.batch);
  }

  const MakeBatch& make_;
  const uint64_t seed_;
  const int64_t epoch_, batch_size_, first_;
  const std::vector<int64_t> order_;
  const int64_t batches_;
  int64_t given_ = 0;  // the caller's own count

  std::mutex mutex_;
  std::condition_variable may_start_, is_ready_;
  // Under the mutex:
  std::vector<Slot> slots_;
  int64_t taken_ = 0, given_by_workers_ = 0;
  bool stopped_ = false;

  std::vector<std::thread> workers_;
};

namespace {

constexpr int kMostWorkers = 1024;

void check_options(const DataLoaderOptions& options) {
  const auto refuse = [](const char* name, int64_t value, const char* expected) {
    ir::fail(Errc::Argument,
             fmt::format("DataLoader: {} is {}; expected {}", name, value, expected));
  };
  if (options.batch_size < 1) refuse("batch_size", options.batch_size, "at least 1");
  if (options.num_workers < 0 || options.num_workers > kMostWorkers)
    refuse("num_workers", options.num_workers, "0 to 1024");
  if (options.prefetch_factor < 1) refuse("prefetch_factor", options.prefetch_factor, "at least 1");
  if (options.sampler != nullptr && options.shuffle)
    ir::fail(Errc::Argument, "DataLoader: both shuffle and a sampler; expected one of them");
}

/// That of the options, or the one that they stand for.
SamplerPtr sampler_of(const DataLoaderOptions& options, int64_t size) {
  if (options.sampler != nullptr) return options.sampler;
  return options.shuffle ? random(size) : sequential(size);
}

int64_t number_in(const NamedTensors& state, const char* name) {
  const Tensor* found = find(state, name);
  if (found == nullptr || !found->defined() || found->dtype() != i64 || found->numel() != 1)
    ir::fail(Errc::Argument,
             fmt::format("DataLoader::load_state_dict: expected an i64 number \"{}\"", name));
  return found->item<int64_t>();
}

}  // namespace

Loader::Loader(int64_t dataset_size, DataLoaderOptions options, MakeBatch make)
    : dataset_size_(dataset_size), options_(std::move(options)), make_(std::move(make)) {
  check_options(options_);
  options_.sampler = sampler_of(options_, dataset_size_);
}

Loader::~Loader() = default;

int64_t Loader::batches() const {
  const int64_t items = options_.sampler->size(), size = options_.batch_size;
  return items / size + (!options_.drop_last && items % size != 0 ? 1 : 0);
}

void Loader::begin() {
  run_.reset();
  if (started_) {
    ++epoch_;
    position_ = 0;
  }
  started_ = true;
  std::vector<int64_t> order = options_.sampler->order(options_.seed, epoch_);
  for (const int64_t item : order)
    check_index("DataLoader: the sampler gives", item, dataset_size_);
  run_ = std::make_unique<Run>(*this, std::move(order));
  run_->start(options_.num_workers, options_.prefetch_factor);
}

std::shared_ptr<void> Loader::next() {
  if (run_ == nullptr) return nullptr;
  try {
    std::shared_ptr<void> batch = run_->next(position_);
    if (batch != nullptr) return batch;
  } catch (...) {
    run_.reset();
    throw;
  }
  set_epoch(epoch_ + 1);
  return nullptr;
}

void Loader::set_epoch(int64_t epoch) {
  if (epoch < 0)
    ir::fail(Errc::Argument, fmt::format("DataLoader::set_epoch: {}; expected at least 0", epoch));
  run_.reset();
  epoch_ = epoch;
  position_ = 0;
  started_ = false;
}

NamedTensors Loader::state_dict() const {
  const auto number = [](int64_t value) { return tensor(value, i64); };
  return {{"seed", number(static_cast<int64_t>(options_.seed))},
          {"epoch", number(epoch_)},
          {"position", number(position_)},
          {"size", number(options_.sampler->size())}};
}

void Loader::load_state_dict(const NamedTensors& state) {
  const int64_t seed = number_in(state, "seed"), epoch = number_in(state, "epoch"),
                position = number_in(state, "position"), size = number_in(state, "size");
  if (size != options_.sampler->size())
    ir::fail(Errc::Argument,
             fmt::format("DataLoader::load_state_dict: the state is of {} items an epoch; expected "
                         "{}",
                         size, options_.sampler->size()));
  if (epoch < 0 || position < 0 || position > size)
    ir::fail(Errc::Argument, fmt::format("DataLoader::load_state_dict: epoch {}, item {} of {}",
                                         epoch, position, size));
  set_epoch(epoch);
  options_.seed = static_cast<uint64_t>(seed);
  position_ = position;
}

}  // namespace tandem::data::detail
