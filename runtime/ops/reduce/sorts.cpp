// Sorts, selections, searches, and elements by position.
#include <tandem/ops/sorting.h>

#include "runtime/indexing/positions.h"
#include "runtime/ops/reduce/along.h"

namespace tandem {
namespace {

using ir::ErrorScope;
using ir::Op;
using runtime::Along;
using runtime::Call;
using runtime::V;

V order_of(const Along& a, bool descending) {
  return a.c.b.emit(Op::argsort, {a.x}, {int64_t{a.dim}, descending});
}

ValuesAndIndices sorted(Call&& c, const Tensor& self, int64_t dim, bool descending) {
  const Along a(c, self, dim);
  return a.picked(order_of(a, descending));
}

void require_count(const Along& a, Dim k, int64_t least) {
  if (k < least || k > a.size())
    ir::fail(Errc::Argument,
             fmt::format("{}: k out of range; expected {} to {}, got {}", ErrorScope::function(),
                         least, int64_t{a.size()}, int64_t{k}));
}

// --- searches

void require_vector(const Tensor& boundaries) {
  if (boundaries.dim() != 1)
    ir::fail(Errc::Shape,
             fmt::format("bucketize: boundaries are not a vector; expected [n], got {}",
                         to_string(boundaries.sizes())));
}

/// self as values to search for, of the sequence's dtype.
V wanted(Call& c, const Located& self, V sequence) {
  if (self.tensor == nullptr) return c.b.full({}, c.b.dtype(sequence), self.number);
  const V v = c.in(*self.tensor);
  if (c.b.dtype(v) != c.b.dtype(sequence))
    ir::fail(Errc::DType, fmt::format("{}: self's dtype differs from the sequence's; expected {}, "
                                      "got {}",
                                      ErrorScope::function(), ir::name(c.b.dtype(sequence)),
                                      ir::name(c.b.dtype(v))));
  return v;
}

Tensor searched(Call&& c, const Tensor& sequence, const Located& self,
                const SearchOptions& options) {
  V line = c.in(sequence, "sorted_sequence");
  if (c.b.rank(line) == 0)
    ir::fail(Errc::Shape, fmt::format("{}: the sequence has no dimension; expected at least one, "
                                      "got []",
                                      ErrorScope::function()));
  if (options.sorter.defined())
    line = c.b.gather(line, c.b.rank(line) - 1, c.in(options.sorter, "sorter"));
  const V values = wanted(c, self, line);
  const Shape sizes = c.b.sizes(values);
  if (c.b.rank(line) > 1 && c.b.rank(line) != sizes.rank())
    ir::fail(Errc::Shape,
             fmt::format("{}: sizes do not fit; expected self with the sequence's "
                         "leading sizes {}, got {}",
                         ErrorScope::function(), to_string(c.b.sizes(line)), to_string(sizes)));
  const V flat = c.b.rank(line) == 1 ? c.b.reshape(values, {ir::numel(sizes)}) : values;
  const V places = c.b.emit(Op::searchsorted, {line, flat}, {options.right});
  return c.out(c.b.convert(c.b.view(places, sizes), options.out_int32 ? i32 : i64));
}

/// Both in one dtype.
Tensor is_among(Call&& c, const Tensor& elements, const Tensor& tests, bool invert) {
  const V given[] = {c.in(elements, "elements"), c.in(tests, "test_elements")};
  const DType dtype = c.b.result_type(given);
  const V x = c.b.reshape(c.b.convert(given[0], dtype), {elements.numel()});
  const V line = c.b.reshape(c.b.convert(given[1], dtype), {tests.numel()});
  if (tests.numel() == 0) return c.out(c.b.full(elements.sizes(), boolean, invert));
  const V order = c.b.emit(Op::argsort, {line}, {int64_t{0}, false});
  const V sorted = c.b.index_select(line, 0, order);
  const V place = c.b.emit(Op::searchsorted, {sorted, x}, {false});
  const V nearest =
      c.b.index_select(sorted, 0, c.b.clamp(place, {}, Number(int64_t{tests.numel()} - 1)));
  const V found = invert ? c.b.ne(nearest, x) : c.b.eq(nearest, x);
  return c.out(c.b.view(found, elements.sizes()));
}

// --- positions in row-major order

V flat(Call& c, V v) { return c.b.reshape(v, {c.b.numel(v)}); }

runtime::Scattered put_at(Call& c, const Tensor& self, const Tensor& index, const Tensor& source,
                          bool accumulate) {
  const V positions = c.in(index, "index"), from = c.in(source, "source");
  if (source.dtype() != self.dtype() || source.numel() != index.numel())
    ir::fail(Errc::Argument,
             fmt::format("put: source does not fit; expected {} elements of {}, got "
                         "{} of {}",
                         int64_t{index.numel()}, ir::name(self.dtype()), int64_t{source.numel()},
                         ir::name(source.dtype())));
  return {.op = accumulate ? Op::index_add : Op::scatter,
          .seen = {self.numel()},
          .dim = 0,
          .index = runtime::wrapped(c, flat(c, positions), self.numel()),
          .src = flat(c, from)};
}

/// Sizes of self and of the index for a gather: broadcast but along `dim`.
std::pair<V, V> broadcast_but(Call& c, V self, V index, int dim) {
  Shape from = c.b.sizes(self), to = c.b.sizes(index);
  if (from.rank() != to.rank())
    ir::fail(Errc::Shape, fmt::format("take_along_dim: expected indices of self's number of "
                                      "dimensions, got {} beside {}",
                                      to_string(to), to_string(from)));
  const Dim own = from[dim], wanted = to[dim];
  from[dim] = to[dim] = 1;
  Shape common = c.b.broadcast(from, to, "take_along_dim");
  common[dim] = own;
  const V source = c.b.expand(self, common);
  common[dim] = wanted;
  return {source, c.b.expand(index, common)};
}

}  // namespace

ValuesAndIndices sort(const Tensor& self, int64_t dim, bool descending, bool /*stable*/,
                      SourceLocation at) {
  return sorted(Call(at), self, dim, descending);
}
Tensor argsort(const Tensor& self, int64_t dim, bool descending, bool /*stable*/,
               SourceLocation at) {
  Call c(at);
  const Along a(c, self, dim);
  return a.out(order_of(a, descending));
}
Tensor msort(const Tensor& self, SourceLocation at) {
  return sorted(Call(at), self, 0, false).values;
}
ValuesAndIndices topk(const Tensor& self, Dim k, int64_t dim, bool largest, bool /*sorted*/,
                      SourceLocation at) {
  Call c(at);
  const Along a(c, self, dim);
  require_count(a, k, self.dim() == 0 ? 1 : 0);
  return a.picked(c.b.emit(Op::topk_indices, {a.x}, {int64_t{a.dim}, k, largest}));
}
ValuesAndIndices kthvalue(const Tensor& self, Dim k, int64_t dim, bool keepdim, SourceLocation at) {
  Call c(at);
  const Along a(c, self, dim);
  require_count(a, k, 1);
  return a.picked(c.b.emit(Op::kth_index, {a.x}, {int64_t{a.dim}, Dim(k - 1)}), keepdim);
}

Tensor searchsorted(const Tensor& sorted_sequence, const Located& self,
                    const SearchOptions& options) {
  return searched(Call(self.location), sorted_sequence, self, options);
}
Tensor bucketize(const Located& self, const Tensor& boundaries, const SearchOptions& options) {
  const ErrorScope errors(self.location);
  require_vector(boundaries);
  return searched(Call(self.location), boundaries, self, options);
}
Tensor isin(const Tensor& elements, const Tensor& test_elements, bool /*assume_unique*/,
            bool invert, SourceLocation at) {
  return is_among(Call(at), elements, test_elements, invert);
}

Tensor take(const Tensor& self, const Tensor& index, SourceLocation at) {
  Call c(at);
  const V v = c.in(self), positions = c.in(index, "index");
  const V places = runtime::wrapped(c, flat(c, positions), self.numel());
  return c.out(c.b.view(c.b.index_select(flat(c, v), 0, places), index.sizes()));
}
Tensor take_along_dim(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim,
                      SourceLocation at) {
  Call c(at);
  const V v = c.in(self), positions = c.in(indices, "indices");
  if (!dim) return c.out(c.b.index_select(flat(c, v), 0, flat(c, positions)));
  const int d = c.b.wrap_dim(*dim, c.b.rank(v), "take_along_dim");
  const auto [source, places] = broadcast_but(c, v, positions, d);
  return c.out(c.b.gather(source, d, runtime::wrapped(c, places, c.b.sizes(source)[d])));
}
Tensor put(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate,
           SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  const V written = put_at(c, self, index, source, accumulate).over(c, v);
  return runtime::laid_out_like(c.out(written), self, at);
}
const Tensor& Tensor::put_(const Tensor& index, const Tensor& source, bool accumulate,
                           SourceLocation at) const {
  Call c(at, "put", true);
  runtime::require_apart(*this, {&index, &source});
  const V v = c.in(*this);
  put_at(c, *this, index, source, accumulate).write(c, v);
  return *this;
}

}  // namespace tandem
