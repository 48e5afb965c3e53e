// What users see of dual numbers.
#include <fmt/format.h>
#include <tandem/autograd/forward.h>
#include <tandem/ops.h>
#include <tandem/ops/shapes.h>

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "runtime/levels/batched.h"
#include "runtime/levels/dual.h"
#include "runtime/ops/call.h"
#include "runtime/tape/autograd.h"

namespace tandem {
namespace {

void check_in_level() {
  const size_t depth = runtime::level_depth();
  if (depth == 0 || runtime::level_at(depth).batch)
    ir::fail(Errc::Autograd, "no level of forward-mode differentiation; expected a DualLevel");
}

bool is_floating(const Tensor& t) { return ir::is_differentiable(t.dtype()); }

void check_fits(const Tensor& primal, const Tensor& tangent) {
  const ir::Type expected = primal.impl()->type(), got = tangent.impl()->type();
  if (!(got == expected))
    ir::fail(got.dtype == expected.dtype ? Errc::Shape : Errc::DType,
             fmt::format("the tangent does not fit its primal; expected {}, got {}",
                         ir::to_string(expected), ir::to_string(got)));
}

/// A copy of `tangent`, in the layout of `primal`: writes of the dual write it.
Tensor own_tangent(const Tensor& primal, const Tensor& tangent, const SourceLocation& at) {
  const Tensor laid_out = runtime::laid_out_like(runtime::batched_as(tangent, primal), primal, at);
  return laid_out.impl() == tangent.impl() ? runtime::clone_tensor(tangent) : laid_out;
}

}  // namespace

DualLevel::DualLevel() { runtime::enter_level(); }
DualLevel::~DualLevel() { runtime::leave_level(); }

Tensor make_dual(const Tensor& of_primal, const Tensor& of_tangent, SourceLocation at) {
  const runtime::LocationScope scope(at);
  const ir::ErrorScope errors(at, "make_dual");
  check_in_level();
  if (!of_primal.defined() || !of_tangent.defined())
    ir::fail(Errc::Argument, "undefined tensor; expected a primal and a tangent, got none");
  const Tensor primal = runtime::in_current_trace(of_primal),
               tangent = runtime::in_current_trace(of_tangent);
  check_fits(primal, tangent);
  if (!is_floating(primal))
    ir::fail(Errc::DType, fmt::format("expected a floating dtype, got {}",
                                      ir::to_string(primal.impl()->type())));
  const size_t depth = runtime::level_depth();
  if (runtime::tangent_at(primal, depth).defined())
    ir::fail(Errc::Autograd,
             "the primal carries a tangent at this level; expected one without, or a DualLevel "
             "inside this one");
  const runtime::LevelDepth around(depth - 1);
  const Tensor dual = primal.alias(at);
  runtime::set_tangent(dual, depth, own_tangent(primal, tangent, at));
  return dual;
}

Dual unpack_dual(const Tensor& t, SourceLocation at) {
  const runtime::LocationScope scope(at);
  const ir::ErrorScope errors(at, "unpack_dual");
  check_in_level();
  if (!t.defined()) ir::fail(Errc::Argument, "undefined tensor; expected a tensor, got none");
  const size_t depth = runtime::level_depth();
  const Tensor tangent = runtime::tangent_at(runtime::in_current_trace(t), depth);
  if (!tangent.defined()) return {t, {}};
  const runtime::LevelDepth around(depth - 1);
  const Tensor primal = t.alias(at);
  runtime::set_tangent(primal, depth, Tensor());
  return {primal, tangent};
}

namespace runtime {

Tensor tangent_or_zeros(const Tensor& t, const SourceLocation& at) {
  if (!t.defined() || !is_floating(t)) return {};
  const LocationScope scope(at);
  const size_t depth = level_depth();
  const Tensor tangent = tangent_at(in_current_trace(t), depth);
  if (tangent.defined()) return tangent;
  const LevelDepth around(depth - 1);
  return full_tensor(t.sizes(), t.dtype(), Number(0.0));
}

Tensor moved_along(const Tensor& primal, const Tensor& tangent, const SourceLocation& at) {
  const bool moves = primal.defined() && tangent.defined() && is_floating(primal);
  return moves ? make_dual(primal, tangent, at) : primal;
}

namespace {

/// `to`, new and of the elements of `from`, moves as that does, and so do all of its examples.
void move_alike(const Tensor& to, const Tensor& from) {
  for (size_t depth = 1; depth <= level_depth(); ++depth)
    if (!level_at(depth).batch) tangent_at(from, depth);  // of what it is a view of: noted now
  to.impl()->tangents = from.impl()->tangents;
  if (!is_batched(from)) return;
  const LevelDepth around(batch_depth({&from, 1}) - 1);
  move_alike(to.impl()->batched->physical, from.impl()->batched->physical);
}

}  // namespace

Tensor moving_detached(const Tensor& t, const SourceLocation& at) {
  const Tensor seen = in_current_trace(t), detached = seen.detach(at);
  move_alike(detached, seen);
  return detached;
}

void fail_tangent_count(size_t primals, size_t tangents) {
  ir::fail(Errc::Argument,
           fmt::format("jvp: expected a tangent for each tensor of the primals, {}, got {}",
                       primals, tangents));
}

}  // namespace runtime
}  // namespace tandem
