// Marks and regions: they land on the equations of the trace that is being recorded.
#include <tandem/checkpoint.h>

#include <algorithm>

#include "runtime/dispatch.h"
#include "runtime/trace.h"
#include "runtime/trace_marks.h"

namespace tandem {

namespace {

thread_local CheckpointRegion* t_region = nullptr;

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// The equation of the current trace that computes `t`, or null.
ir::Equation* equation_of(const Tensor& t) {
  runtime::Trace* trace = runtime::Trace::current();
  if (!trace || !t.defined() || !t.impl()->is_traced()) return nullptr;
  const auto own = t.impl()->trace.lock();
  if (own.get() != trace) return nullptr;
  const ir::EquationId e = trace->graph().producer(t.impl()->value);
  return e.valid() ? &trace->graph().equation(e) : nullptr;
}

Tensor marked(const Tensor& t, ir::Mark mark) {
  if (ir::Equation* e = equation_of(t)) e->mark = mark;
  return t;
}

}  // namespace

struct RegionAccess {
  static void apply(ir::Equation& e) {
    if (!t_region) return;
    e.region = t_region->number_;
    if (contains(t_region->policy_.save_ops, ir::name(e.op)) && e.result_count > 0)
      e.mark = ir::Mark::Save;
  }
  static bool saves(const std::string& name) {
    return t_region && contains(t_region->policy_.save_names, name);
  }
};

void runtime::mark_for_partition(ir::Equation& e) { RegionAccess::apply(e); }

CheckpointRegion::CheckpointRegion(CheckpointPolicy policy)
    : policy_(std::move(policy)), enclosing_(t_region) {
  if (runtime::Trace* trace = runtime::Trace::current())
    number_ = runtime::next_region(trace->graph());
  t_region = this;
}

CheckpointRegion::~CheckpointRegion() { t_region = enclosing_; }

Tensor save_for_backward(const Tensor& t) { return marked(t, ir::Mark::Save); }
Tensor recompute_in_backward(const Tensor& t) { return marked(t, ir::Mark::Recompute); }

Tensor name_value(const Tensor& t, const std::string& name) {
  if (!equation_of(t)) return t;
  runtime::Trace::current()->graph().set_hint(t.impl()->value, name);
  return RegionAccess::saves(name) ? save_for_backward(t) : t;
}

}  // namespace tandem
