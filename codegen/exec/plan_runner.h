// Runs a Plan: borrows an arena, launches its kernels on the pool, calls the library.
#ifndef TANDEM_CODEGEN_EXEC_PLAN_RUNNER_H
#define TANDEM_CODEGEN_EXEC_PLAN_RUNNER_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "codegen/exec/control.h"
#include "codegen/plan.h"
#include "ir/interfaces/backend.h"
#include "ir/interfaces/custom_operator.h"
#include "machine/library/matmul.h"
#include "machine/memory/arena.h"

namespace tandem::exec {

/// The machine code of a plan's kernels.
struct PlanCode {
  /// One per Plan::kernels; a null one (or none at all) runs in the kernel interpreter.
  std::vector<codegen::KernelFunction> kernels;
  std::shared_ptr<const void> owner;  // keeps the code mapped
  /// One per kernel (or none at all): the table that its function reads, or nothing.
  std::vector<std::vector<uint64_t>> numbers{};
  /// One per kernel (or none at all): which param is at each place of its function's, or nothing.
  std::vector<std::vector<codegen::ParamId>> params{};
  std::vector<PlanCode> bodies{};  // one per Plan::bodies, or none at all
};

class PlanRunner {
 public:
  /// Checks the plan's references (InternalError) and creates what its library calls need.
  PlanRunner(codegen::Plan plan, PlanCode code);
  PlanRunner(const PlanRunner&) = delete;  // steps_ points into plan_
  PlanRunner& operator=(const PlanRunner&) = delete;

  /// Runs the plan. `inputs` and `outputs` point to first elements, in the plan's order; those of
  /// outputs with from_input or into_input are not read. Any number of threads may call at once.
  /// Throws Error when an index is out of range or an integer is divided by zero (of several, the
  /// one of the first unit), or when memory runs out.
  void run(void* const* inputs, void* const* outputs) const;

  /// What a call works in: an arena, or if it needs little a piece of its own.
  class Memory;
  /// The same in `memory`, which was made for this runner.
  void run_in(Memory& memory, void* const* inputs, void* const* outputs) const;

  /// Without the code of the kernels that run as machine code.
  const codegen::Plan& plan() const { return plan_; }
  /// How long the library took to make what its calls need.
  double library_seconds() const { return library_seconds_; }
  /// Memory that it holds from call to call, but for names and what others share.
  int64_t held_bytes() const;

 private:
  // Steps as they run. `first_buffer`: where their buffers begin in buffers_.
  struct RunLaunch {
    codegen::KernelFunction function;  // null for one that is interpreted
    const codegen::Launch* launch;
    const uint64_t* numbers;  // what the function reads
    size_t params;            // of the function
    size_t first_buffer;
    std::vector<int64_t> can_fail;  // positions in the kernel's code
  };
  struct RunMatmul {
    std::shared_ptr<const machine::Matmul> matmul;
    bool has_bias;
    size_t number;        // among the plan's matmuls
    size_t first_buffer;  // A, B, C and maybe bias
  };
  struct RunExternal {
    const codegen::ExternalCall* call;
    std::shared_ptr<const ir::CustomOperator> custom;  // none: a library function, or control flow
    size_t first_buffer;                               // operands and results
  };
  using RunStep = std::variant<RunLaunch, RunMatmul, RunExternal>;
  struct Call;

  codegen::BufferRef resolve(const codegen::BufferRef& ref) const;
  void add(const codegen::Launch& launch);
  void add(const codegen::MatmulCall& call);
  void add(const codegen::ExternalCall& external);
  void execute(const Call& call, const RunLaunch& step) const;
  void execute(const Call& call, const RunMatmul& step) const;
  void execute_control(const Call& call, const RunExternal& step) const;
  int64_t held_bytes_of_bodies() const;
  void execute(const Call& call, const RunExternal& step) const;

  codegen::Plan plan_;
  PlanCode code_;
  Bodies bodies_;
  std::vector<RunStep> steps_;
  std::vector<codegen::BufferRef> buffers_;  // of all steps
  double library_seconds_ = 0;
  size_t matmuls_ = 0;
  size_t most_params_ = 0;
  size_t matmul_scratch_ = 0;  // bytes, the largest
  size_t kernel_scratch_ = 0;  // bytes, the largest, for each thread
};

class PlanRunner::Memory {
 public:
  /// Throws Error (out_of_memory).
  explicit Memory(const PlanRunner& runner);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Inputs [first, last) will be the same in all runs in this memory, and hold what they do now:
  /// what few rows are multiplied with is brought into order once. Throws Error (out_of_memory).
  void keep(const PlanRunner& runner, void* const* inputs, size_t first, size_t last);

 private:
  friend class PlanRunner;
  static constexpr size_t kLine = 128;  // scratch of two threads shares no pair of cache lines
  static constexpr size_t kStackBytes = size_t{4} << 10;  // what needs no more borrows no arena

  int threads_;
  size_t arena_bytes_, scratch_bytes_;
  machine::ArenaLease lease_, kept_;
  std::vector<const float*> packed_;  // the second operands of matmuls; null: not kept
  alignas(kLine) std::array<uint8_t, kStackBytes> stack_;
};

/// How a plan was made, for reports.
struct CompileFigures {
  double lower_seconds = 0;
  double codegen_seconds = 0;
  int new_kernels = 0;
};
/// The plan as an executable for the runtime.
std::unique_ptr<ir::Executable> make_executable(codegen::Plan plan, PlanCode code,
                                                CompileFigures figures = {});

}  // namespace tandem::exec

#endif  // TANDEM_CODEGEN_EXEC_PLAN_RUNNER_H
