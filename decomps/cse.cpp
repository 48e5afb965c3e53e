// Common subexpressions: a table of the equations by what they compute (op, operands, attributes).
#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "decomps/simplify.h"
#include "ir/build/effect.h"
#include "ir/build/rewrite.h"

namespace tandem::decomps {
namespace {

using ir::AttrValue;
using ir::Dim;
using ir::EquationId;
using ir::Graph;
using ir::ValueId;

class Hash {
 public:
  void add(uint64_t word) {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15u;
    state_ ^= state_ >> 32;
  }
  void add(ValueId v) { add(uint64_t{v.index}); }
  void add(const AttrValue& attr) {
    std::visit([&](const auto& value) { add_value(value); }, attr);
  }
  size_t get() const { return state_; }

 private:
  void add_value(bool value) { add(uint64_t{value}); }
  void add_value(int64_t value) { add(static_cast<uint64_t>(value)); }
  void add_value(Dim d) { add_value(int64_t{d}); }
  void add_value(ir::DType dtype) { add(static_cast<uint64_t>(dtype)); }
  void add_value(ir::SubgraphId id) { add(uint64_t{id.index}); }
  void add_value(double value) { add(std::isnan(value) ? 0 : std::bit_cast<uint64_t>(value)); }
  void add_value(const ir::Number& n) {
    n.is_float() ? add_value(n.to_double()) : add_value(n.to_int());
  }
  void add_value(const std::string& text) { add(std::hash<std::string>()(text)); }
  template <class T, size_t N>
  void add_value(const ir::InlineVector<T, N>& list) {
    for (const T& item : list) add_value(item);
  }

  uint64_t state_ = 0;
};

/// Walks over the equations and merges each into the first that is equal to it.
class Merger {
 public:
  explicit Merger(Graph graph)
      : splicer_(std::move(graph)),
        graph_(splicer_.graph()),
        table_(std::bit_ceil(2 * splicer_.num_equations() + 1)),
        has_regions_(std::ranges::any_of(graph_.equations(),
                                         [](const ir::Equation& e) { return e.region != 0; })) {}

  Graph run() {
    for (uint32_t i = 0; i < splicer_.num_equations(); ++i) {
      splicer_.at({i});
      if (!ir::runs_once(ir::effect_of(graph_, EquationId{i}))) add({i});
    }
    return splicer_.take();
  }

 private:
  void add(EquationId e) {
    EquationId& known = slot(e, false);
    if (known.valid()) return merge(e, known);
    if (graph_.equation(e).is_backward && has_regions_)
      if (const EquationId other = slot(e, true); other.valid()) return merge(e, other);
    known = e;
  }

  /// `to` stands for `from` as well from now on.
  void merge(EquationId from, EquationId to) {
    if (!graph_.equation(from).is_backward) graph_.equation(to).is_backward = false;
    splicer_.replace(from, graph_.results(to));
  }

  /// The place of `e` in the table: of an equal equation of its checkpoint region (or of any), or
  /// free. (What two regions both compute is handed out by neither: each computes it again.)
  EquationId& slot(EquationId e, bool of_any_region) {
    const size_t mask = table_.size() - 1;
    const auto fits = [&](EquationId known) {
      return of_any_region || graph_.equation(known).region == graph_.equation(e).region;
    };
    for (size_t i = hash(e) & mask;; i = (i + 1) & mask)
      if (!table_[i].valid() || (fits(table_[i]) && are_equal(table_[i], e))) return table_[i];
  }

  bool is_commutative(EquationId e) const { return ir::info(graph_.op(e)).commutative; }

  size_t hash(EquationId e) const {
    Hash hash;
    hash.add(static_cast<uint64_t>(graph_.op(e)));
    const auto operands = graph_.operands(e);
    if (is_commutative(e)) {
      hash.add(std::min(operands[0], operands[1]));
      hash.add(std::max(operands[0], operands[1]));
    } else {
      for (ValueId v : operands) hash.add(v);
    }
    for (const AttrValue& attr : graph_.attrs(e)) hash.add(attr);
    return hash.get();
  }

  bool are_equal(EquationId a, EquationId b) const {
    return graph_.op(a) == graph_.op(b) && have_equal_operands(a, b) &&
           std::ranges::equal(graph_.attrs(a), graph_.attrs(b), ir::same);
  }

  bool have_equal_operands(EquationId a, EquationId b) const {
    const auto x = graph_.operands(a), y = graph_.operands(b);
    return std::ranges::equal(x, y) || (is_commutative(a) && x[0] == y[1] && x[1] == y[0]);
  }

  ir::Splicer splicer_;
  Graph& graph_;
  std::vector<EquationId> table_;  // open addressing; at most half full
  const bool has_regions_;
};

}  // namespace

Graph eliminate_common_subexpressions(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = eliminate_common_subexpressions(std::move(graph.subgraph({i})));
  return Merger(std::move(graph)).run();
}

}  // namespace tandem::decomps
