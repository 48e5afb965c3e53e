// Which values of a Traced graph share memory, and what each of them holds at this point of the
// program. A write is kept at the alias it went through until another alias of the same storage is
// read; then it is folded into the storage's base by view inverses, and that alias applies its
// views.
#ifndef TANDEM_FUNCTIONALIZE_ALIASES_H
#define TANDEM_FUNCTIONALIZE_ALIASES_H

#include <deque>
#include <string>
#include <vector>

#include "functionalize/history.h"
#include "functionalize/view_inverse.h"
#include "ir/build/rewrite.h"

namespace tandem::functionalize {

/// " (file:line)" of the user's source, where known.
std::string place(const ir::Graph& graph, ir::EquationId e);

class Aliases {
 public:
  Aliases(ir::Rewriter& rewriter, History& history);

  /// `traced` has memory of its own, which holds `value`.
  void add_base(ir::ValueId traced, ir::ValueId value);
  /// `traced` is the result of the view equation `e`.
  void add_view(ir::ValueId traced, ir::EquationId e);
  /// `traced` is the result of the hook equation `e` (`attrs`: as in the target): the same tensor,
  /// whose gradient is mapped until the next write gives it another history.
  void add_hook(ir::ValueId traced, ir::EquationId e, ir::AttrsRef attrs);
  /// Memory that no traced value shows as a whole, holding `value`. Returns an id for it that
  /// stands beside the traced graph's.
  ir::ValueId add_buffer(ir::ValueId value);
  /// `traced` is an input that is a view of another one or of a buffer. `counts_at_parent`: writes
  /// to it are writes to the parent.
  void add_input_view(ir::ValueId traced, ir::ValueId parent, std::vector<ir::AttrValue> as_strided,
                      bool counts_at_parent);
  /// A view of `parent` by `op` with a history of its own, which starts with `value` (whose data is
  /// what the view shows). Returns an id for it as add_buffer does.
  ir::ValueId add_detached_buffer(ir::ValueId parent, ir::Op op, std::vector<ir::AttrValue> attrs,
                                  ir::ValueId value);

  /// The target's value for what `traced` holds now. May emit equations, and so move
  /// Rewriter::at.
  ir::ValueId read(ir::ValueId traced);
  /// The same if a gradient may flow through it, else invalid.
  ir::ValueId differentiated(ir::ValueId traced);
  /// `traced` is written by `e`, with what it holds anyway.
  void count_write(ir::ValueId traced, ir::EquationId e);
  /// `traced` holds `value` from now on; equation `e` wrote it. `overwritten`: what it held before,
  /// which `value` does not depend on, and which a gradient of zeros is to reach; or invalid.
  void write(ir::ValueId traced, ir::ValueId value, ir::EquationId e, ir::ValueId overwritten = {});

  // --- what the epilogue needs
  struct Writes {
    int count = 0;
    bool hidden = true;  // all were invisible to autograd: under no_grad or through detach
  };
  ir::ValueId base(ir::ValueId traced) const { return storages_[alias(traced).storage].base; }
  /// The writes to input `traced` and to its views.
  const Writes& writes(ir::ValueId traced) const { return alias(traced).writes; }
  /// What `traced` is directly a view of; invalid for a base.
  ir::ValueId parent(ir::ValueId traced) const { return alias(traced).parent; }
  /// How many views lie between `traced` and its base.
  int depth(ir::ValueId traced) const { return alias(traced).depth; }
  /// Whether a view on the way from the base shows an element several times.
  bool repeats(ir::ValueId traced) const { return alias(traced).repeats; }
  /// Whether autograd takes `traced`, a view, for a tensor of its own (detach).
  bool starts_history(ir::ValueId traced) const { return cuts_history(alias(traced).view.op); }
  /// Whether `traced` is a view made under no_grad.
  bool made_without_grad(ir::ValueId traced) const;
  /// The view that leads from parent(traced) to `traced`.
  const ViewOp& view(ir::ValueId traced) const { return alias(traced).view; }

 private:
  static constexpr uint32_t kNoStorage = ~uint32_t{0};

  struct Alias {
    uint32_t storage = kNoStorage;
    uint32_t generation = 0;  // of the storage, when `current` was true
    ir::ValueId current;      // in the target; invalid until first read
    ir::ValueId parent;
    ir::ValueId
        counted_at;  // the value (itself, or one that it is a view of) that has its `writes`
    Writes writes;
    ViewOp view;
    ir::EquationId equation;  // that made the view
    int depth = 0;
    Cut cut = Cut::Nothing;  // else the view has a history of its own, by detach or under no_grad
    bool hidden = false;     // this view or one before it cuts
    bool repeats = false;
  };

  struct Storage {
    ir::ValueId base;
    ir::ValueId newest;         // the alias with a write that base does not have yet
    ir::ValueId overwritten;    // what newest held; valid until its value depends on that
    ir::EquationId last_write;  // by which equation
    uint32_t generation = 0;
  };

  const Alias& alias(ir::ValueId traced) const;
  Alias& alias(ir::ValueId traced);
  void add_view(ir::ValueId traced, ir::ValueId parent, const ViewOp& view, ir::EquationId e,
                Cut cut);
  static bool has_own_history(const Alias& a) { return a.cut != Cut::Nothing; }
  std::vector<ir::ValueId> repeating_views(ir::ValueId traced) const;
  bool is_current(const Alias& a) const;
  void set_current(Alias& a, ir::ValueId value);
  ir::ValueId regenerate(ir::ValueId traced);
  ir::ValueId with_own_history(const Alias& a, ir::ValueId data);
  const ir::Type& type(ir::ValueId traced) const;
  void write_repeated(ir::ValueId traced, ir::ValueId value, ir::EquationId e,
                      ir::ValueId overwritten);
  bool may_carry_gradient(ir::ValueId traced);
  void depend_on_overwritten(Storage& storage);
  bool replaces_all(ir::ValueId traced) const;
  void fold(Storage& storage);
  ir::ValueId folded_into_parent(const Alias& child, ir::ValueId value);
  ir::ValueId new_id(const ir::Type& type);
  void at(ir::EquationId e);

  ir::Rewriter& rewriter_;
  History& history_;
  ir::ValueMap<Alias> aliases_;  // by traced value; then the buffers
  std::vector<ir::Type> buffer_types_;
  std::vector<Storage> storages_;
  std::deque<std::vector<ir::AttrValue>> input_views_;  // deque: views refer to its elements
};

}  // namespace tandem::functionalize

#endif  // TANDEM_FUNCTIONALIZE_ALIASES_H
