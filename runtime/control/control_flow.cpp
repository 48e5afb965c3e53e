// Branches and loops outside of traces: they run.
#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/control_flow.h>
#include <tandem/ops.h>

#include <algorithm>

#include "ir/base/error.h"
#include "runtime/control/body.h"
#include "runtime/control/record.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/trace/dispatch_graph.h"
#include "runtime/trace/trace.h"

namespace tandem::control {

using runtime::dispatch;
using runtime::TensorList;
using runtime::Trace;
namespace {

/// `t` if nobody else sees it, else a copy: what bodies are handed and give is their own.
Tensor own(Tensor t) {
  if (!t.defined()) ir::fail(Errc::Argument, "control flow: a body gives an undefined tensor");
  const bool alone = t.impl().use_count() == 1 && t.impl()->storage.use_count() == 1;
  if (!t.is_contiguous()) return t.contiguous();
  if (alone) return t;
  return clone(t);
}

Tensors own_all(Tensors tensors) {
  for (Tensor& t : tensors) t = own(std::move(t));
  return tensors;
}

bool is_true(const Tensor& pred, const char* who) { return as_predicate(pred, who).item<bool>(); }

int64_t common_length(std::span<const Tensor> xs, const ScanOptions& options) {
  std::optional<int64_t> length = options.length;
  for (const Tensor& x : xs) {
    if (x.dim() == 0)
      ir::fail(Errc::Shape, "scan: xs have no dimension to go along; expected at least one");
    const int64_t own = x.sizes()[0];
    if (length && *length != own)
      ir::fail(Errc::Shape,
               fmt::format("scan: xs of different lengths; expected {}, got {}", *length, own));
    length = own;
  }
  if (!length || *length < 0)
    ir::fail(Errc::Argument, "scan: expected xs, or a length that is not negative");
  return *length;
}

/// What `body` would give by steps of which there is none.
Tensors no_slices(Body body, std::span<const Tensor> tensors, size_t carries) {
  std::vector<ir::Type> ports = types_of(tensors);
  for (ir::Type& type : std::span(ports).subspan(carries)) type = slice_of(type);
  const std::vector<ir::Type> types = trace_body("scan", ports, body).result_types();
  check_carries("scan", types_of(tensors.first(carries)), types);
  Tensors none;
  for (const ir::Type& type : std::span(types).subspan(carries))
    none.push_back(runtime::empty_tensor(stack_of(type, 0).sizes, type.dtype));
  return none;
}

class EagerScan {
 public:
  EagerScan(Body body, Tensors tensors, size_t carries, int64_t length, bool reverse)
      : body_(body), length_(length), reverse_(reverse) {
    const auto middle = tensors.begin() + static_cast<ptrdiff_t>(carries);
    xs_.assign(middle, tensors.end());
    tensors.erase(middle, tensors.end());
    carries_ = own_all(std::move(tensors));
    types_ = types_of(carries_);
  }

  Tensors run() {
    for (int64_t i = 0; i < length_; ++i) step(reverse_ ? length_ - 1 - i : i);
    Tensors results = std::move(carries_);
    for (Tensors& slices : ys_) results.push_back(stack(slices, 0));
    return results;
  }

 private:
  void step(int64_t at) {
    Tensors inputs = std::move(carries_);
    for (const Tensor& x : xs_) inputs.push_back(own(select(x, 0, at)));
    Tensors outputs = body_(std::move(inputs));
    check_carries("scan", types_, types_of(outputs));
    ys_.resize(outputs.size() - types_.size(), Tensors(static_cast<size_t>(length_)));
    for (size_t i = 0; i < ys_.size(); ++i)
      ys_[i][static_cast<size_t>(at)] = own(std::move(outputs[types_.size() + i]));
    outputs.resize(types_.size());
    carries_ = own_all(std::move(outputs));
  }

  const Body body_;
  const int64_t length_;
  const bool reverse_;
  Tensors xs_, carries_;
  std::vector<ir::Type> types_;
  std::vector<Tensors> ys_;
};

}  // namespace

void fail_structure(const char* who) {
  ir::fail(
      Errc::Argument,
      fmt::format("{}: bodies give structures that differ (in sizes of lists, numbers, strings, "
                  "or which tensors are there); expected the same of each",
                  who));
}

Tensors run_cond(const Tensor& pred, Body then, Body otherwise) {
  if (Trace::current() != nullptr) return record_cond(pred, then, otherwise);
  return own_all(is_true(pred, "cond") ? then({}) : otherwise({}));
}

Tensors run_while(Condition condition, Body body, Tensors carries) {
  if (Trace::current() != nullptr) return record_while(condition, body, carries);
  const std::vector<ir::Type> types = types_of(carries);
  Tensors state = own_all(std::move(carries));
  while (is_true(condition(state), "while_loop")) {
    state = own_all(body(std::move(state)));
    check_carries("while_loop", types, types_of(state));
  }
  return state;
}

Tensors run_scan(Body body, Tensors tensors, size_t carries, const ScanOptions& options) {
  const std::span<const Tensor> all(tensors);
  const int64_t length = common_length(all.subspan(carries), options);
  if (Trace::current() != nullptr)
    return record_scan(body, tensors, carries, length, options.reverse);
  if (length > 0)
    return EagerScan(body, std::move(tensors), carries, length, options.reverse).run();
  Tensors ys = no_slices(body, all, carries);
  tensors.resize(carries);
  Tensors results = own_all(std::move(tensors));
  results.insert(results.end(), ys.begin(), ys.end());
  return results;
}

Tensor is_before(const Tensor& index, int64_t branch) { return index < branch; }

Tensor step_number(int64_t first) { return full({}, first, DType::I64); }

// --- equations of graphs

namespace {

/// That of a custom function is recorded without grad mode; a gradient of it is asked of its
/// equations all the same, which refuse it.
bool is_backward_half(const ir::Graph& graph) {
  return std::ranges::find(graph.inputs(), ir::Role::Tangent, &ir::Input::role) !=
         graph.inputs().end();
}

class ControlEquation {
 public:
  ControlEquation(const ir::Graph& graph, ir::EquationId e, const Tensors& operands)
      : g_(graph), e_(e), operands_(operands) {}

  Tensors record() const {
    std::vector<ir::AttrValue> attrs(g_.attrs(e_).begin(), g_.attrs(e_).end());
    for (ir::AttrValue& attr : attrs)
      if (auto* id = std::get_if<ir::SubgraphId>(&attr))
        *id = Trace::current()->graph().add_subgraph(g_.subgraph(*id));
    std::vector<ir::Type> types;
    for (const ir::ValueId v : g_.results(e_)) types.push_back(g_.type(v));
    const GradMode mode(grad_enabled() || is_backward_half(Trace::current()->graph()));
    const TensorList results = dispatch(g_.op(e_), operands_, attrs, false, types);
    return {results.begin(), results.end()};
  }

  Tensors run() const {
    if (g_.op(e_) == ir::Op::cond) return cond();
    return g_.op(e_) == ir::Op::scan ? scan() : while_loop();
  }

 private:
  Tensors call(ir::Attr body, std::span<const Tensor> inputs) const {
    return runtime::dispatch_graph(g_.subgraph(g_.attr<ir::SubgraphId>(e_, body)), inputs);
  }
  size_t count(ir::Attr attr) const { return static_cast<size_t>(g_.attr<int64_t>(e_, attr)); }
  Tensors part(size_t begin, size_t end) const {
    return {operands_.begin() + static_cast<ptrdiff_t>(begin),
            operands_.begin() + static_cast<ptrdiff_t>(end)};
  }

  Tensors cond() const {
    const auto operands = std::span(operands_).subspan(1);
    return run_cond(
        operands_[0], [&](const Tensors&) { return call(ir::Attr::then, operands); },
        [&](const Tensors&) { return call(ir::Attr::otherwise, operands); });
  }

  Tensors while_loop() const {
    const size_t carries = count(ir::Attr::carries);
    const auto with_constants = [&](Tensors t) {
      t.insert(t.end(), operands_.begin() + static_cast<ptrdiff_t>(carries), operands_.end());
      return t;
    };
    return run_while(
        [&](const Tensors& t) { return call(ir::Attr::condition, with_constants(t))[0]; },
        [&](Tensors t) { return call(ir::Attr::body, with_constants(std::move(t))); },
        part(0, carries));
  }

  Tensors scan() const {
    const size_t carries = count(ir::Attr::carries), whole = carries + count(ir::Attr::constants);
    const Tensors constants = part(carries, whole);
    Tensors tensors = part(0, carries);
    tensors.insert(tensors.end(), operands_.begin() + static_cast<ptrdiff_t>(whole),
                   operands_.end());
    return run_scan(
        [&](Tensors t) {
          t.insert(t.begin() + static_cast<ptrdiff_t>(carries), constants.begin(), constants.end());
          return call(ir::Attr::body, t);
        },
        std::move(tensors), carries,
        {.length = int64_t{g_.attr<ir::Dim>(e_, ir::Attr::length)},
         .reverse = g_.attr<bool>(e_, ir::Attr::reverse)});
  }

  const ir::Graph& g_;
  const ir::EquationId e_;
  const Tensors& operands_;
};

}  // namespace

Tensors dispatch_control(const ir::Graph& graph, ir::EquationId e, const Tensors& operands) {
  const ControlEquation equation(graph, e, operands);
  return Trace::current() != nullptr ? equation.record() : equation.run();
}

}  // namespace tandem::control
