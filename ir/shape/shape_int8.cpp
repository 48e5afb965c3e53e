// Shape rules of products with weights of i8.
#include "ir/shape/shape_rule_functions.h"

namespace tandem::ir::shape_rule {

Type int8pack(const ShapeContext& c) {
  const Type &self = c.operands[0], &mat2 = c.operands[1], &scales = c.operands[2];
  if (!is_floating(self.dtype) || mat2.dtype != DType::I8 || scales.dtype != self.dtype)
    reject(c, Errc::DType, "wrong dtypes",
           "a floating self, mat2 of i8, and scales of self's dtype", all_types(c));
  const bool fits = self.sizes.rank() == 2 && mat2.sizes.rank() == 2 && scales.sizes.rank() == 1 &&
                    self.sizes[1] == mat2.sizes[1] && scales.sizes[0] == mat2.sizes[0];
  if (!fits)
    reject(c, Errc::Shape, "sizes do not fit", "self [m, k], mat2 [n, k] and scales [n]",
           all_sizes(c));
  return {self.dtype, {self.sizes[0], mat2.sizes[0]}};
}

Type int_mm(const ShapeContext& c) {
  const Type &self = c.operands[0], &mat2 = c.operands[1];
  if (self.dtype != DType::I8 || mat2.dtype != DType::I8)
    reject(c, Errc::DType, "wrong dtypes", "self and mat2 of i8", all_types(c));
  const bool fits =
      self.sizes.rank() == 2 && mat2.sizes.rank() == 2 && self.sizes[1] == mat2.sizes[0];
  if (!fits)
    reject(c, Errc::Shape, "sizes do not fit", "self [m, k] and mat2 [k, n]", all_sizes(c));
  return {DType::I32, {self.sizes[0], mat2.sizes[1]}};
}

}  // namespace tandem::ir::shape_rule
