#include <tandem/named_tensors.h>

#include <algorithm>

namespace tandem {

NamedTensors with_prefix(std::string_view prefix, NamedTensors tensors) {
  if (prefix.empty()) return tensors;
  for (auto& [name, tensor] : tensors) name.insert(0, std::string(prefix) + ".");
  return tensors;
}

NamedTensors parts_of(const NamedTensors& tensors, std::string_view prefix) {
  NamedTensors out;
  for (const auto& [name, tensor] : tensors)
    if (name.size() > prefix.size() && name.starts_with(prefix) && name[prefix.size()] == '.')
      out.emplace_back(name.substr(prefix.size() + 1), tensor);
  return out;
}

const Tensor* find(const NamedTensors& tensors, std::string_view name) {
  const auto it = std::ranges::find(
      tensors, name, [](const auto& item) -> std::string_view { return item.first; });
  return it == tensors.end() ? nullptr : &it->second;
}

}  // namespace tandem
