#include "functionalize/functionalize.h"

#include <fmt/format.h>

#include <algorithm>

#include "functionalize/aliases.h"
#include "functionalize/results.h"
#include "ir/error.h"
#include "ir/inline.h"
#include "ir/rewrite.h"

namespace tandem::functionalize {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::ValueId;

/// What becomes of outputs: the epilogue's results, or plain values (in the subgraphs of a
/// custom function, where aliasing is not replayed).
enum class Ends : uint8_t { Epilogue, Values };

/// The input without alias_of whose memory input `i` lies in.
int alias_root(const Graph& graph, int i) {
  while (graph.inputs()[i].alias_of) i = graph.inputs()[i].alias_of->input;
  return i;
}

ir::Dim offset_in_root(const Graph& graph, int i) {
  ir::Dim offset = 0;
  for (; graph.inputs()[i].alias_of; i = graph.inputs()[i].alias_of->input)
    offset += graph.inputs()[i].alias_of->offset;
  return offset;
}

/// Which inputs' memory is written, by alias root.
std::vector<bool> written_roots(const Graph& graph) {
  ir::ValueMap<int> root(graph, -1);
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    root[graph.inputs()[i].value] = alias_root(graph, static_cast<int>(i));
  std::vector<bool> written(graph.inputs().size());
  for (const ir::Equation& e : graph.equations()) {
    if (!e.operand_count) continue;
    const int memory = root[graph.operands(e)[0]];
    if (ir::is_view(e.op)) root[graph.results(e)[0]] = memory;
    if (e.op == Op::hook) root[graph.results(e)[0]] = memory;
    if (e.in_place && memory >= 0) written[memory] = true;
  }
  return written;
}

class Functionalizer {
 public:
  Functionalizer(const Graph& source, Ends ends)
      : source_(source),
        ends_(ends),
        rewriter_(source),
        history_(rewriter_.target(), rewriter_.builder()),
        aliases_(rewriter_, history_),
        subgraph_done_(source.subgraphs().size()) {}

  Graph run() {
    rewriter_.target().level = ir::Level::Functional;
    rewriter_.copy_inputs();
    declare_inputs();
    for (size_t i = 0; i < source_.num_equations(); ++i) equation(source_.equation_id(i));
    ends_ == Ends::Epilogue ? add_results(rewriter_, aliases_, history_) : add_values();
    return rewriter_.take();
  }

 private:
  // --- inputs
  void declare_inputs() {
    const std::vector<bool> written = written_roots(source_);
    std::vector<int> members;
    for (size_t i = 0; i < source_.inputs().size(); ++i) {
      const ValueId v = source_.inputs()[i].value;
      const int root = alias_root(source_, static_cast<int>(i));
      const bool is_view = root != static_cast<int>(i) && written[root];
      is_view ? members.push_back(static_cast<int>(i)) : aliases_.add_base(v, rewriter_[v]);
    }
    for (int i : members) declare_overlapping(i, alias_root(source_, i));
  }

  void declare_overlapping(int i, int root) {
    const ir::Input &input = source_.inputs()[i], &base = source_.inputs()[root];
    const ir::Type &type = source_.type(input.value), &base_type = source_.type(base.value);
    if (base.strides != ir::contiguous_strides(base_type.sizes) || base_type.dtype != type.dtype)
      ir::fail(ir::Errc::Unsupported,
               fmt::format("a write to inputs that share memory: {} cannot be made a view of {}; "
                           "expected equal dtypes and a contiguous {}",
                           input.name, base.name, base.name));
    const auto list = [](const ir::Shape& s) { return std::vector<ir::Dim>(s.begin(), s.end()); };
    aliases_.add_input_view(input.value, base.value,
                            {list(type.sizes), list(input.strides), offset_in_root(source_, i)});
  }

  // --- equations
  void equation(EquationId e) {
    const ir::Equation& equation = source_.equation(e);
    if (ir::is_view(equation.op))
      aliases_.add_view(source_.result(e), e);
    else if (equation.op == Op::hook)
      add_hook(e);
    else if (equation.in_place)
      write(e);
    else
      compute(e);
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
      const bool constant = !source_.equation(e).grad_enabled;
      aliases_.add_base(v, constant ? history_.detached(rewriter_[v]) : rewriter_[v]);
    }
  }

  void write(EquationId e) {
    const ValueId self = source_.operand(e, 0);
    const bool hidden = !source_.equation(e).grad_enabled;
    ValueId value = new_value(e);
    if (hidden) {
      const ValueId old = aliases_.read(self);
      rewriter_.at(e);
      value = history_.hidden_write(old, value);
    }
    aliases_.write(self, value, e);
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
        rewriter_.set_subgraph(*id, Functionalizer(ir::inline_calls(subgraph), Ends::Values).run());
    }
  }

  void add_values() {
    for (const ir::Input& input : source_.inputs())
      if (aliases_.writes(input.value).count > 0)
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
  ir::Rewriter rewriter_;
  History history_;
  Aliases aliases_;
  std::vector<bool> subgraph_done_;
};

}  // namespace

Graph functionalize(const Graph& traced) {
  TANDEM_CHECK(traced.level == ir::Level::Traced, "functionalize takes a traced graph");
  return Functionalizer(ir::inline_calls(traced), Ends::Epilogue).run();
}

}  // namespace tandem::functionalize
