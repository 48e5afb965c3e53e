// How functionalization grows with the program: writes through many aliases of one tensor that are
// all read again later. Times per write should not depend on the number of writes.
#include "functionalize/functionalize.h"

#include <benchmark/benchmark.h>

#include "ir/build/builder.h"

namespace tandem {
namespace {

using ir::ValueId;

constexpr int kAliases = 100;

/// `writes` in-place additions to a [100, 8] argument: each through one of its 100 rows (or through
/// a chain of views of it), of another row.
ir::Graph writes_through_aliases(int64_t writes, int chain) {
  ir::Graph graph("writes", ir::Level::Traced);
  ir::GraphSink sink(graph);
  ir::Builder b(sink);
  ir::Input input;
  input.name = "x";
  input.strides = {8, 1};
  const ValueId x = graph.add_input(input, {ir::DType::F32, {kAliases, 8}});
  std::vector<ValueId> rows;
  for (int i = 0; i < kAliases; ++i) {
    rows.push_back(b.select(x, 0, i));
    for (int k = 0; k < chain; ++k)
      rows.back() = b.view(rows.back(), {k % 2 ? 8 : 2, k % 2 ? 1 : 4});
    if (chain > 0) rows.back() = b.view(rows.back(), {8});
  }
  for (int64_t i = 0; i < writes; ++i)
    b.pointwise_in_place(ir::Op::add, {rows[i % kAliases], rows[(i * 37 + 11) % kAliases]});
  ir::Output output;
  output.name = "out";
  output.value = b.sum(x);
  graph.add_output(output);
  return graph;
}

void functionalize_writes(benchmark::State& state) {
  const ir::Graph traced = writes_through_aliases(state.range(0), static_cast<int>(state.range(1)));
  for (auto _ : state) benchmark::DoNotOptimize(functionalize::functionalize(traced));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(functionalize_writes)
    ->ArgNames({"writes", "chain"})
    ->Args({10000, 0})
    ->Args({20000, 0})
    ->Args({10000, 8})
    ->Args({20000, 8})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tandem
