// Runs random programs for a while, or from a seed on: `./dev fuzz`. Resumable: the next seed
// stands in a state file; of a campaign beside how many programs ran and how many differed. Asked
// to stop (Ctrl-C), a run ends as at its time.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>

#include "runtime/backends/backends.h"
#include "tests/support/differential.h"
#include "tests/support/random/alias_program.h"
#include "tests/support/random/control_program.h"
#include "tests/support/random/reader_fuzz.h"
#include "tests/support/random/transforms.h"

namespace tandem::testing {
namespace {

struct Arguments {
  double minutes = 1;
  std::optional<uint64_t> from, count;
  std::string state = "build/fuzz.state";
  bool aliasing = false, readers = false, gradients = false, forward = false, vmap = false,
       transforms = false, control = false;
  std::string backend = "interpreter";  // of the aliasing programs
};

uint64_t first_seed(const Arguments& a) {
  // Beyond the seeds of the short form.
  uint64_t seed = 1'000'000'000;
  if (!a.from) std::ifstream(a.state) >> seed;
  return a.from.value_or(seed);
}

// What a crash is reported with.
volatile uint64_t g_seed = 0;

volatile std::sig_atomic_t g_asked_to_stop = 0;

/// How long a run goes on: until its time or count is reached, or somebody asks it to stop (it then
/// says how far it came, as at its end).
class Run {
 public:
  explicit Run(const Arguments& a) : a_(a) {
    for (const int signal : {SIGINT, SIGTERM})
      std::signal(signal, [](int) { g_asked_to_stop = 1; });
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  bool goes_on(uint64_t done) const {
    return !g_asked_to_stop && (a_.count ? done < *a_.count : seconds() < 60 * a_.minutes);
  }

 private:
  const Arguments& a_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Says which program crashed: nothing else would, and a guard page ends a process.
void report_crash(int signal) {
  char text[] = "crashed at seed 00000000000000000000\n";
  uint64_t seed = g_seed;
  for (size_t i = sizeof(text) - 2; seed > 0; seed /= 10)
    text[--i] = static_cast<char>('0' + seed % 10);
  if (write(STDERR_FILENO, text, sizeof(text) - 1) > 0) std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// How far a campaign is.
struct State {
  uint64_t seed = 0, ran = 0, differing = 0;
};

State read_state(const Arguments& a) {
  State state{first_seed(a)};
  uint64_t seed = 0;
  if (!a.from) std::ifstream(a.state) >> seed >> state.ran >> state.differing;
  return state;
}

/// Exit status 1 if a program differed.
int fuzz(const Arguments& a) {
  const Run run(a);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE}) std::signal(signal, report_crash);
  State state = read_state(a);
  Tally tally;
  uint64_t differing = 0, done = 0;
  for (; run.goes_on(done); ++done) {
    g_seed = state.seed;
    const Verdict verdict = check_program(state.seed++);
    tally.add(verdict);
    if (verdict.kind == Verdict::Kind::Differ) {
      ++differing;
      fmt::print("{}\n", verdict.message);
      std::fflush(stdout);
    }
    if (!a.from)
      std::ofstream(a.state) << state.seed << " " << state.ran + done + 1 << " "
                             << state.differing + differing << "\n";
  }
  fmt::print("{}\n{:.1f} programs per second; {} differ; next seed {}\n", tally.summary(),
             static_cast<double>(done) / run.seconds(), differing, state.seed);
  if (!a.from)
    fmt::print("the campaign so far: {} programs, {} differ\n", state.ran + done,
               state.differing + differing);
  return differing > 0;
}

/// Gradients in f64 against differences, or against tangents, vmap against loops, or compositions
/// of such. Exit status 1 if one differed.
int fuzz_gradients(const Arguments& a) {
  const Run run(a);
  uint64_t seed = first_seed(a), done = 0, compared = 0, differing = 0;
  for (; run.goes_on(done); ++done) {
    const auto check = a.transforms ? check_transforms
                       : a.vmap     ? check_vmap
                       : a.forward  ? check_tangents
                                    : check_gradient;
    const GradientVerdict verdict = check(seed++);
    compared += verdict.compared;
    if (verdict.difference.empty()) continue;
    ++differing;
    fmt::print("{}\n", verdict.difference);
  }
  if (!a.from) std::ofstream(a.state) << seed << "\n";
  fmt::print("{} programs, {} to compare; {:.1f} per second; {} differ; next seed {}\n", done,
             compared, static_cast<double>(done) / run.seconds(), differing, seed);
  return differing > 0;
}

/// Programs of views and writes over inputs that alias. Exit status 1 if one differed.
int fuzz_aliasing(const Arguments& a) {
  const Run run(a);
  const auto backend = a.backend == "jit" ? runtime::jit_backend() : runtime::interpreter_backend();
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE}) std::signal(signal, report_crash);
  uint64_t seed = first_seed(a), done = 0, refused = 0, unsupported = 0, stricter = 0,
           strictest = 0, too_large = 0, gaps = 0, shared = 0, either = 0;
  int differing = 0;
  for (; run.goes_on(done); ++done, ++seed) {
    g_seed = seed;
    const AliasProgram program = random_alias_program(seed);
    gaps += has_gaps(program);
    shared += shares_memory(program);
    either += has_gaps(program) || shares_memory(program);
    const AliasVerdict verdict = check_alias_program(program, backend);
    refused += verdict.refused;
    unsupported += verdict.unsupported;
    stricter += verdict.stricter;
    strictest += verdict.strictest;
    too_large += verdict.too_large;
    if (!verdict.difference.empty()) {
      const AliasProgram small = minimized(program, backend);
      fmt::print("{}{}\n\n", to_string(small), check_alias_program(small, backend).difference);
      if (++differing == 10) break;
    }
    if (!a.from && done % 1000 == 0) std::ofstream(a.state) << seed << "\n";
  }
  if (!a.from) std::ofstream(a.state) << seed << "\n";
  const auto percent = [&](uint64_t part) {
    return 100. * static_cast<double>(part) / static_cast<double>(std::max<uint64_t>(done, 1));
  };
  fmt::print(
      "{} programs on the {} backend in {:.0f} s: {:.0f}% with gaps, {:.0f}% with shared storage, "
      "{:.0f}% with either; {} that eager refuses, {} unsupported, {} whose "
      "backward alone is refused ({} under save-all too), {} set aside since sums may round; {} "
      "differ; next seed {}\n",
      done, a.backend, run.seconds(), percent(gaps), percent(shared), percent(either), refused,
      unsupported, stricter, strictest, too_large, differing, seed);
  return differing > 0;
}

/// Nested branches and loops, of integers and of gradients by turns. Exit status 1 if one differed.
int fuzz_control(const Arguments& a) {
  const Run run(a);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE}) std::signal(signal, report_crash);
  State state = read_state(a);
  uint64_t done = 0, refused = 0, stricter = 0, differing = 0;
  for (; run.goes_on(done); ++done) {
    g_seed = state.seed++;
    const auto numbers = g_seed % 3 == 0 ? ControlNumbers::Gradients : ControlNumbers::Integers;
    const ControlVerdict verdict = check_control(random_control_program(g_seed, numbers));
    refused += verdict.refused;
    stricter += verdict.stricter;
    if (!verdict.difference.empty()) {
      ++differing;
      fmt::print("{}\n", verdict.difference);
      std::fflush(stdout);
    }
    if (!a.from)
      std::ofstream(a.state) << state.seed << " " << state.ran + done + 1 << " "
                             << state.differing + differing << "\n";
  }
  fmt::print(
      "{} programs of branches and loops, {:.1f} per second; {} that eager refuses, {} whose "
      "shared memory only the compiled function refuses; {} differ; next seed {}\n",
      done, static_cast<double>(done) / run.seconds(), refused, stricter, differing, state.seed);
  if (!a.from)
    fmt::print("the campaign so far: {} programs, {} differ\n", state.ran + done,
               state.differing + differing);
  return differing > 0;
}

/// Mutated files through the readers, the forms by turns. Exit status 1 if one was at fault.
int fuzz_readers(const Arguments& a) {
  const Run run(a);
  uint64_t seed = first_seed(a), done = 0, accepted[std::size(kFileForms)] = {};
  int faults = 0;
  for (; run.goes_on(done) && faults < 10; ++done, ++seed) {
    const size_t form = done % std::size(kFileForms);
    const std::string file = mutated_file(kFileForms[form], seed);
    const ReaderVerdict verdict = check_reader(kFileForms[form], file);
    accepted[form] += verdict.accepted;
    if (verdict.fault.empty()) continue;
    ++faults;
    fmt::print("{}, seed {}: {}\n{}\n", name(kFileForms[form]), seed, verdict.fault, file);
  }
  if (!a.from) std::ofstream(a.state) << seed << "\n";
  const auto of_each = static_cast<double>(done) / std::size(kFileForms);
  for (size_t form = 0; form < std::size(kFileForms); ++form)
    fmt::print("{}: {:.0f}% of {:.0f} files accepted\n", name(kFileForms[form]),
               100 * static_cast<double>(accepted[form]) / of_each, of_each);
  fmt::print("{} at fault; next seed {}\n", faults, seed);
  return faults > 0;
}

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app("Random programs through every evaluator.", "fuzz");
  app.add_option("--minutes", a.minutes, "how long to run");
  CLI::Option* from = app.add_option("--from", a.from, "the first seed; the state file stays");
  app.add_option("--count", a.count, "how many programs instead of how long")->needs(from);
  app.add_option("--state", a.state, "where the next seed is kept");
  app.add_flag("--aliasing", a.aliasing, "views and writes over inputs that alias");
  app.add_option("--backend", a.backend, "of the aliasing programs")
      ->check(CLI::IsMember({"interpreter", "jit"}));
  app.add_flag("--readers", a.readers, "mutated files through the readers")->excludes("--aliasing");
  app.add_flag("--gradients", a.gradients, "gradients in f64 against differences of results")
      ->excludes("--aliasing")
      ->excludes("--readers");
  app.add_flag("--forward", a.forward, "tangents in f64 against gradients")
      ->excludes("--aliasing")
      ->excludes("--readers")
      ->excludes("--gradients");
  app.add_flag("--vmap", a.vmap, "programs under vmap in f64 against loops")
      ->excludes("--aliasing")
      ->excludes("--readers")
      ->excludes("--gradients")
      ->excludes("--forward");
  app.add_flag("--transforms", a.transforms, "derivatives and vmap of each other, by two ways")
      ->excludes("--aliasing")
      ->excludes("--readers")
      ->excludes("--gradients")
      ->excludes("--forward")
      ->excludes("--vmap");
  app.add_flag("--control", a.control, "nested branches and loops that write")
      ->excludes("--aliasing")
      ->excludes("--readers")
      ->excludes("--gradients")
      ->excludes("--forward")
      ->excludes("--vmap");
  CLI11_PARSE(app, argc, argv);
  if (a.control) return fuzz_control(a);
  if (a.gradients || a.forward || a.vmap || a.transforms) return fuzz_gradients(a);
  if (a.readers) return fuzz_readers(a);
  return a.aliasing ? fuzz_aliasing(a) : fuzz(a);
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) { return tandem::testing::main(argc, argv); }
