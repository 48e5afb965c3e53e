// Layers, blocks and small networks beside the peers: bench/peers/README.md says what each
// computes.
#include "bench/layers.h"
#include "bench/rows.h"

namespace bench {
namespace {

// --- attention

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v) {
  return td::scaled_dot_product_attention(q, k, v, {.is_causal = true, .enable_gqa = true});
}

Tensor attention(const Parameters& p, const Data&) {
  return attend(p.at("q"), p.at("k"), p.at("v"));
}

/// Halves of the last dimension as pairs, turned by the angles of their positions.
Tensor rotate(const Tensor& x, const Data& d) {
  const auto half = td::chunk(x, 2, -1);
  const Tensor &cos = d.at("cos"), &sin = d.at("sin");
  return td::cat({half[0] * cos - half[1] * sin, half[1] * cos + half[0] * sin}, -1);
}

Tensor rotary(const Parameters& p, const Data& d) { return rotate(p.at("x"), d); }

Tensor gated(const Tensor& x, const Tensor& gate, const Tensor& up) {
  return td::silu(td::matmul(x, gate)) * td::matmul(x, up);
}

Tensor swiglu(const Parameters& p, const Data&) {
  return gated(p.at("x"), p.at("gate"), p.at("up"));
}

Tensor llama_block(const Parameters& p, const Data& d, const Tensor& x, const std::string& block) {
  const auto w = [&](const char* name) { return p.at(block + name); };
  const td::Dim batch = x.size(0), time = x.size(1), head = 2 * d.at("cos").size(1);
  const auto norm = [&](const Tensor& t, const char* name) {
    return td::rms_norm(t, {t.size(-1)}, w(name), 1e-5);
  };
  const Tensor n = norm(x, ".ln1");
  const auto heads = [&](const char* name) {
    return td::matmul(n, w(name)).view({batch, time, -1, head}).transpose(1, 2);
  };
  const Tensor y = attend(rotate(heads(".q"), d), rotate(heads(".k"), d), heads(".v"));
  const Tensor h = x + td::matmul(y.transpose(1, 2).reshape(x.sizes()), w(".o"));
  return h + td::matmul(gated(norm(h, ".ln2"), w(".gate"), w(".up")), w(".down"));
}

Tensor llama(const Parameters& p, const Data& d) {
  Tensor x = p.at("x");
  for (int64_t i = 0; p.contains(numbered("h", i) + ".q"); ++i)
    x = llama_block(p, d, x, numbered("h", i));
  return x;
}

// --- norms

/// The data, and running statistics of batch norms for each weight p.*.w.
Data with_statistics(const Data& data) {
  Data all = data;
  for (const auto& [name, tensor] : data)
    if (name.starts_with("p.") && name.ends_with(".w") && tensor.dim() == 1) {
      const std::string layer = name.substr(2, name.size() - 4);
      all.emplace(layer + ".mean", td::zeros(tensor.sizes()));
      all.emplace(layer + ".var", td::ones(tensor.sizes()));
    }
  return all;
}

Workload batch_norm_alone(const Data& data) {
  return gradients_of(
      [](const Parameters& p, const Data& d) { return batch_norm(p, d, p.at("x"), "bn", true); },
      with_statistics(data));
}

Tensor group_norm_silu(const Parameters& p, const Data&) {
  return td::silu(td::group_norm(p.at("x"), 32, p.at("w"), p.at("b"), 1e-5));
}

// --- convolution networks

Workload mobile(const Data& data) {
  return gradients_of(
      [](const Parameters& p, const Data& d) {
        const Tensor& x = p.at("x");
        const Tensor wide = td::relu6(batch_norm(p, d, td::conv2d(x, p.at("k1")), "bn1", true));
        const Tensor mixed =
            td::conv2d(wide, p.at("k2"), {}, {.padding = 1, .groups = wide.size(1)});
        const Tensor narrow =
            td::conv2d(td::relu6(batch_norm(p, d, mixed, "bn2", true)), p.at("k3"));
        return x + batch_norm(p, d, narrow, "bn3", true);
      },
      with_statistics(data));
}

Tensor unet(const Parameters& p, const Data&) {
  const auto stage = [&](const Tensor& x, const std::string& number) {
    const Tensor y = td::conv2d(x, p.at("k" + number), {}, {.padding = 1});
    return td::silu(td::group_norm(y, 8, p.at("w" + number), p.at("b" + number), 1e-5));
  };
  const Tensor down = stage(p.at("x"), "1");
  const Tensor inner = stage(td::max_pool2d(down, 2), "2");
  return stage(td::cat({td::interpolate(inner, {.scale_factor = {2}}), down}, 1), "3");
}

Workload resnet18_loss(const Data& data) {
  return training_of(
      [statistics = with_statistics(data)](const Parameters& p, const Data& d) {
        return td::cross_entropy(resnet18(p, statistics, d.at("x"), true), d.at("t"));
      },
      data, make_sgd);
}

// --- the others

Tensor lstm(const Parameters& p, const Data&) {
  return recurrent<td::nn::LSTM>(p, {""})(p.at("x")).output;
}

/// Linear layers with a relu between them.
Tensor perceptron(const Parameters& p, Tensor x, const std::string& name) {
  for (int i = 0; i < 2; ++i) {
    const std::string number = std::to_string(i);
    x = td::matmul(x, p.at(name + ".w" + number)) + p.at(name + ".b" + number);
    if (i == 0) x = td::relu(x);
  }
  return x;
}

Workload dlrm(const Data& data) {
  return training_of(
      [](const Parameters& p, const Data& d) {
        std::vector<Tensor> vectors{perceptron(p, d.at("x"), "bottom")};
        for (int64_t i = 0; p.contains(numbered("table", i)); ++i)
          vectors.push_back(td::embedding_bag(p.at(numbered("table", i)),
                                              d.at(numbered("indices", i)), {.mode = "sum"}));
        const Tensor all = td::stack(vectors, 1);
        const Tensor products = td::flatten(td::bmm(all, all.transpose(1, 2)), 1);
        const Tensor pairs = td::index_select(products, 1, d.at("pairs"));
        const Tensor logits = perceptron(p, td::cat({vectors[0], pairs}, 1), "top");
        return td::binary_cross_entropy_with_logits(logits.squeeze(1), d.at("y"));
      },
      data, make_sgd);
}

Tensor topk(const Parameters& p, const Data&) { return td::topk(p.at("x"), 50).values; }
Tensor sort(const Parameters& p, const Data&) { return td::sort(p.at("x")).values; }

constexpr Row kModels[] = {
    {"attention_128", gradients<attention>},
    {"attention_512", gradients<attention>},
    {"attention_1024", gradients<attention>},
    {"attention_4096", gradients<attention>},
    {"attention_grouped", gradients<attention>},
    {"rotary", gradients<rotary>},
    {"swiglu", gradients<swiglu>},
    {"llama", gradients<llama>},
    {"batch_norm", batch_norm_alone},
    {"group_norm_silu", gradients<group_norm_silu>},
    {"mobile", mobile},
    {"unet", gradients<unet>},
    {"resnet18", resnet18_loss},
    {"lstm", gradients<lstm>},
    {"dlrm", dlrm},
    {"topk", gradients<topk>},
    {"sort", gradients<sort>},
};

}  // namespace

std::span<const Row> model_rows() { return kModels; }

}  // namespace bench
