// The programs of the table of `./dev bench partition`; tests/torch/saved_bytes.py has the same.
#include "bench/partition/programs.h"

namespace bench {

namespace td = tandem;
using td::Tensor;

namespace {

Tensor leaf(const td::Shape& sizes) { return td::randn(sizes).requires_grad_(); }

Program ten_cosines() {
  return {"ten_cosines", {leaf({1024, 1024})}, [](const Tensors& v) {
            Tensor x = v[0];
            for (int i = 0; i < 10; ++i) x = td::cos(x);
            return td::sum(x);
          }};
}

Program mlp() {
  Tensors inputs = {td::randn({256, 512}), td::randint(0, 512, {256})};
  for (int i = 0; i < 3; ++i) {
    inputs.push_back(leaf({512, 512}));
    inputs.push_back(leaf({512}));
  }
  return {"mlp", inputs, [](const Tensors& v) {
            Tensor x = v[0];
            for (size_t i = 0; i < 3; ++i) {
              x = td::matmul(x, v[2 + 2 * i]) + v[3 + 2 * i];
              if (i < 2) x = td::relu(x);
            }
            return td::cross_entropy(x, v[1]);
          }};
}

constexpr size_t kBlockParameters = 12;

void add_block(Tensors& inputs, int64_t c) {
  for (const auto& sizes : std::vector<td::Shape>{{c},
                                                  {c},
                                                  {c, 3 * c},
                                                  {3 * c},
                                                  {c, c},
                                                  {c},
                                                  {c},
                                                  {c},
                                                  {c, 4 * c},
                                                  {4 * c},
                                                  {4 * c, c},
                                                  {c}})
    inputs.push_back(leaf(sizes));
}

Tensor block(const Tensors& v, size_t first, Tensor x, int64_t heads, double dropout) {
  const auto p = [&](size_t i) -> const Tensor& { return v[first + i]; };
  const td::Dim batch = x.size(0), time = x.size(1), c = x.size(2);
  const auto dropped = [&](const Tensor& t) { return dropout > 0 ? td::dropout(t, dropout) : t; };
  const auto qkv =
      td::split(td::matmul(td::layer_norm(x, {c}, p(0), p(1), 1e-5), p(2)) + p(3), c, 2);
  const auto head = [&](const Tensor& t) {
    return t.view({batch, time, heads, c / heads}).transpose(1, 2);
  };
  const Tensor y =
      td::scaled_dot_product_attention(head(qkv[0]), head(qkv[1]), head(qkv[2]), {}, true);
  x = x + dropped(td::matmul(y.transpose(1, 2).reshape({batch, time, c}), p(4)) + p(5));
  const Tensor h = td::matmul(td::layer_norm(x, {c}, p(6), p(7), 1e-5), p(8)) + p(9);
  return x + dropped(td::matmul(td::gelu(h, "tanh"), p(10)) + p(11));
}

Program one_block(const std::string& name, int64_t batch, int64_t time, int64_t c, int64_t heads,
                  double dropout) {
  Tensors inputs = {leaf({batch, time, c})};
  add_block(inputs, c);
  return {name, inputs, [heads, dropout](const Tensors& v) {
            return td::sum(block(v, 1, v[0], heads, dropout));
          }};
}

Program nanogpt() {
  constexpr int64_t kLayers = 4, kHeads = 4, kChannels = 128, kTime = 64, kBatch = 8, kVocab = 65;
  Tensors inputs = {td::randint(0, kVocab, {kBatch, kTime}),
                    td::randint(0, kVocab, {kBatch, kTime}),
                    leaf({kVocab, kChannels}),
                    leaf({kTime, kChannels}),
                    leaf({kChannels}),
                    leaf({kChannels})};
  for (int i = 0; i < kLayers; ++i) add_block(inputs, kChannels);
  return {"nanogpt", inputs, [](const Tensors& v) {
            Tensor x = td::embedding(v[2], v[0]) + v[3];
            for (size_t i = 0; i < kLayers; ++i)
              x = block(v, 6 + i * kBlockParameters, x, kHeads, 0);
            const Tensor logits =
                td::matmul(td::layer_norm(x, {kChannels}, v[4], v[5], 1e-5), v[2].t());
            return td::cross_entropy(logits.view({-1, kVocab}), v[1].view({-1}));
          }};
}

Program ln_gelu() {
  return {"ln_gelu", {leaf({2048, 1024}), leaf({1024}), leaf({1024})}, [](const Tensors& v) {
            return td::sum(td::gelu(td::layer_norm(v[0], {1024}, v[1], v[2], 1e-5), "tanh"));
          }};
}

Program product_sum() {
  Tensors inputs;
  for (int i = 0; i < 6; ++i) inputs.push_back(leaf({1024, 1024}));
  return {"product_sum", inputs, [](const Tensors& v) {
            return td::sum((v[0] * v[2]) * v[3] + v[1] * v[4] + ((v[0] * v[1]) * v[2]) * v[5]);
          }};
}

Program matmul_cos() {
  Tensors inputs;
  for (int i = 0; i < 6; ++i) inputs.push_back(leaf({512, 512}));
  return {"matmul_cos", inputs, [](const Tensors& v) {
            Tensor x = v[0];
            for (size_t i = 1; i < 6; ++i) x = td::cos(td::matmul(x, v[i]));
            return td::sum(x);
          }};
}

Program convolution_block() {
  constexpr int64_t kBatch = 8, kChannels = 32, kSide = 32;
  Tensors inputs = {leaf({kBatch, kChannels, kSide, kSide})};
  for (int i = 0; i < 2; ++i) {
    inputs.push_back(leaf({kChannels, kChannels, 3, 3}));
    inputs.push_back(leaf({kChannels}));
    inputs.push_back(leaf({kChannels}));
  }
  return {"conv_bn", inputs, [](const Tensors& v) {
            const auto layer = [&](const Tensor& x, size_t first) {
              const Tensor y = td::conv2d(x, v[first], {}, {.padding = 1});
              return td::batch_norm(y, {}, {}, v[first + 1], v[first + 2], true);
            };
            return td::sum(td::relu(layer(td::relu(layer(v[0], 1)), 4) + v[0]));
          }};
}

Program focal() {
  return {"focal", {leaf({2048, 8000}), td::randint(0, 8000, {2048, 1})}, [](const Tensors& v) {
            const Tensor logp = td::gather(td::log_softmax(v[0], 1), 1, v[1]);
            return td::mean(-td::square(1.0 - td::exp(logp)) * logp);
          }};
}

Tensor rms_norm(const Tensor& x, const Tensor& weight) {
  return x * td::rsqrt(td::mean(td::square(x), {-1}, true) + 1e-5) * weight;
}

/// Rotary positions.
Tensor rotated(const Tensor& x, const Tensor& cosines, const Tensor& sines) {
  const td::Dim c = x.size(-1), half = c / 2;
  return x * cosines + td::cat({-x.slice(-1, half, c), x.slice(-1, 0, half)}, -1) * sines;
}

Program llama_block() {
  constexpr int64_t kBatch = 4, kTime = 128, kChannels = 256, kHeads = 4, kHidden = 688;
  Tensors inputs = {leaf({kBatch, kTime, kChannels}), td::randn({kTime, kChannels / kHeads}),
                    td::randn({kTime, kChannels / kHeads})};
  for (int i = 0; i < 2; ++i) inputs.push_back(leaf({kChannels}));
  for (int i = 0; i < 4; ++i) inputs.push_back(leaf({kChannels, kChannels}));
  for (int i = 0; i < 2; ++i) inputs.push_back(leaf({kChannels, kHidden}));
  inputs.push_back(leaf({kHidden, kChannels}));
  return {
      "llama_block", inputs, [](const Tensors& v) {
        const Tensor h = rms_norm(v[0], v[3]);
        const auto heads = [&](const Tensor& w) {
          return td::matmul(h, w).view({kBatch, kTime, kHeads, kChannels / kHeads}).transpose(1, 2);
        };
        const Tensor q = rotated(heads(v[5]), v[1], v[2]), k = rotated(heads(v[6]), v[1], v[2]);
        const Tensor y = td::scaled_dot_product_attention(q, k, heads(v[7]), {}, true)
                             .transpose(1, 2)
                             .reshape({kBatch, kTime, kChannels});
        const Tensor x = v[0] + td::matmul(y, v[8]), n = rms_norm(x, v[4]);
        const Tensor up = td::silu(td::matmul(n, v[9])) * td::matmul(n, v[10]);
        return td::sum(x + td::matmul(up, v[11]));
      }};
}

Program lstm() {
  constexpr int64_t kSteps = 16, kBatch = 32, kChannels = 128;
  const Tensors inputs = {td::randn({kSteps, kBatch, kChannels}), leaf({kChannels, 4 * kChannels}),
                          leaf({kChannels, 4 * kChannels}), leaf({4 * kChannels})};
  return {"lstm", inputs, [](const Tensors& v) {
            Tensor h = td::zeros({kBatch, kChannels}), state = h;
            Tensors all;
            for (int64_t i = 0; i < kSteps; ++i) {
              const auto gates = td::split(
                  td::matmul(v[0].select(0, i), v[1]) + td::matmul(h, v[2]) + v[3], kChannels, 1);
              state = td::sigmoid(gates[0]) * state + td::sigmoid(gates[1]) * td::tanh(gates[2]);
              h = td::sigmoid(gates[3]) * td::tanh(state);
              all.push_back(h);
            }
            return td::mean(td::square(td::stack(all)));
          }};
}

Program weight_norm() {
  Tensors inputs = {leaf({256, 512})};
  for (int i = 0; i < 2; ++i) {
    inputs.push_back(leaf({512, 512}));
    inputs.push_back(leaf({512, 1}));
  }
  return {"weight_norm", inputs, [](const Tensors& v) {
            Tensor x = v[0];
            for (size_t i = 1; i < 5; i += 2) {
              const Tensor length = td::sqrt(td::sum(td::square(v[i]), {1}, true));
              x = td::gelu(td::matmul(x, (v[i] * (v[i + 1] / length)).t()));
            }
            return td::sum(x);
          }};
}

}  // namespace

Program four_blocks() {
  constexpr int64_t kChannels = 128, kHeads = 4;
  Tensors inputs = {leaf({4, 128, kChannels})};
  for (int i = 0; i < 4; ++i) add_block(inputs, kChannels);
  return {"four_blocks", inputs, [](const Tensors& v) {
            Tensor x = v[0];
            for (size_t i = 0; i < 4; ++i) x = block(v, 1 + i * kBlockParameters, x, kHeads, 0);
            return td::sum(x);
          }};
}

std::vector<Program> programs() {
  return {ten_cosines(),
          mlp(),
          one_block("block_dropout", 4, 128, 256, 4, 0.1),
          nanogpt(),
          one_block("gpt2_block", 1, 256, 768, 12, 0),
          convolution_block(),
          ln_gelu(),
          product_sum(),
          matmul_cos(),
          focal(),
          llama_block(),
          lstm(),
          weight_norm()};
}

}  // namespace bench
