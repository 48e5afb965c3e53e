// Programs whose compile time grew faster than they do: long chains, of arithmetic and of views,
// parts that are put together, many readers of one value. What is timed is the processor time of a
// first step from cold, forward and backward, less that of a later one, on all threads together;
// each row has a bound, and one of a program of half the length says how it grows.
// `./dev bench compile`
#include <benchmark/benchmark.h>
#include <tandem/tandem.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "bench/clock.h"

namespace td = tandem;
using td::Tensor;

namespace {

/// f(x).backward() of a new compiled function, cold; the bound is for state.range(0) == `full`.
void compile_program(benchmark::State& state, const std::function<Tensor(const Tensor&)>& f,
                     const Tensor& x, int64_t full, double most_seconds) {
  double least = 1e9;
  for (auto _ : state) {
    const auto compiled = td::compile(f);
    const auto step = [&] { td::sum(compiled(x)).backward(); };
    const double first = bench::processor_seconds_of(step);
    const double later = bench::processor_seconds_of(step);
    state.SetIterationTime(std::max(first - later, 0.0));
    least = std::min(least, first - later);
  }
  state.counters["least_s"] = least;
  if (state.range(0) != full) return;
  state.counters["at_most_s"] = most_seconds;
  state.SetLabel(least > most_seconds ? "TOO SLOW" : "within its bound");
}

Tensor leaf(const td::Shape& shape) { return td::randn(shape).requires_grad_(); }

void compile_sines(benchmark::State& state) {
  const auto f = [n = state.range(0)](const Tensor& x) {
    Tensor h = x;
    for (int64_t i = 0; i < n; ++i) h = td::sin(h) + x;
    return h;
  };
  compile_program(state, f, leaf({1000}), 100, 0.3);
}

void compile_transposes(benchmark::State& state) {
  const auto f = [n = state.range(0)](const Tensor& x) {
    Tensor h = x;
    for (int64_t i = 0; i < n; ++i) h = h.t();
    return h * 2;
  };
  compile_program(state, f, leaf({6, 4}), 10000, 0.1);
}

void compile_views(benchmark::State& state) {
  const auto f = [n = state.range(0)](const Tensor& x) {
    Tensor h = x;
    for (int64_t i = 0; i < n; ++i) h = i % 2 ? h.view({4, 6}) : h.view({24});
    return h * 2;
  };
  compile_program(state, f, leaf({4, 6}), 40000, 0.4);
}

/// An LSTM cell unrolled over state.range(0) inputs, its states stacked.
void compile_stacked_cells(benchmark::State& state) {
  constexpr int64_t kBatch = 4, kWidth = 32;
  const Tensor from_input = leaf({kWidth, 4 * kWidth}), from_state = leaf({kWidth, 4 * kWidth});
  const auto f = [&, n = state.range(0)](const Tensor& inputs) {
    Tensor h = td::zeros({kBatch, kWidth}), c = h;
    std::vector<Tensor> states;
    for (int64_t t = 0; t < n; ++t) {
      const Tensor gates = td::matmul(inputs[t], from_input) + td::matmul(h, from_state);
      const auto part = td::chunk(gates, 4, 1);
      c = td::sigmoid(part[1]) * c + td::sigmoid(part[0]) * td::tanh(part[2]);
      h = td::sigmoid(part[3]) * td::tanh(c);
      states.push_back(h);
    }
    return td::stack(states, 0);
  };
  compile_program(state, f, leaf({state.range(0), kBatch, kWidth}), 64, 0.2);
}

void compile_fan_out(benchmark::State& state) {
  const auto f = [n = state.range(0)](const Tensor& x) {
    const Tensor y = td::exp(x);
    Tensor all = y;
    for (int64_t i = 0; i < n; ++i) all = all + y * static_cast<double>(i);
    return all;
  };
  compile_program(state, f, leaf({64}), 5000, 0.5);
}

/// The program in half and in full.
template <int64_t full>
void lengths(benchmark::internal::Benchmark* b) {
  b->Arg(full / 2)->Arg(full)->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(3);
}

BENCHMARK(compile_sines)->Apply(lengths<100>);
BENCHMARK(compile_transposes)->Apply(lengths<10000>);
BENCHMARK(compile_views)->Apply(lengths<40000>);
BENCHMARK(compile_stacked_cells)->Apply(lengths<64>);
BENCHMARK(compile_fan_out)->Apply(lengths<5000>);

}  // namespace
