#include "bench/workloads.h"

#include <cmath>
#include <memory>

namespace bench {
namespace {

namespace td = tandem;
using td::Tensor;
using Parameters = std::map<std::string, Tensor>;

/// The tensors named p.*, requiring gradients, without the prefix.
Parameters trained(const Data& data) {
  Parameters p;
  for (const auto& [name, tensor] : data)
    if (name.starts_with("p.")) p.emplace(name.substr(2), tensor.requires_grad_());
  return p;
}

std::vector<Tensor> values(const Parameters& p) {
  std::vector<Tensor> out;
  for (const auto& [name, tensor] : p) out.push_back(tensor);
  return out;
}

double mean_abs(const Tensor& t) {
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
  auto compiled = td::compile(loss, {.name = "loss"});
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

std::shared_ptr<td::optim::Optimizer> make_sgd(std::vector<Tensor> p) {
  return std::make_shared<td::optim::SGD>(std::move(p),
                                          td::optim::SgdOptions{.lr = 0.01, .momentum = 0.9});
}

std::shared_ptr<td::optim::Optimizer> make_adamw(std::vector<Tensor> p) {
  return std::make_shared<td::optim::AdamW>(
      std::move(p),
      td::optim::AdamWOptions{
          .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01});
}

// --- the workloads

Workload tiny(const Data& data) {
  return gradients_of(
      [](const Parameters& p, const Data&) {
        Tensor x = p.at("x");
        for (int i = 0; i < 5; ++i) x = td::tanh(x * p.at("w"));
        return td::sum(x);
      },
      data);
}

Workload cos_chain(const Data& data) {
  return gradients_of(
      [](const Parameters& p, const Data&) {
        Tensor x = p.at("x");
        for (int i = 0; i < 10; ++i) x = td::cos(x);
        return td::sum(x);
      },
      data);
}

Workload gelu_ln(const Data& data) {
  return gradients_of(
      [](const Parameters& p, const Data&) {
        const Tensor h = td::gelu(p.at("x") + p.at("b"), "tanh") + p.at("r");
        return td::layer_norm(h, {1024}, p.at("w"), p.at("c"), 1e-5);
      },
      data);
}

Workload softmax(const Data& data) {
  return gradients_of(
      [](const Parameters& p, const Data&) { return td::softmax(p.at("x") * 0.125, -1); }, data);
}

Workload xent(const Data& data) {
  return gradients_of(
      [](const Parameters& p, const Data& d) { return td::cross_entropy(p.at("x"), d.at("t")); },
      data);
}

Tensor mlp_loss(const Parameters& p, const Data& d) {
  Tensor x = d.at("x");
  for (int i = 0; i < 3; ++i) {
    x = td::matmul(x, p.at("w" + std::to_string(i))) + p.at("b" + std::to_string(i));
    if (i < 2) x = td::relu(x);
  }
  return td::cross_entropy(x, d.at("t"));
}

Workload mlp(const Data& data) { return training_of(mlp_loss, data, make_sgd); }
Workload whole_mlp(const Data& data, bool compiled) {
  return whole_step_of(mlp_loss, data, make_sgd, compiled);
}

/// 3 x 3, relu, and half the size.
Tensor conv_stage(const Parameters& p, const Tensor& x, const std::string& number) {
  return td::max_pool2d(
      td::relu(td::conv2d(x, p.at("k" + number), p.at("b" + number), {.padding = 1})), 2);
}

Workload cnn(const Data& data) {
  return training_of(
      [](const Parameters& p, const Data& d) {
        const Tensor x = td::flatten(conv_stage(p, conv_stage(p, d.at("x"), "1"), "2"), 1);
        const Tensor h = td::relu(td::matmul(x, p.at("w3")) + p.at("b3"));
        return td::cross_entropy(td::matmul(h, p.at("w4")) + p.at("b4"), d.at("t"));
      },
      data, make_sgd);
}

Workload resblock(const Data& data) {
  Data with_statistics = data;
  const td::Dim channels = data.at("p.x").size(1);
  for (const char* number : {"1", "2"}) {
    with_statistics.emplace(std::string("mean") + number, td::zeros({channels}));
    with_statistics.emplace(std::string("var") + number, td::ones({channels}));
  }
  return gradients_of(
      [](const Parameters& p, const Data& d) {
        const auto layer = [&](const Tensor& x, const std::string& number) {
          return td::batch_norm(td::conv2d(x, p.at("k" + number), {}, {.padding = 1}),
                                d.at("mean" + number), d.at("var" + number), p.at("g" + number),
                                p.at("b" + number), true);
        };
        const Tensor& x = p.at("x");
        return td::relu(x + layer(td::relu(layer(x, "1")), "2"));
      },
      with_statistics);
}

struct GptShape {
  int64_t layers, heads;
};

Tensor linear(const Parameters& p, const Tensor& x, const std::string& name) {
  return td::matmul(x, p.at(name + ".w")) + p.at(name + ".b");
}

Tensor norm(const Parameters& p, const Tensor& x, const std::string& name) {
  return td::layer_norm(x, {x.size(-1)}, p.at(name + ".w"), p.at(name + ".b"), 1e-5);
}

Tensor attention(const Parameters& p, const Tensor& x, const std::string& block, int64_t heads) {
  const td::Dim batch = x.size(0), time = x.size(1), channels = x.size(2);
  const auto split = td::split(linear(p, x, block + ".qkv"), channels, 2);
  const auto head = [&](const Tensor& t) {
    return t.view({batch, time, heads, channels / heads}).transpose(1, 2);
  };
  const Tensor y =
      td::scaled_dot_product_attention(head(split[0]), head(split[1]), head(split[2]), {}, true);
  return linear(p, y.transpose(1, 2).reshape({batch, time, channels}), block + ".proj");
}

Tensor gpt_loss(const Parameters& p, const Data& d, GptShape shape) {
  Tensor x = td::embedding(p.at("wte"), d.at("tokens")) + p.at("wpe");
  for (int64_t i = 0; i < shape.layers; ++i) {
    const std::string block = "h" + std::to_string(i);
    x = x + attention(p, norm(p, x, block + ".ln1"), block, shape.heads);
    x = x + linear(p, td::gelu(linear(p, norm(p, x, block + ".ln2"), block + ".fc"), "tanh"),
                   block + ".fc2");
  }
  const Tensor logits = td::matmul(norm(p, x, "lnf"), p.at("wte").t());
  return td::cross_entropy(logits.view({-1, logits.size(-1)}), d.at("targets").view({-1}));
}

template <int64_t layers, int64_t heads>
Tensor gpt_loss_of(const Parameters& p, const Data& d) {
  return gpt_loss(p, d, {layers, heads});
}

template <int64_t layers, int64_t heads>
Tensor gpt_bf16_loss_of(const Parameters& p, const Data& d) {
  const td::Autocast region(td::bf16);
  return gpt_loss(p, d, {layers, heads});
}

template <int64_t layers, int64_t heads>
Workload gpt(const Data& data) {
  return training_of(gpt_loss_of<layers, heads>, data, make_adamw);
}
template <int64_t layers, int64_t heads>
Workload gpt_bf16(const Data& data) {
  return training_of(gpt_bf16_loss_of<layers, heads>, data, make_adamw);
}
template <int64_t layers, int64_t heads>
Workload whole_gpt_bf16(const Data& data, bool compiled) {
  return whole_step_of(gpt_bf16_loss_of<layers, heads>, data, make_adamw, compiled);
}
template <int64_t layers, int64_t heads>
Workload whole_gpt(const Data& data, bool compiled) {
  return whole_step_of(gpt_loss_of<layers, heads>, data, make_adamw, compiled);
}

Workload adamw(const Data& data) {
  struct State {
    Parameters p;
    std::shared_ptr<td::optim::Optimizer> optimizer;
  };
  auto state = std::make_shared<State>();
  state->p = trained(data);
  for (const auto& [name, p] : state->p) p.set_grad(data.at("g." + name));
  state->optimizer = make_adamw(values(state->p));
  return {[state] { state->optimizer->step(); },
          [state] { return std::vector<double>{mean_abs(state->p.at("w0"))}; }};
}

struct Row {
  const char* name;
  Workload (*make)(const Data&);
  Workload (*make_whole)(const Data&, bool compiled) = nullptr;
};

constexpr Row kWorkloads[] = {
    {"tiny", tiny},
    {"cos_chain", cos_chain},
    {"gelu_ln", gelu_ln},
    {"softmax", softmax},
    {"xent", xent},
    {"adamw", adamw},
    {"mlp_small", mlp, whole_mlp},
    {"mlp_large", mlp, whole_mlp},
    {"cnn", cnn},
    {"resblock", resblock},
    {"nanogpt", gpt<4, 4>, whole_gpt<4, 4>},
    {"gpt2", gpt<12, 12>, whole_gpt<12, 12>},
    {"nanogpt_bf16", gpt_bf16<4, 4>, whole_gpt_bf16<4, 4>},
    {"gpt2_bf16", gpt_bf16<12, 12>, whole_gpt_bf16<12, 12>},
};

const Row& row_of(const std::string& name) {
  for (const Row& row : kWorkloads)
    if (row.name == name) return row;
  throw td::Error(td::Errc::Argument, "tandem-bench: unknown workload " + name);
}

}  // namespace

Workload build(const std::string& name, Data& data) { return row_of(name).make(data); }

Workload build_whole(const std::string& name, Data& data, bool compiled) {
  const Row& row = row_of(name);
  if (row.make_whole == nullptr)
    throw td::Error(td::Errc::Argument, "tandem-bench: no training step: " + name);
  return row.make_whole(data, compiled);
}

}  // namespace bench
