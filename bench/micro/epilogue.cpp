// What it saves that kernels store into written inputs themselves: an in-place SGD step over a
// parameter list, with the epilogue that copies and without. `./dev bench epilogue`
#include <benchmark/benchmark.h>
#include <tandem/graph.h>

#include "codegen/exec/plan_runner.h"
#include "codegen/jit/compile.h"
#include "codegen/lower.h"
#include "runtime/backends/backends.h"

namespace td = tandem;

namespace {

/// The JIT with every write left to the epilogue.
class CopyingJit final : public td::Backend {
 public:
  std::string name() const override { return "copying jit"; }
  std::unique_ptr<td::Executable> compile(const td::Graph& graph) const override {
    td::codegen::Plan plan = td::codegen::lower(graph);
    td::jit::CompiledKernels kernels = td::jit::compile_kernels(plan.kernels);
    return td::exec::make_executable(std::move(plan),
                                     {std::move(kernels.functions), std::move(kernels.owner),
                                      std::move(kernels.numbers), std::move(kernels.params)},
                                     {});
  }
};

struct Step {
  std::vector<td::Tensor> parameters, gradients;
  TANDEM_FIELDS(Step, parameters, gradients)
};

/// `count` parameters of `elements` each.
void sgd_step(benchmark::State& state, std::shared_ptr<const td::Backend> backend) {
  const int64_t count = state.range(0), elements = state.range(1);
  Step step;
  for (int64_t i = 0; i < count; ++i) {
    step.parameters.push_back(td::randn({elements}));
    step.gradients.push_back(td::randn({elements}));
  }
  const auto update = td::compile(
      [](const Step& s) {
        const td::NoGrad no_grad;
        for (size_t i = 0; i < s.parameters.size(); ++i)
          s.parameters[i].sub_(s.gradients[i] * 0.01);
      },
      {.backend = std::move(backend)});
  update(step);
  for (auto _ : state) update(step);
  state.SetBytesProcessed(state.iterations() * count * elements * 12);  // 2 reads, 1 write
}

void sgd_stores_directly(benchmark::State& state) { sgd_step(state, td::runtime::jit_backend()); }
void sgd_through_a_copy(benchmark::State& state) {
  sgd_step(state, std::make_shared<CopyingJit>());
}

void sizes(benchmark::internal::Benchmark* b) { b->Args({64, 1024})->Args({64, 65536}); }

BENCHMARK(sgd_stores_directly)->Apply(sizes)->UseRealTime();
BENCHMARK(sgd_through_a_copy)->Apply(sizes)->UseRealTime();

}  // namespace
