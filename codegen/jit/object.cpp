// Code generators (one per thread, reused), the pass list and code generation. The pass list is
// short on purpose: kernels arrive as explicit vector code, so inlining, vectorisers and
// unrolling have nothing to add.
#include "codegen/jit/object.h"

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <algorithm>
#include <mutex>

#include "codegen/jit/in_llvm.h"
#include "codegen/jit/llvm.h"
#include "ir/base/error.h"
#include "machine/threads/of_thread.h"

namespace tandem::jit {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";
constexpr const char* kBaseCpu = "x86-64";  // SSE2 only: all else comes from the feature string

// Instruction costs and preferences only; never adds an instruction set.
const char* tuning_cpu(const Target& target) {
  if (target.has("amx-tile")) return "sapphirerapids";
  if (target.has("avx512f")) return "znver4";
  return target.has("avx2") ? "haswell" : kBaseCpu;
}

const llvm::Target& x86() {
  static const llvm::Target* found = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    llvm::install_bad_alloc_error_handler(
        [](void*, const char*, bool) { end_for_want_of_memory(); });
    std::string error;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(kTriple, error);
    TANDEM_CHECK(target, error);
    return target;
  }();
  return *found;
}

llvm::TargetOptions target_options() {
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return options;
}

// LLVM only warns on stderr about a feature that it does not know.
void check_features(const llvm::TargetMachine& machine, const std::string& features) {
  llvm::SmallVector<llvm::StringRef> items;
  llvm::StringRef(features).split(items, ',', -1, false);
  const auto known = machine.getMCSubtargetInfo()->getAllProcessorFeatures();
  for (const llvm::StringRef item : items) {
    const bool found = item.size() > 1 && (item[0] == '+' || item[0] == '-') &&
                       std::any_of(known.begin(), known.end(),
                                   [&](const auto& f) { return item.drop_front() == f.Key; });
    TANDEM_CHECK(found, "unknown CPU feature '" + item.str() + "'");
  }
}

std::unique_ptr<llvm::TargetMachine> make_machine(const Target& target) {
  const auto create = [&](const std::string& features) {
    const llvm::Target& x86_64 = x86();
    return std::unique_ptr<llvm::TargetMachine>(in_llvm([&] {
      return x86_64.createTargetMachine(kTriple, kBaseCpu, features, target_options(),
                                        llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                        llvm::CodeGenOptLevel::Default, true);
    }));
  };
  check_features(*create(""), target.features);
  return create(target.features);
}

void set_attributes(llvm::Module& module, const Target& target) {
  const std::string bits = std::to_string(8 * target.vector_bytes);
  for (llvm::Function& f : module) {
    if (f.isDeclaration()) continue;
    f.setDoesNotThrow();
    // a spilled vector that crosses cache lines costs more than aligning the stack
    f.addFnAttr(llvm::Attribute::getWithStackAlignment(
        f.getContext(), llvm::Align(static_cast<uint64_t>(target.vector_bytes))));
    f.addFnAttr("target-cpu", kBaseCpu);
    f.addFnAttr("tune-cpu", tuning_cpu(target));
    f.addFnAttr("target-features", target.features);
    f.addFnAttr("prefer-vector-width", bits);
    f.addFnAttr("min-legal-vector-width", bits);
  }
}

void verify(const llvm::Module& module) {
  std::string message;
  llvm::raw_string_ostream stream(message);
  TANDEM_CHECK(!llvm::verifyModule(module, &stream), "invalid LLVM IR: " + message);
}

void run_passes(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()),
                                                       /*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass());
  for (llvm::Function& f : module) {
    if (!f.isDeclaration()) in_llvm([&] { passes.run(f, functions); });
  }
}

// Passes over machine code that are left out. The schedulers: the order in which kernels are
// emitted puts independent work side by side, and CPUs reorder the rest. All others have nothing to
// find.
llvm::ArrayRef<llvm::AnalysisID> needless_passes() {
  static const llvm::AnalysisID passes[] = {
      &llvm::MachineSchedulerID,
      &llvm::PostRASchedulerID,
      &llvm::EarlyTailDuplicateID,
      &llvm::TailDuplicateID,
      &llvm::EarlyIfConverterID,
      &llvm::MachineCombinerID,
      &llvm::StackColoringID,
      &llvm::StackSlotColoringID,
      &llvm::LiveRangeShrinkID,
      &llvm::ShrinkWrapID,
      &llvm::PostRAMachineSinkingID,
      &llvm::FuncletLayoutID,
      &llvm::StackMapLivenessID,
      &llvm::LiveDebugValuesID,
      &llvm::RemoveRedundantDebugValuesID,
      &llvm::XRayInstrumentationID,
      &llvm::FEntryInserterID,
      &llvm::PatchableFunctionID,
  };
  return passes;
}

// What LLVMTargetMachine::addPassesToEmitFile adds, less what only costs time here. The largest is
// loop strength reduction, a quarter of the whole: an address is a row and an index already, as
// x86 wants it. No pass lowers exceptions, atomics, AMX types or library calls, which kernels do
// not have.
void add_code_generation(llvm::legacy::PassManager& passes, llvm::LLVMTargetMachine& machine,
                         llvm::raw_pwrite_stream& stream, llvm::CodeGenFileType type) {
  auto* const config = machine.createPassConfig(passes);
  auto* const functions = new llvm::MachineModuleInfoWrapperPass(&machine);
  passes.add(config);
  passes.add(functions);
  for (const llvm::AnalysisID pass : needless_passes()) config->disablePass(pass);
  passes.add(llvm::createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
  passes.add(llvm::createScalarizeMaskedMemIntrinLegacyPass());
  passes.add(llvm::createExpandReductionsPass());
  config->addCodeGenPrepare();
  config->addISelPrepare();
  TANDEM_CHECK(!config->addInstSelector(), "LLVM cannot select instructions");
  passes.add(llvm::Pass::createPass(&llvm::FinalizeISelID));
  config->addMachinePasses();
  config->setInitialized();
  TANDEM_CHECK(
      !machine.addAsmPrinter(passes, stream, nullptr, type, functions->getMMI().getContext()),
      "LLVM cannot emit this file type");
  passes.add(llvm::createFreeMachineFunctionPass());
}

// Code generation for one target into one kind of file. It is not thread-safe. To make the target
// machine and schedule the passes costs as much as to run them on a third of a small kernel.
class Generator {
 public:
  Generator(const Target& target, llvm::CodeGenFileType type)
      : features_(target.features), type_(type), machine_(make_machine(target)) {
    add_code_generation(passes_, static_cast<llvm::LLVMTargetMachine&>(*machine_), stream_, type);
  }

  bool is_for(const Target& target, llvm::CodeGenFileType type) const {
    return features_ == target.features && type_ == type;
  }

  std::string run(llvm::Module& module, const Target& target) {
    module.setTargetTriple(kTriple);
    module.setDataLayout(machine_->createDataLayout());
    set_attributes(module, target);
    verify(module);
    run_passes(module, *machine_);
    bytes_.clear();
    in_llvm([&] { passes_.run(module); });
    return std::string(bytes_.data(), bytes_.size());
  }

 private:
  std::string features_;
  llvm::CodeGenFileType type_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::SmallVector<char, 0> bytes_;
  llvm::raw_svector_ostream stream_{bytes_};
  llvm::legacy::PassManager passes_;
};

// Each thread keeps its last generator.
std::string generate(llvm::Module& module, const Target& target, llvm::CodeGenFileType type) {
  auto& generator = machine::of_thread<std::unique_ptr<Generator>>();
  if (!generator || !generator->is_for(target, type))
    generator = std::make_unique<Generator>(target, type);
  return generator->run(module, target);
}

}  // namespace

std::string compile_object(llvm::Module& module, const Target& target) {
  return generate(module, target, llvm::CodeGenFileType::ObjectFile);
}

std::string compile_assembly(llvm::Module& module, const Target& target) {
  return generate(module, target, llvm::CodeGenFileType::AssemblyFile);
}

}  // namespace tandem::jit
