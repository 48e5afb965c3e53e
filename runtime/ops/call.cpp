// What the runtime itself computes with.
#include "runtime/ops/call.h"

#include <tandem/ops.h>

#include <algorithm>

#include "ir/geometry.h"
#include "runtime/compile/graph_values.h"
#include "runtime/tape/autograd.h"

namespace tandem::runtime {

Tensor in_layout_of(const Tensor& like, const SourceLocation& at,
                    ir::FunctionRef<Tensor(const ir::Axes& order)> make) {
  const Strides strides = ir::preserved_strides({like.sizes(), like.strides()});
  ir::Axes order;
  for (int d = 0; d < strides.rank(); ++d) order.push_back(d);
  if (ir::is_contiguous(like.sizes(), strides)) return make(order);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](ir::Axis d) { return strides[static_cast<int>(d)]; });
  const LocationScope scope(at);
  const Tensor result = permute(make(order), ir::inverse(order), at);
  forget_base(result);
  return result;
}

Tensor laid_out_like(const Tensor& t, const Tensor& like, const SourceLocation& at) {
  if (has_layout(*t.impl(), ir::preserved_strides({like.sizes(), like.strides()}))) return t;
  const LocationScope scope(at);
  return in_layout_of(like, at,
                      [&](const ir::Axes& order) { return clone_tensor(permute(t, order, at)); });
}

Tensor clone_tensor(const Tensor& t) {
  Call c(current_location(), "clone");
  return c.out(c.b.clone(c.in(t)));
}
Tensor add_tensors(const Tensor& a, const Tensor& b) {
  Call c(current_location(), "add");
  return c.out(c.b.add(c.in(a), c.in(b, "other")));
}
void add_into(const Tensor& self, const Tensor& other) {
  Call c(current_location(), "add", true);
  c.b.pointwise_in_place(ir::Op::add, {c.in(self), c.in(other, "other")});
}
Tensor full_tensor(const Shape& sizes, DType dtype, const Number& value) {
  Call c(current_location(), "full");
  return c.out(c.b.full(sizes, dtype, value));
}

}  // namespace tandem::runtime
