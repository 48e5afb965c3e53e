// More views, joins, repetitions and paddings: free functions. All are made of other operations.
#include <fmt/format.h>
#include <tandem/ops/shapes.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/indexing/positions.h"
#include "runtime/tape/autograd.h"
#include "runtime/trace/trace.h"

namespace tandem {
namespace {

using ir::Op;
using runtime::Call;
using runtime::V;

void require_rank(std::string_view op, const Tensor& t, int64_t least) {
  if (t.dim() < least)
    ir::fail(Errc::Shape, fmt::format("{}: too few dimensions; expected at least {}, got {}", op,
                                      least, to_string(t.sizes())));
}

void require_some(std::string_view op, std::span<const Tensor> tensors) {
  if (tensors.empty())
    ir::fail(Errc::Argument, fmt::format("{}: no tensors; expected at least one, got none", op));
}

std::span<const Tensor> all_of(std::initializer_list<Tensor> tensors) {
  return {tensors.begin(), tensors.size()};
}

/// A tensor of its own, also where there was nothing to do.
Tensor fresh(Call& c, const Tensor& self, V given, V result, const SourceLocation& at) {
  return result == given ? clone(self, at) : c.out(result);
}

template <class Change>
std::vector<Tensor> each(std::span<const Tensor> tensors, Change change) {
  std::vector<Tensor> changed;
  for (const Tensor& t : tensors) changed.push_back(change(t));
  return changed;
}

}  // namespace

// --- views

Tensor swapdims(const Tensor& self, int64_t dim0, int64_t dim1, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return transpose(self, dim0, dim1, at);
}
Tensor moveaxis(const Tensor& self, const DimList& source, const DimList& destination,
                SourceLocation at) {
  const ir::ErrorScope errors(at);
  return movedim(self, source, destination, at);
}
Tensor adjoint(const Tensor& self, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return matrix_transpose(self, at);
}

Tensor atleast_1d(const Tensor& self, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return self.dim() > 0 ? self : view(self, {1}, at);
}
Tensor atleast_2d(const Tensor& self, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (self.dim() == 1) return unsqueeze(self, 0, at);
  return self.dim() > 1 ? self : view(self, {1, 1}, at);
}
Tensor atleast_3d(const Tensor& self, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (self.dim() == 2) return unsqueeze(self, -1, at);
  return self.dim() > 2 ? self : unsqueeze(atleast_2d(self, at), -1, at);
}
std::vector<Tensor> atleast_1d(std::span<const Tensor> tensors, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return each(tensors, [&](const Tensor& t) { return atleast_1d(t, at); });
}
std::vector<Tensor> atleast_2d(std::span<const Tensor> tensors, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return each(tensors, [&](const Tensor& t) { return atleast_2d(t, at); });
}
std::vector<Tensor> atleast_3d(std::span<const Tensor> tensors, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return each(tensors, [&](const Tensor& t) { return atleast_3d(t, at); });
}

std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors, SourceLocation at) {
  Call c(at);
  Shape sizes;
  for (const Tensor& t : tensors) sizes = c.b.broadcast(sizes, t.sizes(), "broadcast_tensors");
  return each(tensors,
              [&](const Tensor& t) { return t.sizes() == sizes ? t : expand(t, sizes, at); });
}
std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> tensors, SourceLocation at) {
  return broadcast_tensors(all_of(tensors), at);
}

namespace {

void check_meshgrid(std::span<const Tensor> tensors, std::string_view indexing) {
  require_some("meshgrid", tensors);
  if (indexing != "ij" && indexing != "xy")
    ir::fail(Errc::Argument, fmt::format("meshgrid: unknown indexing; expected \"ij\" or \"xy\", "
                                         "got \"{}\"",
                                         indexing));
  for (const Tensor& t : tensors) {
    if (t.dim() > 1)
      ir::fail(Errc::Shape, fmt::format("meshgrid: a tensor is not a vector; expected [n], got {}",
                                        to_string(t.sizes())));
    if (t.dtype() != tensors[0].dtype())
      ir::fail(Errc::DType, fmt::format("meshgrid: dtypes differ; expected {}, got {}",
                                        ir::name(tensors[0].dtype()), ir::name(t.dtype())));
  }
}

}  // namespace

std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, std::string_view indexing,
                             SourceLocation at) {
  const ir::ErrorScope errors(at);
  check_meshgrid(tensors, indexing);
  const bool swaps = indexing == "xy" && tensors.size() > 1;
  const auto dim_of = [&](size_t i) { return static_cast<int>(swaps && i < 2 ? 1 - i : i); };
  Shape all = Shape::filled(static_cast<int>(tensors.size()), 1);
  const Shape ones = all;
  for (size_t i = 0; i < tensors.size(); ++i) all[dim_of(i)] = tensors[i].numel();
  std::vector<Tensor> grids;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Shape sizes = ones;
    sizes[dim_of(i)] = tensors[i].numel();
    grids.push_back(expand(view(tensors[i], sizes, at), all, at));
  }
  return grids;
}
std::vector<Tensor> meshgrid(std::initializer_list<Tensor> tensors, std::string_view indexing,
                             SourceLocation at) {
  return meshgrid(all_of(tensors), indexing, at);
}

// --- joins

#define X(op)                                                                        \
  Tensor op(std::span<const Tensor> tensors, int64_t dim, SourceLocation at) {       \
    const ir::ErrorScope errors(at);                                                 \
    return cat(tensors, dim, at);                                                    \
  }                                                                                  \
  Tensor op(std::initializer_list<Tensor> tensors, int64_t dim, SourceLocation at) { \
    return op(all_of(tensors), dim, at);                                             \
  }
TANDEM_CAT_ALIASES(X)
#undef X
#define X(op)                                                           \
  Tensor op(std::initializer_list<Tensor> tensors, SourceLocation at) { \
    return op(all_of(tensors), at);                                     \
  }
TANDEM_STACKS(X)
X(block_diag)
#undef X

Tensor hstack(std::span<const Tensor> tensors, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require_some("hstack", tensors);
  return cat(atleast_1d(tensors, at), tensors[0].dim() > 1 ? 1 : 0, at);
}
Tensor vstack(std::span<const Tensor> tensors, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return cat(atleast_2d(tensors, at), 0, at);
}
Tensor row_stack(std::span<const Tensor> tensors, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return vstack(tensors, at);
}
Tensor dstack(std::span<const Tensor> tensors, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return cat(atleast_3d(tensors, at), 2, at);
}
Tensor column_stack(std::span<const Tensor> tensors, SourceLocation at) {
  const ir::ErrorScope errors(at);
  const auto column = [&](const Tensor& t) {
    return t.dim() > 1 ? t : reshape(t, {t.numel(), 1}, at);
  };
  return cat(each(tensors, column), 1, at);
}

Tensor block_diag(std::span<const Tensor> tensors, SourceLocation at) {
  Call c(at);
  if (tensors.empty()) return zeros({1, 0}, f32, at);
  Dim width = 0, before = 0;
  std::vector<V> blocks;
  for (const Tensor& t : tensors) {
    blocks.push_back(c.in(t, "one of the tensors"));
    if (t.dim() > 2)
      ir::fail(Errc::Shape, fmt::format("block_diag: expected tensors of at most two dimensions, "
                                        "got {}",
                                        to_string(t.sizes())));
    width += t.dim() > 0 ? t.size(-1) : Dim(1);
  }
  const DType dtype = c.b.result_type(blocks);
  std::vector<Tensor> rows;
  for (const Tensor& t : tensors) {
    const Tensor block = atleast_2d(to(t, dtype, at), at);
    const Dim after = width - before - block.size(1);
    rows.push_back(pad(block, std::vector<Dim>{before, after}, 0, at));
    before += block.size(1);
  }
  return cat(rows, 0, at);
}

// --- elements in other places

namespace {

V rolled(Call& c, V v, int dim, Dim shift) {
  const Dim n = c.b.sizes(v)[dim];
  const Dim moved = n == 0 ? Dim(0) : (shift % n + n) % n;
  if (moved == 0) return v;
  const V parts[] = {c.b.slice(v, dim, n - moved, n), c.b.slice(v, dim, 0, n - moved)};
  return c.b.cat(parts, dim);
}

}  // namespace

Tensor roll(const Tensor& self, const DimList& shifts, const DimList& dims, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  const size_t expected = std::max<size_t>(dims.dims.size(), 1);
  if (shifts.dims.size() != expected)
    ir::fail(Errc::Argument, fmt::format("roll: expected {} shifts, one for each of the dimensions "
                                         "(or one without dimensions), got {}",
                                         expected, shifts.dims.size()));
  if (dims.dims.empty()) {
    const V flat = c.b.reshape(v, {self.numel()}), turned = rolled(c, flat, 0, shifts.dims[0]);
    return turned == flat ? clone(self, at) : c.out(c.b.view(turned, self.sizes()));
  }
  V out = v;
  for (size_t i = 0; i < expected; ++i)
    out = rolled(c, out, c.b.wrap_dim(dims.dims[i], c.b.rank(v), "roll"), shifts.dims[i]);
  return fresh(c, self, v, out, at);
}

Tensor fliplr(const Tensor& self, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require_rank("fliplr", self, 2);
  return flip(self, 1, at);
}
Tensor flipud(const Tensor& self, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require_rank("flipud", self, 1);
  return flip(self, 0, at);
}

Tensor rot90(const Tensor& self, int64_t k, const DimList& dims, SourceLocation at) {
  Call c(at);
  require_rank("rot90", self, 2);
  const auto turned = c.b.wrap_dims(dims.dims, static_cast<int>(self.dim()), "rot90");
  if (turned.size() != 2)
    ir::fail(Errc::Argument, fmt::format("rot90: expected two dimensions, got {}", turned.size()));
  const int64_t quarters = (k % 4 + 4) % 4, from = turned[0], to = turned[1];
  if (quarters == 0) return clone(self, at);
  if (quarters == 2) return flip(self, turned, at);
  const Tensor result = transpose(flip(self, quarters == 1 ? to : from, at), from, to, at);
  runtime::forget_base(result);
  return result;
}

namespace {

/// `v` with each dimension's elements so many times, the whole of them or each in a row.
V repeated(Call& c, V v, const Shape& repeats, bool in_a_row) {
  const Shape sizes = c.b.sizes(v);
  Shape from, spread, result;
  for (int d = 0; d < sizes.rank(); ++d) {
    const Dim n = sizes[d], times = repeats[d];
    result.push_back(ir::checked_mul(n, times, "repeat"));
    const bool splits = n != 1 && times != 1;
    if (splits && !in_a_row) from.push_back(1), spread.push_back(times);
    from.push_back(n);
    spread.push_back(n == 1 ? times : n);
    if (splits && in_a_row) from.push_back(1), spread.push_back(times);
  }
  return c.b.view(c.b.clone(c.b.expand(c.b.reshape(v, from), spread)), result);
}

void require_repeats(std::string_view op, const Shape& repeats) {
  if (std::ranges::any_of(repeats, [](Dim times) { return times < 0; }))
    ir::fail(Errc::Argument, fmt::format("{}: negative repeats; expected none below 0, got {}", op,
                                         to_string(repeats)));
}

Shape with_ones_in_front(const Shape& sizes, int rank) {
  Shape out = Shape::filled(std::max(rank - sizes.rank(), 0), 1);
  for (Dim n : sizes) out.push_back(n);
  return out;
}

}  // namespace

Tensor repeat(const Tensor& self, const Shape& repeats, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  require_repeats("repeat", repeats);
  if (repeats.rank() < c.b.rank(v))
    ir::fail(Errc::Argument, fmt::format("repeat: expected a number for each dimension of {}, got "
                                         "{}",
                                         to_string(self.sizes()), to_string(repeats)));
  const V whole = c.b.reshape(v, with_ones_in_front(self.sizes(), repeats.rank()));
  return c.out(repeated(c, whole, repeats, false));
}
Tensor tile(const Tensor& self, const Shape& repeats, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return repeat(self, with_ones_in_front(repeats, static_cast<int>(self.dim())), at);
}

namespace {

/// What is repeated, and along which of its dimensions.
struct Interleaved {
  Interleaved(Call& c, const Tensor& self, std::optional<int64_t> given)
      : v(given ? c.in(self) : c.b.reshape(c.in(self), {self.numel()})),
        dim(given ? c.b.wrap_dim(*given, c.b.rank(v), "repeat_interleave") : 0) {}
  V v;
  int dim;
};

void require_counts(const Tensor& repeats) {
  if (repeats.dtype() != i64 && repeats.dtype() != i32)
    ir::fail(Errc::DType, fmt::format("repeat_interleave: repeats are not integers; expected i64 "
                                      "or i32, got {}",
                                      ir::name(repeats.dtype())));
  if (repeats.dim() > 1)
    ir::fail(Errc::Shape, fmt::format("repeat_interleave: repeats are not a vector; expected [n] "
                                      "or one number, got {}",
                                      to_string(repeats.sizes())));
}

/// Each position as often as `repeats` says, read now.
Tensor positions_of(const Tensor& repeats, std::optional<Dim> output_size) {
  const std::vector<int64_t> counts = repeats.to_vector<int64_t>();
  Dim size = 0;
  for (const int64_t times : counts) {
    require_repeats("repeat_interleave", {times});
    size = ir::checked_add(size, times, "repeats");
  }
  if (output_size && *output_size != size)
    ir::fail(Errc::Index, fmt::format("repeat_interleave: output_size is not what repeats add up "
                                      "to; expected {}, got {}",
                                      int64_t{size}, int64_t{*output_size}));
  Tensor positions = empty({size}, i64);
  auto* to = positions.data<int64_t>();
  for (size_t i = 0; i < counts.size(); ++i)
    to = std::fill_n(to, counts[i], static_cast<int64_t>(i));
  return positions;
}

/// The same in a trace: a place's position is how many parts end at or before it. All are out of
/// range if the repeats are negative or do not add up to `size`.
V positions_of(Call& c, V repeats, Dim size) {
  const Dim n = c.b.numel(repeats);
  const V ends = runtime::running_sum(c, c.b.convert(repeats, i64));
  const V inside = c.b.clamp(ends, Number(0), Number(int64_t{size}));
  const V marks = c.b.index_add(c.b.full({size + 1}, i64, 0), 0, inside, c.b.full({n}, i64, 1));
  const V position = c.b.slice(runtime::running_sum(c, marks), 0, 0, size);
  const V total = n == 0 ? c.b.full({1}, i64, 0) : c.b.slice(ends, 0, n - 1, n);
  const V fits =
      c.b.logical_and(c.b.eq(total, Number(int64_t{size})),
                      c.b.logical_not(c.b.reduce(Op::any, c.b.lt(repeats, Number(0)), ir::Axes{})));
  return c.b.where(fits, position, Number(int64_t{n}));
}

}  // namespace

Tensor repeat_interleave(const Tensor& self, Dim repeats, std::optional<int64_t> dim,
                         SourceLocation at) {
  Call c(at);
  require_repeats("repeat_interleave", {repeats});
  const Interleaved of(c, self, dim);
  Shape times = Shape::filled(c.b.rank(of.v), 1);
  times[of.dim] = repeats;
  return c.out(repeated(c, of.v, times, true));
}

Tensor repeat_interleave(const Tensor& self, const Tensor& repeats, std::optional<int64_t> dim,
                         std::optional<Dim> output_size, SourceLocation at) {
  Call c(at);
  const Interleaved of(c, self, dim);
  require_counts(repeats);
  const Dim n = c.b.sizes(of.v)[of.dim];
  if (repeats.numel() != n && repeats.numel() != 1)
    ir::fail(Errc::Shape, fmt::format("repeat_interleave: repeats do not fit; expected one, or one "
                                      "for each of {}, got {}",
                                      int64_t{n}, to_string(repeats.sizes())));
  const bool traced = runtime::Trace::current() != nullptr;
  if (traced && !output_size)
    ir::fail(Errc::Trace,
             "repeat_interleave: the result's size depends on data, which a trace "
             "cannot hold; expected output_size, got none");
  if (!traced) {
    const Tensor times = expand(repeats.detach().reshape({repeats.numel()}, at), {n}, at);
    return c.out(c.b.index_select(of.v, of.dim, c.in(positions_of(times, output_size))));
  }
  const V times = c.b.expand(c.b.reshape(c.in(repeats, "repeats"), {repeats.numel()}), {n});
  return c.out(c.b.index_select(of.v, of.dim, positions_of(c, times, *output_size)));
}

Tensor repeat_interleave(const Tensor& repeats, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require_counts(repeats);
  if (runtime::Trace::current() != nullptr)
    ir::fail(Errc::Trace,
             "repeat_interleave: the result's size depends on data, which a trace "
             "cannot hold; expected the form with a tensor and output_size");
  return to(positions_of(atleast_1d(repeats, at), {}), repeats.dtype(), at);
}

Tensor diag(const Tensor& self, Dim diagonal, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (self.dim() == 1) return diag_embed(self, diagonal, 0, 1, at);
  if (self.dim() != 2)
    ir::fail(Errc::Shape,
             fmt::format("diag: expected a vector or a matrix, got {}", to_string(self.sizes())));
  return clone(tandem::diagonal(self, diagonal, 0, 1, at), at);
}

Tensor diag_embed(const Tensor& self, Dim offset, int64_t dim1, int64_t dim2, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  require_rank("diag_embed", self, 1);
  const int rank = c.b.rank(v) + 1;
  const ir::Axes dims{dim1, dim2}, placed = c.b.wrap_dims(dims, rank, "diag_embed");
  const Dim n = self.size(-1) + std::abs(int64_t{offset});
  Shape sizes;
  for (int d = 0, next = 0; d < rank; ++d)
    sizes.push_back(d == placed[0] || d == placed[1] ? n : self.sizes()[next++]);
  return c.out(c.b.emit(Op::diagonal_scatter, {c.b.full(sizes, self.dtype(), 0), v},
                        {offset, placed[0], placed[1]}));
}
Tensor diagflat(const Tensor& self, Dim offset, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return diag_embed(reshape(self, {self.numel()}, at), offset, 0, 1, at);
}

}  // namespace tandem
