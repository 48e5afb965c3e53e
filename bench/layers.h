// Layers and networks that several rows are made of, of parameters by name.
#ifndef TANDEM_BENCH_LAYERS_H
#define TANDEM_BENCH_LAYERS_H

#include <tandem/nn.h>

#include <initializer_list>

#include "bench/rows.h"

namespace bench {

inline std::string numbered(const char* name, int64_t i) { return name + std::to_string(i); }

inline Tensor linear(const Parameters& p, const Tensor& x, const std::string& name) {
  return td::matmul(x, p.at(name + ".w")) + p.at(name + ".b");
}

inline Tensor layer_norm(const Parameters& p, const Tensor& x, const std::string& name) {
  return td::layer_norm(x, {x.size(-1)}, p.at(name + ".w"), p.at(name + ".b"), 1e-5);
}

struct Heads {
  Tensor q, k, v;
};

/// Of a linear layer's result, [batch, heads, tokens, channels].
inline Heads heads_of(const Parameters& p, const Tensor& x, const std::string& block,
                      int64_t heads) {
  const auto parts = td::chunk(linear(p, x, block + ".qkv"), 3, -1);
  const auto head = [&](const Tensor& t) {
    return t.view({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
  };
  return {head(parts[0]), head(parts[1]), head(parts[2])};
}

/// Heads side by side again, through the last layer.
inline Tensor joined(const Parameters& p, const Tensor& y, const Tensor& x,
                     const std::string& block) {
  return linear(p, y.transpose(1, 2).reshape(x.sizes()), block + ".proj");
}

/// With running statistics, which are data; `training`: and those of the batch.
inline Tensor batch_norm(const Parameters& p, const Data& d, const Tensor& x,
                         const std::string& name, bool training) {
  return td::batch_norm(x, d.at(name + ".mean"), d.at(name + ".var"), p.at(name + ".w"),
                        p.at(name + ".b"), training);
}

inline Tensor resnet_block(const Parameters& p, const Data& d, const Tensor& x,
                           const std::string& block, bool training) {
  const auto conv = [&](const Tensor& t, const char* name, int64_t stride, int64_t padding) {
    return td::conv2d(t, p.at(block + name), {}, {.stride = stride, .padding = padding});
  };
  const bool shrinks = p.contains(block + ".k0");
  const Tensor h =
      td::relu(batch_norm(p, d, conv(x, ".k1", shrinks ? 2 : 1, 1), block + ".bn1", training));
  const Tensor y = batch_norm(p, d, conv(h, ".k2", 1, 1), block + ".bn2", training);
  return td::relu(y +
                  (shrinks ? batch_norm(p, d, conv(x, ".k0", 2, 0), block + ".bn0", training) : x));
}

/// Of images, with 8 blocks.
inline Tensor resnet18(const Parameters& p, const Data& d, const Tensor& images, bool training) {
  Tensor x = td::conv2d(images, p.at("k"), {}, {.stride = 2, .padding = 3});
  x = td::max_pool2d(td::relu(batch_norm(p, d, x, "bn", training)), 3, {.stride = 2, .padding = 1});
  for (int64_t i = 0; i < 8; ++i) x = resnet_block(p, d, x, numbered("h", i), training);
  return linear(p, td::mean(x, {2, 3}), "fc");
}

/// A layer of nn/recurrent.h with the weights of these directions.
template <class Layer>
Layer recurrent(const Parameters& p, std::initializer_list<const char*> directions) {
  Layer layer;
  for (const std::string direction : directions)
    for (const char* name : {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"})
      layer.weights.list.emplace_back(name + direction, p.at(name + direction));
  layer.input_size = p.at("weight_ih_l0").size(1);
  layer.hidden_size = p.at("weight_hh_l0").size(1);
  return layer;
}

}  // namespace bench

#endif  // TANDEM_BENCH_LAYERS_H
