// Tensor: a handle to a strided view over shared storage, with autograd. Copying a Tensor copies
// the handle; `t = v` rebinds it; functions whose name ends in `_` write the tensor's elements, and
// so do assignments to what an expression returns: `x[i] = v`, `x.slice(...) = v`. Operations are
// const: they do not change the handle.
#ifndef TANDEM_TENSOR_H
#define TANDEM_TENSOR_H

#include <tandem/ir/dim.h>
#include <tandem/ir/dtype.h>
#include <tandem/ir/error.h>
#include <tandem/ir/export.h>
#include <tandem/ir/type.h>
#include <tandem/op_lists.h>

#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

using ir::Dim;
using ir::DType;
using ir::Errc;
using ir::Error;
using ir::Number;
using ir::Shape;
using ir::Strides;
using SourceLocation = std::source_location;

inline constexpr DType f64 = DType::F64, f32 = DType::F32, bf16 = DType::BF16, f16 = DType::F16,
                       i64 = DType::I64, i32 = DType::I32, i16 = DType::I16, i8 = DType::I8,
                       u8 = DType::U8, boolean = DType::Bool;

namespace runtime {
struct TensorImpl;
}

class Tensor;
class Scalar;
class Generator;
struct Indices;
struct Qr;
struct SvdOfV;
struct Reflections;
struct SignAndLogDet;
struct TriangularSolution;
struct ValuesAndIndices;
struct MantissaAndExponent;
struct MinMax;
struct Unique;

namespace detail {
template <class T>
inline constexpr bool never = false;  // for a static_assert that names a misuse
}  // namespace detail

template <class T>
concept NumberLike = std::is_arithmetic_v<T> || std::same_as<T, Dim> || std::same_as<T, Number>;

/// An operand, a tensor or a number, with the place where the user wrote it: operators take this,
/// so that errors and graphs can name the line. Lives as long as the call.
struct Located {
  Located(const Tensor& t, SourceLocation at = SourceLocation::current())  // NOLINT
      : tensor(&t), location(at) {}
  Located(const Scalar& s, SourceLocation at = SourceLocation::current());  // NOLINT
  template <NumberLike N>
  Located(N v, SourceLocation at = SourceLocation::current())  // NOLINT
      : number(v), location(at) {}

  const Tensor* tensor = nullptr;  // null: `number`
  Number number;
  SourceLocation location;
};

/// What stands in `x[...]`: a position along dim 0, or an integer tensor of positions.
struct LocatedIndex {
  template <std::integral I>
  LocatedIndex(I i, SourceLocation at = SourceLocation::current())  // NOLINT
      : index(i), location(at) {}
  LocatedIndex(Dim i, SourceLocation at = SourceLocation::current())  // NOLINT
      : index(i), location(at) {}
  LocatedIndex(const Tensor& t, SourceLocation at = SourceLocation::current())  // NOLINT
      : tensor(&t), location(at) {}

  const Tensor* tensor = nullptr;  // null: `index`
  Dim index = 0;
  SourceLocation location;
};

/// Dimensions to work on: one, several in braces, or none (which mostly means all).
struct DimList {
  DimList() = default;
  DimList(std::initializer_list<ir::Axis> list) : dims(list) {}
  DimList(const ir::Axes& list) : dims(list) {}  // NOLINT(google-explicit-constructor)
  template <ir::SizeNumber I>
  DimList(const std::vector<I>& list) {  // NOLINT(google-explicit-constructor)
    for (const I dim : list) dims.push_back(static_cast<ir::Axis>(dim));
  }
  template <ir::SizeNumber I>
  DimList(I dim) : dims({static_cast<ir::Axis>(dim)}) {}  // NOLINT(google-explicit-constructor)
  /// All of them, for who tells that from none.
  static DimList every() {
    DimList all;
    all.is_every = true;
    return all;
  }

  ir::Axes dims;
  bool is_every = false;
};

/// Of addmm and its like: beta * self + alpha * product. Where beta is 0, self's elements are not
/// read.
struct ScaledSum {
  Number beta = 1, alpha = 1;
};

class TANDEM_API Tensor {
 public:
  /// An undefined tensor: no operation but assignment and defined() takes it.
  Tensor() = default;
  explicit Tensor(std::shared_ptr<runtime::TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// Writes the elements of a temporary, such as a slice; Error{Mutation} if nothing shows them.
  const Tensor& operator=(const Located& value) &&;  // NOLINT: writes, does not rebind

  bool defined() const { return impl_ != nullptr; }
  DType dtype() const;
  const Shape& sizes() const;
  const Strides& strides() const;  // elements
  Dim storage_offset() const;      // elements
  /// `dim` may be negative.
  Dim size(int64_t dim, SourceLocation at = SourceLocation::current()) const;
  int64_t dim() const;
  Dim numel() const;
  bool is_contiguous() const;
  bool is_same(const Tensor& other) const;
  bool shares_storage(const Tensor& other) const;

  /// The elements of a contiguous or strided tensor; T must match the dtype (bool for Bool,
  /// uint16_t for bf16 and f16). Error{Trace} inside a trace. The pointer does not keep the storage
  /// alive; writing through it is not seen by autograd (say so by `mark_written`).
  template <class T>
  T* data() const {
    return static_cast<T*>(data_checked(sizeof(T), std::is_floating_point_v<T>));
  }
  /// Advances the version: the elements were written through data().
  void mark_written() const;
  /// The single element of a one-element tensor.
  template <class T = double>
  T item(SourceLocation at = SourceLocation::current()) const {
    const Number v = item_number(at);
    return v.is_float() ? static_cast<T>(v.to_double()) : static_cast<T>(v.to_int());
  }
  Number item_number(SourceLocation at = SourceLocation::current()) const;
  /// All elements, row-major, converted to T.
  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> out;
    for_each_number([&](const Number& v) {
      out.push_back(v.is_float() ? static_cast<T>(v.to_double()) : static_cast<T>(v.to_int()));
    });
    return out;
  }
  /// As PyTorch prints it: long dimensions are shortened beyond 1000 elements.
  std::string to_string() const;

  // --- autograd
  bool requires_grad() const;
  const Tensor& requires_grad_(bool value = true) const;
  bool is_leaf() const;
  Tensor grad() const;  // undefined if there is none
  void set_grad(const Tensor& grad) const;
  /// Keeps grad() also if this is not a leaf.
  void retain_grad() const;
  /// Accumulates gradients of this tensor into the leaves' grad(). `gradient` may be left out for
  /// one element. The graph is freed unless `retain_graph` (or `create_graph`, which also records
  /// the computation of the gradients).
  void backward(const Tensor& gradient = {}, bool retain_graph = false, bool create_graph = false,
                SourceLocation at = SourceLocation::current()) const;
  uint64_t version() const;
  /// Calls hook(gradient) when the gradient of this tensor is computed; a defined result replaces
  /// it. (One in a compiled function that is not linear refuses a second gradient that comes both
  /// through the function's results and through its gradients: Error{Unsupported}.)
  void register_hook(std::function<Tensor(const Tensor&)> hook) const;

  const std::shared_ptr<runtime::TensorImpl>& impl() const { return impl_; }

#include <tandem/tensor_methods.inc>

 private:
  void* data_checked(size_t element_bytes, bool floating) const;
  void for_each_number(const std::function<void(const Number&)>& visit) const;

  std::shared_ptr<runtime::TensorImpl> impl_;
};

/// Writes t.to_string().
TANDEM_API std::ostream& operator<<(std::ostream& out, const Tensor& t);

}  // namespace tandem

#endif  // TANDEM_TENSOR_H
