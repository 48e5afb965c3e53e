// Symbolic zeros through a Backward graph: one pass forward for what is zero, dead code, and the
// inputs that are left.
#include "autodiff/specialise.h"

#include <algorithm>

#include "ir/build/effect.h"
#include "ir/build/rewrite.h"

namespace tandem::autodiff {
namespace {

using ir::EquationId;
using ir::Graph;
using ir::Op;
using ir::ValueId;

class Specialiser {
 public:
  explicit Specialiser(const Graph& source)
      : source_(source), rewriter_(source), state_(source), has_zeros_(source) {}

  Graph run(std::span<const bool> defined, std::span<const bool> wanted) {
    rewriter_.copy_inputs();
    size_t tangent = 0;
    for (const ir::Input& input : source_.inputs())
      if (input.role == ir::Role::Tangent)
        state_[input.value] = defined[tangent++] ? State::Live : State::Zero;
    for (size_t i = 0; i < source_.num_equations(); ++i) rewrite(source_.equation_id(i));
    for (size_t k = 0; k < source_.outputs().size(); ++k)
      if (wanted[k] && !is_zero(source_.outputs()[k].value)) keep(source_.outputs()[k]);
    return ir::remove_unread_inputs(ir::remove_dead_code(rewriter_.take()));
  }

 private:
  enum class State : uint8_t { Constant, Live, Zero };  // depends on: no tangent, a defined one

  bool is_zero(ValueId v) const { return state_[v] == State::Zero; }
  bool is_live(ValueId v) const { return state_[v] == State::Live; }

  void keep(ir::Output output) {
    output.value = rewriter_[output.value];
    rewriter_.target().add_output(std::move(output));
  }

  void rewrite(EquationId e) {
    const auto operands = source_.operands(e);
    const bool zero = std::ranges::any_of(operands, [&](ValueId v) { return is_zero(v); }),
               live = std::ranges::any_of(operands, [&](ValueId v) { return is_live(v); });
    const State state = live ? State::Live : zero ? State::Zero : State::Constant;
    const bool is_ordered = ir::must_run(ir::effect_of(source_, e));
    for (ValueId v : source_.results(e))
      state_[v] = source_.type(v).is_token ? State::Constant : state;
    if (is_ordered && zero && !live) return leave_out(e);
    if (state == State::Zero) return;
    if (!zero) return rewriter_.copy(e);
    rewriter_.at(e);
    if (const ValueId sum = shortened_sum(e); sum.valid()) return rewriter_.replace(e, {&sum, 1});
    for (ValueId v : operands)
      if (is_zero(v)) make_zeros(v);
    rewriter_.copy(e);
  }

  /// The order goes on without `e`. (It begins at once where it was to wait for a zero.)
  void leave_out(EquationId e) {
    rewriter_.at(e);
    const auto is_token = [&](ValueId v) { return source_.type(v).is_token; };
    const auto from = std::ranges::find_if(source_.operands(e), is_token),
               to = std::ranges::find_if(source_.results(e), is_token);
    rewriter_.set(*to, from == source_.operands(e).end()
                           ? rewriter_.builder().emit(Op::first_token, {})
                           : rewriter_[*from]);
  }

  void make_zeros(ValueId v) {
    if (has_zeros_[v]) return;
    has_zeros_[v] = true;
    const ir::Type& type = source_.type(v);
    rewriter_.set(v, rewriter_.builder().full(type.sizes, type.dtype, 0));
  }

  /// A sum with a zero summand, as what is left of it; invalid for any other equation.
  ValueId shortened_sum(EquationId e) {
    const auto v = source_.operands(e);
    const auto value = [&](int i) { return rewriter_[v[static_cast<size_t>(i)]]; };
    ir::Builder& b = rewriter_.builder();
    switch (source_.op(e)) {
      case Op::add:
        return value(is_zero(v[0]) ? 1 : 0);
      case Op::sub:
        return is_zero(v[0]) ? b.neg(value(1)) : value(0);
      case Op::fma:
        if (is_zero(v[0]) || is_zero(v[1])) return is_zero(v[2]) ? ValueId() : value(2);
        return b.mul(value(0), value(1));
      case Op::addmm:
        if (is_zero(v[1]) || is_zero(v[2])) return is_zero(v[0]) ? ValueId() : value(0);
        return b.emit(Op::mm, {value(1), value(2)}, rewriter_.attrs(e));
      case Op::index_add:
      case Op::scatter_add:
        return is_zero(v[0]) ? ValueId() : value(0);
      default:
        return {};
    }
  }

  const Graph& source_;
  ir::Rewriter rewriter_;
  ir::ValueMap<State> state_;
  ir::ValueMap<bool> has_zeros_;  // of a zero: the target's value is zeros
};

}  // namespace

Graph specialise_backward(const Graph& backward, std::span<const bool> defined_tangents,
                          std::span<const bool> wanted_gradients) {
  return Specialiser(backward).run(defined_tangents, wanted_gradients);
}

}  // namespace tandem::autodiff
