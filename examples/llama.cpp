// A small Llama (RMSNorm, rotary positions, SwiGLU, grouped-query attention, weights of its own for
// the output; names as in Hugging Face's checkpoints), trained on the characters of
// examples/data/austen.txt. Each step - loss, gradients, clipping, AdamW - is one compiled
// function. With --run a run that was stopped or killed goes on where it was.
#include <fmt/format.h>
#include <tandem/data.h>
#include <tandem/tandem.h>
#include <tandem/train.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace td = tandem;
using td::Tensor;
using td::data::CharTokenizer;

namespace {

struct Arguments {
  int steps = 1000, batch = 16;
  int stop = std::numeric_limits<int>::max();
  uint64_t seed = 1;
  bool eager = false, quiet = false;
  std::string run;
  std::string text = "examples/data/austen.txt";
};

constexpr int64_t kContext = 64, kChannels = 128, kHeads = 4, kKeyHeads = 2, kHidden = 344;
constexpr int64_t kHeadSize = kChannels / kHeads;

// --- the model

struct Attention {
  td::nn::Linear q_proj{kChannels, kChannels, false};
  td::nn::Linear k_proj{kChannels, kKeyHeads* kHeadSize, false};
  td::nn::Linear v_proj{kChannels, kKeyHeads* kHeadSize, false};
  td::nn::Linear o_proj{kChannels, kChannels, false};
  td::nn::RotaryEmbedding rotary{.dim = kHeadSize};
  TANDEM_FIELDS(Attention, q_proj, k_proj, v_proj, o_proj, rotary)

  Tensor operator()(const Tensor& x) const {
    const td::Dim batch = x.size(0), time = x.size(1);
    const auto heads = [&](const Tensor& t) {
      return t.view({batch, time, -1, kHeadSize}).transpose(1, 2);
    };
    const Tensor y =
        td::scaled_dot_product_attention(rotary(heads(q_proj(x))), rotary(heads(k_proj(x))),
                                         heads(v_proj(x)), {.is_causal = true, .enable_gqa = true});
    return o_proj(y.transpose(1, 2).reshape({batch, time, kChannels}));
  }
};

struct Mlp {
  td::nn::Linear gate_proj{kChannels, kHidden, false}, up_proj{kChannels, kHidden, false};
  td::nn::Linear down_proj{kHidden, kChannels, false};
  TANDEM_FIELDS(Mlp, gate_proj, up_proj, down_proj)

  Tensor operator()(const Tensor& x) const {
    return down_proj(td::silu(gate_proj(x)) * up_proj(x));
  }
};

struct Layer {
  td::nn::RMSNorm input_layernorm{kChannels}, post_attention_layernorm{kChannels};
  Attention self_attn;
  Mlp mlp;
  TANDEM_FIELDS(Layer, input_layernorm, post_attention_layernorm, self_attn, mlp)

  Tensor operator()(const Tensor& x) const {
    const Tensor h = x + self_attn(input_layernorm(x));
    return h + mlp(post_attention_layernorm(h));
  }
};

struct Llama {
  td::nn::Embedding embed_tokens;
  std::vector<Layer> layers = std::vector<Layer>(4);
  td::nn::RMSNorm norm{kChannels};
  td::nn::Linear lm_head;
  TANDEM_FIELDS(Llama, embed_tokens, layers, norm, lm_head)

  explicit Llama(int64_t vocabulary)
      : embed_tokens(vocabulary, kChannels), lm_head(kChannels, vocabulary, false) {
    for (const auto& [name, weight] : td::nn::named_parameters(*this))
      if (weight.dim() == 2) td::nn::init::normal_(weight, 0, 0.02);
  }

  /// tokens [batch, time] -> logits [batch, time, vocabulary].
  Tensor operator()(const Tensor& tokens) const {
    Tensor x = embed_tokens(tokens);
    for (const Layer& layer : layers) x = layer(x);
    return lm_head(norm(x));
  }

  Tensor loss(const Tensor& x, const Tensor& y) const {
    return td::cross_entropy((*this)(x).flatten(0, 1), y.flatten());
  }
};

// --- the text

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (text.size() < 20 * kContext)
    throw td::Error(td::Errc::File, "cannot read a text from " + path);
  return text;
}

/// Windows of a text and the same one character later, as a data set.
struct Windows {
  Tensor codes;
  int64_t size() const { return codes.size(0) - kContext; }
  std::pair<Tensor, Tensor> get(int64_t i) const {
    return {codes.narrow(0, i, kContext), codes.narrow(0, i + 1, kContext)};
  }
};

// --- the run

Tensor training_step(const Llama& model, td::optim::AdamW& optimizer, const Tensor& x,
                     const Tensor& y) {
  const Tensor loss = model.loss(x, y);
  loss.backward();
  td::optim::clip_grad_norm_(td::nn::parameters(model), 1.0);
  optimizer.step();
  optimizer.zero_grad();
  return loss.detach();
}

/// Whether the run came to its end.
bool train(Llama& model, const Windows& windows, const Arguments& a) {
  td::optim::AdamW optimizer(td::nn::parameters(model),
                             {.lr = 2e-3, .beta2 = 0.95, .weight_decay = 0.1});
  td::optim::CosineAnnealingLR schedule(optimizer, {.t_max = a.steps, .eta_min = 1e-4});
  std::function step = &training_step;
  if (!a.eager) step = td::compile(&training_step, {.name = "llama_step"});
  const auto draws = td::data::random(
      windows.size(), {.replacement = true, .num_samples = int64_t{a.steps} * a.batch});
  td::data::DataLoader loader(windows, {.batch_size = a.batch, .seed = a.seed, .sampler = draws});
  int done = 0;
  td::train::Checkpoint checkpoint;
  checkpoint.add("model", model), checkpoint.add("optimizer", optimizer);
  checkpoint.add("schedule", schedule), checkpoint.add("loader", loader);
  checkpoint.add("done", done);
  std::optional<td::train::JsonLinesLog> log;
  if (!a.run.empty()) {
    std::filesystem::create_directories(a.run);
    checkpoint.load_latest(a.run);
    log.emplace(a.run + "/losses.jsonl", td::train::LogOptions{.resume_at = done});
  }
  td::train::Progress progress(a.steps, {.items_per_step = a.batch * kContext,
                                         .unit = "characters",
                                         .start = done,
                                         .quiet = a.quiet});
  const int last = std::min(a.stop, a.steps);
  while (done < last)
    for (auto& [x, y] : loader) {
      const Tensor loss = step(model, optimizer, x, y);
      schedule.step();
      if (log) log->write(done, {{"loss", loss.item()}});
      progress.show(++done, {{"loss", loss.item()}});
      if (log && (done % 100 == 0 || done == last)) checkpoint.save_step(a.run, done);
      if (done == last) break;
    }
  return done == a.steps;
}

double held_out_loss(const Llama& model, const Windows& windows, const Arguments& a) {
  const td::NoGrad no_grad;
  const auto loss = td::compile([&](const Tensor& x, const Tensor& y) { return model.loss(x, y); });
  const auto draws = td::data::random(windows.size(), {.num_samples = 40 * a.batch});
  double sum = 0;
  td::data::DataLoader loader(windows, {.batch_size = a.batch, .sampler = draws});
  for (auto& [x, y] : loader) sum += loss(x, y).item();
  return sum / static_cast<double>(loader.size());
}

/// Continues a line break by `length` characters.
std::string sample(const Llama& model, const CharTokenizer& tokenizer, int length) {
  const td::NoGrad no_grad;
  const auto next = td::compile([&](const Tensor& window) {
    return td::multinomial(td::softmax(model(window).select(1, -1) / 0.8, -1), 1);
  });
  Tensor window = td::full({1, kContext}, tokenizer.encode("\n")[0], td::i64);
  std::vector<int64_t> tokens;
  for (int i = 0; i < length; ++i) {
    window = td::cat({window.narrow(1, 1, kContext - 1), next(window)}, 1);
    tokens.push_back(static_cast<int64_t>(window.select(1, -1).item()));
  }
  return tokenizer.decode(tokens);
}

int run(const Arguments& a) {
  td::manual_seed(a.seed);
  const std::string text = read(a.text);
  const CharTokenizer tokenizer(text);
  const std::vector<int64_t> tokens = tokenizer.encode(text);
  const auto size = static_cast<int64_t>(tokens.size());
  const Tensor codes = td::from_data(tokens, {size});
  const int64_t training = size / 10 * 9;
  Llama model(tokenizer.vocab_size());
  if (!train(model, Windows{codes.narrow(0, 0, training)}, a)) return 0;
  const double loss = held_out_loss(model, Windows{codes.narrow(0, training, size - training)}, a);
  if (!a.quiet) fmt::print("{}\n\n", sample(model, tokenizer, 400));
  fmt::print("held-out loss {:.3f} nats per character, {} parameters\n", loss,
             td::nn::num_parameters(model));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app{"Trains a small Llama on a text, character by character."};
  app.add_option("--steps", a.steps)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", a.batch)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", a.seed)->capture_default_str();
  app.add_option("--text", a.text)->capture_default_str();
  app.add_option("--run", a.run, "folder of checkpoints and losses, from which the run goes on");
  app.add_option("--stop", a.stop, "end behind this step, to go on later");
  app.add_flag("--eager", a.eager, "compile nothing");
  app.add_flag("--quiet", a.quiet, "the result alone");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(a);
  } catch (const std::exception& e) {
    fmt::print(stderr, "llama: {}\n", e.what());
    return 1;
  }
}
