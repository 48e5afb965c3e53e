#include "bench/workloads.h"

#include "bench/layers.h"
#include "bench/rows.h"

namespace bench {
namespace {

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

Tensor attention(const Parameters& p, const Tensor& x, const std::string& block, int64_t heads) {
  const auto [q, k, v] = heads_of(p, x, block, heads);
  return joined(p, td::scaled_dot_product_attention(q, k, v, {}, true), x, block);
}

Tensor gpt_loss(const Parameters& p, const Data& d, GptShape shape) {
  Tensor x = td::embedding(p.at("wte"), d.at("tokens")) + p.at("wpe");
  for (int64_t i = 0; i < shape.layers; ++i) {
    const std::string block = "h" + std::to_string(i);
    x = x + attention(p, layer_norm(p, x, block + ".ln1"), block, shape.heads);
    x = x + linear(p, td::gelu(linear(p, layer_norm(p, x, block + ".ln2"), block + ".fc"), "tanh"),
                   block + ".fc2");
  }
  const Tensor logits = td::matmul(layer_norm(p, x, "lnf"), p.at("wte").t());
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

/// The whole step is what is measured.
template <Workload (*whole)(const Data&, bool)>
Workload compiled_whole(const Data& data) {
  return whole(data, true);
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
    {"nanogpt_whole", compiled_whole<whole_gpt<4, 4>>},
};

const Row& row_of(const std::string& name) {
  for (const std::span<const Row> rows :
       {std::span<const Row>(kWorkloads), model_rows(), network_rows(), science_rows()})
    for (const Row& row : rows)
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
