// A variational autoencoder (Kingma & Welling 2014) of 8x8 handwritten digits: eight latent
// numbers, random draws inside the compiled step, and new digits drawn from the prior as a picture.
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

constexpr int64_t kPixels = 64, kLatent = 8, kHidden = 256;

struct Vae {
  td::nn::Linear encode{kPixels, kHidden}, mean{kHidden, kLatent}, log_var{kHidden, kLatent};
  td::nn::Linear decode{kLatent, kHidden}, pixels{kHidden, kPixels};
  TANDEM_FIELDS(Vae, encode, mean, log_var, decode, pixels)

  /// Latent numbers [n, 8] -> logits of pixels [n, 64]
  Tensor decoded(const Tensor& z) const { return pixels(td::relu(decode(z))); }
};

/// Minus the evidence lower bound of images [n, 64], in nats per image.
Tensor loss_of(const Vae& vae, const Tensor& x) {
  const Tensor h = td::relu(vae.encode(x));
  const Tensor mean = vae.mean(h), log_var = vae.log_var(h);
  const Tensor z = mean + td::exp(0.5 * log_var) * td::randn_like(mean);
  const Tensor reconstruction =
      td::binary_cross_entropy_with_logits(vae.decoded(z), x, {.reduction = "sum"});
  const Tensor divergence = -0.5 * td::sum(1 + log_var - td::square(mean) - td::exp(log_var));
  return (reconstruction + divergence) / static_cast<double>(x.size(0));
}

Tensor load(const std::string& path) {
  return td::data::load_csv(path, {.header = false}).numbers().slice(1, 0, kPixels) / 16;
}

double train(int epochs, const std::string& path, const std::string& out, uint64_t seed,
             bool quiet) {
  const auto parts = td::data::random_split(td::data::TensorDataset(load(path)),
                                            std::vector<double>{0.8, 0.2}, seed);
  td::manual_seed(seed);
  Vae vae;
  td::data::DataLoader loader(parts[0],
                              {.batch_size = 64, .shuffle = true, .drop_last = true, .seed = seed});
  td::optim::Adam optimizer(td::nn::parameters(vae), {.lr = 1e-3});
  const auto step = td::compile(
      [](const Vae& v, td::optim::Adam& o, const Tensor& x) {
        const Tensor loss = loss_of(v, x);
        loss.backward();
        o.step();
        o.zero_grad();
        return loss.detach();
      },
      {.name = "vae_step"});
  td::train::Progress progress(epochs * loader.size(),
                               {.items_per_step = 64, .unit = "images", .quiet = quiet});
  int64_t done = 0;
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (const Tensor& x : loader)
      progress.show(++done, {{"loss", step(vae, optimizer, x).item()}});

  const td::NoGrad no_grad;
  const Tensor digits = td::sigmoid(vae.decoded(td::randn({64, kLatent})));
  std::filesystem::create_directories(std::filesystem::absolute(out).parent_path());
  td::data::save_png(out, td::data::image_grid(digits.view({64, 1, 8, 8}), 8, 1));
  double sum = 0;
  td::data::DataLoader held_out(parts[1], {.batch_size = parts[1].size()});
  for (const Tensor& x : held_out) sum += loss_of(vae, x).item();
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  int epochs = 100;
  uint64_t seed = 1;
  std::string path = "examples/data/digits.csv.gz", out = "demo-out/vae.png";
  bool quiet = false;
  CLI::App app{"Trains a variational autoencoder of handwritten digits."};
  app.add_option("--epochs", epochs)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", seed)->capture_default_str();
  app.add_option("--data", path)->capture_default_str();
  app.add_option("--out", out, "picture of digits drawn from the prior")->capture_default_str();
  app.add_flag("--quiet", quiet, "no progress bar");
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print("held-out bound: {:.2f} nats per image\n", train(epochs, path, out, seed, quiet));
    return 0;
  } catch (const td::Error& e) {
    fmt::print(stderr, "vae: {}\n", e.what());
    return 1;
  }
}
