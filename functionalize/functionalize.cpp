#include "functionalize/functionalize.h"

#include <fmt/format.h>

#include <algorithm>

#include "functionalize/aliases.h"
#include "functionalize/checks.h"
#include "functionalize/inputs.h"
#include "functionalize/results.h"
#include "ir/base/error.h"
#include "ir/build/effect.h"
#include "ir/build/inline.h"
#include "ir/build/rewrite.h"

namespace tandem::functionalize {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::ValueId;

/// What becomes of outputs: the epilogue's results, or plain values (in the subgraphs of a
/// custom function, where aliasing is not replayed).
enum class Ends : uint8_t { Epilogue, Values };

class Functionalizer {
 public:
  Functionalizer(const Graph& source, Ends ends, Tangents tangents)
      : source_(source),
        ends_(ends),
        tangents_(tangents),
        rewriter_(source),
        history_(rewriter_.target(), rewriter_.builder(), tangents),
        aliases_(rewriter_, history_),
        subgraph_done_(source.subgraphs().size()) {}

  Graph run() {
    rewriter_.target().level = ir::Level::Functional;
    rewriter_.copy_inputs();
    declare_inputs(rewriter_, aliases_, history_);
    for (size_t i = 0; i < source_.num_equations(); ++i) equation(source_.equation_id(i));
    if (ends_ == Ends::Values) {
      add_values();
      return rewriter_.take();
    }
    add_results(rewriter_, aliases_, history_);
    Graph graph = rewriter_.take();
    keep_checks(graph);
    return graph;
  }

 private:
  // --- equations
  void equation(EquationId e) {
    const ir::Equation& equation = source_.equation(e);
    if (ir::is_view(equation.op))
      add_view(e);
    else if (equation.op == Op::hook)
      add_hook(e);
    else if (equation.in_place)
      write(e);
    else
      compute(e);
  }

  /// A mark on a view is one on what it shows now.
  void add_view(EquationId e) {
    aliases_.add_view(source_.result(e), e);
    if (source_.equation(e).mark != ir::Mark::Auto)
      carry_mark(e, aliases_.read(source_.operand(e, 0)));
  }

  void carry_mark(EquationId e, ValueId value) {
    const EquationId producer = rewriter_.target().producer(value);
    if (!producer.valid() || ir::must_run(ir::effect_of(rewriter_.target(), producer))) return;
    ir::Mark& mark = rewriter_.target().equation(producer).mark;
    const ir::Mark wanted = source_.equation(e).mark;
    if (mark == ir::Mark::Auto) mark = wanted;
    if (wanted != ir::Mark::Auto && mark != wanted)
      ir::fail(ir::Errc::Argument,
               fmt::format("{}: marked to be saved and to be computed again; expected one of "
                           "save_for_backward (or what a checkpoint policy saves) and "
                           "recompute_in_backward{}",
                           ir::name(rewriter_.target().op(producer)), place(source_, e)));
  }

  void add_hook(EquationId e) {
    functionalize_subgraphs(e);
    aliases_.add_hook(source_.result(e), e, rewriter_.attrs(e));
  }

  void read_operands(EquationId e) {
    for (ValueId v : source_.operands(e)) rewriter_.set(v, aliases_.read(v));
  }

  void compute(EquationId e) {
    read_operands(e);
    functionalize_subgraphs(e);
    rewriter_.at(e);
    rewriter_.copy(e);
    for (ValueId v : source_.results(e)) {
      const bool constant = !source_.equation(e).grad_enabled && !source_.type(v).is_token;
      aliases_.add_base(v,
                        history_.without(constant ? Cut::Gradients : Cut::Nothing, rewriter_[v]));
    }
  }

  void write(EquationId e) {
    const ValueId self = source_.operand(e, 0);
    const bool changes_nothing = source_.op(e) == Op::copy && source_.operand(e, 1) == self;
    if (changes_nothing) return aliases_.count_write(self, e);
    const bool hidden = !source_.equation(e).grad_enabled;
    const bool overwrites = !hidden && ir::info(source_.op(e)).overwrites;
    const ValueId overwritten = overwrites ? aliases_.differentiated(self) : ValueId();
    ValueId value = new_value(e);
    carry_mark(e, value);
    if (hidden) {
      const ValueId old = aliases_.read(self);
      rewriter_.at(e);
      value = history_.hidden_write(Cut::Gradients, old, value);
    }
    aliases_.write(self, value, e, overwritten);
  }

  /// copy_ and fill_ do not read what they overwrite.
  ValueId new_value(EquationId e) {
    const Op op = source_.op(e);
    if (op == Op::copy) return aliases_.read(source_.operand(e, 1));
    if (op == Op::fill) return filled(e);
    read_operands(e);
    rewriter_.at(e);
    return rewriter_.builder().emit(op, rewriter_.operands(e), rewriter_.attrs(e));
  }

  ValueId filled(EquationId e) {
    rewriter_.at(e);
    const ir::Type type = source_.type(source_.operand(e, 0));
    return rewriter_.builder().full(type.sizes, type.dtype,
                                    source_.attr<ir::Number>(e, ir::Attr::value));
  }

  // --- subgraphs
  void functionalize_subgraphs(EquationId e) {
    for (const ir::AttrValue& value : source_.attrs(e)) {
      const auto* id = std::get_if<ir::SubgraphId>(&value);
      if (!id || subgraph_done_[id->index]) continue;
      subgraph_done_[id->index] = true;
      const Graph& subgraph = source_.subgraph(*id);
      if (subgraph.level == ir::Level::Traced)
        rewriter_.set_subgraph(
            *id, Functionalizer(ir::inline_calls(subgraph), Ends::Values, tangents_).run());
    }
  }

  void add_values() {
    if (!source_.epilogue.changes.empty())
      ir::fail(ir::Errc::Mutation,
               "custom function: changes an operand itself (t_, set_, ...); expected a function "
               "without side effects");
    for (const ir::Input& input : source_.inputs())
      if (input.role != ir::Role::Saved && aliases_.writes(input.value).count > 0)
        ir::fail(ir::Errc::Mutation,
                 fmt::format("custom function: writes its operand {}; expected a function without "
                             "side effects",
                             input.name));
    for (ir::Output output : source_.outputs()) {
      output.value = aliases_.read(output.value);
      rewriter_.target().add_output(std::move(output));
    }
  }

  const Graph& source_;
  const Ends ends_;
  const Tangents tangents_;
  ir::Rewriter rewriter_;
  History history_;
  Aliases aliases_;
  std::vector<bool> subgraph_done_;
};

Graph run(const Graph& traced, Tangents tangents) {
  TANDEM_CHECK(traced.level == ir::Level::Traced, "functionalize takes a traced graph");
  if (ir::has_calls(traced)) return run(ir::inline_calls(traced), tangents);
  return Functionalizer(traced, Ends::Epilogue, tangents).run();
}

}  // namespace

Graph functionalize(const Graph& traced) { return run(traced, Tangents::Traced); }

Graph functionalize_body(const Graph& traced) { return run(traced, Tangents::Follow); }

}  // namespace tandem::functionalize
