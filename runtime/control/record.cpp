#include "runtime/control/record.h"

#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/ops.h>

#include <algorithm>

#include "ir/base/error.h"
#include "ir/build/builder.h"
#include "runtime/control/body.h"
#include "runtime/control/equation.h"
#include "runtime/levels/batched.h"
#include "runtime/tape/autograd.h"
#include "runtime/trace/dispatch_graph.h"
#include "runtime/trace/trace.h"

namespace tandem::control {

using runtime::Trace;
namespace {

using ir::Op;
using ir::Type;
using ir::ValueId;
using Types = std::vector<Type>;
using Values = std::vector<ValueId>;

std::string listed(const Types& types) {
  std::string out;
  for (const Type& type : types) out += (out.empty() ? "" : ", ") + ir::to_string(type);
  return "(" + out + ")";
}

Type type_of(const Tensor& t) { return t.impl()->type(); }

/// The tensors from outside that the bodies of one equation use, each once.
class Captured {
 public:
  /// The place of each tensor that `body` captured.
  std::vector<size_t> add(const TracedBody& body) {
    std::vector<size_t> places;
    for (const Tensor& t : body.captured) places.push_back(place_of(runtime::in_current_trace(t)));
    for (const TracedBody::Write& w : body.writes) note_write(places[w.input], w.no_grad);
    return places;
  }

  size_t place_of(const Tensor& t) {
    const auto same = [&](const Tensor& other) { return other.impl() == t.impl(); };
    const auto found = std::ranges::find_if(tensors_, same);
    if (found == tensors_.end()) return tensors_.push_back(t), tensors_.size() - 1;
    return static_cast<size_t>(found - tensors_.begin());
  }

  const Tensors& tensors() const { return tensors_; }
  /// The places of what some body writes.
  std::vector<size_t> written() const {
    std::vector<size_t> places;
    for (const Written& w : written_) places.push_back(w.place);
    return places;
  }
  bool is_written(size_t place) const {
    return std::ranges::count(written_, place, &Written::place) != 0;
  }

  /// Gives what was written its new contents.
  void write(std::span<const Tensor> values) const {
    for (size_t i = 0; i < written_.size(); ++i) {
      const GradMode mode(grad_enabled() && !written_[i].no_grad);
      Tensor target = tensors_[written_[i].place];
      target.copy_(values[i]);
    }
  }

  /// Which of `operands` show memory that is written.
  std::vector<bool> overwritten(const Tensors& operands) const {
    std::vector<bool> all;
    for (const Tensor& t : operands)
      all.push_back(std::ranges::any_of(written_, [&](const Written& w) {
        return runtime::share_storage(tensors_[w.place], t);
      }));
    return all;
  }

  bool shares(size_t place, size_t other) const {
    return place != other && runtime::share_storage(tensors_[place], tensors_[other]);
  }

 private:
  struct Written {
    size_t place;
    bool no_grad;
  };

  void note_write(size_t place, bool no_grad) {
    const auto known = std::ranges::find(written_, place, &Written::place);
    if (known == written_.end()) return written_.push_back({place, no_grad});
    known->no_grad = known->no_grad && no_grad;
  }

  Tensors tensors_;
  std::vector<Written> written_;
};

/// What `body` leaves in the tensor at `place`, by its outputs; invalid if it does not write it.
ValueId written_value(const TracedBody& body, const std::vector<size_t>& places, size_t place,
                      const Values& outputs) {
  for (const TracedBody::Write& w : body.writes)
    if (places[w.input] == place) return outputs[w.output];
  return {};
}

[[noreturn]] void refuse_shared(const char* who) {
  ir::fail(
      Errc::Mutation,
      fmt::format("{}: inside a trace its body writes a tensor from outside that shares memory "
                  "with another which it uses; expected one of them alone",
                  who));
}

/// What an equation with these bodies and attributes gives. Backward reads copies of the operands
/// that the program writes behind it.
Tensors recorded(Op op, Tensors operands, const Captured& captured, std::vector<ir::Graph> bodies,
                 const std::vector<ir::AttrValue>& others, const Types& results) {
  if (grad_enabled() && std::ranges::any_of(operands, runtime::is_differentiated)) {
    const std::vector<bool> written = captured.overwritten(operands);
    for (size_t i = 0; i < operands.size(); ++i)
      if (written[i]) operands[i] = clone(operands[i]);
  }
  return runtime::dispatch_graph(
      equation_graph(op, types_of(operands), std::move(bodies), others, results), operands);
}

/// Splits what an equation gave into what the body gave and what it wrote, which is written.
Tensors without_written(Tensors all, size_t first, const Captured& captured) {
  const size_t count = captured.written().size();
  const auto begin = all.begin() + static_cast<ptrdiff_t>(first);
  captured.write(std::span(all).subspan(first, count));
  all.erase(begin, begin + static_cast<ptrdiff_t>(count));
  return all;
}

// --- cond

class CondRecorder {
 public:
  CondRecorder(const TracedBody& then, const TracedBody& otherwise)
      : bodies_{&then, &otherwise},
        places_{captured_.add(then), captured_.add(otherwise)},
        types_(then.result_types()) {
    const Types others = otherwise.result_types();
    if (types_ != others)
      ir::fail(Errc::Shape, fmt::format("cond: the branches give different types; expected {} as "
                                        "the first gives, got {}",
                                        listed(types_), listed(others)));
    for (const size_t i : {0, 1}) check_shared(i);
  }

  Tensors run(const Tensor& pred) {
    const size_t given = types_.size();
    for (const size_t place : captured_.written())
      types_.push_back(type_of(captured_.tensors()[place]));
    if (types_.empty()) return {};
    Tensors operands = {pred};
    operands.insert(operands.end(), captured_.tensors().begin(), captured_.tensors().end());
    return without_written(recorded(Op::cond, operands, captured_,
                                    {branch(0, "then"), branch(1, "otherwise")}, {}, types_),
                           given, captured_);
  }

 private:
  /// A branch leaves what only the other one writes: nothing else may have changed that.
  void check_shared(size_t branch) const {
    for (const size_t kept : captured_.written())
      for (const TracedBody::Write& w : bodies_[branch]->writes) {
        const size_t place = places_[branch][w.input];
        const bool writes_both = std::ranges::any_of(
            bodies_[branch]->writes,
            [&](const auto& other) { return places_[branch][other.input] == kept; });
        if (captured_.shares(place, kept) && !writes_both) refuse_shared("cond");
      }
  }

  ir::Graph branch(size_t i, const char* name) const {
    BodyGraph graph(name);
    Values inputs, arguments;
    for (const Tensor& t : captured_.tensors()) inputs.push_back(graph.input(type_of(t), "x"));
    for (const size_t place : places_[i]) arguments.push_back(inputs[place]);
    const Values outputs = graph.add(bodies_[i]->graph, arguments);
    for (const size_t result : bodies_[i]->results) graph.output(outputs[result], "y");
    for (const size_t place : captured_.written()) {
      const ValueId value = written_value(*bodies_[i], places_[i], place, outputs);
      graph.output(value.valid() ? value : inputs[place], "written");
    }
    return graph.take();
  }

  const TracedBody* bodies_[2];
  Captured captured_;
  std::vector<size_t> places_[2];
  Types types_;
};

// --- loops

/// A loop's operands: carries, what the body writes (which are carries too), constants, xs.
class Loop {
 public:
  Loop(const char* who, const Tensors& carries) : who_(who), carries_(carries) {}

  std::vector<size_t> add(const TracedBody& body) { return captured_.add(body); }

  /// Once all bodies are added. `counter`: a captured tensor that each step takes from the one
  /// before, though it is not written.
  void arrange(const Tensor& counter = {}) {
    const size_t count = captured_.tensors().size();
    if (counter.defined()) counter_ = captured_.place_of(counter);
    order_ = captured_.written();
    for (const size_t written : captured_.written())
      for (size_t other = 0; other < count; ++other)
        if (captured_.shares(written, other)) refuse_shared(who_);
    if (counter.defined()) order_.push_back(counter_);
    steps_ = order_.size();
    for (size_t i = 0; i < count; ++i)
      if (std::ranges::count(order_, i) == 0) order_.push_back(i);
  }

  /// All but the xs.
  Tensors operands() const {
    Tensors all = carries_;
    for (const size_t place : order_) all.push_back(captured_.tensors()[place]);
    return all;
  }
  size_t carries() const { return carries_.size() + steps_; }
  size_t constants() const { return order_.size() - steps_; }
  const Captured& captured() const { return captured_; }

  /// A body in the making: its inputs, and the outputs of what was traced on them.
  struct Made {
    BodyGraph graph;
    Values inputs, outputs;
  };
  /// `body`, which captured what lies at `places`, on the operands and slices of `xs`.
  Made make(const std::string& name, const TracedBody& body, const std::vector<size_t>& places,
            const Types& xs = {}) const {
    Made made{BodyGraph(name), {}, {}};
    for (const Tensor& t : operands()) made.inputs.push_back(made.graph.input(type_of(t), "x"));
    for (const Type& type : xs) made.inputs.push_back(made.graph.input(type, "slice"));
    Values arguments(made.inputs.begin(),
                     made.inputs.begin() + static_cast<ptrdiff_t>(carries_.size()));
    arguments.insert(arguments.end(), made.inputs.end() - static_cast<ptrdiff_t>(xs.size()),
                     made.inputs.end());
    for (const size_t place : places) arguments.push_back(made.inputs[input_of(place)]);
    made.outputs = made.graph.add(body.graph, arguments);
    return made;
  }

  /// The outputs that are carries. `draws`: how far each step advances the counter.
  void give_carries(Made& made, const TracedBody& body, const std::vector<size_t>& places,
                    ir::Dim draws = 0) const {
    for (size_t i = 0; i < carries_.size(); ++i)
      made.graph.output(made.outputs[body.results[i]], "carry");
    for (const size_t place : captured_.written())
      made.graph.output(written_value(body, places, place, made.outputs), "written");
    if (steps_ > captured_.written().size())
      made.graph.output(advanced(made, made.inputs[input_of(counter_)], draws), "rng");
  }

 private:
  size_t input_of(size_t place) const {
    return carries_.size() + static_cast<size_t>(std::ranges::find(order_, place) - order_.begin());
  }

  static ValueId advanced(Made& made, ValueId rng, ir::Dim draws) {
    ir::GraphSink sink(made.graph.graph());
    ir::Builder b(sink);
    return b.add(rng, b.iota(2, DType::I64, 0, int64_t{draws}));
  }

  const char* who_;
  const Tensors& carries_;
  Captured captured_;
  std::vector<size_t> order_;  // places: those that are carries first
  size_t steps_ = 0, counter_ = 0;
};

Tensors resolved(const Tensors& tensors) {
  Tensors all;
  for (const Tensor& t : tensors) all.push_back(runtime::in_current_trace(t));
  return all;
}

void refuse_draws(ir::Dim draws) {
  if (draws != 0)
    ir::fail(Errc::Unsupported,
             "while_loop: inside a trace its body draws from the process's generator, which cannot "
             "advance by as much as data says; expected a Generator of its own, or fori_loop");
}

}  // namespace

Tensor as_predicate(const Tensor& t, const char* who) {
  if (!t.defined() || ir::numel(t.sizes()) != 1)
    ir::fail(Errc::Shape, fmt::format("{}: the predicate is {}; expected one number", who,
                                      t.defined() ? ir::to_string(t.impl()->type()) : "undefined"));
  const Tensor number = t.dim() == 0 ? t : reshape(t, {});
  return number.dtype() == DType::Bool ? number : number != 0;
}

void check_carries(const char* who, const std::vector<ir::Type>& expected,
                   const std::vector<ir::Type>& got) {
  for (size_t i = 0; i < expected.size(); ++i)
    if (i >= got.size() || expected[i] != got[i])
      ir::fail(
          Errc::Shape,
          fmt::format("{}: carry {} comes out of the body as another type; expected {}, got {}",
                      who, i, ir::to_string(expected[i]),
                      i < got.size() ? ir::to_string(got[i]) : "nothing"));
}

Tensors record_cond(const Tensor& pred, Body then, Body otherwise) {
  const Tensor predicate = runtime::in_current_trace(as_predicate(pred, "cond"));
  Trace* const trace = Trace::current();
  const ir::Dim before = trace != nullptr ? trace->draws() : ir::Dim(0);
  const TracedBody first = trace_body("then", {}, then);
  if (trace != nullptr) trace->set_draws(before);
  const TracedBody second = trace_body("otherwise", {}, otherwise);
  if (first.draws != second.draws)
    ir::fail(Errc::Unsupported,
             fmt::format("cond: inside a trace its branches draw different numbers from the "
                         "process's generator; expected {} blocks as the first draws, or a "
                         "Generator of their own, got {}",
                         int64_t{first.draws}, int64_t{second.draws}));
  if (trace == nullptr && first.draws != 0)
    ir::fail(Errc::Unsupported,
             "cond: inside vmap, where its predicate differs between examples, its branches draw "
             "from the process's generator; expected numbers drawn before it");
  return CondRecorder(first, second).run(predicate);
}

Tensors record_while(Condition condition, Body body, const Tensors& carries) {
  const Tensors first = resolved(carries);
  const Types types = types_of(first);
  const TracedBody test = trace_body("condition", types, [&](const Tensors& t) {
    return Tensors{as_predicate(condition(t), "while_loop")};
  });
  const TracedBody step = trace_body("body", types, body);
  refuse_draws(test.draws + step.draws);
  if (!test.writes.empty())
    ir::fail(Errc::Mutation,
             "while_loop: inside a trace its condition writes a tensor from outside; expected "
             "the body to do it");
  check_carries("while_loop", types, step.result_types());
  Loop loop("while_loop", first);
  const std::vector<size_t> tested = loop.add(test), stepped = loop.add(step);
  loop.arrange();
  if (loop.carries() == 0)
    ir::fail(Errc::Argument, "while_loop: expected a carry, or a tensor that the body writes");
  Loop::Made asks = loop.make("condition", test, tested), does = loop.make("body", step, stepped);
  asks.graph.output(asks.outputs[test.results[0]], "goes_on");
  loop.give_carries(does, step, stepped);
  const Tensors operands = loop.operands();
  const auto count = static_cast<int64_t>(loop.carries());
  return without_written(
      recorded(Op::while_loop, operands, loop.captured(), {asks.graph.take(), does.graph.take()},
               {count}, types_of(std::span(operands).first(loop.carries()))),
      carries.size(), loop.captured());
}

Tensors record_scan(Body body, const Tensors& tensors, size_t carries, int64_t length,
                    bool reverse) {
  const Tensors all = resolved(tensors);
  const auto middle = all.begin() + static_cast<ptrdiff_t>(carries);
  const Tensors first(all.begin(), middle), xs(middle, all.end());
  const Types carried = types_of(first);
  Types slices;
  for (const Tensor& x : xs) slices.push_back(slice_of(type_of(x)));
  Types ports = carried;
  ports.insert(ports.end(), slices.begin(), slices.end());
  Trace& trace = *Trace::current();
  const ir::Dim before = trace.draws();
  const TracedBody step = trace_body("body", ports, body);
  check_carries("scan", carried, step.result_types());
  Loop loop("scan", first);
  const std::vector<size_t> places = loop.add(step);
  loop.arrange(step.draws != 0 ? trace.resolve(trace.rng()) : Tensor());
  trace.set_draws(before + step.draws * length);

  Loop::Made made = loop.make("body", step, places, slices);
  loop.give_carries(made, step, places, step.draws);
  Tensors operands = loop.operands();
  Types types = types_of(std::span(operands).first(loop.carries()));
  for (size_t i = carries; i < step.results.size(); ++i) {
    made.graph.output(made.outputs[step.results[i]], "y");
    types.push_back(stack_of(step.type_of(step.results[i]), length));
  }
  if (types.empty()) return {};
  operands.insert(operands.end(), xs.begin(), xs.end());
  Tensors results = recorded(Op::scan, operands, loop.captured(), {made.graph.take()},
                             {static_cast<int64_t>(loop.carries()),
                              static_cast<int64_t>(loop.constants()), ir::Dim(length), reverse},
                             types);
  if (step.draws != 0) results.erase(results.begin() + static_cast<ptrdiff_t>(loop.carries()) - 1);
  return without_written(std::move(results), carries, loop.captured());
}

Tensors record_bounded_while(Condition condition, Body body, const Tensors& carries,
                             int64_t max_steps) {
  const auto with_condition = [&](Tensors state) {
    const Tensor goes_on = as_predicate(condition(state), "while_loop");
    state.insert(state.begin(), goes_on);
    return state;
  };
  const auto step = [&](Tensors state) {
    const Tensor goes_on = state[0];
    state.erase(state.begin());
    const auto go_on = [&](const Tensors&) {
      Tensors own;
      for (const Tensor& t : state) own.push_back(clone(t));
      Tensors next = body(std::move(own));
      check_carries("while_loop", types_of(state), types_of(next));
      return with_condition(std::move(next));
    };
    const auto stay = [&](const Tensors&) {
      Tensors same = state;
      same.insert(same.begin(), goes_on);
      return same;
    };
    return run_cond(goes_on, go_on, stay);
  };
  const Tensors first = with_condition(carries);
  Tensors last = record_scan(step, first, first.size(), max_steps, false);
  last.erase(last.begin());
  return last;
}

}  // namespace tandem::control
