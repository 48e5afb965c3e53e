// Rules of simplify for what is picked by an index or repeated along a dimension: nothing is
// computed of elements that are not picked, and what is made of repeated values alone lies nowhere.
#include <algorithm>
#include <vector>

#include "decomps/candidate.h"

namespace tandem::decomps {
namespace {

using ir::Attr;
using ir::AttrValue;
using ir::Dim;
using ir::EquationId;
using ir::Number;
using ir::Op;
using ir::Shape;
using V = ir::ValueId;

/// What holds the same along `dim` of its `rank` dimensions, by how it is made.
bool is_same_along(const Candidate& c, V v, int rank, int64_t dim) {
  if (c.is(v, Op::full)) return true;
  if (!c.is(v, Op::expand)) return false;
  const Shape& sizes = c.graph.type(c.behind(v)).sizes;
  const int64_t at = dim - (rank - sizes.rank());
  return at < 0 || sizes[static_cast<int>(at)] == 1;
}

/// expand(x, sizes) permuted: x with as many dimensions, permuted and repeated.
V permuted_expand(const Candidate& c, V v, const ir::Axes& dims) {
  Shape sizes = c.graph.type(c.behind(v)).sizes;
  while (sizes.rank() < std::ssize(dims)) sizes.insert(0, 1);
  return c.b.expand(c.b.permute(c.b.view(c.behind(v), sizes), dims), c.type.sizes);
}

/// Whether `v` is a constant or repeated, or computed of such values in so many steps.
bool is_repeated_in(const ir::Graph& graph, V v, int steps) {
  const EquationId e = graph.producer(v);
  if (!e.valid()) return false;
  const Op op = graph.op(e);
  if (op == Op::full || op == Op::expand) return true;
  return steps > 0 && (ir::is_pointwise(op) || op == Op::pad) &&
         std::ranges::all_of(graph.operands(e),
                             [&](V operand) { return is_repeated_in(graph, operand, steps - 1); });
}

}  // namespace

bool is_repeated(const ir::Graph& graph, V v) {
  constexpr int kSteps = 3;
  return is_repeated_in(graph, v, kSteps);
}

bool pads_with_zeros(const ir::Graph& graph, V v) {
  const EquationId e = graph.producer(v);
  if (!e.valid() || graph.op(e) != Op::pad) return false;
  const ir::DType dtype = graph.type(v).dtype;
  return rounded_to(dtype, graph.attr<Number>(e, Attr::value)) == rounded_to(dtype, 0.0);
}

bool picks_one_of_each_line(const Shape& index, Shape sizes, int64_t dim) {
  sizes[static_cast<int>(dim)] = 1;
  return index == sizes;
}

bool scatters_one_to_each_line(const ir::Graph& graph, EquationId e) {
  if (graph.op(e) != Op::scatter_add || !graph.equation(e).is_backward ||
      !is_constant(graph, graph.operand(e, 0), 0.0))
    return false;
  const Shape& index = graph.type(graph.operand(e, 1)).sizes;
  const Shape& lines = graph.type(graph.result(e)).sizes;
  return picks_one_of_each_line(index, lines, graph.attr<int64_t>(e, Attr::dim)) &&
         graph.type(graph.operand(e, 2)).sizes == index;
}

// gather(f(x, expand y), dim, i) = f(gather(x, dim, i), expand y), where i picks one of each line
// and y is the same along it: f is computed of what is picked alone
Result gather_of_pointwise(const Candidate& c) {
  const EquationId e = c.graph.producer(c[0]);
  if (!e.valid() || !ir::is_pointwise(c.graph.op(e))) return std::nullopt;
  const Shape sizes = c.type.sizes;
  const auto dim = c.attr<int64_t>(Attr::dim);
  if (!picks_one_of_each_line(sizes, c.graph.type(c[0]).sizes, dim)) return std::nullopt;
  std::vector<V> operands(c.graph.operands(e).begin(), c.graph.operands(e).end());
  const auto is_same = [&](V v) { return is_same_along(c, v, sizes.rank(), dim); };
  if (std::ranges::count_if(operands, is_same) + 1 != std::ssize(operands)) return std::nullopt;
  for (V& v : operands) {
    if (!is_same(v))
      v = c.b.gather(v, static_cast<int>(dim), c[1]);
    else if (c.is(v, Op::full))
      v = c.b.full(sizes, c.graph.type(v).dtype, c.attr_behind<Number>(v, Attr::value));
    else
      v = c.b.expand(c.behind(v), sizes);
  }
  const std::vector<AttrValue> attrs(c.graph.attrs(e).begin(), c.graph.attrs(e).end());
  return c.b.emit(c.graph.op(e), operands, attrs);
}

// sum(scatter_add(0, dim, i, x), dim) = sum(x, dim), where i picks one of each line
Result sum_of_scattered(const Candidate& c) {
  const EquationId e = c.graph.producer(c[0]);
  if (!e.valid() || !scatters_one_to_each_line(c.graph, e)) return std::nullopt;
  const auto dim = static_cast<ir::Axis>(c.graph.attr<int64_t>(e, Attr::dim));
  if (c.attr<ir::Axes>(Attr::dims) != ir::Axes{dim}) return std::nullopt;
  return c.b.emit(Op::sum, {c.behind(c[0], 2)}, c.attrs);
}

/// `padding` ([before, after] for each dim) of these dims alone.
ir::Dims padding_of(const ir::Dims& padding, const ir::Axes& dims) {
  ir::Dims of;
  for (const ir::Axis d : dims)
    for (const size_t at : {2 * static_cast<size_t>(d), 2 * static_cast<size_t>(d) + 1})
      of.push_back(padding[at]);
  return of;
}

// sum(pad(x), dims) = pad(sum(x, dims)), where zeros stand beside whole lines
Result sum_of_padded(const Candidate& c) {
  if (!pads_with_zeros(c.graph, c[0])) return std::nullopt;
  const ir::Dims padding = c.attr_behind<ir::Dims>(c[0], Attr::padding);
  const ir::Axes& dims = c.attr<ir::Axes>(Attr::dims);
  const auto is_zero = [](Dim n) { return n == 0; };
  if (!std::ranges::all_of(padding_of(padding, dims), is_zero)) return std::nullopt;
  ir::Axes kept;
  for (int d = 0; d < c.graph.type(c[0]).rank(); ++d)
    if (c.attr<bool>(Attr::keepdim) || !std::ranges::binary_search(dims, d)) kept.push_back(d);
  return c.b.pad(c.b.emit(Op::sum, {c.behind(c[0])}, c.attrs), padding_of(padding, kept), 0.0);
}

// sum(expand x, dims) = expand(sum(expand x, dims)), of which the inner expand repeats along dims
// alone; the same for prod, amax, ...
Result reduction_of_repeated(const Candidate& c) {
  if (!c.is(c[0], Op::expand)) return std::nullopt;
  const ir::Axes& dims = c.attr<ir::Axes>(Attr::dims);
  Shape sizes = c.graph.type(c[0]).sizes;
  for (int d = 0; d < sizes.rank(); ++d)
    if (!std::ranges::binary_search(dims, d) && is_same_along(c, c[0], sizes.rank(), d))
      sizes[d] = 1;
  if (sizes == c.graph.type(c[0]).sizes) return std::nullopt;
  return c.b.expand(c.b.emit(c.op, {c.b.expand(c.behind(c[0]), sizes)}, c.attrs), c.type.sizes);
}

// permute(f(expand x, ...)) = f(expand(permute x), ...): computed wherever it is used
Result permute_of_repeated(const Candidate& c) {
  if (!is_repeated(c.graph, c[0])) return std::nullopt;
  const ir::Axes dims = c.attr<ir::Axes>(Attr::dims);
  if (c.is(c[0], Op::expand)) return permuted_expand(c, c[0], dims);
  const EquationId e = c.graph.producer(c[0]);
  std::vector<V> operands(c.graph.operands(e).begin(), c.graph.operands(e).end());
  std::vector<AttrValue> attrs(c.graph.attrs(e).begin(), c.graph.attrs(e).end());
  const Op op = c.graph.op(e);
  if (op == Op::pad) attrs[0] = padding_of(std::get<ir::Dims>(attrs[0]), dims);
  for (V& v : operands) v = c.b.permute(v, dims);
  return c.b.emit(op, operands, attrs);
}

}  // namespace tandem::decomps
