// Marks and regions: they land on the equations of the trace that is being recorded.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <tandem/autograd/checkpoint.h>
#include <tandem/ops.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "ir/base/error.h"
#include "runtime/levels/batched.h"
#include "runtime/ops/dispatch.h"
#include "runtime/trace/trace.h"
#include "runtime/trace/trace_marks.h"

namespace tandem {

namespace {

thread_local CheckpointRegion* t_region = nullptr;

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// What the trace knows `t` as: of one example of vmap, all examples.
Tensor recorded(const Tensor& t) {
  Tensor all = t;
  while (all.defined() && runtime::is_batched(all)) all = all.impl()->batched->physical;
  return all;
}

bool is_traced_here(const Tensor& t) {
  runtime::Trace* trace = runtime::Trace::current();
  return trace && t.defined() && t.impl()->is_traced() && t.impl()->trace.lock().get() == trace;
}

// What `t` holds now may come from a write to it, which has no result of its own: so the mark lies
// on a view of it that no one reads, and functionalize finds the value.
Tensor marked(const Tensor& t, ir::Mark mark, const SourceLocation& at) {
  const Tensor all = recorded(t);
  if (!is_traced_here(all)) return t;
  ir::Graph& graph = runtime::Trace::current()->graph();
  const ir::EquationId shown = graph.producer(alias(all, at).impl()->value);
  graph.equation(shown).mark = mark;
  return t;
}

/// How many letters are to be put in or left out to make `b` of `a`.
size_t letters_between(std::string_view a, std::string_view b) {
  std::vector<size_t> to(b.size() + 1);  // from what was read of `a`, by the beginnings of `b`
  std::iota(to.begin(), to.end(), size_t{0});
  for (const char letter : a) {
    size_t diagonal = to[0]++;
    for (size_t j = 1; j < to.size(); ++j) {
      const size_t kept = letter == b[j - 1] ? diagonal : std::min(to[j - 1], to[j]) + 1;
      diagonal = std::exchange(to[j], kept);
    }
  }
  return to.back();
}

/// The three operators whose names are most like `name`.
std::vector<std::string_view> operators_like(std::string_view name) {
  std::vector<std::string_view> names;
  for (int op = 0; op < ir::kOpCount; ++op) names.push_back(ir::name(static_cast<ir::Op>(op)));
  std::ranges::stable_sort(names, {}, [&](std::string_view n) { return letters_between(n, name); });
  names.resize(3);
  return names;
}

void require_operators(const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (!ir::op_named(name))
      ir::fail(Errc::Argument,
               fmt::format("checkpoint: save_ops names no operator of graphs; expected one as {}, "
                           "got {}",
                           fmt::join(operators_like(name), ", "), name));
}

}  // namespace

struct RegionAccess {
  static void apply(ir::Equation& e) {
    if (!t_region) return;
    e.region = t_region->number_;
    if (some_policy_has(&CheckpointPolicy::save_ops, ir::name(e.op))) e.mark = ir::Mark::Save;
  }
  static bool saves(const std::string& name) {
    return some_policy_has(&CheckpointPolicy::save_names, name);
  }

 private:
  static bool some_policy_has(std::vector<std::string> CheckpointPolicy::* list,
                              std::string_view name) {
    for (const CheckpointRegion* r = t_region; r; r = r->enclosing_)
      if (contains(r->policy_.*list, name)) return true;
    return false;
  }
};

void runtime::mark_for_partition(ir::Equation& e) { RegionAccess::apply(e); }

CheckpointRegion::CheckpointRegion(CheckpointPolicy policy)
    : policy_(std::move(policy)), enclosing_(t_region) {
  require_operators(policy_.save_ops);
  // Backward computes what lies in a region once, from what goes into the outermost one: regions in
  // it are a part of it.
  if (enclosing_ && enclosing_->number_ != 0)
    number_ = enclosing_->number_;
  else if (runtime::Trace* trace = runtime::Trace::current())
    number_ = runtime::next_region(trace->graph());
  t_region = this;
}

CheckpointRegion::~CheckpointRegion() { t_region = enclosing_; }

Tensor save_for_backward(const Tensor& t, SourceLocation at) {
  return marked(t, ir::Mark::Save, at);
}
Tensor recompute_in_backward(const Tensor& t, SourceLocation at) {
  return marked(t, ir::Mark::Recompute, at);
}

Tensor name_value(const Tensor& t, const std::string& name, SourceLocation at) {
  const Tensor all = recorded(t);
  if (!is_traced_here(all)) return t;
  runtime::Trace::current()->graph().set_hint(all.impl()->value, name);
  return RegionAccess::saves(name) ? save_for_backward(t, at) : t;
}

}  // namespace tandem
