// The forms that write their result into a given tensor.
#include "runtime/ops/out.h"

#include <tandem/ops/out_forms.h>
#include <tandem/ops/shapes.h>
#include <tandem/ops/special.h>

namespace tandem {

void runtime::check_out(std::string_view op, const Tensor& out, const Tensor& value) {
  if (grad_enabled() && (value.requires_grad() || out.requires_grad()))
    ir::fail(Errc::Autograd, fmt::format("{}: no gradient flows into out; expected tensors that do "
                                         "not require grad, or NoGrad",
                                         op));
  if (ir::category(value.dtype()) > ir::category(out.dtype()))
    ir::fail(Errc::DType, fmt::format("{}: the result does not fit the dtype of out; expected one "
                                      "that {} converts to, got {}",
                                      op, ir::name(value.dtype()), ir::name(out.dtype())));
  if (out.numel() != 0 && out.sizes() != value.sizes())
    ir::fail(Errc::Shape,
             fmt::format("{}: the result does not fit the sizes of out; expected {} (or no "
                         "elements), got {}",
                         op, to_string(value.sizes()), to_string(out.sizes())));
}

void runtime::check_each(std::string_view op, const std::vector<const Tensor*>& out) {
  for (const Tensor* t : out)
    if (!t->defined())
      ir::fail(
          Errc::Argument,
          fmt::format("{}: undefined tensor; expected a tensor for each result, got none", op));
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t j = i + 1; j < out.size(); ++j) check_apart(*out[i], *out[j], Sharing::Nothing);
}

namespace {

using runtime::apart;
using runtime::Read;
using runtime::whole;
using runtime::write_out;

/// As whole, but of what is converted first: nothing.
Read whole_unless_converted(const Located& operand, const Tensor& out) {
  const bool is_read = operand.tensor != nullptr && operand.tensor->defined() && out.defined() &&
                       operand.tensor->dtype() == out.dtype();
  return {is_read ? operand.tensor : nullptr, runtime::Sharing::AllOrNothing};
}
/// As whole, but of what is expanded first: nothing.
Read whole_unless_expanded(const Tensor& t, const Tensor& out) {
  const bool is_read = t.defined() && out.defined() && t.sizes() == out.sizes();
  return {is_read ? &t : nullptr, runtime::Sharing::AllOrNothing};
}
std::vector<Read> all_apart(std::span<const Tensor> tensors) {
  std::vector<Read> reads;
  for (const Tensor& t : tensors) reads.push_back(apart(t));
  return reads;
}

const SourceLocation& place_of(const Located& a, const Located& b) {
  return a.tensor != nullptr ? a.location : b.location;
}

}  // namespace

#define X(op)                                                                           \
  const Tensor& op##_out(const Tensor& out, const Tensor& self, SourceLocation at) {    \
    return write_out(#op "_out", out, at, {whole(self)}, [&] { return op(self, at); }); \
  }
TANDEM_UNARY_IN_PLACE_OPS(X)
TANDEM_UNARY_OPS(X)
TANDEM_MADE_UNARY_IN_PLACE(X)
TANDEM_MADE_UNARY(X)
#define TANDEM_ALIAS(name, op) X(name)
TANDEM_UNARY_ALIASES(TANDEM_ALIAS)
namespace special {
TANDEM_SPECIAL_UNARY_OPS(X)
TANDEM_SPECIAL_ALIASES(TANDEM_ALIAS)
X(ndtr)
}  // namespace special
#undef X
#define X(op)                                                                             \
  const Tensor& op##_out(const Tensor& out, const Located& self, const Located& other) {  \
    return write_out(#op "_out", out, place_of(self, other), {whole(self), whole(other)}, \
                     [&] { return op(self, other); });                                    \
  }
TANDEM_BINARY_IN_PLACE_OPS(X)
TANDEM_BINARY_OPS(X)
TANDEM_MADE_BINARY_IN_PLACE(X)
TANDEM_MADE_BINARY(X)
TANDEM_BINARY_ALIASES(TANDEM_ALIAS)
namespace special {
TANDEM_SPECIAL_BINARY_OPS(X)
TANDEM_SPECIAL_BINARY_ALIASES(TANDEM_ALIAS)
}  // namespace special
#undef TANDEM_ALIAS
#undef X
#define X(op)                                                                                      \
  const Tensor& op##_out(const Tensor& out, const Tensor& self, const DimList& dims, bool keepdim, \
                         SourceLocation at) {                                                      \
    return write_out(#op "_out", out, at, {}, [&] { return op(self, dims, keepdim, at); });        \
  }
TANDEM_OUT_REDUCTIONS(X)
#undef X

const Tensor& where_out(const Tensor& out, const Tensor& condition, const Located& self,
                        const Located& other) {
  return write_out(
      "where_out", out, place_of(self, other),
      {whole(condition), whole_unless_converted(self, out), whole_unless_converted(other, out)},
      [&] { return where(condition, self, other); });
}
const Tensor& clamp_out(const Tensor& out, const Tensor& self, std::optional<Number> min,
                        std::optional<Number> max, SourceLocation at) {
  return write_out("clamp_out", out, at, {whole(self)}, [&] { return clamp(self, min, max, at); });
}
const Tensor& clamp_out(const Tensor& out, const Tensor& self, const Tensor& min, const Tensor& max,
                        SourceLocation at) {
  return write_out("clamp_out", out, at, {whole(self), whole(min), whole(max)},
                   [&] { return clamp(self, min, max, at); });
}
const Tensor& clip_out(const Tensor& out, const Tensor& self, std::optional<Number> min,
                       std::optional<Number> max, SourceLocation at) {
  return write_out("clip_out", out, at, {whole(self)}, [&] { return clamp(self, min, max, at); });
}
const Tensor& clip_out(const Tensor& out, const Tensor& self, const Tensor& min, const Tensor& max,
                       SourceLocation at) {
  return write_out("clip_out", out, at, {whole(self), whole(min), whole(max)},
                   [&] { return clamp(self, min, max, at); });
}
const Tensor& add_out(const Tensor& out, const Located& self, const Located& other,
                      const Number& alpha) {
  return write_out("add_out", out, place_of(self, other), {whole(self), whole(other)},
                   [&] { return add(self, other, alpha); });
}
const Tensor& sub_out(const Tensor& out, const Located& self, const Located& other,
                      const Number& alpha) {
  return write_out("sub_out", out, place_of(self, other), {whole(self), whole(other)},
                   [&] { return sub(self, other, alpha); });
}
const Tensor& rsub_out(const Tensor& out, const Located& self, const Located& other,
                       const Number& alpha) {
  return write_out("rsub_out", out, place_of(self, other), {whole(self), whole(other)},
                   [&] { return rsub(self, other, alpha); });
}
const Tensor& div_out(const Tensor& out, const Located& self, const Located& other,
                      std::string_view rounding_mode) {
  return write_out("div_out", out, place_of(self, other), {whole(self), whole(other)},
                   [&] { return div(self, other, rounding_mode); });
}
const Tensor& round_out(const Tensor& out, const Tensor& self, int64_t decimals,
                        SourceLocation at) {
  return write_out("round_out", out, at, {whole(self)}, [&] { return round(self, decimals, at); });
}
const Tensor& logit_out(const Tensor& out, const Tensor& self, double eps, SourceLocation at) {
  return write_out("logit_out", out, at, {whole(self)}, [&] { return logit(self, eps, at); });
}
const Tensor& polygamma_out(const Tensor& out, int64_t n, const Tensor& self, SourceLocation at) {
  return write_out("polygamma_out", out, at, {whole(self)}, [&] { return polygamma(n, self, at); });
}
const Tensor& mvlgamma_out(const Tensor& out, const Tensor& self, int64_t p, SourceLocation at) {
  return write_out("mvlgamma_out", out, at, {whole(self)}, [&] { return mvlgamma(self, p, at); });
}
const Tensor& hardshrink_out(const Tensor& out, const Tensor& self, double lambd,
                             SourceLocation at) {
  return write_out("hardshrink_out", out, at, {whole(self)},
                   [&] { return hardshrink(self, lambd, at); });
}
const Tensor& softshrink_out(const Tensor& out, const Tensor& self, double lambd,
                             SourceLocation at) {
  return write_out("softshrink_out", out, at, {whole(self)},
                   [&] { return softshrink(self, lambd, at); });
}
const Tensor& threshold_out(const Tensor& out, const Tensor& self, const Number& threshold,
                            const Number& value, SourceLocation at) {
  return write_out("threshold_out", out, at, {whole(self)},
                   [&] { return tandem::threshold(self, threshold, value, at); });
}
const Tensor& glu_out(const Tensor& out, const Tensor& self, int64_t dim, SourceLocation at) {
  return write_out("glu_out", out, at, {}, [&] { return glu(self, dim, at); });
}
const Tensor& special::multigammaln_out(const Tensor& out, const Tensor& self, int64_t p,
                                        SourceLocation at) {
  return write_out("multigammaln_out", out, at, {whole(self)},
                   [&] { return mvlgamma(self, p, at); });
}
const Tensor& lerp_out(const Tensor& out, const Tensor& self, const Tensor& end,
                       const Located& weight) {
  return write_out("lerp_out", out, weight.location, {whole(self), whole(end), whole(weight)},
                   [&] { return lerp(self, end, weight); });
}
const Tensor& addcmul_out(const Tensor& out, const Tensor& self, const Tensor& tensor1,
                          const Tensor& tensor2, const Located& value) {
  return write_out("addcmul_out", out, value.location,
                   {whole(self), whole(tensor1), whole(tensor2)},
                   [&] { return addcmul(self, tensor1, tensor2, value); });
}
const Tensor& addcdiv_out(const Tensor& out, const Tensor& self, const Tensor& tensor1,
                          const Tensor& tensor2, const Located& value) {
  return write_out("addcdiv_out", out, value.location,
                   {whole(self), whole(tensor1), whole(tensor2)},
                   [&] { return addcdiv(self, tensor1, tensor2, value); });
}
const Tensor& tril_out(const Tensor& out, const Tensor& self, Dim diagonal, SourceLocation at) {
  return write_out("tril_out", out, at, {}, [&] { return tril(self, diagonal, at); });
}
const Tensor& triu_out(const Tensor& out, const Tensor& self, Dim diagonal, SourceLocation at) {
  return write_out("triu_out", out, at, {}, [&] { return triu(self, diagonal, at); });
}
const Tensor& softmax_out(const Tensor& out, const Tensor& self, int64_t dim, SourceLocation at) {
  return write_out("softmax_out", out, at, {}, [&] { return softmax(self, dim, at); });
}
const Tensor& log_softmax_out(const Tensor& out, const Tensor& self, int64_t dim,
                              SourceLocation at) {
  return write_out("log_softmax_out", out, at, {}, [&] { return log_softmax(self, dim, at); });
}
const Tensor& matmul_out(const Tensor& out, const Tensor& self, const Tensor& other,
                         SourceLocation at) {
  return write_out("matmul_out", out, at, {}, [&] { return matmul(self, other, at); });
}
const Tensor& mm_out(const Tensor& out, const Tensor& self, const Tensor& mat2, SourceLocation at) {
  return write_out("mm_out", out, at, {}, [&] { return mm(self, mat2, at); });
}
const Tensor& bmm_out(const Tensor& out, const Tensor& self, const Tensor& mat2,
                      SourceLocation at) {
  return write_out("bmm_out", out, at, {}, [&] { return bmm(self, mat2, at); });
}
const Tensor& addmm_out(const Tensor& out, const Tensor& self, const Tensor& mat1,
                        const Tensor& mat2, SourceLocation at) {
  return write_out("addmm_out", out, at, {whole_unless_expanded(self, out)},
                   [&] { return addmm(self, mat1, mat2, at); });
}
const Tensor& cat_out(const Tensor& out, std::span<const Tensor> tensors, int64_t dim,
                      SourceLocation at) {
  return write_out("cat_out", out, at, all_apart(tensors), [&] { return cat(tensors, dim, at); });
}
const Tensor& stack_out(const Tensor& out, std::span<const Tensor> tensors, int64_t dim,
                        SourceLocation at) {
  return write_out("stack_out", out, at, all_apart(tensors),
                   [&] { return stack(tensors, dim, at); });
}
// --- of <tandem/ops/shapes.h>

#define X(op)                                                                                     \
  const Tensor& op##_out(const Tensor& out, std::span<const Tensor> tensors, SourceLocation at) { \
    return write_out(#op "_out", out, at, all_apart(tensors), [&] { return op(tensors, at); });   \
  }
TANDEM_STACKS(X)
#undef X
#define X(op)                                                                             \
  const Tensor& op##_out(const Tensor& out, std::span<const Tensor> tensors, int64_t dim, \
                         SourceLocation at) {                                             \
    return write_out(#op "_out", out, at, all_apart(tensors),                             \
                     [&] { return op(tensors, dim, at); });                               \
  }
TANDEM_CAT_ALIASES(X)
#undef X
const Tensor& diag_out(const Tensor& out, const Tensor& self, Dim diagonal, SourceLocation at) {
  return write_out("diag_out", out, at, {}, [&] { return diag(self, diagonal, at); });
}
const Tensor& linspace_out(const Tensor& out, const Number& start, const Number& end, Dim steps,
                           SourceLocation at) {
  return write_out("linspace_out", out, at, {},
                   [&] { return linspace(start, end, steps, out.dtype(), at); });
}
const Tensor& logspace_out(const Tensor& out, const Number& start, const Number& end, Dim steps,
                           double base, SourceLocation at) {
  return write_out("logspace_out", out, at, {},
                   [&] { return logspace(start, end, steps, base, out.dtype(), at); });
}

}  // namespace tandem
