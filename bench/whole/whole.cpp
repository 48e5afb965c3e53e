// What it gains to compile a training step as one function, beside a loss compiled with its
// backward and a compiled optimizer: both take steps in turns in one process, whose losses must
// agree; the memory of each is that of a process of its own. `./dev bench whole [ROW [ROUNDS]]`
#include <fmt/format.h>
#include <tandem/tandem.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "bench/clock.h"
#include "bench/workloads.h"
#include "machine/memory/allocator.h"
#include "machine/memory/arena.h"

namespace {

namespace td = tandem;
using bench::Data;
using bench::Workload;

struct Row {
  const char* name;
  int64_t vocabulary, time, layers, channels, batch;
  int rounds;
  bool eager;  // its losses are compared too
};
constexpr Row kRows[] = {{"nanogpt", 65, 64, 4, 128, 12, 197, true},
                         {"gpt2", 50257, 64, 12, 768, 4, 12, false}};

constexpr int kWarm = 3;  // steps

Data data_of(const Row& row) {
  td::manual_seed(1);
  const int64_t c = row.channels;
  const auto weight = [](const td::Shape& sizes) { return td::randn(sizes) * 0.02; };
  const auto labels = [&] {
    return td::to(td::floor(td::rand({row.batch, row.time}) * static_cast<double>(row.vocabulary)),
                  td::DType::I64);
  };
  Data d{{"tokens", labels()},
         {"targets", labels()},
         {"p.wte", weight({row.vocabulary, c})},
         {"p.wpe", weight({row.time, c})}};
  const auto norm = [&](const std::string& name) {
    d["p." + name + ".w"] = td::ones({c});
    d["p." + name + ".b"] = td::zeros({c});
  };
  const auto linear = [&](const std::string& name, int64_t in, int64_t out) {
    d["p." + name + ".w"] = weight({in, out});
    d["p." + name + ".b"] = td::zeros({out});
  };
  norm("lnf");
  for (int64_t i = 0; i < row.layers; ++i) {
    const std::string block = "h" + std::to_string(i);
    norm(block + ".ln1");
    norm(block + ".ln2");
    linear(block + ".qkv", c, 3 * c);
    linear(block + ".proj", c, c);
    linear(block + ".fc", c, 4 * c);
    linear(block + ".fc2", 4 * c, c);
  }
  return d;
}

struct Form {
  const char* name;
  Workload (*make)(const std::string&, Data&);
};
constexpr std::array<Form, 2> kForms = {
    {{"halves", bench::build}, {"whole", [](const std::string& name, Data& d) {
                                  return bench::build_whole(name, d, true);
                                }}}};

double resident_mib(const std::string& field) {
  std::FILE* status = std::fopen("/proc/self/status", "r");
  std::array<char, 128> line{};
  double kib = 0;
  while (status && std::fgets(line.data(), line.size(), status))
    if (const std::string text = line.data(); text.starts_with(field))
      kib = std::strtod(text.c_str() + field.size(), nullptr);
  if (status) std::fclose(status);
  return kib / 1024;
}

/// Prints how much tensors and working memory grow beyond data, parameters and optimizer state, and
/// the peak of the whole process, in MiB.
int print_peak(const Row& row, const Form& form) {
  Data data = data_of(row);
  const Workload workload = form.make(row.name, data);
  const size_t before = td::machine::allocator_stats().live_bytes;
  td::machine::reset_peak_live_bytes();
  for (int i = 0; i < kWarm; ++i) workload.step();
  const td::machine::ArenaStats arenas = td::machine::arena_stats();
  const size_t peak = td::machine::allocator_stats().peak_live_bytes - before + arenas.idle_bytes +
                      arenas.leased_bytes;
  fmt::print("{} {}\n", static_cast<double>(peak) / (1 << 20), resident_mib("VmHWM:"));
  return 0;
}

struct Peak {
  double tensors = 0, process = 0;  // MiB
};

Peak peak_of(const Row& row, const Form& form) {
  const std::string command =
      fmt::format("/proc/{}/exe --peak {} {}", getpid(), row.name, form.name);
  std::FILE* pipe = popen(command.c_str(), "r");
  Peak peak;
  if (pipe == nullptr || std::fscanf(pipe, "%lf %lf", &peak.tensors, &peak.process) != 2)
    fmt::print(stderr, "tandem-whole: no peak of {}\n", form.name);
  if (pipe) pclose(pipe);
  return peak;
}

/// Of an eager loop.
std::vector<double> eager_losses(const Row& row, size_t steps) {
  Data data = data_of(row);
  const Workload workload = bench::build_whole(row.name, data, false);
  std::vector<double> losses;
  while (losses.size() < steps) {
    workload.step();
    losses.push_back(workload.check()[0]);
  }
  return losses;
}

double apart(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

/// Of all threads: what steps cost where other processes run too.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Steps of both forms in turns. Whether their losses agree.
bool run(const Row& row, int rounds) {
  std::array<std::vector<double>, 2> ms, cpu_ms, losses;
  {
    std::array<Workload, 2> workloads;
    for (size_t f = 0; f < kForms.size(); ++f) {
      Data data = data_of(row);
      workloads[f] = kForms[f].make(row.name, data);
    }
    for (int i = 0; i < kWarm + rounds; ++i)
      for (size_t f = 0; f < kForms.size(); ++f) {
        const double cpu = cpu_seconds(), seconds = bench::seconds_of(workloads[f].step);
        if (i >= kWarm) ms[f].push_back(seconds * 1e3);
        if (i >= kWarm) cpu_ms[f].push_back((cpu_seconds() - cpu) * 1e3);
        losses[f].push_back(workloads[f].check()[0]);
      }
  }
  double most = apart(losses[0], losses[1]);
  if (row.eager) most = std::max(most, apart(eager_losses(row, losses[1].size()), losses[1]));
  const std::array<Peak, 2> peaks = {peak_of(row, kForms[0]), peak_of(row, kForms[1])};
  fmt::print("{}: {} steps of each in turns, losses{} at most {:.1e} apart\n", row.name,
             losses[0].size(), row.eager ? ", of an eager loop too," : "", most);
  const auto line = [](const char* name, double time, double least, double cpu, double tensors,
                       double process) {
    fmt::print("{:<10}{:>12.3f}{:>10.3f}{:>12.3f}{:>18.3f}{:>18.3f}\n", name, time, least, cpu,
               tensors, process);
  };
  fmt::print("{:<10}{:>12}{:>10}{:>12}{:>18}{:>18}\n", "", "median ms", "least ms", "CPU ms",
             "beyond state MiB", "process peak MiB");
  for (size_t f = 0; f < kForms.size(); ++f)
    line(kForms[f].name, median(ms[f]), std::ranges::min(ms[f]), median(cpu_ms[f]),
         peaks[f].tensors, peaks[f].process);
  line("ratio", median(ms[1]) / median(ms[0]), std::ranges::min(ms[1]) / std::ranges::min(ms[0]),
       median(cpu_ms[1]) / median(cpu_ms[0]), peaks[1].tensors / peaks[0].tensors,
       peaks[1].process / peaks[0].process);
  fmt::print("\n");
  return most < 1e-3;
}

int print_peak(const std::string& row_name, const std::string& form_name) {
  for (const Row& row : kRows)
    for (const Form& form : kForms)
      if (row_name == row.name && form_name == form.name) return print_peak(row, form);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 3 && args[0] == "--peak") return print_peak(args[1], args[2]);
  bool good = true, known = false;
  for (const Row& row : kRows) {
    if (!args.empty() && args[0] != row.name) continue;
    known = true;
    good &= run(row, args.size() > 1 ? std::stoi(args[1]) : row.rounds);
  }
  if (!known) fmt::print(stderr, "usage: tandem-whole [nanogpt|gpt2 [ROUNDS]]\n");
  return known && good ? 0 : 1;
}
