// What a shape costs that a compiled function has not met: each row calls one function with many
// shapes, each once and then again, with batches copied out of its data just before, as a loader
// does. The first call less a later one is the cost of the shape; where it goes is what the stages
// report. Some of the shapes are then met by a fresh process, whose bits must be the same. `./dev
// bench shapes [ROW [COUNT [CHECKED]]]`
#include <fmt/format.h>
#include <tandem/graph.h>
#include <tandem/tandem.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "bench/clock.h"
#include "bench/shapes/programs.h"

namespace {

namespace td = tandem;
using bench::CallShape;
using bench::ShapeRow;

constexpr int kLater = 2;  // calls of a shape after its first

/// Where the time of one new shape goes, in ms.
struct Costs {
  double all = 0, trace = 0, passes = 0, lowering = 0, machine_code = 0, library = 0;
  bool waited = false;  // for machine code
  uint64_t bits = 0;
};

void add_stages(Costs& costs, const td::CompiledGraphs& graphs) {
  for (const auto& [stage, seconds] : graphs.stage_seconds)
    (stage == "trace" ? costs.trace : costs.passes) += seconds * 1e3;
  for (const auto* report : {&graphs.forward_report, &graphs.backward_report}) {
    costs.lowering += report->lower_seconds * 1e3;
    costs.machine_code += report->codegen_seconds * 1e3;
    costs.library += report->library_seconds * 1e3;
    costs.waited |= report->new_kernels > 0;
  }
}

Costs meet(bench::ShapeProgram& program, CallShape shape) {
  program.prepare(shape);
  const auto step = [&] { program.step(); };
  Costs costs;
  costs.all = bench::seconds_of(step) * 1e3;
  costs.bits = program.bits();
  add_stages(costs, *td::compiled_graphs().back());
  double later = 1e9;
  for (int i = 0; i < kLater; ++i) {
    program.prepare(shape);
    later = std::min(later, bench::seconds_of(step) * 1e3);
  }
  costs.all -= later;
  return costs;
}

double resident_mib() {
  long all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / (1 << 20);
}

/// The value that `share` of them are not above.
double quantile(const std::vector<Costs>& costs, double Costs::* part, double share) {
  std::vector<double> values;
  for (const Costs& c : costs) values.push_back(c.*part);
  const auto at = static_cast<size_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(at));
  return values[at];
}

struct Column {
  const char* name;
  double Costs::* part;
};
constexpr Column kColumns[] = {{"new shape", &Costs::all},
                               {"trace", &Costs::trace},
                               {"passes", &Costs::passes},
                               {"lowering", &Costs::lowering},
                               {"machine code", &Costs::machine_code},
                               {"library", &Costs::library}};

void print(const ShapeRow& row, const std::vector<Costs>& costs) {
  fmt::print("{}: {} shapes; a new one costs, beyond a later step, ms\n", row.name, costs.size());
  fmt::print("{:<16}{:>9}{:>9}{:>9}\n", "", "median", "p90", "max");
  for (const Column& c : kColumns)
    fmt::print("{:<16}{:>9.2f}{:>9.2f}{:>9.2f}\n", c.name, quantile(costs, c.part, 0.5),
               quantile(costs, c.part, 0.9), quantile(costs, c.part, 1));
  std::vector<size_t> waited;
  for (size_t i = 0; i < costs.size(); ++i)
    if (costs[i].waited) waited.push_back(i + 1);
  fmt::print("waited for machine code: {} shapes", waited.size());
  if (!waited.empty())
    fmt::print("; half of them among the first {}, the last is number {}",
               waited[(waited.size() - 1) / 2], waited.back());
  fmt::print("\n");
}

/// What a fresh process has for the shape.
uint64_t bits_of_fresh_process(const ShapeRow& row, CallShape shape) {
  const std::string command =
      fmt::format("{} --bits {} {} {}", "/proc/" + std::to_string(getpid()) + "/exe", row.name,
                  shape.batch, shape.time);
  std::FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 64> line{};
  const bool got = pipe && std::fgets(line.data(), line.size(), pipe);
  if (pipe) pclose(pipe);
  return got ? std::strtoull(line.data(), nullptr, 10) : 0;
}

bool compare_with_fresh(const ShapeRow& row, const std::vector<CallShape>& shapes,
                        const std::vector<Costs>& costs, size_t count) {
  size_t equal = 0;
  count = std::min(count, shapes.size());
  for (size_t i = 0; i < count; ++i) {
    const size_t at = shapes.size() - 1 - i * shapes.size() / count;  // the last first
    equal += bits_of_fresh_process(row, shapes[at]) == costs[at].bits;
  }
  fmt::print("bits as in a fresh process: {} of {} shapes\n\n", equal, count);
  return equal == count;
}

bool run(const ShapeRow& row, int count, size_t checked) {
  const auto program = row.make();
  const std::vector<CallShape> shapes = row.shapes(count);
  std::vector<Costs> costs;
  double early = 0;
  for (const CallShape& shape : shapes) {
    costs.push_back(meet(*program, shape));
    if (costs.size() == 100) early = resident_mib();
  }
  const double late = resident_mib();
  print(row, costs);
  if (early > 0)
    fmt::print("resident after 100 shapes {:.0f} MiB, after {} {:.0f} MiB: {:.2f} times\n", early,
               count, late, late / early);
  return compare_with_fresh(row, shapes, costs, checked);
}

int print_bits(const std::string& name, CallShape shape) {
  for (const ShapeRow& row : bench::shape_rows()) {
    if (name != row.name) continue;
    const auto program = row.make();
    program->prepare(shape);
    program->step();
    fmt::print("{}\n", program->bits());
    return 0;
  }
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 4 && args[0] == "--bits")
    return print_bits(args[1], {std::stoll(args[2]), std::stoll(args[3])});
  const int count = args.size() > 1 ? std::stoi(args[1]) : 300;
  const size_t checked = args.size() > 2 ? std::stoul(args[2]) : 12;
  bool good = true, known = false;
  for (const ShapeRow& row : bench::shape_rows()) {
    if (!args.empty() && args[0] != row.name) continue;
    known = true;
    good &= run(row, count, checked);
  }
  if (!known) fmt::print(stderr, "usage: tandem-shapes [nanogpt|mlp [COUNT [CHECKED]]]\n");
  return known && good ? 0 : 1;
}
