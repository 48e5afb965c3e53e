// Row loops that ask for the next row while they compute: where they do it, and that results do not
// change at the last row, where there is nothing to ask for.
#include <algorithm>

#include "codegen/jit/emit/emit.h"
#include "codegen/jit/llvm.h"
#include "codegen/jit/object.h"
#include "tests/unit/jit/kernel_writer.h"

namespace tandem::jit {
namespace {

using LK = Loop::Kind;

/// x - sum(x) of rows of `inputs` summed values, two sweeps over each row.
Kernel centred(int64_t rows, int64_t n, int inputs) {
  Writer w;
  std::vector<ParamId> x;
  for (int i = 0; i < inputs; ++i) x.push_back(w.param(DType::F32));
  const auto y = w.result(DType::F32);
  const auto row = w.loop(LK::Serial, rows), first = w.loop(LK::Vector, n),
             second = w.loop(LK::Vector, n);
  const auto value = [&](LoopId loop) {
    InstrId sum = w.load(x[0], {0, {{row, n}, {loop, 1}}});
    for (int i = 1; i < inputs; ++i)
      sum = w.compute(Op::add, {sum, w.load(x[static_cast<size_t>(i)], {0, {{row, n}, {loop, 1}}})},
                      DType::F32);
    return sum;
  };
  const auto acc = w.accumulator({Combine::Sum, DType::F32, first, 16, 0});
  w.begin(row);
  w.begin(first);
  w.accumulate(acc, {value(first)});
  w.end(first);
  const auto total = w.reduced(acc, DType::F32);
  w.begin(second);
  w.store(y, {0, {{row, n}, {second, 1}}}, w.compute(Op::sub, {value(second), total}, DType::F32));
  w.end(second);
  w.end(row);
  return w.k;
}

/// The level of the cache that the next row is read into, or 0.
int reads_ahead(const Kernel& kernel, const Target& target) {
  llvm::LLVMContext context;
  llvm::Module module("test", context);
  emit_kernel(module, Form{kernel}, target, "kernel");
  const std::string text = compile_assembly(module, target);
  const auto has = [&](const char* what) { return text.find(what) != std::string::npos; };
  return has("prefetcht0") ? 1 : has("prefetcht1") ? 2 : has("prefetch") ? -1 : 0;
}

TEST(Ahead, NextRowIsReadWhereItFitsBesideThisOne) {
  for (const Target& target : targets()) {
    EXPECT_EQ(reads_ahead(centred(4, 1024, 1), target), 1);
    EXPECT_EQ(reads_ahead(centred(4, 1000, 2), target), 1);
    EXPECT_EQ(reads_ahead(centred(4, 1024, 3), target), 2);
    EXPECT_EQ(reads_ahead(centred(4, 8192, 1), target), 2);
    EXPECT_EQ(reads_ahead(centred(4, 16384, 1), target), 0);
  }
}

/// In how many loops the next row is asked for.
int loops_that_ask(const Kernel& kernel, const Target& target) {
  llvm::LLVMContext context;
  llvm::Module module("test", context);
  emit_kernel(module, Form{kernel}, target, "kernel");
  const auto asks = [](const llvm::Instruction& i) {
    const auto* call = llvm::dyn_cast<llvm::CallBase>(&i);
    return call && call->getIntrinsicID() == llvm::Intrinsic::prefetch;
  };
  const auto has_asking = [&](const llvm::BasicBlock& b) { return std::ranges::any_of(b, asks); };
  return static_cast<int>(std::ranges::count_if(*module.getFunction("kernel"), has_asking));
}

// In one of them alone, memory would wait during the other.
TEST(Ahead, EachSweepAsksForItsShare) {
  for (const Target& target : targets())
    for (int inputs : {1, 2, 3}) EXPECT_EQ(loops_that_ask(centred(4, 1024, inputs), target), 2);
}

TEST(Ahead, ResultsAreTheSame) {
  for (int64_t rows : {1, 2, 5})
    for (int64_t n : {16, 100, 1021})
      for (int inputs : {1, 2}) {
        std::vector<Argument> arguments;
        for (int i = 0; i < inputs; ++i)
          arguments.push_back(
              random_argument(DType::F32, rows * n, static_cast<uint32_t>(i) + 7, true));
        arguments.push_back(Argument(DType::F32, rows * n));
        check(centred(rows, n, inputs), arguments);
      }
}

}  // namespace
}  // namespace tandem::jit
