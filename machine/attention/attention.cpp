#include "machine/attention/attention.h"

#include <array>
#include <cmath>
#include <limits>

#include "machine/attention/heads.h"
#include "machine/attention/tiles.h"
#include "machine/cpu.h"
#include "machine/memory/arena.h"
#include "machine/memory/worker_memory.h"
#include "machine/rounding.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine {
namespace attention {
namespace {

using ir::BufferView;

const Tiles& tiles() { return *for_this_processor(&kTilesBase, &kTilesAvx2, &kTilesAvx512); }

/// The operands of one call, head by head.
struct Call {
  const BufferView &query, &key, &value;
  const BufferView* mask;
  const AttentionOptions& options;
  Sizes n{query, value, key};

  static Rows rows(const BufferView& of, int64_t b, int64_t h) {
    return {head_of<const float>(of, b, h), of.strides[2]};
  }

  /// Query head `h`, beside the keys that serve it, or those of them from `first` to `end`.
  Head head(int64_t b, int64_t h, int64_t first, int64_t end) const {
    const int64_t hk = h / n.group();
    return {.query = rows(query, b, h),
            .key = rows_from(key, b, hk, first),
            .value = rows_from(value, b, hk, first),
            .mask = mask ? mask_of(b, h, first) : HeadMask{},
            .t = n.t,
            .s = end - first,
            .d = n.d,
            .e = n.e,
            .first_key = first,
            .scale = static_cast<float>(options.scale),
            .causal = options.causal};
  }
  Head head(int64_t b, int64_t h) const { return head(b, h, 0, n.s); }

  static Rows rows_from(const BufferView& of, int64_t b, int64_t h, int64_t first) {
    const Rows all = rows(of, b, h);
    return {all.data + first * all.stride, all.stride};
  }

  HeadMask mask_of(int64_t b, int64_t h, int64_t key) const {
    const MaskStrides strides(*mask);
    HeadMask found{.row_stride = strides.row, .column_stride = strides.column};
    const int64_t at = strides.of(b, h) + key * strides.column;
    if (is_bool(*mask))
      found.keep = static_cast<const uint8_t*>(mask->data) + at;
    else
      found.added = static_cast<const float*>(mask->data) + at;
    return found;
  }
};

/// f(unit, its working memory) of each unit, of `flops`; `floats`: how much of that.
template <class F>
void for_each_unit(int64_t units, double flops, int64_t floats, F f) {
  const WorkerMemory memory(floats);
  parallel_for(units, grain_of(flops), [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) f(i, memory.of(worker));
  });
}

/// A head of keys is worked on by several, each of which packs it, where there are few.
int64_t parts_of(const Sizes& n, int64_t units, int64_t tiles) {
  return std::clamp<int64_t>(units / std::max<int64_t>(n.b * n.hk, 1), 1,
                             std::max<int64_t>(tiles, 1));
}

/// The first of `all` tiles of a part, where parts have about as much to do; tile i takes work(i).
template <class Work>
int64_t first_tile(int64_t all, int64_t part, int64_t parts, Work work) {
  if (all == 0) return 0;
  int64_t total = 0, done = 0, tile = 0;
  for (int64_t i = 0; i < all; ++i) total += work(i);
  for (; tile < all && (done + work(tile)) * parts <= total * part; ++tile) done += work(tile);
  return std::clamp(tile, part, all - (parts - part));  // none is empty
}

/// Tiles [first, end) of the queries that one head of keys serves, head by head.
struct Stretch {
  int64_t first, end, tiles_of_head;

  /// Behind the last tile of the same head.
  int64_t end_of_head(int64_t tile) const {
    return std::min((tile / tiles_of_head + 1) * tiles_of_head, end);
  }
  /// How many keys some of its queries see: those behind need not be packed.
  int64_t keys(const Sizes& n, bool causal) const {
    if (!causal || end_of_head(first) < end) return n.s;
    return std::min(((end - 1) % tiles_of_head + 1) * kTile, n.s);
  }
};

void attend_in_tiles(const Call& c, std::span<const BufferView> out) {
  constexpr int64_t kUnits = 32;
  const Sizes& n = c.n;
  const int64_t tiles_of_head = ceil_div(n.t, kTile), all = tiles_of_head * n.group();
  const int64_t parts = parts_of(n, kUnits, all);
  const Tiles& run = tiles();
  const auto first_of = [&](int64_t part) {
    const auto keys = [&](int64_t i) {
      return c.options.causal ? std::max<int64_t>(std::min((i % tiles_of_head + 1) * kTile, n.s), 1)
                              : 1;
    };
    return first_tile(all, part, parts, keys);
  };
  const auto unit = [&](int64_t at, float* memory) {
    const int64_t part = at % parts, b = at / parts / n.hk, hk = at / parts % n.hk;
    const Stretch stretch{first_of(part), first_of(part + 1), tiles_of_head};
    const int64_t keys = stretch.keys(n, c.options.causal);
    run.pack_forward(c.head(b, hk * n.group(), 0, keys), memory);
    for (int64_t i = stretch.first, next = 0; i < stretch.end; i = next) {
      next = stretch.end_of_head(i);
      const int64_t h = hk * n.group() + i / tiles_of_head, row = (b * n.h + h) * n.t,
                    first = i % tiles_of_head * kTile;
      run.forward(c.head(b, h, 0, keys), first, std::min(first + (next - i) * kTile, n.t), memory,
                  static_cast<float*>(out[0].data) + row * n.e,
                  static_cast<float*>(out[1].data) + row);
    }
  };
  const double flops = 2 * n.flops() * static_cast<double>(n.group());
  for_each_unit(n.b * n.hk * parts, flops / static_cast<double>(parts),
                run.forward_scratch(c.head(0, 0)), unit);
}

// --- gradients in tiles: parts of the keys

/// Operands of the backward, and where its results go.
struct Gradients {
  const Call& call;
  std::span<const BufferView> in, out;

  HeadGradient of(int64_t b, int64_t h) const {
    return {.grad = Call::rows(in[0], b, h),
            .result = Call::rows(in[4], b, h),
            .logsumexp = head_of<const float>(in[5], b, h)};
  }
  float* to(int i, int64_t element) const { return static_cast<float*>(out[i].data) + element; }
};

/// Sums of query gradients, one for each part of the keys: the first is where the sum goes.
class Sums {
 public:
  Sums(float* to, int64_t floats, int64_t parts)
      : to_(to),
        floats_(floats),
        parts_(parts),
        lease_(borrow_arena(static_cast<size_t>(floats * (parts - 1)) * sizeof(float))) {}

  float* of(int64_t part) const {
    return part == 0 ? to_ : reinterpret_cast<float*>(lease_.data()) + floats_ * (part - 1);
  }
  /// Adds them up, in their order.
  void finish() const {
    constexpr int64_t kBlock = 4096;
    if (parts_ == 1) return;
    parallel_for(ceil_div(floats_, kBlock), 4, [&](int64_t begin, int64_t end, int) {
      const int64_t last = std::min(end * kBlock, floats_);
      for (int64_t part = 1; part < parts_; ++part)
        for (int64_t i = begin * kBlock; i < last; ++i) to_[i] += of(part)[i];
    });
  }

 private:
  float* to_;
  int64_t floats_, parts_;
  ArenaLease lease_;
};

void attend_backward_in_tiles(const Gradients& g) {
  constexpr int64_t kUnits = 16;  // each has query gradients of its own
  const Call& c = g.call;
  const Sizes& n = c.n;
  const Tiles& run = tiles();
  const int64_t tiles_of_keys = ceil_div(n.s, kTile), parts = parts_of(n, kUnits, tiles_of_keys);
  const auto first_key = [&](int64_t part) {
    const auto queries = [&](int64_t i) {
      return c.options.causal ? std::max<int64_t>(n.t - i * kTile, 1) : 1;
    };
    return std::min(first_tile(tiles_of_keys, part, parts, queries) * kTile, n.s);
  };
  const Sums query(g.to(0, 0), n.b * n.h * n.t * n.d, parts);
  const auto unit = [&](int64_t at, float* memory) {
    const int64_t part = at % parts, head = at / parts, b = head / n.hk,
                  first = head % n.hk * n.group(), key = first_key(part), end = first_key(part + 1);
    run.pack_backward(c.head(b, first, key, end), memory);
    for (int64_t h = first; h < first + n.group(); ++h)
      run.backward(c.head(b, h, key, end), g.of(b, h), memory,
                   query.of(part) + (b * n.h + h) * n.t * n.d);
    run.finish_backward(c.head(b, first, key, end), memory, g.to(1, (head * n.s + key) * n.d),
                        g.to(2, (head * n.s + key) * n.e));
  };
  int64_t most = 0;  // keys of a part
  for (int64_t part = 0; part < parts; ++part)
    most = std::max(most, first_key(part + 1) - first_key(part));
  const double flops = 5 * n.flops() * static_cast<double>(n.group());
  for_each_unit(n.b * n.hk * parts, flops / static_cast<double>(parts),
                run.backward_scratch(c.head(0, 0, 0, most)), unit);
  query.finish();
}

// --- few queries: parts of the keys, which the heads of a group share

bool has_few_queries(const Sizes& n) {
  constexpr int64_t kMost = 8;
  return n.t > 0 && n.t <= kMost && n.t * n.group() <= kFewRows && n.s > 0;
}

/// The heads of a group beside one part of their keys.
struct Group {
  std::array<Head, kFewRows> heads;
  int64_t b, first;

  Group(const Call& c, int64_t head, int64_t part) : b(head / c.n.hk) {
    first = head % c.n.hk * c.n.group();
    for (int64_t h = 0; h < c.n.group(); ++h)
      heads[static_cast<size_t>(h)] =
          c.head(b, first + h, part * kFewKeys, std::min((part + 1) * kFewKeys, c.n.s));
  }
};

/// A row of the result from what the parts of the keys give, which lie `step` apart.
void join_parts(const float* partial, int64_t parts, int64_t step, int64_t e, float* result,
                float* logsumexp) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  float largest = kNever, total = 0;
  for (int64_t i = 0; i < parts; ++i) largest = std::max(largest, partial[i * step + e]);
  const float base = largest == kNever ? 0 : largest;
  std::fill_n(result, e, 0.0F);
  for (int64_t i = 0; i < parts; ++i) {
    const float* const part = partial + i * step;
    const float factor = std::exp(part[e] - base);
    total += factor * part[e + 1];
    for (int64_t j = 0; j < e; ++j) result[j] += factor * part[j];
  }
  for (int64_t j = 0; j < e; ++j) result[j] *= total == 0 ? 0 : 1 / total;
  *logsumexp = total == 0 ? kNever : base + std::log(total);
}

void attend_few(const Call& c, std::span<const BufferView> out) {
  const Sizes& n = c.n;
  const Tiles& run = tiles();
  const int64_t parts = ceil_div(n.s, kFewKeys), group = n.group(), rows = group * n.t,
                step = rows * (n.e + 2), heads = n.b * n.hk;
  const ArenaLease lease = borrow_arena(static_cast<size_t>(heads * parts * step) * sizeof(float));
  auto* const partial = reinterpret_cast<float*>(lease.data());
  const double flops = 2 * n.flops() * static_cast<double>(group) / static_cast<double>(parts);
  for_each_unit(heads * parts, flops, run.few_scratch(c.head(0, 0), group),
                [&](int64_t at, float* memory) {
                  const Group g(c, at / parts, at % parts);
                  run.few_forward(g.heads.data(), group, memory, partial + at * step);
                });
  for_each_unit(heads * rows, static_cast<double>(parts * n.e), 0, [&](int64_t at, float*) {
    const int64_t head = at / rows, row = at % rows;
    join_parts(partial + head * parts * step + row * (n.e + 2), parts, step, n.e,
               static_cast<float*>(out[0].data) + at * n.e, static_cast<float*>(out[1].data) + at);
  });
}

void attend_backward_few(const Gradients& g) {
  const Call& c = g.call;
  const Sizes& n = c.n;
  const Tiles& run = tiles();
  const int64_t parts = ceil_div(n.s, kFewKeys), group = n.group(), heads = n.b * n.hk;
  const Sums query(g.to(0, 0), n.b * n.h * n.t * n.d, parts);
  const double flops = 5 * n.flops() * static_cast<double>(group) / static_cast<double>(parts);
  for_each_unit(
      heads * parts, flops, run.few_scratch(c.head(0, 0), group), [&](int64_t at, float* memory) {
        const int64_t head = at / parts, part = at % parts, key = head * n.s + part * kFewKeys;
        const Group of(c, head, part);
        std::array<HeadGradient, kFewRows> gradients;
        for (int64_t h = 0; h < group; ++h)
          gradients[static_cast<size_t>(h)] = g.of(of.b, of.first + h);
        run.few_backward(of.heads.data(), gradients.data(), group, memory,
                         query.of(part) + head * group * n.t * n.d, g.to(1, key * n.d),
                         g.to(2, key * n.e));
      });
  query.finish();
}

}  // namespace
}  // namespace attention

void attend(std::span<const ir::BufferView> in, const AttentionOptions& options,
            std::span<const ir::BufferView> out) {
  if (ir::numel(out[1].sizes) == 0) return;
  if (out[0].dtype == ir::DType::F64) return attention::attend_by_rows(in, options, out);
  const attention::Call call{in[0], in[1], in[2], in.size() > 3 ? &in[3] : nullptr, options};
  if (attention::has_few_queries(call.n)) return attention::attend_few(call, out);
  attention::attend_in_tiles(call, out);
}

void attend_backward(std::span<const ir::BufferView> in, const AttentionOptions& options,
                     std::span<const ir::BufferView> out) {
  if (in[1].sizes[0] == 0 || in[2].sizes[1] == 0) return;
  if (out[0].dtype == ir::DType::F64) return attention::attend_backward_by_rows(in, options, out);
  const attention::Call call{in[1], in[2], in[3], in.size() > 6 ? &in[6] : nullptr, options};
  const attention::Gradients gradients{call, in, out};
  if (attention::has_few_queries(call.n)) return attention::attend_backward_few(gradients);
  attention::attend_backward_in_tiles(gradients);
}

}  // namespace tandem::machine
