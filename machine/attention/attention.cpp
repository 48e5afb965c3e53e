#include "machine/attention/attention.h"

#include "machine/attention/heads.h"
#include "machine/attention/tiles.h"
#include "machine/cpu.h"
#include "machine/memory/arena.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine {
namespace attention {
namespace {

using ir::BufferView;

const Tiles& tiles() {
  const CpuFeatures& cpu = cpu_features();
  if (cpu.avx512 && cpu.fma) return kTilesAvx512;
  return cpu.avx2 && cpu.fma ? kTilesAvx2 : kTilesBase;
}

/// Working memory of each thread.
class Scratch {
 public:
  explicit Scratch(int64_t floats)
      : floats_((floats + kLine - 1) / kLine * kLine),
        lease_(borrow_arena(static_cast<size_t>(floats_) * sizeof(float) *
                            static_cast<size_t>(num_threads()))) {}
  float* of(int worker) const { return reinterpret_cast<float*>(lease_.data()) + floats_ * worker; }

 private:
  static constexpr int64_t kLine = 32;
  int64_t floats_;
  ArenaLease lease_;
};

/// The operands of one call, head by head.
struct Call {
  const BufferView &query, &key, &value;
  const BufferView* mask;
  const AttentionOptions& options;
  Sizes n{query, value, key};

  static Rows rows(const BufferView& of, int64_t b, int64_t h) {
    return {head_of<const float>(of, b, h), of.strides[2]};
  }

  /// Query head `h`, beside the keys that serve it.
  Head head(int64_t b, int64_t h) const {
    const int64_t hk = h / n.group();
    return {.query = rows(query, b, h),
            .key = rows(key, b, hk),
            .value = rows(value, b, hk),
            .mask = mask ? mask_of(b, h) : HeadMask{},
            .t = n.t,
            .s = n.s,
            .d = n.d,
            .e = n.e,
            .scale = static_cast<float>(options.scale),
            .causal = options.causal};
  }

  HeadMask mask_of(int64_t b, int64_t h) const {
    const MaskStrides strides(*mask);
    HeadMask found{.row_stride = strides.row, .column_stride = strides.column};
    if (is_bool(*mask))
      found.keep = static_cast<const uint8_t*>(mask->data) + strides.of(b, h);
    else
      found.added = static_cast<const float*>(mask->data) + strides.of(b, h);
    return found;
  }
};

/// A head of keys is worked on by several, each of which packs it, where there are few.
int64_t parts_of(const Sizes& n, int64_t tiles) {
  constexpr int64_t kUnits = 32;
  return std::clamp<int64_t>(kUnits / std::max<int64_t>(n.b * n.hk, 1), 1,
                             std::max<int64_t>(tiles, 1));
}

void attend_in_tiles(std::span<const BufferView> in, const AttentionOptions& options,
                     std::span<const BufferView> out) {
  const Call c{in[0], in[1], in[2], in.size() > 3 ? &in[3] : nullptr, options};
  const Sizes& n = c.n;
  const int64_t tiles_of_head = (n.t + kTile - 1) / kTile, all = tiles_of_head * n.group();
  const int64_t parts = parts_of(n, all), units = n.b * n.hk * parts;
  const Tiles& run = tiles();
  const Scratch scratch(run.forward_scratch(c.head(0, 0)));
  const auto unit = [&](int64_t at, float* memory) {
    const int64_t part = at % parts, b = at / parts / n.hk, hk = at / parts % n.hk;
    run.pack_forward(c.head(b, hk * n.group()), memory);
    for (int64_t i = all * part / parts; i < all * (part + 1) / parts; ++i) {
      const int64_t h = hk * n.group() + i / tiles_of_head, row = (b * n.h + h) * n.t;
      run.forward(c.head(b, h), i % tiles_of_head * kTile, memory,
                  static_cast<float*>(out[0].data) + row * n.e,
                  static_cast<float*>(out[1].data) + row);
    }
  };
  const double flops = 2 * n.flops() * static_cast<double>(n.group());
  parallel_for(units, grain_of(flops / static_cast<double>(parts)),
               [&](int64_t begin, int64_t end, int worker) {
                 for (int64_t i = begin; i < end; ++i) unit(i, scratch.of(worker));
               });
}

void attend_backward_in_tiles(std::span<const BufferView> in, const AttentionOptions& options,
                              std::span<const BufferView> out) {
  const Call c{in[1], in[2], in[3], in.size() > 6 ? &in[6] : nullptr, options};
  const Sizes& n = c.n;
  const Tiles& run = tiles();
  const Scratch scratch(run.backward_scratch(c.head(0, 0)));
  const auto to = [&](int i, int64_t row) { return static_cast<float*>(out[i].data) + row; };
  const auto unit = [&](int64_t at, float* memory) {
    const int64_t b = at / n.hk, first = at % n.hk * n.group();
    run.pack_backward(c.head(b, first), memory);
    for (int64_t h = first; h < first + n.group(); ++h)
      run.backward(c.head(b, h),
                   {.grad = Call::rows(in[0], b, h),
                    .result = Call::rows(in[4], b, h),
                    .logsumexp = head_of<const float>(in[5], b, h)},
                   memory, to(0, (b * n.h + h) * n.t * n.d));
    run.finish_backward(c.head(b, first), memory, to(1, at * n.s * n.d), to(2, at * n.s * n.e));
  };
  parallel_for(n.b * n.hk, grain_of(5 * n.flops() * static_cast<double>(n.group())),
               [&](int64_t begin, int64_t end, int worker) {
                 for (int64_t i = begin; i < end; ++i) unit(i, scratch.of(worker));
               });
}

}  // namespace
}  // namespace attention

void attend(std::span<const ir::BufferView> operands, const AttentionOptions& options,
            std::span<const ir::BufferView> results) {
  if (ir::numel(results[1].sizes) == 0) return;
  if (results[0].dtype == ir::DType::F64)
    return attention::attend_by_rows(operands, options, results);
  attention::attend_in_tiles(operands, options, results);
}

void attend_backward(std::span<const ir::BufferView> operands, const AttentionOptions& options,
                     std::span<const ir::BufferView> results) {
  const ir::BufferView &query = operands[1], &key = operands[2];
  if (query.sizes[0] == 0 || key.sizes[1] == 0) return;
  if (results[0].dtype == ir::DType::F64)
    return attention::attend_backward_by_rows(operands, options, results);
  attention::attend_backward_in_tiles(operands, options, results);
}

}  // namespace tandem::machine
