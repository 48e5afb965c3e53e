// Reductions, normalisations, losses and contractions: free functions and methods.
#include <fmt/format.h>
#include <tandem/ops.h>
#include <tandem/ops/networks.h>

#include "ir/base/error.h"
#include "runtime/ops/call.h"

namespace tandem {
namespace {

using ir::Op;
using runtime::Call;
using runtime::V;

Tensor reduce(Op op, const Tensor& self, const DimList& dims, bool keepdim,
              const SourceLocation& at) {
  Call c(at, ir::name(op));
  return c.out(c.b.reduce(op, c.in(self), dims.dims, keepdim));
}

void require_ordered(const Tensor& self, std::string_view op) {
  if (self.dtype() == boolean)
    ir::fail(Errc::DType, fmt::format("{}: not defined for bool; expected numbers, got bool", op));
}

/// The position of the extremum along `dim`, or among all elements.
V position(Call& c, Op op, V self, std::optional<int64_t> dim, bool keepdim) {
  return c.b.reduce(op, self, dim ? ir::Axes{*dim} : ir::Axes(), keepdim);
}

ValuesAndIndices extremum(Op op, const Tensor& self, int64_t dim, bool keepdim,
                          const SourceLocation& at,
                          std::string_view function = __builtin_FUNCTION()) {
  Call c(at, function);
  const auto found = c.b.extremum_with_indices(op, c.in(self), runtime::as_int(dim), keepdim);
  return {c.out(found[0]), c.out(found[1])};
}

/// The target of a binary cross entropy: floating, and as large as the loss.
void require_probabilities(Call& c, V logits, V target) {
  static constexpr const char* kOp = "binary_cross_entropy_with_logits";
  if (!ir::is_floating(c.b.dtype(target)))
    ir::fail(Errc::DType, fmt::format("{}: target is not floating; expected probabilities, got {}",
                                      kOp, ir::name(c.b.dtype(target))));
  const Shape sizes = c.b.broadcast(c.b.sizes(logits), c.b.sizes(target), kOp);
  if (c.b.sizes(target) != sizes)
    ir::fail(Errc::Shape, fmt::format("{}: target does not fit; expected {}, got {}", kOp,
                                      to_string(sizes), to_string(c.b.sizes(target))));
}

V reduced_loss(Call& c, V loss, std::string_view reduction, std::string_view op) {
  if (reduction == "none") return loss;
  if (reduction == "mean") return c.b.mean(loss);
  if (reduction == "sum") return c.b.sum(loss);
  ir::fail(Errc::Argument, fmt::format("{}: unknown reduction; expected \"none\", \"mean\" or "
                                       "\"sum\", got \"{}\"",
                                       op, reduction));
}

}  // namespace

// --- reductions

#define TANDEM_REDUCTION(op)                                                            \
  Tensor op(const Tensor& self, const DimList& dims, bool keepdim, SourceLocation at) { \
    return reduce(Op::op, self, dims, keepdim, at);                                     \
  }                                                                                     \
  Tensor Tensor::op(const DimList& dims, bool keepdim, SourceLocation at) const {       \
    return reduce(Op::op, *this, dims, keepdim, at);                                    \
  }
TANDEM_REDUCTION(sum)
TANDEM_REDUCTION(prod)
TANDEM_REDUCTION(amax)
TANDEM_REDUCTION(amin)
TANDEM_REDUCTION(any)
TANDEM_REDUCTION(all)
TANDEM_REDUCTION(mean)
#undef TANDEM_REDUCTION

Tensor var(const Tensor& self, const DimList& dims, double correction, bool keepdim,
           SourceLocation at) {
  Call c(at);
  return c.out(c.b.var(c.in(self), dims.dims, correction, keepdim));
}
Tensor std(const Tensor& self, const DimList& dims, double correction, bool keepdim,
           SourceLocation at) {
  Call c(at);
  return c.out(c.b.var(c.in(self), dims.dims, correction, keepdim, true));
}
VarMean var_mean(const Tensor& self, const DimList& dims, double correction, bool keepdim,
                 SourceLocation at) {
  Call c(at);
  const auto found = c.b.var_mean(c.in(self), dims.dims, correction, keepdim);
  const auto [spread, mean] = c.outs(found[0], found[1]);
  return {spread, mean};
}
StdMean std_mean(const Tensor& self, const DimList& dims, double correction, bool keepdim,
                 SourceLocation at) {
  Call c(at);
  const auto found = c.b.var_mean(c.in(self), dims.dims, correction, keepdim, true);
  const auto [spread, mean] = c.outs(found[0], found[1]);
  return {spread, mean};
}
Tensor logsumexp(const Tensor& self, const DimList& dims, bool keepdim, SourceLocation at) {
  Call c(at);
  return c.out(c.b.logsumexp(c.in(self), dims.dims, keepdim));
}
Tensor softmax(const Tensor& self, int64_t dim, SourceLocation at) {
  Call c(at);
  return c.out(c.b.softmax(c.in(self), runtime::as_int(dim)));
}
Tensor log_softmax(const Tensor& self, int64_t dim, SourceLocation at) {
  Call c(at);
  return c.out(c.b.log_softmax(c.in(self), runtime::as_int(dim)));
}

Tensor max(const Tensor& self, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return amax(self, {}, false, at);
}
Tensor min(const Tensor& self, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return amin(self, {}, false, at);
}
ValuesAndIndices max(const Tensor& self, int64_t dim, bool keepdim, SourceLocation at) {
  return extremum(Op::max_with_indices, self, dim, keepdim, at);
}
ValuesAndIndices min(const Tensor& self, int64_t dim, bool keepdim, SourceLocation at) {
  return extremum(Op::min_with_indices, self, dim, keepdim, at);
}
MinMax aminmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  const auto found = c.b.aminmax(v, dim ? ir::Axes{*dim} : ir::Axes(), keepdim);
  const auto [least, greatest] = c.outs(found[0], found[1]);
  return {least, greatest};
}
Tensor argmax(const Tensor& self, std::optional<int64_t> dim, bool keepdim, SourceLocation at) {
  require_ordered(self, "argmax");
  Call c(at);
  return c.out(position(c, Op::argmax, c.in(self), dim, keepdim));
}
Tensor argmin(const Tensor& self, std::optional<int64_t> dim, bool keepdim, SourceLocation at) {
  require_ordered(self, "argmin");
  Call c(at);
  return c.out(position(c, Op::argmin, c.in(self), dim, keepdim));
}

namespace {

/// How many trailing dimensions are normalized.
int normalized_dims(const Tensor& self, const Shape& normalized_shape) {
  const Shape& sizes = self.sizes();
  const int trailing = normalized_shape.rank();
  bool fits = trailing >= 1 && trailing <= sizes.rank();
  for (int d = 0; fits && d < trailing; ++d)
    fits = normalized_shape[d] == sizes[sizes.rank() - trailing + d];
  if (!fits)
    ir::fail(Errc::Shape, fmt::format("layer_norm: the normalized shape does not fit; expected the "
                                      "last sizes of {}, got {}",
                                      to_string(sizes), to_string(normalized_shape)));
  return trailing;
}

}  // namespace

NormAndStatistics native_layer_norm(const Tensor& self, const Shape& normalized_shape,
                                    const Tensor& weight, const Tensor& bias, double eps,
                                    SourceLocation at) {
  const ir::ErrorScope errors(at);
  const int trailing = normalized_dims(self, normalized_shape);
  Call c(at);
  const V v = c.in(self);
  const Tensor& parameter = weight.defined() ? weight : bias;
  // As ATen: halves beside parameters in f32.
  const bool is_mixed =
      parameter.defined() && parameter.dtype() == f32 && ir::is_half(self.dtype());
  const V in = is_mixed ? c.b.convert(v, f32) : v;
  const auto found = c.b.native_layer_norm(in, c.maybe(weight), c.maybe(bias), trailing, eps);
  const V out = is_mixed ? c.b.convert(found[0], self.dtype()) : found[0];
  const auto [result, mean, rstd] = c.outs(out, found[1], found[2]);
  return {result, mean, rstd};
}
Tensor layer_norm(const Tensor& self, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return native_layer_norm(self, normalized_shape, weight, bias, eps, at).result;
}

// --- losses

namespace {

/// [c] or [n, c, d...] as rows of classes: [1, c] or [n, d..., c].
V classes_last(Call& c, V v) {
  const int rank = c.b.rank(v);
  if (rank == 1) return c.b.unsqueeze(v, 0);
  ir::Axes order{0};
  for (int d = 2; d < rank; ++d) order.push_back(d);
  order.push_back(1);
  return c.b.permute(v, order);
}

void check_ratio(std::string_view op, std::string_view name, double value) {
  if (!(value >= 0 && value <= 1))
    ir::fail(Errc::Argument,
             fmt::format("{}: {} out of range; expected 0 to 1, got {}", op, name, value));
}

/// -sum over the classes of p log_softmax(x), where p (1 - s) + s / c is what s smooths p to.
V class_probability_loss(Call& c, V x, V p, std::string_view reduction, double smoothing) {
  check_ratio("cross_entropy", "label_smoothing", smoothing);
  const int dim = c.b.rank(x) == 1 ? 0 : 1;
  const Dim classes = c.b.sizes(x)[dim], count = c.b.numel(x);
  if (smoothing > 0)
    p = c.b.add(c.b.mul(p, 1 - smoothing), smoothing / static_cast<double>(int64_t{classes}));
  const V terms = c.b.mul(c.b.log_softmax(x, dim), p);
  if (reduction != "mean") {
    const V loss = c.b.neg(reduction == "sum" ? c.b.sum(terms) : c.b.sum(terms, {dim}));
    return reduction == "none" ? loss : reduced_loss(c, loss, reduction, "cross_entropy");
  }
  const double rows = count == 0 ? 0 : static_cast<double>(int64_t{count / classes});
  return c.b.div(c.b.neg(c.b.sum(terms)), rows);
}

/// What stands for a label of ignore_index: any class, whose loss then counts for nothing.
constexpr int64_t kAnyClass = 0;

/// The mean over the labels that are not ignored: counted in f32 at least, as ATen does.
V mean_of_valid(Call& c, V loss, V valid) {
  const DType dtype = c.b.dtype(loss), wide = ir::size_of(dtype) < 4 ? f32 : dtype;
  const V total = c.b.sum(c.b.convert(loss, wide));
  return c.b.convert(c.b.div(total, c.b.convert(c.b.sum(valid), wide)), dtype);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, std::string_view reduction,
                     int64_t ignore_index, double label_smoothing, SourceLocation at) {
  Call c(at);
  const V v = c.in(logits, "logits"), t = c.in(target, "target");
  if (logits.dim() == 0 || logits.sizes() != target.sizes() || ir::is_integral(target.dtype()))
    return c.out(c.b.cross_entropy(v, t, ignore_index, label_smoothing, std::string(reduction)));
  if (ignore_index >= 0)
    ir::fail(Errc::Argument,
             fmt::format("cross_entropy: ignore_index beside class probabilities; expected labels, "
                         "or no ignore_index, got {}",
                         ignore_index));
  return c.out(class_probability_loss(c, v, t, reduction, label_smoothing));
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, std::string_view reduction,
                int64_t ignore_index, SourceLocation at) {
  Call c(at);
  const V v = c.in(log_probabilities, "log_probabilities"), t = c.in(target, "target");
  if (log_probabilities.dim() == 0)
    ir::fail(Errc::Shape, "nll_loss: no dimension of classes; expected [c] or [n, c, ...], got []");
  const V rows = classes_last(c, v);
  Shape labels = c.b.sizes(rows);
  labels.erase(labels.rank() - 1);
  const bool is_one = log_probabilities.dim() == 1 && target.dim() == 0;
  if (!is_one && target.sizes() != labels)
    ir::fail(Errc::Shape,
             fmt::format("nll_loss: target does not fit the log-probabilities; expected {}, got {}",
                         to_string(labels), to_string(target.sizes())));
  const V label = c.b.view(t, labels), valid = c.b.ne(label, ignore_index);
  const V index = c.b.unsqueeze(c.b.where(valid, label, kAnyClass), -1);
  const V picked = c.b.squeeze(c.b.gather(rows, labels.rank(), index), ir::Axes{-1});
  V loss = c.b.where(valid, c.b.neg(picked), 0);
  if (reduction == "mean") return c.out(mean_of_valid(c, loss, valid));
  if (log_probabilities.dim() == 1) loss = c.b.view(loss, {});
  return c.out(reduced_loss(c, loss, reduction, "nll_loss"));
}

Tensor mse_loss(const Tensor& input, const Tensor& target, std::string_view reduction,
                SourceLocation at) {
  Call c(at);
  const V v = c.in(input, "input");
  return c.out(
      reduced_loss(c, c.b.square(c.b.sub(v, c.in(target, "target"))), reduction, "mse_loss"));
}

Tensor l1_loss(const Tensor& input, const Tensor& target, std::string_view reduction,
               SourceLocation at) {
  require_ordered(input, "l1_loss");
  require_ordered(target, "l1_loss");
  Call c(at);
  const V v = c.in(input, "input");
  return c.out(reduced_loss(c, c.b.abs(c.b.sub(v, c.in(target, "target"))), reduction, "l1_loss"));
}

// max(x, 0) - x y + log(1 + exp(-|x|)), which overflows nowhere. ATen's has the target's dtype and
// sizes.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        std::string_view reduction, SourceLocation at) {
  Call c(at);
  const V x = c.in(logits, "logits"), y = c.in(target, "target");
  require_probabilities(c, x, y);
  const V log_term = c.b.log1p(c.b.exp(c.b.neg(c.b.abs(x))));
  const V loss = c.b.add(c.b.sub(c.b.relu(x), c.b.mul(x, y)), log_term);
  return c.out(reduced_loss(c, c.b.convert(loss, c.b.dtype(y)), reduction,
                            "binary_cross_entropy_with_logits"));
}

// --- contractions

Tensor matmul(const Tensor& self, const Tensor& other, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  return c.out(c.b.matmul(v, c.in(other, "other")));
}
Tensor mm(const Tensor& self, const Tensor& mat2, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  return c.out(c.b.mm(v, c.in(mat2, "mat2")));
}
Tensor bmm(const Tensor& self, const Tensor& mat2, SourceLocation at) {
  Call c(at);
  const V v = c.in(self);
  return c.out(c.b.bmm(v, c.in(mat2, "mat2")));
}
Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, SourceLocation at) {
  Call c(at);
  const V v = c.in(self), a = c.in(mat1, "mat1");
  return c.out(c.b.addmm(v, a, c.in(mat2, "mat2")));
}
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, SourceLocation at) {
  Call c(at);
  const V v = c.in(x, "x"), w = c.in(weight, "weight");
  return c.out(c.b.linear(v, w, c.maybe(bias)));
}
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& mask, bool is_causal, std::optional<double> scale,
                                    SourceLocation at) {
  return scaled_dot_product_attention(
      query, key, value, {.attn_mask = mask, .is_causal = is_causal, .scale = scale}, at);
}

// --- as methods

Tensor Tensor::var(const DimList& dims, double correction, bool keepdim, SourceLocation at) const {
  return tandem::var(*this, dims, correction, keepdim, at);
}
Tensor Tensor::std(const DimList& dims, double correction, bool keepdim, SourceLocation at) const {
  return tandem::std(*this, dims, correction, keepdim, at);
}
Tensor Tensor::logsumexp(const DimList& dims, bool keepdim, SourceLocation at) const {
  return tandem::logsumexp(*this, dims, keepdim, at);
}
Tensor Tensor::norm(SourceLocation at) const { return tandem::norm(*this, at); }
Tensor Tensor::softmax(int64_t dim, SourceLocation at) const {
  return tandem::softmax(*this, dim, at);
}
Tensor Tensor::log_softmax(int64_t dim, SourceLocation at) const {
  return tandem::log_softmax(*this, dim, at);
}
Tensor Tensor::max(SourceLocation at) const { return tandem::max(*this, at); }
Tensor Tensor::min(SourceLocation at) const { return tandem::min(*this, at); }
ValuesAndIndices Tensor::max(int64_t dim, bool keepdim, SourceLocation at) const {
  return tandem::max(*this, dim, keepdim, at);
}
ValuesAndIndices Tensor::min(int64_t dim, bool keepdim, SourceLocation at) const {
  return tandem::min(*this, dim, keepdim, at);
}
MinMax Tensor::aminmax(std::optional<int64_t> dim, bool keepdim, SourceLocation at) const {
  return tandem::aminmax(*this, dim, keepdim, at);
}
Tensor Tensor::argmax(std::optional<int64_t> dim, bool keepdim, SourceLocation at) const {
  return tandem::argmax(*this, dim, keepdim, at);
}
Tensor Tensor::argmin(std::optional<int64_t> dim, bool keepdim, SourceLocation at) const {
  return tandem::argmin(*this, dim, keepdim, at);
}
Tensor Tensor::matmul(const Tensor& other, SourceLocation at) const {
  return tandem::matmul(*this, other, at);
}
Tensor Tensor::mm(const Tensor& other, SourceLocation at) const {
  return tandem::mm(*this, other, at);
}
Tensor Tensor::bmm(const Tensor& other, SourceLocation at) const {
  return tandem::bmm(*this, other, at);
}

}  // namespace tandem
