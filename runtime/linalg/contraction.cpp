#include "runtime/linalg/contraction.h"

namespace tandem::runtime {
namespace {

/// Those of `dims` that are in `set`.
std::vector<int> chosen(const std::vector<int>& dims, const Labels& set) {
  std::vector<int> some;
  std::ranges::copy_if(dims, std::back_inserter(some),
                       [&](int d) { return set.test(static_cast<size_t>(d)); });
  return some;
}

std::vector<int> joined(std::vector<int> a, const std::vector<int>& b, const std::vector<int>& c) {
  a.insert(a.end(), b.begin(), b.end());
  a.insert(a.end(), c.begin(), c.end());
  return a;
}

/// The sizes of x's dimensions `dims`, 1 for those that it does not have.
Shape sizes_of(Call& c, const Labelled& x, const std::vector<int>& dims) {
  Shape sizes;
  for (const int d : dims) {
    const auto at = std::ranges::find(x.dims, d);
    sizes.push_back(at == x.dims.end() ? Dim(1)
                                       : c.b.sizes(x.value)[static_cast<int>(at - x.dims.begin())]);
  }
  return sizes;
}

Dim count_of(Call& c, const Labelled& x, const std::vector<int>& dims) {
  return ir::numel(sizes_of(c, x, dims));
}

/// x with the dimensions `dims`, which its own are among, of size 1 where it has none.
V spread(Call& c, const Labelled& x, const std::vector<int>& dims) {
  const Shape sizes = sizes_of(c, x, dims);
  return c.b.reshape(arranged(c, x, chosen(dims, x.labels())), sizes);
}

/// What the dimensions of a product of two are to it.
struct Parts {
  std::vector<int> batch, rows, columns, summed;
};

Parts parts_of(const Labelled& x, const Labelled& y, const Labels& kept) {
  const Labels a = x.labels(), b = y.labels(), both = a & b;
  return {.batch = chosen(x.dims, both & kept),
          .rows = chosen(x.dims, a & ~b),
          .columns = chosen(y.dims, b & ~a),
          .summed = chosen(x.dims, both & ~kept)};
}

/// x as matrices [batch, first, second]; without a batch [first, second].
V matrices(Call& c, const Labelled& x, const std::vector<int>& batch, const std::vector<int>& first,
           const std::vector<int>& second) {
  const V v = arranged(c, x, joined(batch, first, second));
  const Dim rows = count_of(c, x, first), columns = count_of(c, x, second);
  if (batch.empty()) return c.b.reshape(v, {rows, columns});
  return c.b.reshape(v, {count_of(c, x, batch), rows, columns});
}

}  // namespace

Labelled summed(Call& c, Labelled x, const Labels& kept) {
  ir::Axes dims;
  for (size_t d = 0; d < x.dims.size(); ++d)
    if (!kept.test(static_cast<size_t>(x.dims[d]))) dims.push_back(static_cast<ir::Axis>(d));
  if (dims.empty()) return x;
  const DType dtype = c.b.dtype(x.value);
  return {c.b.convert(c.b.sum(x.value, dims), dtype), chosen(x.dims, kept)};
}

V arranged(Call& c, const Labelled& x, const std::vector<int>& labels) {
  if (x.dims == labels) return x.value;
  ir::Axes order;
  for (const int d : labels)
    order.push_back(static_cast<ir::Axis>(std::ranges::find(x.dims, d) - x.dims.begin()));
  return c.b.permute(x.value, order);
}

Labelled contracted(Call& c, Labelled x, Labelled y, const Labels& kept) {
  x = summed(c, std::move(x), kept | y.labels());
  y = summed(c, std::move(y), kept | x.labels());
  const auto [batch, rows, columns, inner] = parts_of(x, y, kept);
  const std::vector<int> dims = joined(batch, rows, columns);
  if (inner.empty()) return {c.b.mul(spread(c, x, dims), spread(c, y, dims)), dims};
  Shape sizes = sizes_of(c, x, joined(batch, rows, {}));
  for (const Dim n : sizes_of(c, y, columns)) sizes.push_back(n);
  const V a = matrices(c, x, batch, rows, inner), b = matrices(c, y, batch, inner, columns);
  return {c.b.view(batch.empty() ? c.b.mm(a, b) : c.b.bmm(a, b), sizes), dims};
}

}  // namespace tandem::runtime
