// Recording: inputs that themselves change (t_, set_, requires_grad_, ...).
#include <fmt/format.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/levels/batched.h"
#include "runtime/tape/autograd.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {

void Trace::note_requires_grad(const Tensor& t, bool value) {
  const int input = input_index(t);
  if (input < 0) return;
  if (!value) {  // what uses it from here on gives it no gradient
    t.impl()->value = t.detach().impl()->value;
    note_detached(t);
    return;
  }
  const ir::ValueId v = graph_.inputs()[static_cast<size_t>(input)].value;
  for (const ir::Equation& e : graph_.equations())
    if (std::ranges::count(graph_.operands(e), v) != 0)
      ir::fail(Errc::Unsupported,
               "requires_grad_: inside a trace an argument starts to require grad after it was "
               "used; expected the call before the first use");
  graph_.inputs()[static_cast<size_t>(input)].requires_grad = true;
}

void Trace::note_given_back(const Tensor& operand, const Tensor& result) {
  const std::shared_ptr<Storage>& memory = operand.impl()->storage;
  given_back_.try_emplace(result.impl()->storage, GivenBack{memory, memory->version()});
}

void Trace::check_given_back(const Tensor& t, bool is_written) const {
  const auto it = given_back_.find(t.impl()->storage);
  if (it == given_back_.end()) return;
  const auto& [memory, version] = it->second;
  if (is_written || memory->version() != version)
    ir::fail(Errc::Mutation,
             fmt::format("custom function: it gives an input, or a view of one, as its result, or "
                         "one tensor twice, and inside a trace {}; expected a clone() in its "
                         "forward",
                         is_written ? "that is written" : "its memory was written since"));
}

/// The number among the results of what `t` is; added behind them if it is none.
int Trace::result_that_is(const Tensor& t) {
  int count = 0;
  for (const ir::Output& output : graph_.outputs()) {
    if (output.role != ir::Role::Result) continue;
    if (output.value == t.impl()->value) return count;
    ++count;
  }
  add_output(t);
  return count;
}

/// By how much changes of tensors over the input's memory advanced its version: all that writes
/// (InputWrite) do not count. Of memory that the trace made (set_), the whole version.
int Trace::bumps_of_change(int input) const {
  const auto i = static_cast<size_t>(input);
  const TensorImpl& now = *input_stand_ins_[i].impl();
  const Storage& before = *first_seen_[i]->storage;
  if (const auto it = resized_.find(&now); it != resized_.end())
    return static_cast<int>(now.storage->version() - it->second);
  if (now.storage == first_seen_[i]->storage)
    return graph_.inputs()[i].alias_of ? 0 : before.times_rearranged();
  const auto is_memory_of = [&](const auto& seen) { return seen->storage == now.storage; };
  const bool is_input = std::ranges::any_of(first_seen_, is_memory_of);
  return is_input ? 0 : static_cast<int>(now.storage->version());
}

void Trace::note_resized(const Tensor& t) {
  const Storage& storage = *t.impl()->storage;
  resized_.emplace(t.impl().get(),
                   storage.version() - static_cast<uint64_t>(storage.times_rearranged()));
}

ir::InputChange Trace::change_of(int input) {
  const auto i = static_cast<size_t>(input);
  const Tensor& now = input_stand_ins_[i];
  const TensorImpl &impl = *now.impl(), &before = *first_seen_[i];
  ir::InputChange change;
  change.input = input;
  const bool same_place = impl.storage == before.storage && impl.sizes == before.sizes &&
                          impl.strides == before.strides && impl.offset == before.offset;
  change.resized = resized_.contains(&impl);
  const auto is_now = [&](const ir::Output& o) {
    return o.role == ir::Role::Result && o.value == impl.value;
  };
  const bool renamed = impl.value != before.value && std::ranges::any_of(graph_.outputs(), is_now);
  if (!same_place || change.resized || renamed) {
    change.result = result_that_is(now);
  }
  change.version_bumps = bumps_of_change(input);
  const Tensor& real = real_inputs_[i];
  const bool receives = receives_gradient(now);  // of a view: as its base says now
  const bool leaf = impl.autograd == nullptr || impl.autograd->node == nullptr;
  if (!real.defined() || !leaf) return change;
  const bool of_examples = is_batched(real) && is_differentiated(real);  // capture_example
  if (receives == (receives_gradient(real) || of_examples)) return change;
  if (receives_gradient(real) && !real.is_leaf())
    change.detached = true;
  else
    change.requires_grad = receives;
  return change;
}

void Trace::append_changes() {
  for (size_t i = 0; i < input_stand_ins_.size(); ++i) {
    const int input = static_cast<int>(i);
    if (std::ranges::count(memory_slots_, input, &MemorySlot::memory_input) != 0) continue;
    const ir::InputChange change = change_of(input), none{.input = input};
    if (change != none) graph_.epilogue.changes.push_back(change);
  }
}

}  // namespace tandem::runtime
