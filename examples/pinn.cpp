// A physics-informed network (Raissi, Perdikaris & Karniadakis 2019): learns the solution of the
// heat equation u_t = k u_xx on 0 <= x, t <= 1 with u = 0 at both ends and u(x, 0) = sin(pi x) from
// the equation alone, and is compared with the exact exp(-k pi^2 t) sin(pi x). Derivatives of the
// network by its arguments are taken inside the compiled step, and differentiated once more by the
// parameters.
#include <fmt/format.h>
#include <tandem/tandem.h>
#include <tandem/train.h>

#include <CLI/CLI.hpp>
#include <cmath>

namespace td = tandem;
using td::Tensor;

namespace {

constexpr double kDiffusion = 0.2, kPi = 3.141592653589793;

struct Net {
  td::nn::Linear in{2, 32}, middle{32, 32}, out{32, 1};
  TANDEM_FIELDS(Net, in, middle, out)

  /// x, t [n, 1] -> u [n, 1]
  Tensor operator()(const Tensor& x, const Tensor& t) const {
    return out(td::tanh(middle(td::tanh(in(td::cat({x, t}, 1))))));
  }
};

/// u_t - k u_xx
Tensor residual(const Net& net, const Tensor& points_x, const Tensor& points_t) {
  const Tensor x = points_x.detach().requires_grad_(), t = points_t.detach().requires_grad_();
  const auto first = td::grad({td::sum(net(x, t))}, {x, t}, {.create_graph = true});
  const auto second = td::grad({td::sum(first[0])}, {x}, {.create_graph = true});
  return first[1] - kDiffusion * second[0];
}

Tensor exact(const Tensor& x, const Tensor& t) {
  return td::exp(t * (-kDiffusion * kPi * kPi)) * td::sin(x * kPi);
}

/// At random points inside, at the start and at both ends.
Tensor loss_of(const Net& net, const Tensor& x, const Tensor& t) {
  const Tensor zero = td::zeros_like(x), one = td::ones_like(x);
  const Tensor equation = td::mean(td::square(residual(net, x, t)));
  const Tensor start = td::mean(td::square(net(x, zero) - td::sin(x * kPi)));
  const Tensor ends = td::mean(td::square(net(zero, t)) + td::square(net(one, t)));
  return equation + start + ends;
}

/// |net - exact| / |exact| over a grid.
double relative_error(const Net& net) {
  const td::NoGrad no_grad;
  const auto grid = td::meshgrid({td::linspace(0, 1, 101), td::linspace(0, 1, 101)}, "ij");
  const Tensor x = grid[0].reshape({-1, 1}), t = grid[1].reshape({-1, 1}), u = exact(x, t);
  return (td::norm(net(x, t) - u) / td::norm(u)).item();
}

double train(int steps, int64_t points, double lr, bool quiet) {
  td::manual_seed(1);
  Net net;
  td::optim::Adam optimizer(td::nn::parameters(net), {.lr = lr});
  td::optim::CosineAnnealingLR schedule(optimizer, {.t_max = steps});
  const auto step = td::compile(
      [](const Net& n, td::optim::Adam& o, const Tensor& x, const Tensor& t) {
        const Tensor loss = loss_of(n, x, t);
        loss.backward();
        o.step();
        o.zero_grad();
        return loss.detach();
      },
      {.name = "pinn_step"});
  td::train::Progress progress(steps, {.quiet = quiet});
  for (int i = 0; i < steps; ++i) {
    const Tensor loss = step(net, optimizer, td::rand({points, 1}), td::rand({points, 1}));
    schedule.step();
    progress.show(i + 1, {{"loss", loss.item()}});
  }
  return relative_error(net);
}

}  // namespace

int main(int argc, char** argv) {
  int steps = 3000, points = 512;
  double lr = 5e-3;
  bool quiet = false;
  CLI::App app{"Learns the heat equation from the equation alone."};
  app.add_option("--steps", steps)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--points", points, "per step")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--lr", lr)->capture_default_str();
  app.add_flag("--quiet", quiet, "no progress bar");
  CLI11_PARSE(app, argc, argv);
  try {
    const double error = train(steps, points, lr, quiet);
    fmt::print("relative error against the exact solution: {:.2e}\n", error);
    return 0;
  } catch (const td::Error& e) {
    fmt::print(stderr, "pinn: {}\n", e.what());
    return 1;
  }
}
