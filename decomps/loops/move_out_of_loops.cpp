// Scans do in each step what only a step can do. Before the loop, once for all steps: products of
// slices with what no step changes, and what is computed from that alone. After it: products that
// only a y is, and sums of products over the steps, which are one product of the stacked operands
// (the gradient of a weight is one). What nobody reads is left out.
#include <algorithm>

#include "decomps/fold.h"
#include "decomps/loops/loop_plan.h"
#include "decomps/simplify.h"
#include "ir/build/rewrite.h"

namespace tandem::decomps {
namespace {

using ir::Attr;
using ir::Builder;
using ir::Dim;
using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::Shape;
using ir::ValueId;
using Values = std::vector<ValueId>;

Shape with_steps(Dim length, const Shape& sizes) {
  Shape all = {length};
  for (const Dim size : sizes) all.push_back(size);
  return all;
}

/// Writes in the place of a scan what its plan says.
class Mover {
 public:
  Mover(ir::Splicer& splicer, const Scan& scan, const LoopPlan& plan)
      : splicer_(splicer),
        b_(splicer.builder()),
        s_(scan),
        g_(scan.body),
        plan_(plan),
        outside_(scan.body),
        stacked_(scan.body) {}

  /// What stands for the results of the scan.
  Values run() {
    for (size_t i = s_.carries; i < s_.whole; ++i) outside_[s_.input(i)] = s_.operands[i];
    for (size_t i = s_.whole; i < s_.operands.size(); ++i) stacked_[s_.input(i)] = s_.operands[i];
    emit_invariant();
    for (const EquationId e : plan_.before) emit_before(e);
    emit_loop();
    return results();
  }

 private:
  Shape sizes(ValueId body_value) const { return g_.type(body_value).sizes; }

  void emit_invariant() {
    for (uint32_t i = 0; i < g_.num_equations(); ++i) {
      const auto results = g_.results(EquationId{i});
      if (results.empty() || !plan_.invariant[results[0]]) continue;
      Values operands, values(results.size());
      std::vector<ir::Type> types;
      for (const ValueId v : g_.operands(EquationId{i})) operands.push_back(outside_[v]);
      for (const ValueId v : results) types.push_back(g_.type(v));
      splicer_.sink().emit(g_.op({i}), operands, g_.attrs(EquationId{i}), false, types, values);
      for (size_t r = 0; r < results.size(); ++r) outside_[results[r]] = values[r];
    }
  }

  void emit_before(EquationId e) {
    const auto operands = g_.operands(e);
    const bool adds = g_.op(e) == Op::addmm;
    const ValueId x = rows(operands[adds ? 1 : 0]), w = outside_[operands[adds ? 2 : 1]];
    const ValueId product =
        adds ? b_.addmm(outside_[g_.operand(g_.producer(operands[0]), 0)], x, w) : b_.mm(x, w);
    stacked_[g_.result(e)] = b_.view(product, with_steps(s_.length, sizes(g_.result(e))));
  }

  // --- the loop that is left

  /// The body in the making, and the operands of what it takes.
  struct Loop {
    explicit Loop(const Graph& body) : body(body) {}
    void take(ValueId value, ValueId operand, ir::Input input) {
      const ir::Type type = body.source().type(value);
      input.strides = ir::contiguous_strides(type.sizes);
      body.set(value, body.target().add_input(std::move(input), type));
      operands.push_back(operand);
    }
    ir::Rewriter body;
    Values operands;
  };

  void emit_loop() {
    if (plan_.carries.empty() && plan_.stacks.empty()) return;
    Loop loop(g_);
    for (const size_t c : plan_.carries) loop.take(s_.input(c), s_.operands[c], g_.inputs()[c]);
    const size_t constants = take_constants(loop);
    take_slices(loop);
    for (const EquationId e : plan_.steps) loop.body.copy(e);

    std::vector<ir::Type> types;
    for (const size_t c : plan_.carries) {
      give(loop, s_.output(c), "carry");
      types.push_back(g_.type(s_.output(c)));
    }
    for (const ValueId v : plan_.stacks) {
      give(loop, v, "y");
      types.push_back({g_.type(v).dtype, with_steps(s_.length, sizes(v))});
    }
    const ir::SubgraphId body = splicer_.graph().add_subgraph(loop.body.take());
    const Values results = b_.emit_call(Op::scan, loop.operands,
                                        {body, static_cast<int64_t>(plan_.carries.size()),
                                         static_cast<int64_t>(constants), s_.length, s_.reverse},
                                        types);
    const auto middle = results.begin() + static_cast<ptrdiff_t>(plan_.carries.size());
    last_.assign(results.begin(), middle);
    for (size_t i = 0; i < plan_.stacks.size(); ++i)
      stacked_[plan_.stacks[i]] = middle[static_cast<ptrdiff_t>(i)];
  }

  size_t take_constants(Loop& loop) {
    const size_t before = loop.operands.size();
    for (size_t i = s_.carries; i < s_.whole; ++i)
      if (plan_.needed[s_.input(i)]) loop.take(s_.input(i), s_.operands[i], g_.inputs()[i]);
    for (const ValueId v : plan_.constants)
      if (plan_.needed[v]) loop.take(v, outside_[v], named(loop, "constant"));
    return loop.operands.size() - before;
  }

  void take_slices(Loop& loop) {
    for (size_t i = s_.whole; i < s_.operands.size(); ++i)
      if (plan_.needed[s_.input(i)]) loop.take(s_.input(i), s_.operands[i], g_.inputs()[i]);
    for (const EquationId e : plan_.before)
      if (const ValueId v = g_.result(e); plan_.needed[v])
        loop.take(v, stacked_[v], named(loop, "slice"));
  }

  static ir::Input named(const Loop& loop, const char* what) {
    ir::Input input;
    input.name = std::string("moved_") + what + std::to_string(loop.operands.size());
    return input;
  }

  void give(Loop& loop, ValueId v, const char* what) const {
    ir::Output output;
    output.value = loop.body[v];
    output.name = what + std::to_string(loop.body.target().outputs().size());
    output.strides = ir::contiguous_strides(sizes(v));
    loop.body.target().add_output(std::move(output));
  }

  // --- after it

  /// [k, n] of each step as [steps k, n].
  ValueId rows(ValueId v) {
    const Shape of_step = sizes(v);
    return b_.view(stacked_[viewed(g_, v)], {s_.length * of_step[0], of_step[1]});
  }

  /// [m, k] of each step as [m, steps k].
  ValueId columns(ValueId v) {
    if (const auto of = transposed(g_, v)) return b_.permute(rows(*of), {1, 0});
    const Shape of_step = sizes(v);
    const ValueId all = b_.view(stacked_[viewed(g_, v)], with_steps(s_.length, of_step));
    return b_.view(b_.permute(all, {1, 0, 2}), {of_step[0], s_.length * of_step[1]});
  }

  /// [k, n] of each step as [steps k, n], where that may be a transpose.
  ValueId rows_of_any(ValueId v) {
    const auto of = transposed(g_, v);
    if (!of) return rows(v);
    const Shape of_step = sizes(v);
    const ValueId all = b_.view(stacked_[viewed(g_, *of)], with_steps(s_.length, sizes(*of)));
    return b_.view(b_.permute(all, {0, 2, 1}), {s_.length * of_step[0], of_step[1]});
  }

  ValueId total(const LoopPlan::Term& term) {
    ValueId v = sum_of(term.root);
    for (const EquationId e : term.chain)
      v = g_.op(e) == Op::view ? b_.view(v, sizes(g_.result(e)))
                               : b_.permute(v, g_.attr<ir::Axes>(e, Attr::dims));
    return v;
  }

  ValueId sum_of(EquationId root) {
    const ValueId x = g_.operand(root, 0);
    if (g_.op(root) == Op::mm) return b_.mm(columns(x), rows_of_any(g_.operand(root, 1)));
    const auto of = transposed(g_, x);
    const ValueId base = of.value_or(x);
    ValueId all = b_.view(stacked_[viewed(g_, base)], with_steps(s_.length, sizes(base)));
    if (of) all = b_.permute(all, {0, 2, 1});
    const auto& of_step = g_.attr<ir::Axes>(root, Attr::dims);
    const bool neighbours = of_step[0] == 0;
    ir::Axes dims;
    if (neighbours) dims.push_back(0);
    for (const ir::Axis d : of_step) dims.push_back(d + 1);
    const ValueId sums = b_.sum(all, dims), v = neighbours ? sums : b_.sum(sums, {0});
    return b_.view(v, sizes(g_.result(root)));
  }

  ValueId sum(const LoopPlan::Sum& sum) {
    ValueId all;
    for (const LoopPlan::Term& term : sum.terms) {
      const ValueId v = total(term);
      all = all.valid() ? b_.add(all, v) : v;
    }
    const ValueId first = s_.operands[sum.carry];
    return is_constant(splicer_.graph(), first, 0.0) ? all : b_.add(first, all);
  }

  ValueId product(const LoopPlan::Product& p) {
    const ValueId v = b_.mm(rows(g_.operand(p.root, 0)), outside_[g_.operand(p.root, 1)]);
    return b_.view(v, with_steps(s_.length, sizes(s_.output(s_.carries + p.y))));
  }

  /// (Something of the type, of results that nobody reads.)
  Values results() {
    Values values(s_.results.size());
    for (size_t i = 0; i < plan_.carries.size(); ++i) values[plan_.carries[i]] = last_[i];
    for (const LoopPlan::Sum& sum : plan_.sums) values[sum.carry] = this->sum(sum);
    for (const LoopPlan::Product& p : plan_.after) values[s_.carries + p.y] = product(p);
    for (size_t i = 0; i < values.size(); ++i) {
      const ValueId out = s_.output(i);
      const ir::Type type = splicer_.graph().type(s_.results[i]);
      if (!values[i].valid() && i >= s_.carries) values[i] = stacked_[out];
      if (!values[i].valid() && i >= s_.carries && plan_.invariant[out])
        values[i] = b_.expand(outside_[out], type.sizes);
      if (!values[i].valid()) values[i] = b_.full(type.sizes, type.dtype, 0);
    }
    return values;
  }

  ir::Splicer& splicer_;
  Builder& b_;
  const Scan& s_;
  const Graph& g_;
  const LoopPlan& plan_;
  ir::ValueMap<ValueId> outside_;  // of invariant values: outside of the loop
  ir::ValueMap<ValueId> stacked_;  // of those that are there for all steps: [steps, sizes]
  Values last_;                    // the carries that are left
};

}  // namespace

Graph move_out_of_loops(Graph graph) {
  for (uint32_t i = 0; i < graph.subgraphs().size(); ++i)
    graph.subgraph({i}) = move_out_of_loops(std::move(graph.subgraph({i})));
  const auto is_scan = [](const ir::Equation& e) { return e.op == Op::scan; };
  if (std::ranges::none_of(graph.equations(), is_scan)) return graph;
  const std::vector<uint32_t> uses = use_counts(graph);
  ir::Splicer splicer(std::move(graph));
  for (uint32_t i = 0; i < splicer.num_equations(); ++i) {
    splicer.at({i});
    if (splicer.graph().op({i}) != Op::scan) continue;
    const Scan scan(splicer.graph(), {i});
    const std::optional<LoopPlan> plan = plan_of(scan, uses);
    if (plan) splicer.replace({i}, Mover(splicer, scan, *plan).run());
  }
  return splicer.take();
}

}  // namespace tandem::decomps
