#include <fmt/format.h>
#include <tandem/data/dataset.h>
#include <tandem/ops.h>

#include <cmath>
#include <numeric>

#include "ir/base/error.h"
#include "runtime/data/numbers.h"

namespace tandem::data::detail {

void check_index(const char* dataset, int64_t i, int64_t size) {
  if (i < 0 || i >= size) ir::fail(Errc::Index, fmt::format("{}: item {} of {}", dataset, i, size));
}

int64_t common_size(std::span<const Tensor> tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined() || tensors[i].dim() == 0)
      ir::fail(Errc::Shape,
               fmt::format("TensorDataset: tensor {}: expected at least one dimension", i));
    if (tensors[i].size(0) != tensors[0].size(0))
      ir::fail(Errc::Shape,
               fmt::format("TensorDataset: tensor {} has {} rows; expected {}, as tensor 0 has", i,
                           int64_t{tensors[i].size(0)}, int64_t{tensors[0].size(0)}));
  }
  return int64_t{tensors[0].size(0)};
}

Tensor rows(const Tensor& tensor, std::span<const int64_t> indices) {
  return index_select(tensor, 0, tensor_of(indices));
}

Tensor row(const Tensor& tensor, int64_t i) { return select(tensor, 0, i); }

std::vector<int64_t> permutation(int64_t n, Random& random) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t i = n; i > 1; --i)
    std::swap(order[static_cast<size_t>(i - 1)], order[static_cast<size_t>(random.below(i))]);
  return order;
}

std::vector<std::vector<int64_t>> random_parts(int64_t size, std::span<const int64_t> sizes,
                                               uint64_t seed) {
  int64_t sum = 0;
  for (const int64_t part : sizes) {
    if (part < 0 || part > size - sum)
      ir::fail(Errc::Argument,
               fmt::format("random_split: parts [{}] of {} items", fmt::join(sizes, ", "), size));
    sum += part;
  }
  if (sum != size)
    ir::fail(Errc::Argument, fmt::format("random_split: parts [{}] have {} items; expected all {}",
                                         fmt::join(sizes, ", "), sum, size));
  Random random(seed, kOfSplits);
  const std::vector<int64_t> order = permutation(size, random);
  std::vector<std::vector<int64_t>> parts;
  for (auto at = order.begin(); const int64_t part : sizes) {
    parts.emplace_back(at, at + part);
    at += part;
  }
  return parts;
}

std::vector<int64_t> sizes_of(int64_t size, std::span<const double> fractions) {
  double sum = 0;
  bool negative = false;
  for (const double fraction : fractions) {
    negative |= !(fraction >= 0);
    sum += fraction;
  }
  if (negative || !(std::abs(sum - 1) < 1e-9))
    ir::fail(Errc::Argument, fmt::format("random_split: fractions [{}]; expected a sum of 1, none "
                                         "negative",
                                         fmt::join(fractions, ", ")));
  std::vector<int64_t> sizes;
  int64_t left = size;
  for (const double fraction : fractions) {
    sizes.push_back(std::min(left, static_cast<int64_t>(static_cast<double>(size) * fraction)));
    left -= sizes.back();
  }
  for (size_t i = 0; left > 0; ++i, --left) ++sizes[i % sizes.size()];
  return sizes;
}

}  // namespace tandem::data::detail
