// A language model of two LSTM layers on the characters of examples/data/austen.txt, by truncated
// backpropagation through time: each step goes on with the state that the last one left, without
// its history. With --run a run that was stopped or killed goes on where it was.
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
#include <tuple>
#include <utility>
#include <vector>

namespace td = tandem;
using td::Tensor;
using td::data::CharTokenizer;
using td::nn::LstmState;

namespace {

struct Arguments {
  int steps = 1500, batch = 32, time = 32, hidden = 192;
  int stop = std::numeric_limits<int>::max();
  uint64_t seed = 1;
  bool eager = false, quiet = false;
  std::string run;
  std::string text = "examples/data/austen.txt";
};

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (text.size() < 100'000) throw td::Error(td::Errc::File, "cannot read a text from " + path);
  return text;
}

/// Codes [begin, end) as `rows` pieces that are read side by side: [rows, length].
Tensor streams(const Tensor& codes, int64_t begin, int64_t end, int64_t rows) {
  const int64_t length = (end - begin) / rows;
  return codes.narrow(0, begin, rows * length).view({rows, length});
}

struct Model {
  td::nn::Embedding embedding;
  td::nn::LSTM lstm;
  td::nn::Dropout dropout{0.1};
  td::nn::Linear out;
  TANDEM_FIELDS(Model, embedding, lstm, dropout, out)

  Model(int64_t vocabulary, int64_t hidden)
      : embedding(vocabulary, hidden),
        lstm(hidden, hidden, {.num_layers = 2, .batch_first = true, .dropout = 0.1}),
        out(hidden, vocabulary) {}

  /// tokens [batch, time] -> logits [batch, time, vocabulary], and the state behind them.
  std::pair<Tensor, LstmState> operator()(const Tensor& tokens, const LstmState& state) const {
    const auto [output, after] = lstm(dropout(embedding(tokens)), state);
    return {out(dropout(output)), {after.h.detach(), after.c.detach()}};
  }

  LstmState zero_state(int64_t batch) const {
    const Tensor zero = td::zeros({lstm.num_layers, batch, lstm.hidden_size});
    return {zero, zero.clone()};
  }
};

struct LossAndState {
  Tensor loss;
  LstmState state;
  TANDEM_FIELDS(LossAndState, loss, state)
};

LossAndState loss_of(const Model& model, const Tensor& window, const LstmState& state) {
  const td::Dim time = window.size(1) - 1;
  auto [logits, after] = model(window.narrow(1, 0, time), state);
  return {td::cross_entropy(logits.flatten(0, 1), window.narrow(1, 1, time).flatten()), after};
}

LossAndState training_step(const Model& model, td::optim::Adam& optimizer, const Tensor& window,
                           const LstmState& state) {
  auto [loss, after] = loss_of(model, window, state);
  loss.backward();
  td::optim::clip_grad_norm_(td::nn::parameters(model), 1.0);
  optimizer.step();
  optimizer.zero_grad();
  return {loss.detach(), after};
}

/// Whether the run came to its end.
bool train(Model& model, const Tensor& streams, const Arguments& a) {
  td::optim::Adam optimizer(td::nn::parameters(model), {.lr = 4e-3});
  td::optim::CosineAnnealingLR schedule(optimizer, {.t_max = a.steps});
  std::function step = &training_step;
  if (!a.eager) step = td::compile(&training_step, {.name = "lstm_step"});
  int done = 0;
  LstmState state = model.zero_state(a.batch);
  td::train::Checkpoint checkpoint;
  checkpoint.add("model", model), checkpoint.add("optimizer", optimizer);
  checkpoint.add("schedule", schedule), checkpoint.add("state", state);
  checkpoint.add("done", done);
  std::optional<td::train::JsonLinesLog> log;
  if (!a.run.empty()) {
    std::filesystem::create_directories(a.run);
    checkpoint.load_latest(a.run);
    log.emplace(a.run + "/losses.jsonl", td::train::LogOptions{.resume_at = done});
  }
  td::train::Progress progress(
      a.steps,
      {.items_per_step = a.batch * a.time, .unit = "characters", .start = done, .quiet = a.quiet});
  const int64_t windows = (streams.size(1) - 1) / a.time;
  const int last = std::min(a.stop, a.steps);
  while (done < last) {
    const int64_t at = done % windows * a.time;
    if (at == 0) state = model.zero_state(a.batch);  // from the start of the text again
    const LossAndState result = step(model, optimizer, streams.narrow(1, at, a.time + 1), state);
    state = result.state;
    schedule.step();
    if (log) log->write(done, {{"loss", result.loss.item()}});
    progress.show(++done, {{"loss", result.loss.item()}});
    if (log && (done % 100 == 0 || done == last)) checkpoint.save_step(a.run, done);
  }
  return done == a.steps;
}

double held_out_loss(Model& model, const Tensor& streams, const Arguments& a) {
  const td::NoGrad no_grad;
  td::nn::eval(model);
  const auto loss = td::compile(
      [&](const Tensor& window, const LstmState& state) { return loss_of(model, window, state); });
  const int64_t windows = (streams.size(1) - 1) / a.time;
  double sum = 0;
  LstmState state = model.zero_state(streams.size(0));
  for (int64_t i = 0; i < windows; ++i) {
    const LossAndState result = loss(streams.narrow(1, i * a.time, a.time + 1), state);
    sum += result.loss.item();
    state = result.state;
  }
  return sum / static_cast<double>(windows);
}

/// Continues a line break by `length` characters, one step of the LSTM each.
std::string sample(const Model& model, const CharTokenizer& tokenizer, int length) {
  const td::NoGrad no_grad;
  const auto next = td::compile([&](const Tensor& token, const LstmState& state) {
    auto [logits, after] = model(token, state);
    return std::pair(td::multinomial(td::softmax(logits.select(1, 0) / 0.8, -1), 1), after);
  });
  LstmState state = model.zero_state(1);
  Tensor token = td::full({1, 1}, tokenizer.encode("\n")[0], td::i64);
  std::vector<int64_t> tokens;
  for (int i = 0; i < length; ++i) {
    std::tie(token, state) = next(token, state);
    tokens.push_back(static_cast<int64_t>(token.item()));
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
  Model model(tokenizer.vocab_size(), a.hidden);
  if (!train(model, streams(codes, 0, training, a.batch), a)) return 0;
  const double loss = held_out_loss(model, streams(codes, training, size, a.batch), a);
  if (!a.quiet) fmt::print("{}\n\n", sample(model, tokenizer, 400));
  fmt::print("held-out loss {:.3f} nats per character, {} parameters\n", loss,
             td::nn::num_parameters(model));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app{"Trains an LSTM on a text, character by character."};
  app.add_option("--steps", a.steps)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", a.batch)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--time", a.time, "characters per step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--hidden", a.hidden)->check(CLI::PositiveNumber)->capture_default_str();
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
    fmt::print(stderr, "lstm: {}\n", e.what());
    return 1;
  }
}
