// Random programs over partitions, budgets and random cuts: `./dev cuts`. Resumable: the next seed
// and the counts so far stand in a state file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "tests/support/partition_bits.h"

namespace tandem::testing {
namespace {

struct State {
  uint64_t next = 0, requests = 0, cuts = 0, random = 0, differ = 0;
};

State read(const std::string& path) {
  State s;
  std::ifstream(path) >> s.next >> s.requests >> s.cuts >> s.random >> s.differ;
  return s;
}

void write(const std::string& path, const State& s) {
  std::ofstream(path) << fmt::format("{} {} {} {} {}\n", s.next, s.requests, s.cuts, s.random,
                                     s.differ);
}

/// Exit status 1 if a program differed.
int run(uint64_t count, const std::string& path, uint64_t jit_every) {
  State s = read(path);
  for (; s.next < count; write(path, s)) {
    const uint64_t seed = s.next++;
    const CutCheck result = check_cuts(seed, jit_every > 0 && seed % jit_every == 0);
    s.requests += static_cast<uint64_t>(result.requests);
    s.cuts += static_cast<uint64_t>(result.cuts);
    s.random += result.random_ops;
    if (result.difference.empty()) continue;
    ++s.differ;
    fmt::print("{}\n", result.difference);
  }
  fmt::print("{} programs ({} with random operators), {} requests, {} different cuts, {} differ\n",
             s.next, s.random, s.requests, s.cuts, s.differ);
  return s.differ > 0;
}

int main(int argc, char** argv) {
  uint64_t count = 5000, jit_every = 25;
  std::string path = "build/cuts.state";
  CLI::App app("Gradients over many cuts: the same bits.", "cuts");
  app.add_option("--count", count, "programs in all, those of earlier runs included");
  app.add_option("--jit-every", jit_every, "every so many programs as machine code; 0: none");
  app.add_option("--state", path, "where the next seed and the counts are kept");
  CLI11_PARSE(app, argc, argv);
  return run(count, path, jit_every);
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) { return tandem::testing::main(argc, argv); }
