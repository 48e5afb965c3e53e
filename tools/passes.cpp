#include "tools/passes.h"

#include <fmt/format.h>

#include <algorithm>

#include "autodiff/joint.h"
#include "codegen/lower.h"
#include "decomps/decompose.h"
#include "decomps/simplify.h"
#include "functionalize/functionalize.h"
#include "ir/base/error.h"
#include "ir/build/rewrite.h"
#include "ir/verify/verify.h"
#include "partition/partition.h"

namespace tandem::tools {
namespace {

using ir::Graph;
using ir::Level;

constexpr std::string_view kPartition = "partition=";

Graph plan_contractions(const Graph& core) {
  return codegen::make_contraction_planner()->plan(core);
}

struct Pass {
  std::string_view name;
  Level first, last;  // the levels that it takes
  Graph (*run)(const Graph&);
};

constexpr Pass kPasses[] = {
    {"functionalize", Level::Traced, Level::Traced, functionalize::functionalize},
    {"joint", Level::Functional, Level::Functional, autodiff::joint},
    {"decompose", Level::Functional, Level::Joint, decomps::decompose},
    {"simplify", Level::Core, Level::Backward, [](const Graph& g) { return decomps::simplify(g); }},
    {"parts", Level::Core, Level::Core, [](const Graph& g) { return decomps::join_parts(g); }},
    {"cse", Level::Core, Level::Backward,
     [](const Graph& g) { return decomps::eliminate_common_subexpressions(g); }},
    {"dce", Level::Functional, Level::Backward,
     [](const Graph& g) { return ir::remove_dead_code(g); }},
    {"scatters", Level::Core, Level::Core,
     [](const Graph& g) { return decomps::scatter_into_sums(g); }},
    {"fma", Level::Core, Level::Core, [](const Graph& g) { return decomps::form_fma(g); }},
    {"orders", Level::Core, Level::Core,
     [](const Graph& g) { return decomps::set_reduction_orders(g); }},
    {"contractions", Level::Core, Level::Core, plan_contractions},
};

const Pass& pass_named(std::string_view name) {
  const auto* pass = std::ranges::find(kPasses, name, &Pass::name);
  if (pass == std::end(kPasses))
    ir::fail(ir::Errc::Argument,
             fmt::format("opt: unknown pass {}; expected one of {}", name, pass_names()));
  return *pass;
}

void require_level(std::string_view pass, const Graph& graph, Level first, Level last) {
  if (graph.level >= first && graph.level <= last) return;
  const std::string expected = first == last
                                   ? std::string(ir::name(first))
                                   : fmt::format("{} to {}", ir::name(first), ir::name(last));
  ir::fail(ir::Errc::Argument, fmt::format("opt: pass {}: expected a graph of level {}, got {}",
                                           pass, expected, ir::name(graph.level)));
}

Graph run_pass(const Graph& graph, const Pass& pass) {
  require_level(pass.name, graph, pass.first, pass.last);
  Graph result = pass.run(graph);
  ir::verify_after(pass.name, result);
  return result;
}

bool has_tangents(const Graph& graph) {
  const auto is_tangent = [](const ir::Input& i) { return i.role == ir::Role::Tangent; };
  return std::ranges::any_of(graph.inputs(), is_tangent);
}

std::vector<Graph> partitioned(const Graph& core, std::string_view name) {
  require_level("partition", core, Level::Core, Level::Core);
  if (!has_tangents(core))
    ir::fail(ir::Errc::Argument,
             "opt: pass partition: the graph has no tangents; expected pass joint before it, and "
             "outputs and inputs that require grad");
  ir::Partition parts = partition::make_partitioner(name)->partition(core);
  ir::verify_after("partition", parts.forward);
  ir::verify_after("partition", parts.backward);
  return {std::move(parts.forward), std::move(parts.backward)};
}

}  // namespace

std::vector<Graph> run_passes(Graph graph, const std::vector<std::string>& passes) {
  for (const std::string& pass : passes) {
    if (!pass.starts_with(kPartition)) {
      graph = run_pass(graph, pass_named(pass));
      continue;
    }
    if (&pass != &passes.back())
      ir::fail(ir::Errc::Argument,
               fmt::format("opt: {} makes two graphs; expected it as the last pass", pass));
    return partitioned(graph, std::string_view(pass).substr(kPartition.size()));
  }
  return {std::move(graph)};
}

std::string pass_names() {
  std::string names;
  for (const Pass& pass : kPasses) names += fmt::format("{}, ", pass.name);
  return names + "partition=NAME";
}

}  // namespace tandem::tools
