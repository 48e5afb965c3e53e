// Variant: one compiled form of a function: guards, graphs, executables, and how a call's results
// are put together.
#ifndef TANDEM_RUNTIME_VARIANT_H
#define TANDEM_RUNTIME_VARIANT_H

#include <tandem/compile.h>
#include <tandem/graph.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/guards.h"

namespace tandem::runtime {

/// What tracing a function once gave.
struct Recording {
  ir::Graph traced;
  std::vector<Tensor>
      inputs;  // the real tensors behind the graph's inputs (undefined for the rng input)
  size_t argument_count =
      0;  // inputs that come from the arguments' leaves; the others are captured
  std::vector<int> argument_inputs;  // for each tensor leaf of the arguments: its graph input
  std::vector<int> results;  // for each leaf of the result, then each rebound leaf: the traced
                             // output, or -1 if undefined
  std::vector<int> rebound;  // leaf numbers
  std::vector<bool> final_requires_grad;  // of the inputs, after the call
  std::shared_ptr<const void> prototype;
};

/// The two compiled halves. Backward is compiled on first use.
struct Halves {
  std::unique_ptr<ir::Executable> forward;
  std::unique_ptr<ir::Executable> backward;
  std::once_flag backward_once;
};

struct Variant {
  Recording recording;  // its graph has moved to `graphs`
  Guards guards;
  mutable CompiledGraphs graphs;  // the backward's report is filled in when it is compiled
  CompileOptions options;
  mutable Halves halves;
  mutable std::atomic<uint64_t> last_used{0};

  const ir::Executable& backward() const;
  /// The backward as a compiled function of (primals, tangents), for gradients of gradients.
  std::shared_ptr<const Variant> backward_function() const;

  mutable std::mutex higher_order_mutex;
  mutable std::shared_ptr<const Variant> higher_order;
};

/// Runs the pipeline and compiles the forward half.
std::shared_ptr<Variant> compile_variant(Recording recording, Guards guards,
                                         const CompileOptions& options);

/// The gradients of a Joint graph as a Functional graph of (primals, tangents).
ir::Graph backward_as_function(const ir::Graph& joint);

/// Makes the variant's graphs known to compiled_graphs() while it lives.
void register_graphs(const std::shared_ptr<const Variant>& variant);

/// Runs the forward half on the graph inputs' tensors, puts it on the tape, replays the epilogue;
/// returns the traced outputs.
std::vector<Tensor> run_variant(const std::shared_ptr<const Variant>& variant,
                                std::span<const Tensor* const> inputs);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_VARIANT_H
