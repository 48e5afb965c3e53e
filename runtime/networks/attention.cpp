// Attention with all of its options.
#include <algorithm>
#include <limits>

#include "ir/base/error.h"
#include "runtime/networks/images.h"

namespace tandem {
namespace {

using runtime::Call;
using runtime::V;

/// Heads [..., h, s, d], each repeated so that there are `heads`.
V for_heads(Call& c, V x, Dim heads, const char* name) {
  const Shape sizes = c.b.sizes(x);
  const int at = sizes.rank() - 3;
  if (at < 0 || sizes[at] < 1 || heads % sizes[at] != 0)
    ir::fail(Errc::Shape,
             fmt::format("{}: the heads of {} do not fit; expected [..., heads, s, d] of a divisor "
                         "of {} heads, got {}",
                         ir::ErrorScope::function(), name, int64_t{heads}, to_string(sizes)));
  Shape apart = sizes, whole = sizes;
  apart.insert(at + 1, heads / sizes[at]);
  whole[at] = heads;
  return c.b.reshape(c.b.expand(c.b.unsqueeze(x, at + 1), apart), whole);
}

/// Scores [..., t, s] with -inf where nothing is to be attended to.
V masked(Call& c, V scores, const AttentionOptions& o) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const int rank = c.b.rank(scores);
  if (o.is_causal) {
    const Dim t = c.b.sizes(scores)[rank - 2], s = c.b.sizes(scores)[rank - 1];
    const V row = c.b.view(c.b.iota(t, i64), {t, Dim(1)});
    return c.b.where(c.b.ge(row, c.b.iota(s, i64)), scores, kNever);
  }
  if (!o.attn_mask.defined()) return scores;
  const V mask = c.in(o.attn_mask, "attn_mask");
  return c.b.dtype(mask) == boolean ? c.b.where(mask, scores, kNever) : c.b.add(scores, mask);
}

Tensor with_dropout(Call& c, V q, V k, V v, const AttentionOptions& o, const SourceLocation& at) {
  const double scale =
      o.scale.value_or(1 / std::sqrt(static_cast<double>(int64_t{c.b.sizes(q).back()})));
  const DType dtype = c.b.dtype(q), computed = ir::is_half(dtype) ? f32 : dtype;
  const V keys = c.b.transpose(c.b.convert(k, computed), -1, -2);
  const V scores = c.b.mul(c.b.matmul(c.b.convert(q, computed), keys), scale);
  const V kept = c.b.convert(c.b.attention_probabilities(masked(c, scores, o)), dtype);
  return c.out(c.b.matmul(c.in(dropout(c.out(kept), o.dropout_p, true, at)), v));
}

// --- attention that holds no scores

/// Heads [..., h, t, d] as [b, h, t, d].
V as_heads(Call& c, V x) {
  const Shape sizes = c.b.sizes(x);
  const int rank = sizes.rank();
  if (rank == 4) return x;
  Dim batch = 1;
  for (int d = 0; d < rank - 3; ++d) batch *= sizes[d];
  return c.b.reshape(x,
                     {batch, rank < 3 ? Dim(1) : sizes[rank - 3], sizes[rank - 2], sizes.back()});
}

/// Whether heads of queries and of keys (or values) belong together as they are.
bool fit(const Shape& q, const Shape& k, bool grouped) {
  if (q.rank() != k.rank()) return false;
  for (int d = 0; d < q.rank() - 2; ++d)
    if (q[d] != k[d] && !(grouped && d == q.rank() - 3 && k[d] > 0 && q[d] % k[d] == 0))
      return false;
  return true;
}

/// f32, or a half, of which that is made: scores of halves are f32 wherever they are computed.
bool is_single(DType dtype) { return ir::is_floating(dtype) && ir::size_of(dtype) <= 4; }

/// Whether `mask` is one that the kept operation takes as it is, but for its rank.
bool fits_mask(Call& c, V mask, const Shape& scores) {
  const Shape sizes = c.b.sizes(mask);
  const DType dtype = c.b.dtype(mask);
  if (sizes.rank() > scores.rank() || scores.rank() > 4) return false;
  if (dtype != boolean && !is_single(dtype)) return false;
  for (int d = 1; d <= sizes.rank(); ++d) {
    const Dim size = sizes[sizes.rank() - d];
    if (size != 1 && size != scores[scores.rank() - d]) return false;
  }
  return true;
}

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

/// Attention that the kept operation computes faster than the products and the softmax of which it
/// consists, forward and backward together, or in much less memory.
struct KeptRow {
  int64_t fewest_queries = 1, most_queries = kAny, fewest_keys = 1;
  int64_t widest = kAny;       // heads
  double fewest_scores = 0;    // of a head
  int64_t fewest_sharing = 1;  // heads of queries that share one of keys
  bool only_causal = false;
};
// Times as fast, on a Xeon with AVX-512 and on the same with AVX2.
constexpr KeptRow kKept[] = {
    // Tiles that no query sees are left out: 1.0 to 1.3 and 1.2 to 1.8 at 48, 1.3 to 1.6 and 1.5 to
    // 2.0 at 64, 1.2 to 2.2 and 1.5 to 2.6 at 128. (0.6 to 1.0 and 0.9 to 1.3 at 32.)
    {.fewest_queries = 48, .fewest_keys = 48, .only_causal = true},
    // Where products are small beside the scores: 1.2 to 1.3 and 1.3 to 1.5 at 128. (0.8 to 0.9 and
    // 0.9 to 1.1 with heads of 64 and 128.)
    {.fewest_queries = 128, .fewest_keys = 128, .widest = 32},
    // On an EPYC with AVX2 1.3 to 1.5 at 256.
    {.fewest_queries = 128, .fewest_keys = 128, .fewest_scores = 256 * 256},
    // A query of generation, of heads by fours on 1024 and 4096 keys: forward 1.5 to 2.2 and 4.
    {.most_queries = 4, .fewest_keys = 256, .fewest_sharing = 2},
};

/// One head's queries [queries, width] beside keys [keys, width], and who shares these.
struct HeadSizes {
  int64_t queries, keys, width, sharing;
  bool is_causal;
};

bool is_in(const KeptRow& row, const HeadSizes& n) {
  return n.queries >= row.fewest_queries && n.queries <= row.most_queries &&
         n.keys >= row.fewest_keys && n.width <= row.widest &&
         static_cast<double>(n.queries) * static_cast<double>(n.keys) >= row.fewest_scores &&
         n.sharing >= row.fewest_sharing && (n.is_causal || !row.only_causal);
}

bool is_faster(const HeadSizes& n) {
  return std::ranges::any_of(kKept, [&](const KeptRow& row) { return is_in(row, n); });
}

/// Which attention becomes flash_attention: f32 or halves of sizes for which that is faster, whose
/// operands need not be expanded. From types alone, so that it is the same in every trace.
bool is_kept(Call& c, V q, V k, V v, std::optional<V> mask, const AttentionOptions& o) {
  constexpr int64_t kMost = 256;
  for (const V x : {q, k, v})
    if (c.b.dtype(x) != c.b.dtype(q) || c.b.rank(x) < 2 || c.b.numel(x) == 0) return false;
  if (!is_single(c.b.dtype(q))) return false;
  const Shape queries = c.b.sizes(q), keys = c.b.sizes(k), values = c.b.sizes(v);
  const int rank = queries.rank();
  if (!fit(queries, keys, o.enable_gqa) || !fit(keys, values, false)) return false;
  if (queries.back() != keys.back() || keys[rank - 2] != values[rank - 2]) return false;
  if (queries.back() > kMost || values.back() > kMost) return false;
  const Dim sharing = rank < 3 ? Dim(1) : queries[rank - 3] / keys[rank - 3];
  if (!is_faster({queries[rank - 2], keys[rank - 2], queries.back(), sharing, o.is_causal}))
    return false;
  Shape scores = queries;
  scores[rank - 1] = keys[rank - 2];
  return !mask || fits_mask(c, *mask, scores);
}

V kept_attention(Call& c, V q, V k, V v, std::optional<V> mask, const AttentionOptions& o) {
  Shape sizes = c.b.sizes(q);
  const double scale = o.scale.value_or(1 / std::sqrt(static_cast<double>(int64_t{sizes.back()})));
  sizes[sizes.rank() - 1] = c.b.sizes(v).back();
  const DType dtype = c.b.dtype(q);
  const auto single = [&](V x) { return c.b.convert(x, f32); };
  ir::ValueList operands;
  for (const V x : {q, k, v}) operands.push_back(single(as_heads(c, x)));
  if (mask) {
    Shape four = c.b.sizes(*mask);
    while (four.rank() < 4) four.insert(0, 1);
    const V fitting = c.b.reshape(*mask, four);
    operands.push_back(c.b.dtype(fitting) == boolean ? fitting : single(fitting));
  }
  const V result = c.b.emit_all(ir::Op::flash_attention, operands, {scale, o.is_causal})[0];
  return c.b.convert(c.b.reshape(result, sizes), dtype);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options, SourceLocation at) {
  Call c(at);
  const V q = c.in(query, "query");
  V k = c.in(key, "key"), v = c.in(value, "value");
  if (c.b.rank(q) < 2)
    ir::fail(Errc::Shape, fmt::format("{}: expected query [..., t, d], got {}",
                                      ir::ErrorScope::function(), to_string(c.b.sizes(q))));
  if (options.attn_mask.defined() && options.is_causal)
    ir::fail(Errc::Argument, fmt::format("{}: a mask beside is_causal; expected one of the two, "
                                         "got both",
                                         ir::ErrorScope::function()));
  if (!(options.dropout_p >= 0 && options.dropout_p <= 1))
    ir::fail(Errc::Argument, fmt::format("{}: expected a probability as dropout_p, got {}",
                                         ir::ErrorScope::function(), options.dropout_p));
  const std::optional<V> mask = c.maybe(options.attn_mask);
  if (options.dropout_p == 0 && is_kept(c, q, k, v, mask, options))
    return c.out(kept_attention(c, q, k, v, mask, options));
  if (options.enable_gqa) {
    const Dim heads = c.b.rank(q) < 3 ? Dim(1) : c.b.sizes(q)[c.b.rank(q) - 3];
    k = for_heads(c, k, heads, "key");
    v = for_heads(c, v, heads, "value");
  }
  if (options.dropout_p > 0) return with_dropout(c, q, k, v, options, at);
  return c.out(c.b.scaled_dot_product_attention(q, k, v, mask, options.scale, options.is_causal));
}

}  // namespace tandem
