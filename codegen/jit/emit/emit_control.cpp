// Blocks: counted loops, branches, and the way out when a check fails.
#include <algorithm>

#include "codegen/jit/emit/emitter.h"

namespace tandem::jit {

llvm::BasicBlock* Emitter::block(const char* name) {
  return llvm::BasicBlock::Create(context_, name, function_);
}

void Emitter::count_loop(llvm::Value* count, int64_t step, const Slots& slots,
                         const std::function<void(llvm::Value*)>& body) {
  const auto* known = llvm::dyn_cast<llvm::ConstantInt>(count);
  if (known && known->getSExtValue() <= 0) return;
  if (known && known->getSExtValue() == step) return body(i64(0));
  const auto run = [&] {
    llvm::BasicBlock* before = ir_.GetInsertBlock();
    llvm::BasicBlock* inside = block("loop");
    ir_.CreateBr(inside);
    ir_.SetInsertPoint(inside);
    llvm::PHINode* i = ir_.CreatePHI(ir_.getInt64Ty(), 2);
    std::vector<llvm::PHINode*> phis;
    for (llvm::Value** slot : slots) {
      phis.push_back(ir_.CreatePHI((*slot)->getType(), 2));
      phis.back()->addIncoming(*slot, before);
      *slot = phis.back();
    }
    body(i);
    llvm::Value* next = ir_.CreateAdd(i, i64(step), "", true, true);
    llvm::BasicBlock* latch = ir_.GetInsertBlock();
    i->addIncoming(i64(0), before);
    i->addIncoming(next, latch);
    for (size_t s = 0; s < slots.size(); ++s) phis[s]->addIncoming(*slots[s], latch);
    llvm::BasicBlock* after = block("after");
    ir_.CreateCondBr(ir_.CreateICmpSLT(next, count), inside, after);
    ir_.SetInsertPoint(after);
  };
  when(ir_.CreateICmpSGT(count, i64(0)), slots, run);
}

void Emitter::when(llvm::Value* condition, const Slots& slots, const std::function<void()>& body) {
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    if (known->isOne()) body();
    return;
  }
  std::vector<llvm::Value*> old;
  for (llvm::Value** slot : slots) old.push_back(*slot);
  llvm::BasicBlock* before = ir_.GetInsertBlock();
  llvm::BasicBlock* inside = block("then");
  llvm::BasicBlock* join = block("join");
  ir_.CreateCondBr(condition, inside, join);
  ir_.SetInsertPoint(inside);
  body();
  llvm::BasicBlock* last = ir_.GetInsertBlock();
  ir_.CreateBr(join);
  ir_.SetInsertPoint(join);
  for (size_t s = 0; s < slots.size(); ++s) {
    llvm::PHINode* phi = ir_.CreatePHI(old[s]->getType(), 2);
    phi->addIncoming(old[s], before);
    phi->addIncoming(*slots[s], last);
    *slots[s] = phi;
  }
}

void Emitter::fail_if(llvm::Value* bad, size_t instruction, llvm::Value* value,
                      llvm::Value* extent) {
  llvm::BasicBlock* failed = block("failed");
  llvm::BasicBlock* good = block("good");
  ir_.CreateCondBr(bad, failed, good, llvm::MDBuilder(context_).createBranchWeights(1, 100000));
  ir_.SetInsertPoint(failed);
  llvm::Value* fields[] = {i64(static_cast<int64_t>(instruction)), value, extent};
  for (uint64_t f = 0; f < 3; ++f)
    ir_.CreateAlignedStore(fields[f],
                           ir_.CreateConstGEP1_64(ir_.getInt64Ty(), function_->getArg(4), f),
                           llvm::Align(8));
  leave(1);
  ir_.SetInsertPoint(good);
}

void Emitter::leave(int64_t status) {
  // streamed stores are seen by who waits for this kernel
  if (std::any_of(kernel_.params.begin(), kernel_.params.end(),
                  [](const auto& p) { return p.streams; }))
    ir_.CreateIntrinsic(ir_.getVoidTy(), llvm::Intrinsic::x86_sse_sfence, {});
  ir_.CreateRet(i64(status));
}

void Emitter::fail_if_any(const Emitted& value, size_t instruction, llvm::Value* extent,
                          const std::function<llvm::Value*(llvm::Value*)>& bad) {
  if (value.uniform) {
    llvm::Value* v = ir_.CreateIntCast(value.parts[0], ir_.getInt64Ty(), true);
    return fail_if(bad(value.parts[0]), instruction, v, extent);
  }
  llvm::Value *all = nullptr, *first_bad = nullptr, *first = nullptr;
  for (unsigned p = scope_.parts; p-- > 0;) {
    llvm::Value* here = bad(value.parts[p]);
    if (scope_.mask(p)) here = ir_.CreateAnd(here, scope_.mask(p));
    all = all ? ir_.CreateOr(all, here) : here;
    llvm::Value* found = first ? any(here) : nullptr;
    first_bad = first ? ir_.CreateSelect(found, here, first_bad) : here;
    first = first ? ir_.CreateSelect(found, value.parts[p], first) : value.parts[p];
  }
  llvm::Value* bits = ir_.CreateBitCast(first_bad, ir_.getIntNTy(scope_.lanes));
  llvm::Value* lane = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, ir_.getFalse());
  llvm::Value* v = ir_.CreateExtractElement(first, ir_.CreateZExt(lane, ir_.getInt64Ty()));
  fail_if(any(all), instruction, ir_.CreateIntCast(v, ir_.getInt64Ty(), true), extent);
}

llvm::Value* Emitter::any(llvm::Value* mask) {
  return mask->getType()->isVectorTy() ? ir_.CreateOrReduce(mask) : mask;
}

}  // namespace tandem::jit
