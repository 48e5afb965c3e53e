#include "runtime/control/body.h"

#include <fmt/format.h>
#include <tandem/autograd.h>
#include <tandem/ops.h>

#include <algorithm>

#include "functionalize/functionalize.h"
#include "ir/base/error.h"
#include "ir/build/effect.h"
#include "runtime/levels/levels.h"
#include "runtime/tape/autograd.h"
#include "runtime/trace/trace.h"

namespace tandem::control {

using runtime::Trace;
using runtime::TraceScope;
namespace {

[[noreturn]] void refuse(const std::string& name, const char* what) {
  ir::fail(Errc::Unsupported,
           fmt::format("{}: inside a trace the body of a branch or loop {}", name, what));
}

void check_trace(const Trace& trace, const std::string& name) {
  if (!trace.grad_slots().empty())
    refuse(name, "uses the .grad of a tensor from outside; expected grad() or value_and_grad()");
  if (!trace.memory_slots().empty())
    refuse(name, "reaches memory outside of a tensor that it captured; expected that tensor alone");
}

void check_traced(const ir::Graph& traced, const std::string& name) {
  if (!traced.epilogue.changes.empty() || !traced.epilogue.grads.empty())
    refuse(
        name,
        "changes a tensor itself (t_, set_, detach_, ...); expected writes of its elements alone");
  for (const ir::Equation& e : traced.equations())
    if (!e.in_place && ir::must_run(ir::effect_of(traced, e)))
      refuse(name, "calls an ordered operator; expected one that is not");
}

/// The output that a result is: each was copied, so that it is one of its own.
size_t output_of(const ir::ResultSource& source) {
  TANDEM_CHECK(source.kind == ir::ResultSource::Kind::Output && source.chain.empty(),
               "a body's result is an output of its own");
  return static_cast<size_t>(source.index);
}

void note_writes(TracedBody& body) {
  for (const ir::InputWrite& w : body.graph.epilogue.writes) {
    const auto input = static_cast<size_t>(w.input);
    if (input < body.ports) continue;  // it was handed that tensor as its own
    body.writes.push_back({input - body.ports, static_cast<size_t>(w.output), w.no_grad});
  }
}

ir::Dim draws_so_far(const Trace* enclosing) {
  return enclosing != nullptr ? enclosing->draws() : ir::Dim(0);
}

}  // namespace

std::vector<ir::Type> TracedBody::result_types() const {
  std::vector<ir::Type> types;
  for (const size_t output : results) types.push_back(type_of(output));
  return types;
}

Tensor port_of(Trace& trace, const ir::Type& type) {
  const Tensor port = trace.add_port(type, "port", ir::Role::Primal, -1);
  if (!grad_enabled() || !ir::is_differentiable(type)) return port;
  trace.graph().inputs().back().requires_grad = true;
  runtime::AutogradMeta& meta = runtime::autograd_meta(*port.impl());
  meta.requires_grad = meta.outside_history = true;
  return port;
}

TracedBody trace_body(const std::string& name, const std::vector<ir::Type>& ports, Body body) {
  Trace* const enclosing = Trace::current();
  const ir::Dim drawn = draws_so_far(enclosing);
  const auto trace = std::make_shared<Trace>(name);
  trace->note_body();
  trace->note_follows();
  {
    const runtime::LevelsAside of_one_example;
    const TraceScope recording(trace);
    Tensors inputs;
    for (const ir::Type& type : ports) inputs.push_back(port_of(*trace, type));
    for (const Tensor& t : body(std::move(inputs))) trace->add_output(clone(t));
  }
  TracedBody traced;
  traced.ports = ports.size();
  traced.draws = (enclosing != nullptr ? enclosing->draws() : trace->draws()) - drawn;
  check_trace(*trace, name);
  const std::vector<Tensor>& inputs = trace->real_inputs();
  traced.captured.assign(inputs.begin() + static_cast<ptrdiff_t>(ports.size()), inputs.end());
  const ir::Graph graph = trace->finish();
  check_traced(graph, name);
  traced.graph = functionalize::functionalize_body(graph);
  for (const ir::ResultSource& source : traced.graph.epilogue.results)
    traced.results.push_back(output_of(source));
  note_writes(traced);
  return traced;
}

std::vector<ir::Type> types_of(std::span<const Tensor> tensors) {
  std::vector<ir::Type> types;
  for (const Tensor& t : tensors) types.push_back(t.impl()->type());
  return types;
}

}  // namespace tandem::control
