// What the partitioners know of a Core joint graph: which values the forward half needs, which
// depend on a tangent, which backward needs, and who uses what.
#ifndef TANDEM_PARTITION_ANALYSIS_H
#define TANDEM_PARTITION_ANALYSIS_H

#include <span>
#include <vector>

#include "ir/build/effect.h"

namespace tandem::partition {

/// The equations that use each value, in order, each once.
class Users {
 public:
  explicit Users(const ir::Graph& graph);
  std::span<const ir::EquationId> operator[](ir::ValueId v) const {
    return {users_.data() + first_[v.index], users_.data() + first_[v.index + 1]};
  }

 private:
  std::vector<uint32_t> first_;
  std::vector<ir::EquationId> users_;
};

/// What each half needs.
struct Needs {
  explicit Needs(const ir::Graph& joint);

  const ir::Graph& graph;
  ir::ValueMap<int> input;         // the index of a graph input, or -1
  std::vector<bool> of_backward;   // by output: a gradient that backward returns
  ir::ValueMap<bool> overwritten;  // an input that forward's epilogue writes, or an alias of one
  // Depends on a tangent, or stands in the backward half of a whole step: can only be computed in
  // backward.
  ir::ValueMap<bool> needs_tangent;
  std::vector<ir::ValueId> tokens;  // that equations give which must run, in order
  ir::ValueMap<bool> forward;       // some other output, or a token of forward needs it
  ir::ValueMap<bool> backward;      // some gradient, or a token of backward needs it
  ir::ValueMap<bool> gradient;      // is an output of backward

  ir::EquationId producer(ir::ValueId v) const { return graph.producer(v); }
  /// A graph input that is no tangent.
  bool is_primal(ir::ValueId v) const { return input[v] >= 0 && !needs_tangent[v]; }
  ir::OpClass cls(ir::EquationId e) const { return ir::info(graph.op(e)).cls; }
  /// Defined by an op of class `cls`.
  bool is(ir::ValueId v, ir::OpClass cls) const {
    return producer(v).valid() && this->cls(producer(v)) == cls;
  }
  /// What `v` shows all or a part of, behind all views.
  ir::ValueId shown_by(ir::ValueId v) const {
    while (is(v, ir::OpClass::View)) v = graph.operand(producer(v), 0);
    return v;
  }
  /// May not be computed again.
  bool runs_once(ir::EquationId e) const { return ir::runs_once(ir::effect_of(graph, e)); }
  /// A primal that keeps its contents: it lives anyway, so saving it costs no memory.
  bool is_free_to_save(ir::ValueId v) const { return is_primal(v) && !overwritten[v]; }
  /// Computed by an equation that the forward half wrote.
  bool is_written_in_forward(ir::ValueId v) const {
    return is_primal(v) || (!needs_tangent[v] && !graph.equation(producer(v)).is_backward);
  }
};

/// The values that the backward half reads of the forward half.
std::vector<ir::ValueId> read_by_backward(const Needs& needs);

/// And who uses what, and what saving it takes.
struct Analysis : Needs {
  /// `held_outputs`: ir::PartitionContext's.
  explicit Analysis(const ir::Graph& core, const std::vector<bool>& held_outputs = {});

  Users users;
  ir::ValueMap<int> held_result;  // the result that may serve as what is saved of it, or -1

  /// Of a contiguous tensor of its type.
  int64_t bytes(ir::ValueId v) const { return bytes_[v]; }
  /// Bytes that are saved with `v`; results that serve as what is saved of them count too.
  int64_t saved_bytes(ir::ValueId v) const { return is_free_to_save(v) ? 0 : bytes_[v]; }
  int64_t saved_bytes(std::span<const ir::ValueId> values) const;
  /// The layout in which `v` is saved: an input that is saved as itself keeps its own.
  ir::Strides saved_strides(ir::ValueId v) const;
  /// The value whose storage a chain of views of at least its own size shows: saving `v` is saving
  /// that.
  ir::ValueId base(ir::ValueId v) const { return base_[v]; }
  /// A view that is no smaller than what it shows: saved only as its base.
  bool is_free_view(ir::ValueId v) const { return base_[v] != v; }
  std::span<const ir::ValueId> all_values() const { return all_values_; }

 private:
  void find_held_results(const std::vector<bool>& held_outputs);

  std::vector<ir::ValueId> all_values_;
  ir::ValueMap<int64_t> bytes_;
  ir::ValueMap<ir::ValueId> base_;
};

inline bool is_tangent(const ir::Input& input) { return input.role == ir::Role::Tangent; }

/// A graph of a whole step: no tangent arrives, and its backward half is what is marked so.
bool is_step(const ir::Graph& core);

}  // namespace tandem::partition

#endif  // TANDEM_PARTITION_ANALYSIS_H
