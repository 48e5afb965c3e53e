// Fine-tuning from a PyTorch checkpoint: a convolutional network that
// tests/torch/make_checkpoint.py trained on the digits 0 to 4 learns the digits 5 to 9 from a few
// samples of each. First its new last layer alone, then all of it; beside the same network that
// starts from nothing.
#include <fmt/format.h>
#include <tandem/data.h>
#include <tandem/tandem.h>
#include <tandem/train.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

namespace td = tandem;
using td::Tensor;

namespace {

struct Arguments {
  int samples = 4, steps = 60;
  uint64_t seed = 1;
  bool quiet = false;
  std::string data = "examples/data/digits.csv.gz",
              checkpoint = "examples/data/digits_0_4.safetensors";
};

// --- the model, named as in PyTorch

struct Trunk {
  td::nn::Conv2d conv1{1, 24, 3, {.padding = 1}};
  td::nn::BatchNorm2d norm1{24};
  td::nn::Conv2d conv2{24, 32, 3, {.padding = 1}};
  td::nn::BatchNorm2d norm2{32};
  td::nn::Conv2d conv3{32, 32, 3, {.padding = 1}};
  td::nn::BatchNorm2d norm3{32};
  TANDEM_FIELDS(Trunk, conv1, norm1, conv2, norm2, conv3, norm3)

  /// images [n, 1, 8, 8] -> [n, 128].
  Tensor operator()(const Tensor& images) const {
    Tensor x = td::relu(norm1(conv1(images)));
    x = td::max_pool2d(td::relu(norm2(conv2(x))), 2);
    return td::max_pool2d(td::relu(norm3(conv3(x))), 2).flatten(1);
  }
};

struct Net {
  Trunk trunk;
  td::nn::Linear head{128, 5};
  TANDEM_FIELDS(Net, trunk, head)
  Tensor operator()(const Tensor& images) const { return head(trunk(images)); }
};

// --- the data

struct Digits {
  Tensor images, labels;  // [n, 1, 8, 8]; i64 [n], 0 for a five
};

/// The digits 5 to 9: a few of each, and all others.
std::pair<Digits, Digits> load(const Arguments& a) {
  const td::data::Table table = td::data::load_csv(a.data, {.header = false});
  const Tensor rows = table.numbers();
  const Tensor images = rows.narrow(1, 0, 64).reshape({-1, 1, 8, 8}) / 16;
  const Tensor labels = rows.select(1, 64).to(td::i64) - 5;
  const std::vector<int64_t> digits = labels.to_vector<int64_t>();
  std::vector<int64_t> few, others;
  std::vector<int> taken(5);
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] < 0) continue;
    const bool is_taken = taken[static_cast<size_t>(digits[i])]++ < a.samples;
    (is_taken ? few : others).push_back(static_cast<int64_t>(i));
  }
  const auto choose = [&](const std::vector<int64_t>& list) {
    const Tensor index = td::from_data(list, {static_cast<int64_t>(list.size())});
    return Digits{images.index_select(0, index), labels.index_select(0, index)};
  };
  return {choose(few), choose(others)};
}

// --- the run

/// Steps over all samples. What is frozen stays as it is: an optimizer leaves alone what gets no
/// gradient.
void train(Net& net, const Digits& digits, int steps, double lr, td::train::Progress& progress,
           int64_t& done) {
  td::optim::AdamW optimizer(td::nn::parameters(net), {.lr = lr});
  const auto step = td::compile(
      [](const Net& n, td::optim::AdamW& o, const Tensor& x, const Tensor& y) {
        const Tensor loss = td::cross_entropy(n(x), y);
        loss.backward();
        o.step();
        o.zero_grad();
        return loss.detach();
      },
      {.name = "finetune_step"});
  for (int i = 0; i < steps; ++i) {
    const Tensor loss = step(net, optimizer, digits.images, digits.labels);
    progress.show(++done, {{"loss", loss.item()}});
  }
}

double accuracy(Net& net, const Digits& digits) {
  const td::NoGrad no_grad;
  td::nn::eval(net);
  return td::eq(net(digits.images).argmax(1), digits.labels).to(td::f32).mean().item();
}

/// The checkpoint's network with a new last layer, which learns first, on features that do not
/// change; then all of it, more gently.
double fine_tuned(const Digits& few, const Digits& test, const Arguments& a,
                  td::train::Progress& progress, int64_t& done) {
  Net net;
  td::nn::load_state_dict(net, td::load_safetensors(a.checkpoint));
  net.head = td::nn::Linear(128, 5);
  td::nn::eval(net);
  td::nn::requires_grad_(net.trunk, false);
  train(net, few, a.steps, 1e-2, progress, done);
  td::nn::requires_grad_(net.trunk, true);
  train(net, few, a.steps, 3e-4, progress, done);
  return accuracy(net, test);
}

double from_scratch(const Digits& few, const Digits& test, const Arguments& a,
                    td::train::Progress& progress, int64_t& done) {
  Net net;
  train(net, few, 2 * a.steps, 3e-3, progress, done);
  return accuracy(net, test);
}

int run(const Arguments& a) {
  td::manual_seed(a.seed);
  const auto [few, test] = load(a);
  double tuned = 0, scratch = 0;
  {
    td::train::Progress progress(4 * int64_t{a.steps}, {.quiet = a.quiet});
    int64_t done = 0;
    tuned = fine_tuned(few, test, a, progress, done);
    scratch = from_scratch(few, test, a, progress, done);
  }
  fmt::print(
      "digits 5 to 9 from {} samples of each: accuracy {:.3f} on {} others, {:.3f} from scratch\n",
      a.samples, tuned, int64_t{test.labels.size(0)}, scratch);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app{"Fine-tunes a network of PyTorch's on digits that it has not seen."};
  app.add_option("--samples", a.samples, "of each digit")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--steps", a.steps, "of each phase")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", a.seed)->capture_default_str();
  app.add_option("--data", a.data)->capture_default_str();
  app.add_option("--checkpoint", a.checkpoint)->capture_default_str();
  app.add_flag("--quiet", a.quiet, "the result alone");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(a);
  } catch (const td::Error& e) {
    fmt::print(stderr, "finetune: {}\n", e.what());
    return 1;
  }
}
