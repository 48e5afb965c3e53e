// Named tensors: what modules, optimizers, schedulers and loaders give and take as their state, and
// what files hold. Names are paths, joined by dots ("blocks.0.attn.weight").
#ifndef TANDEM_NAMED_TENSORS_H
#define TANDEM_NAMED_TENSORS_H

#include <tandem/tensor.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// `tensors` as parts of `prefix`: "weight" becomes "prefix.weight". An empty prefix changes
/// nothing.
TANDEM_API NamedTensors with_prefix(std::string_view prefix, NamedTensors tensors);
/// The parts of `prefix`, under their names within it.
TANDEM_API NamedTensors parts_of(const NamedTensors& tensors, std::string_view prefix);
/// The tensor called so; null if there is none.
TANDEM_API const Tensor* find(const NamedTensors& tensors, std::string_view name);

}  // namespace tandem

#endif  // TANDEM_NAMED_TENSORS_H
