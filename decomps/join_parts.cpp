// Joins parts: the gradient of what was split is a sum of parts, each padded with zeros to the
// whole. Parts that lie beside each other make one concatenation, which touches memory once.
#include <algorithm>

#include "decomps/simplify.h"
#include "ir/build/rewrite.h"

namespace tandem::decomps {
namespace {

using ir::Attr;
using ir::Dim;
using ir::EquationId;
using ir::Graph;
using ir::Number;
using ir::Op;
using ir::ValueId;

/// What a pad with zeros puts at [start, end) of the one dim that it makes longer.
struct Part {
  ValueId value;
  int dim = 0;
  Dim start, end;
};

bool pads_with_zeros(const Graph& g, ValueId v) {
  const EquationId e = g.producer(v);
  if (!e.valid() || g.op(e) != Op::pad) return false;
  const ir::DType dtype = g.type(v).dtype;
  return rounded_to(dtype, g.attr<Number>(e, Attr::value)) == rounded_to(dtype, 0.0);
}

std::optional<Part> part_of(const Graph& g, ValueId v) {
  if (!pads_with_zeros(g, v)) return std::nullopt;
  const ValueId inner = g.operand(g.producer(v), 0);
  const auto& padding = g.attr<ir::Dims>(g.producer(v), Attr::padding);
  std::optional<Part> part;
  for (int d = 0; d < g.type(v).rank(); ++d) {
    const Dim before = padding[2 * static_cast<size_t>(d)];
    const Dim after = padding[2 * static_cast<size_t>(d) + 1];
    if (before == 0 && after == 0) continue;
    if (part) return std::nullopt;
    part = {inner, d, before, before + g.type(inner).sizes[d]};
  }
  return part;
}

/// The sums of nothing but parts.
class PartSums {
 public:
  explicit PartSums(const Graph& graph)
      : g_(graph), uses_(use_counts(graph)), is_sum_(graph), is_term_(graph) {
    for (const ir::Equation& e : g_.equations()) {
      const auto operands = g_.operands(e);
      const auto is_part = [&](ValueId v) {
        return (is_sum_[v] && uses_[v.index] == 1) || part_of(g_, v);
      };
      if (e.op != Op::add || !std::ranges::all_of(operands, is_part)) continue;
      is_sum_[g_.results(e)[0]] = true;
      for (ValueId v : operands) is_term_[v] = true;
    }
  }

  /// The parts that `sum` adds, in order, if it is no term of a larger such sum and they lie beside
  /// each other; or none.
  std::vector<Part> parts_of(ValueId sum) const {
    if (!is_sum_[sum] || (is_term_[sum] && uses_[sum.index] == 1)) return {};
    std::vector<Part> parts;
    std::vector<ValueId> open = {sum};
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (const auto part = part_of(g_, v))
        parts.push_back(*part);
      else
        for (ValueId term : g_.operands(g_.producer(v))) open.push_back(term);
    }
    std::ranges::sort(parts, {}, &Part::start);
    return lie_beside_each_other(parts) ? parts : std::vector<Part>();
  }

 private:
  static bool lie_beside_each_other(const std::vector<Part>& parts) {
    for (size_t i = 1; i < parts.size(); ++i)
      if (parts[i].dim != parts[0].dim || parts[i].start < parts[i - 1].end) return false;
    return true;
  }

  const Graph& g_;
  std::vector<uint32_t> uses_;
  ir::ValueMap<bool> is_sum_;   // its operands are parts and sums of them that nothing else uses
  ir::ValueMap<bool> is_term_;  // of such a sum
};

/// pad(x) + pad(y) + ... = pad(cat(x + 0, y + 0, ...)): adding 0 turns -0 into 0.
ValueId joined(ir::Builder& b, const std::vector<Part>& parts, const ir::Type& type) {
  const int dim = parts[0].dim;
  const auto zeros = [&](ir::Shape sizes, Dim length) {
    sizes[dim] = length;
    return b.full(sizes, type.dtype, 0);
  };
  std::vector<ValueId> pieces;
  Dim at = parts[0].start;
  for (const Part& part : parts) {
    if (part.start > at) pieces.push_back(zeros(type.sizes, part.start - at));
    const ValueId v = part.value;
    const bool is_float = ir::is_floating(type.dtype);
    pieces.push_back(is_float ? b.add(v, zeros(type.sizes, part.end - part.start)) : v);
    at = part.end;
  }
  const ValueId whole = b.cat(pieces, dim);
  if (b.sizes(whole) == type.sizes) return whole;
  std::vector<Dim> padding(2 * static_cast<size_t>(type.rank()));
  padding[2 * static_cast<size_t>(dim)] = parts[0].start;
  padding[2 * static_cast<size_t>(dim) + 1] = type.sizes[dim] - at;
  return b.pad(whole, padding, 0);
}

}  // namespace

Graph join_parts(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = join_parts(std::move(graph.subgraph({i})));
  if (std::ranges::count(graph.equations(), Op::pad, &ir::Equation::op) < 2) return graph;
  ir::Splicer splicer(std::move(graph));
  const Graph& g = splicer.graph();
  const PartSums sums(g);
  for (uint32_t i = 0; i < splicer.num_equations(); ++i) {
    const EquationId e{i};
    splicer.at(e);
    if (g.op(e) != Op::add) continue;
    const std::vector<Part> parts = sums.parts_of(g.result(e));
    const ir::Type type = g.type(g.result(e));
    if (!parts.empty()) splicer.replace(e, {{joined(splicer.builder(), parts, type)}});
  }
  return splicer.take();
}

}  // namespace tandem::decomps
