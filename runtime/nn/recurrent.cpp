#include <tandem/autocast.h>
#include <tandem/control_flow.h>
#include <tandem/nn/recurrent.h>

#include <algorithm>

#include "runtime/nn/layer.h"
#include "runtime/trace/trace.h"

namespace tandem::nn {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  ir::fail(Errc::Argument, fmt::format("{}: {}", ir::ErrorScope::function(), what));
}

/// The weights of one direction of one layer, or of a cell; biases and w_hr may be undefined.
struct Weights {
  const Tensor &w_ih, &w_hh, &b_ih, &b_hh, &w_hr;
};

/// What is carried from step to step; c: of LSTMs.
struct State {
  Tensor h, c;
};

/// A step of a kind of cell, from its input's part of the gates.
using Step = State (*)(const Tensor& gates, const State& state, const Weights& w,
                       const SourceLocation& at);

template <bool rectified>
State rnn_step(const Tensor& gates, const State& state, const Weights& w,
               const SourceLocation& at) {
  const Tensor sum = add({gates, at}, {linear(state.h, w.w_hh, w.b_hh, at), at});
  return {rectified ? relu(sum, at) : tanh(sum, at), {}};
}

State gru_step(const Tensor& gates, const State& state, const Weights& w,
               const SourceLocation& at) {
  const auto of_input = chunk(gates, 3, -1, at);
  const auto of_state = chunk(linear(state.h, w.w_hh, w.b_hh, at), 3, -1, at);
  const auto gate = [&](int i) { return sigmoid(add({of_input[i], at}, {of_state[i], at}), at); };
  const Tensor reset = gate(0), update = gate(1);
  const Tensor kept = mul({reset, at}, {of_state[2], at});
  const Tensor next = tanh(add({of_input[2], at}, {kept, at}), at);
  const Tensor change = mul({update, at}, {sub({state.h, at}, {next, at}), at});
  return {add({next, at}, {change, at}), {}};
}

State lstm_step(const Tensor& gates, const State& state, const Weights& w,
                const SourceLocation& at) {
  const Tensor sum = add({gates, at}, {linear(state.h, w.w_hh, w.b_hh, at), at});
  const auto parts = chunk(sum, 4, -1, at);
  const Tensor input = sigmoid(parts[0], at), forget = sigmoid(parts[1], at),
               cell = tanh(parts[2], at), output = sigmoid(parts[3], at);
  const Tensor kept = mul({forget, at}, {state.c, at}), added = mul({input, at}, {cell, at});
  const Tensor c = add({kept, at}, {added, at});
  const Tensor h = mul({output, at}, {tanh(c, at), at});
  return {w.w_hr.defined() ? linear(h, w.w_hr, {}, at) : h, c};
}

Step rnn_step_of(const std::string& nonlinearity) {
  return nonlinearity == "relu" ? rnn_step<true> : rnn_step<false>;
}

void require_nonlinearity(std::string_view name) {
  if (!name.empty() && name != "tanh" && name != "relu")
    refuse(fmt::format("unknown nonlinearity; expected tanh or relu, got {}", name));
}

void require_options(Dim input_size, const RecurrentOptions& o, Dim hidden_size) {
  if (input_size < 0 || hidden_size < 1)
    refuse(fmt::format("expected sizes of at least 0 and 1, got {} and {}", int64_t{input_size},
                       int64_t{hidden_size}));
  if (o.num_layers < 1) refuse(fmt::format("expected at least 1 layer, got {}", o.num_layers));
  if (!(o.dropout >= 0 && o.dropout <= 1))
    refuse(fmt::format("expected a probability as dropout, got {}", o.dropout));
  if (o.proj_size < 0 || o.proj_size >= hidden_size)
    refuse(fmt::format("proj_size out of range; expected 0 to {}, got {}", int64_t{hidden_size} - 1,
                       o.proj_size));
  require_nonlinearity(o.nonlinearity);
}

void require_no_nonlinearity(std::string_view name) {
  if (!name.empty()) refuse(fmt::format("nonlinearity is of RNN; expected none, got {}", name));
}

void require_no_projection(int64_t proj_size) {
  if (proj_size != 0) refuse(fmt::format("proj_size is of LSTM; expected 0, got {}", proj_size));
}

int directions(const Recurrent& r) { return r.bidirectional ? 2 : 1; }
int64_t out_size(const Recurrent& r) { return r.proj_size > 0 ? r.proj_size : r.hidden_size; }

/// Weights in PyTorch's order. `gates`: how many times hidden_size the weights have.
void make(Recurrent& r, int gates, Dim input_size, Dim hidden_size, const RecurrentOptions& o) {
  require_options(input_size, o, hidden_size);
  r.input_size = input_size, r.hidden_size = hidden_size;
  r.num_layers = o.num_layers, r.proj_size = o.proj_size;
  if (!o.nonlinearity.empty()) r.nonlinearity = o.nonlinearity;
  r.bias = o.bias, r.batch_first = o.batch_first, r.bidirectional = o.bidirectional;
  r.dropout = o.dropout;
  const double bound = bound_of(hidden_size);
  for (int64_t layer = 0; layer < r.num_layers; ++layer)
    for (int direction = 0; direction < directions(r); ++direction) {
      const auto add = [&](const char* name, const Shape& sizes) {
        r.weights.list.emplace_back(
            fmt::format("{}_l{}{}", name, layer, direction == 1 ? "_reverse" : ""),
            uniform_parameter(sizes, bound, o.dtype));
      };
      const Dim rows = gates * hidden_size;
      const Dim in = layer == 0 ? r.input_size : directions(r) * out_size(r);
      add("weight_ih", {rows, in});
      add("weight_hh", {rows, out_size(r)});
      if (o.bias) add("bias_ih", {rows}), add("bias_hh", {rows});
      if (o.proj_size > 0) add("weight_hr", {o.proj_size, hidden_size});
    }
}

/// Of direction number `i`, counted over the layers.
Weights weights_of(const Recurrent& r, size_t i) {
  static const Tensor& none = *new const Tensor;  // exit destroys nothing
  const size_t each = 2 + (r.bias ? 2 : 0) + (r.proj_size > 0 ? 1 : 0), first = i * each;
  const auto at = [&](size_t k) -> const Tensor& { return r.weights.list[first + k].second; };
  return {at(0), at(1), r.bias ? at(2) : none, r.bias ? at(3) : none,
          r.proj_size > 0 ? at(each - 1) : none};
}

/// From how many steps on a compiled function has a loop instead of every step.
constexpr int64_t kLoopSteps = 8;

/// (Under autocast, where the state changes its dtype on the way, each step is written out.)
bool takes_loop(int64_t steps) {
  return steps >= kLoopSteps && runtime::Trace::current() != nullptr && !autocast_enabled();
}

/// The outputs [t, n, out] for the inputs' part of the gates [t, n, gates hidden], and the last
/// state.
std::pair<Tensor, State> run_loop(const Tensor& gates, const State& state, const Weights& w,
                                  bool reverse, Step step, const SourceLocation& at) {
  using Carry = std::pair<Tensor, Tensor>;
  const auto body = [&](const Carry& carry, const Tensor& now) {
    const State next = step(now, {carry.first, carry.second}, w, at);
    return std::pair(Carry(next.h, next.c), next.h);
  };
  auto [last, outputs] = scan(body, Carry(state.h, state.c), gates, {.reverse = reverse});
  return {std::move(outputs), State{last.first, last.second}};
}

std::pair<Tensor, State> run_steps(const Tensor& all, const State& first, const Weights& w,
                                   bool reverse, Step step, const SourceLocation& at) {
  const auto gates = unbind(all, 0, at);
  State state = first;
  std::vector<Tensor> outputs(gates.size());
  for (size_t i = 0; i < gates.size(); ++i) {
    const size_t t = reverse ? gates.size() - 1 - i : i;
    state = step(gates[t], state, w, at);
    outputs[t] = state.h;
  }
  return {stack(outputs, 0, at), state};
}

/// One direction over x [t, n, in]: its outputs [t, n, out], and the last state.
std::pair<Tensor, State> run(const Tensor& x, const State& state, const Weights& w, bool reverse,
                             Step step, const SourceLocation& at) {
  const Tensor gates = linear(x, w.w_ih, w.b_ih, at);
  return (takes_loop(gates.size(0)) ? run_loop : run_steps)(gates, state, w, reverse, step, at);
}

/// x as [t, n, in].
Tensor time_first(const Recurrent& r, const Tensor& x, const SourceLocation& at) {
  require_rank(x, 2, 3);
  if (x.size(-1) != r.input_size)
    ir::fail(Errc::Shape,
             fmt::format("{}: the input's last size does not fit; expected {}, got {}",
                         ir::ErrorScope::function(), r.input_size, to_string(x.sizes())));
  const Tensor batched = x.dim() == 2    ? x.unsqueeze(1, at)
                         : r.batch_first ? x.transpose(0, 1, at)
                                         : x;
  if (batched.size(0) == 0)
    ir::fail(Errc::Shape, fmt::format("{}: expected at least one step, got {}",
                                      ir::ErrorScope::function(), to_string(x.sizes())));
  return batched;
}

/// A state as it is given, or zeros: [layers directions, n, size].
Tensor first_state(const Recurrent& r, const Tensor& given, const Tensor& x, bool single,
                   int64_t size, const SourceLocation& at) {
  const Dim count = r.num_layers * directions(r), n = x.size(1);
  if (!given.defined()) return zeros({count, n, size}, x.dtype(), at);
  const Shape expected = single ? Shape{count, size} : Shape{count, n, size};
  if (given.sizes() != expected)
    ir::fail(Errc::Shape, fmt::format("{}: the state does not fit; expected {}, got {}",
                                      ir::ErrorScope::function(), to_string(expected),
                                      to_string(given.sizes())));
  return single ? given.unsqueeze(1, at) : given;
}

/// All layers. `carries_c`: there is a second state, of hidden_size.
LstmResult run_layers(const Recurrent& r, const Tensor& given, const LstmState& from, Step step,
                      bool carries_c, const SourceLocation& at) {
  const bool single = given.defined() && given.dim() == 2;
  Tensor x = time_first(r, given, at);
  const auto h = unbind(first_state(r, from.h, x, single, out_size(r), at), 0, at);
  std::vector<Tensor> c(h.size());
  if (carries_c) c = unbind(first_state(r, from.c, x, single, r.hidden_size, at), 0, at);
  std::vector<Tensor> last_h, last_c;
  for (int64_t layer = 0; layer < r.num_layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int direction = 0; direction < directions(r); ++direction) {
      const size_t i = static_cast<size_t>(layer) * directions(r) + direction;
      auto [output, state] = run(x, {h[i], c[i]}, weights_of(r, i), direction == 1, step, at);
      outputs.push_back(output);
      last_h.push_back(state.h), last_c.push_back(state.c);
    }
    x = outputs.size() == 1 ? outputs[0] : cat(outputs, -1, at);
    if (layer + 1 < r.num_layers) x = tandem::dropout(x, r.dropout, r.training, at);
  }
  LstmResult out{x, {stack(last_h, 0, at), carries_c ? stack(last_c, 0, at) : Tensor()}};
  if (!single) {
    if (r.batch_first) out.output = x.transpose(0, 1, at);
    return out;
  }
  for (Tensor* t : {&out.output, &out.state.h, &out.state.c})
    if (t->defined()) *t = t->squeeze(1, at);
  return out;
}

RecurrentResult without_c(const LstmResult& result) { return {result.output, result.state.h}; }

void make(Cell& cell, int gates, Dim input_size, Dim hidden_size, const CellOptions& o) {
  require_nonlinearity(o.nonlinearity);
  if (!o.nonlinearity.empty()) cell.nonlinearity = o.nonlinearity;
  const double bound = bound_of(hidden_size);
  const Dim rows = gates * hidden_size;
  cell.weight_ih = uniform_parameter({rows, input_size}, bound, o.dtype);
  cell.weight_hh = uniform_parameter({rows, hidden_size}, bound, o.dtype);
  if (!o.bias) return;
  cell.bias_ih = uniform_parameter({rows}, bound, o.dtype);
  cell.bias_hh = uniform_parameter({rows}, bound, o.dtype);
}

State step_of(const Cell& cell, const Tensor& x, const State& from, Step step, bool carries_c,
              const SourceLocation& at) {
  require_rank(x, 1, 2);
  const Tensor gates = linear(x, cell.weight_ih, cell.bias_ih, at);
  Shape sizes = x.sizes();
  sizes[sizes.rank() - 1] = cell.weight_hh.size(1);
  const auto state = [&](const Tensor& given) {
    if (!given.defined()) return zeros(sizes, x.dtype(), at);
    if (given.sizes() != sizes)
      ir::fail(Errc::Shape,
               fmt::format("{}: the state does not fit; expected {}, got {}",
                           ir::ErrorScope::function(), to_string(sizes), to_string(given.sizes())));
    return given;
  };
  const Tensor none;
  return step(gates, {state(from.h), carries_c ? state(from.c) : none},
              {cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh, none}, at);
}

}  // namespace

void NamedWeights::tandem_list(structure::Fields& out, const std::string* path) const {
  for (const auto& [name, tensor] : list)
    out.push_back({.kind = structure::FieldKind::Tensor,
                   .path = path == nullptr ? std::string() : structure::join(*path, name),
                   .value = const_cast<Tensor*>(&tensor)});
}

const std::type_info& NamedWeights::tandem_type() const { return typeid(NamedWeights); }

const Tensor& Recurrent::weight(std::string_view name, SourceLocation at) const {
  const ir::ErrorScope errors(at);
  const auto found = std::ranges::find(weights.list, name, [](const auto& w) { return w.first; });
  if (found == weights.list.end())
    ir::fail(Errc::Argument, fmt::format("weight: no weight of this name; expected one as {}, "
                                         "got {}",
                                         weights.list.empty() ? "" : weights.list[0].first, name));
  return found->second;
}

RNN::RNN(Dim in, Dim hidden, const RecurrentOptions& options, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require_no_projection(options.proj_size);
  make(*this, 1, in, hidden, options);
}

RecurrentResult RNN::operator()(const Tensor& x, const Tensor& state, SourceLocation at) const {
  const ir::ErrorScope errors(at, "RNN");
  return without_c(run_layers(*this, x, {state, {}}, rnn_step_of(nonlinearity), false, at));
}

GRU::GRU(Dim in, Dim hidden, const RecurrentOptions& options, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require_no_projection(options.proj_size);
  require_no_nonlinearity(options.nonlinearity);
  make(*this, 3, in, hidden, options);
}

RecurrentResult GRU::operator()(const Tensor& x, const Tensor& state, SourceLocation at) const {
  const ir::ErrorScope errors(at, "GRU");
  return without_c(run_layers(*this, x, {state, {}}, gru_step, false, at));
}

LSTM::LSTM(Dim in, Dim hidden, const RecurrentOptions& options, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require_no_nonlinearity(options.nonlinearity);
  make(*this, 4, in, hidden, options);
}

LstmResult LSTM::operator()(const Tensor& x, const LstmState& state, SourceLocation at) const {
  const ir::ErrorScope errors(at, "LSTM");
  return run_layers(*this, x, state, lstm_step, true, at);
}

RNNCell::RNNCell(Dim in, Dim hidden, const CellOptions& options, SourceLocation at) {
  const ir::ErrorScope errors(at);
  make(*this, 1, in, hidden, options);
}

Tensor RNNCell::operator()(const Tensor& x, const Tensor& state, SourceLocation at) const {
  const ir::ErrorScope errors(at, "RNNCell");
  return step_of(*this, x, {state, {}}, rnn_step_of(nonlinearity), false, at).h;
}

GRUCell::GRUCell(Dim in, Dim hidden, const CellOptions& options, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require_no_nonlinearity(options.nonlinearity);
  make(*this, 3, in, hidden, options);
}

Tensor GRUCell::operator()(const Tensor& x, const Tensor& state, SourceLocation at) const {
  const ir::ErrorScope errors(at, "GRUCell");
  return step_of(*this, x, {state, {}}, gru_step, false, at).h;
}

LSTMCell::LSTMCell(Dim in, Dim hidden, const CellOptions& options, SourceLocation at) {
  const ir::ErrorScope errors(at);
  require_no_nonlinearity(options.nonlinearity);
  make(*this, 4, in, hidden, options);
}

LstmState LSTMCell::operator()(const Tensor& x, const LstmState& state, SourceLocation at) const {
  const ir::ErrorScope errors(at, "LSTMCell");
  const State next = step_of(*this, x, {state.h, state.c}, lstm_step, true, at);
  return {next.h, next.c};
}

}  // namespace tandem::nn
