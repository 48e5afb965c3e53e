#include "runtime/ops/positions.h"

namespace tandem::runtime {

V wrapped(Call& c, V index, Dim size) {
  return c.b.where(c.b.lt(index, Number(0)), c.b.add(index, Number(int64_t{size})), index);
}

V along(Call& c, V index, const Shape& part, int dim) {
  Shape sizes = Shape::filled(part.rank(), 1);
  sizes[dim] = part[dim];
  return c.b.expand(c.b.reshape(index, sizes), part);
}

V running_sum(Call& c, V numbers) { return c.b.emit(ir::Op::cumsum, {numbers}, {int64_t{0}}); }

V counts(Call& c, V mask) {
  return running_sum(c, c.b.convert(c.b.reshape(mask, {c.b.numel(mask)}), i64));
}

void require_apart(const Tensor& self, std::initializer_list<const Tensor*> read, Sharing allowed) {
  for (const Tensor* t : read)
    if (t != nullptr && t->defined() && self.defined()) check_apart(self, *t, allowed);
}

}  // namespace tandem::runtime
