// Numbers as tensors of a state, and back.
#ifndef TANDEM_RUNTIME_OPTIM_STATE_NUMBERS_H
#define TANDEM_RUNTIME_OPTIM_STATE_NUMBERS_H

#include <tandem/named_tensors.h>
#include <tandem/ops.h>

#include <optional>

namespace tandem::optim {

/// f64 [n].
Tensor vector_of(const std::vector<double>& values);
/// A list: the tensor of that name, or those called name.0, name.1 and so on; none: empty.
std::vector<double> numbers_of(const NamedTensors& state, const std::string& name);
std::optional<double> number_of(const NamedTensors& state, const std::string& name);
/// Error, which names `what`, if there is none.
double require_number(std::string_view what, const NamedTensors& state, const std::string& name);

}  // namespace tandem::optim

#endif  // TANDEM_RUNTIME_OPTIM_STATE_NUMBERS_H
