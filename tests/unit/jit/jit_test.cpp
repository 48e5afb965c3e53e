// The LLVM wrapper: from a module to callable code, faults as exceptions, several threads at once,
// no page that is writable and executable.
#include "codegen/jit/jit.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "codegen/jit/llvm.h"
#include "codegen/jit/object.h"
#include "ir/base/error.h"

namespace tandem::jit {
namespace {

const Target kTarget{"+avx,+avx2,+fma", 32};

llvm::Function* make_function(llvm::Module& module, const char* name,
                              llvm::GlobalValue::LinkageTypes linkage) {
  auto* i64 = llvm::Type::getInt64Ty(module.getContext());
  return llvm::Function::Create(llvm::FunctionType::get(i64, {i64}, false), linkage, name, module);
}

// f(x) = x + `added`, or external(x) + added.
std::string object_of(int64_t added, bool calls_outside = false, const Target& target = kTarget) {
  llvm::LLVMContext context;
  llvm::Module module("test", context);
  llvm::Function* f = make_function(module, "f", llvm::Function::ExternalLinkage);
  llvm::IRBuilder<> ir(llvm::BasicBlock::Create(context, "entry", f));
  llvm::Value* x = f->getArg(0);
  if (calls_outside)
    x = ir.CreateCall(make_function(module, "outside", llvm::Function::ExternalLinkage), {x});
  ir.CreateRet(ir.CreateAdd(x, ir.getInt64(added)));
  return compile_object(module, target);
}

Code load_f(const std::string& object, const char* name = "f") {
  const std::string names[] = {name};
  return Code::load(object, names);
}

int64_t call(const Code& code, int64_t x) {
  return reinterpret_cast<int64_t (*)(int64_t)>(code.entry(0))(x);
}

TEST(Jit, LoadedCodeRuns) {
  Code code = load_f(object_of(5));
  EXPECT_EQ(call(code, 37), 42);
  const Code moved = std::move(code);
  EXPECT_EQ(call(moved, 1), 6);
}

TEST(Jit, EqualModulesGiveEqualBytesWhateverTheThreadCompiledBefore) {
  const std::string first = object_of(7);
  EXPECT_EQ(object_of(7), first);
  EXPECT_NE(object_of(8, true), first);
  EXPECT_EQ(object_of(7), first);
  object_of(7, false, {"+sse4.1", 16});
  EXPECT_EQ(object_of(7), first);
  std::string elsewhere;
  std::thread([&] { elsewhere = object_of(7); }).join();
  EXPECT_EQ(elsewhere, first);
}

TEST(Jit, ACodeDoesNotSeeAnothersSymbols) {
  const Code one = load_f(object_of(1)), two = load_f(object_of(2));
  EXPECT_EQ(call(one, 0) + 10 * call(two, 0), 21);
}

TEST(Jit, FaultsAreInternalErrors) {
  EXPECT_THROW(load_f(object_of(1), "g"), ir::InternalError);
  EXPECT_THROW(load_f(object_of(1, true)), ir::InternalError);
  EXPECT_THROW(load_f("not an object file"), ir::InternalError);
  EXPECT_EQ(call(load_f(object_of(3)), 0), 3);
}

TEST(Jit, InvalidIrIsAnInternalError) {
  llvm::LLVMContext context;
  llvm::Module module("test", context);
  llvm::BasicBlock::Create(context, "no terminator",
                           make_function(module, "f", llvm::Function::ExternalLinkage));
  EXPECT_THROW(compile_object(module, kTarget), ir::InternalError);
}

TEST(Jit, UnknownFeaturesAreRefused) {
  llvm::LLVMContext context;
  llvm::Module module("test", context);
  EXPECT_THROW(compile_object(module, {"+avx2,+no-such-thing", 32}), ir::InternalError);
  EXPECT_THROW(compile_object(module, {"avx2", 32}), ir::InternalError);
}

TEST(Jit, TargetReadsItsFeatures) {
  EXPECT_TRUE(kTarget.has("fma"));
  EXPECT_TRUE(kTarget.has("avx"));
  EXPECT_FALSE(kTarget.has("avx512f"));
  EXPECT_FALSE((Target{"-fma", 16}.has("fma")));
}

TEST(Jit, ThreadsCompileAndLoadAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i)
        wrong += call(load_f(object_of(t * 100 + i)), 1) != t * 100 + i + 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Jit, NoPageIsWritableAndExecutable) {
  const Code code = load_f(object_of(1));
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    EXPECT_EQ(line.find("rwx"), std::string::npos) << line;
}

size_t mapped_executable_regions() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("r-x") != std::string::npos;
  return count;
}

TEST(Jit, CodeIsUnmappedWithItsOwner) {
  load_f(object_of(1));
  const size_t before = mapped_executable_regions();
  for (int i = 0; i < 50; ++i) load_f(object_of(i));
  EXPECT_EQ(mapped_executable_regions(), before);
}

}  // namespace
}  // namespace tandem::jit
