// For who reads or steers: the graphs of a compiled function, their text and JSON, and the
// interfaces for partitioners and backends.
#ifndef TANDEM_GRAPH_H
#define TANDEM_GRAPH_H

#include <tandem/ir/backend.h>
#include <tandem/ir/builder.h>
#include <tandem/ir/graph.h>
#include <tandem/ir/json.h>
#include <tandem/ir/partitioner.h>
#include <tandem/ir/pass.h>
#include <tandem/ir/text.h>
#include <tandem/tandem.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

using ir::Backend;
using ir::Executable;
using ir::ExecutableReport;
using ir::Graph;
using ir::GraphPass;
using ir::Partition;
using ir::PartitionContext;
using ir::Partitioner;
using ir::PartitionReport;
using ir::PassPoint;

/// What the pipeline made of one trace, stage by stage, and how long each took.
struct CompiledGraphs {
  Graph traced;
  Graph functional;
  Graph joint;  // without differentiable inputs: the functional graph
  Graph core;   // joint, of primitives only
  Graph forward;
  Graph backward;  // without equations if nothing is differentiated
  PartitionReport partition;
  int64_t eager_saved_bytes = 0;  // what the eager tape would hold, beyond the inputs
  std::vector<std::pair<std::string, double>> stage_seconds;
  ExecutableReport forward_report, backward_report;
};

/// Chooses what to save of a Core joint graph: values of its forward half. All else that backward
/// needs is computed again there.
using ChooseSaved = std::function<std::vector<ir::ValueId>(const Graph& core)>;

/// A partitioner for CompileOptions::partitioner, by name (as CompileOptions::partition) or of your
/// own.
TANDEM_API std::shared_ptr<const Partitioner> make_partitioner(const std::string& name);
TANDEM_API std::shared_ptr<const Partitioner> make_partitioner(std::string name,
                                                               ChooseSaved choose);

/// The backends that ship with Tandem: "jit" and "interpreter" (the reference interpreter).
TANDEM_API std::shared_ptr<const Backend> backend_named(const std::string& name);

/// fn traced, for reading: make_graph(fn)(example arguments) is the Traced graph of what fn does
/// with arguments like these. Nothing is compiled, nothing is run, no argument is changed. Of
/// functionalize(fn) it is a graph whose only writes are the copies into arguments at the end.
template <class Fn>
auto make_graph(Fn fn) {
  return [compiled = compile(std::move(fn))](auto&&... arguments) {
    Graph graph;
    compiled.trace(graph, std::forward<decltype(arguments)>(arguments)...);
    return graph;
  };
}

/// Reports of all variants of all compiled functions that live in this process, most recent last.
TANDEM_API std::vector<const CompiledGraphs*> compiled_graphs();

}  // namespace tandem

#endif  // TANDEM_GRAPH_H
