// Whole networks of other kinds beside the peers: inference, graphs, experts.
// bench/peers/README.md says what each computes.
#include "bench/layers.h"
#include "bench/rows.h"

namespace bench {
namespace {

// --- transformers

Tensor attention(const Parameters& p, const Tensor& x, const std::string& block, int64_t heads,
                 const Tensor& mask = {}) {
  const auto [q, k, v] = heads_of(p, x, block, heads);
  return joined(p, td::scaled_dot_product_attention(q, k, v, mask), x, block);
}

Tensor mlp(const Parameters& p, const Tensor& x, const std::string& block) {
  return linear(p, td::gelu(linear(p, x, block + ".fc")), block + ".fc2");
}

Tensor bert(const Parameters& p, const Data& d) {
  const Tensor mask = (d.at("attended") != 0).unsqueeze(1).unsqueeze(1);
  Tensor x = layer_norm(p, td::embedding(p.at("wte"), d.at("tokens")) + p.at("wpe"), "ln");
  for (int64_t i = 0; i < 4; ++i) {
    const std::string block = numbered("h", i);
    x = layer_norm(p, x + attention(p, x, block, 4, mask), block + ".ln1");
    x = layer_norm(p, x + mlp(p, x, block), block + ".ln2");
  }
  return linear(p, x.select(1, 0), "head");
}

/// One token of generation: keys and values are written to caches.
Tensor decode(const Parameters& p, const Data& d) {
  const Tensor& position = d.at("position");
  const auto cached = [&](const std::string& name, const Tensor& t) {
    return d.at("cache." + name).index_copy_(2, position, t);
  };
  const Tensor mask = (td::arange(p.at("wpe").size(0)) <= position).unsqueeze(0);
  Tensor x = td::embedding(p.at("wte"), d.at("token")).unsqueeze(0) +
             td::index_select(p.at("wpe"), 0, position);
  for (int64_t i = 0; i < 6; ++i) {
    const std::string block = numbered("h", i);
    const auto [q, k, v] = heads_of(p, layer_norm(p, x, block + ".ln1"), block, 8);
    const Tensor y = td::scaled_dot_product_attention(q, cached(numbered("k", i), k),
                                                      cached(numbered("v", i), v), mask);
    x = x + joined(p, y, x, block);
    x = x + mlp(p, layer_norm(p, x, block + ".ln2"), block);
  }
  return td::matmul(layer_norm(p, x, "lnf").select(1, 0), p.at("wte").t());
}

Tensor vit_loss(const Parameters& p, const Data& d) {
  const td::Dim batch = d.at("x").size(0);
  const Tensor& filter = p.at("patch");
  const Tensor patches =
      td::flatten(td::conv2d(d.at("x"), filter, {}, {.stride = 8}), 2).transpose(1, 2);
  Tensor x = td::cat({p.at("class").expand({batch, -1, -1}), patches}, 1) + p.at("wpe");
  for (int64_t i = 0; i < 4; ++i) {
    const std::string block = numbered("h", i);
    x = x + attention(p, layer_norm(p, x, block + ".ln1"), block, 3);
    x = x + mlp(p, layer_norm(p, x, block + ".ln2"), block);
  }
  return td::cross_entropy(linear(p, layer_norm(p, x.select(1, 0), "lnf"), "head"), d.at("t"));
}

/// Each expert chooses its tokens.
Tensor experts(const Parameters& p, const Data&) {
  const Tensor& x = p.at("x");
  const auto chosen = td::topk(td::softmax(td::matmul(x, p.at("router")), -1).t(), 256);
  const Tensor inputs = x.index({chosen.indices});
  const Tensor hidden = td::gelu(td::bmm(inputs, p.at("w1")));
  const Tensor y = td::bmm(hidden, p.at("w2")) * chosen.values.unsqueeze(2);
  return x.index_add(0, td::flatten(chosen.indices), td::flatten(y, 0, 1));
}

// --- images and sounds

Tensor resnet18_of_image(const Parameters& p, const Data& d) {
  return resnet18(p, d, d.at("x"), false);
}

Tensor vae_loss(const Parameters& p, const Data& d) {
  const auto half = [&](const Tensor& x, const char* name) {
    return td::relu(td::conv2d(x, p.at(name), {}, {.stride = 2, .padding = 1}));
  };
  const auto twice = [&](const Tensor& x, const char* name) {
    return td::conv_transpose2d(x, p.at(name), {}, {.stride = 2, .padding = 1});
  };
  const Tensor h = td::flatten(half(half(d.at("x"), "k1"), "k2"), 1);
  const Tensor mean = linear(p, h, "mean"), log_variance = linear(p, h, "log_variance");
  const Tensor z = mean + d.at("noise") * td::exp(0.5 * log_variance);
  const Tensor image = td::relu(linear(p, z, "up")).view({-1, 64, 7, 7});
  const Tensor logits = twice(td::relu(twice(image, "k3")), "k4");
  const Tensor divergence =
      -0.5 * td::mean(1 + log_variance - td::square(mean) - td::exp(log_variance));
  return td::binary_cross_entropy_with_logits(logits, d.at("x")) + divergence;
}

Tensor convnext(const Parameters& p, const Data&) {
  const Tensor& x = p.at("x");
  const Tensor mixed = td::conv2d(x, p.at("k"), p.at("b"), {.padding = 3, .groups = x.size(1)})
                           .permute({0, 2, 3, 1});
  const Tensor wide = td::gelu(linear(p, layer_norm(p, mixed, "ln"), "fc"));
  return x + (linear(p, wide, "fc2") * p.at("scale")).permute({0, 3, 1, 2});
}

Tensor wavenet(const Parameters& p, const Data&) {
  Tensor x = p.at("x"), skips;
  for (int64_t i = 0; p.contains(numbered("h", i) + ".k"); ++i) {
    const std::string layer = numbered("h", i);
    const int64_t dilation = int64_t{1} << i;
    const Tensor past = td::pad(x, {dilation, 0});
    const auto parts = td::chunk(
        td::conv1d(past, p.at(layer + ".k"), p.at(layer + ".b"), {.dilation = dilation}), 2, 1);
    const Tensor h = td::tanh(parts[0]) * td::sigmoid(parts[1]);
    const Tensor skip = td::conv1d(h, p.at(layer + ".skip"));
    skips = i == 0 ? skip : skips + skip;
    x = x + td::conv1d(h, p.at(layer + ".rest"));
  }
  return td::relu(skips) + x;
}

// --- the others

Tensor graph_loss(const Parameters& p, const Data& d) {
  const auto layer = [&](const Tensor& x, const std::string& name) {
    const Tensor h = linear(p, x, name);
    const Tensor messages = td::index_select(h, 0, d.at("source")) * d.at("weight");
    return td::zeros_like(h).index_add(0, d.at("target"), messages) + h;
  };
  return td::cross_entropy(layer(td::relu(layer(d.at("x"), "l0")), "l1"), d.at("t"));
}

Tensor gru(const Parameters& p, const Data&) {
  td::nn::GRU layer = recurrent<td::nn::GRU>(p, {"", "_reverse"});
  layer.bidirectional = true;
  return layer(p.at("x")).output;
}

Tensor contrastive_loss(const Parameters& p, const Data&) {
  const Tensor a = td::normalize(p.at("a"), 2, {-1}), b = td::normalize(p.at("b"), 2, {-1});
  const Tensor logits = td::matmul(td::exp(p.at("scale")) * a, b.t());
  const Tensor labels = td::arange(logits.size(0));
  return (td::cross_entropy(logits, labels) + td::cross_entropy(logits.t(), labels)) / 2;
}

constexpr Row kNetworks[] = {
    {"resnet18_eval", inference<resnet18_of_image>},
    {"bert_eval", inference<bert>},
    {"decode", inference<decode>},
    {"vit", training<vit_loss>},
    {"vae", training<vae_loss>},
    {"graph", training<graph_loss>},
    {"gru", gradients<gru>},
    {"convnext", gradients<convnext>},
    {"wavenet", gradients<wavenet>},
    {"experts", gradients<experts>},
    {"contrastive", gradients<contrastive_loss>},
};

}  // namespace

std::span<const Row> network_rows() { return kNetworks; }

}  // namespace bench
