// Checkpoints: what is saved is loaded, or refused as a whole.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <tandem/tandem.h>
#include <tandem/train.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::expect_error;
using testing::TemporaryFolder;
using train::Checkpoint;

struct Layer {
  Tensor weight, bias;
  nn::Buffer mean;
  TANDEM_FIELDS(Layer, weight, bias, mean)
};

struct Net {
  std::vector<Layer> layers;
  Tensor tied;  // the first layer's weight
  TANDEM_FIELDS(Net, layers, tied)

  explicit Net(int64_t width = 3) {
    for (int i = 0; i < 2; ++i)
      layers.push_back({randn({width, 2}).t().requires_grad_(), {}, nn::Buffer(randn({width}))});
    tied = layers[0].weight;
  }
};

/// A part that knows its state.
struct Counter {
  int64_t count = 0;
  Tensor history = zeros({0});
  NamedTensors state_dict() const {
    return {{"count", full({}, count, i64)}, {"history", history}};
  }
  void load_state_dict(const NamedTensors& state) {
    if (find(state, "count") == nullptr) throw Error(Errc::Argument, "Counter: expected a count");
    count =
        static_cast<int64_t>(find(state, "count")->item());  // half loaded, if what follows fails
    if (find(state, "history") == nullptr)
      throw Error(Errc::Argument, "Counter: expected a history");
    history = find(state, "history")->clone();
  }
};

std::vector<double> numbers(const Net& net) {
  std::vector<double> all;
  for (const auto& [name, t] : nn::named_tensors(net))
    for (const double v : t.to_vector<double>()) all.push_back(v);
  return all;
}

/// All kinds of parts.
struct Everything {
  Net net;
  Counter counter;
  int64_t step = 0;
  uint8_t byte = 0;
  bool flag = false;
  float number = 0;
  double precise = 0;
  std::string text;
  std::vector<double> losses;
  std::vector<int> order;
  Tensor tensor = zeros({2, 2});

  void add_to(Checkpoint& c) {
    c.add("model", net), c.add("counter", counter), c.add("step", step), c.add("byte", byte);
    c.add("flag", flag), c.add("number", number), c.add("precise", precise), c.add("text", text);
    c.add("losses", losses), c.add("order", order), c.add("tensor", tensor);
  }
};

TEST(Checkpoint, EverythingReadsBack) {
  const TemporaryFolder folder;
  manual_seed(3);
  Everything a;
  a.step = std::numeric_limits<int64_t>::min(), a.byte = 200, a.flag = true, a.number = 0.1F;
  a.precise = 1.0 / 3, a.text = "näme\n", a.losses = {0.1, INFINITY, -0.0, 5e-324};
  a.order = {3, -1, 2}, a.counter = {7, randn({4})}, a.tensor = randn({2, 2});
  Checkpoint from;
  a.add_to(from);
  from.save(folder / "x");
  const Tensor drawn = rand({5});
  manual_seed(99);
  Everything b;
  b.losses = {1, 2, 3, 4, 5, 6};
  const Tensor kept = b.net.layers[1].weight;
  Checkpoint to;
  b.add_to(to);
  to.load(folder / "x");
  EXPECT_EQ(rand({5}).to_vector<double>(), drawn.to_vector<double>());
  EXPECT_EQ(numbers(b.net), numbers(a.net));
  EXPECT_TRUE(b.net.layers[1].weight.is_same(kept)) << "in place";
  EXPECT_TRUE(kept.requires_grad());
  EXPECT_EQ(b.counter.count, 7);
  EXPECT_EQ(b.counter.history.to_vector<double>(), a.counter.history.to_vector<double>());
  EXPECT_EQ(b.step, a.step);
  EXPECT_EQ(b.byte, 200);
  EXPECT_TRUE(b.flag);
  EXPECT_EQ(b.number, 0.1F);
  EXPECT_EQ(b.precise, 1.0 / 3);
  EXPECT_EQ(b.text, a.text);
  EXPECT_EQ(b.losses, a.losses);
  EXPECT_TRUE(std::signbit(b.losses[2]));
  EXPECT_EQ(b.order, a.order);
  EXPECT_EQ(b.tensor.to_vector<double>(), a.tensor.to_vector<double>());
}

TEST(Checkpoint, IsASafetensorsFile) {
  const TemporaryFolder folder;
  Net net;
  int64_t step = 5;
  Checkpoint checkpoint;
  checkpoint.add("model", net), checkpoint.add("step", step);
  checkpoint.save(folder / "x");
  const NamedTensors file = load_safetensors(folder / "x");
  EXPECT_EQ(find(file, "step")->item(), 5);
  EXPECT_NE(find(file, "model.layers.1.weight"), nullptr);
  EXPECT_EQ(find(file, "model.tied"), nullptr) << "saved once";
  EXPECT_EQ(safetensors_metadata(folder / "x").at("format"), "pt");
}

TEST(Checkpoint, RefusesWhatDoesNotFitAndChangesNothing) {
  const TemporaryFolder folder;
  {
    Everything a;
    Net more(5);
    a.counter.count = 3, a.step = 9;
    Checkpoint c;
    a.add_to(c);
    c.add("more", more);
    c.save(folder / "x");
  }
  Everything b;
  b.counter.count = 1;
  b.net = Net(5);
  b.net.layers[0].bias = zeros({1});
  const std::vector<double> before = numbers(b.net);
  double missing = 0;
  Checkpoint to;
  b.add_to(to);
  to.add("missing", missing);
  manual_seed(4);
  const std::string text = error_of([&] { to.load(folder / "x"); }, Errc::File);
  for (const char* part :
       {"it does not fit, and nothing was loaded:", "more: the file has such a part",
        "missing: the file has no such part", "model: the file has no tensor \"layers.0.bias\"",
        "model: layers.1.weight: expected f32[2, 5], got f32[2, 3]",
        "model: layers.0.mean: expected f32[5], got f32[3]"})
    EXPECT_NE(text.find(part), std::string::npos) << text << "\nhas no: " << part;
  EXPECT_EQ(numbers(b.net), before);
  EXPECT_EQ(b.counter.count, 1);
  EXPECT_EQ(b.step, 0);
  const Tensor drawn = rand({3});
  manual_seed(4);
  EXPECT_EQ(rand({3}).to_vector<double>(), drawn.to_vector<double>());
}

TEST(Checkpoint, PartsThatRefuseGiveBackTheOthers) {
  const TemporaryFolder folder;
  Net net;
  {
    int64_t step = 9, count = 3;
    std::string text = "new";
    NamedTensors tensors;
    Checkpoint c;
    c.add("model", net), c.add("step", step), c.add("text", text), c.add("counter", count);
    c.save(folder / "x");
  }
  Net other;
  Counter counter{.count = 1};
  struct Half {  // its file has a count, and no history
    Counter& counter;
    NamedTensors state_dict() const { return counter.state_dict(); }
    void load_state_dict(const NamedTensors& state) {
      counter.load_state_dict(state.size() == 1 ? NamedTensors{{"count", state[0].second}} : state);
    }
  } half{counter};
  std::string text = "old";
  double step = 0.5;  // another kind
  const std::vector<double> before = numbers(other);
  Checkpoint to;
  to.add("model", other), to.add("step", step), to.add("text", text), to.add("counter", half);
  const std::string error = error_of([&] { to.load(folder / "x"); }, Errc::File);
  EXPECT_NE(error.find("counter: Counter: expected a history"), std::string::npos) << error;
  EXPECT_NE(error.find("step: expected a number (f64, 0 dimensions), got i64[]"), std::string::npos)
      << error;
  EXPECT_EQ(counter.count, 1);
  EXPECT_EQ(text, "old");
  EXPECT_EQ(step, 0.5);
  EXPECT_EQ(numbers(other), before);
}

TEST(Checkpoint, FilesThatAreNone) {
  const TemporaryFolder folder;
  Net net;
  int64_t step = 0;
  Checkpoint c;
  c.add("model", net), c.add("step", step);
  c.save(folder / "x");
  std::ifstream file(folder / "x", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 97) {
    std::ofstream(folder / "short", std::ios::binary) << whole.substr(0, size);
    step = 4;
    error_of([&] { c.load(folder / "short"); }, Errc::File);
    EXPECT_EQ(step, 4);
  }
  save_safetensors(folder / "weights", nn::named_tensors(net));
  expect_error(Errc::File, "expected a checkpoint, got another safetensors file",
               [&] { c.load(folder / "weights"); });
  save_safetensors(folder / "later", {}, {{"tandem_checkpoint", "2"}, {"parts", "model"}});
  expect_error(Errc::File, "expected version 1, got 2", [&] { c.load(folder / "later"); });
  expect_error(Errc::File, "none", [&] { c.load(folder / "none"); });
}

TEST(Checkpoint, FoldersKeepTheNewest) {
  const TemporaryFolder folder;
  const std::string run = folder / "runs/first";
  int64_t step = 0;
  Checkpoint c;
  c.add("step", step);
  EXPECT_EQ(c.load_latest(run), std::nullopt);
  for (step = 0; step < 50; step += 10) c.save_step(run, step);
  const auto steps = [&] {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(run))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  };
  EXPECT_EQ(steps(), (std::vector<std::string>{"checkpoint-000000000020.safetensors",
                                               "checkpoint-000000000030.safetensors",
                                               "checkpoint-000000000040.safetensors"}));
  step = 0;
  EXPECT_EQ(c.load_latest(run), 40);
  EXPECT_EQ(step, 40);
  std::ofstream(run + "/.tandem.1.2.partial") << "killed";
  std::ofstream(run + "/notes.txt") << "mine";
  EXPECT_EQ(c.save_step(run, 1000000000000, {.keep = 1}),
            run + "/checkpoint-1000000000000.safetensors");
  EXPECT_EQ(steps(),
            (std::vector<std::string>{"checkpoint-1000000000000.safetensors", "notes.txt"}));
  c.save_step(run, 5, {.keep = 1});
  EXPECT_EQ(steps().size(), 3u) << "an earlier step removes no later ones";
  c.save_step(run, 6, {.keep = 0});
  EXPECT_EQ(steps().size(), 4u);
}

TEST(Checkpoint, OfWhatCannotBeReadTheOneBefore) {
  const TemporaryFolder folder;
  int64_t step = 0;
  Checkpoint c;
  c.add("step", step);
  for (step = 1; step < 4; ++step) c.save_step(folder.path().string(), step);
  const auto path = [&](int i) {
    return folder / ("checkpoint-00000000000" + std::to_string(i) + ".safetensors");
  };
  fs::resize_file(path(3), 30);
  EXPECT_EQ(c.load_latest(folder.path().string()), 2);
  EXPECT_EQ(step, 2);
  fs::resize_file(path(2), 0), fs::resize_file(path(1), 7);
  expect_error(Errc::File,
               "no checkpoint can be read:", [&] { c.load_latest(folder.path().string()); });
  EXPECT_EQ(step, 2);
  expect_error(Errc::File, "Not a directory", [&] { c.load_latest(path(1)); });
}

TEST(Checkpoint, WhatCannotBeWritten) {
  const TemporaryFolder folder;
  int64_t step = 1;
  Tensor large = ones({1 << 20});
  Checkpoint c;
  c.add("step", step), c.add("large", large);
  c.save(folder / "x");
  expect_error(Errc::File, "cannot write /dev/full: No space left on device",
               [&] { c.save("/dev/full"); });
  expect_error(Errc::File, "Not a directory", [&] { c.save_step("/dev/null/x", 1); });
  expect_error(Errc::File, "cannot write", [&] { c.save(folder / "none/x"); });
  if (::geteuid() != 0) {
    ::chmod(folder.path().c_str(), 0500);
    expect_error(Errc::File, "Permission denied", [&] { c.save_step(folder.path().string(), 2); });
    ::chmod(folder.path().c_str(), 0700);
  }
  step = 0;
  c.load(folder / "x");
  EXPECT_EQ(step, 1);
}

/// A disk that fills up while a checkpoint is written: a limit of this process's files.
TEST(Checkpoint, ADiskThatFillsUpLeavesThePreviousOne) {
  const TemporaryFolder folder;
  int64_t step = 1;
  Tensor large = ones({1 << 20});
  Checkpoint c;
  c.add("step", step), c.add("large", large);
  c.save_step(folder.path().string(), 1);
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limited{1 << 20, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limited);
  step = 2;
  const std::string text = error_of([&] { c.save_step(folder.path().string(), 2); }, Errc::File);
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_NE(text.find("File too large"), std::string::npos) << text;
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1) << "nothing half written";
  EXPECT_EQ(c.load_latest(folder.path().string()), 1);
  EXPECT_EQ(step, 1);
}

TEST(Checkpoint, OnePartOfACheckpointOrOfOtherFiles) {
  const TemporaryFolder folder;
  Net net;
  int64_t step = 5;
  Checkpoint from;
  from.add("model", net), from.add("step", step);
  from.save(folder / "x");
  save_safetensors(folder / "weights.safetensors", nn::named_tensors(net));
  for (const char* file : {"x", "weights.safetensors"}) {
    Net other;
    Counter counter;
    Checkpoint to;
    to.add("model", other), to.add("counter", counter);
    to.load_part("model", folder / file);
    EXPECT_EQ(numbers(other), numbers(net));
    expect_error(Errc::Argument, "expected a part that was added, got \"optimizer\"",
                 [&] { to.load_part("optimizer", folder / file); });
    error_of([&] { to.load_part("counter", folder / file); }, Errc::File);
  }
  Net wide(7);
  const std::vector<double> before = numbers(wide);
  Checkpoint to;
  to.add("model", wide);
  expect_error(Errc::File,
               "model: ", [&] { to.load_part("model", folder / "weights.safetensors"); });
  EXPECT_EQ(numbers(wide), before);
}

/// As PyTorch writes them: tied tensors under each of their names, or under any.
TEST(Checkpoint, TiedTensorsUnderAnyOfTheirNames) {
  const TemporaryFolder folder;
  Net net;
  NamedTensors state = nn::state_dict(net);
  for (auto& [name, tensor] : state) tensor = tensor.clone();
  const auto load = [&](const NamedTensors& tensors) {
    save_safetensors(folder / "x.safetensors", tensors);
    Net other;
    Checkpoint to;
    to.add("model", other);
    to.load_part("model", folder / "x.safetensors");
    EXPECT_TRUE(other.tied.is_same(other.layers[0].weight));
    return numbers(other);
  };
  EXPECT_NE(find(state, "tied"), nullptr);
  EXPECT_EQ(load(state), numbers(net));
  std::erase_if(state, [](const auto& entry) { return entry.first == "layers.0.weight"; });
  EXPECT_EQ(load(state), numbers(net));
  std::erase_if(state, [](const auto& entry) { return entry.first == "tied"; });
  expect_error(Errc::File, "the file has no tensor \"layers.0.weight\"", [&] { load(state); });
}

TEST(Checkpoint, WrongArguments) {
  Checkpoint c;
  int64_t step = 0;
  c.add("step", step);
  for (const char* name : {"", "a.b", "a b", "step", "random", "ä"})
    expect_error(Errc::Argument, "Checkpoint::add: expected a name of its own",
                 [&] { c.add(name, step); });
  const TemporaryFolder folder;
  expect_error(Errc::Argument, "got -1 and 3", [&] { c.save_step(folder.path().string(), -1); });
  expect_error(Errc::Argument, "got 1 and -2",
               [&] { c.save_step(folder.path().string(), 1, {.keep = -2}); });
}

}  // namespace
}  // namespace tandem
