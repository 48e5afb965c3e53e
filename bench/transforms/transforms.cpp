// tandem-transforms: the worker of `./dev bench transforms`: derivatives of every kind, and loops,
// as programs a user of Tandem would write. workloads.py has the data, the workers beside it the
// same programs.
#include <tandem/control_flow.h>
#include <tandem/tandem.h>

#include <cmath>
#include <memory>

#include "bench/worker.h"

namespace td = tandem;
using bench::Data;
using bench::Workload;
using td::Tensor;
using Tensors = std::vector<Tensor>;

namespace {

/// Those whose names start with "p.", by name.
Tensors parameters(const Data& data) {
  Tensors all;
  for (const auto& [name, t] : data)
    if (name.starts_with("p.")) all.push_back(t);
  return all;
}

/// A step that gives tensors, which are checked by their mean magnitudes.
Workload workload(const std::function<Tensors()>& step) {
  const auto last = std::make_shared<Tensors>();
  return {.step = [=] { *last = step(); },
          .check =
              [=] {
                std::vector<double> means;
                for (const Tensor& t : *last)
                  means.push_back(t.detach().to(td::f64).abs().mean().item());
                return means;
              }};
}

Tensors listed(const Tensor& value, const Tensors& gradients) {
  Tensors all = {value};
  all.insert(all.end(), gradients.begin(), gradients.end());
  return all;
}

// --- loops

using State = std::pair<Tensor, Tensor>;  // h and c

State lstm_cell(const Tensor& gates, const State& state, const Tensors& p) {
  const auto parts = td::chunk(gates + td::linear(state.first, p[3], p[1]), 4, -1);
  const Tensor c =
      td::sigmoid(parts[1]) * state.second + td::sigmoid(parts[0]) * td::tanh(parts[2]);
  return {td::sigmoid(parts[3]) * td::tanh(c), c};
}

/// p: b_hh, ... by name: b_hh, b_ih, w_hh, w_ih.
Tensor lstm(const Tensors& by_name, const Tensor& x, bool unrolled) {
  const Tensors p = {by_name[1], by_name[0], by_name[3], by_name[2]};  // b_ih, b_hh, w_ih, w_hh
  const Tensor gates = td::linear(x, p[2], p[0]), zeros = td::zeros({x.size(1), p[3].size(1)});
  if (!unrolled) {
    const auto body = [&](const State& state, const Tensor& now) {
      const State next = lstm_cell(now, state, p);
      return std::pair(next, next.first);
    };
    return td::scan(body, State(zeros, zeros), gates).second.square().mean();
  }
  State state(zeros, zeros);
  Tensors outputs;
  for (const Tensor& now : td::unbind(gates, 0)) {
    state = lstm_cell(now, state, p);
    outputs.push_back(state.first);
  }
  return td::stack(outputs, 0).square().mean();
}

Workload lstm_of(const Data& data, bool unrolled) {
  const auto loss = [unrolled](const Tensors& p, const Tensor& x) { return lstm(p, x, unrolled); };
  const auto f = td::compile(td::value_and_grad(loss));
  return workload([=, p = parameters(data), x = data.at("x")] {
    const auto [value, gradients] = f(p, x);
    return listed(value, gradients);
  });
}

/// Kepler's equation x - e sin x = m.
Workload newton_of(const Data& data) {
  const auto f = td::compile([](const Tensor& e, const Tensor& m) {
    const State last = td::while_loop([](const State& s) { return s.second > 1e-6; },
                                      [&](const State& s) {
                                        const Tensor value = s.first - e * td::sin(s.first) - m;
                                        return State(s.first - value / (1 - e * td::cos(s.first)),
                                                     value.abs().max());
                                      },
                                      State(m, td::full({}, INFINITY)));
    return last.first;
  });
  return workload([=, e = data.at("e"), m = data.at("m")] { return Tensors{f(e, m)}; });
}

/// Samples of exp(-U), U = x^4 / 4 - x^2 / 2.
Workload langevin_of(const Data& data) {
  constexpr double kStep = 0.01;
  const auto f = td::compile([](const Tensor& first) {
    const auto moved = [](const Tensor&, const Tensor& x) {
      const Tensor noise = td::randn(x.sizes());
      return x - kStep * (x * x * x - x) + std::sqrt(2 * kStep) * noise;
    };
    const Tensor x = td::fori_loop(0, 1000, moved, first);
    return (td::abs((x * x).mean() - 1) < 0.5).to(td::f32);
  });
  return workload([=, x = data.at("x")] { return Tensors{f(x)}; });
}

// --- derivatives

/// p by name: biases, then weights.
Tensor mlp(const Tensors& p, Tensor x, Tensor (*activation)(const Tensor&)) {
  const size_t layers = p.size() / 2;
  for (size_t i = 0; i < layers; ++i) {
    x = td::matmul(x, p[layers + i]) + p[i];
    if (i + 1 < layers) x = activation(x);
  }
  return x;
}

Tensor relu(const Tensor& x) { return td::relu(x); }
Tensor tanh(const Tensor& x) { return td::tanh(x); }

Tensor loss_of_sample(const Tensor& logits, const Tensor& label) {
  return td::cross_entropy(logits.unsqueeze(0), label.unsqueeze(0));
}

template <class Model>
Workload per_sample(const Data& data, Model model) {
  const auto loss = [model](const Tensors& p, const Tensor& x, const Tensor& t) {
    return loss_of_sample(model(p, x), t);
  };
  const auto gradients = td::grad(loss);
  const auto f = td::compile([gradients](const Tensors& p, const Tensor& x, const Tensor& t) {
    return td::vmap(
        [&](const Tensor& one, const Tensor& label) { return gradients(p, one, label); })(x, t);
  });
  return workload(
      [=, p = parameters(data), x = data.at("x"), t = data.at("t")] { return f(p, x, t); });
}

Tensor cnn(const Tensors& p, const Tensor& image) {
  Tensor x = image.unsqueeze(0);
  for (const size_t i : {0, 1})
    x = td::max_pool2d(td::relu(td::conv2d(x, p[i], {}, {.padding = 1})), 2);
  return td::matmul(x.flatten(), p[2]);
}

Workload hessian_of(const Data& data) {
  const Tensors p = parameters(data);
  const Tensor x = data.at("x"), t = data.at("t");
  Tensors flat;
  for (const Tensor& one : p) flat.push_back(one.flatten());
  const auto loss = [=](const Tensor& all) {
    Tensors own;
    td::Dim at = 0;
    for (const Tensor& like : p) {
      own.push_back(all.slice(0, at, at + like.numel()).view(like.sizes()));
      at = at + like.numel();
    }
    return (mlp(own, x, tanh) - t).square().mean();
  };
  const auto f = td::compile(td::hessian(loss));
  return workload([=, all = td::cat(flat)] { return Tensors{f(all)}; });
}

/// Burgers' equation u_t + u u_x = nu u_xx at points (x, t).
Workload pinn_of(const Data& data) {
  const auto loss = [](const Tensors& p, const Tensor& points) {
    const td::EnableGrad mode;
    const Tensor z = points.detach().requires_grad_();
    const Tensor u = mlp(p, z, tanh);
    const Tensor first = td::grad({u.sum()}, {z}, {.create_graph = true})[0];
    const Tensor u_x = first.select(1, 0), u_t = first.select(1, 1);
    const Tensor u_xx = td::grad({u_x.sum()}, {z}, {.create_graph = true})[0].select(1, 0);
    return (u_t + u.select(1, 0) * u_x - 0.01 * u_xx).square().mean();
  };
  const auto f = td::compile(td::value_and_grad(loss));
  return workload([=, p = parameters(data), x = data.at("x")] {
    const auto [value, gradients] = f(p, x);
    return listed(value, gradients);
  });
}

Workload build(const std::string& name, Data& data) {
  if (name == "lstm_scan") return lstm_of(data, false);
  if (name == "lstm_unrolled") return lstm_of(data, true);
  if (name == "newton") return newton_of(data);
  if (name == "langevin") return langevin_of(data);
  if (name == "per_sample_mlp")
    return per_sample(data, [](const Tensors& p, const Tensor& x) {
      return mlp(p, x.unsqueeze(0), relu).squeeze(0);
    });
  if (name == "per_sample_cnn") return per_sample(data, cnn);
  if (name == "hessian") return hessian_of(data);
  if (name == "pinn") return pinn_of(data);
  throw td::Error(td::Errc::Argument, "unknown workload " + name);
}

}  // namespace

int main(int argc, char** argv) { return bench::run_worker(argc, argv, build); }
