// Attention and its gradients, without ever holding a matrix of scores: result = softmax(scale *
// query key^T + mask) value, in tiles of queries and keys with a running maximum (f32), or row by
// row (f64). A head of keys serves heads / kv_heads heads of queries. How the work is cut and
// summed depends on sizes alone, so no bit depends on the number of threads.
#ifndef TANDEM_MACHINE_ATTENTION_ATTENTION_H
#define TANDEM_MACHINE_ATTENTION_ATTENTION_H

#include <span>

#include "ir/buffer.h"

namespace tandem::machine {

struct AttentionOptions {
  double scale = 1;
  bool causal = false;  // query i sees keys 0 to i
};

/// Operands: query [b, h, t, d], key [b, hk, s, d], value [b, hk, s, e]; maybe a mask of [b, h, t,
/// s], each size of which may be 1: bool (which scores stay) or of the others' dtype (added).
/// Results, contiguous: [b, h, t, e], and the logarithm of each row's sum of exponentials [b, h,
/// t]. A row of which nothing stays gives zeros and -inf. Elements of the last dimension lie side
/// by side, otherwise operands have any strides. Throws Error (out_of_memory).
void attend(std::span<const ir::BufferView> operands, const AttentionOptions& options,
            std::span<const ir::BufferView> results);

/// Operands: the result's gradient, query, key, value, both results, maybe the mask. Results,
/// contiguous: the gradients of query, key and value.
void attend_backward(std::span<const ir::BufferView> operands, const AttentionOptions& options,
                     std::span<const ir::BufferView> results);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_ATTENTION_ATTENTION_H
