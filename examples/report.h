// What the nanogpt example shows beside its training: a progress bar, what the compiler did, the
// graphs, the loss curve.
#ifndef TANDEM_EXAMPLES_REPORT_H
#define TANDEM_EXAMPLES_REPORT_H

#include <fmt/format.h>
#include <sys/resource.h>
#include <tandem/graph.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace examples {

/// A bar with loss, tokens per second and time left; one line per tenth of the run where stdout is
/// no terminal.
class Progress {
 public:
  Progress(int steps, int tokens_per_step, bool quiet)
      : steps_(steps),
        tokens_(tokens_per_step),
        quiet_(quiet),
        terminal_(isatty(1) != 0),
        start_(Clock::now()),
        last_(start_) {}

  void show(int done, double loss) {
    const auto now = Clock::now();
    const bool due = terminal_ ? now - last_ > std::chrono::milliseconds(100) || done == steps_
                               : done % std::max(1, steps_ / 10) == 0;
    if (quiet_ || !due) return;
    last_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const int filled = 30 * done / steps_;
    fmt::print("{}[{:#>{}}{:.>{}}] {}/{}  loss {:.4f}  {:.0f} tokens/s  {:.0f} s left{}",
               terminal_ ? "\r" : "", "", filled, "", 30 - filled, done, steps_, loss,
               done * tokens_ / seconds, seconds / done * (steps_ - done),
               terminal_ && done < steps_ ? " " : "\n");
    std::fflush(stdout);
  }

 private:
  using Clock = std::chrono::steady_clock;
  int steps_, tokens_;
  bool quiet_, terminal_;
  Clock::time_point start_, last_;
};

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
  const auto& loss = *all.front();
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

/// The loss over the steps (averaged to at most 400 points), with the held-out and the bigram loss
/// as lines.
inline void write_loss_svg(const std::string& path, const std::vector<double>& losses,
                           double held_out, double bigram) {
  constexpr double kWidth = 720, kHeight = 400, kMargin = 50;
  const double top = std::max(*std::ranges::max_element(losses), bigram) * 1.05;
  const auto x = [&](double step) {
    return kMargin + (kWidth - 2 * kMargin) * step / static_cast<double>(losses.size());
  };
  const auto y = [&](double loss) {
    return kHeight - kMargin - (kHeight - 2 * kMargin) * loss / top;
  };
  std::string points;
  const size_t stride = std::max<size_t>(1, losses.size() / 400);
  for (size_t i = 0; i < losses.size(); i += stride) {
    double sum = 0;
    const size_t end = std::min(i + stride, losses.size());
    for (size_t j = i; j < end; ++j) sum += losses[j];
    points += fmt::format("{:.1f},{:.1f} ", x(static_cast<double>(i)),
                          y(sum / static_cast<double>(end - i)));
  }
  std::ofstream svg(path);
  svg << fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n",
      kWidth, kHeight);
  svg << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  for (int tick = 0; tick <= static_cast<int>(top); ++tick)
    svg << fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/><text "
        "x=\"{3}\" y=\"{4:.1f}\">{5}</text>\n",
        kMargin, kWidth - kMargin, y(tick), kMargin - 20, y(tick) + 4, tick);
  for (const auto& [loss, label, colour] : {std::tuple(bigram, "bigram model", "#c60"),
                                            std::tuple(held_out, "held out, at the end", "#070")})
    svg << fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"{3}\" "
        "stroke-dasharray=\"5 4\"/>"
        "<text x=\"{4}\" y=\"{5:.1f}\" fill=\"{3}\">{6} {7:.3f}</text>\n",
        kMargin, kWidth - kMargin, y(loss), colour, kWidth - 240, y(loss) - 5, label, loss);
  svg << fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"#06c\" stroke-width=\"1.5\"/>\n", points);
  svg << fmt::format(
      "<text x=\"{}\" y=\"{}\">training loss (nats per character) over {} steps</text>\n</svg>\n",
      kMargin, kHeight - 15, losses.size());
}

}  // namespace examples

#endif  // TANDEM_EXAMPLES_REPORT_H
