// Data sets: what has a size and gives items by number. An item is any structure of tensors and
// numbers (structure.h): a tensor, a pair of image and label, a struct with TANDEM_FIELDS.
#ifndef TANDEM_DATA_DATASET_H
#define TANDEM_DATA_DATASET_H

#include <tandem/data/random.h>
#include <tandem/tensor.h>

#include <concepts>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace tandem::data {

namespace detail {
/// Error{Index} unless 0 <= i < size.
TANDEM_API void check_index(const char* dataset, int64_t i, int64_t size);
}  // namespace detail

template <class D>
concept HasGet = requires(const D& d, int64_t i) { d.get(i); };
template <class D>
concept HasRandomGet = requires(const D& d, int64_t i, Random& random) { d.get(i, random); };

/// `size()`, and `get(i)` or, if the item is made at random, `get(i, random)`. Items are asked for
/// from several threads at once if the loader has workers, and the loader keeps a copy: large
/// contents belong into tensors or behind a std::shared_ptr.
template <class D>
concept Dataset = (HasGet<D> || HasRandomGet<D>) && requires(const D& d) {
  { d.size() } -> std::convertible_to<int64_t>;
};

/// The item of any data set: `random` is for those that are made at random.
template <Dataset D>
auto get(const D& dataset, int64_t i, Random& random) {
  if constexpr (HasRandomGet<D>)
    return dataset.get(i, random);
  else
    return dataset.get(i);
}

template <class D>
using ItemOf = decltype(data::get(std::declval<const D&>(), 0, std::declval<Random&>()));

/// A data set that makes a whole batch at once, faster than item by item: the same as its items
/// stacked.
template <class D>
concept HasBatches =
    requires(const D& d, std::span<const int64_t> indices) { d.get_batch(indices); };

namespace detail {
/// The common size along dim 0. Error{Shape} if it differs, or for 0-d tensors.
TANDEM_API int64_t common_size(std::span<const Tensor> tensors);
TANDEM_API Tensor rows(const Tensor& tensor, std::span<const int64_t> indices);
/// The i-th along dim 0; a view.
TANDEM_API Tensor row(const Tensor& tensor, int64_t i);
}  // namespace detail

/// torch.utils.data.TensorDataset: items are the tensors' rows along dim 0, one tensor or a tuple
/// (of two: a pair).
template <class... Tensors>
  requires(sizeof...(Tensors) > 0 && (std::same_as<Tensors, Tensor> && ...))
class TensorDataset {
 public:
  using Item =
      std::conditional_t<sizeof...(Tensors) == 1, Tensor,
                         std::conditional_t<sizeof...(Tensors) == 2, std::pair<Tensor, Tensor>,
                                            std::tuple<Tensors...>>>;

  explicit TensorDataset(Tensors... tensors)
      : tensors_{std::move(tensors)...}, size_(detail::common_size(tensors_)) {}

  int64_t size() const { return size_; }
  Item get(int64_t i) const {
    detail::check_index("TensorDataset", i, size_);
    return each([&](const Tensor& tensor) { return detail::row(tensor, i); });
  }
  Item get_batch(std::span<const int64_t> indices) const {
    for (const int64_t i : indices) detail::check_index("TensorDataset", i, size_);
    return each([&](const Tensor& tensor) { return detail::rows(tensor, indices); });
  }

 private:
  template <class F>
  Item each(F f) const {
    return std::apply([&](const auto&... tensor) { return Item(f(tensor)...); },
                      std::tuple_cat(tensors_));
  }

  std::array<Tensor, sizeof...(Tensors)> tensors_;
  int64_t size_;
};
template <class... Tensors>
TensorDataset(Tensors...) -> TensorDataset<std::conditional_t<true, Tensor, Tensors>...>;

/// torch.utils.data.Subset: the items with these numbers, in this order.
template <Dataset D>
class Subset {
 public:
  Subset(D dataset, std::vector<int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {
    for (const int64_t i : indices_) detail::check_index("Subset", i, dataset_.size());
  }

  int64_t size() const { return static_cast<int64_t>(indices_.size()); }
  auto get(int64_t i) const
    requires HasGet<D>
  {
    return dataset_.get(at(i));
  }
  auto get(int64_t i, Random& random) const
    requires HasRandomGet<D>
  {
    return dataset_.get(at(i), random);
  }
  auto get_batch(std::span<const int64_t> indices) const
    requires HasBatches<D>
  {
    std::vector<int64_t> inner;
    for (const int64_t i : indices) inner.push_back(at(i));
    return dataset_.get_batch(std::span<const int64_t>(inner.data(), inner.size()));
  }
  const std::vector<int64_t>& indices() const { return indices_; }

 private:
  int64_t at(int64_t i) const {
    detail::check_index("Subset", i, size());
    return indices_[static_cast<size_t>(i)];
  }

  D dataset_;
  std::vector<int64_t> indices_;
};

namespace detail {
/// A random order of [0, n).
TANDEM_API std::vector<int64_t> permutation(int64_t n, Random& random);
/// [0, size) in random order, cut into parts of these sizes, which add up to `size`.
TANDEM_API std::vector<std::vector<int64_t>> random_parts(int64_t size,
                                                          std::span<const int64_t> sizes,
                                                          uint64_t seed);
/// Fractions of `size`, rounded down; what is left over goes one by one to the first parts.
TANDEM_API std::vector<int64_t> sizes_of(int64_t size, std::span<const double> fractions);
}  // namespace detail

/// torch.utils.data.random_split into parts of these sizes, which must add up to the size. The
/// parts follow from the seed.
template <Dataset D>
std::vector<Subset<D>> random_split(const D& dataset, const std::vector<int64_t>& sizes,
                                    uint64_t seed = 0) {
  std::vector<Subset<D>> parts;
  for (auto& part : detail::random_parts(dataset.size(), sizes, seed))
    parts.emplace_back(dataset, std::move(part));
  return parts;
}
/// The same by fractions, which add up to 1.
template <Dataset D>
std::vector<Subset<D>> random_split(const D& dataset, const std::vector<double>& fractions,
                                    uint64_t seed = 0) {
  return random_split(dataset, detail::sizes_of(dataset.size(), fractions), seed);
}

/// torch.utils.data.ConcatDataset: one behind the other.
template <Dataset D>
class ConcatDataset {
 public:
  explicit ConcatDataset(std::vector<D> parts) : parts_(std::move(parts)) {
    for (const D& part : parts_) size_ += part.size();
  }

  int64_t size() const { return size_; }
  auto get(int64_t i) const
    requires HasGet<D>
  {
    const auto [part, inner] = at(i);
    return part->get(inner);
  }
  auto get(int64_t i, Random& random) const
    requires HasRandomGet<D>
  {
    const auto [part, inner] = at(i);
    return part->get(inner, random);
  }

 private:
  std::pair<const D*, int64_t> at(int64_t i) const {
    detail::check_index("ConcatDataset", i, size_);
    const D* part = parts_.data();
    for (; i >= part->size(); ++part) i -= part->size();
    return {part, i};
  }

  std::vector<D> parts_;
  int64_t size_ = 0;
};

/// The items of a data set after a function of the user's: f(item), or f(item, random) with the
/// sample's own random numbers.
template <Dataset D, class F>
class MapDataset {
 public:
  MapDataset(D dataset, F f) : dataset_(std::move(dataset)), f_(std::move(f)) {}

  int64_t size() const { return dataset_.size(); }
  auto get(int64_t i) const
    requires(HasGet<D> && std::invocable<const F&, ItemOf<D>>)
  {
    return f_(dataset_.get(i));
  }
  auto get(int64_t i, Random& random) const {
    if constexpr (std::invocable<const F&, ItemOf<D>, Random&>)
      return f_(data::get(dataset_, i, random), random);
    else
      return f_(data::get(dataset_, i, random));
  }

 private:
  D dataset_;
  F f_;
};

}  // namespace tandem::data

#endif  // TANDEM_DATA_DATASET_H
