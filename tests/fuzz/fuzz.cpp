// Runs random programs for a while, or from a seed on: `./dev fuzz`. Resumable: the next seed
// stands in a state file.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <fstream>
#include <optional>

#include "tests/support/differential.h"

namespace tandem::testing {
namespace {

struct Arguments {
  double minutes = 1;
  std::optional<uint64_t> from, count;
  std::string state = "build/fuzz.state";
};

uint64_t first_seed(const Arguments& a) {
  // Beyond the seeds of the short form.
  uint64_t seed = 1'000'000'000;
  if (!a.from) std::ifstream(a.state) >> seed;
  return a.from.value_or(seed);
}

/// Exit status 1 if a program differed.
int fuzz(const Arguments& a) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double, std::ratio<60>>(a.minutes);
  uint64_t seed = first_seed(a);
  Tally tally;
  int differing = 0;
  for (uint64_t done = 0; a.count ? done < *a.count : Clock::now() < end; ++done) {
    const Verdict verdict = check_program(seed++);
    tally.add(verdict);
    if (verdict.kind == Verdict::Kind::Differ) {
      ++differing;
      fmt::print("{}\n", verdict.message);
    }
    if (!a.from) std::ofstream(a.state) << seed << "\n";
  }
  fmt::print("{}\n{} differ; next seed {}\n", tally.summary(), differing, seed);
  return differing > 0;
}

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app("Random programs through every evaluator.", "fuzz");
  app.add_option("--minutes", a.minutes, "how long to run");
  CLI::Option* from = app.add_option("--from", a.from, "the first seed; the state file stays");
  app.add_option("--count", a.count, "how many programs instead of how long")->needs(from);
  app.add_option("--state", a.state, "where the next seed is kept");
  CLI11_PARSE(app, argc, argv);
  return fuzz(a);
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) { return tandem::testing::main(argc, argv); }
