// pad in its modes.
#include <fmt/format.h>
#include <tandem/ops/shapes.h>

#include <algorithm>
#include <limits>

#include "ir/base/error.h"
#include "runtime/ops/call.h"

namespace tandem {
namespace {

using runtime::Call;
using runtime::V;

void require_pairs(const std::vector<Dim>& padding, int rank) {
  if (padding.size() % 2 != 0 || padding.size() > 2 * static_cast<size_t>(rank))
    ir::fail(Errc::Argument,
             fmt::format("pad: expected pairs for at most {} dimensions, got {} numbers", rank,
                         padding.size()));
}

struct Padding {
  Dim before, after;
};
Padding cuts(Padding p) { return {std::min<int64_t>(p.before, 0), std::min<int64_t>(p.after, 0)}; }
Padding gains(Padding p) { return {std::max<int64_t>(p.before, 0), std::max<int64_t>(p.after, 0)}; }

V cut(Call& c, V v, int dim, Padding p) {
  const Dim n = c.b.sizes(v)[dim], start = -int64_t{p.before}, end = n + p.after;
  if (start > n || end < start)
    ir::fail(Errc::Shape, fmt::format("pad: cuts more than there is; expected at most {} in "
                                      "dimension {}, got {} and {}",
                                      int64_t{n}, dim, int64_t{start}, -int64_t{p.after}));
  return c.b.slice(v, dim, start, end);
}

/// What stands on one side, `count` elements that are not 0, of those of `v`.
using Side = V (*)(Call& c, V v, int dim, Dim count, bool after);

V reflected(Call& c, V v, int dim, Dim count, bool after) {
  const Dim n = c.b.sizes(v)[dim], start = after ? n - 1 - count : Dim(1);
  const ir::Axes dims{dim};
  return c.b.flip(c.b.slice(v, dim, start, start + count), dims);
}
V replicated(Call& c, V v, int dim, Dim count, bool after) {
  const Dim at = after ? c.b.sizes(v)[dim] - 1 : Dim(0);
  Shape sizes = c.b.sizes(v);
  sizes[dim] = count;
  return c.b.expand(c.b.slice(v, dim, at, at + 1), sizes);
}
V from_other_side(Call& c, V v, int dim, Dim count, bool after) {
  const Dim n = c.b.sizes(v)[dim];
  return after ? c.b.slice(v, dim, 0, count) : c.b.slice(v, dim, n - count, n);
}

/// `reach(n)`: how many elements a side of a dimension of n may gain; cuts_first: what is cut off
/// is not seen by the sides.
struct PadMode {
  std::string_view name;
  Side side;
  Dim (*reach)(Dim n);
  bool cuts_first;
};
constexpr PadMode kPadModes[] = {
    {"reflect", reflected, [](Dim n) -> Dim { return n - 1; }, false},
    {"replicate", replicated,
     [](Dim n) -> Dim { return n > 0 ? std::numeric_limits<int64_t>::max() : 0; }, false},
    {"circular", from_other_side, [](Dim n) -> Dim { return n; }, true},
};

V grown(Call& c, V v, int dim, Padding p, const PadMode& mode) {
  const Dim n = c.b.sizes(v)[dim], reach = std::max<int64_t>(mode.reach(n), 0);
  if (p.before > reach || p.after > reach)
    ir::fail(Errc::Shape, fmt::format("pad: the padding does not fit mode \"{}\"; expected at most "
                                      "{} on a side of dimension {} of {}, got {} and {}",
                                      mode.name, int64_t{reach}, dim, to_string(c.b.sizes(v)),
                                      int64_t{p.before}, int64_t{p.after}));
  std::vector<V> parts{v};
  if (p.before > 0) parts.insert(parts.begin(), mode.side(c, v, dim, p.before, false));
  if (p.after > 0) parts.push_back(mode.side(c, v, dim, p.after, true));
  return parts.size() > 1 ? c.b.cat(parts, dim) : v;
}

V padded(Call& c, V v, int dim, Padding p, const PadMode& mode) {
  if (mode.cuts_first) return grown(c, cut(c, v, dim, cuts(p)), dim, gains(p), mode);
  return cut(c, grown(c, v, dim, gains(p), mode), dim, cuts(p));
}

const PadMode& pad_mode(std::string_view name, const std::optional<Number>& value) {
  const auto found = std::ranges::find(kPadModes, name, &PadMode::name);
  if (found == std::end(kPadModes))
    ir::fail(Errc::Argument, fmt::format("pad: unknown mode; expected \"constant\", \"reflect\", "
                                         "\"replicate\" or \"circular\", got \"{}\"",
                                         name));
  if (value)
    ir::fail(Errc::Argument, fmt::format("pad: mode \"{}\" takes no value; expected none, got {}",
                                         name, value->to_double()));
  return *found;
}

/// Autocast knows these modes as functions of their own.
std::string_view cast_as(std::string_view mode, size_t amounts) {
  if (mode == "replicate") return "replication_pad";
  return mode == "reflect" && amounts < 6 ? "reflection_pad" : "pad";
}

}  // namespace

Tensor pad(const Tensor& self, const std::vector<Dim>& padding, const Number& value,
           SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  require_pairs(padding, c.b.rank(v));
  const size_t rank = static_cast<size_t>(c.b.rank(v));
  std::vector<Dim> by_dim(2 * rank, 0);  // first dimension first
  for (size_t i = 0; i < padding.size(); i += 2) {
    by_dim[2 * (rank - 1 - i / 2)] = padding[i];
    by_dim[2 * (rank - 1 - i / 2) + 1] = padding[i + 1];
  }
  const bool adds = std::ranges::any_of(padding, [](Dim count) { return count > 0; });
  const V result = c.b.pad(v, by_dim, ir::checked_constant(c.b.dtype(v), value));
  return adds ? c.out(result) : clone(c.out(result), at);
}

Tensor pad(const Tensor& self, const std::vector<Dim>& padding, std::string_view mode,
           const std::optional<Number>& value, SourceLocation at) {
  const ir::ErrorScope errors(at);
  if (mode == "constant") return pad(self, padding, value.value_or(0), at);
  const PadMode& how = pad_mode(mode, value);
  Call c(at, cast_as(mode, padding.size()));
  const V v = c.in(self);
  require_pairs(padding, c.b.rank(v));
  V out = v;
  for (size_t i = 0; i < padding.size(); i += 2)
    out = padded(c, out, c.b.rank(v) - 1 - static_cast<int>(i / 2), {padding[i], padding[i + 1]},
                 how);
  const bool is_view =
      out == v || std::ranges::any_of(padding, [](Dim count) { return count < 0; });
  return c.out(is_view ? c.b.clone(out) : out);
}

}  // namespace tandem
