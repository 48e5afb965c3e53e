// The `tandem` command: print graphs, run passes on them, run them on tensors.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <limits>
#include <new>
#include <stdexcept>

#include "ir/base/error.h"
#include "partition/partition.h"
#include "runtime/backends/backends.h"
#include "tools/calibrate.h"
#include "tools/files.h"
#include "tools/graph_runner.h"
#include "tools/passes.h"

namespace tandem::tools {
namespace {

constexpr const char* kPartitions =
    "default, reference, save-all, recompute-all, memory_budget=B, saved_budget=B or saved_bytes=N";

struct Arguments {
  std::string graph, output, inputs_file, outputs_file;
  std::string backend = "jit", partition = "default";
  std::vector<std::string> passes;
  std::string seed = "0";
  bool json = false, locations = false, grad = false;
};

void emit(const Arguments& a, std::string_view text) {
  if (a.output.empty())
    write_output(text);
  else
    write_file(a.output, text);
}

void emit(const Arguments& a, const std::vector<ir::Graph>& graphs) {
  emit(a, written(graphs, a.json, a.locations));
}

void print(const Arguments& a) { emit(a, read_graphs(a.graph)); }

void opt(const Arguments& a) {
  const Passed passed = run_passes(read_graph(a.graph), a.passes);
  if (passed.text.empty())
    emit(a, passed.graphs);
  else
    emit(a, passed.text);
}

std::shared_ptr<const ir::Backend> backend_named(const std::string& name) {
  return name == "jit" ? runtime::jit_backend() : runtime::interpreter_backend();
}

uint64_t parse_seed(std::string_view text) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size())
    ir::fail(ir::Errc::Argument, fmt::format("--seed: expected a number from 0 to {}, got {}",
                                             std::numeric_limits<uint64_t>::max(), text));
  return seed;
}

void run(const Arguments& a) {
  const uint64_t seed = parse_seed(a.seed);
  const auto backend = backend_named(a.backend);
  const auto partitioner = partition::make_partitioner(a.partition);
  const Tensors results = run_graph(read_graph(a.graph), tensors_of(read_file(a.inputs_file)),
                                    {backend.get(), partitioner.get(), a.grad, seed});
  write_file(a.outputs_file, to_safetensors(results));
}

void report_partition(const Arguments& a) {
  const auto partitioner = partition::make_partitioner(a.partition);
  const ir::PartitionReport report = explain(read_graph(a.graph), *partitioner);
  emit(a, a.json ? ir::to_json(report) : ir::to_text(report));
}

void run_calibration(const Arguments& a) { write_file(a.output, codegen::print(calibrate())); }

CLI::App* add_command(CLI::App& app, Arguments& a, const char* name, const char* description,
                      void (*command)(const Arguments&)) {
  CLI::App* sub = app.add_subcommand(name, description);
  sub->add_option("GRAPH", a.graph, "a graph: .json, or the text form")->required();
  sub->callback([&a, command] { command(a); });
  return sub;
}

void add_form(CLI::App* sub, Arguments& a) {
  sub->add_flag("--json", a.json, "write JSON instead of text");
  sub->add_flag("--locations", a.locations, "with each equation's source location (text only)");
  sub->add_option("-o,--output", a.output, "a file instead of standard output");
}

void add_run_options(CLI::App* sub, Arguments& a) {
  sub->add_option("--inputs", a.inputs_file,
                  "safetensors: a tensor per input that is no alias, by its name; with --grad also "
                  "tangent:OUTPUT")
      ->required();
  sub->add_option("--outputs", a.outputs_file,
                  "safetensors: results by output name, mutated:INPUT, grad:INPUT")
      ->required();
  sub->add_flag("--grad", a.grad, "run the backward too");
  sub->add_option("--backend", a.backend)->check(CLI::IsMember({"jit", "interpreter"}));
  sub->add_option("--partition", a.partition, kPartitions);
  sub->add_option("--seed", a.seed, "key of the random numbers");
}

int report(std::string_view code, const char* text) {
  fmt::print(stderr, "tandem: {}: {}\n", code, text);
  return 1;
}

int report_out_of_memory() {
  return report(ir::name(ir::Errc::OutOfMemory), "expected more memory than there is");
}

int main(int argc, char** argv) {
  Arguments a;
  CLI::App app("Reads, transforms and runs Tandem's graphs.", "tandem");
  app.require_subcommand(1);
  add_form(add_command(app, a, "print", "print graphs", print), a);
  CLI::App* opt_command = add_command(app, a, "opt", "run passes on a graph", opt);
  add_form(opt_command, a);
  opt_command->add_option("--pass", a.passes, pass_names())->delimiter(',')->required();
  add_run_options(add_command(app, a, "run", "run a traced graph on tensors", run), a);
  CLI::App* explain_command =
      add_command(app, a, "explain", "say what is saved and recomputed, and why", report_partition);
  explain_command->add_option("--partition", a.partition, kPartitions);
  explain_command->add_flag("--json", a.json, "write JSON instead of text");
  explain_command->add_option("-o,--output", a.output, "a file instead of standard output");
  CLI::App* calibrate_command =
      app.add_subcommand("calibrate", "measure this machine's costs; TANDEM_COSTS=FILE uses them");
  calibrate_command->add_option("-o,--output", a.output, "the file to write")->required();
  calibrate_command->callback([&a] { run_calibration(a); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (app.exit(e) != 0) return 1;
    if (std::cout.flush()) return 0;  // where help goes
    return report(ir::name(ir::Errc::File), "cannot write standard output");
  } catch (const ir::Error& e) {
    return report(ir::name(e.code()), e.what());
  } catch (const std::bad_alloc&) {
    return report_out_of_memory();
  } catch (const std::length_error&) {  // a container of more elements than can be counted
    return report_out_of_memory();
  } catch (const std::exception& e) {
    return report("internal", e.what());
  }
  return 0;
}

}  // namespace
}  // namespace tandem::tools

int main(int argc, char** argv) { return tandem::tools::main(argc, argv); }
