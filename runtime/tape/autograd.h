// The tape: nodes that say how gradients of results become gradients of operands, and the engine
// that walks them. Eager operations and compiled functions put nodes on it; inside a trace it stays
// on, and walking it records the rules' equations.
#ifndef TANDEM_RUNTIME_TAPE_AUTOGRAD_H
#define TANDEM_RUNTIME_TAPE_AUTOGRAD_H

#include <tandem/autograd.h>
#include <tandem/matmul_precision.h>

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/base/function_ref.h"
#include "ir/base/inline_vector.h"
#include "ir/graph.h"
#include "runtime/tape/delete_in_turn.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {

/// Where a gradient flows to: a node, and which of its results it is the gradient of. Null:
/// nowhere.
struct Edge {
  std::shared_ptr<Node> node;
  int result = 0;
};

using Edges = ir::InlineVector<Edge, 3>;

/// Elements [start, start + some) of `dim` of a tensor of `whole` sizes.
struct Part {
  Shape whole;
  int dim;
  Dim start;
};

/// One differentiable step. Derive from it, implement apply, and attach it by set_history. Make
/// nodes by make_node only: it frees long chains without recursion.
struct Node : std::enable_shared_from_this<Node> {
  using Hook = std::function<Tensor(const Tensor&)>;

  explicit Node(Edges next_edges, int result_count = 1);
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  virtual std::string name() const = 0;
  /// Gradients of the operands (one per edge; undefined where zero or not wanted) from gradients of
  /// the results (undefined where zero). `wanted`: by edge; never true where it leads nowhere. In
  /// grad mode if the graph of the gradients is wanted.
  virtual std::vector<Tensor> apply(std::vector<Tensor> grads, std::span<const bool> wanted) = 0;
  /// Of a view that shows a part of its operand: which one.
  virtual std::optional<Part> shown_part() const { return {}; }
  /// Frees what apply needs; a later apply is an Error.
  virtual void release() = 0;
  /// Whether operand i's gradient is wanted.
  bool needs(size_t i) const { return edges[i].node != nullptr; }

  struct ResultHook {
    int result;
    Hook call;
  };
  struct RetainedGrad {
    int result;
    std::weak_ptr<TensorImpl> tensor;
  };

  Edges edges;
  int results;
  uint64_t sequence;  // later nodes have larger ones: descending order is a topological order
  std::vector<ResultHook> hooks;
  std::vector<RetainedGrad> retained;
  std::source_location made_at;
  MatmulPrecision matmul_precision = float32_matmul_precision();  // what apply computes with
  Node* next_dead = nullptr;                                      // while it waits to be deleted
};

/// Flags by edge or result of a node, on the stack where they are few.
class Flags {
 public:
  explicit Flags(size_t size) : size_(size), heap_(size > few_.size() ? new bool[size] : nullptr) {}
  bool& operator[](size_t i) { return heap_ ? heap_[i] : few_[i]; }
  std::span<const bool> all() const { return {heap_ ? heap_.get() : few_.data(), size_}; }

 private:
  size_t size_;
  std::array<bool, 32> few_;
  std::unique_ptr<bool[]> heap_;
};

template <class T, class... A>
std::shared_ptr<T> make_node(A&&... arguments) {
  return std::shared_ptr<T>(new T(std::forward<A>(arguments)...),
                            [](T* node) { delete_in_turn<Node>(node); });
}

/// A twin of `t`: the same elements, tangents and graph value, no history.
Tensor without_history(const Tensor& t);

/// A tensor kept for backward. Unpacking is an Error{Version} if it was changed in place since. A
/// result of the node itself is kept without its history, which would be a cycle.
class SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(const Tensor& operand);
  /// For result number `result` of `owner`.
  static SavedTensor of_result(const Tensor& result, int result_number);
  /// For a tensor that nobody else has, and that has no history.
  static SavedTensor of_own(const Tensor& own);

  bool defined() const { return tensor_.defined(); }
  /// `owner`: the node that saved it; `self`: the same, for a saved result, which gets its history
  /// back; null: it gets none.
  Tensor unpack(const Node& owner, const std::shared_ptr<Node>& self) const;
  uint64_t version() const { return version_; }
  uint64_t current_version() const { return tensor_.version(); }
  /// What was done to the tensor so far does not count.
  void renew() { version_ = defined() ? current_version() : 0; }
  bool is_unchanged() const { return version() == current_version(); }
  /// It carries the tangents that `t` does.
  void share_tangents(const Tensor& t) const {
    if (defined()) tensor_.impl()->tangents = t.impl()->tangents;
  }
  void reset() { tensor_ = Tensor(); }

 private:
  Tensor tensor_;
  uint64_t version_ = 0;
  int result_ = -1;
};

// --- what tensors know
const AutogradMeta* meta_of(const Tensor& t);   // null if there is none
AutogradMeta& autograd_meta(TensorImpl& impl);  // made if there is none
/// Own flag or history, or that of what it is a view of.
bool requires_grad(const Tensor& t);
/// Whether a gradient of `t` leads anywhere: a view made under NoGrad requires grad as its base
/// does, but has neither a history nor a slot for a gradient.
bool receives_gradient(const Tensor& t);
bool is_leaf(const Tensor& t);
/// The edge to give to a node that uses `t`: its history, its gradient accumulator, or none.
Edge gradient_edge(const Tensor& t);
/// What `t` is a differentiable view of, or itself: tensors with one base share a history.
const TensorImpl* autograd_base(const Tensor& t);
/// Makes result number `result` of `node` the history of `t` (a new tensor, or one written in
/// place that is no view).
void set_history(const Tensor& t, const std::shared_ptr<Node>& node, int result = 0);
/// What `t` is inside the trace that is on, if one is; else `t`.
Tensor in_current_trace(const Tensor& t);
/// The grad slot; a traced stand-in's is read from the real tensor on first use, which is guarded.
Tensor load_grad(TensorImpl& impl);
void store_grad(TensorImpl& impl, const Tensor& grad);
std::string history_name(const Tensor& t);  // "" for leaves
void retain_grad(const Tensor& t);
void register_hook(const Tensor& t, Node::Hook hook);

// --- what dispatch does for an op on the tape
/// True if the op must be put on the tape: grad mode is on, an operand requires grad, and a
/// result's dtype can carry it.
bool tape_wants(ir::Op op, std::span<const Tensor> operands, std::span<const ir::Type> results);
/// Before the op: everything it must keep of its operands (in place: operand 0 as it was).
std::shared_ptr<Node> prepare_node(ir::Op op, std::span<const Tensor> operands,
                                   std::span<const ir::AttrValue> attrs, bool in_place,
                                   std::span<const ir::Type> results);
/// After it: saves results, attaches the history to those whose dtype can carry one.
void finish_node(const std::shared_ptr<Node>& node, std::span<const Tensor> results, bool in_place);
/// The results that it saved were written since, by the op itself.
void renew_results(Node& node);
/// Tangents of an op's results were made since it was put on the tape (if it was): what it saved of
/// them carries these.
void renew_tangents(std::span<const Tensor> results);
/// Error if operand 0 may not be written by op_: read only, overlapping itself, a leaf in grad
/// mode, ...
void check_writable(std::span<const Tensor> operands, ir::Op op);
/// What memory an operand of a write may share with what is written.
enum class Sharing : uint8_t { AllOrNothing, Nothing };
/// False if `read` shares more with `written`. As ATen, which counts only tensors without gaps: of
/// others the write is as if it read all before.
bool is_apart(const Tensor& written, const Tensor& read, Sharing allowed);
/// Error if they are not apart.
void check_apart(const Tensor& written, const Tensor& read, Sharing allowed);
/// The same for a write of `self` that autograd follows if gets_history().
void check_writable(const Tensor& self, ir::Op op, ir::FunctionRef<bool()> gets_history);
/// Error if autograd can't tell what `t`'s history is: a view whose origin is not Alone, after a
/// write.
void require_clear_history(const Tensor& t);
/// Remembers that `result` is a view of `operand` by one step.
void remember_view(const Tensor& operand, const Tensor& result, ir::Op op,
                   std::span<const ir::AttrValue> attrs);
/// Remembers that `row` is all of the memory that `base` lies in (`like`: the view of base by which
/// that was reached, or null).
void remember_memory(const Tensor& base, const Tensor& row, const ViewOf* like);
/// How `t` is a differentiable view of another tensor; null if it is none.
const ViewOf* view_of(const Tensor& t);
/// `t`, whose memory nobody else shows, is no view of what it was made from.
void forget_base(const Tensor& t);
/// `t`, if it is a view, has this origin; its memory was written so often since.
void note_origin(const Tensor& t, ViewOrigin origin, uint64_t writes_since = 0);
/// After a write that compiled code made to `self`: the history is `node`'s result (null: only the
/// generation advances).
void set_written_history(const Tensor& self, const std::shared_ptr<Node>& node, int result);

// --- the engine
/// The pass over the tape that this thread is in: no two have the same number.
uint64_t current_pass();
void backward(const Tensor& output, const Tensor& gradient, bool retain_graph, bool create_graph,
              const std::source_location& at);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TAPE_AUTOGRAD_H
