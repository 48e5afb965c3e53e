// Variant: one compiled form of a function: guards, graphs, executables, and how a call's results
// are put together.
#ifndef TANDEM_RUNTIME_COMPILE_VARIANT_H
#define TANDEM_RUNTIME_COMPILE_VARIANT_H

#include <tandem/compile.h>
#include <tandem/graph.h>

#include <atomic>
#include <memory>
#include <vector>

#include "runtime/compile/backward_forms.h"
#include "runtime/compile/guards.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {

/// A result that is a view made as one of many or under NoGrad.
struct ResultView {
  int output;  // of the traced graph
  ViewOrigin origin;
  uint64_t writes_since;  // of its memory, since it was made
  bool is_leaf;           // nothing that it is made of required grad when it was made
};

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
  std::vector<ResultView> views;
  std::vector<int> leaves;  // the traced outputs that the function made leaves which require grad
  // Inputs made under NoGrad, without a history, that are used in grad mode: as eager, each call
  // refuses those whose memory was written since.
  std::vector<int> must_be_fresh;
  Questions questions;
  std::vector<GradSlot> grad_slots;
  std::vector<int> grad_values;  // by write of a .grad: the input that it holds from then on, or -1
  std::vector<MemorySlot> memory_slots;
  int rng_input = -1;
  bool bounds_memory = false;          // scans keep less for backward
  bool has_backward = false;           // the function itself runs one: a whole step
  std::vector<GuardName> guard_names;  // of the arguments' tokens
  std::shared_ptr<const void> prototype;
};

/// What each call would otherwise look up in the graphs.
struct TapeTable {
  /// A Saved input of the backward.
  struct Saved {
    int output;       // of the forward graph: a saved one, or a result
    int input;        // the graph input that it is, or -1
    bool copy;        // the epilogue overwrites that input
    Strides strides;  // of a copy
  };
  std::vector<bool> is_result;        // by output of forward
  std::vector<int> result_of_output;  // by output of forward: the node's result number, or -1 if no
                                      // gradient can arrive there
  std::vector<int> input_of_gradient;  // by gradient
  std::vector<ir::Type> tangents;
  std::vector<Saved> saved;
  // Graph inputs that a backward which is itself differentiated reads.
  std::vector<int> kept_by_handle;
  std::vector<int> kept_by_value;                     // the call writes them
  std::vector<std::pair<int, size_t>> kept_as_saved;  // the same, but saved (which) by value anyway
};

struct Halves {
  std::unique_ptr<ir::Executable> forward;
};

class ContentCopies;

struct Variant {
  Recording recording;  // its graph has moved to `graphs`
  Guards guards;
  mutable CompiledGraphs graphs;  // the backward's report is filled in when it is compiled
  CompileOptions options;
  mutable Halves halves;
  TapeTable tape;
  bool any_size = false;         // new machine code takes sizes as arguments
  bool has_linear_hooks = true;  // a gradient may come to them in parts
  mutable std::atomic<uint64_t> last_used{0};
  mutable std::atomic<int64_t> held_bytes{0};     // of graphs and plans, so far
  mutable std::atomic<bool> has_new_code{false};  // some of it had to be made for this variant

  /// The backward of saved values and tangents, compiled on first use.
  std::shared_ptr<const BackwardForm> backward(const BackwardRequest& request) const;
  /// The backward as a compiled function of graph inputs and tangents, for gradients of gradients.
  std::shared_ptr<const BackwardForm> differentiable_backward(const BackwardRequest& request) const;

  /// Whether the backward of all gradients is compiled.
  bool has_full_backward() const { return backward_forms_.has_full(); }

  /// Counts what is held with one more of its graphs compiled.
  void count(const ir::Graph& graph, const ir::ExecutableReport& report) const;

 private:
  mutable BackwardForms backward_forms_, differentiable_forms_;
};

/// Whether what is saved for backward is to be less than what is fastest.
bool bounds_memory(const CompileOptions& options);

/// What a function's earlier variants let expect of the next one.
struct Expected {
  bool any_size = false;  // there will be more: new machine code takes sizes as arguments
  bool backward = false;  // of all gradients: compiled beside the forward half
};

/// Runs the pipeline and compiles the forward half.
std::shared_ptr<Variant> compile_variant(Recording recording, Guards guards,
                                         const CompileOptions& options, Expected expected);

/// Reads a variant's tables off its graphs and its forward executable.
TapeTable make_tape_table(const Variant& variant);

/// The part of a Joint graph that computes gradients, from inputs and tangents.
ir::Graph gradients_of(const ir::Graph& joint);
/// The same with tangents as ordinary inputs and gradients as results: a Functional graph.
ir::Graph as_function(ir::Graph gradients);

/// Makes the variant's graphs known to compiled_graphs() while it lives.
void register_graphs(const std::shared_ptr<const Variant>& variant);

/// Takes the traced outputs, which are not computed yet.
using TakeOutputs = ir::FunctionRef<void(const std::vector<Tensor>& outputs)>;

/// Runs the forward half on the graph inputs' tensors, puts it on the tape, replays the epilogue,
/// and hands over the traced outputs: all of that, or on an exception nothing.
void run_variant(const std::shared_ptr<const Variant>& variant,
                 std::span<const Tensor* const> inputs, TakeOutputs take);

/// What comes after the writes to inputs: grad slots, results, inputs that themselves change.
/// `values`: the graph's outputs; `leaves`, `grad_values` (or none): as in the recording. Returns
/// the traced outputs.
/// Contents are left to `copies`.
std::vector<Tensor> finish_epilogue(const ir::Epilogue& epilogue,
                                    std::span<const Tensor* const> inputs,
                                    const std::vector<Tensor>& values,
                                    const std::vector<int>& leaves,
                                    const std::vector<int>& grad_values, ContentCopies& copies);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_COMPILE_VARIANT_H
