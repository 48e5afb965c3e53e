// Trains a small character-level GPT (nanoGPT's CPU configuration: 4 layers, 4 heads, 128 channels,
// 64 characters of context, batch 12) on examples/data/austen.txt, then writes a paragraph and says
// what the compiler did. A training step (loss, gradients, update) is one compiled function;
// `--form halves` compiles the loss alone in an eager loop, `--form eager` nothing but the
// optimizer. At the end both compiled forms are timed beside each other.
#include <fmt/format.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>
#include <tandem/train.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "char_data.h"
#include "report.h"

namespace td = tandem;
using td::Tensor;

namespace {

struct Config {
  int64_t vocabulary, context = 64, layers = 4, heads = 4, channels = 128;
};

// --- the model

struct Attention {
  td::nn::Linear qkv, proj;
  int64_t heads = 1;
  TANDEM_FIELDS(Attention, qkv, proj, heads)

  Tensor operator()(const Tensor& x) const {
    const td::Dim batch = x.size(0), time = x.size(1), channels = x.size(2);
    const auto split = td::split(qkv(x), channels, 2);
    const auto head = [&](const Tensor& t) {
      return t.view({batch, time, heads, channels / heads}).transpose(1, 2);
    };
    const Tensor y =
        td::scaled_dot_product_attention(head(split[0]), head(split[1]), head(split[2]), {}, true);
    return proj(y.transpose(1, 2).reshape({batch, time, channels}));
  }
};

struct Block {
  td::nn::LayerNorm norm1, norm2;
  Attention attention;
  td::nn::Linear fc, fc_out;
  TANDEM_FIELDS(Block, norm1, attention, norm2, fc, fc_out)

  Block(const Config& c)
      : norm1(c.channels),
        norm2(c.channels),
        attention{{c.channels, 3 * c.channels}, {c.channels, c.channels}, c.heads},
        fc(c.channels, 4 * c.channels),
        fc_out(4 * c.channels, c.channels) {}

  Tensor operator()(const Tensor& x) const {
    const Tensor h = x + attention(norm1(x));
    return h + fc_out(td::gelu(fc(norm2(h)), "tanh"));
  }
};

struct Gpt {
  td::nn::Embedding tokens, positions;
  std::vector<Block> blocks;
  td::nn::LayerNorm norm;
  TANDEM_FIELDS(Gpt, tokens, positions, blocks, norm)

  explicit Gpt(const Config& c)
      : tokens(c.vocabulary, c.channels), positions(c.context, c.channels), norm(c.channels) {
    for (int64_t i = 0; i < c.layers; ++i) blocks.emplace_back(c);
    initialise(c);
  }

  /// indices [batch, time] -> logits [batch, time, vocabulary]; the output weights are the token
  /// embedding's.
  Tensor operator()(const Tensor& indices) const {
    Tensor x = tokens(indices) + positions.weight.slice(0, 0, indices.size(1));
    for (const Block& block : blocks) x = block(x);
    return td::matmul(norm(x), tokens.weight.t());
  }

 private:
  /// GPT-2's initialisation: normal 0.02, biases 0, projections into the residual stream scaled by
  /// 1/sqrt(2 layers).
  void initialise(const Config& c) const {
    const td::NoGrad no_grad;
    for (const auto& [name, t] : td::nn::named_tensors(*this)) {
      if (name.find("norm") != std::string::npos) continue;
      const bool residual = name.ends_with("proj.weight") || name.ends_with("fc_out.weight");
      const double scale = residual ? 0.02 / std::sqrt(2.0 * static_cast<double>(c.layers)) : 0.02;
      t.copy_(name.ends_with("bias") ? td::zeros_like(t) : td::randn_like(t) * scale);
    }
  }
};

Tensor loss_of(const Gpt& model, const Tensor& x, const Tensor& y) {
  const Tensor logits = model(x);
  return td::cross_entropy(logits.view({-1, logits.size(-1)}), y.view({-1}));
}

/// Loss, gradients and update. The optimizer's state is written in place.
Tensor training_step(const Gpt& model, td::optim::AdamW& optimizer, const Tensor& x,
                     const Tensor& y) {
  const Tensor loss = loss_of(model, x, y);
  loss.backward();
  optimizer.step();
  optimizer.zero_grad();
  return loss.detach();
}

using Step = std::function<Tensor(const Gpt&, td::optim::AdamW&, const Tensor&, const Tensor&)>;

Step whole_step() { return td::compile(&training_step, {.name = "step"}); }

/// The same with a compiled loss in an eager loop.
Step step_of_halves() {
  return [loss_fn = td::compile(&loss_of, {.name = "loss"})](
             const Gpt& model, td::optim::AdamW& optimizer, const Tensor& x, const Tensor& y) {
    const Tensor loss = loss_fn(model, x, y);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return loss.detach();
  };
}

// --- the run

struct Arguments {
  int steps = 4000, batch = 12, seed = 1337;
  bool bf16 = false, quiet = false;
  std::string form = "whole";
  double lr = 1e-3;
  std::string text = "examples/data/austen.txt", out = "demo-out";
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  CLI::App app{"Trains a small character-level GPT with tandem::compile."};
  app.add_option("--steps", a.steps, "training steps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--batch", a.batch, "sequences per step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--lr", a.lr, "largest learning rate")->capture_default_str();
  app.add_option("--seed", a.seed, "of weights and batches")->capture_default_str();
  app.add_option("--text", a.text, "the training text")->capture_default_str();
  app.add_option("--out", a.out, "folder for graphs and the loss curve")->capture_default_str();
  app.add_option("--form", a.form, "what is compiled: whole steps, halves (the loss), or nothing")
      ->check(CLI::IsMember({"whole", "halves", "eager"}))
      ->capture_default_str();
  app.add_flag("--bf16", a.bf16, "matrix products in bf16 (autocast), weights in f32");
  app.add_flag("--quiet", a.quiet, "no progress bar");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
  return a;
}

/// Linear warm-up over a fiftieth of the steps, then a cosine down to a tenth.
double learning_rate(int step, const Arguments& a) {
  const double warm = std::max(1.0, a.steps / 50.0);
  if (step < warm) return a.lr * (step + 1) / warm;
  const double progress = (step - warm) / std::max(1.0, a.steps - warm);
  return a.lr * (0.1 + 0.45 * (1 + std::cos(M_PI * progress)));
}

/// Mean loss over `batches` fixed batches of the held-out text.
template <class LossFn>
double held_out_loss(const LossFn& loss, const Gpt& model, const examples::CharData& data,
                     const Arguments& a, int batches = 40) {
  const td::NoGrad no_grad;
  examples::Batches source(data.held_out(), a.batch, 64, 7);
  double sum = 0;
  for (int i = 0; i < batches; ++i) {
    const auto [x, y] = source.next();
    sum += loss(model, x, y).item();
  }
  return sum / batches;
}

/// Continues `prompt` by `length` characters drawn from the model's distribution.
template <class Logits>
std::string sample(const Logits& logits_of, const Gpt& model, const examples::CharData& data,
                   std::string prompt, int length, examples::Random& random) {
  const td::NoGrad no_grad;
  std::vector<int64_t> window(64, data.code('\n'));
  const auto push = [&](int64_t code) {
    window.erase(window.begin());
    window.push_back(code);
  };
  for (char c : prompt) push(data.code(c));
  for (int i = 0; i < length; ++i) {
    const Tensor logits = logits_of(model, td::from_data(window, {1, 64}));
    const int64_t code =
        random.draw(td::softmax(logits.select(1, 63).select(0, 0) / 0.8, 0).to_vector<double>());
    push(code);
    prompt += data.character(code);
  }
  return prompt;
}

struct TrainingRun {
  std::vector<double> losses;
  double seconds = 0, first_step_seconds = 0;
};

td::optim::AdamW optimizer_of(const Gpt& model, double lr) {
  return td::optim::AdamW(td::nn::parameters(model),
                          {.lr = lr, .beta2 = 0.99, .weight_decay = 0.1});
}

TrainingRun train(const Step& take_step, Gpt& model, const examples::CharData& data,
                  const Arguments& a) {
  td::optim::AdamW optimizer = optimizer_of(model, a.lr);
  examples::Batches batches(data.training(), a.batch, 64, static_cast<uint64_t>(a.seed));
  td::train::Progress progress(
      a.steps, {.items_per_step = a.batch * 64, .unit = "tokens", .quiet = a.quiet});
  TrainingRun run;
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  for (int step = 0; step < a.steps; ++step) {
    optimizer.lr.set(learning_rate(step, a));
    const auto [x, y] = batches.next();
    run.losses.push_back(take_step(model, optimizer, x, y).item());
    if (step == 0) run.first_step_seconds = elapsed();
    progress.show(step + 1, {{"loss", run.losses.back()}});
  }
  run.seconds = elapsed();
  return run;
}

/// Milliseconds of a step of each form, on copies of the model, in turns: the median of `rounds`.
std::vector<double> step_times(const std::vector<Step>& forms, const Gpt& model,
                               const examples::CharData& data, const Arguments& a,
                               int rounds = 40) {
  struct Contender {
    Gpt model;
    td::optim::AdamW optimizer;
    std::vector<double> ms = {};
  };
  std::vector<Contender> contenders;
  for (size_t i = 0; i < forms.size(); ++i) {
    const Gpt copy = td::nn::clone(model);
    contenders.push_back({copy, optimizer_of(copy, a.lr)});
  }
  examples::Batches batches(data.training(), a.batch, 64, 3);
  for (int round = -2; round < rounds; ++round) {  // two that may compile
    const auto [x, y] = batches.next();
    for (size_t i = 0; i < forms.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      forms[i](contenders[i].model, contenders[i].optimizer, x, y).item();
      const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
      if (round >= 0) contenders[i].ms.push_back(ms.count());
    }
  }
  std::vector<double> medians;
  for (Contender& c : contenders) {
    std::ranges::nth_element(c.ms, c.ms.begin() + rounds / 2);
    medians.push_back(c.ms[static_cast<size_t>(rounds / 2)]);
  }
  return medians;
}

template <class LossFn, class Logits>
int run(const Step& take_step, const LossFn& loss_fn, const Logits& logits, const Arguments& a) {
  const td::Autocast autocast(td::bf16, {.enabled = a.bf16});
  const examples::CharData data(a.text);
  td::manual_seed(static_cast<uint64_t>(a.seed));
  Gpt model({.vocabulary = data.vocabulary()});
  const double bigram = data.bigram_loss();
  const TrainingRun result = train(take_step, model, data, a);
  const double held_out = held_out_loss(loss_fn, model, data, a);
  examples::Random random(static_cast<uint64_t>(a.seed));
  fmt::print("\n{}\n", sample(logits, model, data, "\nIt is a truth", 400, random));
  fmt::print("\nheld-out loss {:.4f} nats per character; a bigram model has {:.4f}\n", held_out,
             bigram);
  nlohmann::json figures = {
      {"steps", a.steps},
      {"final_loss", result.losses.back()},
      {"losses", std::vector<double>(result.losses.begin(),
                                     result.losses.begin() + std::min<long>(20, a.steps))},
      {"held_out_loss", held_out},
      {"bigram_loss", bigram},
      {"seconds", result.seconds},
      {"first_step_seconds", result.first_step_seconds},
      {"tokens_per_second", a.steps * a.batch * 64 / result.seconds},
      {"form", a.form},
      {"bf16", a.bf16}};
  if (a.form != "eager") {
    const auto ms = step_times({whole_step(), step_of_halves()}, model, data, a);
    fmt::print("a step: {:.2f} ms as one function, {:.2f} ms as a compiled loss and optimizer\n",
               ms[0], ms[1]);
    figures.update({{"whole_step_ms", ms[0]}, {"halves_step_ms", ms[1]}});
    const auto graphs = td::compiled_graphs();
    examples::print_compiler_report(graphs, figures);
    examples::write_graphs(a.out, *graphs.front());
  }
  std::filesystem::create_directories(a.out);
  td::train::write_svg(a.out + "/loss.svg", {{"training loss", result.losses}},
                       {{"bigram model", bigram}, {"held out, at the end", held_out}},
                       {.y_label = "nats per character"});
  fmt::print("{}\n", figures.dump());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv);
  const auto logits = [](const Gpt& model, const Tensor& x) { return model(x); };
  try {
    if (a.form == "eager") return run(training_step, loss_of, logits, a);
    return run(a.form == "whole" ? whole_step() : step_of_halves(),
               td::compile(&loss_of, {.name = "loss"}), td::compile(logits, {.name = "logits"}), a);
  } catch (const td::Error& e) {
    fmt::print(stderr, "nanogpt: {}\n", e.what());
    return 1;
  }
}
