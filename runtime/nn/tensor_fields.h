// The fields of a list that hold tensors.
#ifndef TANDEM_RUNTIME_NN_TENSOR_FIELDS_H
#define TANDEM_RUNTIME_NN_TENSOR_FIELDS_H

#include <tandem/structure.h>

namespace tandem::nn::fields {

inline bool is_tensor(const structure::Field& field) {
  return field.kind == structure::FieldKind::Tensor || field.kind == structure::FieldKind::Buffer;
}

/// The tensor of a field that is one.
inline Tensor& tensor_of(const structure::Field& field) {
  return field.kind == structure::FieldKind::Buffer ? *static_cast<Buffer*>(field.value)
                                                    : *static_cast<Tensor*>(field.value);
}

/// Whether the field is a tensor, and defined.
inline bool holds_tensor(const structure::Field& field) {
  return is_tensor(field) && tensor_of(field).defined();
}

}  // namespace tandem::nn::fields

#endif  // TANDEM_RUNTIME_NN_TENSOR_FIELDS_H
