#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/data/collate.h>
#include <tandem/ops.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/data/numbers.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::data {
namespace {

std::string of_part(const std::string& path) {
  return path.empty() ? std::string("collate") : fmt::format("collate: {}", path);
}

void check_same_type(const Tensor& item, const Tensor& first, size_t i, const std::string& path) {
  if (!item.defined())
    ir::fail(Errc::Argument, fmt::format("{}: item {} is undefined", of_part(path), i));
  const ir::Type type = item.impl()->type(), expected = first.impl()->type();
  if (type != expected)
    ir::fail(type.dtype == expected.dtype ? Errc::Shape : Errc::DType,
             fmt::format("{}: item {} is {}; expected {}, as item 0 is", of_part(path), i,
                         ir::to_string(type), ir::to_string(expected)));
}

template <class Number>
Tensor filled(std::span<const Number> numbers, DType dtype) {
  Tensor out = runtime::empty_tensor({static_cast<int64_t>(numbers.size())}, dtype);
  std::ranges::copy(numbers, static_cast<Number*>(out.impl()->data()));
  return out;
}

}  // namespace

Tensor tensor_of(std::span<const int64_t> numbers) { return filled(numbers, i64); }

namespace detail {

Tensor stack_items(std::span<const Tensor> items, const std::string& path) {
  for (size_t i = 0; i < items.size(); ++i) check_same_type(items[i], items[0], i, path);
  return stack(items);
}

Tensor batch_of(std::span<const double> numbers, DType dtype) {
  return filled(numbers, f64).to(dtype);
}
Tensor batch_of(std::span<const int64_t> numbers, DType dtype) {
  return filled(numbers, i64).to(dtype);
}

void check_count(size_t count, size_t first, size_t i, const std::string& path) {
  if (count != first)
    ir::fail(Errc::Shape, fmt::format("{}: item {} has {} parts; expected {}, as item 0 has",
                                      of_part(path), i, count, first));
}

std::vector<Tensor> stack_structs(const std::vector<GatherTensors>& items,
                                  const std::string& path) {
  const GatherTensors& first = items[0];
  for (size_t i = 0; i < items.size(); ++i) {
    check_count(items[i].tensors.size(), first.tensors.size(), i, path);
    for (size_t k = 0; k < first.paths.size(); ++k)
      if (items[i].paths[k] != first.paths[k])
        ir::fail(Errc::Shape, fmt::format("{}: item {} has {} where item 0 has {}", of_part(path),
                                          i, items[i].paths[k], first.paths[k]));
  }
  std::vector<Tensor> stacked;
  for (size_t k = 0; k < first.paths.size(); ++k) {
    std::vector<Tensor> parts;
    for (const GatherTensors& item : items) parts.push_back(item.tensors[k]);
    stacked.push_back(stack_items(parts, structure::join(path, first.paths[k])));
  }
  return stacked;
}

}  // namespace detail
}  // namespace tandem::data
