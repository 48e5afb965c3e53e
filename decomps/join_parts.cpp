// Joins parts: the gradient of what was split, or read here and there, is a sum of parts, each
// padded with zeros to the whole. Piece by piece, each the sum of those that have it, they make one
// concatenation, which touches memory once.
#include <algorithm>

#include "decomps/candidate.h"
#include "decomps/simplify.h"
#include "decomps/terms.h"
#include "ir/build/rewrite.h"

namespace tandem::decomps {
namespace {

using ir::Attr;
using ir::Dim;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::ValueId;

/// What a pad with zeros puts at [start, end) of the one dim that it makes longer.
struct Part {
  ValueId value;
  int dim = 0;
  Dim start, end;
};

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

/// A sum with parts among its terms, in postfix order: terms, and additions of what the two steps
/// before give.
struct Step {
  std::optional<Part> term;  // none: an addition
};

/// The sums of parts, and of parts and values that are as large as the sum.
class PartSums {
 public:
  explicit PartSums(const Graph& graph)
      : g_(graph), uses_(use_counts(graph)), dims_(graph.num_values(), -1), is_term_(graph) {
    for (uint32_t i = 0; i < g_.num_equations(); ++i)
      if (!g_.results({i}).empty()) look_at(g_.results({i})[0]);
  }

  /// The steps of `sum`, if it is no term of a larger such sum and can be put together of pieces.
  std::vector<Step> steps_of(ValueId sum) const {
    if (dims_[sum.index] < 0 || is_term_[sum]) return {};
    std::vector<Step> steps;
    std::vector<ValueId> open = {sum};
    while (!open.empty()) {  // last step first
      const ValueId v = open.back();
      open.pop_back();
      const bool is_leaf = v != sum && !is_term(v);
      steps.push_back({is_leaf ? std::optional(leaf(v, dims_[sum.index])) : std::nullopt});
      if (is_leaf) continue;
      for (const Term& term : terms_of(g_, v)) open.push_back(term.value);
    }
    std::ranges::reverse(steps);
    return may_join(steps) ? steps : std::vector<Step>();
  }

 private:
  static constexpr size_t kMaxOverlapping = 8;  // terms: each may be cut where any other one ends

  void look_at(ValueId sum) {
    const Terms terms = terms_of(g_, sum);
    int dim = -1;
    for (const Term& t : terms) {
      const int of_term = dim_of(t);
      if (of_term >= 0 && dim >= 0 && dim != of_term) return;
      dim = std::max(dim, of_term);
    }
    if (dim < 0) return;
    dims_[sum.index] = dim;
    for (const Term& t : terms) is_term_[t.value] = is_term_[t.value] || is_inner(t);
  }

  /// The dim along which a term is a part, or a sum of parts that nothing else uses; -1: neither.
  int dim_of(const Term& t) const {
    if (is_inner(t)) return dims_[t.value.index];
    const auto part = part_of(g_, t.value);
    return part ? part->dim : -1;
  }
  bool is_inner(const Term& t) const {
    const bool once = uses_[t.value.index] == 1;
    return dims_[t.value.index] >= 0 && once && (!t.widened.valid() || uses_[t.widened.index] == 1);
  }

  /// Of what stands there by now, too.
  bool is_term(ValueId v) const { return v.index < dims_.size() && is_term_[v]; }

  Part leaf(ValueId v, int dim) const {
    const auto part = part_of(g_, v);
    return part && part->dim == dim ? *part : Part{v, dim, 0, g_.type(v).sizes[dim]};
  }

  /// Of few terms any; of many those of which each pair covers the same or nothing in common, so
  /// that each is a part of one piece.
  static bool may_join(const std::vector<Step>& steps) {
    if (steps.size() < 2 * kMaxOverlapping) return true;
    std::vector<std::pair<Dim, Dim>> parts;
    for (const Step& step : steps)
      if (step.term) parts.push_back({step.term->start, step.term->end});
    std::ranges::sort(parts);
    const auto overlap = [](const auto& a, const auto& b) { return a != b && b.first < a.second; };
    return std::ranges::adjacent_find(parts, overlap) == parts.end();
  }

  const Graph& g_;
  std::vector<uint32_t> uses_;
  std::vector<int> dims_;       // by value: of a sum of parts along this dim; else -1
  ir::ValueMap<bool> is_term_;  // such a sum, which a larger one has as a term
};

/// What a sum of parts is, piece by piece along their dim.
class Pieces {
 public:
  Pieces(ir::Builder& b, const std::vector<Step>& steps, const ir::Type& type)
      : b_(b), steps_(steps), type_(type) {
    for (const Step& step : steps_) {
      if (!step.term) continue;
      dim_ = step.term->dim;
      cuts_.push_back(step.term->start), cuts_.push_back(step.term->end);
    }
    std::ranges::sort(cuts_);
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
  }

  // pad(x) + y + ... = pad(cat(y + 0, x + y, ...)): adding 0 turns -0 into 0
  ValueId joined() {
    std::vector<ValueId> pieces;
    for (size_t i = 1; i < cuts_.size(); ++i) pieces.push_back(piece(cuts_[i - 1], cuts_[i]));
    if (pieces.empty()) return zeros(type_.sizes[dim_]);
    const ValueId whole = b_.cat(pieces, dim_);
    if (b_.sizes(whole) == type_.sizes) return whole;
    std::vector<Dim> padding(2 * static_cast<size_t>(type_.rank()));
    padding[2 * static_cast<size_t>(dim_)] = cuts_.front();
    padding[2 * static_cast<size_t>(dim_) + 1] = type_.sizes[dim_] - cuts_.back();
    return b_.pad(whole, padding, 0);
  }

 private:
  ValueId piece(Dim start, Dim end) {
    std::vector<ValueId> stack;  // invalid: zeros
    bool adds_zeros = false;
    for (const Step& step : steps_) {
      if (step.term) {
        stack.push_back(shown(*step.term, start, end));
        adds_zeros = adds_zeros || !stack.back().valid();
        continue;
      }
      const ValueId right = stack.back();
      stack.pop_back();
      stack.back() = sum(stack.back(), right);
    }
    if (!stack[0].valid()) return zeros(end - start);
    return adds_zeros && ir::is_floating(type_.dtype) ? plus_zero(stack[0]) : stack[0];
  }

  /// What a term has at [start, end), none or all of which it covers.
  ValueId shown(const Part& part, Dim start, Dim end) {
    if (start < part.start || end > part.end) return {};
    if (start == part.start && end == part.end) return part.value;
    return b_.slice(part.value, dim_, start - part.start, end - part.start);
  }

  /// In f32 for halves, as all sums are.
  ValueId sum(ValueId x, ValueId y) {
    if (!x.valid() || !y.valid()) return x.valid() ? x : y;
    return b_.convert(b_.add(b_.convert(x, wide()), b_.convert(y, wide())), type_.dtype);
  }
  ValueId plus_zero(ValueId v) {
    return b_.convert(b_.add(b_.convert(v, wide()), b_.full(b_.sizes(v), wide(), 0)), type_.dtype);
  }
  ir::DType wide() const {
    const bool is_half = ir::is_half(type_.dtype);
    return is_half ? ir::DType::F32 : type_.dtype;
  }

  ValueId zeros(Dim length) {
    ir::Shape sizes = type_.sizes;
    sizes[dim_] = length;
    return b_.full(sizes, type_.dtype, 0);
  }

  ir::Builder& b_;
  const std::vector<Step>& steps_;
  const ir::Type& type_;
  int dim_ = 0;
  std::vector<Dim> cuts_;  // where terms start and end, in order
};

}  // namespace

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

Graph join_parts(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = join_parts(std::move(graph.subgraph({i})));
  if (std::ranges::count(graph.equations(), Op::pad, &ir::Equation::op) == 0) return graph;
  ir::Splicer splicer(std::move(graph));
  const Graph& g = splicer.graph();
  const PartSums sums(g);
  for (uint32_t i = 0; i < splicer.num_equations(); ++i) {
    const EquationId e{i};
    splicer.at(e);
    if (g.op(e) != Op::add && g.op(e) != Op::convert) continue;
    const std::vector<Step> steps = sums.steps_of(g.result(e));
    const ir::Type type = g.type(g.result(e));
    if (!steps.empty()) splicer.replace(e, {{Pieces(splicer.builder(), steps, type).joined()}});
  }
  return splicer.take();
}

}  // namespace tandem::decomps
