#include "tools/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "codegen/lower.h"
#include "ir/base/error.h"
#include "ir/verify/verify.h"
#include "partition/partition.h"
#include "runtime/backends/backends.h"
#include "runtime/compile/stages.h"

namespace tandem::tools {
namespace {

using ir::Graph;
using ir::Level;

constexpr std::string_view kPartition = "partition=";

std::string plan_of(const Graph& graph) { return codegen::print(codegen::lower(graph)); }

std::string code_of(const Graph& graph) {
  const ir::ExecutableReport r = runtime::jit_backend()->compile(graph)->report();
  return fmt::format("{}: {} kernels, {} of them distinct, {} library calls, arena {} bytes\n",
                     graph.name, r.kernels, r.distinct_kernels, r.library_calls, r.arena_bytes);
}

/// Passes from graphs of primitives to text.
struct Printer {
  std::string_view name;
  std::string (*print)(const Graph&);
};

constexpr Printer kPrinters[] = {{"plan", plan_of}, {"code", code_of}};

/// Passes that keep one half of a partition.
struct Half {
  std::string_view name;
  Level level;
};

constexpr Half kHalves[] = {{"forward", Level::Forward}, {"backward", Level::Backward}};

template <class Table>
const auto* named(const Table& table, std::string_view name) {
  for (const auto& row : table)
    if (row.name == name) return &row;
  return static_cast<decltype(&*std::begin(table))>(nullptr);
}

void require_level(std::string_view pass, const Graph& graph, Level first, Level last) {
  if (graph.level >= first && graph.level <= last) return;
  const std::string expected = first == last
                                   ? std::string(ir::name(first))
                                   : fmt::format("{} to {}", ir::name(first), ir::name(last));
  ir::fail(ir::Errc::Argument, fmt::format("opt: pass {}: expected a graph of level {}, got {}",
                                           pass, expected, ir::name(graph.level)));
}

Graph run_pass(Graph& graph, const runtime::Stage& stage) {
  require_level(stage.name, graph, stage.first, stage.last);
  Graph result = runtime::run_stage(stage, graph);
  ir::verify_after(stage.name, result);
  return result;
}

bool has_tangents(const Graph& graph) {
  const auto is_tangent = [](const ir::Input& i) { return i.role == ir::Role::Tangent; };
  return std::ranges::any_of(graph.inputs(), is_tangent);
}

/// `joint`: what `core` was made from, if that is known.
std::vector<Graph> partitioned(const Graph& core, const std::optional<Graph>& joint,
                               std::string_view name) {
  require_level("partition", core, Level::Core, Level::Core);
  if (!has_tangents(core))
    ir::fail(ir::Errc::Argument,
             "opt: pass partition: the graph has no tangents; expected pass joint before it, and "
             "outputs and inputs that require grad");
  const auto costs = codegen::make_cost_model();
  ir::Partition parts = partition::make_partitioner(name)->partition_within(
      core, runtime::partition_context(joint ? &*joint : nullptr, *costs));
  ir::verify_after("partition", parts.forward);
  ir::verify_after("partition", parts.backward);
  return {std::move(parts.forward), std::move(parts.backward)};
}

/// Graphs on their way through the passes.
class Passing {
 public:
  explicit Passing(Graph graph) { graphs_.push_back(std::move(graph)); }

  void through(std::string_view pass) {
    if (const Half* half = named(kHalves, pass)) return keep(*half);
    std::vector<Graph> made;
    for (Graph& graph : graphs_)
      for (Graph& next : made_of(graph, pass)) made.push_back(std::move(next));
    graphs_ = std::move(made);
    if (graphs_.front().level == Level::Joint) joint_ = graphs_.front();
  }

  std::vector<Graph>& graphs() { return graphs_; }

 private:
  void keep(const Half& half) {
    const auto is_other = [&](const Graph& graph) { return graph.level != half.level; };
    std::erase_if(graphs_, is_other);
    if (graphs_.empty())
      ir::fail(ir::Errc::Argument,
               fmt::format("opt: pass {}: expected a partition before it", half.name));
  }

  /// One graph, or two halves.
  std::vector<Graph> made_of(Graph& graph, std::string_view pass) const {
    if (pass.starts_with(kPartition))
      return partitioned(graph, joint_, pass.substr(kPartition.size()));
    const runtime::Stage* const stage = named(runtime::stages(), pass);
    if (stage == nullptr)
      ir::fail(ir::Errc::Argument,
               fmt::format("opt: unknown pass {}; expected one of {}", pass, pass_names()));
    std::vector<Graph> one;
    one.push_back(run_pass(graph, *stage));
    return one;
  }

  std::vector<Graph> graphs_;
  std::optional<Graph> joint_;
};

std::string printed(const std::vector<Graph>& graphs, const Printer& printer) {
  std::string text;
  for (const Graph& graph : graphs) {
    require_level(printer.name, graph, Level::Core, Level::Backward);
    text += printer.print(graph);
  }
  return text;
}

}  // namespace

Passed run_passes(Graph graph, const std::vector<std::string>& passes) {
  Passing passing(std::move(graph));
  Passed passed;
  for (const std::string& pass : passes) {
    const Printer* const printer = named(kPrinters, pass);
    if (printer == nullptr) {
      passing.through(pass);
      continue;
    }
    if (&pass != &passes.back())
      ir::fail(ir::Errc::Argument,
               fmt::format("opt: {} makes text; expected it as the last pass", pass));
    passed.text = printed(passing.graphs(), *printer);
  }
  passed.graphs = std::move(passing.graphs());
  return passed;
}

std::string pass_names() {
  std::string names;
  for (const runtime::Stage& stage : runtime::stages()) names += fmt::format("{}, ", stage.name);
  names += fmt::format("{}NAME", kPartition);
  for (const Half& half : kHalves) names += fmt::format(", {}", half.name);
  for (const Printer& printer : kPrinters) names += fmt::format(", {}", printer.name);
  return names;
}

}  // namespace tandem::tools
