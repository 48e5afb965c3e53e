// DataLoader: batches of a data set, made ahead by threads.
//
//   td::data::DataLoader loader(td::data::TensorDataset(images, labels),
//                               {.batch_size = 64, .shuffle = true, .num_workers = 2});
//   for (auto& [x, y] : loader) ...
#ifndef TANDEM_DATA_LOADER_H
#define TANDEM_DATA_LOADER_H

#include <tandem/data/collate.h>
#include <tandem/data/dataset.h>
#include <tandem/data/sampler.h>
#include <tandem/named_tensors.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace tandem::data {

struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;  // the last batch of an epoch, if it is not full
  /// Threads that make batches; with none the caller does.
  int num_workers = 0;
  int prefetch_factor = 2;  // batches that each worker makes ahead
  /// Of the order and of what is random in items. Nothing else is: not the number of workers.
  uint64_t seed = 0;
  SamplerPtr sampler = nullptr;  // instead of shuffle
};

namespace detail {

/// The items of one batch, and which random numbers are theirs.
struct BatchRequest {
  std::span<const int64_t> indices;
  uint64_t seed;
  int64_t epoch, first;  // the first item's place in the epoch
  Random random(size_t i) const {
    return Random(seed, static_cast<uint64_t>(epoch), static_cast<uint64_t>(first) + i);
  }
};
using MakeBatch = std::function<std::shared_ptr<void>(const BatchRequest&)>;

/// All of a loader that does not depend on the types of items.
class TANDEM_API Loader {
 public:
  Loader(int64_t dataset_size, DataLoaderOptions options, MakeBatch make);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  int64_t batches() const;
  void begin();
  /// The next batch; null at the end of the epoch.
  std::shared_ptr<void> next();
  int64_t epoch() const { return epoch_; }
  int64_t position() const { return position_; }
  void set_epoch(int64_t epoch);
  NamedTensors state_dict() const;
  void load_state_dict(const NamedTensors& state);

 private:
  class Run;

  int64_t dataset_size_;
  DataLoaderOptions options_;
  MakeBatch make_;
  int64_t epoch_ = 0, position_ = 0;  // items given
  bool started_ = false;              // the epoch; the next begin() starts another
  std::unique_ptr<Run> run_;
};

}  // namespace detail

/// torch.utils.data.DataLoader. A pass over it is an epoch, in an order of its own that follows
/// from seed and epoch. It ends early if the loop is left: the next pass is the next epoch.
///
/// Items are made under NoGrad. An exception of the data set or of `collate` reaches the caller in
/// its turn, behind the batches before it; the pass is over then. Leaving the loop or destroying
/// the loader waits for the items that workers are making.
///
/// `collate` makes the batch of a std::vector of items. Where it is Stack, a data set with
/// get_batch is asked for whole batches.
///
/// state_dict() says where the loop stands: after the batch that was given last. A loader with the
/// same data, options and loaded state goes on with the next batch, bit for bit as the first would
/// have; after an epoch's last batch, with a pass of no batches, so that what a program does at the
/// end of an epoch happens.
template <Dataset D, class Collate = Stack>
class DataLoader {
  using Parts = std::pair<D, Collate>;

 public:
  using Item = ItemOf<D>;
  using Batch = std::invoke_result_t<const Collate&, const std::vector<Item>&>;

  explicit DataLoader(D dataset, const DataLoaderOptions& options = {}, Collate collate = {})
      : loader_(loader_of(std::make_shared<const Parts>(std::move(dataset), std::move(collate)),
                          options)) {}

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(detail::Loader& loader) : loader_(&loader) { ++*this; }
    Batch& operator*() const { return *batch_; }
    Batch* operator->() const { return batch_.get(); }
    Iterator& operator++() {
      batch_.reset();
      batch_ = std::static_pointer_cast<Batch>(loader_->next());
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::nullptr_t) const { return batch_ == nullptr; }

   private:
    detail::Loader* loader_;
    std::shared_ptr<Batch> batch_;
  };

  /// Starts a pass; or goes on with the one whose state was loaded. A pass before it is over.
  Iterator begin() {
    loader_->begin();
    return Iterator(*loader_);
  }
  std::nullptr_t end() const { return nullptr; }

  /// Batches of an epoch.
  int64_t size() const { return loader_->batches(); }
  /// Counted from 0: the epoch of the running pass, else of the next.
  int64_t epoch() const { return loader_->epoch(); }
  /// How many items of that epoch were given.
  int64_t position() const { return loader_->position(); }
  /// The next pass is this epoch, from its start.
  void set_epoch(int64_t epoch) { loader_->set_epoch(epoch); }

  /// seed, epoch, position and size (of an epoch), each i64.
  NamedTensors state_dict() const { return loader_->state_dict(); }
  /// Error, and nothing changed, for the state of a loader over another number of items.
  void load_state_dict(const NamedTensors& state) { loader_->load_state_dict(state); }

 private:
  static std::unique_ptr<detail::Loader> loader_of(std::shared_ptr<const Parts> parts,
                                                   const DataLoaderOptions& options) {
    const int64_t size = parts->first.size();
    return std::make_unique<detail::Loader>(
        size, options,
        [parts = std::move(parts)](const detail::BatchRequest& request) -> std::shared_ptr<void> {
          return std::make_shared<Batch>(make(parts->first, parts->second, request));
        });
  }

  static Batch make(const D& dataset, const Collate& collate, const detail::BatchRequest& request) {
    if constexpr (HasBatches<D> && std::is_same_v<Collate, Stack>) {
      return dataset.get_batch(request.indices);
    } else {
      std::vector<Item> items;
      items.reserve(request.indices.size());
      for (size_t i = 0; i < request.indices.size(); ++i) {
        Random random = request.random(i);
        items.push_back(data::get(dataset, request.indices[i], random));
      }
      return collate(items);
    }
  }

  std::unique_ptr<detail::Loader> loader_;
};

}  // namespace tandem::data

#endif  // TANDEM_DATA_LOADER_H
