// Attention with biases, dense predictions, volumes, and programs that differentiate what is no
// network, beside the peers: bench/peers/README.md says what each computes.
#include "bench/layers.h"
#include "bench/rows.h"

namespace bench {
namespace {

// --- attention

Tensor biased_attention(const Parameters& p, const Data& d) {
  const Tensor bias = p.at("bias").index({d.at("buckets")}).permute({2, 0, 1}).unsqueeze(0);
  return td::scaled_dot_product_attention(p.at("q"), p.at("k"), p.at("v"),
                                          {.attn_mask = bias, .scale = 1.0});
}

/// Attention inside of windows of an image that was rolled by three.
Tensor windows(const Parameters& p, const Data& d) {
  constexpr int64_t kWindow = 7, kHeads = 3;
  const Tensor& image = p.at("x");
  const td::Dim batch = image.size(0), side = image.size(1) / kWindow, channels = image.size(3);
  const auto rolled = td::roll(image, {-3, -3}, {1, 2});
  const Tensor x = rolled.view({batch, side, kWindow, side, kWindow, channels})
                       .transpose(2, 3)
                       .reshape({batch, side * side, kWindow * kWindow, channels});
  const auto parts = td::chunk(linear(p, x, "qkv"), 3, -1);
  const auto heads = [&](const Tensor& t) {
    return t.view({batch, side * side, kWindow * kWindow, kHeads, -1}).transpose(2, 3);
  };
  const Tensor y = td::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]),
                                                    heads(parts[2]), d.at("mask").unsqueeze(1))
                       .transpose(2, 3)
                       .reshape(x.sizes());
  const Tensor whole = linear(p, y, "proj")
                           .view({batch, side, side, kWindow, kWindow, channels})
                           .transpose(2, 3)
                           .reshape(image.sizes());
  return image + td::roll(whole, {3, 3}, {1, 2});
}

// --- images and volumes

Tensor segmentation_loss(const Parameters& p, const Data& d) {
  const auto half = [&](const Tensor& x, const char* name) {
    return td::relu(td::conv2d(x, p.at(name), {}, {.stride = 2, .padding = 1}));
  };
  const Tensor x = half(half(d.at("x"), "k1"), "k2");
  std::vector<Tensor> scales;
  for (const int64_t i : {1, 2, 4})
    scales.push_back(
        td::relu(td::conv2d(x, p.at(numbered("d", i)), {}, {.padding = i, .dilation = i})));
  const Tensor classes = td::conv2d(td::cat(scales, 1), p.at("k3"));
  return td::cross_entropy(td::interpolate(classes, {.scale_factor = {4}, .mode = "bilinear"}),
                           d.at("t"));
}

Tensor video_loss(const Parameters& p, const Data& d) {
  const auto stage = [&](const Tensor& x, const char* name) {
    return td::relu(td::conv3d(x, p.at(name), {}, {.padding = 1}));
  };
  const Tensor x = stage(td::max_pool3d(stage(d.at("x"), "k1"), 2), "k2");
  return td::cross_entropy(linear(p, td::mean(x, {2, 3, 4}), "fc"), d.at("t"));
}

// --- equations

/// Burgers' equation, u_t + u u_x = 0.01 u_xx.
Tensor physics_loss(const Parameters& p, const Data& d) {
  const Tensor x = d.at("x").detach().requires_grad_(), t = d.at("t").detach().requires_grad_();
  Tensor u = td::cat({x, t}, 1);
  for (int64_t i = 0; i < 4; ++i) {
    u = linear(p, u, numbered("l", i));
    if (i < 3) u = td::tanh(u);
  }
  const auto first = td::grad({td::sum(u)}, {x, t}, {.create_graph = true});
  const Tensor u_xx = td::grad({td::sum(first[0])}, {x}, {.create_graph = true})[0];
  return td::mean(td::square(first[1] + u * first[0] - 0.01 * u_xx));
}

/// A network's flow for a time of 1, by Runge and Kutta's method.
Tensor ode_loss(const Parameters& p, const Data& d) {
  constexpr int kSteps = 16;
  constexpr double h = 1.0 / kSteps;
  const auto f = [&](const Tensor& x) { return linear(p, td::tanh(linear(p, x, "l0")), "l1"); };
  Tensor x = d.at("x");
  for (int i = 0; i < kSteps; ++i) {
    const Tensor k1 = f(x), k2 = f(x + h / 2 * k1), k3 = f(x + h / 2 * k2);
    x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(x + h * k3));
  }
  return td::mean(td::square(x - d.at("y")));
}

// --- the others

Tensor squared_distances(const Tensor& x) {
  return td::sum(td::square(x.unsqueeze(1) - x.unsqueeze(0)), {-1});
}

/// The negative log likelihood of observations.
Tensor gaussian_process(const Parameters& p, const Data& d) {
  const Tensor &x = d.at("x"), &y = d.at("y");
  const Tensor near = td::exp(-0.5 * squared_distances(x / p.at("lengths")));
  const Tensor kernel = td::exp(p.at("scale")) * near + td::exp(p.at("noise")) * td::eye(x.size(0));
  const Tensor factor = td::cholesky(kernel);
  return 0.5 * td::sum(y * td::cholesky_solve(y, factor)) + td::sum(td::log(td::diagonal(factor)));
}

/// The potential energy of masses, softened.
Tensor bodies(const Parameters& p, const Data& d) {
  const Tensor& mass = d.at("mass");
  const Tensor pairs = mass.unsqueeze(1) * mass.unsqueeze(0);
  return -0.5 * td::sum(pairs * td::rsqrt(squared_distances(p.at("x")) + 0.01));
}

Tensor hessian(const Parameters& p, const Data& d) {
  const auto f = [&](const Tensor& x) {
    return td::sum(td::tanh(td::matmul(td::tanh(td::matmul(x, p.at("w1"))), p.at("w2"))));
  };
  return td::hessian(f)(d.at("x"));
}

constexpr Row kScience[] = {
    {"biased_attention", gradients<biased_attention>},
    {"windows", gradients<windows>},
    {"segmentation", training<segmentation_loss>},
    {"video", training<video_loss>},
    {"physics", training<physics_loss>},
    {"ode", training<ode_loss>},
    {"gaussian_process", gradients<gaussian_process>},
    {"bodies", gradients<bodies>},
    {"hessian", inference<hessian>},
};

}  // namespace

std::span<const Row> science_rows() { return kScience; }

}  // namespace bench
