// Which function converts its operands to what, and the parameters that are converted already.
#include "runtime/ops/autocast.h"

#include <fmt/format.h>
#include <tandem/ops.h>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "ir/base/error.h"
#include "ir/base/error_scope.h"
#include "machine/threads/of_thread.h"
#include "runtime/ops/dispatch.h"
#include "runtime/tape/autograd.h"
#include "runtime/tensor/tensor_impl.h"
#include "runtime/trace/trace.h"

namespace tandem {
namespace runtime {
namespace {

struct Row {
  std::string_view function;
  CastPolicy policy;
};

// PyTorch's lists for CPUs; of functions that ATen makes of listed ones (einsum of bmm), as those.
// By name. (cat and stack take the widest dtype by themselves.)
constexpr Row kRows[] = {
    {"adaptive_avg_pool3d", CastPolicy::Full},
    {"adaptive_max_pool3d", CastPolicy::Full},
    {"adaptive_max_pool3d_with_indices", CastPolicy::Full},
    {"addbmm", CastPolicy::Lower},
    {"addmm", CastPolicy::Lower},
    {"avg_pool3d", CastPolicy::Full},
    {"baddbmm", CastPolicy::Lower},
    {"binary_cross_entropy", CastPolicy::Full},
    {"binary_cross_entropy_with_logits", CastPolicy::Full},
    {"bmm", CastPolicy::Lower},
    {"cdist", CastPolicy::Full},
    {"chain_matmul", CastPolicy::Lower},
    {"cholesky", CastPolicy::Full},
    {"cholesky_ex", CastPolicy::Full},
    {"cholesky_inverse", CastPolicy::Full},
    {"cholesky_solve", CastPolicy::Full},
    {"cond", CastPolicy::Full},
    {"conv1d", CastPolicy::Lower},
    {"conv2d", CastPolicy::Lower},
    {"conv3d", CastPolicy::Lower},
    {"conv_transpose1d", CastPolicy::Lower},
    {"conv_transpose2d", CastPolicy::Lower},
    {"conv_transpose3d", CastPolicy::Lower},
    {"cosine_embedding_loss", CastPolicy::Full},
    {"cross_entropy", CastPolicy::Full},
    {"ctc_loss", CastPolicy::Full},
    {"eigh", CastPolicy::Full},
    {"eigvalsh", CastPolicy::Full},
    {"einsum", CastPolicy::Lower},
    {"geqrf", CastPolicy::Full},
    {"grid_sample", CastPolicy::Full},
    {"hinge_embedding_loss", CastPolicy::Full},
    {"householder_product", CastPolicy::Full},
    {"huber_loss", CastPolicy::Full},
    {"index_copy", CastPolicy::Widest},
    {"inner", CastPolicy::Lower},
    {"inv", CastPolicy::Full},
    {"inv_ex", CastPolicy::Full},
    {"inverse", CastPolicy::Full},
    {"kl_div", CastPolicy::Full},
    {"l1_loss", CastPolicy::Full},
    {"linear", CastPolicy::Lower},
    {"lstsq", CastPolicy::Full},
    {"lu_solve", CastPolicy::Full},
    {"margin_ranking_loss", CastPolicy::Full},
    {"matmul", CastPolicy::Lower},
    {"matrix_rank", CastPolicy::Full},
    {"max_pool3d", CastPolicy::Full},
    {"max_pool3d_with_indices", CastPolicy::Full},
    {"max_unpool2d", CastPolicy::Full},
    {"max_unpool3d", CastPolicy::Full},
    {"mm", CastPolicy::Lower},
    {"mse_loss", CastPolicy::Full},
    {"multi_dot", CastPolicy::Lower},
    {"multi_margin_loss", CastPolicy::Full},
    {"multilabel_margin_loss", CastPolicy::Full},
    {"nanquantile", CastPolicy::Full},
    {"nll_loss", CastPolicy::Full},
    {"ormqr", CastPolicy::Full},
    {"pinverse", CastPolicy::Full},
    {"poisson_nll_loss", CastPolicy::Full},
    {"prelu", CastPolicy::Lower},
    {"prod", CastPolicy::Full},
    {"qr", CastPolicy::Full},
    {"quantile", CastPolicy::Full},
    {"reflection_pad", CastPolicy::Full},
    {"replication_pad", CastPolicy::Full},
    {"scaled_dot_product_attention", CastPolicy::Lower},
    {"smooth_l1_loss", CastPolicy::Full},
    {"soft_margin_loss", CastPolicy::Full},
    {"solve", CastPolicy::Full},
    {"svd", CastPolicy::Full},
    {"svdvals", CastPolicy::Full},
    {"tensordot", CastPolicy::Lower},
    {"tensorinv", CastPolicy::Full},
    {"tensorsolve", CastPolicy::Full},
    {"trace", CastPolicy::Full},
    {"triangular_solve", CastPolicy::Full},
    {"triplet_margin_loss", CastPolicy::Full},
    {"vecdot", CastPolicy::Lower},
};
static_assert(std::ranges::is_sorted(kRows, {}, &Row::function));

CastPolicy policy_of(std::string_view function) {
  const Row* row = std::ranges::lower_bound(kRows, function, {}, &Row::function);
  const bool found = row != std::end(kRows) && row->function == function;
  return found ? row->policy : CastPolicy::None;
}

/// Whether what the user called writes a given tensor: it takes operands as they are.
bool writes() {
  const std::string called = ir::ErrorScope::function();
  return called.ends_with('_') || called.ends_with("_out");
}

/// A parameter as it was converted.
struct Converted {
  std::weak_ptr<TensorImpl> source;
  uint64_t version;
  Tensor tensor;
};

constinit thread_local AutocastState t_state;
thread_local int t_nesting = 0;

using ConvertedTensors = std::unordered_map<const TensorImpl*, Converted>;
ConvertedTensors& converted_tensors() { return machine::of_thread<ConvertedTensors>(); }

/// Parameters are used again and again; other tensors would only be held.
bool is_kept(const Tensor& t, DType dtype) {
  return t_state.options.cache && dtype == t_state.dtype && t.dtype() == f32 && grad_enabled() &&
         t.requires_grad() && t.is_leaf() && view_of(t) == nullptr;
}

/// (Inside a trace of the stand-in, which no other trace has.)
Tensor converted_once(const Tensor& t, DType dtype) {
  Trace* trace = Trace::current();
  const Tensor source = trace != nullptr ? trace->resolve(t) : t;
  const std::shared_ptr<TensorImpl>& impl = source.impl();
  const uint64_t version = impl->storage->version();
  Converted& known = converted_tensors()[impl.get()];
  if (known.source.lock() != impl || known.version != version || known.tensor.dtype() != dtype)
    known = {impl, version, to(source, dtype)};
  return known.tensor;
}

bool is_eligible(const Tensor& t) {
  return t.defined() && ir::is_floating(t.dtype()) && t.dtype() != f64;
}

Tensor converted(const Tensor& t, DType dtype) {
  if (!is_eligible(t) || t.dtype() == dtype) return t;
  return is_kept(t, dtype) ? converted_once(t, dtype) : to(t, dtype);
}

}  // namespace

bool AutocastState::operator==(const AutocastState& other) const {
  if (options.enabled != other.options.enabled) return false;
  return !options.enabled || (dtype == other.dtype && options.cache == other.options.cache);
}

const AutocastState& autocast_state() { return t_state; }

std::string to_string(const AutocastState& state) {
  if (!state.options.enabled) return "off";
  return std::string(ir::name(state.dtype)) + (state.options.cache ? "" : " without a cache");
}

OperandCasts::OperandCasts(std::string_view function) {
  if (!t_state.options.enabled) return;
  const CastPolicy policy = policy_of(function);
  if (policy == CastPolicy::None || writes()) return;
  policy_ = policy;
  t_state.options.enabled = false;
}

OperandCasts::~OperandCasts() {
  if (active()) t_state.options.enabled = true;
}

Tensor OperandCasts::operator()(const Tensor& t) const {
  if (policy_ == CastPolicy::Lower) return converted(t, t_state.dtype);
  return policy_ == CastPolicy::Full ? converted(t, f32) : t;
}

void OperandCasts::note_together(std::initializer_list<const Tensor*> operands) {
  const auto is_f32 = [](const Tensor* t) { return t->defined() && t->dtype() == f32; };
  if (policy_ == CastPolicy::Widest && std::ranges::any_of(operands, is_f32))
    policy_ = CastPolicy::Full;
}

}  // namespace runtime

using runtime::t_nesting;
using runtime::t_state;

Autocast::Autocast(DType dtype, const AutocastOptions& options)
    : previous_dtype_(t_state.dtype), previous_(t_state.options) {
  if (options.enabled && dtype != bf16 && dtype != f16)
    ir::fail(Errc::DType, fmt::format("Autocast: expected bf16 or f16, got {}", ir::name(dtype)));
  t_state = {dtype, options};
  ++t_nesting;
}

Autocast::~Autocast() {
  t_state = {previous_dtype_, previous_};
  if (--t_nesting == 0) runtime::converted_tensors().clear();
}

bool autocast_enabled() { return t_state.options.enabled; }
DType autocast_dtype() { return t_state.dtype; }

}  // namespace tandem
