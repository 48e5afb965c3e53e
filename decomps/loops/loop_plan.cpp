#include "decomps/loops/loop_plan.h"

#include <algorithm>

#include "ir/build/effect.h"

namespace tandem::decomps {

using ir::Attr;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::ValueId;

Scan::Scan(const Graph& graph, EquationId e)
    : body(graph.subgraph(graph.attr<ir::SubgraphId>(e, Attr::body))),
      operands(graph.operands(e).begin(), graph.operands(e).end()),
      results(graph.results(e).begin(), graph.results(e).end()),
      carries(static_cast<size_t>(graph.attr<int64_t>(e, Attr::carries))),
      whole(carries + static_cast<size_t>(graph.attr<int64_t>(e, Attr::constants))),
      length(graph.attr<ir::Dim>(e, Attr::length)),
      reverse(graph.attr<bool>(e, Attr::reverse)) {}

ValueId viewed(const Graph& graph, ValueId v) {
  EquationId e = graph.producer(v);
  for (; e.valid() && graph.op(e) == Op::view; e = graph.producer(v)) v = graph.operand(e, 0);
  return v;
}

std::optional<ValueId> transposed(const Graph& graph, ValueId v) {
  const EquationId e = graph.producer(v);
  if (!e.valid() || graph.op(e) != Op::permute || graph.type(v).rank() != 2) return std::nullopt;
  if (graph.attr<ir::Axes>(e, Attr::dims)[0] != 1) return std::nullopt;
  return graph.operand(e, 0);
}

std::optional<size_t> slice_index(const Scan& scan, ValueId v) {
  const int i = scan.body.input_index(v);
  if (i < 0 || static_cast<size_t>(i) < scan.whole) return std::nullopt;
  return static_cast<size_t>(i);
}

namespace {

/// How many times as much as the result it may take to keep the operands of all steps. (Of a loop
/// of loops nothing: the loops in it are enough work, and there may be so that memory is bounded.)
constexpr int64_t kMostStacked = 8;

bool computes(const ir::Equation& e) {
  const ir::OpClass c = ir::info(e.op).cls;
  return c == ir::OpClass::Pointwise || c == ir::OpClass::Reduction ||
         c == ir::OpClass::Contraction;
}

class Planner {
 public:
  Planner(const Scan& scan, const std::vector<uint32_t>& outer_uses)
      : s_(scan),
        g_(scan.body),
        outer_uses_(outer_uses),
        uses_(use_counts(scan.body)),
        is_given_(scan.body),
        holds_loop_(std::ranges::count(g_.equations(), Op::scan, &ir::Equation::op) != 0),
        plan_{ir::ValueMap<bool>(scan.body), {}, {}, {}, {}, {}, {},
              ir::ValueMap<bool>(scan.body), {}} {}

  std::optional<LoopPlan> run() {
    find_invariant();
    if (!holds_loop_) find_products_before();
    find_constants();
    find_ys();
    find_sums();
    keep_carries();
    keep_steps();
    if (!changes()) return std::nullopt;
    return std::move(plan_);
  }

 private:
  bool is_invariant(ValueId v) const { return plan_.invariant[v]; }
  bool is_read(size_t result) const { return outer_uses_[s_.results[result].index] != 0; }
  const ir::Equation* equation(ValueId v) const {
    const EquationId e = g_.producer(v);
    return e.valid() ? &g_.equation(e) : nullptr;
  }

  void find_invariant() {
    for (size_t i = s_.carries; i < s_.whole; ++i) plan_.invariant[s_.input(i)] = true;
    for (uint32_t i = 0; i < g_.num_equations(); ++i) {
      const ir::Equation& e = g_.equation({i});
      if (ir::effect_of(g_, e) != ir::Effect::Pure) continue;
      const auto operands = g_.operands(e);
      if (!std::ranges::all_of(operands, [&](ValueId v) { return is_invariant(v); })) continue;
      for (ValueId v : g_.results(e)) plan_.invariant[v] = true;
    }
  }

  /// What each step would compute anew, if it takes no more memory than what it is computed from.
  void find_constants() {
    for (uint32_t i = 0; i < g_.num_equations(); ++i) {
      const ir::Equation& e = g_.equation({i});
      if (!computes(e) || g_.results(e).size() != 1 || !is_invariant(g_.results(e)[0])) continue;
      const ValueId result = g_.results(e)[0];
      const auto holds_as_much = [&](ValueId v) {
        const ValueId from = source(v);
        return from.valid() && ir::numel(g_.type(from).sizes) >= ir::numel(g_.type(result).sizes);
      };
      if (std::ranges::any_of(g_.operands(e), holds_as_much)) give(result, plan_.constants);
    }
  }

  /// The memory behind views of what is invariant: an input, or a constant. Invalid of others.
  ValueId source(ValueId v) const {
    const ir::Equation* e = equation(v);
    for (; e != nullptr && !is_given_[v] && ir::info(e->op).cls == ir::OpClass::View;
         e = equation(v))
      v = g_.operands(*e)[0];
    return e == nullptr || is_given_[v] ? v : ValueId();
  }

  /// `v` comes from outside.
  void give(ValueId v, std::vector<ValueId>& to) {
    is_given_[v] = true;
    to.push_back(v);
  }

  bool adds_rows(ValueId addend) const {
    const ir::Equation* e = equation(addend);
    if (!is_invariant(addend) || e == nullptr || e->op != Op::expand) return false;
    const ir::Shape& from = g_.type(g_.operands(*e)[0]).sizes;
    return from.rank() == 1 || (from.rank() == 2 && from[0] == 1);
  }

  /// x w and c + x w of slices x: all steps are one product.
  void find_products_before() {
    for (uint32_t i = 0; i < g_.num_equations(); ++i) {
      const ir::Equation& e = g_.equation({i});
      if (e.op != Op::mm && e.op != Op::addmm) continue;
      const auto operands = g_.operands(e);
      const size_t first = e.op == Op::mm ? 0 : 1;
      if (!slice_index(s_, viewed(g_, operands[first])) || !is_invariant(operands[first + 1]))
        continue;
      if (first == 1 && !adds_rows(operands[0])) continue;
      is_given_[g_.results(e)[0]] = true;
      plan_.before.push_back({i});
    }
  }

  /// Whether it is there for all steps: made of slices outside of the loop, or the same in each.
  bool is_stacked(ValueId v) const {
    return slice_index(s_, v) || is_given_[v] || is_invariant(v) ||
           std::ranges::count(plan_.stacks, v) != 0;
  }
  void stack(ValueId v) {
    if (!is_stacked(v)) plan_.stacks.push_back(v);
  }
  /// What keeping it for all steps takes, in elements of one.
  int64_t stacking(ValueId v) const {
    return is_stacked(v) ? 0 : int64_t{ir::numel(g_.type(v).sizes)};
  }

  int64_t most_stacked(ValueId result) const {
    return holds_loop_ ? 0 : kMostStacked * int64_t{ir::numel(g_.type(result).sizes)};
  }

  void find_ys() {
    std::vector<LoopPlan::Product> products;
    for (size_t y = 0; y < s_.ys(); ++y) {
      if (!is_read(s_.carries + y)) continue;
      const EquationId e = product_of(s_.output(s_.carries + y));
      if (e.valid())
        products.push_back({y, e});
      else
        stack(s_.output(s_.carries + y));
    }
    for (const LoopPlan::Product& p : products) add_product(p);
  }

  /// The product x w, w invariant, that only this output is a view of.
  EquationId product_of(ValueId v) const {
    while (uses_[v.index] == 1) {
      const ir::Equation* e = equation(v);
      if (e == nullptr || is_given_[v]) break;
      if (e->op == Op::mm)
        return is_invariant(g_.operands(*e)[1]) && !is_invariant(g_.operands(*e)[0])
                   ? g_.producer(v)
                   : EquationId();
      if (e->op != Op::view) break;
      v = g_.operands(*e)[0];
    }
    return {};
  }

  void add_product(const LoopPlan::Product& p) {
    const ValueId x = viewed(g_, g_.operand(p.root, 0)), y = s_.output(s_.carries + p.y);
    if (stacking(x) > most_stacked(y)) return stack(y);
    stack(x);
    plan_.after.push_back(p);
  }

  /// carry + v, where nothing else reads the carry.
  void find_sums() {
    for (const bool of_products : {true, false})
      for (size_t i = 0; i < s_.carries; ++i) {
        const ValueId carry = s_.input(i), sum = s_.output(i);
        const ir::Equation* e = equation(sum);
        if (e == nullptr || e->op != Op::add || uses_[carry.index] != 1 || uses_[sum.index] != 1)
          continue;
        const auto operands = g_.operands(*e);
        if (operands[0] != carry && operands[1] != carry) continue;
        add_sum(i, operands[operands[0] == carry ? 1 : 0], of_products);
      }
  }

  void add_sum(size_t carry, ValueId v, bool of_products) {
    if (!ir::is_floating(g_.type(v).dtype)) return;
    std::vector<LoopPlan::Term> terms;
    std::vector<ValueId> stacks;
    if (!find_terms(v, terms, stacks)) return;
    const auto is_product = [&](const LoopPlan::Term& t) { return g_.op(t.root) == Op::mm; };
    if (std::ranges::any_of(terms, is_product) != of_products) return;
    int64_t elements = 0;
    for (const ValueId x : stacks) elements += stacking(x);
    if (elements > (of_products ? most_stacked(v) : 0)) return;
    for (const ValueId x : stacks) stack(x);
    plan_.sums.push_back({carry, std::move(terms)});
  }

  /// The products and sums that add up to `v`, and what of each step they are made of.
  bool find_terms(ValueId v, std::vector<LoopPlan::Term>& terms, std::vector<ValueId>& stacks) {
    std::vector<ValueId> open = {v};
    while (!open.empty()) {
      ValueId at = open.back();
      open.pop_back();
      LoopPlan::Term term;
      const ir::Equation* e = equation(at);
      for (; e != nullptr && (e->op == Op::view || e->op == Op::permute); e = equation(at)) {
        if (uses_[at.index] != 1) return false;
        term.chain.insert(term.chain.begin(), g_.producer(at));
        at = g_.operands(*e)[0];
      }
      if (e == nullptr || is_given_[at] || is_invariant(at) || uses_[at.index] != 1) return false;
      const auto operands = g_.operands(*e);
      if (e->op == Op::add && term.chain.empty()) {
        open.insert(open.end(), operands.begin(), operands.end());
        continue;
      }
      if (e->op != Op::mm && e->op != Op::sum) return false;
      if (std::ranges::any_of(operands, [&](ValueId o) { return is_invariant(o); })) return false;
      for (size_t o = 0; o < operands.size(); ++o)
        stacks.push_back(viewed(g_, transposed(g_, operands[o]).value_or(operands[o])));
      term.root = g_.producer(at);
      terms.push_back(std::move(term));
    }
    return true;
  }

  // --- which carries are left

  bool is_sum(size_t carry) const {
    return std::ranges::count(plan_.sums, carry, &LoopPlan::Sum::carry) != 0;
  }

  void keep_carries() {
    std::vector<bool> kept(s_.carries);
    for (const ValueId v : plan_.stacks) plan_.needed[v] = true;
    for (size_t i = 0; i < s_.carries; ++i) kept[i] = is_read(i) && !is_sum(i);
    for (bool grows = true; grows;) {
      for (size_t i = 0; i < s_.carries; ++i)
        if (kept[i]) plan_.needed[s_.output(i)] = true;
      find_needed();
      grows = false;
      for (size_t i = 0; i < s_.carries; ++i)
        if (!kept[i] && plan_.needed[s_.input(i)]) kept[i] = grows = true;
    }
    for (size_t i = 0; i < s_.carries; ++i)
      if (kept[i]) plan_.carries.push_back(i);
  }

  void find_needed() {
    for (uint32_t i = static_cast<uint32_t>(g_.num_equations()); i-- > 0;)
      if (is_step({i}))
        for (const ValueId v : g_.operands(EquationId{i})) plan_.needed[v] = true;
  }

  bool is_step(EquationId e) const {
    return std::ranges::any_of(g_.results(e),
                               [&](ValueId v) { return plan_.needed[v] && !is_given_[v]; });
  }

  void keep_steps() {
    for (uint32_t i = 0; i < g_.num_equations(); ++i)
      if (is_step({i})) plan_.steps.push_back({i});
  }

  bool changes() const {
    const auto is_needed = [&](ValueId v) { return bool{plan_.needed[v]}; };
    return std::ranges::any_of(plan_.before,
                               [&](EquationId e) { return is_needed(g_.result(e)); }) ||
           std::ranges::any_of(plan_.constants, is_needed) || !plan_.after.empty() ||
           plan_.carries.size() < s_.carries || plan_.stacks.size() < s_.ys();
  }

  const Scan& s_;
  const Graph& g_;
  const std::vector<uint32_t>& outer_uses_;
  const std::vector<uint32_t> uses_;
  ir::ValueMap<bool> is_given_;
  const bool holds_loop_;
  LoopPlan plan_;
};

}  // namespace

std::optional<LoopPlan> plan_of(const Scan& scan, const std::vector<uint32_t>& uses) {
  const auto is_ordered = [&](const ir::Equation& e) {
    return ir::must_run(ir::effect_of(scan.body, e));
  };
  if (scan.length < 2 || std::ranges::any_of(scan.body.equations(), is_ordered))
    return std::nullopt;
  return Planner(scan, uses).run();
}

}  // namespace tandem::decomps
