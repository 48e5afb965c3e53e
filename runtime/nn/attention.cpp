#include <tandem/nn/attention.h>
#include <tandem/ops/shapes.h>

#include <cmath>
#include <limits>

#include "runtime/nn/layer.h"

namespace tandem::nn {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Uniform with a variance of 2 / (fan_in + fan_out): torch.nn.init.xavier_uniform_.
Tensor xavier_uniform(Dim out, Dim in, DType dtype) {
  return uniform_parameter({out, in}, std::sqrt(6.0 / static_cast<double>(int64_t{in + out})),
                           dtype);
}

/// torch.nn.init.xavier_normal_ of [1, 1, size].
Tensor xavier_normal_row(Dim size, DType dtype) {
  const double deviation = std::sqrt(2.0 / static_cast<double>(2 * int64_t{size}));
  return (randn({1, 1, size}, dtype) * deviation).requires_grad_();
}

void require_heads(const MultiheadAttention& a) {
  const auto refuse = [](const char* what, int64_t of, int64_t got) {
    ir::fail(Errc::Argument, fmt::format("{}: {} does not fit; expected a divisor of {}, got {}",
                                         ir::ErrorScope::function(), what, of, got));
  };
  if (a.num_heads < 1 || a.embed_dim % a.num_heads != 0)
    refuse("num_heads", a.embed_dim, a.num_heads);
  if (a.kv_heads < 1 || a.num_heads % a.kv_heads != 0) refuse("kv_heads", a.num_heads, a.kv_heads);
}

int64_t head_dim(const MultiheadAttention& a) { return a.embed_dim / a.num_heads; }
int64_t kv_dim(const MultiheadAttention& a) { return a.kv_heads * head_dim(a); }

struct Projected {
  Tensor q, k, v;
};

/// Part `i` of what is stacked for queries, keys and values; undefined if it is.
Tensor part_of(const MultiheadAttention& a, const Tensor& stacked, int i,
               const SourceLocation& at) {
  if (!stacked.defined()) return {};
  const int64_t begin[] = {0, a.embed_dim, a.embed_dim + kv_dim(a), a.embed_dim + 2 * kv_dim(a)};
  return stacked.slice(0, begin[i], begin[i + 1], 1, at);
}

Projected project(const MultiheadAttention& a, const Projected& x, const SourceLocation& at) {
  if (a.in_proj_weight.defined() && x.q.is_same(x.k) && x.k.is_same(x.v)) {
    const Tensor all = linear(x.q, a.in_proj_weight, a.in_proj_bias, at);
    const auto parts =
        split_with_sizes(all, std::vector<int64_t>{a.embed_dim, kv_dim(a), kv_dim(a)}, -1, at);
    return {parts[0], parts[1], parts[2]};
  }
  const Tensor* separate[] = {&a.q_proj_weight, &a.k_proj_weight, &a.v_proj_weight};
  const auto one = [&](const Tensor& t, int i) {
    const bool stacked = a.in_proj_weight.defined();
    return linear(t, stacked ? part_of(a, a.in_proj_weight, i, at) : *separate[i],
                  part_of(a, a.in_proj_bias, i, at), at);
  };
  return {one(x.q, 0), one(x.k, 1), one(x.v, 2)};
}

/// [n, t, heads d] -> [n, heads, t, d].
Tensor in_heads(const Tensor& x, int64_t heads, const SourceLocation& at) {
  return x.unflatten(-1, {heads, -1}, at).transpose(1, 2, at);
}

Tensor with_row(const Tensor& x, const Tensor& row, const SourceLocation& at) {
  Shape sizes = x.sizes();
  sizes[sizes.rank() - 2] = 1;
  return cat({x, expand(row, sizes, at)}, -2, at);
}

/// Keys and values as they are attended to: with the rows that the layer adds.
Projected with_rows(const MultiheadAttention& a, const Projected& p, const SourceLocation& at) {
  Projected out = p;
  if (a.bias_k.defined()) {
    out.k = with_row(out.k, a.bias_k, at);
    out.v = with_row(out.v, a.bias_v, at);
  }
  out = {in_heads(out.q, a.num_heads, at), in_heads(out.k, a.kv_heads, at),
         in_heads(out.v, a.kv_heads, at)};
  if (a.add_zero_attn) {
    const Tensor zero = zeros({1, 1, 1, 1}, out.k.dtype(), at);
    out.k = with_row(out.k, zero, at);
    out.v = with_row(out.v, zero, at);
  }
  return out;
}

/// A mask of as many keys as there were, for those that are attended to: what was added is kept.
Tensor widened(const Tensor& mask, Dim keys, const SourceLocation& at) {
  const Dim more = keys - mask.size(-1);
  return more > 0 ? pad(mask, std::vector<Dim>{0, more}, 0, at) : mask;
}

void require_sizes(const Tensor& mask, const char* name, const Shape& expected,
                   const Shape& other) {
  if (mask.sizes() != expected && mask.sizes() != other)
    ir::fail(Errc::Shape, fmt::format("{}: {} does not fit; expected {} or {}, got {}",
                                      ir::ErrorScope::function(), name, to_string(expected),
                                      to_string(other), to_string(mask.sizes())));
  if (mask.dtype() != boolean && !ir::is_floating(mask.dtype()))
    ir::fail(Errc::DType, fmt::format("{}: {} expected bool or a floating dtype, got {}",
                                      ir::ErrorScope::function(), name, ir::name(mask.dtype())));
}

/// `a` and `b`, either of which may be undefined: bool if both are, else to be added.
Tensor both(const Tensor& a, const Tensor& b, DType dtype, const SourceLocation& at) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  if (a.dtype() == boolean && b.dtype() == boolean) return logical_or({a, at}, {b, at});
  const auto added = [&](const Tensor& mask) {
    return mask.dtype() == boolean ? zeros(mask.sizes(), dtype, at).masked_fill(mask, {kNever, at})
                                   : mask;
  };
  return add({added(a), at}, {added(b), at});
}

/// All masks of a call in one that broadcasts to [n, heads, l, s]; undefined if there is none.
/// `keys`: of the caller, without rows that the layer adds.
Tensor mask_of(const MultiheadAttention& a, const Projected& p, const AttendOptions& o, Dim keys,
               const SourceLocation& at) {
  const Dim n = p.q.size(0), l = p.q.size(2), s = p.k.size(2);
  Tensor attention = o.attn_mask, padding = o.key_padding_mask;
  if (attention.defined()) {
    const Shape each{n * a.num_heads, l, keys};
    require_sizes(attention, "attn_mask", {l, keys}, each);
    if (attention.dim() == 3) attention = attention.view({n, a.num_heads, l, keys}, at);
  } else if (o.is_causal) {
    attention = logical_not(tril(ones({l, keys}, boolean, at), 0, at), at);
  }
  if (padding.defined()) {
    require_sizes(padding, "key_padding_mask", {n, keys}, n == 1 ? Shape{keys} : Shape{n, keys});
    padding = padding.view({n, 1, 1, keys}, at);
  }
  const Tensor mask = both(attention, padding, p.q.dtype(), at);
  return mask.defined() ? widened(mask, s, at) : mask;
}

/// Heads of keys or values once for each of queries.
Tensor repeated(const Tensor& x, int64_t times, const SourceLocation& at) {
  return times == 1 ? x : repeat_interleave(x, times, 1, at);
}

AttentionResult attend(const MultiheadAttention& a, const Projected& p, const Tensor& mask,
                       const SourceLocation& at) {
  const int64_t times = a.num_heads / a.kv_heads;
  const double scale = 1 / std::sqrt(static_cast<double>(head_dim(a)));
  Tensor scores =
      matmul(mul({p.q, at}, {scale, at}), repeated(p.k, times, at).transpose(-1, -2, at), at);
  if (mask.defined())
    scores = mask.dtype() == boolean ? scores.masked_fill(mask, {kNever, at})
                                     : add({scores, at}, {mask, at});
  const Tensor weights = tandem::dropout(softmax(scores, -1, at), a.dropout, a.training, at);
  return {matmul(weights, repeated(p.v, times, at), at), weights};
}

Tensor attend_without_weights(const MultiheadAttention& a, const Projected& p, const Tensor& mask,
                              bool is_causal, const SourceLocation& at) {
  const bool excludes = mask.defined() && mask.dtype() == boolean;
  return scaled_dot_product_attention(p.q, p.k, p.v,
                                      {.attn_mask = excludes ? logical_not(mask, at) : mask,
                                       .dropout_p = a.training ? a.dropout : 0,
                                       .is_causal = is_causal,
                                       .enable_gqa = a.kv_heads != a.num_heads},
                                      at);
}

/// How a caller's tensors lie: [t, n, d], [n, t, d] or [t, d].
struct Layout {
  bool single, batch_first;
  Tensor with_n_first(const Tensor& x, const SourceLocation& at) const {
    return single ? x.unsqueeze(0, at) : batch_first ? x : x.transpose(0, 1, at);
  }
  Tensor given_back(const Tensor& x, const SourceLocation& at) const {
    return single ? x.squeeze(0, at) : batch_first ? x : x.transpose(0, 1, at);
  }
};

Layout layout_of(const MultiheadAttention& a, const Projected& x) {
  require_rank(x.q, 2, 3);
  for (const Tensor* t : {&x.k, &x.v}) require_rank(*t, x.q.dim(), x.q.dim());
  return {x.q.dim() == 2, a.batch_first};
}

Projected with_n_first(const Projected& x, const Layout& layout, const SourceLocation& at) {
  const Tensor q = layout.with_n_first(x.q, at);
  const Tensor k = x.k.is_same(x.q) ? q : layout.with_n_first(x.k, at);
  return {q, k, x.v.is_same(x.k) ? k : layout.with_n_first(x.v, at)};
}

}  // namespace

MultiheadAttention::MultiheadAttention(Dim embed, Dim heads, const MultiheadAttentionOptions& o,
                                       SourceLocation at)
    : embed_dim(embed),
      num_heads(heads),
      kv_heads(o.kv_heads == 0 ? int64_t{heads} : o.kv_heads),
      dropout(o.dropout),
      batch_first(o.batch_first),
      add_zero_attn(o.add_zero_attn) {
  const ir::ErrorScope errors(at);
  require_heads(*this);
  const Dim kdim = o.kdim == 0 ? embed_dim : o.kdim, vdim = o.vdim == 0 ? embed_dim : o.vdim;
  const Dim kv = kv_dim(*this), all = embed + 2 * kv;
  if (kdim == embed_dim && vdim == embed_dim) {
    in_proj_weight = xavier_uniform(all, embed, o.dtype);
  } else {
    q_proj_weight = xavier_uniform(embed, embed, o.dtype);
    k_proj_weight = xavier_uniform(kv, kdim, o.dtype);
    v_proj_weight = xavier_uniform(kv, vdim, o.dtype);
  }
  out_proj = Linear(embed, embed, o.bias, o.dtype);
  if (o.bias) {
    in_proj_bias = zeros({all}, o.dtype).requires_grad_();
    out_proj.bias = zeros({embed}, o.dtype).requires_grad_();
  }
  if (!o.add_bias_kv) return;
  bias_k = xavier_normal_row(kv, o.dtype);
  bias_v = xavier_normal_row(kv, o.dtype);
}

AttentionResult MultiheadAttention::operator()(const Tensor& query, const Tensor& key,
                                               const Tensor& value, const AttendOptions& options,
                                               SourceLocation at) const {
  const ir::ErrorScope errors(at, "MultiheadAttention");
  const Projected given{query, key, value};
  const Layout layout = layout_of(*this, given);
  const Projected x = with_n_first(given, layout, at);
  const Projected p = with_rows(*this, project(*this, x, at), at);
  const bool causal_alone = options.is_causal && !options.attn_mask.defined() &&
                            !options.key_padding_mask.defined() && p.k.size(2) == x.k.size(1);
  AttentionResult out;
  if (options.need_weights) {
    out = attend(*this, p, mask_of(*this, p, options, x.k.size(1), at), at);
    if (options.average_attn_weights) out.weights = out.weights.mean({1}, false, at);
    if (layout.single) out.weights = out.weights.squeeze(0, at);
  } else {
    const Tensor mask = causal_alone ? Tensor() : mask_of(*this, p, options, x.k.size(1), at);
    out.output = attend_without_weights(*this, p, mask, causal_alone, at);
  }
  const Tensor merged = out.output.transpose(1, 2, at).flatten(2, -1, at);
  out.output = layout.given_back(out_proj(merged, at), at);
  return out;
}

Tensor RotaryEmbedding::operator()(const Tensor& x, const Tensor& positions,
                                   SourceLocation at) const {
  const ir::ErrorScope errors(at, "RotaryEmbedding");
  if (x.defined() && x.dim() < 2)
    ir::fail(Errc::Shape,
             fmt::format("RotaryEmbedding: expected [..., t, d], got {}", to_string(x.sizes())));
  const int64_t last = x.size(-1);
  if (dim < 2 || dim % 2 != 0 || dim > last)
    ir::fail(Errc::Argument, fmt::format("RotaryEmbedding: dim out of range; expected an even "
                                         "number from 2 to {}, got {}",
                                         last, dim));
  const DType computed = x.dtype() == f64 ? f64 : f32;
  const Tensor exponents =
      mul({arange(0, dim, 2, f64, at), at}, {-1.0 / static_cast<double>(dim), at});
  const Tensor frequencies = pow({base, at}, {exponents, at}).to(computed, at);
  const Tensor places = positions.defined() ? positions : arange(x.size(-2), i64, at);
  const Tensor angles = mul({places.to(computed, at).unsqueeze(-1, at), at}, {frequencies, at});
  const Tensor c = cos(angles, at), s = sin(angles, at);
  const Tensor turned = x.slice(-1, 0, dim, 1, at).to(computed, at);
  const Tensor a =
      interleaved ? turned.slice(-1, 0, dim, 2, at) : turned.slice(-1, 0, dim / 2, 1, at);
  const Tensor b =
      interleaved ? turned.slice(-1, 1, dim, 2, at) : turned.slice(-1, dim / 2, dim, 1, at);
  const auto product = [&](const Tensor& l, const Tensor& r) { return mul({l, at}, {r, at}); };
  const Tensor first = sub({product(a, c), at}, {product(b, s), at});
  const Tensor second = add({product(b, c), at}, {product(a, s), at});
  const Tensor out = (interleaved ? stack({first, second}, -1, at).flatten(-2, -1, at)
                                  : cat({first, second}, -1, at))
                         .to(x.dtype(), at);
  return dim == last ? out : cat({out, x.slice(-1, dim, last, 1, at)}, -1, at);
}

}  // namespace tandem::nn
