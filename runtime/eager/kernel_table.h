// What a kernel sees, and the declarations of all kernels from ops.def: a primitive without one
// does not link.
#ifndef TANDEM_RUNTIME_EAGER_KERNEL_TABLE_H
#define TANDEM_RUNTIME_EAGER_KERNEL_TABLE_H

#include <span>

#include "ir/buffer.h"
#include "ir/op.h"

namespace tandem::runtime::eager {

using ir::BufferView;
using ir::Dim;
using ir::DType;
using ir::Number;
using ir::Shape;
using ir::Strides;

struct Args {
  ir::Op op;
  std::span<const BufferView> in;
  std::span<const ir::AttrValue> attrs;
  const BufferView& out;             // the first result
  std::span<const BufferView> outs;  // all of them

  template <class T>
  const T& attr(ir::Attr name) const {
    return std::get<T>(attrs[static_cast<size_t>(ir::attr_index(op, name))]);
  }
  int dim() const { return static_cast<int>(attr<int64_t>(ir::Attr::dim)); }
  const ir::Dims& dims(ir::Attr name) const { return attr<ir::Dims>(name); }
  const ir::Axes& axes() const { return attr<ir::Axes>(ir::Attr::dims); }
};

using Kernel = void (*)(const Args&);

// KERNEL_level_class(name) expands to whether `name` has a kernel.
#define TANDEM_KERNEL_Primitive_Pointwise(X, name) X(name)
#define TANDEM_KERNEL_Primitive_Reduction(X, name) X(name)
#define TANDEM_KERNEL_Primitive_Scan(X, name) X(name)
#define TANDEM_KERNEL_Primitive_Linalg(X, name) X(name)
#define TANDEM_KERNEL_Primitive_Contraction(X, name) X(name)
#define TANDEM_KERNEL_Primitive_Shape(X, name) X(name)
#define TANDEM_KERNEL_Primitive_Factory(X, name) X(name)
#define TANDEM_KERNEL_Primitive_Index(X, name) X(name)
#define TANDEM_KERNEL_Primitive_Random(X, name) X(name)
#define TANDEM_KERNEL_Primitive_View(X, name)
#define TANDEM_KERNEL_Primitive_Control(X, name)
#define TANDEM_KERNEL_Primitive_External(X, name)
#define TANDEM_KERNEL_Composite_Pointwise(X, name)
#define TANDEM_KERNEL_Composite_Reduction(X, name)
#define TANDEM_KERNEL_Composite_Linalg(X, name)
#define TANDEM_KERNEL_Composite_Contraction(X, name)
#define TANDEM_KERNEL_Composite_View(X, name)
#define TANDEM_KERNEL_Composite_Shape(X, name)
#define TANDEM_KERNEL_Composite_Index(X, name)
#define TANDEM_KERNEL_Composite_Random(X, name)

namespace kernels {
#define TANDEM_DECLARE(name) void name(const Args& a);
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  TANDEM_KERNEL_##level##_##class_(TANDEM_DECLARE, name)
#include "ir/ops.def"
#undef TANDEM_DECLARE
void copy(const Args& a);  // operand 1 over operand 0
void fill(const Args& a);
}  // namespace kernels

}  // namespace tandem::runtime::eager

#endif  // TANDEM_RUNTIME_EAGER_KERNEL_TABLE_H
