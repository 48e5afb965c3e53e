// The protocol of bench/peers/README.md.
#include "bench/worker.h"

#include <sys/resource.h>
#include <tandem/graph.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "bench/clock.h"

namespace bench {

namespace td = tandem;

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
Workload ready(Build build, const std::string& name, const std::string& path) {
  const td::NamedTensors file = td::load_safetensors(path);
  Data data(file.begin(), file.end());
  const auto start = Clock::now();
  Workload workload = build(name, data);
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
    ms.push_back(seconds_of(workload.step) * 1e3);
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

int run_worker(int argc, char** argv, Build build) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s WORKLOAD DATA.safetensors\n", argv[0]);
    return 2;
  }
  try {
    serve(ready(build, argv[1], argv[2]));
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", argv[0], e.what());
    return 1;
  }
}

}  // namespace bench
