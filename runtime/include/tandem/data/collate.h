// Items to batches: each leaf stacked along a new dim 0.
#ifndef TANDEM_DATA_COLLATE_H
#define TANDEM_DATA_COLLATE_H

#include <tandem/structure.h>
#include <tandem/tensor.h>

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tandem::data {

namespace detail {

/// Error, which names the item and `path`, if their sizes or dtypes differ.
TANDEM_API Tensor stack_items(std::span<const Tensor> items, const std::string& path);
TANDEM_API Tensor batch_of(std::span<const double> numbers, DType dtype);
TANDEM_API Tensor batch_of(std::span<const int64_t> numbers, DType dtype);
/// Error{Shape} unless item `i` has as many parts as the first.
TANDEM_API void check_count(size_t count, size_t first, size_t i, const std::string& path);

template <class Number>
Tensor stack_numbers(const std::vector<Number>& items) {
  using Wide = std::conditional_t<std::is_floating_point_v<Number>, double, int64_t>;
  constexpr DType kDType = std::is_same_v<Number, bool>       ? boolean
                           : std::is_same_v<Number, float>    ? f32
                           : std::is_floating_point_v<Number> ? f64
                                                              : i64;
  std::vector<Wide> wide;
  wide.reserve(items.size());
  for (const Number item : items) wide.push_back(static_cast<Wide>(item));
  return batch_of(std::span<const Wide>(wide), kDType);
}

/// The tensors of a struct, with their paths; and back into one.
struct GatherTensors {
  std::vector<Tensor> tensors;
  std::vector<std::string> paths;
  void operator()(const Tensor& tensor, const std::string& path) {
    tensors.push_back(tensor);
    paths.push_back(path);
  }
  template <class T>
  void operator()(const T&, const std::string&) {
    static_assert(std::is_same_v<T, Tensor>,
                  "collate: a field of the item's struct is no tensor, so the struct cannot hold a "
                  "batch of it; make it a 0-d tensor, or give the loader a collate function");
  }
  void count(size_t, const std::string&) {}
};
struct ScatterTensors {
  std::span<const Tensor> tensors;
  size_t next = 0;
  void operator()(Tensor& tensor, const std::string&) { tensor = tensors[next++]; }
  template <class T>
  void operator()(T&, const std::string&) {}  // GatherTensors says that there are none
  void count(size_t, const std::string&) {}
};

TANDEM_API std::vector<Tensor> stack_structs(const std::vector<GatherTensors>& items,
                                             const std::string& path);

template <class Item>
Item stack_structs_of(const std::vector<Item>& items, const std::string& path) {
  std::vector<GatherTensors> gathered(items.size());
  for (size_t i = 0; i < items.size(); ++i) structure::for_each_leaf<true>(items[i], gathered[i]);
  const std::vector<Tensor> stacked = stack_structs(gathered, path);
  Item batch = items[0];
  ScatterTensors scatter{{stacked.data(), stacked.size()}};
  structure::for_each_leaf<false>(batch, scatter);
  return batch;
}

template <class Item>
auto collate(const std::vector<Item>& items, const std::string& path);

/// The batch of one part of the items, `part(item)`.
template <class Item, class Part>
auto collate_part(const std::vector<Item>& items, const std::string& path, Part part) {
  std::vector<std::remove_cvref_t<decltype(part(items[0]))>> parts;
  parts.reserve(items.size());
  for (const Item& item : items) parts.push_back(part(item));
  return collate(parts, path);
}

template <class Item, size_t... I>
auto collate_tuple(const std::vector<Item>& items, const std::string& path,
                   std::index_sequence<I...>) {
  const auto of = [&](auto at) {
    constexpr size_t kAt = decltype(at)::value;
    return collate_part(items, structure::join(path, std::to_string(kAt)),
                        [](const Item& item) { return std::get<kAt>(item); });
  };
  if constexpr (structure::is_instance<Item, std::pair>)
    return std::pair(of(std::integral_constant<size_t, I>())...);
  else
    return std::tuple(of(std::integral_constant<size_t, I>())...);
}

template <class Item>
auto collate_sequence(const std::vector<Item>& items, const std::string& path) {
  for (size_t i = 0; i < items.size(); ++i) check_count(items[i].size(), items[0].size(), i, path);
  std::vector<decltype(collate(std::vector<typename Item::value_type>(), path))> out;
  for (size_t k = 0; k < items[0].size(); ++k)
    out.push_back(collate_part(items, structure::join(path, std::to_string(k)),
                               [&](const Item& item) { return item[k]; }));
  return out;
}

template <class Item>
auto collate(const std::vector<Item>& items, const std::string& path) {
  if constexpr (std::is_base_of_v<Tensor, Item>)
    return stack_items(std::vector<Tensor>(items.begin(), items.end()), path);
  else if constexpr (structure::Plain<Item>)
    return stack_numbers(items);
  else if constexpr (std::is_same_v<Item, std::string>)
    return items;
  else if constexpr (structure::TupleLike<Item>)
    return collate_tuple(items, path, std::make_index_sequence<std::tuple_size_v<Item>>());
  else if constexpr (structure::Sequence<Item>)
    return collate_sequence(items, path);
  else
    return stack_structs_of(items, path);
}

}  // namespace detail

/// torch.utils.data.default_collate: the batch of `items` (at least one). Tensors are stacked along
/// a new dim 0; numbers become a tensor (bool, i64, f32 of float, f64 of double), strings a vector;
/// tuples, vectors and arrays the same of batches; a struct with TANDEM_FIELDS, whose fields are
/// all tensors, itself with stacked tensors. Error{Shape} or Error{DType}, which names item and
/// field, if items differ.
struct Stack {
  template <class Item>
  auto operator()(const std::vector<Item>& items) const {
    return detail::collate(items, {});
  }
};

}  // namespace tandem::data

#endif  // TANDEM_DATA_COLLATE_H
