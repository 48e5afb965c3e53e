// What operations on positions in data are made of.
#ifndef TANDEM_RUNTIME_INDEXING_POSITIONS_H
#define TANDEM_RUNTIME_INDEXING_POSITIONS_H

#include <optional>

#include "runtime/ops/call.h"
#include "runtime/tape/autograd.h"

namespace tandem::runtime {

/// Positions in [-size, size) as [0, size); what lies outside stays outside.
V wrapped(Call& c, V index, Dim size);

/// Positions [k] (or one, []) along `dim`, for a src of `part` sizes.
V along(Call& c, V index, const Shape& part, int dim);

/// Positions as a vector: one of no dimensions is one of one element.
V index_list(Call& c, const Tensor& index);

/// Operands of a write at an index [k] along a dimension of self, which has one at least: an index
/// for each element of `src`, whose sizes are self's but k along the dimension.
struct Parts {
  Parts(Call& c, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
        const char* src_name);
  V self, src, index;
  int dim;
};

/// What is written at positions (Builder::scatter_into) of a tensor whose dims are seen in another
/// order, and then in other sizes.
struct Scattered {
  ir::Op op;
  std::optional<ir::Axes> order;
  Shape seen;
  int dim;
  V index, src;

  /// `self` with it.
  V over(Call& c, V self) const;
  /// Writes it into `self`: nothing else is touched where memory allows to see it so.
  void write(Call& c, V self) const;
};

/// The sum of each number of a vector and those before it.
V running_sum(Call& c, V numbers);

/// How many elements up to and with each are true, in row-major order: [n].
V counts(Call& c, V mask);

/// What a write at `index` puts there: a tensor's elements, or a number in `dtype` for each.
V source_of(Call& c, const Located& src, DType dtype, const Tensor& index);

/// As ATen, what such a write reads lies elsewhere.
void require_apart(const Tensor& self, std::initializer_list<const Tensor*> read,
                   Sharing allowed = Sharing::Nothing);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_INDEXING_POSITIONS_H
