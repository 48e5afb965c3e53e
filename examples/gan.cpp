// A generative adversarial network (Goodfellow et al. 2014) of 8x8 handwritten digits: two networks
// with an optimizer each, both updated in one compiled step. How near its digits come to real ones
// is measured by the Frechet distance of their pixels, beside that of noise.
#include <fmt/format.h>
#include <tandem/data.h>
#include <tandem/tandem.h>
#include <tandem/train.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>

namespace td = tandem;
using td::Tensor;

namespace {

constexpr int64_t kPixels = 64, kNoise = 32, kHidden = 256;

struct Generator {
  td::nn::Linear in{kNoise, kHidden}, middle{kHidden, kHidden}, out{kHidden, kPixels};
  td::nn::BatchNorm1d norm1{kHidden}, norm2{kHidden};
  TANDEM_FIELDS(Generator, in, middle, out, norm1, norm2)
  Tensor operator()(const Tensor& noise) const {
    return td::sigmoid(out(td::relu(norm2(middle(td::relu(norm1(in(noise))))))));
  }
};

struct Critic {
  td::nn::Linear in{kPixels, kHidden}, middle{kHidden, kHidden}, out{kHidden, 1};
  td::nn::Dropout drop{0.3};
  TANDEM_FIELDS(Critic, in, middle, out, drop)
  /// The logit of being real.
  Tensor operator()(const Tensor& x) const {
    return out(drop(td::leaky_relu(middle(drop(td::leaky_relu(in(x), 0.2))), 0.2)));
  }
};

struct Gan {
  Generator generator;
  Critic critic;
  TANDEM_FIELDS(Gan, generator, critic)
};

struct Optimizers {
  td::optim::Adam generator, critic;
  TANDEM_FIELDS(Optimizers, generator, critic)
};

struct Losses {
  Tensor generator, critic;
  TANDEM_FIELDS(Losses, generator, critic)
};

/// The critic learns to tell real images from made ones, then the generator to pass for real.
Losses step(const Gan& gan, Optimizers& optimizers, const Tensor& real) {
  const Tensor noise = td::randn({real.size(0), kNoise});
  const Tensor made = gan.generator(noise);
  const Tensor of_critic =
      td::mean(td::softplus(-gan.critic(real))) + td::mean(td::softplus(gan.critic(made.detach())));
  of_critic.backward();
  optimizers.critic.step();
  optimizers.critic.zero_grad();
  const Tensor of_generator = td::mean(td::softplus(-gan.critic(made)));
  of_generator.backward();
  optimizers.generator.step();
  optimizers.generator.zero_grad();
  optimizers.critic.zero_grad();
  return {of_generator.detach(), of_critic.detach()};
}

/// The square root of a positive semi-definite matrix.
Tensor root(const Tensor& matrix) {
  const auto [values, vectors] = td::linalg::eigh(matrix);
  return td::matmul(vectors * td::sqrt(td::clamp_min(values, 0)), vectors.t());
}

/// Of normal distributions with the means and covariances of x and y [n, 64] (Frechet 1957).
double frechet_distance(const Tensor& x, const Tensor& y) {
  const td::NoGrad no_grad;
  const Tensor a = x.to(td::f64), b = y.to(td::f64);
  const Tensor cov_a = td::cov(a.t()), cov_b = td::cov(b.t()), half = root(cov_a);
  const Tensor product = root(td::matmul(td::matmul(half, cov_b), half));
  return (td::sum(td::square(td::mean(a, {0}) - td::mean(b, {0}))) + td::trace(cov_a) +
          td::trace(cov_b) - 2 * td::trace(product))
      .item();
}

struct Distances {
  double made, noise;
};

Distances train(int epochs, const std::string& path, const std::string& out, uint64_t seed,
                bool quiet) {
  const Tensor images =
      td::data::load_csv(path, {.header = false}).numbers().slice(1, 0, kPixels) / 16;
  td::manual_seed(seed);
  Gan gan;
  Optimizers optimizers{
      td::optim::Adam(td::nn::parameters(gan.generator), {.lr = 1e-3, .beta1 = 0.5}),
      td::optim::Adam(td::nn::parameters(gan.critic), {.lr = 1e-3, .beta1 = 0.5})};
  td::data::DataLoader loader(td::data::TensorDataset<Tensor>(images),
                              {.batch_size = 64, .shuffle = true, .drop_last = true, .seed = seed});
  const auto compiled = td::compile(&step, {.name = "gan_step"});
  td::train::Progress progress(epochs * loader.size(),
                               {.items_per_step = 64, .unit = "images", .quiet = quiet});
  int64_t done = 0;
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (const Tensor& real : loader) {
      const Losses losses = compiled(gan, optimizers, real);
      progress.show(++done,
                    {{"generator", losses.generator.item()}, {"critic", losses.critic.item()}});
    }
  const td::NoGrad no_grad;
  const Tensor made = gan.generator(td::randn({images.size(0), kNoise}));
  std::filesystem::create_directories(std::filesystem::absolute(out).parent_path());
  td::data::save_png(out, td::data::image_grid(made.slice(0, 0, 64).view({64, 1, 8, 8}), 8, 1));
  return {frechet_distance(images, made), frechet_distance(images, td::rand_like(images))};
}

}  // namespace

int main(int argc, char** argv) {
  int epochs = 200;
  uint64_t seed = 1;
  std::string path = "examples/data/digits.csv.gz", out = "demo-out/gan.png";
  bool quiet = false;
  CLI::App app{"Trains a generative adversarial network of handwritten digits."};
  app.add_option("--epochs", epochs)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", seed)->capture_default_str();
  app.add_option("--data", path)->capture_default_str();
  app.add_option("--out", out, "picture of what it makes")->capture_default_str();
  app.add_flag("--quiet", quiet, "no progress bar");
  CLI11_PARSE(app, argc, argv);
  try {
    const auto [made, noise] = train(epochs, path, out, seed, quiet);
    fmt::print("Frechet distance to real digits: {:.2f}; noise has {:.2f}\n", made, noise);
    return 0;
  } catch (const td::Error& e) {
    fmt::print(stderr, "gan: {}\n", e.what());
    return 1;
  }
}
