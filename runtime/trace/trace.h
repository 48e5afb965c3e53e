// Trace: the recording of one call of a user's function into a Traced graph. It belongs to the
// thread that started it and ends by RAII.
#ifndef TANDEM_RUNTIME_TRACE_TRACE_H
#define TANDEM_RUNTIME_TRACE_TRACE_H

#include <tandem/tensor.h>

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/graph.h"
#include "runtime/tensor/tensor_impl.h"

namespace tandem::runtime {

/// All of the memory that an input lies in, where the function reaches outside the input.
struct MemorySlot {
  int input, memory_input;
};

/// The `.grad` of an input that the function reads or assigns.
struct GradSlot {
  int input;
  int grad_input;  // the input that the slot holds at entry, or -1 if it is undefined then
};

/// What a function asks of its inputs beside their types: later calls must have inputs of which the
/// answers are the same.
struct Questions {
  std::vector<int> leaves, offsets;  // whether these inputs are leaves; their storage offsets
  std::vector<int> objects;          // which tensors these inputs are, which it reaches by itself
  bool sharing = false;              // which of them share storage, or are one tensor
};

class Trace : public std::enable_shared_from_this<Trace> {
 public:
  explicit Trace(std::string name);

  /// The trace that this thread is recording into, or null.
  static Trace* current();
  /// The innermost one around this thread's that follows what a user's function asks and does, not
  /// the rule or the half of one operation; or null.
  static Trace* following();
  /// The same, or null where a kernel runs meanwhile, to find a constant.
  static Trace* asking();

  /// Makes `real` an input; returns the traced tensor that stands for it. The same tensor twice is
  /// the same input; a tensor that shares storage with an earlier input becomes an alias_of input.
  Tensor add_input(const Tensor& real, std::string name, ir::Role role);
  /// The traced stand-in for a tensor that fn reached through a capture (added as an input on first
  /// use): a real one, or one of the trace that encloses this one.
  Tensor capture(const Tensor& outside);
  /// `t` itself if it belongs to this trace, else its stand-in; Error{Trace} if it is of a finished
  /// trace or of another thread's.
  Tensor resolve(const Tensor& t);
  /// fn asks whether `t` is a leaf: if it is an input, or reached through a capture, later calls
  /// must have one that is as this.
  void ask_leaf(const Tensor& t);
  /// The same of the storage offset of `t`.
  void ask_offset(const Tensor& t);
  /// fn asks whether these share storage: whether they do.
  bool ask_sharing(const Tensor& a, const Tensor& b);
  /// The same of whether they are one tensor.
  bool ask_same(const Tensor& a, const Tensor& b);
  const Questions& questions() const { return questions_; }
  /// Whether a traced `t` belongs to a trace that encloses this one.
  bool is_within_trace_of(const Tensor& t) const;
  /// Which graph input a stand-in is, or -1 for any other tensor.
  int input_index(const Tensor& stand_in) const;
  /// An input over the memory of `t` as it was at the start, if possible one of the same history;
  /// or -1.
  int input_over(const Tensor& t) const;
  /// The input that is all of the memory of another one (added on first use).
  Tensor memory_input(int input);
  const std::vector<MemorySlot>& memory_slots() const { return memory_slots_; }
  /// What fills the memory of `t`, which the trace made.
  Tensor root_over(const Tensor& t) const;
  /// The stand-in of an input: the traced tensor that fn saw (its grad slot is the epilogue's).
  const Tensor& stand_in(int input) const { return input_stand_ins_[static_cast<size_t>(input)]; }

  /// Appends an equation; its results are traced tensors. That of a view shares operand 0's
  /// storage. In place: returns operand 0. One of an ordered op takes and gives a token beside.
  TensorList record(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs, bool in_place,
                    std::span<const ir::Type> types);
  /// The rng input (added on first use) and the offset for `blocks` of four 32-bit words.
  Tensor rng();
  Dim take_draws(Dim blocks);
  /// What has been drawn so far, to go on from there.
  Dim draws() const { return enclosing_ != nullptr ? enclosing_->draws() : draws_; }
  void set_draws(Dim draws) {
    enclosing_ != nullptr ? enclosing_->set_draws(draws) : void(draws_ = draws);
  }

  /// Loads the grad slot of an input's stand-in, on first use (of other tensors: does nothing).
  void use_grad_slot(TensorImpl& stand_in);
  const std::vector<GradSlot>& grad_slots() const { return grad_slots_; }
  /// Puts an identity with `hook` as its backward behind what `t` now is, for all that uses it.
  void record_hook(const Tensor& t, const std::function<Tensor(const Tensor&)>& hook);

  /// Makes `t` an output of the graph; returns its number, or -1 if it is undefined.
  int add_output(const Tensor& t, ir::Role role = ir::Role::Result, int target = -1,
                 std::string name = "");
  /// An input without a tensor behind it: of the halves of a custom function.
  Tensor add_port(const ir::Type& type, std::string name, ir::Role role, int target);
  /// `t` was given a larger memory of its own by resize_; it left its history behind by detach_ or
  /// set_.
  void note_resized(const Tensor& t);
  void note_detached(const Tensor& t) { detached_.insert(t.impl().get()); }
  bool is_detached(const Tensor& t) const { return detached_.contains(t.impl().get()); }
  /// A custom function gave `operand`, or a view of it, back as `result`. In eager they share
  /// memory; in the trace the result is a value of its own, so a write that it would show, or that
  /// `operand` would, is refused.
  void note_given_back(const Tensor& operand, const Tensor& result);
  /// The flag of `t` is set by the traced function: an input requires grad from now on, or no more.
  void note_requires_grad(const Tensor& t, bool value);
  void note_follows() { follows_ = true; }
  /// It is the body of a branch or loop, which may run never or often: what it draws is recorded in
  /// it.
  void note_body() { is_body_ = true; }
  /// A backward ran, of which the equations that follow are.
  void note_backward() { has_backward_ = true; }
  bool has_backward() const { return has_backward_; }
  /// Adds what the epilogue must assign (grad slots of inputs, draws) and hands the graph over.
  ir::Graph finish();

  /// Whether the stand-in of each input requires grad now, in input order.
  std::vector<bool> inputs_require_grad() const;

  ir::Graph& graph() { return graph_; }
  const ir::Graph& graph() const { return graph_; }
  /// The real tensors behind the graph's inputs, in input order (undefined for the rng input).
  const std::vector<Tensor>& real_inputs() const { return real_inputs_; }

 private:
  friend class TraceScope;
  friend class OutermostTrace;
  void require_nesting() const;
  Tensor note_captured(Tensor stand_in);
  std::pair<Tensor, Tensor> asked_of(const Tensor& a, const Tensor& b);
  std::optional<ir::AliasOf> alias_among_inputs(const Tensor& real, int* first) const;
  void copy_autograd_state(const Tensor& real, const Tensor& stand_in);
  std::shared_ptr<TensorImpl> base_stand_in(const std::shared_ptr<TensorImpl>& real_base,
                                            const std::shared_ptr<Storage>& storage);
  TensorList record_view(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs,
                         std::span<const ir::Type> types);
  TensorList record_values(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs,
                           std::span<const ir::Type> types);
  ir::EquationId append_ordered(ir::Op op, const ir::ValueList& operands, ir::AttrsRef attrs,
                                std::span<const ir::Type> types);
  ir::EquationId append(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs,
                        bool in_place, std::span<const ir::Type> types);
  Tensor traced_tensor(ir::ValueId value, const ir::Type& type, const Strides& strides, Dim offset,
                       std::shared_ptr<Storage> storage);
  std::string unique_name(std::string name) const;
  void append_changes();
  ir::InputChange change_of(int input);
  int result_that_is(const Tensor& t);
  int bumps_of_change(int input) const;
  Tensor captured_as(int input) const;
  void append_grad_writes();
  void insert_hooks();
  void check_given_back(const Tensor& t, bool is_written) const;

  struct Write {
    size_t equation;
    const Storage* storage;
  };
  struct GivenBack {
    std::shared_ptr<Storage> memory;  // the operand's
    uint64_t version;                 // of it, at that time
  };
  struct HookAt {
    size_t equation;  // stands before it
    ir::ValueId value;
    ir::Graph backward;
  };

  ir::Graph graph_;
  std::vector<Tensor> real_inputs_, input_stand_ins_;
  std::unordered_set<std::string> input_names_;
  std::unordered_map<const Storage*, std::vector<int>> inputs_over_;  // by the real memory
  std::vector<std::shared_ptr<TensorImpl>> first_seen_;      // each stand-in as it was at the start
  std::unordered_map<const TensorImpl*, uint64_t> resized_;  // and how often written before
  std::unordered_set<const TensorImpl*> detached_;
  std::unordered_map<const TensorImpl*, Tensor> stand_ins_;
  // Of what inputs are views of, by the real base: one history for all views of it. Not graph
  // values, unless the base is an input too.
  std::unordered_map<const TensorImpl*, std::shared_ptr<TensorImpl>> base_stand_ins_;
  Questions questions_;
  std::vector<GradSlot> grad_slots_;
  std::vector<MemorySlot> memory_slots_;
  std::unordered_map<const Storage*, Tensor> roots_;  // of memory that detached views show
  std::vector<Write> writes_;                         // the in-place equations
  std::vector<HookAt> hooks_;
  std::unordered_map<std::shared_ptr<Storage>, GivenBack> given_back_;  // by the result's memory
  bool has_backward_ = false;
  bool is_body_ = false;
  bool follows_ = false;
  Trace* enclosing_ = nullptr;
  ir::ValueId token_;  // of the order so far, if there is one
  Tensor rng_;
  Dim draws_ = 0;
  bool recording_ = false;
};

/// Whether `t` stands for a graph value: a base that nobody handed in does not.
bool is_value(const Tensor& t);

/// Makes `trace` this thread's current one while it lives (traces nest: the halves of a custom
/// function are traces of their own).
class TraceScope {
 public:
  explicit TraceScope(std::shared_ptr<Trace> trace);
  ~TraceScope();
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  std::shared_ptr<Trace> trace_;
  Trace* previous_;
};

/// Makes the trace that encloses this thread's others its current one while it lives, or if one of
/// them is the body of a branch or loop the innermost such.
class OutermostTrace {
 public:
  OutermostTrace();
  ~OutermostTrace();
  OutermostTrace(const OutermostTrace&) = delete;
  OutermostTrace& operator=(const OutermostTrace&) = delete;

 private:
  Trace* previous_;
};

/// The trace that is told of what this thread asks now, or null.
Trace* innermost_asking();

/// Notes that what happens from here on depends on the storage offset of `t`, in the trace of this
/// thread if there is one.
void ask_offset(const Tensor& t);

/// The real tensor that a traced one is known to equal, since it follows from constants alone; or
/// undefined.
Tensor constant_value(const Tensor& traced);

/// Throws Error{Trace} that says where `t` was made and what to do, if it is traced or a trace is
/// on (what fn reads of a real tensor would be frozen into the trace).
void require_real(const Tensor& t, std::string_view what);
/// The same for who does not look at elements: one that stands for many examples is welcome.
void require_operand(const Tensor& t, std::string_view what);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TRACE_TRACE_H
