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

/// A term of a sum. A half's is widened for it, `widened`: then that is what the sum reads.
struct Term {
  ValueId value, widened;
};

using Terms = std::vector<Term>;

/// What `v` is the sum of; of halves one in f32 between converts. None if it is no sum.
Terms terms_of(const Graph& g, ValueId v) {
  const bool is_half = ir::is_floating(g.type(v).dtype) && ir::size_of(g.type(v).dtype) < 4;
  const auto made_by = [&](ValueId x, Op op) {
    const EquationId e = g.producer(x);
    return e.valid() && g.op(e) == op ? e : EquationId();
  };
  const EquationId narrowed = is_half ? made_by(v, Op::convert) : EquationId();
  const EquationId sum = made_by(narrowed.valid() ? g.operand(narrowed, 0) : v, Op::add);
  if (!sum.valid()) return {};
  Terms terms;
  for (const ValueId x : g.operands(sum)) {
    const EquationId widened = narrowed.valid() ? made_by(x, Op::convert) : EquationId();
    if (narrowed.valid() && !widened.valid()) return {};
    terms.push_back({widened.valid() ? g.operand(widened, 0) : x, widened.valid() ? x : ValueId()});
    if (g.type(terms.back().value).dtype != g.type(v).dtype) return {};
  }
  return terms;
}

/// The sums of nothing but parts.
class PartSums {
 public:
  explicit PartSums(const Graph& graph)
      : g_(graph), uses_(use_counts(graph)), is_sum_(graph), is_term_(graph) {
    for (uint32_t i = 0; i < g_.num_equations(); ++i) {
      const ValueId sum = g_.results({i}).empty() ? ValueId() : g_.results({i})[0];
      if (!sum.valid()) continue;
      const Terms terms = terms_of(g_, sum);
      const auto is_part = [&](const Term& t) { return is_inner(t) || part_of(g_, t.value); };
      if (terms.empty() || !std::ranges::all_of(terms, is_part)) continue;
      is_sum_[sum] = true;
      for (const Term& t : terms) is_term_[t.value] = is_term_[t.value] || is_inner(t);
    }
  }

  /// The parts that `sum` adds, in order, if it is no term of a larger such sum and they lie beside
  /// each other; or none.
  std::vector<Part> parts_of(ValueId sum) const {
    if (!is_sum_[sum] || is_term_[sum]) return {};
    std::vector<Part> parts;
    std::vector<ValueId> open = {sum};
    while (!open.empty()) {
      const ValueId v = open.back();
      open.pop_back();
      if (const auto part = part_of(g_, v))
        parts.push_back(*part);
      else
        for (const Term& term : terms_of(g_, v)) open.push_back(term.value);
    }
    std::ranges::sort(parts, {}, &Part::start);
    return lie_beside_each_other(parts) ? parts : std::vector<Part>();
  }

 private:
  /// Whether a term is such a sum that nothing else uses.
  bool is_inner(const Term& t) const {
    const bool once = uses_[t.value.index] == 1;
    return is_sum_[t.value] && once && (!t.widened.valid() || uses_[t.widened.index] == 1);
  }

  static bool lie_beside_each_other(const std::vector<Part>& parts) {
    for (size_t i = 1; i < parts.size(); ++i)
      if (parts[i].dim != parts[0].dim || parts[i].start < parts[i - 1].end) return false;
    return true;
  }

  const Graph& g_;
  std::vector<uint32_t> uses_;
  ir::ValueMap<bool> is_sum_;   // its operands are parts and sums of them that nothing else uses
  ir::ValueMap<bool> is_term_;  // of a larger one
};

/// In f32 for halves, as all sums are.
ValueId plus_zero(ir::Builder& b, ValueId v) {
  const ir::DType dtype = b.dtype(v), wide = ir::size_of(dtype) < 4 ? ir::DType::F32 : dtype;
  return b.convert(b.add(b.convert(v, wide), b.full(b.sizes(v), wide, 0)), dtype);
}

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
    pieces.push_back(is_float ? plus_zero(b, v) : v);
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
    if (g.op(e) != Op::add && g.op(e) != Op::convert) continue;
    const std::vector<Part> parts = sums.parts_of(g.result(e));
    const ir::Type type = g.type(g.result(e));
    if (!parts.empty()) splicer.replace(e, {{joined(splicer.builder(), parts, type)}});
  }
  return splicer.take();
}

}  // namespace tandem::decomps
