// Recurrent layers and their cells.
#include <tandem/graph.h>

#include "tests/support/check_compiled.h"
#include "tests/training/layers/layer_training.h"

namespace tandem::testing {
namespace {

using nn::GRU, nn::LSTM, nn::RNN;

/// Output and last state in one, from a state among the inputs or from none.
template <class Layer>
LayerCase recurrent(const std::string& name, const Layer& layer, Tensors inputs) {
  const auto call = [](const Layer& l, const Tensors& x) {
    if constexpr (std::is_same_v<Layer, LSTM>) {
      const auto [output, state] = x.size() > 1 ? l(x[0], {x[1], x[2]}) : l(x[0]);
      return cat({output.flatten(), state.h.flatten(), state.c.flatten()});
    } else {
      const auto [output, state] = x.size() > 1 ? l(x[0], x[1]) : l(x[0]);
      return cat({output.flatten(), state.flatten()});
    }
  };
  return {name, [=] { return any_layer(nn::clone(layer), call); }, std::move(inputs)};
}

std::vector<LayerCase> recurrent_cases() {
  const Tensor x = wave({4, 2, 3});
  return {
      recurrent("rnn", RNN(3, 5, {.dtype = f64}), {x}),
      recurrent("rnn_relu",
                RNN(3, 2, {.num_layers = 2, .nonlinearity = "relu", .bias = false, .dtype = f64}),
                {x, wave({2, 2, 2})}),
      recurrent("rnn_both_ways", RNN(3, 2, {.bidirectional = true, .dtype = f64}),
                {x, wave({2, 2, 2})}),
      recurrent("gru", GRU(3, 4, {.dtype = f64}), {x}),
      recurrent(
          "gru_two",
          GRU(3, 2, {.num_layers = 2, .batch_first = true, .bidirectional = true, .dtype = f64}),
          {x, wave({4, 4, 2})}),
      recurrent("gru_one", GRU(3, 2, {.dtype = f64}), {wave({4, 3}), wave({1, 2})}),
      recurrent("lstm", LSTM(3, 4, {.dtype = f64}), {x}),
      recurrent(
          "lstm_two",
          LSTM(3, 2, {.num_layers = 2, .batch_first = true, .bidirectional = true, .dtype = f64}),
          {x, wave({4, 4, 2}), wave({4, 4, 2}, 1)}),
      recurrent("lstm_projected",
                LSTM(3, 5,
                     {.num_layers = 2,
                      .bias = false,
                      .bidirectional = true,
                      .proj_size = 2,
                      .dtype = f64}),
                {x, wave({4, 2, 2}), wave({4, 2, 5}, 1)}),
      recurrent("lstm_one", LSTM(3, 2, {.dtype = f64}), {wave({4, 3})}),
  };
}
TANDEM_LAYER_CASES(RecurrentLayers, recurrent_cases)

/// The result, and the gradients of everything.
Tensors result_and_gradients(const AnyLayer& layer, const Tensors& given, bool compiled) {
  Tensors leaves;
  for (const Tensor& t : given) leaves.push_back(t.detach().clone().requires_grad_());
  const auto forward = [&](const Tensors& x) { return layer.forward(x); };
  const Tensor y = compiled ? compile(forward)(leaves) : forward(leaves);
  for (const auto& [name, t] : layer.tensors) leaves.push_back(t);
  Tensors all = grad({(y * wave(y.sizes())).sum()}, leaves);
  all.push_back(y.detach());
  return all;
}

/// So many steps that a compiled function has a loop.
TEST(RecurrentLayers, LoopsAreTheSteps) {
  const Tensor x = wave({9, 2, 3});
  const std::vector<LayerCase> cases = {
      recurrent("rnn", RNN(3, 2, {.num_layers = 2, .nonlinearity = "relu", .dtype = f64}),
                {x, wave({2, 2, 2})}),
      recurrent("gru", GRU(3, 2, {.batch_first = true, .bidirectional = true, .dtype = f64}),
                {wave({2, 9, 3})}),
      recurrent("lstm", LSTM(3, 2, {.num_layers = 2, .bidirectional = true, .dtype = f64}),
                {x, wave({4, 2, 2}), wave({4, 2, 2}, 1)}),
      recurrent("lstm_projected", LSTM(3, 5, {.bias = false, .proj_size = 2, .dtype = f64}),
                {x, wave({1, 2, 2}), wave({1, 2, 5}, 1)}),
      recurrent("lstm_one", LSTM(3, 2, {.dtype = f64}), {wave({9, 3})}),
  };
  for (const LayerCase& c : cases) {
    const AnyLayer layer = c.make();
    const Tensors expected = result_and_gradients(layer, c.inputs, false),
                  got = result_and_gradients(layer, c.inputs, true);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(got[i].allclose(expected[i], 1e-11, 1e-12)) << c.name << " " << i;
  }
}

std::vector<LayerCase> cell_cases() {
  const auto with_state = [](const auto& cell, const Tensors& x) { return cell(x[0], x[1]); };
  return {
      {"rnn_cell",
       [=] { return any_layer(nn::RNNCell(3, 4, {.dtype = f64}), with_state); },
       {wave({2, 3}), wave({2, 4})}},
      {"gru_cell",
       [=] { return any_layer(nn::GRUCell(3, 4, {.dtype = f64}), with_state); },
       {wave({3}), wave({4})}},
      {"gru_cell_zero",
       [] { return any_layer(nn::GRUCell(3, 4, {.bias = false, .dtype = f64})); },
       {wave({2, 3})}},
      {"lstm_cell",
       [] {
         return any_layer(nn::LSTMCell(3, 4, {.dtype = f64}),
                          [](const auto& cell, const Tensors& x) {
                            const auto [h, c] = cell(x[0], {x[1], x[2]});
                            return cat({h, c});
                          });
       },
       {wave({2, 3}), wave({2, 4}), wave({2, 4}, 1)}},
  };
}
TANDEM_LAYER_CASES(RecurrentCells, cell_cases)

TEST(RecurrentLayers, WeightsByName) {
  const LSTM lstm(3, 4, {.num_layers = 2, .bidirectional = true});
  EXPECT_EQ(lstm.weight("weight_ih_l1_reverse").sizes(), (Shape{16, 8}));
  const auto named = nn::named_tensors(lstm);
  ASSERT_EQ(named.size(), 16u);
  EXPECT_EQ(named[0].first, "weight_ih_l0");
  EXPECT_EQ(named[4].first, "weight_ih_l0_reverse");
  EXPECT_LE(named[0].second.abs().max().item(), 0.5);
}

struct Tagger {
  nn::Embedding words{10, 4};
  LSTM lstm{4, 6};
  TANDEM_FIELDS(Tagger, words, lstm)
};

TEST(RecurrentLayers, NamesInAModel) {
  const auto named = nn::named_tensors(Tagger());
  EXPECT_EQ(named[1].first, "lstm.weight_ih_l0");
  EXPECT_EQ(nn::parameters(Tagger()).size(), 5u);
}

TEST(RecurrentLayers, DropBetweenLayersInTraining) {
  LSTM lstm(3, 4, {.num_layers = 2, .dropout = 0.5});
  const Tensor x = wave({4, 2, 3}).to(f32);
  EXPECT_FALSE(lstm(x).output.equal(lstm(x).output));
  const auto f = compile([](const LSTM& l, const Tensor& t) { return l(t).output; });
  manual_seed(1);
  const Tensor eager = lstm(x).output;
  manual_seed(1);
  EXPECT_TRUE(f(lstm, x).allclose(eager, 1e-5, 1e-6));
  lstm.training = false;
  EXPECT_TRUE(lstm(x).output.equal(lstm(x).output));
  EXPECT_TRUE(f(lstm, x).allclose(lstm(x).output, 1e-5, 1e-6));
}

/// How many kernels had to be made for a training step over this many time steps.
int new_kernels(const LSTM& lstm, Dim length) {
  const auto f = compile([](const LSTM& l, const Tensor& x) { return l(x).output.square().sum(); });
  const Tensor x = wave({length, 16, 5}).to(f32);
  f(lstm, x).backward();
  const CompiledGraphs& graphs = f.graphs(lstm, x);
  return graphs.forward_report.new_kernels + graphs.backward_report.new_kernels;
}

TEST(RecurrentLayers, KernelsAreMadeOnceWhateverTheLength) {
  const LSTM small(5, 7), large(5, 7);
  const int of_16 = new_kernels(small, 16), of_64 = new_kernels(large, 64);
  EXPECT_LE(of_64, of_16);
}

TEST(RecurrentLayers, GraphsAreOfOneSizeWhateverTheLength) {
  const LSTM lstm(5, 7);
  const auto f = compile([](const LSTM& l, const Tensor& x) { return l(x).output.square().sum(); });
  const auto equations = [&](Dim length) {
    const CompiledGraphs& graphs = f.graphs(lstm, wave({length, 16, 5}).to(f32));
    return graphs.core.num_equations();
  };
  EXPECT_EQ(equations(512), equations(16));
}

/// Per-sample gradients, and the derivative along a tangent of x, of a loss of a layer's outputs.
struct Transformed {
  using Layer = std::function<Tensor(const Tensor& x, const Tensor& w)>;  // w: the first weight
  Layer layer;

  Tensor per_sample(const Tensor& xs, const Tensor& w) const {
    const auto gradient = grad(
        [this](const Tensor& weight, const Tensor& x) { return layer(x, weight).square().sum(); });
    return vmap([&](const Tensor& x) { return gradient(w, x); }, {.in_dims = {1}})(xs);
  }
  Tensor along(const Tensor& xs, const Tensor& w) const {
    return jvp([&](const Tensor& x) { return layer(x, w); }, xs, ones_like(xs)).tangent;
  }
};

TEST(RecurrentLayers, LoopsInsideVmapAndForwardMode) {
  const LSTM lstm(3, 4, {.dtype = f64});
  const GRU gru(3, 4, {.bidirectional = true, .dtype = f64});
  const auto layer_of = [](const auto& recurrent) {
    return Transformed{[&recurrent](const Tensor& x, const Tensor& w) {
      auto own = recurrent;
      own.weights.list[0].second = w;
      return own(x).output;
    }};
  };
  const auto check = [&](const Transformed& t, const Tensor& w) {
    for (const auto& method : {&Transformed::per_sample, &Transformed::along}) {
      const auto fn = [&](const Tensor& x, const Tensor& weight) { return (t.*method)(x, weight); };
      const auto compiled = compile(fn);
      const Tensor x = wave({12, 3, 3});
      expect_close(fn(x, w), compiled(x, w), 1e-11, "compiled");
      const auto equations = [&](Dim length) {
        const Tensor longer = wave({length, 3, 3});
        compiled(longer, w);
        return compiled.graphs(longer, w).core.num_equations();
      };
      EXPECT_EQ(equations(64), equations(16));
    }
  };
  check(layer_of(lstm), lstm.weight("weight_ih_l0").detach());
  check(layer_of(gru), gru.weight("weight_ih_l0").detach());
}

TEST(RecurrentLayers, LoopsDrawAndRunUnderAutocast) {
  LSTM lstm(3, 4, {.num_layers = 2, .dropout = 0.5});
  const Tensor x = wave({12, 2, 3}).to(f32);
  const auto plain = [](const LSTM& l, const Tensor& t) { return l(t).output; };
  const auto low = [](const LSTM& l, const Tensor& t) {
    const Autocast region(bf16);
    return l(t).output;
  };
  const auto check = [&](const auto& fn, double tolerance) {
    manual_seed(1);
    const Tensor eager = fn(lstm, x);
    manual_seed(1);
    EXPECT_TRUE(compile(fn)(lstm, x).allclose(eager, tolerance, tolerance));
  };
  check(plain, 1e-5);
  check(low, 2e-2);
}

}  // namespace
}  // namespace tandem::testing
