// Products of rows that are brought into i8 with weights of i8.
#include "decomps/rules/rules.h"

namespace tandem::decomps::rules {

// s = amax(|x|) / 127 by row, q = round(x / s): (q @ w^T) * s * scales. Of a row of zeros 0 / 0 is
// NaN, and that 0 as an integer; a row with NaN or infinities has such an s.
V dynamic_int8pack_mm(Context& c) {
  Builder& b = c.b;
  if (b.sizes(c[0])[1] == 0) return b.full(c.result().sizes, c.result().dtype, 0);
  const V x = wide(b, c[0]);
  const V s = b.div(b.amax(b.abs(x), {1}, true), 127);
  const V q = b.convert(b.round(b.div(x, s)), DType::I8);
  const V sums = b.emit(Op::int_mm, {q, b.permute(c[1], {1, 0})}, {});
  const V scaled = b.mul(b.mul(b.convert(sums, b.dtype(x)), s), wide(b, c[2]));
  return b.convert(scaled, c.result().dtype);
}

}  // namespace tandem::decomps::rules
