// Samplers: in which order a loader asks for items. An order follows from seed and epoch alone, so
// that a run which is resumed goes on as if it had not stopped.
#ifndef TANDEM_DATA_SAMPLER_H
#define TANDEM_DATA_SAMPLER_H

#include <tandem/tensor.h>

#include <memory>
#include <vector>

namespace tandem::data {

class TANDEM_API Sampler {
 public:
  virtual ~Sampler();
  /// How many items an epoch has.
  virtual int64_t size() const = 0;
  /// The numbers of an epoch's items. Must be the same again for the same seed and epoch.
  virtual std::vector<int64_t> order(uint64_t seed, int64_t epoch) const = 0;
};
using SamplerPtr = std::shared_ptr<const Sampler>;

/// 0, 1, ... `size` - 1.
TANDEM_API SamplerPtr sequential(int64_t size);

struct RandomSamplerOptions {
  bool replacement = false;
  int64_t num_samples = -1;  // of an epoch; -1: as many as there are items
};
/// torch.utils.data.RandomSampler: a random order of `size` items, or as many draws with
/// replacement. (More samples than items without replacement are several orders in turn.)
TANDEM_API SamplerPtr random(int64_t size, const RandomSamplerOptions& options = {});

/// torch.utils.data.WeightedRandomSampler: item i with a probability in proportion to weights[i]
/// (1-d, finite, not negative). Without replacement at most as many samples as there are weights
/// above zero.
TANDEM_API SamplerPtr weighted(const Tensor& weights, int64_t num_samples, bool replacement = true);

/// The items with these numbers, in random order: torch.utils.data.SubsetRandomSampler.
TANDEM_API SamplerPtr subset_random(std::vector<int64_t> indices);

/// torch.utils.data.DistributedSampler: of `all`, every world_size-th from `rank` on. All ranks
/// have equally many: the first items come again, or with `drop_last` the last are left out.
TANDEM_API SamplerPtr distributed(SamplerPtr all, int64_t rank, int64_t world_size,
                                  bool drop_last = false);

}  // namespace tandem::data

#endif  // TANDEM_DATA_SAMPLER_H
