// The JIT as a backend: lower to a plan, compile its kernels, hand both to the plan runner.
#include <chrono>

#include "codegen/exec/plan_runner.h"
#include "codegen/jit/compile.h"
#include "codegen/lower.h"
#include "machine/cpu.h"
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

Compiled compile(const ir::Graph& graph, const std::string& cache_dir, jit::Sizes sizes) {
  const auto start = std::chrono::steady_clock::now();
  codegen::Plan plan = codegen::lower(graph, {.write_into_input = direct_writes(graph),
                                              .cache_bytes = machine::last_level_cache_bytes(),
                                              .guard_pages = machine::guard_pages()});
  const double lower_seconds = seconds_since(start);
  const auto middle = std::chrono::steady_clock::now();
  Code code = compile(plan, cache_dir, sizes);
  return {exec::make_executable(std::move(plan), std::move(code.code),
                                {lower_seconds, seconds_since(middle), code.fresh}),
          code.general};
}

class JitBackend final : public ir::Backend {
 public:
  explicit JitBackend(std::string cache_dir) : cache_dir_(std::move(cache_dir)) {}
  std::string name() const override { return "jit"; }
  std::unique_ptr<ir::Executable> compile(const ir::Graph& graph) const override {
    return runtime::compile(graph, cache_dir_, jit::Sizes::Known).executable;
  }

 private:
  std::string cache_dir_;
};

}  // namespace

std::shared_ptr<const ir::Backend> jit_backend(const std::string& cache_dir) {
  if (!cache_dir.empty()) return std::make_shared<const JitBackend>(cache_dir);
  static const auto& backend = *new auto(std::make_shared<const JitBackend>(std::string()));
  return backend;
}

std::unique_ptr<ir::Executable> compile_for_any_size(const ir::Graph& graph,
                                                     const std::string& cache_dir) {
  Compiled general = compile(graph, cache_dir, jit::Sizes::Open);
  if (general.general_kernels == 0) return std::move(general.executable);
  const auto make_own = [&graph, cache_dir] {
    return compile(graph, cache_dir, jit::Sizes::Own).executable;
  };
  return with_own_code(std::move(general.executable), make_own,
                       seconds_that_pay(general.general_kernels));
}

}  // namespace tandem::runtime
