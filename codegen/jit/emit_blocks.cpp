// Reductions whose run is longer than a block: a loop over blocks leaves their partials on the
// stack, and neighbours are then combined pair by pair.
#include "codegen/jit/emit_compute.h"
#include "codegen/jit/emitter.h"
#include "ir/error.h"

namespace tandem::jit {

using codegen::Accumulator;

llvm::Value* Emitter::stack_array(llvm::Type* element, int64_t count) {
  llvm::BasicBlock& entry = function_->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  return at_entry.CreateAlloca(element, i64(count));
}

int64_t Emitter::block_of(int loop) const {
  int64_t block = 0;
  for (const Accumulator& acc : kernel_.accumulators) {
    if (acc.loop != loop || !is_ordered(acc)) continue;
    TANDEM_CHECK(block == 0 || block == acc.block, "one loop reduces in blocks of two lengths");
    block = acc.block;
  }
  return block;
}

void Emitter::blocked_loop(size_t at, llvm::Value* count) {
  const int id = kernel_.code[at].loop;
  const int64_t block = block_of(id);
  const int64_t most = (kernel_.loops[static_cast<size_t>(id)].extent + block - 1) / block;
  begin_accumulators(id);
  end_accumulators(id);
  std::vector<Partials> partials;  // the first starts as the identity, in case there is no block
  for (llvm::Value** slot : slots_of(id)) {
    partials.push_back({stack_array((*slot)->getType(), most), (*slot)->getType()});
    ir_.CreateStore(*slot, partials.back().array);
  }
  llvm::Value* blocks = ir_.CreateUDiv(ir_.CreateAdd(count, i64(block - 1)), i64(block));
  count_loop(blocks, 1, {}, [&](llvm::Value* b) {
    llvm::Value* first = ir_.CreateMul(b, i64(block));
    llvm::Value* left = ir_.CreateSub(count, first);
    begin_accumulators(id);
    vector_range(at, first, ir_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, i64(block)));
    end_accumulators(id);
    const Slots slots = slots_of(id);
    for (size_t s = 0; s < slots.size(); ++s)
      ir_.CreateStore(*slots[s], ir_.CreateGEP(partials[s].type, partials[s].array, b));
  });
  combine_partials(id, partials, blocks, most);
}

void Emitter::combine_partials(int loop, const std::vector<Partials>& partials, llvm::Value* count,
                               int64_t most) {
  const Slots slots = slots_of(loop);
  const auto move = [&](llvm::Value* from, llvm::Value* to) {
    for (const Partials& p : partials)
      ir_.CreateStore(ir_.CreateLoad(p.type, ir_.CreateGEP(p.type, p.array, from)),
                      ir_.CreateGEP(p.type, p.array, to));
  };
  const auto load = [&](llvm::Value* from) {
    for (size_t s = 0; s < slots.size(); ++s)
      *slots[s] = ir_.CreateLoad(partials[s].type,
                                 ir_.CreateGEP(partials[s].type, partials[s].array, from));
  };
  for (; most > 1; most = (most + 1) / 2) {
    llvm::Value* half = ir_.CreateLShr(count, 1);
    count_loop(half, 1, {}, [&](llvm::Value* i) {
      llvm::Value* left = ir_.CreateShl(i, 1);
      load(ir_.CreateAdd(left, i64(1)));
      std::vector<Running> right;
      for (const Running& r : running_) right.push_back(r);
      load(left);
      for (size_t a = 0; a < running_.size(); ++a) {
        const Accumulator& acc = kernel_.accumulators[a];
        if (acc.loop != loop) continue;
        llvm::Value* position = right[a].position.empty() ? nullptr : right[a].position[0];
        take(acc, running_[a], 0, right[a].value[0], position, nullptr);
      }
      for (size_t s = 0; s < slots.size(); ++s)
        ir_.CreateStore(*slots[s], ir_.CreateGEP(partials[s].type, partials[s].array, i));
    });
    when(ir_.CreateTrunc(count, ir_.getInt1Ty()), {},
         [&] { move(ir_.CreateSub(count, i64(1)), half); });
    count = ir_.CreateLShr(ir_.CreateAdd(count, i64(1)), 1);
  }
  load(i64(0));
  set_results(loop);
}

}  // namespace tandem::jit
