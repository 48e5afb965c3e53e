// The heads of attention's operands.
#ifndef TANDEM_MACHINE_ATTENTION_HEADS_H
#define TANDEM_MACHINE_ATTENTION_HEADS_H

#include <algorithm>

#include "ir/buffer.h"
#include "machine/attention/attention.h"

namespace tandem::machine::attention {

/// Sizes of query [b, h, t, d], key [b, hk, s, d] and value [b, hk, s, e].
struct Sizes {
  int64_t b, h, hk, t, s, d, e;

  Sizes(const ir::BufferView& query, const ir::BufferView& value, const ir::BufferView& key)
      : b(query.sizes[0]),
        h(query.sizes[1]),
        hk(key.sizes[1]),
        t(query.sizes[2]),
        s(key.sizes[2]),
        d(query.sizes[3]),
        e(value.sizes[3]) {}

  int64_t group() const { return hk == 0 ? 0 : h / hk; }  // heads of queries for a head of keys
  /// Multiplications and additions of one product, of a head of queries.
  double flops() const {
    return static_cast<double>(t) * static_cast<double>(s) * static_cast<double>(d + e);
  }
};

/// Head `head` of image `batch`: where its first element lies.
template <class T>
T* head_of(const ir::BufferView& of, int64_t batch, int64_t head) {
  return static_cast<T*>(of.data) + batch * of.strides[0] + head * of.strides[1];
}

/// A mask's strides, 0 where its size is 1.
struct MaskStrides {
  int64_t batch, head, row, column;

  explicit MaskStrides(const ir::BufferView& mask) {
    const auto stride = [&](int d) { return mask.sizes[d] == 1 ? 0 : int64_t{mask.strides[d]}; };
    batch = stride(0), head = stride(1), row = stride(2), column = stride(3);
  }
  int64_t of(int64_t b, int64_t h) const { return b * batch + h * head; }
};

inline bool is_bool(const ir::BufferView& mask) { return mask.dtype == ir::DType::Bool; }

/// As many units as are worth a thread, of `flops` each.
inline int64_t grain_of(double flops) {
  constexpr double kGrain = 65536;
  return static_cast<int64_t>(kGrain / std::max(flops, 1.0)) + 1;
}

/// The same in f64, by loops over rows.
void attend_by_rows(std::span<const ir::BufferView> operands, const AttentionOptions& options,
                    std::span<const ir::BufferView> results);
void attend_backward_by_rows(std::span<const ir::BufferView> operands,
                             const AttentionOptions& options,
                             std::span<const ir::BufferView> results);

}  // namespace tandem::machine::attention

#endif  // TANDEM_MACHINE_ATTENTION_HEADS_H
