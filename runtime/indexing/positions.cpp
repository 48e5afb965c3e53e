#include "runtime/indexing/positions.h"

#include <fmt/format.h>

#include "ir/base/error.h"

namespace tandem::runtime {

V wrapped(Call& c, V index, Dim size) {
  return c.b.where(c.b.lt(index, Number(0)), c.b.add(index, Number(int64_t{size})), index);
}

V along(Call& c, V index, const Shape& part, int dim) {
  Shape sizes = Shape::filled(part.rank(), 1);
  sizes[dim] = part[dim];
  return c.b.expand(c.b.reshape(index, sizes), part);
}

V index_list(Call& c, const Tensor& index) {
  const V v = c.in(index, "index");
  if (c.b.rank(v) > 1)
    ir::fail(Errc::Shape, fmt::format("{}: index is not a vector; expected [k], got {}",
                                      ir::ErrorScope::function(), to_string(c.b.sizes(v))));
  return c.b.at_least_1d(v);
}

Parts::Parts(Call& c, const Tensor& given, int64_t along_dim, const Tensor& list,
             const Tensor& source, const char* src_name)
    : self(c.b.at_least_1d(c.in(given))) {
  const V positions = index_list(c, list), from = c.in(source, src_name);
  src = c.b.rank(self) == 1 ? c.b.at_least_1d(from) : from;
  dim = c.b.wrap_dim(along_dim, c.b.rank(self), ir::ErrorScope::function());
  Shape part = c.b.sizes(self);
  part[dim] = c.b.numel(positions);
  if (c.b.sizes(src) != part)
    ir::fail(Errc::Shape,
             fmt::format("{}: {} does not fit; expected {}, got {}", ir::ErrorScope::function(),
                         src_name, to_string(part), to_string(source.sizes())));
  index = along(c, positions, part, dim);
}

V Scattered::over(Call& c, V self) const {
  const V ordered = order ? c.b.permute(self, *order) : self;
  const V scattered = c.b.scatter_into(op, c.b.reshape(ordered, seen), dim, index, src);
  const V written = c.b.reshape(scattered, c.b.sizes(ordered));
  return order ? c.b.permute(written, ir::inverse(*order)) : written;
}

void Scattered::write(Call& c, V self) const {
  const V ordered = order ? c.b.permute(self, *order) : self;
  if (!c.b.sink().can_view(ordered, seen))
    return c.b.pointwise_in_place(ir::Op::copy, {self, over(c, self)});
  c.b.scatter_in_place(op, c.b.view(ordered, seen), dim, index, src);
}

V running_sum(Call& c, V numbers) { return c.b.emit(ir::Op::cumsum, {numbers}, {int64_t{0}}); }

V counts(Call& c, V mask) {
  return running_sum(c, c.b.convert(c.b.reshape(mask, {c.b.numel(mask)}), i64));
}

V source_of(Call& c, const Located& src, DType dtype, const Tensor& index) {
  return src.tensor != nullptr ? c.in(*src.tensor, "src")
                               : c.given(src.number, dtype, index.sizes());
}

void require_apart(const Tensor& self, std::initializer_list<const Tensor*> read, Sharing allowed) {
  for (const Tensor* t : read)
    if (t != nullptr && t->defined() && self.defined()) check_apart(self, *t, allowed);
}

}  // namespace tandem::runtime
