// Matrix products with parts of tensors, as attention over the filled part of a cache, and into
// parts of concatenations.
#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

/// Attention of queries [.., n, d] to keys and values [.., t, d].
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  return matmul(softmax(matmul(q, k.transpose(-1, -2)) * 0.3, -1), v);
}

/// To the first `filled` positions of caches [b, h, t, d].
Program to_filled(int64_t filled) {
  return [=](const Tensors& in) -> Tensors {
    return {attention(in[0], in[1].slice(2, 0, filled), in[2].slice(2, 0, filled))};
  };
}

/// Of caches [b, t, h, d].
Tensors to_heads_inside(const Tensors& in) {
  const auto heads = [](const Tensor& x) { return x.slice(1, 1, 10).transpose(1, 2); };
  return {attention(in[0].transpose(1, 2), heads(in[1]), heads(in[2]))};
}

/// Of keys and values that each of three heads shares.
Tensors to_shared_heads(const Tensors& in) {
  const auto shared = [](const Tensor& x) { return repeat_interleave(x.slice(2, 0, 9), 3, 1); };
  return {attention(in[0], shared(in[1]), shared(in[2]))};
}

/// Parts of matrices by columns, and rows by them.
Tensors by_vectors(const Tensors& in) {
  return {matmul(in[0].slice(1, 2, 7), unsqueeze(in[1], -1)),
          matmul(unsqueeze(in[1].slice(1, 0, 3), 1), in[0].slice(1, 0, 9, 3))};
}

Tensors gated_halves(const Tensors& in) {
  const std::vector<Tensor> halves = in[0].chunk(2, -1);
  return {matmul(halves[0], in[1]) * sigmoid(matmul(halves[1], in[2]))};
}

/// Logits of one positive beside those of many others.
Tensors contrast(const Tensors& in) {
  const Tensor one = sum(in[0] * in[1], {1}, true),
               others = matmul(in[0], in[2].slice(0, 1, 8).T());
  return {log_softmax(cat({one, others, matmul(in[1], in[2].T()) + 0}, 1), 1)};
}

const std::vector<Row> kRows{
    {"OneQuery", tensors({{2, 3, 1, 8}, {2, 3, 12, 8}, {2, 3, 12, 8}}), to_filled(7)},
    {"SeveralQueries", tensors({{2, 3, 4, 8}, {2, 3, 12, 8}, {2, 3, 12, 8}}), to_filled(7)},
    {"OnePosition", tensors({{2, 3, 4, 8}, {2, 3, 12, 8}, {2, 3, 12, 8}}), to_filled(1)},
    {"NoPosition", tensors({{2, 3, 1, 8}, {2, 3, 12, 8}, {2, 3, 12, 8}}),
     [](const Tensors& in) -> Tensors {
       return {matmul(matmul(in[0], in[1].slice(2, 0, 0).transpose(-1, -2)), in[2].slice(2, 0, 0))};
     }},
    {"LongPart", tensors({{1, 2, 1, 16}, {1, 2, 700, 16}, {1, 2, 700, 16}}), to_filled(650)},
    {"LongPartOfSeveral", tensors({{1, 2, 5, 16}, {1, 2, 700, 16}, {1, 2, 700, 16}}),
     to_filled(650)},
    {"HeadsInside", tensors({{2, 1, 3, 8}, {2, 12, 3, 8}, {2, 12, 3, 8}}), to_heads_inside},
    {"QueriesOfHeadsInside", tensors({{2, 5, 3, 8}, {2, 12, 3, 8}, {2, 12, 3, 8}}),
     to_heads_inside},
    {"SharedHeads", tensors({{2, 6, 1, 8}, {2, 2, 12, 8}, {2, 2, 12, 8}}), to_shared_heads},
    {"QueriesOfSharedHeads", tensors({{2, 6, 5, 8}, {2, 2, 12, 8}, {2, 2, 12, 8}}),
     to_shared_heads},
    {"F64", tensors({{2, 3, 1, 8}, {2, 3, 12, 8}, {2, 3, 12, 8}}, f64), to_filled(7)},
    {"HeadsInsideF64", tensors({{2, 1, 3, 8}, {2, 12, 3, 8}, {2, 12, 3, 8}}, f64), to_heads_inside},
    {"ByVectors", tensors({{4, 9, 6}, {4, 6}}), by_vectors},
    {"GatedHalves", tensors({{5, 24}, {12, 7}, {12, 7}}), gated_halves},
    {"IntoConcatenations", tensors({{5, 6}, {5, 6}, {9, 6}}), contrast},
    {"OneRowOfGatedHalves", tensors({{1, 24}, {12, 7}, {12, 7}}), gated_halves},
};

TANDEM_CONTRACT(ProductsOfParts, kRows);

}  // namespace
}  // namespace tandem::testing
