// How compile time grows with the program: `layers` transformer blocks, of one width (each kernel
// is compiled once, whatever their number) or each of a width of its own (nothing is shared). What
// is timed is what a first step from cold takes longer than a later one: trace, pipeline, machine
// code of both halves. What else runs on the machine only ever adds to a step, so the fastest of
// many first steps less the fastest later one (least_ms) is what two commits, or two numbers of
// layers, compare by. On one thread that is all the work there is; on more, machine code (which
// identical layers share) is made on all of them, and what each layer adds to the pipeline is not.
// `./dev bench compile`
#include <benchmark/benchmark.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <vector>

#include "bench/clock.h"

namespace td = tandem;
using td::Tensor;

namespace {

constexpr int64_t kBatch = 2, kTime = 16, kHeads = 2;

/// Pre-norm attention and MLP, in and out of `width` channels.
struct Block {
  td::nn::LayerNorm norm1, norm2;
  td::nn::Linear in, qkv, proj, up, down, out;
  TANDEM_FIELDS(Block, norm1, norm2, in, qkv, proj, up, down, out)

  Block(int64_t channels, int64_t width)
      : norm1(width),
        norm2(width),
        in(channels, width),
        qkv(width, 3 * width),
        proj(width, width),
        up(width, 4 * width),
        down(4 * width, width),
        out(width, channels) {}

  Tensor attention(const Tensor& x) const {
    const td::Dim width = x.size(2);
    const auto parts = td::split(qkv(x), width, 2);
    const auto heads = [&](const Tensor& t) {
      return t.view({kBatch, kTime, kHeads, width / kHeads}).transpose(1, 2);
    };
    const Tensor y = td::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]),
                                                      heads(parts[2]), {}, true);
    return proj(y.transpose(1, 2).reshape({kBatch, kTime, width}));
  }

  Tensor operator()(const Tensor& input) const {
    Tensor x = in(input);
    x = x + attention(norm1(x));
    x = x + down(td::gelu(up(norm2(x)), "tanh"));
    return input + out(x);
  }
};

/// `layers` blocks, the i-th `growth` * i channels wider than the first, on so many threads.
void compile_layers(benchmark::State& state, int64_t growth) {
  constexpr int64_t kChannels = 32;
  const int threads = td::num_threads();
  td::set_num_threads(static_cast<int>(state.range(1)));
  std::vector<Block> blocks;
  for (int64_t i = 0; i < state.range(0); ++i)
    blocks.emplace_back(kChannels, kChannels + growth * i);
  const Tensor x = td::randn({kBatch, kTime, kChannels});
  double least_first = 1e9, least_later = 1e9;
  int kernels = 0, distinct = 0;
  for (auto _ : state) {
    const auto loss_of = td::compile([](const std::vector<Block>& all, const Tensor& input) {
      Tensor y = input;
      for (const Block& block : all) y = block(y);
      return td::mean(td::square(y));
    });
    const auto step = [&] { loss_of(blocks, x).backward(); };
    const double first = bench::seconds_of(step);
    double later = 1e9;
    for (int i = 0; i < 3; ++i) later = std::min(later, bench::seconds_of(step));
    state.SetIterationTime(first - later);
    least_first = std::min(least_first, first);
    least_later = std::min(least_later, later);
    const td::CompiledGraphs& graphs = *td::compiled_graphs().back();
    kernels = graphs.forward_report.kernels + graphs.backward_report.kernels;
    distinct = graphs.forward_report.distinct_kernels + graphs.backward_report.distinct_kernels;
  }
  td::set_num_threads(threads);
  state.counters["kernels"] = kernels;
  state.counters["distinct"] = distinct;
  state.counters["least_ms"] = (least_first - least_later) * 1e3;
  state.counters["step_ms"] = least_later * 1e3;
}

void compile_identical_layers(benchmark::State& state) { compile_layers(state, 0); }
void compile_distinct_layers(benchmark::State& state) { compile_layers(state, 4); }

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"layers", "threads"});
  for (const int threads : {td::num_threads(), 1})
    for (const int layers : {1, 2, 4, 12}) b->Args({layers, threads});
  b->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(30);
}

BENCHMARK(compile_identical_layers)->Apply(sizes);
BENCHMARK(compile_distinct_layers)->Apply(sizes);

}  // namespace
