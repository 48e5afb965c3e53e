// Sees through writes into parts. Functionalization makes each write a new value: the one before
// with something in a part of it. What reads a part of that needs either what was written there or
// what was there before, and then nobody may need the whole. So the gradient of what is written
// part by part, each of which is set to zero behind the gradient that it takes, copies no whole.
#include <algorithm>
#include <map>

#include "decomps/fold.h"
#include "decomps/simplify.h"
#include "ir/build/rewrite.h"

namespace tandem::decomps {
namespace {

using ir::Attr;
using ir::AttrValue;
using ir::Dim;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::ValueId;

bool shows_part(Op op) { return op == Op::slice || op == Op::diagonal; }
bool writes_part(Op op) { return op == Op::slice_scatter || op == Op::diagonal_scatter; }

/// The part of `of` that view op `view` shows; without attributes all of it.
struct Part {
  ValueId of;
  Op view;
  std::vector<AttrValue> attrs;
};

/// Indices start, start + step, ... of a dim, the last of them `last`.
struct Indices {
  int64_t dim, start, step, last;
};

/// Those that a slice shows or writes, if any.
std::optional<Indices> indices_of(std::span<const AttrValue> slice) {
  const int64_t start = std::get<Dim>(slice[1]), end = std::get<Dim>(slice[2]);
  const int64_t step = std::get<Dim>(slice[3]);
  if (start >= end) return std::nullopt;
  return Indices{std::get<int64_t>(slice[0]), start, step, start + (end - 1 - start) / step * step};
}

/// What is seen of a write: nothing, as it wrote elsewhere, or only what it wrote, or both that and
/// what was there before.
enum class Sees { Before, Written, Both };

/// What `part` of the result of slice_scatter `write` sees of it; if only what was written, it
/// becomes the part of that.
Sees see_slice(Part& part, const Graph& g, EquationId write) {
  auto seen = indices_of(part.attrs), written = indices_of(g.attrs(write));
  if (!seen || !written || seen->dim != written->dim) return Sees::Both;
  if (seen->start == seen->last) seen->step = written->step;  // one index is of any step
  if (written->start == written->last) written->step = seen->step;
  const int64_t offset = seen->start - written->start;
  const bool meets = offset % written->step == 0;
  if (seen->last < written->start || written->last < seen->start ||
      (seen->step == written->step && !meets))
    return Sees::Before;
  if (!meets || seen->step % written->step != 0 || offset < 0 || seen->last > written->last)
    return Sees::Both;
  const auto index = [&](int64_t i) { return Dim((i - written->start) / written->step); };
  part.attrs = {seen->dim, index(seen->start), index(seen->last) + 1,
                Dim(seen->step / written->step)};
  return Sees::Written;
}

Sees see_diagonal(Part& part, const Graph& g, EquationId write) {
  const std::span<const AttrValue> seen = part.attrs, written = g.attrs(write);
  if (seen[1] != written[1] || seen[2] != written[2]) return Sees::Both;
  if (seen[0] != written[0]) return Sees::Before;
  part.attrs.clear();
  return Sees::Written;
}

/// The same of any write; `part` is of its result, and becomes that of the operand that it sees.
Sees see(Part& part, const Graph& g, EquationId write) {
  const Op writes = part.view == Op::slice ? Op::slice_scatter : Op::diagonal_scatter;
  if (part.attrs.empty() || g.op(write) != writes) return Sees::Both;
  const Sees sees = (part.view == Op::slice ? see_slice : see_diagonal)(part, g, write);
  if (sees != Sees::Both) part.of = g.operand(write, sees == Sees::Before ? 0 : 1);
  return sees;
}

/// A value as slices along one dim: what the last of many writes left at each index.
struct Assembly {
  struct Slice {
    int64_t end;
    ValueId value;  // of which it shows what begins at index `first`
    int64_t first;
  };
  int dim = 0;
  std::map<int64_t, Slice> slices;  // by start
  int64_t covered = 0;              // how many indices they have
  ValueId base;                     // has the others

  /// Adds an earlier write of [start, end): what later ones left of it.
  void add(int64_t start, int64_t end, ValueId value) {
    for (int64_t at = start; at < end;) {
      const auto next = slices.upper_bound(at);
      if (next != slices.begin() && std::prev(next)->second.end > at) {
        at = std::prev(next)->second.end;
        continue;
      }
      const int64_t until = next == slices.end() ? end : std::min(end, next->first);
      slices[at] = {until, value, at - start};
      covered += until - at;
      at = until;
    }
  }
};

/// What there is of the values that writes make: which are needed whole, and which of these are put
/// together at once instead of one write after the other.
class Writes {
 public:
  explicit Writes(const Graph& g)
      : g_(g),
        is_whole_(g.num_values()),
        is_made_(g.num_values()),
        is_inside_(g.num_values()),
        over_(g.num_values()) {
    for (const ir::Output& output : g.outputs()) is_whole_[output.value.index] = true;
    for (size_t i = 0; i < g.num_equations(); ++i) follow(g.equation_id(i));
    for (size_t i = g.num_equations(); i-- > 0;)
      if (writes_part(g.op(g.equation_id(i)))) decide(g.equation_id(i));
  }

  /// How the result of `write` is put together at once, if it is.
  const Assembly* assembly(EquationId write) const {
    const auto found = assemblies_.find(g_.result(write).index);
    return found == assemblies_.end() ? nullptr : &found->second;
  }

  /// What `view` shows, of the earliest value that has it and need not be kept for it.
  Part earliest(EquationId view) const {
    Part part = shown(view);
    for (EquationId write = write_of(part.of); write.valid(); write = write_of(part.of)) {
      Part earlier = part;
      const EquationId over = over_[part.of.index];
      const bool is_gone = over.valid() && over.index < view.index;  // it would be copied for this
      const bool is_made = is_made_[part.of.index];
      const Sees sees = see(earlier, g_, write);
      if (sees == Sees::Both || (is_made && (sees == Sees::Written || !is_gone))) break;
      part = std::move(earlier);
    }
    return part;
  }

 private:
  Part shown(EquationId view) const {
    return {g_.operand(view, 0), g_.op(view), {g_.attrs(view).begin(), g_.attrs(view).end()}};
  }
  EquationId write_of(ValueId v) const {
    const EquationId e = g_.producer(v);
    return e.valid() && writes_part(g_.op(e)) ? e : EquationId();
  }

  /// Notes what `e` reads whole: not what it shows a part of, or writes over, or writes into what
  /// is not needed itself.
  void follow(EquationId e) {
    if (writes_part(g_.op(e))) {
      const uint32_t base = g_.operand(e, 0).index;
      if (over_[base].valid())
        is_whole_[base] = true;
      else
        over_[base] = e;
      return;
    }
    if (!shows_part(g_.op(e))) {
      for (const ValueId v : g_.operands(e)) is_whole_[v.index] = true;
      return;
    }
    Part part = shown(e);
    for (EquationId write = write_of(part.of); write.valid(); write = write_of(part.of))
      if (see(part, g_, write) == Sees::Both) break;
    is_whole_[part.of.index] = true;
  }

  /// Whether the result of `write` is needed, and how it is made. Those behind it are decided.
  void decide(EquationId write) {
    const uint32_t v = g_.result(write).index;
    const EquationId over = over_[v];
    const bool leads_on = over.valid() && is_made_[g_.result(over).index] && !is_inside_[v];
    is_made_[v] = is_whole_[v] || leads_on;
    if (!is_made_[v]) return;
    is_whole_[g_.operand(write, 1).index] = true;
    if (is_whole_[v] || !continues(over, write)) assemble(write);
  }

  /// Whether `write` is one of neighbours along a dim.
  bool writes_neighbours(EquationId write) const {
    return g_.op(write) == Op::slice_scatter && g_.attr<Dim>(write, Attr::step) == 1;
  }
  bool continues(EquationId later, EquationId write) const {
    return writes_neighbours(later) && writes_neighbours(write) &&
           g_.attr<int64_t>(later, Attr::dim) == g_.attr<int64_t>(write, Attr::dim);
  }

  void assemble(EquationId last) {
    if (!writes_neighbours(last)) return;
    Assembly all{.dim = static_cast<int>(g_.attr<int64_t>(last, Attr::dim))};
    const int64_t size = g_.type(g_.result(last)).sizes[all.dim];
    std::vector<EquationId> writes;
    for (EquationId write = last; write.valid() && all.covered < size;) {
      writes.push_back(write);
      all.add(g_.attr<Dim>(write, Attr::start), g_.attr<Dim>(write, Attr::end),
              g_.operand(write, 1));
      all.base = g_.operand(write, 0);
      write = is_whole_[all.base.index] ? EquationId() : write_of(all.base);
      if (write.valid() && !continues(last, write)) break;
    }
    if (all.slices.empty() || !begins_new(all, size)) return;
    for (const EquationId write : writes) {
      is_inside_[g_.result(write).index] = write != last;
      is_whole_[g_.operand(write, 1).index] = true;
    }
    assemblies_.emplace(g_.result(last).index, std::move(all));
  }

  /// Whether it has memory of its own: an input's is written into where it is.
  bool begins_new(const Assembly& all, int64_t size) const {
    if (all.covered < size) return constant(g_, all.base).has_value();
    ValueId begun = all.base;
    while (write_of(begun).valid()) begun = g_.operand(write_of(begun), 0);
    return g_.producer(begun).valid();
  }

  const Graph& g_;
  // by value:
  std::vector<bool> is_whole_;    // something reads all of it
  std::vector<bool> is_made_;     // of writes: it is computed, if only for further writes
  std::vector<bool> is_inside_;   // of writes: a later one is put together without it
  std::vector<EquationId> over_;  // the first write over it
  std::map<uint32_t, Assembly> assemblies_;
};

/// Emits what parts and assemblies are.
class Emitter {
 public:
  explicit Emitter(ir::Splicer& splicer) : splicer_(splicer), b_(splicer.builder()) {}

  ValueId part(const Part& part) {
    const ValueId of = splicer_[part.of];
    if (part.attrs.empty()) return of;
    if (part.view != Op::slice) return b_.emit(part.view, {of}, part.attrs);
    return b_.slice(of, static_cast<int>(std::get<int64_t>(part.attrs[0])),
                    std::get<Dim>(part.attrs[1]), std::get<Dim>(part.attrs[2]),
                    std::get<Dim>(part.attrs[3]));
  }

  ValueId assembled(const Assembly& all, const ir::Type& type) {
    const int64_t size = type.sizes[all.dim];
    const auto& [start, only] = *all.slices.begin();
    if (all.slices.size() == 1)
      return b_.pad(slice(all, start, only), around(all.dim, start, size - only.end, type),
                    background(all));
    std::vector<ValueId> slices;
    int64_t at = 0;
    for (const auto& [start, written] : all.slices) {
      if (at < start) slices.push_back(gap(all, start - at, type));
      slices.push_back(slice(all, start, written));
      at = written.end;
    }
    if (at < size) slices.push_back(gap(all, size - at, type));
    return b_.cat(slices, all.dim);
  }

 private:
  ValueId slice(const Assembly& all, int64_t start, const Assembly::Slice& s) {
    return b_.slice(splicer_[s.value], all.dim, Dim(s.first), Dim(s.first + s.end - start));
  }
  /// What the base is wherever it shows.
  ir::Number background(const Assembly& all) const {
    return constant(splicer_.graph(), all.base).value_or(ir::Number());
  }
  ValueId gap(const Assembly& all, int64_t length, const ir::Type& type) {
    ir::Shape sizes = type.sizes;
    sizes[all.dim] = length;
    return b_.full(sizes, type.dtype, background(all));
  }
  static std::vector<Dim> around(int dim, Dim before, Dim after, const ir::Type& type) {
    std::vector<Dim> padding(2 * static_cast<size_t>(type.rank()));
    padding[2 * static_cast<size_t>(dim)] = before;
    padding[2 * static_cast<size_t>(dim) + 1] = after;
    return padding;
  }

  ir::Splicer& splicer_;
  ir::Builder& b_;
};

}  // namespace

Graph see_through_writes(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = see_through_writes(std::move(graph.subgraph({i})));
  const auto writes_any = [](const ir::Equation& e) { return writes_part(e.op); };
  if (std::ranges::none_of(graph.equations(), writes_any)) return graph;
  const Writes writes(graph);  // of the graph as it is, not as it becomes
  ir::Splicer splicer(graph);
  Emitter emit(splicer);
  for (uint32_t i = 0; i < splicer.num_equations(); ++i) {
    const EquationId e{i};
    splicer.at(e);
    if (shows_part(graph.op(e))) {
      const Part part = writes.earliest(e);
      if (part.of != graph.operand(e, 0)) splicer.replace(e, {{emit.part(part)}});
    } else if (writes_part(graph.op(e))) {
      const Assembly* const all = writes.assembly(e);
      if (all != nullptr) splicer.replace(e, {{emit.assembled(*all, graph.type(graph.result(e)))}});
    }
  }
  return simplify(splicer.take());
}

}  // namespace tandem::decomps
