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

// Doubles the distance over which sums are complete with every step.
V running_sum(Call& c, V numbers) {
  const Dim n = c.b.numel(numbers);
  V sum = numbers;
  for (Dim distance = 1; distance < n; distance *= 2) {
    const Dim before[] = {distance, 0};
    sum = c.b.add(sum, c.b.pad(c.b.slice(sum, 0, 0, n - distance, 1), before, Number(0)));
  }
  return sum;
}

V counts(Call& c, V mask) {
  return running_sum(c, c.b.convert(c.b.reshape(mask, {c.b.numel(mask)}), i64));
}

void require_apart(const Tensor& self, std::initializer_list<const Tensor*> read, Sharing allowed) {
  for (const Tensor* t : read)
    if (t != nullptr && t->defined() && self.defined()) check_apart(self, *t, allowed);
}

}  // namespace tandem::runtime
