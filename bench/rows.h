// How a workload is made of a function of its parameters and data, for the files that have some.
#ifndef TANDEM_BENCH_ROWS_H
#define TANDEM_BENCH_ROWS_H

#include <memory>
#include <span>
#include <utility>

#include "bench/workloads.h"

namespace bench {

namespace td = tandem;
using td::Tensor;
using Parameters = std::map<std::string, Tensor>;

struct Row {
  const char* name;
  Workload (*make)(const Data&);
  Workload (*make_whole)(const Data&, bool compiled) = nullptr;
};

/// Layers and blocks, measured alone or as networks (models.cpp).
std::span<const Row> model_rows();

/// Whole networks of other kinds (networks.cpp).
std::span<const Row> network_rows();

/// Attention with biases, dense predictions, volumes, and what is no network (science.cpp).
std::span<const Row> science_rows();

/// The tensors named p.*, requiring gradients, without the prefix.
inline Parameters trained(const Data& data) {
  Parameters p;
  for (const auto& [name, tensor] : data)
    if (name.starts_with("p.")) p.emplace(name.substr(2), tensor.requires_grad_());
  return p;
}

inline std::vector<Tensor> values(const Parameters& p) {
  std::vector<Tensor> out;
  for (const auto& [name, tensor] : p) out.push_back(tensor);
  return out;
}

inline double mean_abs(const Tensor& t) {
  const td::NoGrad no_grad;
  return td::mean(td::abs(t)).item();
}

/// Forward and backward of `fn(parameters, data)`; a tensor result is weighted by the tangent "g".
template <class Fn>
Workload gradients_of(Fn fn, const Data& data) {
  struct State {
    Parameters p;
    Tensor out, tangent;
  };
  auto state = std::make_shared<State>();
  state->p = trained(data);
  if (data.contains("g")) state->tangent = data.at("g");
  auto compiled = td::compile(fn, {.name = "forward"});
  Workload w;
  w.step = [state, compiled, data] {
    for (const auto& [name, p] : state->p) p.set_grad({});
    state->out = compiled(state->p, data);
    state->out.backward(state->tangent);
  };
  w.check = [state] {
    const td::NoGrad no_grad;
    std::vector<double> numbers{state->tangent.defined()
                                    ? td::mean(state->out * state->tangent).item()
                                    : state->out.item()};
    for (const auto& [name, p] : state->p) numbers.push_back(mean_abs(p.grad()));
    return numbers;
  };
  return w;
}

/// A training step of `loss(parameters, data)` with an optimizer.
template <class Loss, class MakeOptimizer>
Workload training_of(Loss loss, const Data& data, MakeOptimizer make_optimizer) {
  struct State {
    Parameters p;
    Tensor loss;
  };
  auto state = std::make_shared<State>();
  state->p = trained(data);
  auto optimizer = make_optimizer(values(state->p));
  auto compiled = td::compile(std::move(loss), {.name = "loss"});
  Workload w;
  w.step = [state, compiled, optimizer, data] {
    optimizer->zero_grad();
    state->loss = compiled(state->p, data);
    state->loss.backward();
    optimizer->step();
  };
  w.check = [state] { return std::vector<double>{state->loss.item()}; };
  return w;
}

/// The same as one function, compiled or eager.
template <class Loss, class MakeOptimizer>
Workload whole_step_of(Loss loss, const Data& data, MakeOptimizer make_optimizer, bool compiled) {
  const Parameters p = trained(data);
  Data batch;
  for (const auto& [name, tensor] : data)
    if (!name.starts_with("p.")) batch.emplace(name, tensor);
  auto step = [loss, p, optimizer = make_optimizer(values(p))](const Data& d) {
    const Tensor value = loss(p, d);
    value.backward();
    optimizer->step();
    optimizer->zero_grad();
    return value.detach();
  };
  auto last = std::make_shared<Tensor>();
  Workload w;
  if (compiled)
    w.step = [last, whole = td::compile(step, {.name = "step"}), batch] { *last = whole(batch); };
  else
    w.step = [last, step, batch] { *last = step(batch); };
  w.check = [last] { return std::vector<double>{last->item()}; };
  return w;
}

inline std::shared_ptr<td::optim::Optimizer> make_sgd(std::vector<Tensor> p) {
  return std::make_shared<td::optim::SGD>(std::move(p),
                                          td::optim::SgdOptions{.lr = 0.01, .momentum = 0.9});
}

inline std::shared_ptr<td::optim::Optimizer> make_adamw(std::vector<Tensor> p) {
  return std::make_shared<td::optim::AdamW>(
      std::move(p),
      td::optim::AdamWOptions{
          .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01});
}

/// The gradients of `forward`, a plain function.
template <Tensor (*forward)(const Parameters&, const Data&)>
Workload gradients(const Data& data) {
  return gradients_of([](const Parameters& p, const Data& d) { return forward(p, d); }, data);
}

template <Tensor (*loss)(const Parameters&, const Data&)>
Workload training(const Data& data) {
  return training_of([](const Parameters& p, const Data& d) { return loss(p, d); }, data, make_sgd);
}

/// The result of `forward` alone.
template <Tensor (*forward)(const Parameters&, const Data&)>
Workload inference(const Data& data) {
  auto out = std::make_shared<Tensor>();
  auto compiled = td::compile([](const Parameters& p, const Data& d) { return forward(p, d); },
                              {.name = "forward"});
  return {[out, compiled, p = trained(data), data] {
            const td::NoGrad no_grad;
            *out = compiled(p, data);
          },
          [out, data] { return std::vector<double>{td::mean(*out * data.at("g")).item()}; }};
}

}  // namespace bench

#endif  // TANDEM_BENCH_ROWS_H
