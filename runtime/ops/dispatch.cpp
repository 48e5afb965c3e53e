// The steps of one operation: who may take part, history, run or record.
#include "runtime/ops/dispatch.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "decomps/decompose.h"
#include "decomps/rules/rules.h"
#include "ir/base/error.h"
#include "ir/geometry.h"
#include "ir/strides.h"
#include "runtime/compile/graph_values.h"
#include "runtime/eager/compiled_ops.h"
#include "runtime/eager/kernels.h"
#include "runtime/levels/batched.h"
#include "runtime/levels/dual.h"
#include "runtime/ops/eager_sink.h"
#include "runtime/tape/anomaly.h"
#include "runtime/tape/autograd.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/tensor/undo.h"
#include "runtime/trace/trace.h"

namespace tandem::runtime {
namespace {

thread_local bool t_grad_enabled = true;
thread_local bool t_below_tape = false;
thread_local bool t_has_location = false;

/// Of which operation which result alone is asked for.
struct Only {
  ir::Op op;
  size_t result;
};
thread_local std::optional<Only> t_only;
thread_local std::source_location t_location;

Tensor run_view(ir::Op op, const Tensor& operand, std::span<const ir::AttrValue> attrs,
                const ir::Type& type) {
  const TensorImpl& from = *operand.impl();
  const ir::ViewGeometry g = placed_view(op, from.type(), from.strides, from.offset, attrs, type);
  const Tensor shown = view_tensor(operand, type.sizes, g.strides, g.offset);
  shown.impl()->dtype = type.dtype;
  return shown;
}

/// Low-precision arithmetic is f32 arithmetic, rounded once.
bool computes_wider(ir::Op op, DType dtype) {
  return decomps::computes_halves_in_f32(op) && ir::is_half(dtype);
}

/// A composite without a kernel of its own: its decomposition, which may use others.
TensorList run_decomposition(ir::Op op, std::span<const Tensor> operands,
                             std::span<const ir::AttrValue> attrs,
                             std::span<const ir::Type> types) {
  const decomps::Rule rule = decomps::rule_of(op);
  TANDEM_CHECK(rule != nullptr, "no kernel and no decomposition");
  EagerSink sink;
  ir::Builder builder(sink);
  std::vector<ir::ValueId> ids;
  for (const Tensor& t : operands) ids.push_back(sink.add(t));
  ir::Types wide;
  for (const ir::Type& type : types)
    wide.push_back({computes_wider(op, type.dtype) ? DType::F32 : type.dtype, type.sizes});
  for (ir::ValueId& v : ids)
    if (computes_wider(op, builder.dtype(v))) v = builder.convert(v, DType::F32);
  decomps::Context context{builder, op, ids, attrs, wide};
  const ir::ValueList values = rule(context);
  TensorList results;
  for (size_t i = 0; i < types.size(); ++i)
    results.push_back(sink.tensor(builder.convert(values[i], types[i].dtype)));
  return results;
}

/// `t` itself if it has these strides and memory of its own, else a copy. `others`: the operands
/// and earlier results.
Tensor laid_out(const Tensor& t, const Strides& strides,
                std::initializer_list<std::span<const Tensor>> others) {
  bool own = has_layout(*t.impl(), strides);
  for (const std::span<const Tensor> tensors : others)
    for (const Tensor& other : tensors) own = own && !share_storage(t, other);
  if (own) return t;
  const Tensor copy = empty_tensor(t.sizes(), strides, t.dtype());
  eager::copy_elements(t.impl()->view(), copy.impl()->view());
  return copy;
}

bool same_place(const Tensor& a, const Tensor& b) {
  return a.impl()->offset == b.impl()->offset && a.strides() == b.strides() &&
         a.sizes() == b.sizes() && a.dtype() == b.dtype();
}

/// The operands of a write, with those that overlap what is written (in another arrangement)
/// copied.
std::vector<Tensor> without_overlap(std::span<const Tensor> operands) {
  std::vector<Tensor> safe(operands.begin(), operands.end());
  for (Tensor& t : std::span(safe).subspan(1)) {
    if (!share_storage(t, operands[0]) || same_place(t, operands[0])) continue;
    const Tensor copy = empty_tensor(t.sizes(), t.dtype());
    eager::copy_elements(t.impl()->view(), copy.impl()->view());
    t = copy;
  }
  return safe;
}

bool runs_compiled(ir::Op op, std::span<const Tensor> operands, std::span<const ir::Type> results) {
  Dim elements = 0;
  for (const Tensor& t : operands) elements = std::max(elements, ir::numel(t.sizes()));
  for (const ir::Type& type : results) elements = std::max(elements, ir::numel(type.sizes));
  const ir::Type first = results.empty() ? operands[0].impl()->type() : results[0];
  return eager::runs_compiled(op, first.dtype, elements, ir::numel(first.sizes));
}

/// Operand 0 becomes the result of `op`.
void write_result(ir::Op op, std::span<const Tensor> given, std::span<const ir::AttrValue> attrs) {
  const std::vector<Tensor> operands = without_overlap(given);
  const TensorImpl& self = *operands[0].impl();
  if (runs_compiled(op, operands, {}) && eager::write_compiled(op, operands, attrs)) return;
  if (eager::has_kernel(op)) {
    const ir::BufferView view = self.view();
    return eager::run(op, operands, attrs, {&view, 1});
  }
  const ir::Type type = self.type();
  const Tensor value = run_decomposition(op, operands, attrs, {&type, 1})[0];
  eager::copy_elements(value.impl()->view(), self.view());
}

}  // namespace

Strides result_strides(ir::Op op, std::span<const Tensor> operands, const Shape& sizes) {
  ir::InlineVector<ir::Extent, 4> extents;
  for (const Tensor& t : operands) extents.push_back({t.sizes(), t.strides()});
  return ir::result_strides(op, {extents.data(), extents.size()}, sizes);
}

namespace {

TensorList run_kernel(ir::Op op, std::span<const Tensor> operands,
                      std::span<const ir::AttrValue> attrs, std::span<const ir::Type> types,
                      std::span<const Strides> strides) {
  if (eager::gives_zeros(op, attrs, types[0].dtype))
    return ir::listed<TensorList>(zero_tensor(types[0].sizes, types[0].dtype));
  TensorList results;
  ir::InlineVector<ir::BufferView, 1> outs;
  for (size_t i = 0; i < types.size(); ++i) {
    results.push_back(empty_tensor(types[i].sizes, strides[i], types[i].dtype));
    outs.push_back(results.back().impl()->view());
    if (t_only && t_only->op == op && t_only->result != i) outs.back().data = nullptr;
  }
  eager::run(op, operands, attrs, {outs.data(), outs.size()});
  return results;
}

}  // namespace

TensorList run_eager(ir::Op op, std::span<const Tensor> operands,
                     std::span<const ir::AttrValue> attrs, bool in_place,
                     std::span<const ir::Type> types) {
  const BelowTape below;
  if (in_place) {
    write_result(op, operands, attrs);
    operands[0].impl()->storage->bump_version();
    return TensorList{operands[0]};
  }
  if (ir::is_view(op)) return ir::listed<TensorList>(run_view(op, operands[0], attrs, types[0]));
  ir::InlineVector<Strides, 2> list;
  for (const ir::Type& type : types) list.push_back(result_strides(op, operands, type.sizes));
  const std::span<const Strides> strides(list.data(), list.size());
  if (runs_compiled(op, operands, types))
    if (auto made = eager::run_compiled(op, operands, attrs, strides)) return std::move(*made);
  if (eager::has_kernel(op)) return run_kernel(op, operands, attrs, types, strides);
  TensorList results = run_decomposition(op, operands, attrs, types);
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = laid_out(results[i], strides[i], {operands, std::span(results).first(i)});
  return results;
}

namespace {

/// The innermost level of vmap that has something to do; 0: none.
size_t batch_level(ir::Op op, std::span<const Tensor> operands) {
  return level_depth() == 0 ? 0 : batch_level_of(op, operands);
}

TensorList run_or_record(Trace* trace, ir::Op op, std::span<const Tensor> operands,
                         ir::AttrsRef attrs, bool in_place, std::span<const ir::Type> types) {
  if (const size_t depth = batch_level(op, operands))
    return dispatch_batched(depth, op, operands, attrs, in_place, types);
  if (trace != nullptr) return trace->record(op, operands, attrs, in_place, types);
  return run_eager(op, operands, attrs, in_place, types);
}

/// A write that the tape follows. The history comes first: a write cannot be undone.
TensorList run_with_history(const std::shared_ptr<Node>& node, ir::Op op,
                            std::span<const Tensor> operands, ir::AttrsRef attrs,
                            std::span<const ir::Type> types) {
  Undo undo;
  undo.note(operands[0]);
  finish_node(node, operands.first(1), true);
  TensorList results = run_or_record(nullptr, op, operands, attrs, true, types);
  undo.keep();
  renew_results(*node);
  return results;
}

/// Dispatch above the tape.
TensorList follow(ir::Op op, std::span<const Tensor> given, ir::AttrsRef attrs, bool in_place,
                  std::span<const ir::Type> types) {
  Trace* trace = Trace::current();
  ir::InlineVector<Tensor, 4> resolved;
  for (const Tensor& t : given) {
    if (trace != nullptr)
      resolved.push_back(trace->resolve(t));
    else
      require_operand(t, ir::name(op));
  }
  const std::span<const Tensor> operands = trace != nullptr ? std::span(resolved) : given;
  if (in_place) check_writable(operands, op);
  std::shared_ptr<Node> node;
  if (tape_wants(op, operands, types)) {
    t_only.reset();
    node = prepare_node(op, operands, attrs, in_place, types);
  }
  if (node && in_place && trace == nullptr)
    return run_with_history(node, op, operands, attrs, types);
  TensorList results = run_or_record(trace, op, operands, attrs, in_place, types);
  if (ir::is_view(op)) remember_view(operands[0], results[0], op, attrs);
  if (node) finish_node(node, results, in_place);
  return results;
}

}  // namespace

namespace {

TensorList follow_checked(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs,
                          bool in_place, std::span<const ir::Type> types) {
  if (!checks_results()) [[likely]]
    return follow(op, operands, attrs, in_place, types);
  t_only.reset();
  return run_checked(op, operands, [&] { return follow(op, operands, attrs, in_place, types); });
}

/// Inside a level of forward-mode differentiation or of vmap.
TensorList dispatch_in_level(ir::Op op, std::span<const Tensor> given, ir::AttrsRef attrs,
                             bool in_place, std::span<const ir::Type> types) {
  t_only.reset();
  ir::InlineVector<Tensor, 4> resolved;
  for (const Tensor& t : given) resolved.push_back(in_current_trace(t));
  const std::span<const Tensor> operands(resolved.data(), resolved.size());
  if (in_place) refuse_write_of_shared_result(operands[0]);
  const size_t depth = batch_level_of(op, operands);
  if (!any_moves(operands, depth)) return follow_checked(op, operands, attrs, in_place, types);
  return dispatch_moving(follow_checked, depth, op, operands, attrs, in_place, types);
}

}  // namespace

TensorList dispatch(ir::Op op, std::span<const Tensor> operands, ir::AttrsRef attrs, bool in_place,
                    std::span<const ir::Type> types) {
  if (BelowTape::active()) return run_eager(op, operands, attrs, in_place, types);
  if (level_depth() != 0) [[unlikely]]
    return dispatch_in_level(op, operands, attrs, in_place, types);
  return follow_checked(op, operands, attrs, in_place, types);
}

// --- the state of this thread

LocationScope::LocationScope(const std::source_location& location) : outermost_(!t_has_location) {
  if (!outermost_) return;
  t_has_location = true;
  t_location = location;
}
LocationScope::~LocationScope() {
  if (outermost_) t_has_location = false;
}
const std::source_location& current_location() { return t_location; }

OnlyResult::OnlyResult(ir::Op op, size_t result) { t_only = Only{op, result}; }
OnlyResult::~OnlyResult() { t_only.reset(); }

bool grad_enabled() { return t_grad_enabled; }
bool set_grad_enabled(bool enabled) { return std::exchange(t_grad_enabled, enabled); }

BelowTape::BelowTape() : previous_(std::exchange(t_below_tape, true)) {}
BelowTape::~BelowTape() { t_below_tape = previous_; }
bool BelowTape::active() { return t_below_tape; }

}  // namespace tandem::runtime
