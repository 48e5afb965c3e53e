// Matrix products, convolutions and windows, attention: examples become rows, images, or groups of
// channels, so that one product computes all.
#include "batching/rules.h"

namespace tandem::batching {
namespace {

/// (Of a column and a row, as gradients by weights from one example are: each element is one
/// product.)
V matrices(const Examples& e, V a, V b) {
  if (e.b.sizes(a)[2] == 1) return e.b.mul(a, b);
  return e.b.emit(Op::bmm, {a, b}, {std::string()});
}
V matrix(const Examples& e, V a, V b) { return e.b.emit(Op::mm, {a, b}, {std::string()}); }

/// [m, k] x [k, n] with one of them batched or both.
V product(const Examples& e, Value x, Value y) {
  if (y.batched) return matrices(e, e.spread(x), y.v);
  const Shape one = e.sizes(x);
  const V rows = matrix(e, e.folded(x), y.v);
  return e.b.reshape(rows, {e.c.size, one[0], e.b.sizes(y.v)[1]});
}

/// [size, b, m, k] as [b, size * m, k], and back.
V as_rows_of_each(const Examples& e, V x) {
  const Shape all = e.b.sizes(x);
  return e.b.reshape(e.b.permute(x, {1, 0, 2, 3}), {all[1], all[0] * all[2], all[3]});
}
V from_rows_of_each(const Examples& e, V x) {
  const Shape all = e.b.sizes(x);
  const Dim rows = e.c.size == 0 ? Dim(0) : all[1] / e.c.size;
  return e.b.permute(e.b.reshape(x, {all[0], e.c.size, rows, all[2]}), {1, 0, 2, 3});
}

}  // namespace

const BatchRule batch_mm = formula([](Examples e) { return product(e, e[0], e[1]); });

const BatchRule batch_addmm = formula([](Examples e) {
  if (e.batched(2)) return e.b.add(e.spread(0), product(e, e[1], e[2]));
  if (!e.batched(1)) return e.b.add(e.spread(0), matrix(e, e[1].v, e[2].v));
  return e.unfolded(e.emit({e.folded(0), e.folded(1), e[2].v}, e.c.attrs));
});

const BatchRule batch_bmm = formula([](Examples e) {
  if (e.batched(0) && e.batched(1)) return e.unfolded(matrices(e, e.folded(0), e.folded(1)));
  if (e.batched(0)) return from_rows_of_each(e, matrices(e, as_rows_of_each(e, e[0].v), e[1].v));
  const V rows = as_rows_of_each(e, e.b.transpose(e[1].v, 2, 3));
  const V product = matrices(e, rows, e.b.transpose(e[0].v, 1, 2));
  return e.b.transpose(from_rows_of_each(e, product), 2, 3);
});

// --- weights of i8: rows of self alone go through as more rows, all else in the dtype of products
const BatchRule batch_weight_int8pack_mm = formula([](Examples e) {
  if (!e.batched(1) && !e.batched(2))
    return e.unfolded(e.emit({e.folded(0), e[1].v, e[2].v}, e.c.attrs));
  const V weights = e.b.convert(e.spread(1), e.b.dtype(e[0].v));
  const V sums = matrices(e, e.spread(0), e.b.transpose(weights, 1, 2));
  return e.b.mul(sums, e.b.unsqueeze(e.spread(2), 1));
});

const BatchRule batch_dynamic_int8pack_mm = kDecomposed;

const BatchRule batch_int_mm = formula([](Examples e) {
  if (!e.batched(1)) return e.unfolded(e.emit({e.folded(0), e[1].v}, e.c.attrs));
  const V a = e.b.convert(e.spread(0), ir::DType::I32);
  return e.b.emit(Op::bmm, {a, e.b.convert(e.spread(1), ir::DType::I32)}, {std::string()});
});

// --- convolutions: [n, channels, ...], weight [out, in / groups, ...]
namespace {

/// [size, n, c, ...] as [n, size * c, ...]: each example has channels of its own.
V as_channels(const Examples& e, V x) {
  const Shape all = e.b.sizes(x);
  Axes order{1, 0};
  Shape sizes{all[1], all[0] * all[2]};
  for (int d = 2; d < all.rank(); ++d) order.push_back(d);
  for (int d = 3; d < all.rank(); ++d) sizes.push_back(all[d]);
  return e.b.reshape(e.b.permute(x, order), sizes);
}

V from_channels(const Examples& e, V x) {
  const Shape all = e.b.sizes(x);
  Shape sizes{all[0], e.c.size, e.c.size == 0 ? Dim(0) : all[1] / e.c.size};
  Axes order{1, 0};
  for (int d = 2; d < all.rank(); ++d) sizes.push_back(all[d]);
  for (int d = 2; d < sizes.rank(); ++d) order.push_back(d);
  return e.b.permute(e.b.reshape(x, sizes), order);
}

std::vector<ir::AttrValue> with_groups_of_each(const Examples& e) {
  const int64_t groups = e.attr<int64_t>(Attr::groups) * int64_t{e.c.size};
  return with_attr(e.c, Attr::groups, groups);
}

/// A weight for each example: groups of channels.
V convolved_by_each(const Examples& e) {
  ValueList operands{as_channels(e, e.spread(0)), e.folded(1)};
  if (e.count() > 2) operands.push_back(e.folded(2));
  return from_channels(e, e.emit(operands, with_groups_of_each(e)));
}

/// `v` plus a bias [size, channels].
V biased(const Examples& e, V v) {
  Shape sizes = Shape::filled(e.b.rank(v), 1);
  sizes[0] = e.c.size;
  sizes[2] = e.b.sizes(v)[2];
  return e.b.add(v, e.b.reshape(e[2].v, sizes));
}

}  // namespace

const BatchRule batch_convolution = formula([](Examples e) {
  if (e.c.size == 0 || e.batched(1)) return convolved_by_each(e);
  ValueList operands{e.folded(0), e[1].v};
  if (e.count() > 2 && !e.batched(2)) operands.push_back(e[2].v);
  const V images = e.unfolded(e.emit(operands, e.c.attrs));
  return e.batched(2) ? biased(e, images) : images;
});

const BatchRule batch_convolution_weight = formula([](Examples e) {
  const V self = as_channels(e, e.spread(0)), grad = as_channels(e, e.spread(1));
  return e.unfolded(e.emit({self, grad}, with_groups_of_each(e)));
});

const BatchRule batch_window_sum = kFolded;
const BatchRule batch_window_spread = kFolded;
const BatchRule batch_max_pool = kFolded;

// --- attention
namespace {

/// A mask whose sizes may be 1.
V folded_mask(const Examples& e, size_t mask, Dim batch) {
  const Value x = e[mask];
  const Shape one = e.sizes(x);
  if (!x.batched && one[0] == 1) return x.v;
  Shape sizes = with_examples(e.c.size, one);
  sizes[1] = batch;
  return e.folded({e.b.expand(e.spread(x), sizes), true});
}

/// [b, ...] by example in the first dimension; operand `mask` is a mask.
ValueList by_sequence(const Examples& e, size_t mask) {
  ValueList operands;
  for (size_t i = 0; i < std::min(mask, e.count()); ++i) operands.push_back(e.folded(i));
  if (e.count() > mask) operands.push_back(folded_mask(e, mask, e.sizes(e[0])[0]));
  ValueList results = e.b.emit_all(e.c.op, operands, e.c.attrs);
  for (V& v : results) v = e.unfolded(v);
  return results;
}

}  // namespace

const BatchRule batch_scaled_dot_product_attention = kAligned;
const BatchRule batch_flash_attention = formula([](Examples e) { return by_sequence(e, 3); });
const BatchRule batch_flash_attention_backward =
    formula([](Examples e) { return by_sequence(e, 6); });

}  // namespace tandem::batching
