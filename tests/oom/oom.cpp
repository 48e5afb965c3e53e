// Out of memory at every allocation: a training step, part by part, of which each allocation fails
// in turn: `./dev oom`. A step must then end in an Error or std::bad_alloc, leave everything as it
// was (of gradients each one), and give the right bits when it is repeated; or succeed.
//
// The process that runs the step goes on past each allocation and leaves a child behind, in which
// it fails: that one alone, or it and all after it until the step has ended. Resumable: how far
// each case is stands in a state file.
#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "machine/memory/allocator.h"
#include "machine/memory/arena.h"
#include "tests/oom/allocations.h"
#include "tests/oom/cases.h"

namespace tandem::testing {
namespace {

constexpr unsigned kMostSeconds = 60;  // of a child: more is a hang
constexpr int64_t kStateEvery = 64;    // failed allocations

struct Options {
  int64_t stride = 1, from = 1, count = INT64_MAX;
  size_t jobs = 2;
  std::string only, state = "build/oom.state";
};

/// How a child ends, as its exit status.
enum class Outcome : int {
  Survived,
  Finished = 10,  // the step was over before
  Changed,        // something is not as it was
  WrongAfter,     // the step, repeated, gives other bits, or loses memory
  FailsAfter,     // it fails again
  Foreign,        // an exception that is neither
  Allocates,      // what should need no memory
};

std::string text_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("ended by {}", strsignal(WTERMSIG(status)));
  switch (static_cast<Outcome>(WEXITSTATUS(status))) {
    case Outcome::Survived:
      return "survived";
    case Outcome::Finished:
      return "finished";
    case Outcome::Changed:
      return "changed what it should leave alone";
    case Outcome::WrongAfter:
      return "wrong when repeated";
    case Outcome::FailsAfter:
      return "fails when repeated";
    case Outcome::Foreign:
      return "another exception";
    case Outcome::Allocates:
      return "allocates";
  }
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

// --- what a step leaves behind

struct Snapshot {
  std::string kept, result;
  std::vector<std::string> gradients;
  size_t live_bytes = 0;
};

/// Of a world between steps, whose generator then starts again.
Snapshot snapshot(const World& w) {
  Snapshot s{kept(w), result(w), gradients(w), 0};
  seed();
  s.live_bytes = machine::allocator_stats().live_bytes + machine::arena_stats().leased_bytes;
  return s;
}

struct Expected {
  Snapshot before, after;
};

/// `step` in a child, which hands its snapshot over by a pipe.
Snapshot after_step(const Case& c, World& w) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) std::abort();
  if (fork() == 0) {
    c.step(w), c.rest(w);
    const Snapshot s = snapshot(w);
    FILE* const to = fdopen(ends[1], "w");
    for (const std::string& text : {s.kept, s.result, s.gradients[0], s.gradients[1]})
      fmt::print(to, "{} {}", text.size(), text);
    fmt::print(to, "{} ", s.live_bytes);
    std::fclose(to);
    _exit(0);
  }
  close(ends[1]);
  FILE* const from = fdopen(ends[0], "r");
  const auto number = [&] {
    size_t n = 0;
    if (std::fscanf(from, "%zu", &n) != 1 || std::fgetc(from) != ' ') std::abort();
    return n;
  };
  const auto text = [&] {
    std::string s(number(), '\0');
    if (std::fread(s.data(), 1, s.size(), from) != s.size()) std::abort();
    return s;
  };
  Snapshot s;
  s.kept = text(), s.result = text();
  for (int i = 0; i < 2; ++i) s.gradients.push_back(text());
  s.live_bytes = number();
  std::fclose(from);
  wait(nullptr);
  return s;
}

// --- the children

/// What fails in a child: the allocation that it was made at, or that and all that follow.
enum class Kind : uint8_t { Once, FromNowOn };
constexpr std::array kKinds{Kind::Once, Kind::FromNowOn};

struct Child {
  pid_t pid;
  int64_t k;
  Kind kind;
};

struct Progress {
  int64_t next = 1, survived = 0, faults = 0;
  bool done = false;
};

/// A case and how far it is.
struct Run {
  const Case& test;
  const Options& options;
  std::string state;
  Progress progress{};
  int64_t k = 0, failed = 0;  // the allocation that the step has reached; how many had children
  std::vector<Child> children{};
  bool is_child = false;
  Kind kind = Kind::Once;

  void read() {
    progress.next = options.from;
    std::ifstream(state) >> progress.next >> progress.survived >> progress.faults >> progress.done;
  }

  void write() const {
    if (!state.empty())
      std::ofstream(state) << fmt::format("{} {} {} {:d}\n", progress.next, progress.survived,
                                          progress.faults, progress.done);
  }

  /// Waits for one child; how it ended.
  int reap() {
    int status = 0;
    const pid_t pid = wait(&status);
    const auto child = std::ranges::find(children, pid, &Child::pid);
    if (child == children.end()) std::abort();
    const Child ended = *child;
    children.erase(child);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == static_cast<int>(Outcome::Finished)) return code;
    status == 0 ? ++progress.survived : ++progress.faults;
    if (status != 0)
      fmt::print("{}: allocation {}{}: {}\n", test.name, ended.k,
                 ended.kind == Kind::Once ? "" : " and all after it", text_of(status));
    return code;
  }

  void reap_all() {
    while (!children.empty()) reap();
  }

  bool is_due() const {
    return k >= progress.next && (k - options.from) % options.stride == 0 && failed < options.count;
  }

  /// All before allocation `k` is done.
  void reached() {
    reap_all();
    progress.next = k;
    write();
  }

  /// Leaves a child behind for each kind; true in the child. Not by the C library's fork: its
  /// handlers take locks that the step may hold, and locks know their owner by the thread's number.
  bool leave_children() {
    for (const Kind wanted : kKinds) {
      if (children.size() >= options.jobs) reap();
      const auto pid = static_cast<pid_t>(syscall(SYS_fork));
      if (pid < 0) std::abort();
      if (pid > 0) {
        children.push_back({pid, k, wanted});
        continue;
      }
      is_child = true;
      kind = wanted;
      alarm(kMostSeconds);
      return true;
    }
    return false;
  }
};

Run* g_run = nullptr;

bool at_allocation() {
  Run& run = *g_run;
  if (run.is_child) return run.kind == Kind::FromNowOn;
  ++run.k;
  if (!run.is_due()) return false;
  if (++run.failed % kStateEvery == 0) run.reached();
  return run.leave_children();
}

/// The step, watched: whether it threw, or how it must not end.
Outcome run_watched(const Case& c, World& w, OnAllocation decide, bool& caught) {
  watch_allocations(decide);
  try {
    c.step(w);
  } catch (const Error&) {
    caught = true;
  } catch (const std::bad_alloc&) {
    caught = true;
  } catch (...) {
    watch_allocations(nullptr);
    return Outcome::Foreign;
  }
  watch_allocations(nullptr);
  return Outcome::Survived;
}

/// Each gradient is as before or as after the step.
bool are_whole(const std::vector<std::string>& gradients, const Expected& e) {
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i] != e.before.gradients[i] && gradients[i] != e.after.gradients[i]) return false;
  return true;
}

bool equals(const Snapshot& now, const Snapshot& expected) {
  const std::pair<const char*, bool> parts[] = {
      {"what is kept", now.kept == expected.kept},
      {"the result", now.result == expected.result},
      {"gradients", now.gradients == expected.gradients},
      {"live bytes", now.live_bytes == expected.live_bytes},
  };
  for (const auto& [name, same] : parts)
    if (!same) return fmt::print("differs: {}\n", name), false;
  return true;
}

/// What became of a step that failed: everything is as it was, and it can be repeated.
Outcome outcome_of(const Case& c, World& w, bool caught, const Expected& e) {
  if (!c.allocates) return Outcome::Allocates;
  if (!caught) c.rest(w);
  const Snapshot now = snapshot(w);
  if (!caught) return equals(now, e.after) ? Outcome::Survived : Outcome::WrongAfter;
  if (now.kept != e.before.kept || !are_whole(now.gradients, e)) return Outcome::Changed;
  w.out = Tensor();
  if (e.before.gradients[0] == "none") w.optimizer->zero_grad();
  try {
    c.step(w), c.rest(w);
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    return Outcome::FailsAfter;
  }
  return equals(snapshot(w), e.after) ? Outcome::Survived : Outcome::WrongAfter;
}

[[noreturn]] void end_child(const Case& c, World& w, Outcome ended, bool caught,
                            const Expected& e) {
  const Outcome outcome = ended != Outcome::Survived ? ended : outcome_of(c, w, caught, e);
  std::fflush(stdout);
  _exit(static_cast<int>(outcome));
}

Expected expect(const Case& c, World& w) {
  seed();
  c.prepare(w);
  w.out = Tensor();
  seed();
  Expected e;
  e.before = snapshot(w);
  e.after = after_step(c, w);
  return e;
}

/// The step once, children left behind on the way.
void run_case(Run& run) {
  World w;
  const Expected e = expect(run.test, w);
  g_run = &run;
  bool caught = false;
  const Outcome ended = run_watched(run.test, w, at_allocation, caught);
  if (run.is_child) end_child(run.test, w, ended, caught, e);
  run.reap_all();
  if (!caught) run.test.rest(w);
  if (ended != Outcome::Survived || caught || !equals(snapshot(w), e.after)) {
    ++run.progress.faults;
    fmt::print("{}: wrong though nothing failed\n", run.test.name);
  }
}

// --- allocations of workers

std::atomic<int64_t> g_until{0};  // the allocation that fails
Kind g_kind = Kind::Once;

bool at_worker_allocation() {
  if (gettid() == getpid()) return false;
  const int64_t left = --g_until;
  return left == 0 || (left < 0 && g_kind == Kind::FromNowOn);
}

/// Whether there was an allocation `k`: a child has one thread only, so each runs the whole step.
bool run_to_worker(Run& run, World& w, const Expected& e, Kind kind) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(kMostSeconds);
    g_until = run.k;
    g_kind = kind;
    bool caught = false;
    const Outcome ended = run_watched(run.test, w, at_worker_allocation, caught);
    if (g_until > 0) _exit(static_cast<int>(Outcome::Finished));
    end_child(run.test, w, ended, caught, e);
  }
  run.children.push_back({pid, run.k, kind});
  return run.reap() != static_cast<int>(Outcome::Finished);
}

/// Every so many: these cost a compile each, and who works on what is up to the system.
constexpr int64_t kWorkerStride = 50;

void run_case_on_workers(Run& run) {
  World w;
  const Expected e = expect(run.test, w);
  for (run.k = run.progress.next;; run.k += kWorkerStride * run.options.stride)
    for (const Kind kind : kKinds)
      if (!run_to_worker(run, w, e, kind)) return;
}

// --- all cases

std::string state_of(const Case& c, const Options& options) {
  std::string name = c.name;
  std::ranges::replace(name, ' ', '_');
  return options.state.empty() ? "" : options.state + "." + name;
}

/// In a process of its own, so that each case starts cold; whether no fault was found.
bool run_in_child(const Case& c, const Options& options) {
  const pid_t pid = fork();
  if (pid == 0) {
    Run run{c, options, state_of(c, options)};
    run.read();
    const bool was_done = run.progress.done;
    if (!was_done) c.on_workers ? run_case_on_workers(run) : run_case(run);
    run.progress.done = options.count == INT64_MAX;
    run.write();
    const Progress& p = run.progress;
    fmt::print("{}: {} survived, {} faults{}\n", c.name, p.survived, p.faults,
               was_done ? ""
                        : fmt::format("; {} allocations, {} more inside libraries", run.k,
                                      allocations_inside_libraries()));
    std::fflush(stdout);
    _exit(p.faults > 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (!WIFEXITED(status)) fmt::print("{}: {}\n", c.name, text_of(status));
  return status == 0;
}

int main(int argc, char** argv) {
  Options options;
  CLI::App app("A training step of which every allocation fails in turn.", "oom");
  app.add_option("--stride", options.stride, "every so many allocations");
  app.add_option("--from", options.from, "the first that fails");
  app.add_option("--count", options.count, "how many fail");
  app.add_option("--case", options.only, "one part of the step by its name; all without it");
  app.add_option("--jobs", options.jobs, "processes at a time");
  app.add_option("--state", options.state, "where it is kept how far each part is; empty: nowhere");
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  set_num_threads(1);
  bool good = true;
  for (const Case& c : cases())
    if (options.only.empty() || options.only == c.name) good = run_in_child(c, options) && good;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace tandem::testing

int main(int argc, char** argv) { return tandem::testing::main(argc, argv); }
