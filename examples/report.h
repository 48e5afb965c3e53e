// What the nanogpt example shows beside its training: what the compiler did, and the graphs.
#ifndef TANDEM_EXAMPLES_REPORT_H
#define TANDEM_EXAMPLES_REPORT_H

#include <fmt/format.h>
#include <sys/resource.h>
#include <tandem/graph.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace examples {

inline double peak_memory_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

inline void print_compiler_report(const std::vector<const tandem::CompiledGraphs*>& all,
                                  nlohmann::json& figures) {
  fmt::print("\nwhat the compiler did\n");
  double compile_seconds = 0;
  int kernels = 0, distinct = 0, calls = 0, generated = 0, interpreted = 0;
  for (const tandem::CompiledGraphs* g : all) {
    std::string stages;
    double total = 0;
    const auto add = [&](const std::string& stage, double seconds) {
      total += seconds;
      if (seconds >= 5e-4) stages += fmt::format("  {} {:.1f}", stage, seconds * 1e3);
    };
    for (const auto& [stage, seconds] : g->stage_seconds) add(stage, seconds);
    add("lower", g->forward_report.lower_seconds + g->backward_report.lower_seconds);
    add("codegen", g->forward_report.codegen_seconds + g->backward_report.codegen_seconds);
    fmt::print("  {:<8} {} equations, {:.1f} ms:{}\n", g->traced.name, g->core.num_equations(),
               total * 1e3, stages);
    compile_seconds += total;
    for (const auto* r : {&g->forward_report, &g->backward_report}) {
      kernels += r->kernels;
      distinct += r->distinct_kernels;
      calls += r->library_calls;
      generated += r->generated_contractions;
      interpreted += r->interpreted_equations;
    }
  }
  const auto with_halves = std::ranges::find_if(
      all, [](const tandem::CompiledGraphs* g) { return g->partition.saved_bytes > 0; });
  const auto& loss = with_halves == all.end() ? *all.front() : **with_halves;
  fmt::print(
      "  kernels {} ({} distinct), library calls {}, generated contractions {}, interpreted "
      "equations {}\n",
      kernels, distinct, calls, generated, interpreted);
  fmt::print(
      "  saved for backward {:.2f} MB; eager autograd saves {:.2f} MB; the byte-minimal cut {:.2f} "
      "MB\n",
      static_cast<double>(loss.partition.saved_bytes) / 1e6,
      static_cast<double>(loss.eager_saved_bytes) / 1e6,
      static_cast<double>(loss.partition.minimal_bytes) / 1e6);
  fmt::print("  peak memory of the process {:.0f} MB\n", peak_memory_mb());
  figures.update({{"compile_seconds", compile_seconds},
                  {"kernels", kernels},
                  {"distinct_kernels", distinct},
                  {"library_calls", calls},
                  {"interpreted_equations", interpreted},
                  {"saved_bytes", loss.partition.saved_bytes},
                  {"eager_saved_bytes", loss.eager_saved_bytes},
                  {"minimal_bytes", loss.partition.minimal_bytes},
                  {"peak_memory_mb", peak_memory_mb()}});
}

/// FOLDER/{traced,functional,joint,core,forward,backward}.{json,txt}.
inline void write_graphs(const std::string& folder, const tandem::CompiledGraphs& g) {
  std::filesystem::create_directories(folder);
  const std::pair<const char*, const tandem::Graph*> stages[] = {
      {"traced", &g.traced}, {"functional", &g.functional}, {"joint", &g.joint},
      {"core", &g.core},     {"forward", &g.forward},       {"backward", &g.backward}};
  for (const auto& [name, graph] : stages) {
    std::ofstream(fmt::format("{}/{}.txt", folder, name)) << tandem::ir::print(*graph);
    std::ofstream(fmt::format("{}/{}.json", folder, name)) << tandem::ir::to_json(*graph);
  }
}

}  // namespace examples

#endif  // TANDEM_EXAMPLES_REPORT_H
