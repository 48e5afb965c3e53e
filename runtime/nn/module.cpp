// Modules as lists of fields: names, modes.
#include <tandem/nn/module.h>

#include <unordered_set>

#include "runtime/nn/tensor_fields.h"

namespace tandem::nn::fields {
namespace {

using structure::Field;
using structure::FieldKind;

/// The defined tensors that `wanted`, each once.
template <class Wanted>
NamedTensors each_once(const Fields& fields, Wanted wanted) {
  NamedTensors found;
  std::unordered_set<const void*> seen;
  for (const Field& field : fields) {
    if (!holds_tensor(field) || !wanted(field)) continue;
    const Tensor& t = tensor_of(field);
    if (seen.insert(t.impl().get()).second) found.emplace_back(field.path, t);
  }
  return found;
}

bool is_parameter(const Field& field) {
  return field.kind == FieldKind::Tensor && ir::is_floating(tensor_of(field).dtype());
}

bool is_training_flag(const Field& field) {
  return field.kind == FieldKind::Number && *field.type == typeid(bool) &&
         (field.path == "training" || field.path.ends_with(".training"));
}

}  // namespace

NamedTensors named_tensors(const Fields& fields) {
  return each_once(fields, [](const Field&) { return true; });
}

NamedTensors named_parameters(const Fields& fields) { return each_once(fields, is_parameter); }

NamedTensors named_buffers(const Fields& fields) {
  return each_once(fields, [](const Field& field) { return !is_parameter(field); });
}

std::vector<Tensor> tensors_of(const NamedTensors& named) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : named) tensors.push_back(tensor);
  return tensors;
}

int64_t num_parameters(const Fields& fields) {
  int64_t count = 0;
  for (const auto& [name, tensor] : named_parameters(fields)) count += tensor.numel();
  return count;
}

std::vector<bool*> training_flags(const Fields& fields) {
  std::vector<bool*> flags;
  for (const Field& field : fields)
    if (is_training_flag(field)) flags.push_back(static_cast<bool*>(field.value));
  return flags;
}

void train(const Fields& fields, bool training) {
  for (bool* flag : training_flags(fields)) *flag = training;
}

void requires_grad_(const Fields& fields, bool value) {
  for (const auto& [name, tensor] : named_parameters(fields)) tensor.requires_grad_(value);
}

void zero_grad(const Fields& fields) {
  for (const auto& [name, tensor] : named_parameters(fields)) tensor.set_grad(Tensor());
}

std::vector<void*> modules(const Fields& fields, const std::type_info& type) {
  std::vector<void*> found;
  std::unordered_set<const void*> seen;
  for (const Field& field : fields)
    if (field.kind == FieldKind::Module && *field.type == type && seen.insert(field.value).second)
      found.push_back(field.value);
  return found;
}

}  // namespace tandem::nn::fields
