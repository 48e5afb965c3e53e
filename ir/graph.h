// Graph: a value. Equations stand in topological order in flat arrays and name values by u32 ids;
// there are no pointers between them. Subgraphs are owned and named by attributes. What the
// epilogue replays on the caller's tensors is part of the graph.
#ifndef TANDEM_IR_GRAPH_H
#define TANDEM_IR_GRAPH_H

#include <tandem/ir/export.h>

#include <compare>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attr.h"
#include "op.h"
#include "type.h"

namespace tandem::ir {

/// Which rules a graph obeys; verify/verify.h has the specification of each.
enum class Level : uint8_t {
  Traced,      // as the user wrote it: views alias, in-place equations write
  Functional,  // no writes, no aliasing; the epilogue says what to replay
  Joint,       // (primals, tangents) -> (outputs, gradients)
  Core,        // a Joint (or Functional) graph of primitives only
  Forward,     // primals -> (outputs, saved); primitives only
  Backward,    // (saved, tangents) -> gradients; primitives only
};
TANDEM_API std::string_view name(Level level);
TANDEM_API std::optional<Level> level_named(std::string_view name);

/// What a graph input or output is for.
enum class Role : uint8_t {
  // inputs
  Primal,     // an argument or captured tensor
  Parameter,  // a primal that the caller keeps alive from call to call
  Rng,        // i64 [2]: Philox key and base counter
  Tangent,    // the gradient that arrives for output `target` of the joint graph
  Saved,      // in a Backward graph: what the Forward graph saved (same order); as an output of
              // Forward: the saved values
  // outputs
  Result,        // computed for the caller
  MutatedInput,  // the final contents of input `target`
  Gradient,      // the gradient of input `target`
  // both
  Token,  // orders effects
};
TANDEM_API std::string_view name(Role role);
TANDEM_API std::optional<Role> role_named(std::string_view name);

/// An input that is a view of another input's storage.
struct AliasOf {
  int input = 0;
  Dim offset;  // from the other input's first element, in elements of the smaller of the two dtypes
  bool detached = false;  // autograd does not know: each has a history of its own
  friend bool operator==(const AliasOf&, const AliasOf&) = default;
};

struct Input {
  ValueId value;
  Role role = Role::Primal;
  std::string name;  // unique among the inputs
  bool requires_grad = false;
  Strides strides;  // elements
  std::optional<AliasOf> alias_of;
  int target = -1;  // Tangent: the joint (or forward) graph's output; Saved: the forward graph's
  friend bool operator==(const Input&, const Input&) = default;
};

struct Output {
  ValueId value;
  Role role = Role::Result;
  std::string name;
  bool requires_grad = false;  // takes part in differentiation
  Strides strides;             // as eager would lay the tensor out
  int target = -1;             // MutatedInput, Gradient: the input
  friend bool operator==(const Output&, const Output&) = default;
};

/// One step of a view chain: a View op with its attributes.
struct ViewStep {
  Op op = Op::alias;
  std::vector<AttrValue> attrs;
  bool no_grad = false;  // made under no_grad: shares memory, but no gradient flows through it
  friend bool operator==(const ViewStep&, const ViewStep&) = default;
};

/// Output `output` is written into input `input`.
struct InputWrite {
  int output = 0;
  int input = 0;
  int version_bumps = 1;  // by how much the program's own writes advance the tensor's version
  bool no_grad = false;   // the write is invisible to autograd
  friend bool operator==(const InputWrite&, const InputWrite&) = default;
};

/// Where the caller's result number k comes from.
struct ResultSource {
  enum class Kind : uint8_t { Output, Input, ViewOfInput, ViewOfResult };
  Kind kind = Kind::Output;
  int index = 0;  // of the output, input, or earlier result
  // Applied in order: ViewOf...; also Output, which then holds the memory that several results
  // (none of which shows all of it) are views of. Two results that are one output are one tensor,
  // and so is ViewOfResult without a chain and that result.
  std::vector<ViewStep> chain;
  bool requires_grad = false;
  // The output whose history it has, in place of what its chain leads to: a detached view that was
  // written in grad mode. -1: none.
  int history = -1;
  friend bool operator==(const ResultSource&, const ResultSource&) = default;
};
TANDEM_API std::string_view name(ResultSource::Kind kind);
TANDEM_API std::optional<ResultSource::Kind> result_kind_named(std::string_view name);

/// The `.grad` slot of input `input` after the call: output `output`, or undefined if -1.
struct GradWrite {
  int input = 0;
  int output = -1;
  friend bool operator==(const GradWrite&, const GradWrite&) = default;
};

/// The tensor behind input `input` itself changes: t_, squeeze_, resize_, set_, requires_grad_,
/// detach_. Its elements are written before (InputWrite).
struct InputChange {
  int input = 0;
  // It becomes what this result shows: memory, sizes, strides. -1: it shows what it did. Such
  // results come after the caller's own.
  int result = -1;
  bool resized = false;   // its own memory grows to hold the result, instead of giving way to it
  int version_bumps = 0;  // beside those of writes
  bool detached = false;  // it leaves its history behind
  std::optional<bool> requires_grad;  // the flag, if the program set it
  friend bool operator==(const InputChange&, const InputChange&) = default;
};

/// What is replayed on the caller's tensors after the compiled code ran.
struct Epilogue {
  std::vector<InputWrite> writes;
  std::vector<ResultSource> results;  // empty on Traced graphs: there the outputs are the results
  std::vector<InputChange> changes;   // on Traced graphs too: results are Result outputs
  std::vector<GradWrite> grads;
  Dim rng_draws =
      0;  // by how much the generator's counter advances, in blocks of four 32-bit words
  friend bool operator==(const Epilogue&, const Epilogue&) = default;
};

/// A line of the user's source, and the function called there ("" if unknown, as in what is read
/// from files).
struct Location {
  std::string_view file;
  uint32_t line = 0;
  std::string_view function{};
  friend auto operator<=>(const Location&, const Location&) = default;
};

/// What the user asks of the partitioner for an equation's results.
enum class Mark : uint8_t {
  Auto,
  Save,       // never computed again in backward: saved if backward needs it
  Recompute,  // never saved: computed again
};
/// "save", "recompute"; "auto" is not written in the text and JSON forms.
TANDEM_API std::string_view name(Mark mark);
TANDEM_API std::optional<Mark> mark_named(std::string_view name);

inline constexpr uint32_t kMaxRegion = 999'999'999;

struct Equation {
  Op op = Op::alias;
  bool in_place = false;     // Traced only: writes operand 0 and has no results
  bool grad_enabled = true;  // the grad mode under which the user wrote it
  bool is_backward = false;  // Joint and later: belongs to the backward half
  Mark mark = Mark::Auto;
  uint32_t region = 0;  // a checkpoint region, whose values are not saved unless marked; 0: none
  LocationId location;
  uint32_t first_operand = 0, operand_count = 0;
  uint32_t first_result = 0, result_count = 0;
  uint32_t first_attr = 0;
};

template <class T>
class ValueMap;

class TANDEM_API Graph {
 public:
  Graph() = default;
  Graph(std::string graph_name, Level graph_level)
      : name(std::move(graph_name)), level(graph_level) {}

  std::string name = "graph";
  Level level = Level::Traced;
  Epilogue epilogue;

  // --- reading
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  std::vector<Input>& inputs() { return inputs_; }
  std::vector<Output>& outputs() { return outputs_; }
  const std::vector<Graph>& subgraphs() const { return subgraphs_; }
  const Graph& subgraph(SubgraphId id) const { return subgraphs_[id.index]; }
  Graph& subgraph(SubgraphId id) { return subgraphs_[id.index]; }

  size_t num_values() const { return values_.size(); }
  size_t num_equations() const { return equations_.size(); }
  EquationId equation_id(size_t i) const { return {static_cast<uint32_t>(i)}; }
  const Equation& equation(EquationId e) const { return equations_[e.index]; }
  Equation& equation(EquationId e) { return equations_[e.index]; }
  std::span<const Equation> equations() const { return equations_; }
  Op op(EquationId e) const { return equations_[e.index].op; }
  std::span<const ValueId> operands(EquationId e) const { return operands(equations_[e.index]); }
  std::span<const ValueId> operands(const Equation& e) const {
    return {operands_.data() + e.first_operand, e.operand_count};
  }
  std::span<const ValueId> results(EquationId e) const { return results(equations_[e.index]); }
  std::span<const ValueId> results(const Equation& e) const {
    return {results_.data() + e.first_result, e.result_count};
  }
  ValueId operand(EquationId e, int i) const { return operands(e)[i]; }
  ValueId result(EquationId e, int i = 0) const { return results(e)[i]; }
  std::span<const AttrValue> attrs(EquationId e) const { return attrs(equations_[e.index]); }
  std::span<const AttrValue> attrs(const Equation& e) const {
    return {attrs_.data() + e.first_attr, info(e.op).attrs.size()};
  }
  /// The attribute `name` of `e`; an internal error if the op has none of that name.
  template <class T>
  const T& attr(EquationId e, Attr name) const {
    return std::get<T>(attrs_[equations_[e.index].first_attr + attr_index(op(e), name)]);
  }
  void set_attr(EquationId e, Attr name, AttrValue value);

  /// Good until the graph gets another value.
  const Type& type(ValueId v) const { return types_[values_[v.index].type]; }
  /// The equation that defines `v`, or an invalid id for a graph input.
  EquationId producer(ValueId v) const { return values_[v.index].producer; }
  /// Which graph input `v` is, or -1.
  int input_index(ValueId v) const;
  /// The hint for printing `v` ("" if none). Unique hints print as they are; the printer numbers
  /// the rest. An input prints by its name: set_hint does nothing to it.
  const std::string& hint(ValueId v) const;
  void set_hint(ValueId v, std::string hint);
  /// Its texts are this graph's, until that adds locations or goes away.
  std::optional<Location> location(EquationId e) const;

  // --- building (unchecked; build/builder.h has the checked constructors)
  ValueId add_input(Input input, const Type& type);
  /// Appends an equation; `operands`, `attrs` and `results` must not point into this graph. Returns
  /// its id; its results have `results`' types.
  EquationId append(Op op, std::span<const ValueId> operands, AttrsRef attrs,
                    std::span<const Type> results, bool in_place = false);
  /// Appends an equation of another graph with its mark and hints. Its operands become what `map`
  /// has for them, and `map` gets its results; an internal error if it has no operand yet. The
  /// source's locations begin at `first_location` here; subgraphs keep the source's ids.
  EquationId append_copy(const Graph& source, EquationId e, ValueMap<ValueId>& map,
                         uint32_t first_location = 0);
  /// Makes room for a graph `times` as large as `other`.
  void reserve(const Graph& other, size_t times = 1);
  void add_output(Output output) { outputs_.push_back(std::move(output)); }
  SubgraphId add_subgraph(Graph graph);
  /// Equation `e` uses `renamed[v]` in place of each value v; all equations and outputs do.
  void rename_operands(EquationId e, std::span<const ValueId> renamed) {
    const Equation& equation = equations_[e.index];
    for (uint32_t i = 0; i < equation.operand_count; ++i) {
      ValueId& v = operands_[equation.first_operand + i];
      v = renamed[v.index];
    }
  }
  void rename_uses(std::span<const ValueId> renamed);
  /// `v` takes over the hint and the mark of value `old` of `from` (which may be this graph), which
  /// it stands for, unless it has its own.
  void inherit(ValueId v, const Graph& from, ValueId old);
  std::vector<Graph> take_subgraphs() { return std::exchange(subgraphs_, {}); }
  /// Leaves the equations `order`, in this order. Values are numbered anew: the inputs, then the
  /// results.
  void keep_only(std::span<const EquationId> order);
  /// Lets go of what equations that are gone have left, and of room for more.
  void shrink_to_fit();
  LocationId add_location(Location location);
  /// Appends the locations of `other`. Returns where they begin: what to add to their ids.
  uint32_t add_locations(const Graph& other);
  void set_location(EquationId e, LocationId location) { equations_[e.index].location = location; }

  /// Everything but source locations.
  friend TANDEM_API bool operator==(const Graph& a, const Graph& b);
  /// About what it takes in memory, with its subgraphs.
  int64_t held_bytes() const;

 private:
  /// Its type as a place in `types_`: many values have one of a few types.
  struct Value {
    uint32_t type;
    EquationId producer;
  };

  /// A Location, its file as a place in `texts_`.
  struct Line {
    uint32_t file, line, function;
    friend bool operator==(const Line&, const Line&) = default;
  };

  /// Appends `e` with these attributes; as many operands and results as it counts are to follow.
  EquationId add_equation(Equation e, std::span<const AttrValue> attrs);
  ValueId add_value(EquationId producer, const Type& type);
  ValueId add_result(EquationId producer, const Type& type);
  uint32_t add_type(const Type& type);
  uint32_t& slot_of(const Type& type);
  void grow_type_slots();
  void keep_used_types();
  uint32_t add_text(std::string_view text);

  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<Equation> equations_;
  std::vector<Value> values_;
  std::vector<Type> types_;                  // each once
  std::vector<uint32_t> type_slots_;         // a hash table of places in `types_`
  std::vector<ValueId> operands_, results_;  // equations have ranges of these and of attrs_
  std::vector<AttrValue> attrs_;
  std::vector<std::string> hints_;  // by value; shorter than values_ if the last ones have none
  std::vector<Line> locations_;
  std::vector<std::string> texts_;
  std::vector<Graph> subgraphs_;
};

/// A side table with one T per value of a graph.
template <class T>
class ValueMap {
 public:
  explicit ValueMap(const Graph& graph, const T& initial = T())
      : items_(graph.num_values(), initial) {}
  explicit ValueMap(size_t size, const T& initial = T()) : items_(size, initial) {}
  decltype(auto) operator[](ValueId v) { return items_[v.index]; }
  decltype(auto) operator[](ValueId v) const { return items_[v.index]; }
  size_t size() const { return items_.size(); }
  void grow(size_t size) {
    if (items_.size() < size) items_.resize(size);
  }

 private:
  std::vector<T> items_;
};

/// Row-major strides of `sizes`, as ATen computes them (a size of 0 counts as 1).
TANDEM_API Strides contiguous_strides(const Shape& sizes);

/// How many equations use each value (outputs count as one use each).
TANDEM_API std::vector<uint32_t> use_counts(const Graph& graph);

}  // namespace tandem::ir

#endif  // TANDEM_IR_GRAPH_H
