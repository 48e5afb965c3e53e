// One sweep over a graph from first to last: each equation, and behind it what its rule makes of
// the tangents of its operands.
#include "autodiff/forward/forward_graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "autodiff/forward/control.h"
#include "autodiff/forward/jvp.h"
#include "ir/base/error.h"
#include "ir/build/inline.h"
#include "ir/build/rewrite.h"

namespace tandem::autodiff {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::Role;
using ir::ValueId;

class Mover {
 public:
  explicit Mover(const Graph& source) : source_(source), rewriter_(source), tangents_(source) {}

  Graph run() {
    rewriter_.copy_inputs();
    add_tangents();
    for (size_t i = 0; i < source_.num_equations(); ++i) {
      const EquationId e = source_.equation_id(i);
      rewriter_.copy(e);
      const auto moves = [&](ValueId v) { return tangents_[v].valid(); };
      if (std::ranges::any_of(source_.operands(e), moves)) move(e);
    }
    rewriter_.copy_outputs();
    add_output_tangents();
    return ir::remove_dead_code(rewriter_.take());
  }

 private:
  void add_tangents() {
    for (const ir::Input& input : source_.inputs()) {
      if (!input.requires_grad || !ir::is_differentiable(source_.type(input.value))) continue;
      ir::Input tangent;
      tangent.name = unused_name("d_" + input.name);
      tangent.requires_grad = true;
      tangent.strides = ir::contiguous_strides(source_.type(input.value).sizes);
      tangents_[input.value] =
          rewriter_.target().add_input(std::move(tangent), source_.type(input.value));
    }
  }

  std::string unused_name(std::string name) {
    const auto taken = [&](const ir::Input& i) { return i.name == name; };
    while (std::ranges::any_of(rewriter_.target().inputs(), taken)) name += "_";
    return name;
  }

  void move(EquationId e) {
    rewriter_.at(e);
    const ir::Op op = source_.op(e);
    if (op == ir::Op::hook) {
      tangents_[source_.result(e)] = tangents_[source_.operand(e, 0)];
      return;
    }
    if (has_bodies(op)) return move_control(e);
    refuse_unknown(e);
    const ir::ValueList operands = rewriter_.operands(e);
    const std::vector<ir::AttrValue> attrs = rewriter_.attrs(e);
    ir::ValueList results, arrived;
    for (ValueId v : source_.results(e)) results.push_back(rewriter_[v]);
    for (ValueId v : source_.operands(e)) arrived.push_back(tangents_[v]);
    const Tangents made = apply_jvp({rewriter_.builder(), op, operands, results, attrs, arrived});
    for (size_t i = 0; i < made.size(); ++i) tangents_[source_.results(e)[i]] = made[i];
  }

  void move_control(EquationId e) {
    ir::ValueList arrived;
    for (ValueId v : source_.operands(e)) arrived.push_back(tangents_[v]);
    const MovedEquation moved = move_bodies(rewriter_, e, arrived);
    rewriter_.replace(e, moved.results);
    for (size_t i = 0; i < moved.tangents.size(); ++i)
      tangents_[source_.results(e)[i]] = moved.tangents[i];
  }

  /// Error for what users gave no rule for.
  void refuse_unknown(EquationId e) const {
    const ir::Op op = source_.op(e);
    if (ir::has_attr(op, ir::Attr::operator_name))
      ir::fail(ir::Errc::Autograd,
               no_forward_rule(source_.attr<std::string>(e, ir::Attr::operator_name)));
    if (op == ir::Op::custom_function) {
      const auto forward = source_.attr<ir::SubgraphId>(e, ir::Attr::forward);
      ir::fail(ir::Errc::Autograd, no_forward_rule(source_.subgraph(forward).name));
    }
  }

  void add_output_tangents() {
    for (const ir::Output& output : source_.outputs()) {
      const bool is_callers = output.role == Role::Result || output.role == Role::MutatedInput;
      if (!is_callers || !ir::is_differentiable(source_.type(output.value))) continue;
      Graph& target = rewriter_.target();
      const ValueId tangent = tangents_[output.value];
      ir::Output moved;
      moved.value =
          tangent.valid() ? tangent : rewriter_.builder().zeros_like(rewriter_[output.value]);
      moved.name = "d_" + output.name;
      moved.requires_grad = tangent.valid();
      moved.strides = ir::contiguous_strides(source_.type(output.value).sizes);
      target.epilogue.results.push_back({.index = static_cast<int>(target.outputs().size()),
                                         .requires_grad = moved.requires_grad});
      target.add_output(std::move(moved));
    }
  }

  const Graph& source_;
  ir::Rewriter rewriter_;
  ir::ValueMap<ValueId> tangents_;  // the target's value; invalid: zero
};

}  // namespace

Graph jvp(const Graph& functional) {
  TANDEM_CHECK(functional.level == ir::Level::Functional, "jvp takes a functional graph");
  if (ir::has_calls(functional)) return jvp(ir::inline_calls(functional));
  return Mover(functional).run();
}

}  // namespace tandem::autodiff
