// The JIT as a backend: lower to a plan, compile its kernels, hand both to the plan runner.
#include <chrono>

#include "codegen/exec/plan_runner.h"
#include "codegen/jit/compile.h"
#include "codegen/lower.h"
#include "machine/cpu.h"
#include "machine/library/exit_gate.h"
#include "machine/memory/guarded.h"
#include "runtime/backends/backends.h"
#include "runtime/backends/recurring.h"

namespace tandem::runtime {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// All writes may go straight to the input's memory: what autograd refuses is refused before the
/// call runs, and the history is put in place after it.
std::vector<int> direct_writes(const ir::Graph& graph) {
  std::vector<int> outputs;
  for (const ir::InputWrite& write : graph.epilogue.writes) outputs.push_back(write.output);
  return outputs;
}

/// The code of a plan and of its bodies, and how many kernels are fresh and general
/// (jit/compile.h).
struct Code {
  exec::PlanCode code;
  int fresh = 0, general = 0;
};

Code compile(const codegen::Plan& plan, const std::string& cache_dir, jit::Sizes sizes) {
  jit::CompiledKernels kernels =
      jit::compile_kernels(plan.kernels, jit::native_target(), cache_dir, sizes);
  Code code{{std::move(kernels.functions), std::move(kernels.owner), std::move(kernels.numbers),
             std::move(kernels.params)},
            kernels.fresh,
            kernels.general};
  for (const codegen::Plan& body : plan.bodies) {
    Code inner = compile(body, cache_dir, sizes);
    code.code.bodies.push_back(std::move(inner.code));
    code.fresh += inner.fresh;
    code.general += inner.general;
  }
  return code;
}

struct Compiled {
  std::unique_ptr<ir::Executable> executable;
  int general_kernels;
};

Compiled compile(const ir::Graph& graph, const JitOptions& options, jit::Sizes sizes) {
  const auto start = std::chrono::steady_clock::now();
  codegen::Plan plan = codegen::lower(graph, {.write_into_input = direct_writes(graph),
                                              .cache_bytes = machine::own_cache_bytes(),
                                              .vector_bytes = machine::cpu_features().vector_bytes,
                                              .matmul_precision = options.matmul_precision,
                                              .leaves_out_unread = options.leaves_out_unread,
                                              .guard_pages = machine::guard_pages()});
  const double lower_seconds = seconds_since(start);
  const auto middle = std::chrono::steady_clock::now();
  Code code = compile(plan, options.cache_dir, sizes);
  return {exec::make_executable(std::move(plan), std::move(code.code),
                                {lower_seconds, seconds_since(middle), code.fresh}),
          code.general};
}

class JitBackend final : public ir::Backend {
 public:
  std::string name() const override { return "jit"; }
  std::unique_ptr<ir::Executable> compile(const ir::Graph& graph) const override {
    return compile_by_jit(graph, {});
  }
};

}  // namespace

// Destructors of static objects may compile when exit has taken LLVM's own apart.
std::unique_ptr<ir::Executable> compile_by_jit(const ir::Graph& graph, const JitOptions& options) {
  if (machine::is_ending()) return interpreter_backend()->compile(graph);
  return compile(graph, options, jit::Sizes::Known).executable;
}

std::shared_ptr<const ir::Backend> jit_backend() {
  static const auto& backend = *new auto(std::make_shared<const JitBackend>());
  return backend;
}

std::unique_ptr<ir::Executable> compile_for_any_size(const ir::Graph& graph,
                                                     const JitOptions& options) {
  if (machine::is_ending()) return interpreter_backend()->compile(graph);
  Compiled general = compile(graph, options, jit::Sizes::Open);
  if (general.general_kernels == 0) return std::move(general.executable);
  const auto make_own = [&graph, options] {
    return compile(graph, options, jit::Sizes::Own).executable;
  };
  return with_own_code(std::move(general.executable), make_own,
                       seconds_that_pay(general.general_kernels));
}

}  // namespace tandem::runtime
