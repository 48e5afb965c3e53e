// tandem-bench: the worker of bench/peers (protocol in bench/peers/README.md). One workload per
// process: reads the data, builds the training step, runs it three times for checking, then times
// steps on request. Anything but protocol lines goes to stderr.
#include <sys/resource.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "bench/clock.h"
#include "bench/workloads.h"

namespace td = tandem;
using bench::Clock;
using bench::seconds_since;
using bench::Workload;

namespace {

std::string json_list(const std::vector<double>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    char number[32];
    std::snprintf(number, sizeof(number), "%s%.9g", i ? ", " : "", values[i]);
    text += number;
  }
  return text + "]";
}

double compile_seconds() {
  double total = 0;
  for (const td::CompiledGraphs* g : td::compiled_graphs()) {
    for (const auto& [stage, seconds] : g->stage_seconds) total += seconds;
    for (const auto* r : {&g->forward_report, &g->backward_report})
      total += r->lower_seconds + r->codegen_seconds;
  }
  return total;
}

int64_t saved_bytes() {
  int64_t total = 0;
  for (const td::CompiledGraphs* g : td::compiled_graphs()) total += g->partition.saved_bytes;
  return total;
}

/// Runs and checks the first three steps, and says so.
Workload ready(const std::string& name, const std::string& path) {
  const td::NamedTensors file = td::load_safetensors(path);
  bench::Data data(file.begin(), file.end());
  const auto start = Clock::now();
  Workload workload = bench::build(name, data);
  workload.step();
  const double first = seconds_since(start);
  std::string check = json_list(workload.check());
  for (int i = 0; i < 2; ++i) {
    workload.step();
    check += ", " + json_list(workload.check());
  }
  std::printf(
      "{\"event\": \"ready\", \"first_step_s\": %.6f, \"check\": [%s], \"saved_bytes\": %lld, "
      "\"compile_s\": %.6f}\n",
      first, check.c_str(), static_cast<long long>(saved_bytes()), compile_seconds());
  std::fflush(stdout);
  return workload;
}

void run(const Workload& workload, int steps) {
  std::vector<double> ms;
  for (int i = 0; i < steps; ++i) {
    ms.push_back(bench::seconds_of(workload.step) * 1e3);
  }
  std::printf("{\"event\": \"ran\", \"ms\": %s}\n", json_list(ms).c_str());
  std::fflush(stdout);
}

double peak_rss_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void serve(const Workload& workload) {
  std::string word;
  while (std::cin >> word && word != "quit") {
    int steps = 0;
    if (word == "run" && std::cin >> steps) run(workload, steps);
  }
  std::printf("{\"event\": \"bye\", \"peak_rss_mb\": %.1f}\n", peak_rss_mb());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: tandem-bench WORKLOAD DATA.safetensors\n");
    return 2;
  }
  try {
    serve(ready(argv[1], argv[2]));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tandem-bench: %s\n", e.what());
    return 1;
  }
}
