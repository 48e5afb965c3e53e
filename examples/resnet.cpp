// A residual network (He et al. 2016) on 8x8 images of handwritten digits: convolutions, batch
// norm, shifted training images, a one-cycle schedule, accuracy on images that it has not seen.
#include <fmt/format.h>
#include <tandem/data.h>
#include <tandem/tandem.h>
#include <tandem/train.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace td = tandem;
namespace tf = td::transforms;
using td::Tensor;

namespace {

td::nn::Conv2d conv3x3(int64_t in, int64_t out, int64_t stride = 1) {
  return {in, out, 3, {.stride = stride, .padding = 1, .bias = false}};
}

struct Block {
  td::nn::Conv2d conv1, conv2;
  td::nn::BatchNorm2d norm1, norm2;
  std::optional<td::nn::Conv2d> shortcut;  // where the sizes change
  TANDEM_FIELDS(Block, conv1, norm1, conv2, norm2, shortcut)

  Block(int64_t in, int64_t out, int64_t stride)
      : conv1(conv3x3(in, out, stride)), conv2(conv3x3(out, out)), norm1(out), norm2(out) {
    if (in != out || stride != 1)
      shortcut = td::nn::Conv2d(in, out, 1, {.stride = stride, .bias = false});
  }
  Tensor operator()(const Tensor& x) const {
    const Tensor y = norm2(conv2(td::relu(norm1(conv1(x)))));
    return td::relu(y + (shortcut ? (*shortcut)(x) : x));
  }
};

struct ResNet {
  td::nn::Conv2d stem = conv3x3(1, 32);
  td::nn::BatchNorm2d norm{32};
  std::vector<Block> blocks{{32, 32, 1}, {32, 64, 2}, {64, 128, 2}};
  td::nn::Linear head{128, 10};
  TANDEM_FIELDS(ResNet, stem, norm, blocks, head)

  /// images [n, 1, 8, 8] -> logits [n, 10]
  Tensor operator()(const Tensor& images) const {
    Tensor x = td::relu(norm(stem(images)));
    for (const Block& block : blocks) x = block(x);
    return head(td::mean(x, {2, 3}));
  }
};

using Digits = td::data::TensorDataset<Tensor, Tensor>;

/// Pixels from 0 to 1, and labels.
Digits load(const std::string& path) {
  const Tensor table = td::data::load_csv(path, {.header = false}).numbers();
  const Tensor images = table.slice(1, 0, 64).reshape({-1, 1, 8, 8}) / 16;
  return Digits(images, table.select(1, 64).to(td::i64));
}

template <class Logits, class Data>
double accuracy(const Logits& logits, ResNet& net, const Data& data) {
  const td::NoGrad no_grad;
  td::nn::eval(net);
  double right = 0;
  td::data::DataLoader loader(data, {.batch_size = 128});
  for (const auto& [x, y] : loader)
    right += td::sum(td::eq(td::argmax(logits(net, x), 1), y)).item();
  td::nn::train(net);
  return right / static_cast<double>(data.size());
}

double train(int epochs, const std::string& path, uint64_t seed, bool quiet) {
  const auto parts = td::data::random_split(load(path), std::vector<double>{0.8, 0.2}, seed);
  td::manual_seed(seed);
  ResNet net;
  td::data::DataLoader loader(
      tf::on_first(parts[0], tf::RandomCrop{{8, 8}, 1}),
      {.batch_size = 64, .shuffle = true, .drop_last = true, .num_workers = 1, .seed = seed});
  const int64_t steps = epochs * loader.size();
  td::optim::AdamW optimizer(td::nn::parameters(net), {.lr = 3e-3, .weight_decay = 0.05});
  td::optim::OneCycleLR schedule(optimizer, {.max_lr = 3e-3, .total_steps = steps});
  const auto step = td::compile(
      [](const ResNet& n, td::optim::AdamW& o, const Tensor& x, const Tensor& y) {
        const Tensor loss = td::cross_entropy(n(x), y);
        loss.backward();
        o.step();
        o.zero_grad();
        return loss.detach();
      },
      {.name = "resnet_step"});
  td::train::Progress progress(steps, {.items_per_step = 64, .unit = "images", .quiet = quiet});
  int64_t done = 0;
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (const auto& [x, y] : loader) {
      const Tensor loss = step(net, optimizer, x, y);
      schedule.step();
      progress.show(++done, {{"loss", loss.item()}, {"lr", schedule.get_last_lr()[0]}});
    }
  const auto logits = td::compile([](const ResNet& n, const Tensor& x) { return n(x); });
  return accuracy(logits, net, parts[1]);
}

}  // namespace

int main(int argc, char** argv) {
  int epochs = 30;
  uint64_t seed = 1;
  std::string path = "examples/data/digits.csv.gz";
  bool quiet = false;
  CLI::App app{"Trains a residual network on handwritten digits."};
  app.add_option("--epochs", epochs)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", seed)->capture_default_str();
  app.add_option("--data", path)->capture_default_str();
  app.add_flag("--quiet", quiet, "no progress bar");
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print("test accuracy {:.2f}%\n", 100 * train(epochs, path, seed, quiet));
    return 0;
  } catch (const td::Error& e) {
    fmt::print(stderr, "resnet: {}\n", e.what());
    return 1;
  }
}
