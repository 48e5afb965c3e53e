// A residual network (He et al. 2016) on 8x8 images of handwritten digits: convolutions, batch
// norm, shifted training images, a one-cycle schedule, accuracy on images that it has not seen.
// With --run a run that was stopped or killed goes on where it was.
#include <fmt/format.h>
#include <tandem/data.h>
#include <tandem/tandem.h>
#include <tandem/train.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace td = tandem;
namespace tf = td::transforms;
using td::Tensor;

namespace {

struct Arguments {
  int epochs = 30, batch = 64;
  int64_t stop = std::numeric_limits<int64_t>::max();
  uint64_t seed = 1;
  bool eager = false, quiet = false;
  std::string run;
  std::string data = "examples/data/digits.csv.gz";
};

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

Tensor training_step(const ResNet& net, td::optim::AdamW& optimizer, const Tensor& x,
                     const Tensor& y) {
  const Tensor loss = td::cross_entropy(net(x), y);
  loss.backward();
  optimizer.step();
  optimizer.zero_grad();
  return loss.detach();
}

/// Whether the run came to its end.
template <class Data>
bool train(ResNet& net, const Data& data, const Arguments& a) {
  td::data::DataLoader loader(tf::on_first(data, tf::RandomCrop{{8, 8}, 1}), {.batch_size = a.batch,
                                                                              .shuffle = true,
                                                                              .drop_last = true,
                                                                              .num_workers = 1,
                                                                              .seed = a.seed});
  const int64_t steps = a.epochs * loader.size(), last = std::min(a.stop, steps);
  td::optim::AdamW optimizer(td::nn::parameters(net), {.lr = 3e-3, .weight_decay = 0.05});
  td::optim::OneCycleLR schedule(optimizer, {.max_lr = 3e-3, .total_steps = steps});
  std::function step = &training_step;
  if (!a.eager) step = td::compile(&training_step, {.name = "resnet_step"});
  int64_t done = 0;
  td::train::Checkpoint checkpoint;
  checkpoint.add("net", net), checkpoint.add("optimizer", optimizer);
  checkpoint.add("schedule", schedule), checkpoint.add("loader", loader);
  checkpoint.add("done", done);
  std::optional<td::train::JsonLinesLog> log;
  if (!a.run.empty()) {
    std::filesystem::create_directories(a.run);
    checkpoint.load_latest(a.run);
    log.emplace(a.run + "/losses.jsonl", td::train::LogOptions{.resume_at = done});
  }
  td::train::Progress progress(
      steps, {.items_per_step = a.batch, .unit = "images", .start = done, .quiet = a.quiet});
  while (done < last)
    for (const auto& [x, y] : loader) {
      const Tensor loss = step(net, optimizer, x, y);
      schedule.step();
      if (log) log->write(done, {{"loss", loss.item()}});
      progress.show(++done, {{"loss", loss.item()}, {"lr", schedule.get_last_lr()[0]}});
      if (log && (done % 100 == 0 || done == last)) checkpoint.save_step(a.run, done);
      if (done == last) break;
    }
  return done == steps;
}

int run(const Arguments& a) {
  const auto parts = td::data::random_split(load(a.data), std::vector<double>{0.8, 0.2}, a.seed);
  td::manual_seed(a.seed);
  ResNet net;
  if (!train(net, parts[0], a)) return 0;
  const auto logits = td::compile([](const ResNet& n, const Tensor& x) { return n(x); });
  fmt::print("test accuracy {:.2f}%\n", 100 * accuracy(logits, net, parts[1]));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app{"Trains a residual network on handwritten digits."};
  app.add_option("--epochs", a.epochs)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", a.batch)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", a.seed)->capture_default_str();
  app.add_option("--data", a.data)->capture_default_str();
  app.add_option("--run", a.run, "folder of checkpoints and losses, from which the run goes on");
  app.add_option("--stop", a.stop, "end behind this step, to go on later");
  app.add_flag("--eager", a.eager, "compile nothing");
  app.add_flag("--quiet", a.quiet, "no progress bar");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(a);
  } catch (const std::exception& e) {
    fmt::print(stderr, "resnet: {}\n", e.what());
    return 1;
  }
}
