// Reductions whose run is longer than a block: partials are combined with their neighbours pair by
// pair as soon as both are there, so that the stack holds one for each level of the tree.
#include <algorithm>
#include <bit>

#include "codegen/jit/emit/emit_compute.h"
#include "codegen/jit/emit/emitter.h"

namespace tandem::jit {

using codegen::Accumulator;

llvm::Value* Emitter::stack_array(llvm::Type* element, int64_t count) {
  llvm::BasicBlock& entry = function_->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  return at_entry.CreateAlloca(element, i64(count));
}

int64_t Emitter::block_of(LoopId loop) const {
  const auto first = std::ranges::find_if(kernel_.accumulators, [&](const Accumulator& acc) {
    return acc.loop == loop && is_ordered(acc);
  });
  return first == kernel_.accumulators.end() ? 0 : first->block;
}

void Emitter::blocked_loop(size_t at, llvm::Value* count) {
  const LoopId id = kernel_.code[at].loop;
  const int64_t block = block_of(id);
  const int64_t most = (kernel_.loops[id].extent + block - 1) / block;
  const int levels = std::bit_width(static_cast<uint64_t>(most) | 1);
  begin_accumulators(id);
  end_accumulators(id);
  std::vector<Partials> partials;  // the first starts as the identity, in case there is no block
  for (llvm::Value** slot : slots_of(id)) {
    partials.push_back({stack_array((*slot)->getType(), levels), (*slot)->getType()});
    ir_.CreateStore(*slot, partials.back().array);
  }
  llvm::Value* blocks = ir_.CreateUDiv(ir_.CreateAdd(count, i64(block - 1)), i64(block));
  count_loop(blocks, 1, {}, [&](llvm::Value* b) {
    llvm::Value* first = ir_.CreateMul(b, i64(block));
    llvm::Value* left = ir_.CreateSub(count, first);
    begin_accumulators(id);
    vector_range(at, first, ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, i64(block)));
    end_accumulators(id);
    keep_partial(id, partials, b);
  });
  combine_partials(id, partials, blocks);
}

llvm::Value* Emitter::lowest_bit(llvm::Value* of) {
  return ir_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, of, ir_.getFalse());
}

/// The results become those of `level`.
void Emitter::load_partial(LoopId loop, const std::vector<Partials>& partials, llvm::Value* level) {
  const Slots slots = slots_of(loop);
  for (size_t s = 0; s < slots.size(); ++s)
    *slots[s] =
        ir_.CreateLoad(partials[s].type, ir_.CreateGEP(partials[s].type, partials[s].array, level));
}

/// The results are combined with those of `level`, which come before them.
void Emitter::join_partial(LoopId loop, const std::vector<Partials>& partials, llvm::Value* level) {
  const Table<AccumulatorId, Running> right = running_;
  load_partial(loop, partials, level);
  for (AccumulatorId a : running_.ids()) {
    const Accumulator& acc = kernel_.accumulators[a];
    if (acc.loop != loop) continue;
    llvm::Value* position = right[a].position.empty() ? nullptr : right[a].position[0];
    take(acc, running_[a], 0, right[a].value[0], position, nullptr);
  }
}

// As one is added to a binary number: where `block` has a digit 1 its level is full, and two of
// one level make one of the next.
void Emitter::keep_partial(LoopId loop, const std::vector<Partials>& partials, llvm::Value* block) {
  llvm::Value* free = lowest_bit(ir_.CreateNot(block));
  const Slots slots = slots_of(loop);
  count_loop(free, 1, slots, [&](llvm::Value* level) { join_partial(loop, partials, level); });
  for (size_t s = 0; s < slots.size(); ++s)
    ir_.CreateStore(*slots[s], ir_.CreateGEP(partials[s].type, partials[s].array, free));
}

// What is left over on the right moves up unchanged: from the smallest full level on.
void Emitter::combine_partials(LoopId loop, const std::vector<Partials>& partials,
                               llvm::Value* blocks) {
  llvm::Value* none = ir_.CreateIsNull(blocks);
  load_partial(loop, partials, ir_.CreateSelect(none, i64(0), lowest_bit(blocks)));
  const auto without_lowest = [&](llvm::Value* v) {
    return ir_.CreateAnd(v, ir_.CreateSub(v, i64(1)));
  };
  llvm::Value* left = without_lowest(blocks);
  Slots slots = slots_of(loop);
  slots.push_back(&left);
  llvm::Value* levels = ir_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, left);
  count_loop(levels, 1, slots, [&](llvm::Value*) {
    join_partial(loop, partials, lowest_bit(left));
    left = without_lowest(left);
  });
  set_results(loop);
}

}  // namespace tandem::jit
