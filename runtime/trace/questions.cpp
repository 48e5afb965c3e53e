// Recording: what a traced function asks of tensors that their types do not say, and may branch on.
#include <algorithm>

#include "runtime/levels/batched.h"
#include "runtime/ops/dispatch.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {
namespace {

void note(std::vector<int>& inputs, int input) {
  if (std::ranges::count(inputs, input) == 0) inputs.push_back(input);
}

}  // namespace

Trace* Trace::following() {
  Trace* trace = current();
  while (trace != nullptr && !trace->follows_) trace = trace->enclosing_;
  return trace;
}

Trace* Trace::asking() { return BelowTape::active() ? nullptr : following(); }

/// The tensor of the trace around this one that an input of this body stands for, or undefined.
Tensor Trace::captured_as(int input) const {
  const bool is_inner = is_body_ && enclosing_ != nullptr;
  return is_inner ? real_inputs_[static_cast<size_t>(input)] : Tensor();
}

/// What the function reaches by itself may be an argument too, or the .grad of a tensor: one input
/// is both only as long as each call brings that tensor.
Tensor Trace::note_captured(Tensor stand_in) {
  note(questions_.objects, input_index(stand_in));
  return stand_in;
}

void Trace::ask_leaf(const Tensor& t) {
  const int input = input_index(resolve(t));
  if (input < 0) return;
  note(questions_.leaves, input);
  if (const Tensor outer = captured_as(input); outer.defined()) enclosing_->ask_leaf(outer);
}

/// What else lies over the same memory is found from any of the inputs there.
void Trace::ask_offset(const Tensor& t) {
  const std::shared_ptr<Storage> memory = resolve(t).impl()->storage;
  for (size_t i = 0; i < first_seen_.size(); ++i) {
    if (first_seen_[i]->storage != memory) continue;
    const int input = static_cast<int>(i);
    note(questions_.offsets, input);
    if (const Tensor outer = captured_as(input); outer.defined()) enclosing_->ask_offset(outer);
  }
}

std::pair<Tensor, Tensor> Trace::asked_of(const Tensor& a, const Tensor& b) {
  for (Trace* trace = this; trace != nullptr; trace = trace->enclosing_)
    trace->questions_.sharing = true;
  const auto own = [&](const Tensor& t) { return is_batched(t) ? t : resolve(t); };
  return {own(a), own(b)};
}

bool Trace::ask_sharing(const Tensor& a, const Tensor& b) {
  const auto [first, second] = asked_of(a, b);
  return share_storage(first, second);
}

bool Trace::ask_same(const Tensor& a, const Tensor& b) {
  const auto [first, second] = asked_of(a, b);
  return first.impl() == second.impl();
}

Trace* innermost_asking() {
  Trace* trace = Trace::asking();
  return trace == Trace::current() ? trace : nullptr;
}

void ask_offset(const Tensor& t) {
  Trace* trace = innermost_asking();
  if (trace != nullptr && !is_batched(t)) trace->ask_offset(t);
}

}  // namespace tandem::runtime
