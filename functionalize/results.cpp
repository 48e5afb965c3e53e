#include "functionalize/results.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "functionalize/layouts.h"
#include "ir/strides.h"

namespace tandem::functionalize {
namespace {

using ir::Graph;
using ir::Output;
using ir::ResultSource;
using ir::Role;
using ir::ValueId;
using ir::ViewStep;

class Results {
 public:
  Results(ir::Rewriter& rewriter, Aliases& aliases, History& history)
      : source_(rewriter.source()),
        target_(rewriter.target()),
        aliases_(aliases),
        history_(history),
        input_of_(rewriter.source(), -1) {
    for (size_t i = 0; i < source_.inputs().size(); ++i)
      input_of_[source_.inputs()[i].value] = static_cast<int>(i);
  }

  void add() {
    group_by_storage();
    for (const Output& o : source_.outputs())
      if (o.role == Role::Result) add_result(o);
    add_others();
    for (size_t i = 0; i < source_.inputs().size(); ++i) add_written(static_cast<int>(i));
    target_.epilogue.changes = source_.epilogue.changes;
    target_.epilogue.rng_draws = source_.epilogue.rng_draws;
  }

 private:
  /// Results that share one storage.
  struct Group {
    ValueId root;     // the traced value that all are views of
    int output = -1;  // the target's output that holds it, once added
    int result = -1;  // which result it is, once that came
    bool requires_grad = false;
    std::vector<const Output*> members;
  };

  // --- the tree of views
  ValueId common_ancestor(ValueId a, ValueId b) const {
    while (aliases_.depth(a) > aliases_.depth(b)) a = aliases_.parent(a);
    while (aliases_.depth(b) > aliases_.depth(a)) b = aliases_.parent(b);
    for (; a != b; b = aliases_.parent(b)) a = aliases_.parent(a);
    return a;
  }

  std::vector<ViewStep> chain(ValueId from, ValueId to) const {
    std::vector<ViewStep> steps;
    for (ValueId v = to; v != from; v = aliases_.parent(v)) {
      const ViewOp& view = aliases_.view(v);
      steps.push_back(
          {view.op, {view.attrs.begin(), view.attrs.end()}, aliases_.made_without_grad(v)});
    }
    std::ranges::reverse(steps);
    return steps;
  }

  /// The input that `v` is, or is a view of; invalid if its memory is the graph's own.
  ValueId input_above(ValueId v) const {
    while (v.valid() && input_of_[v] < 0) v = aliases_.parent(v);
    return v;
  }

  // --- results
  void group_by_storage() {
    for (const Output& o : source_.outputs())
      if (o.role == Role::Result && !input_above(o.value).valid())
        groups_[aliases_.base(o.value).index].members.push_back(&o);
    for (auto& [base, group] : groups_) choose_root(group);
  }

  // A result that the others are views of, else the storage's base: that one is dense, as every
  // fresh value is.
  void choose_root(Group& group) {
    group.root = group.members[0]->value;
    for (const Output* o : group.members) group.root = common_ancestor(group.root, o->value);
    const auto is_root = [&](const Output* o) {
      return o->value == group.root && ir::is_dense(source_.type(o->value).sizes, o->strides);
    };
    if (aliases_.repeats(group.root) || std::ranges::none_of(group.members, is_root))
      group.root = aliases_.base(group.root);
    for (const Output* o : group.members)
      group.requires_grad |= o->requires_grad && !detached_above(group.root, o->value).valid();
  }

  void add_result(const Output& o) {
    const auto number = static_cast<int>(target_.epilogue.results.size());
    const auto [first, is_new] = result_of_.try_emplace(o.value.index, number);
    ResultSource source = is_new ? source_of(o) : same_as(first->second);
    source.requires_grad = o.requires_grad;
    target_.epilogue.results.push_back(std::move(source));
  }

  /// The same tensor as an earlier result.
  ResultSource same_as(int result) const {
    const ResultSource& earlier = target_.epilogue.results[result];
    return earlier.chain.empty() ? earlier
                                 : ResultSource{ResultSource::Kind::ViewOfResult, result, {}};
  }

  ResultSource source_of(const Output& o) {
    const ValueId input = input_above(o.value);
    ResultSource source = input.valid() ? from_input(input, o.value) : from_group(o);
    const ValueId root = input.valid() ? input : groups_.at(aliases_.base(o.value).index).root;
    const ValueId own = detached_above(root, o.value);
    if (!own.valid()) return source;
    const auto known = result_of_.find(own.index);
    if (known != result_of_.end() && own != o.value)
      return {ResultSource::Kind::ViewOfResult, known->second, chain(own, o.value)};
    if (o.requires_grad) source.history = history_of(o);
    return source;
  }

  /// The last tensor on the way from `root` to its view `v`, `root` excluded, that autograd takes
  /// for one of its own; invalid if there is none.
  ValueId detached_above(ValueId root, ValueId v) const {
    while (v != root && !aliases_.starts_history(v)) v = aliases_.parent(v);
    return v == root ? ValueId() : v;
  }

  /// An output for what a detached view has of history since it was written; -1 if that is none.
  int history_of(const Output& o) {
    if (!history_.carries_gradient(aliases_.read(o.value))) return -1;
    Output output;
    output.name = o.name + "_history";
    output.strides = ir::contiguous_strides(source_.type(o.value).sizes);
    output.requires_grad = true;
    return add_output(std::move(output), o.value);
  }

  ResultSource from_input(ValueId input, ValueId v) const {
    const auto kind = input == v ? ResultSource::Kind::Input : ResultSource::Kind::ViewOfInput;
    return {kind, input_of_[input], chain(input, v)};
  }

  ResultSource from_group(const Output& o) {
    Group& group = groups_.at(aliases_.base(o.value).index);
    if (group.output < 0) group.output = add_root(group, o);
    const bool is_root = o.value == group.root;
    if (group.result >= 0 && !is_root)
      return {ResultSource::Kind::ViewOfResult, group.result, chain(group.root, o.value)};
    if (is_root) group.result = static_cast<int>(target_.epilogue.results.size());
    return {ResultSource::Kind::Output, group.output, chain(group.root, o.value)};
  }

  int add_root(const Group& group, const Output& first) {
    const auto named = std::ranges::find(group.members, group.root, &Output::value);
    Output output = named != group.members.end() ? **named : hidden_output(group.root, first.name);
    output.requires_grad = group.requires_grad;
    return add_output(std::move(output), group.root);
  }

  Output hidden_output(ValueId v, const std::string& name) {
    if (!strides_) strides_ = traced_strides(source_);
    Output output;
    output.name = name + "_base";
    output.strides = (*strides_)[v];
    return output;
  }

  /// Appends `output` with what `traced` holds at the end.
  int add_output(Output output, ValueId traced) {
    output.value = aliases_.read(traced);
    output.requires_grad = output.requires_grad && history_.carries_gradient(output.value);
    target_.add_output(std::move(output));
    return static_cast<int>(target_.outputs().size()) - 1;
  }

  // --- outputs that are no results (gradients for .grad slots), written inputs
  void add_others() {
    std::vector<int> moved(source_.outputs().size(), -1);
    for (size_t i = 0; i < moved.size(); ++i)
      if (source_.outputs()[i].role != Role::Result)
        moved[i] = add_output(source_.outputs()[i], source_.outputs()[i].value);
    for (ir::GradWrite write : source_.epilogue.grads) {
      if (write.output >= 0) write.output = moved[write.output];
      target_.epilogue.grads.push_back(write);
    }
  }

  void add_written(int i) {
    const ir::Input& input = source_.inputs()[i];
    const Aliases::Writes& writes = aliases_.writes(input.value);
    if (writes.count == 0) return;
    Output output;
    output.role = Role::MutatedInput;
    output.name = "new_" + input.name;
    const ir::Shape& sizes = source_.type(input.value).sizes;
    const bool repeats = ir::self_overlaps(sizes, input.strides);
    output.strides = repeats ? ir::contiguous_strides(sizes) : input.strides;
    output.requires_grad = !writes.hidden;
    output.target = i;
    const int index = add_output(std::move(output), input.value);
    target_.epilogue.writes.push_back({index, i, writes.count, writes.hidden});
  }

  const Graph& source_;
  Graph& target_;
  Aliases& aliases_;
  History& history_;
  ir::ValueMap<int> input_of_;                        // by traced value, -1 for the others
  std::unordered_map<uint32_t, Group> groups_;        // by the index of the storage's base
  std::optional<ir::ValueMap<ir::Strides>> strides_;  // once a hidden output needs them
  std::unordered_map<uint32_t, int> result_of_;  // by traced value: the first result that it is
};

}  // namespace

void add_results(ir::Rewriter& rewriter, Aliases& aliases, History& history) {
  Results(rewriter, aliases, history).add();
}

}  // namespace tandem::functionalize
