// Runs random programs for a while, or from a seed on: `./dev fuzz`. Resumable: the next seed
// stands in a state file, beside how many programs of the campaign ran and how many differed. Asked
// to stop (Ctrl-C), a run ends as at its time.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <string>

#include "runtime/backends/backends.h"
#include "tests/support/differential.h"
#include "tests/support/random/alias_program.h"
#include "tests/support/random/control_program.h"
#include "tests/support/random/reader_fuzz.h"
#include "tests/support/random/transforms.h"

namespace tandem::testing {
namespace {

/// After so many a form whose differences are long to print gives up.
constexpr uint64_t kMostDifferences = 10;

struct Arguments {
  double minutes = 1;
  std::optional<uint64_t> from, count;
  std::string state = "build/fuzz.state";
  bool aliasing = false, readers = false, gradients = false, forward = false, vmap = false,
       transforms = false, control = false;
  std::string backend = "interpreter";  // of the aliasing programs
};

// What a crash is reported with.
volatile uint64_t g_seed = 0;

volatile std::sig_atomic_t g_asked_to_stop = 0;

/// Says which program crashed: nothing else would, and a guard page ends a process.
void report_crash(int signal) {
  char text[] = "crashed at seed 00000000000000000000\n";
  uint64_t seed = g_seed;
  for (size_t i = sizeof(text) - 2; seed > 0; seed /= 10)
    text[--i] = static_cast<char>('0' + seed % 10);
  if (write(STDERR_FILENO, text, sizeof(text) - 1) > 0) std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// One run of one form: which seed is next, how many programs ran and differed, in this run and in
/// the campaign that its state file keeps. It goes on until its time or count is reached, too much
/// differed, or somebody asks it to stop; it then says how far it came, as at its end.
class Run {
 public:
  explicit Run(const Arguments& a) : a_(a) {
    if (a.from)
      seed_ = *a.from;
    else
      std::ifstream(a.state) >> seed_ >> before_.ran >> before_.differing;
    for (const int signal : {SIGINT, SIGTERM})
      std::signal(signal, [](int) { g_asked_to_stop = 1; });
    for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE}) std::signal(signal, report_crash);
  }

  double seconds() const { return seconds_since(start_); }
  uint64_t ran() const { return now_.ran; }
  uint64_t differing() const { return now_.differing; }

  /// Whether another program is to run.
  bool goes_on() const {
    return !g_asked_to_stop && (a_.count ? ran() < *a_.count : seconds() < 60 * a_.minutes);
  }
  /// The seed of the program to run now.
  uint64_t next_seed() {
    ++now_.ran;
    g_seed = seed_;
    return seed_++;
  }
  void report(const std::string& difference) {
    ++now_.differing;
    fmt::print("{}\n", difference);
    std::fflush(stdout);
  }
  /// A program is through: from time to time the campaign is kept.
  void keep() {
    if (seconds_since(kept_) < 1) return;
    kept_ = std::chrono::steady_clock::now();
    write_state();
  }
  /// Prints what a form counted, then what all count. Exit status: 1 if a program differed.
  int end(const std::string& counts) const {
    fmt::print("{}\n{} programs, {:.1f} per second; {} differ; next seed {}\n", counts, ran(),
               static_cast<double>(ran()) / seconds(), differing(), seed_);
    if (a_.from) return differing() > 0;
    write_state();
    fmt::print("the campaign so far: {} programs, {} differ\n", before_.ran + ran(),
               before_.differing + differing());
    return differing() > 0;
  }

 private:
  struct Counts {
    uint64_t ran = 0, differing = 0;
  };

  static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  void write_state() const {
    if (!a_.from)
      std::ofstream(a_.state) << seed_ << " " << before_.ran + ran() << " "
                              << before_.differing + differing() << "\n";
  }

  const Arguments& a_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), kept_ = start_;
  uint64_t seed_ = 1'000'000'000;  // beyond the seeds of the short form
  Counts before_, now_;
};

int fuzz(const Arguments& a) {
  Tally tally;
  Run run(a);
  for (; run.goes_on(); run.keep()) {
    const Verdict verdict = check_program(run.next_seed());
    tally.add(verdict);
    if (verdict.kind == Verdict::Kind::Differ) run.report(verdict.message);
  }
  return run.end(tally.summary());
}

/// Gradients in f64 against differences, or against tangents, vmap against loops, or compositions
/// of such.
int fuzz_gradients(const Arguments& a) {
  const auto check = a.transforms ? check_transforms
                     : a.vmap     ? check_vmap
                     : a.forward  ? check_tangents
                                  : check_gradient;
  uint64_t compared = 0;
  Run run(a);
  for (; run.goes_on(); run.keep()) {
    const GradientVerdict verdict = check(run.next_seed());
    compared += verdict.compared;
    if (!verdict.difference.empty()) run.report(verdict.difference);
  }
  return run.end(fmt::format("{} to compare", compared));
}

/// Programs of views and writes over inputs that alias.
int fuzz_aliasing(const Arguments& a) {
  const auto backend = a.backend == "jit" ? runtime::jit_backend() : runtime::interpreter_backend();
  uint64_t refused = 0, unsupported = 0, stricter = 0, strictest = 0, too_large = 0, gaps = 0,
           shared = 0, either = 0;
  Run run(a);
  for (; run.goes_on() && run.differing() < kMostDifferences; run.keep()) {
    const AliasProgram program = random_alias_program(run.next_seed());
    gaps += has_gaps(program);
    shared += shares_memory(program);
    either += has_gaps(program) || shares_memory(program);
    const AliasVerdict verdict = check_alias_program(program, backend);
    refused += verdict.refused;
    unsupported += verdict.unsupported;
    stricter += verdict.stricter;
    strictest += verdict.strictest;
    too_large += verdict.too_large;
    if (verdict.difference.empty()) continue;
    const AliasProgram small = minimized(program, backend);
    run.report(to_string(small) + check_alias_program(small, backend).difference + "\n");
  }
  const auto percent = [&](uint64_t part) {
    return 100. * static_cast<double>(part) / static_cast<double>(std::max<uint64_t>(run.ran(), 1));
  };
  return run.end(fmt::format(
      "on the {} backend: {:.0f}% with gaps, {:.0f}% with shared storage, {:.0f}% with either; "
      "{} that eager refuses, {} unsupported, {} whose backward alone is refused ({} under "
      "save-all too), {} set aside since sums may round",
      a.backend, percent(gaps), percent(shared), percent(either), refused, unsupported, stricter,
      strictest, too_large));
}

/// Nested branches and loops, of integers and of gradients by turns.
int fuzz_control(const Arguments& a) {
  uint64_t refused = 0, stricter = 0;
  Run run(a);
  for (; run.goes_on(); run.keep()) {
    const uint64_t seed = run.next_seed();
    const auto numbers = seed % 3 == 0 ? ControlNumbers::Gradients : ControlNumbers::Integers;
    const ControlVerdict verdict = check_control(random_control_program(seed, numbers));
    refused += verdict.refused;
    stricter += verdict.stricter;
    if (!verdict.difference.empty()) run.report(verdict.difference);
  }
  return run.end(
      fmt::format("branches and loops: {} that eager refuses, {} whose shared memory only the "
                  "compiled function refuses",
                  refused, stricter));
}

/// Mutated files through the readers, the forms by turns.
int fuzz_readers(const Arguments& a) {
  uint64_t ran[std::size(kFileForms)] = {}, accepted[std::size(kFileForms)] = {};
  Run run(a);
  for (; run.goes_on() && run.differing() < kMostDifferences; run.keep()) {
    const size_t form = run.ran() % std::size(kFileForms);
    const uint64_t seed = run.next_seed();
    const std::string file = mutated_file(kFileForms[form], seed);
    const ReaderVerdict verdict = check_reader(kFileForms[form], file);
    ++ran[form];
    accepted[form] += verdict.accepted;
    if (!verdict.fault.empty())
      run.report(
          fmt::format("{}, seed {}: {}\n{}", name(kFileForms[form]), seed, verdict.fault, file));
  }
  std::string counts;
  for (size_t form = 0; form < std::size(kFileForms); ++form)
    counts += fmt::format("{}{}: {} of {} files accepted", form == 0 ? "" : "\n",
                          name(kFileForms[form]), accepted[form], ran[form]);
  return run.end(counts);
}

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app("Random programs through every evaluator.", "fuzz");
  app.add_option("--minutes", a.minutes, "how long to run");
  CLI::Option* from = app.add_option("--from", a.from, "the first seed; the state file stays");
  app.add_option("--count", a.count, "how many programs instead of how long")->needs(from);
  app.add_option("--state", a.state, "where the next seed is kept");
  app.add_option("--backend", a.backend, "of the aliasing programs")
      ->check(CLI::IsMember({"interpreter", "jit"}));
  CLI::Option_group* form = app.add_option_group("what runs", "without any: programs of all kinds");
  form->require_option(0, 1);
  form->add_flag("--aliasing", a.aliasing, "views and writes over inputs that alias");
  form->add_flag("--readers", a.readers, "mutated files through the readers");
  form->add_flag("--gradients", a.gradients, "gradients in f64 against differences of results");
  form->add_flag("--forward", a.forward, "tangents in f64 against gradients");
  form->add_flag("--vmap", a.vmap, "programs under vmap in f64 against loops");
  form->add_flag("--transforms", a.transforms, "derivatives and vmap of each other, by two ways");
  form->add_flag("--control", a.control, "nested branches and loops that write");
  CLI11_PARSE(app, argc, argv);
  if (a.control) return fuzz_control(a);
  if (a.gradients || a.forward || a.vmap || a.transforms) return fuzz_gradients(a);
  if (a.readers) return fuzz_readers(a);
  return a.aliasing ? fuzz_aliasing(a) : fuzz(a);
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) { return tandem::testing::main(argc, argv); }
