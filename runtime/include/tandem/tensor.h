// Tensor: a handle to a strided view over shared storage, with autograd. Copying a Tensor copies
// the handle; `t = v` rebinds it; functions whose name ends in `_` write the tensor's elements.
// Operations are const: they do not change the handle.
#ifndef TANDEM_TENSOR_H
#define TANDEM_TENSOR_H

#include <tandem/ir/dim.h>
#include <tandem/ir/dtype.h>
#include <tandem/ir/error.h>
#include <tandem/ir/export.h>
#include <tandem/ir/type.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

namespace tandem {

using ir::Dim;
using ir::DType;
using ir::Errc;
using ir::Error;
using ir::Number;
using ir::Shape;
using ir::Strides;

inline constexpr DType f64 = DType::F64, f32 = DType::F32, bf16 = DType::BF16, f16 = DType::F16,
                       i64 = DType::I64, i32 = DType::I32, i16 = DType::I16, i8 = DType::I8,
                       u8 = DType::U8, boolean = DType::Bool;

namespace runtime {
struct TensorImpl;
}

class TANDEM_API Tensor {
 public:
  /// An undefined tensor: no operation but assignment and defined() takes it.
  Tensor() = default;
  explicit Tensor(std::shared_ptr<runtime::TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return impl_ != nullptr; }
  DType dtype() const;
  const Shape& sizes() const;
  const Strides& strides() const;  // elements
  Dim storage_offset() const;      // elements
  Dim size(int64_t dim) const;     // dim may be negative
  int64_t dim() const;
  Dim numel() const;
  bool is_contiguous() const;
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }
  bool shares_storage(const Tensor& other) const;

  /// The elements of a contiguous or strided tensor; T must match the dtype (bool for Bool,
  /// uint16_t for bf16 and f16). Error{Trace} inside a trace. The pointer does not keep the storage
  /// alive; writing through it is not seen by autograd (bump by `mark_written`).
  template <class T>
  T* data() const {
    return static_cast<T*>(data_checked(sizeof(T)));
  }
  /// The single element of a one-element tensor.
  template <class T = double>
  T item() const {
    return static_cast<T>(item_number().to_double());
  }
  Number item_number() const;
  /// All elements, row-major, converted to T.
  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> out;
    for_each_number([&](const Number& v) {
      out.push_back(v.is_float() ? static_cast<T>(v.to_double()) : static_cast<T>(v.to_int()));
    });
    return out;
  }
  std::string to_string() const;

  // --- autograd
  bool requires_grad() const;
  const Tensor& requires_grad_(bool value = true) const;
  bool is_leaf() const;
  Tensor grad() const;  // undefined if there is none
  void set_grad(const Tensor& grad) const;
  void retain_grad() const;
  /// Accumulates gradients of this tensor into the leaves' grad(). `gradient` may be left out for
  /// one element.
  void backward(const Tensor& gradient = {}, bool retain_graph = false,
                bool create_graph = false) const;
  Tensor detach() const;
  uint64_t version() const;
  /// Calls hook(gradient) when the gradient of this tensor is computed; a defined result replaces
  /// it.
  void register_hook(std::function<Tensor(const Tensor&)> hook) const;

  const std::shared_ptr<runtime::TensorImpl>& impl() const { return impl_; }

#include <tandem/tensor_methods.inc>

 private:
  void* data_checked(size_t element_bytes) const;
  void for_each_number(const std::function<void(const Number&)>& visit) const;

  std::shared_ptr<runtime::TensorImpl> impl_;
};

/// An operand with the place where the user wrote it: operators take this, so that errors and
/// graphs can name the line.
struct Located {
  Located(const Tensor& t, std::source_location l = std::source_location::current())
      : tensor(t), location(l) {}  // NOLINT
  const Tensor& tensor;
  std::source_location location;
};

}  // namespace tandem

#endif  // TANDEM_TENSOR_H
