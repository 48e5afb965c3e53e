// Attention of one head in tiles of queries and keys, in f32: once for each instruction set. What a
// tile computes depends on sizes alone. Memory behind the last query or key is never touched:
// operands are packed, with zeros where tiles reach beyond them.
#ifndef TANDEM_MACHINE_ATTENTION_TILES_H
#define TANDEM_MACHINE_ATTENTION_TILES_H

#include <cstdint>

namespace tandem::machine::attention {

inline constexpr int64_t kTile = 64;  // queries, and keys, of a tile
/// Where there are few queries: rows of scores of a group of heads at most, and keys of a part.
inline constexpr int64_t kFewRows = 32, kFewKeys = 256;

/// Rows of elements side by side, `stride` elements apart.
struct Rows {
  const float* data = nullptr;
  int64_t stride = 0;
};

/// Of one head's scores: bool (which stay) or float (added), or none.
struct HeadMask {
  const uint8_t* keep = nullptr;
  const float* added = nullptr;
  int64_t row_stride = 0, column_stride = 0;  // in elements; of columns 0 or 1
};

/// One head of t queries [t, d] beside its keys [s, d] and values [s, e], or some of them: those
/// from `first_key` on, a multiple of kTile.
struct Head {
  Rows query, key, value;
  HeadMask mask;
  int64_t t = 0, s = 0, d = 0, e = 0;
  int64_t first_key = 0;
  float scale = 1;
  bool causal = false;
};

/// The gradient [t, e] of the result, the saved result [t, e] and logsumexp [t] of a head.
struct HeadGradient {
  Rows grad, result;
  const float* logsumexp = nullptr;
};

struct Tiles {
  /// Floats of working memory that the functions below take, for heads of these sizes.
  int64_t (*forward_scratch)(const Head& head);
  int64_t (*backward_scratch)(const Head& head);

  /// Keys and values into the working memory, for the tiles that follow.
  void (*pack_forward)(const Head& head, float* scratch);
  /// Queries [first, end), of whole tiles or up to t: of result rows [t, e] and logsumexp [t].
  void (*forward)(const Head& head, int64_t first, int64_t end, float* scratch, float* result,
                  float* logsumexp);

  /// The same for the backward; its sums of gradients are zero then.
  void (*pack_backward)(const Head& head, float* scratch);
  /// A head: its query gradient [t, d], as far as the keys give it; adds to the sums of key and
  /// value gradients.
  void (*backward)(const Head& head, const HeadGradient& gradient, float* scratch,
                   float* grad_query);
  /// The sums: [s, d] and [s, e].
  void (*finish_backward)(const Head& head, const float* scratch, float* grad_key,
                          float* grad_value);

  /// `group` heads of at most kFewRows rows of scores together, and at most kFewKeys keys which
  /// they share. A row's sum of weighted values [e], then its largest score and its sum of weights
  /// relative to that: group t rows of e + 2.
  int64_t (*few_scratch)(const Head& head, int64_t group);
  void (*few_forward)(const Head* heads, int64_t group, float* scratch, float* partial);
  /// Query gradients as far as the keys give them, group t rows of d; gradients [s, d] and [s, e].
  void (*few_backward)(const Head* heads, const HeadGradient* gradients, int64_t group,
                       float* scratch, float* grad_query, float* grad_key, float* grad_value);
};

extern const Tiles kTilesAvx512, kTilesAvx2, kTilesBase;

}  // namespace tandem::machine::attention

#endif  // TANDEM_MACHINE_ATTENTION_TILES_H
