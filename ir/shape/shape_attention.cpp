// Shape rules of attention that holds no scores, and of its gradients.
#include "ir/shape/shape_rule_functions.h"

namespace tandem::ir::shape_rule {
namespace {

constexpr std::string_view kExpected =
    "query [b, h, t, d], key [b, hk, s, d], value [b, hk, s, e] with hk a divisor of h, and a mask "
    "of [b, h, t, s] or ones";

[[noreturn]] void refuse(const ShapeContext& c) {
  reject(c, Errc::Shape, "sizes do not fit", kExpected, all_sizes(c));
}

void require_heads(const ShapeContext& c, const Shape& q, const Shape& k, const Shape& v) {
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) refuse(c);
  const bool fits = q[0] == k[0] && k[0] == v[0] && k[1] == v[1] && k[2] == v[2] && q[3] == k[3];
  if (!fits || k[1] < 1 || q[1] < 1 || q[1] % k[1] != 0) refuse(c);
}

void require_mask(const ShapeContext& c, const Type& mask, const Shape& scores) {
  if (mask.sizes.rank() != 4) refuse(c);
  for (int d = 0; d < 4; ++d)
    if (mask.sizes[d] != 1 && mask.sizes[d] != scores[d]) refuse(c);
  if (mask.dtype != DType::Bool && mask.dtype != c.operands[0].dtype)
    reject(c, Errc::DType, "mask has the wrong dtype", "bool or query's dtype", name(mask.dtype));
  if (c.attr<bool>(Attr::is_causal))
    reject(c, Errc::Argument, "both a mask and is_causal are given", "one of them", "both");
}

/// Operands from `first` on are query, key and value; `others`: how many are no mask.
void require_attention(const ShapeContext& c, size_t first, size_t others) {
  require_same_dtype({c.op, c.operands.first(others), c.attrs});
  const DType dtype = c.operands[0].dtype;
  if (dtype != DType::F32 && dtype != DType::F64)
    reject(c, Errc::DType, "wrong dtype", "f32 or f64", name(dtype));
  const Shape &q = c.operands[first].sizes, &k = c.operands[first + 1].sizes;
  require_heads(c, q, k, c.operands[first + 2].sizes);
  if (c.operands.size() > others) require_mask(c, c.operands[others], {q[0], q[1], q[2], k[2]});
}

}  // namespace

std::array<Type, 2> flash_attention(const ShapeContext& c) {
  require_attention(c, 0, 3);
  const Shape &q = c.operands[0].sizes, &v = c.operands[2].sizes;
  const DType dtype = c.operands[0].dtype;
  return {Type{dtype, {q[0], q[1], q[2], v[3]}}, Type{dtype, {q[0], q[1], q[2]}}};
}

std::array<Type, 3> flash_attention_backward(const ShapeContext& c) {
  require_attention(c, 1, 6);
  const Shape &q = c.operands[1].sizes, &v = c.operands[3].sizes;
  const Shape result{q[0], q[1], q[2], v[3]};
  const bool fits = c.operands[0].sizes == result && c.operands[4].sizes == result &&
                    c.operands[5].sizes == Shape{q[0], q[1], q[2]};
  if (!fits)
    reject(c, Errc::Shape, "grad, result and logsumexp do not fit",
           "[b, h, t, e], the same, and [b, h, t]", all_sizes(c));
  return {c.operands[1], c.operands[2], c.operands[3]};
}

}  // namespace tandem::ir::shape_rule
