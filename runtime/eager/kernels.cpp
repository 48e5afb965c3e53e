#include "runtime/eager/kernels.h"

#include <array>

#include "ir/base/inline_vector.h"
#include "runtime/eager/kernel_table.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime::eager {
namespace {

std::array<Kernel, ir::kOpCount> make_table() {
  std::array<Kernel, ir::kOpCount> table{};
#define TANDEM_ENTER(name) table[static_cast<size_t>(ir::Op::name)] = &kernels::name;
#define OP(name, class_, level, operands, attributes, shape, traits, effect) \
  TANDEM_KERNEL_##level##_##class_(TANDEM_ENTER, name)
#include "ir/ops.def"
  TANDEM_ENTER(copy)
  TANDEM_ENTER(fill)
#undef TANDEM_ENTER
  return table;
}

Kernel kernel_of(ir::Op op) {
  static const std::array<Kernel, ir::kOpCount> table = make_table();
  return table[static_cast<size_t>(op)];
}

}  // namespace

bool has_kernel(ir::Op op) { return kernel_of(op) != nullptr; }

void run(ir::Op op, std::span<const Tensor> operands, std::span<const ir::AttrValue> attrs,
         std::span<const ir::BufferView> outs) {
  ir::InlineVector<ir::BufferView, 3> in;
  for (const Tensor& t : operands) in.push_back(t.impl()->view());
  kernel_of(op)({op, {in.data(), in.size()}, attrs, outs[0], outs});
}

}  // namespace tandem::runtime::eager
