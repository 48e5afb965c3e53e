// Ops whose element positions come from data, random ones, and what is no op of one example.
#include "batching/rules.h"

namespace tandem::batching {
namespace {

/// The positions [size, k] as a table beside `like`, where they count along `dim`.
V table_of(const Examples& e, V index, V like, int dim) {
  Shape sizes = e.b.sizes(like);
  sizes[dim] = e.b.sizes(index)[1];
  for (int d = 1; d < dim; ++d) index = e.b.unsqueeze(index, 1);
  while (e.b.rank(index) < sizes.rank()) index = e.b.unsqueeze(index, e.b.rank(index));
  return e.b.expand(index, sizes);
}

/// Parts of what is the same for all, by positions [size, k]: one list of all positions.
V parts_for_each(const Examples& e, int dim) {
  const Shape index = e.b.sizes(e[1].v);
  const V parts = e.emit({e[0].v, e.b.reshape(e[1].v, {index[0] * index[1]})}, e.c.attrs);
  const Shape joined = e.b.sizes(parts);
  Shape sizes;
  Axes order{dim};
  for (int d = 0; d < joined.rank(); ++d) {
    order.push_back(d < dim ? d : d + 1);
    sizes.push_back(d == dim ? index[0] : joined[d]);
    if (d == dim) sizes.push_back(index[1]);
  }
  return e.b.permute(e.b.reshape(parts, sizes), order);
}

}  // namespace

const BatchRule batch_index_select = formula([](Examples e) {
  const auto dim = static_cast<int>(e.attr<int64_t>(Attr::dim));
  if (!e.batched(1)) return e.emit({e[0].v, e[1].v}, moved_attrs(e.c));
  if (!e.batched(0)) return parts_for_each(e, dim);
  return e.b.gather(e[0].v, dim + 1, table_of(e, e[1].v, e[0].v, dim + 1));
});

const BatchRule batch_index_add = formula([](Examples e) {
  const int dim = static_cast<int>(e.attr<int64_t>(Attr::dim)) + 1;
  const V self = e.spread(0), src = e.spread(2);
  if (!e.batched(1)) return e.emit({self, e[1].v, src}, moved_attrs(e.c));
  return e.b.scatter_add(self, dim, table_of(e, e[1].v, src, dim), src);
});

const BatchRule batch_gather = kAligned;
const BatchRule batch_scatter_add = kAligned;
const BatchRule batch_scatter = kAligned;
const BatchRule batch_scatter_prod = kAligned;
const BatchRule batch_scatter_amax = kAligned;
const BatchRule batch_scatter_amin = kAligned;

const BatchRule batch_embedding = formula([](Examples e) {
  if (!e.batched(0)) return e.emit({e[0].v, e[1].v}, e.c.attrs);
  const Shape one = e.sizes(e[1]);
  Shape rows = with_examples(e.c.size, one);
  rows.push_back(e.b.sizes(e[0].v)[2]);
  if (!e.batched(1))
    return e.b.reshape(e.b.index_select(e[0].v, 1, e.b.reshape(e[1].v, {ir::numel(one)})), rows);
  const V list = e.b.reshape(e[1].v, {e.c.size, ir::numel(one)});
  return e.b.reshape(e.b.gather(e[0].v, 1, table_of(e, list, e[0].v, 1)), rows);
});

// --- random: numbers of its own for each example, or one mask for all
namespace {

constexpr BatchRule kDrawn = formula([](Examples e) {
  const Dims sizes(with_examples(e.c.size, e.attr<Dims>(Attr::sizes)));
  return e.emit({e[0].v}, with_attr(e.c, Attr::sizes, sizes));
});

}  // namespace

const BatchRule batch_random_bits = kDrawn;
const BatchRule batch_rand = kDrawn;
const BatchRule batch_randn = kDrawn;
const BatchRule batch_dropout = formula([](Examples e) {
  if (!e.c.same_draws) return e.emit({e.spread(0), e[1].v}, e.c.attrs);
  const V ones = e.b.full(e.sizes(e[0]), e.b.dtype(e[0].v), 1);
  return e.b.mul(e[0].v, e.emit({ones, e[1].v}, e.c.attrs));
});

const BatchRule batch_full = kAlone;
const BatchRule batch_iota = kAlone;

const BatchRule batch_call = kOfSubgraph;
const BatchRule batch_custom_function = kOfSubgraph;
const BatchRule batch_hook = kOfSubgraph;
const BatchRule batch_cond = kOfSubgraph;
const BatchRule batch_while_loop = kOfSubgraph;
const BatchRule batch_scan = kOfSubgraph;
const BatchRule batch_first_token = kAlone;
const BatchRule batch_custom_operator = kLoop;
const BatchRule batch_ordered_operator = kLoop;

}  // namespace tandem::batching
