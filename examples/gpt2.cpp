// Loads a GPT-2 in Hugging Face's format (a folder with config.json, model.safetensors, vocab.json
// and merges.txt) and continues a text. Keys and values of earlier tokens are kept in memory of a
// fixed size: the prompt goes through the model once, then each new token alone, by one compiled
// function whose shapes do not change.
#include <fmt/format.h>
#include <tandem/data.h>
#include <tandem/tandem.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace td = tandem;
using td::Tensor;

namespace {

struct Arguments {
  std::string folder, prompt = "It is a truth universally";
  int64_t tokens = 100, top_k = 40;
  double temperature = 0.8;
  uint64_t seed = 1;
  bool quiet = false, int8 = false;
};

struct Config {
  int64_t vocab_size, n_positions, n_embd, n_layer, n_head;
  double layer_norm_epsilon;
};

Config load_config(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw td::Error(td::Errc::File, "cannot read " + path);
  const nlohmann::json json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object() || json.value("model_type", "") != "gpt2")
    throw td::Error(td::Errc::File, path + ": expected the configuration of a GPT-2");
  const auto number = [&](const char* name) { return json.value(name, int64_t{0}); };
  return {number("vocab_size"), number("n_positions"), number("n_embd"),
          number("n_layer"),    number("n_head"),      json.value("layer_norm_epsilon", 1e-5)};
}

// --- the model, named as in the files

/// The keys and values of a layer: [1, heads, capacity, channels / heads] each.
struct KeysAndValues {
  Tensor keys, values;
  TANDEM_FIELDS(KeysAndValues, keys, values)
};

struct Attention {
  td::nn::Linear c_attn, c_proj;
  int64_t heads;
  TANDEM_FIELDS(Attention, c_attn, c_proj, heads)

  /// x [1, time, channels] of tokens at these positions, which are put into the cache.
  Tensor operator()(const Tensor& x, const KeysAndValues& cache, const Tensor& positions,
                    const Tensor& mask) const {
    const td::Dim time = x.size(1), channels = x.size(2);
    const auto parts = td::split(c_attn(x), channels, 2);
    const auto split = [&](const Tensor& t) {
      return t.view({1, time, heads, channels / heads}).transpose(1, 2);
    };
    cache.keys.index_copy_(2, positions, split(parts[1]));
    cache.values.index_copy_(2, positions, split(parts[2]));
    const Tensor y =
        td::scaled_dot_product_attention(split(parts[0]), cache.keys, cache.values, mask);
    return c_proj(y.transpose(1, 2).reshape({1, time, channels}));
  }
};

struct Mlp {
  td::nn::Linear c_fc, c_proj;
  TANDEM_FIELDS(Mlp, c_fc, c_proj)
  Tensor operator()(const Tensor& x) const { return c_proj(td::gelu(c_fc(x), "tanh")); }
};

struct Block {
  td::nn::LayerNorm ln_1, ln_2;
  Attention attn;
  Mlp mlp;
  TANDEM_FIELDS(Block, ln_1, ln_2, attn, mlp)

  explicit Block(const Config& c)
      : ln_1(c.n_embd, {.eps = c.layer_norm_epsilon}),
        ln_2(c.n_embd, {.eps = c.layer_norm_epsilon}),
        attn{{c.n_embd, 3 * c.n_embd}, {c.n_embd, c.n_embd}, c.n_head},
        mlp{{c.n_embd, 4 * c.n_embd}, {4 * c.n_embd, c.n_embd}} {}
};

struct Gpt2 {
  td::nn::Embedding wte, wpe;
  std::vector<Block> h;
  td::nn::LayerNorm ln_f;
  td::nn::Linear lm_head;  // of the embedding's weight
  TANDEM_FIELDS(Gpt2, wte, wpe, h, ln_f, lm_head)

  explicit Gpt2(const Config& c)
      : wte(c.vocab_size, c.n_embd),
        wpe(c.n_positions, c.n_embd),
        ln_f(c.n_embd, {.eps = c.layer_norm_epsilon}) {
    for (int64_t i = 0; i < c.n_layer; ++i) h.emplace_back(c);
    lm_head.weight = wte.weight;
  }

  /// The logits [1, vocabulary] of what follows tokens [1, time], which stand at positions [time].
  Tensor next(const Tensor& tokens, const Tensor& positions,
              const std::vector<KeysAndValues>& cache) const {
    const Tensor places = td::arange(cache[0].keys.size(2));
    const Tensor mask = td::le(places, positions.unsqueeze(1));  // [time, capacity]
    Tensor x = wte(tokens) + wpe(positions);
    for (size_t i = 0; i < h.size(); ++i) {
      x = x + h[i].attn(h[i].ln_1(x), cache[i], positions, mask);
      x = x + h[i].mlp(h[i].ln_2(x));
    }
    return lm_head(ln_f(x.select(1, -1)));
  }
};

Gpt2 load(const std::string& folder, const Config& config) {
  Gpt2 model(config);
  td::NamedTensors files = td::load_safetensors(folder + "/model.safetensors", {.mmap = true});
  for (auto& [name, tensor] : files)  // weights of the layers are [in, out] there
    if (name.find(".c_") != std::string::npos && name.ends_with(".weight")) tensor = tensor.t();
  // Some files name the whole "transformer"; some keep the causal masks ("h.0.attn.bias") too.
  const bool inner = td::find(files, "transformer.wte.weight") != nullptr;
  const auto report = td::nn::load_state_dict(
      model, files, {.strict = false, .prefix = inner ? "transformer" : ""});
  if (!report.missing.empty())
    throw td::Error(td::Errc::File, folder + ": the model lacks " + report.missing[0]);
  return model;
}

// --- the run

/// The likeliest token at temperature 0, else one drawn from the top_k likeliest: [1, 1].
Tensor choose(const Tensor& logits, double temperature, int64_t top_k) {
  if (temperature == 0) return logits.argmax(1, true);
  const auto [values, indices] = td::topk(logits, std::min<int64_t>(top_k, logits.size(1)));
  return indices.gather(1, td::multinomial(td::softmax(values / temperature, 1), 1));
}

int run(const Arguments& a) {
  const td::NoGrad no_grad;
  td::manual_seed(a.seed);
  const Config config = load_config(a.folder + "/config.json");
  Gpt2 model = load(a.folder, config);
  if (a.int8) td::nn::quantize(model);
  const auto tokenizer =
      td::data::BpeTokenizer::load(a.folder + "/vocab.json", a.folder + "/merges.txt");
  const std::vector<int64_t> prompt = tokenizer.encode(a.prompt);
  const auto length = static_cast<int64_t>(prompt.size());
  const int64_t capacity = std::min(config.n_positions, length + a.tokens);
  if (length == 0 || length >= capacity)
    throw td::Error(td::Errc::Argument, fmt::format("expected a prompt of 1 to {} tokens, got {}",
                                                    config.n_positions - 1, length));

  std::vector<KeysAndValues> cache;
  const td::Shape sizes{1, config.n_head, capacity, config.n_embd / config.n_head};
  for (int64_t i = 0; i < config.n_layer; ++i)
    cache.push_back({td::zeros(sizes), td::zeros(sizes)});
  const auto step = td::compile(
      [&](const Tensor& tokens, const Tensor& positions, const std::vector<KeysAndValues>& kept) {
        return choose(model.next(tokens, positions, kept), a.temperature, a.top_k);
      });

  td::data::StreamDecoder decoder(tokenizer);
  using Clock = std::chrono::steady_clock;
  Clock::time_point start;
  fmt::print("{}", a.prompt);
  Tensor token = step(td::from_data(prompt, {1, length}), td::arange(length), cache);
  for (int64_t at = length; at < capacity; ++at) {
    fmt::print("{}", decoder.next(static_cast<int64_t>(token.item())));
    if (!a.quiet) std::fflush(stdout);
    if (at + 1 == capacity) break;
    token = step(token, td::arange(at, at + 1), cache);
    if (at == length) start = Clock::now();  // what comes before compiles
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  fmt::print("{}\n", decoder.finish());
  if (!a.quiet && capacity - length > 2)
    fmt::print("\n{:.1f} tokens per second\n",
               static_cast<double>(capacity - length - 2) / seconds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app{"Continues a text with a GPT-2."};
  app.add_option("folder", a.folder, "with config.json, model.safetensors, vocab.json, merges.txt")
      ->required();
  app.add_option("--prompt", a.prompt, "the beginning")->capture_default_str();
  app.add_option("--tokens", a.tokens, "how many follow")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--temperature", a.temperature, "0: always the likeliest token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--top-k", a.top_k, "draw from the likeliest")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", a.seed)->capture_default_str();
  app.add_flag("--int8", a.int8, "linear layers with weights in i8");
  app.add_flag("--quiet", a.quiet, "the text alone");
  CLI11_PARSE(app, argc, argv);
  try {
    return run(a);
  } catch (const td::Error& e) {
    fmt::print(stderr, "gpt2: {}\n", e.what());
    return 1;
  }
}
