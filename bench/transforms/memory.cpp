// What the backward of a scan keeps over its length: carries and gates of every step, and
// checkpointed the carries of few, beside the formula. `./dev bench control memory`.
#include <fmt/format.h>
#include <tandem/control_flow.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include <cmath>

namespace td = tandem;
using td::Tensor;

namespace {

constexpr int64_t kBatch = 32, kHidden = 64;
constexpr double kMiB = 1 << 20;

using State = std::pair<Tensor, Tensor>;

/// An LSTM cell over x [steps, batch, hidden]; its inputs' part of the gates within the steps.
Tensor loss_of(const Tensor& x, const Tensor& w_ih, const Tensor& w_hh) {
  const auto body = [&](const State& state, const Tensor& now) {
    const auto gates = td::chunk(td::linear(now, w_ih) + td::linear(state.first, w_hh), 4, -1);
    const Tensor c =
        td::sigmoid(gates[1]) * state.second + td::sigmoid(gates[0]) * td::tanh(gates[2]);
    const Tensor h = td::sigmoid(gates[3]) * td::tanh(c);
    return std::pair(State(h, c), std::tuple<>());
  };
  const Tensor zeros = td::zeros({kBatch, kHidden});
  return td::scan(body, State(zeros, zeros), x).first.first.square().mean();
}

struct Figures {
  double saved, peak;  // bytes: held from forward to backward; with what the halves work in
};

Figures figures(int64_t steps, double budget) {
  td::manual_seed(1);
  const Tensor x = td::randn({steps, kBatch, kHidden});
  const Tensor w_ih = (td::randn({4 * kHidden, kHidden}) * 0.1).requires_grad_();
  const Tensor w_hh = (td::randn({4 * kHidden, kHidden}) * 0.1).requires_grad_();
  const auto f = td::compile(loss_of, {.memory_budget = budget});
  f(x, w_ih, w_hh).backward();
  const td::CompiledGraphs& g = f.graphs(x, w_ih, w_hh);
  const auto saved = static_cast<double>(g.partition.saved_bytes);
  return {saved, saved + static_cast<double>(std::max(g.forward_report.arena_bytes,
                                                      g.backward_report.arena_bytes))};
}

}  // namespace

int main() {
  constexpr double kState = kBatch * kHidden * sizeof(float), kCarry = 2 * kState,
                   kGates = 4 * kState;
  fmt::print("An LSTM cell, batch {}, hidden {}; MiB\n", kBatch, kHidden);
  fmt::print("{:>6} {:>22} {:>10} {:>10} {:>26} {:>10} {:>10}\n", "steps", "carries, gates of all",
             "saved", "peak", "carries of sqrt(steps)", "saved", "peak");
  for (int64_t steps = 64; steps <= 4096; steps *= 4) {
    const Figures all = figures(steps, 1), few = figures(steps, 0);
    fmt::print("{:>6} {:>22.2f} {:>10.2f} {:>10.2f} {:>26.2f} {:>10.2f} {:>10.2f}\n", steps,
               static_cast<double>(steps) * (kCarry + kGates) / kMiB, all.saved / kMiB,
               all.peak / kMiB, std::sqrt(static_cast<double>(steps)) * kCarry / kMiB,
               few.saved / kMiB, few.peak / kMiB);
    std::fflush(stdout);
  }
}
