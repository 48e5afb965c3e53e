// Kills a program that writes checkpoints, at random moments, over and over: each time what it had
// saved must be there, whole.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <tandem/tandem.h>
#include <tandem/train.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temporary_folder.h"

extern char** environ;

namespace td = tandem;
namespace fs = std::filesystem;

namespace {

struct Net {
  td::Tensor small = td::zeros({3}), large = td::zeros({1 << 16}),
             half = td::zeros({7, 5}, td::bf16);
  TANDEM_FIELDS(Net, small, large, half)
};

/// A run whose whole state is a function of its step.
struct Run {
  Net net;
  int64_t step = 0;
  std::vector<double> losses;
  td::train::Checkpoint checkpoint;

  Run() {
    checkpoint.add("model", net);
    checkpoint.add("step", step);
    checkpoint.add("losses", losses);
  }
  void go_to(int64_t next) {
    step = next;
    net.small.fill_(static_cast<double>(step));
    net.large.fill_(static_cast<double>(step));
    net.half.fill_(static_cast<double>(step % 100));
    losses.assign(static_cast<size_t>(step % 1000), static_cast<double>(step));
    td::manual_seed(static_cast<uint64_t>(step));
  }
  bool is_whole() const {
    const auto all = [](const td::Tensor& t, int64_t value) {
      return td::all(t == static_cast<double>(value)).item() != 0;
    };
    return all(net.small, step) && all(net.large, step) && all(net.half, step % 100) &&
           losses ==
               std::vector<double>(static_cast<size_t>(step % 1000), static_cast<double>(step));
  }
};

/// The program that is killed: goes on from what is there, and says after each save which step it
/// saved.
int write_for_ever(const std::string& folder, bool one_file) {
  Run run;
  const std::string file = folder + "/one.safetensors";
  if (!one_file)
    run.checkpoint.load_latest(folder);
  else if (fs::exists(file))
    run.checkpoint.load(file);
  for (;;) {
    run.go_to(run.step + 1);
    one_file ? run.checkpoint.save(file)
             : void(run.checkpoint.save_step(folder, run.step, {.keep = 2}));
    if (::write(STDOUT_FILENO, &run.step, sizeof run.step) != sizeof run.step) return 1;
  }
}

/// The last step that a killed writer said it had saved, or `before`.
int64_t run_and_kill(const std::string& folder, bool one_file, std::chrono::microseconds after,
                     int64_t before) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  const char* program = "/proc/self/exe";
  std::string of = folder, flag = one_file ? "--write-one" : "--write", name = program;
  char* arguments[] = {name.data(), flag.data(), of.data(), nullptr};
  pid_t child = 0;
  if (::posix_spawn(&child, program, &actions, nullptr, arguments, environ) != 0)
    throw std::runtime_error("posix_spawn");
  ::close(ends[1]);
  posix_spawn_file_actions_destroy(&actions);
  int64_t saved = before, step = 0;
  // The moment counts from the first save on: to start takes longer than to write.
  if (::read(ends[0], &step, sizeof step) == sizeof step) saved = step;
  std::this_thread::sleep_for(after);
  ::kill(child, SIGKILL);
  while (::read(ends[0], &step, sizeof step) == sizeof step) saved = step;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!WIFSIGNALED(status)) throw std::runtime_error("the writer ended by itself");
  return saved;
}

/// What is wrong with what a killed writer left; "" if nothing is.
std::string fault(const std::string& folder, bool one_file, int64_t saved) {
  Run run;
  run.go_to(77);
  if (one_file)
    run.checkpoint.load(folder + "/one.safetensors");
  else if (!run.checkpoint.load_latest(folder))
    return "there is no checkpoint";
  if (!run.is_whole()) return fmt::format("what is loaded is not all of step {}", run.step);
  // Of the step that was being written when the kill came there may be all.
  if (run.step < saved || run.step > saved + 1)
    return fmt::format("step {} was saved, step {} is there", saved, run.step);
  return "";
}

struct Arguments {
  int count = 500;
  uint64_t seed = 1;
  std::string state, write, write_one;
};

/// How many kills earlier calls made, from the state file.
int done_before(const Arguments& a) {
  int done = 0;
  std::ifstream(a.state) >> done;
  return done;
}

/// How many files that a killed write left are in `folder`; removes them.
int remove_partial(const std::string& folder) {
  int removed = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".partial") removed += fs::remove(entry);
  return removed;
}

int run_kills(const Arguments& a) {
  const int first = a.state.empty() ? 0 : done_before(a);
  const td::testing::TemporaryFolder folder;
  int64_t saved[2] = {0, 0};
  int half_written = 0;
  for (int i = first; i < a.count; ++i) {
    std::mt19937_64 random(a.seed + static_cast<uint64_t>(i));
    const bool one_file = i % 2 == 1;
    const std::string place = folder / (one_file ? "file" : "folder");
    fs::create_directories(place);
    const std::chrono::microseconds after(random() % 20000);
    saved[one_file] = run_and_kill(place, one_file, after, saved[one_file]);
    half_written += remove_partial(place);
    if (const std::string wrong = fault(place, one_file, saved[one_file]); !wrong.empty()) {
      fmt::print("kill {}: {}\n", i, wrong);
      return 1;
    }
    if (!a.state.empty()) std::ofstream(a.state) << i + 1 << "\n";
  }
  fmt::print("{} kills, of which {} left a file half written: nothing was lost\n",
             a.count - std::min(first, a.count), half_written);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app{"Kills a program that writes checkpoints, at random moments."};
  app.add_option("--count", a.count, "kills in all")->capture_default_str();
  app.add_option("--seed", a.seed, "of the moments")->capture_default_str();
  app.add_option("--state", a.state, "a file that says how many are done: go on from there");
  app.add_option("--write", a.write, "be the program that is killed: checkpoints in this folder");
  app.add_option("--write-one", a.write_one, "likewise, one file in this folder");
  CLI11_PARSE(app, argc, argv);
  try {
    if (!a.write.empty()) return write_for_ever(a.write, false);
    if (!a.write_one.empty()) return write_for_ever(a.write_one, true);
    return run_kills(a);
  } catch (const std::exception& e) {
    fmt::print(stderr, "kill_checkpoints: {}\n", e.what());
    return 1;
  }
}
