// Attention in tiles of every instruction set, and in whole calls, against rows in f64; its bits on
// any number of threads; operands that end at a page that nobody may touch.
#include "machine/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "machine/attention/tiles.h"
#include "machine/threads/thread_pool.h"
#include "tests/unit/machine/instruction_sets.h"

namespace tandem::machine {
namespace {

using ir::BufferView;
using ir::DType;
using ir::Shape;

enum class MaskKind : uint8_t { None, Causal, Bool, Added };

struct Case {
  int64_t b, h, hk, t, s, d, e;
  MaskKind mask = MaskKind::None;
  Shape mask_sizes = {};
};

/// Tiles that are full, cut in every dimension, and widths that no vector fits; keys in parts; few
/// queries.
std::vector<Case> cases() {
  using enum MaskKind;
  return {{2, 3, 3, 64, 64, 64, 64},
          {1, 2, 2, 130, 130, 32, 32, Causal},
          {1, 4, 2, 75, 131, 20, 33},
          {2, 4, 1, 77, 40, 7, 64, Causal},
          {1, 2, 1, 16, 300, 128, 16, Causal},
          {1, 2, 2, 3, 200, 64, 16, Bool, {1, 1, 3, 200}},
          {2, 2, 2, 100, 33, 24, 40, Bool, {2, 1, 1, 33}},
          {2, 2, 1, 70, 67, 16, 256, Added, {1, 2, 70, 1}},
          {2, 2, 2, 65, 65, 1, 1, Added, {2, 2, 65, 65}},
          {1, 2, 2, 48, 48, 32, 32, Causal},
          {1, 2, 1, 81, 49, 17, 20, Causal},
          {1, 1, 1, 33, 95, 64, 64, Causal},
          {1, 1, 1, 400, 400, 16, 24, Causal},
          {1, 1, 1, 130, 700, 8, 8, Added, {1, 1, 130, 700}},
          {1, 1, 1, 94, 90, 3, 17},
          {1, 2, 1, 201, 201, 80, 80, Causal},
          {1, 1, 1, 330, 530, 128, 128},
          {1, 1, 1, 530, 300, 256, 80, Causal},
          {1, 4, 1, 300, 610, 17, 3, Causal},
          {2, 4, 2, 1, 700, 64, 64},
          {1, 8, 1, 4, 515, 33, 20, Causal},
          {1, 2, 1, 8, 300, 16, 5, Added, {1, 2, 8, 300}},
          {1, 2, 2, 1, 600, 40, 24, Bool, {1, 2, 1, 600}},
          {1, 1, 1, 1, 1, 3, 1},
          {1, 1, 1, 20, 0, 8, 8},
          {1, 1, 1, 2, 0, 8, 8},
          {1, 1, 1, 0, 5, 8, 8}};
}

template <class T>
struct Tensors {
  const Case& c;
  std::vector<T> query, key, value, mask, grad, result, sums, grad_query, grad_key, grad_value;
  std::vector<uint8_t> keep;

  explicit Tensors(const Case& of) : c(of) {
    const auto numbers = [](int64_t n, int64_t seed) {
      std::vector<T> out;
      for (int64_t i = 0; i < n; ++i)
        out.push_back(static_cast<T>((i * 37 + i / 7 + seed * 11) % 101 - 50) / static_cast<T>(32));
      return out;
    };
    query = numbers(c.b * c.h * c.t * c.d, 1), key = numbers(c.b * c.hk * c.s * c.d, 2);
    value = numbers(c.b * c.hk * c.s * c.e, 3), grad = numbers(c.b * c.h * c.t * c.e, 4);
    mask = numbers(ir::numel(c.mask_sizes), 5);
    for (size_t i = 0; i < mask.size(); ++i)  // the first row stays empty
      keep.push_back(mask[i] > 0 && (c.mask_sizes[2] == 1 || static_cast<int64_t>(i) >= c.s));
    result = grad, sums.resize(static_cast<size_t>(c.b * c.h * c.t));
    grad_query = query, grad_key = key, grad_value = value;
  }

  static constexpr DType kType = sizeof(T) == 4 ? DType::F32 : DType::F64;
  static BufferView view(std::vector<T>& v, const Shape& sizes) {
    return {v.data(), kType, sizes, ir::contiguous_strides(sizes)};
  }
  AttentionOptions options() const { return {.scale = 0.3, .causal = c.mask == MaskKind::Causal}; }

  void add_mask(std::vector<BufferView>& to) {
    if (c.mask == MaskKind::Added) to.push_back(view(mask, c.mask_sizes));
    if (c.mask == MaskKind::Bool)
      to.push_back({keep.data(), DType::Bool, c.mask_sizes, ir::contiguous_strides(c.mask_sizes)});
  }
  void run() {
    const Shape q{c.b, c.h, c.t, c.d}, k{c.b, c.hk, c.s, c.d}, v{c.b, c.hk, c.s, c.e},
        y{c.b, c.h, c.t, c.e}, rows{c.b, c.h, c.t};
    std::vector<BufferView> in{view(query, q), view(key, k), view(value, v)};
    std::vector<BufferView> out{view(result, y), view(sums, rows)}, of_in = in;
    add_mask(in);
    attend(in, options(), out);
    of_in.insert(of_in.begin(), view(grad, y));
    of_in.insert(of_in.end(), out.begin(), out.end());
    add_mask(of_in);
    out = {view(grad_query, q), view(grad_key, k), view(grad_value, v)};
    attend_backward(of_in, options(), out);
  }
  std::vector<std::vector<T>> results() const {
    return {result, sums, grad_query, grad_key, grad_value};
  }
};

template <class T>
void expect_near(const std::vector<T>& got, const std::vector<double>& want, const Case& c) {
  double most = 1e-3, far = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(want[i])) {
      EXPECT_EQ(want[i], got[i]);
      continue;
    }
    most = std::max(most, std::abs(want[i]));
    far = std::max(far, std::abs(got[i] - want[i]));
    EXPECT_FALSE(std::isnan(got[i]));
  }
  EXPECT_LE(far, 1e-5 * most) << c.t << " " << c.s << " " << c.d << " " << c.e;
}

void expect_near(const Tensors<float>& got, const Tensors<double>& want) {
  const auto results = got.results();
  const auto expected = want.results();
  for (size_t i = 0; i < results.size(); ++i) expect_near(results[i], expected[i], got.c);
}

TEST(Attention, InTilesIsNearThatByRows) {
  for (const Case& c : cases()) {
    Tensors<float> single(c);
    Tensors<double> twice(c);
    single.run();
    twice.run();
    expect_near(single, twice);
  }
}

std::vector<const attention::Tiles*> all_tiles() {
  return those_that_run(attention::kTilesBase, attention::kTilesAvx2, attention::kTilesAvx512);
}

/// The first head of the operands.
attention::Head head_of(Tensors<float>& t) {
  const Case& c = t.c;
  const bool rows = c.mask_sizes.rank() == 4 && c.mask_sizes[2] > 1,
             columns = c.mask_sizes.rank() == 4 && c.mask_sizes[3] > 1;
  return {.query = {t.query.data(), c.d},
          .key = {t.key.data(), c.d},
          .value = {t.value.data(), c.e},
          .mask = {.keep = c.mask == MaskKind::Bool ? t.keep.data() : nullptr,
                   .added = c.mask == MaskKind::Added ? t.mask.data() : nullptr,
                   .row_stride = rows ? (columns ? c.s : 1) : 0,
                   .column_stride = columns ? 1 : 0},
          .t = c.t,
          .s = c.s,
          .d = c.d,
          .e = c.e,
          .scale = 0.3F,
          .causal = c.mask == MaskKind::Causal};
}

/// The same, by `tiles`, in memory of which nothing may be read before it is written.
void run_head(const attention::Tiles& tiles, Tensors<float>& t) {
  const Case& c = t.c;
  const attention::Head head = head_of(t);
  constexpr float kUnread = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> scratch(static_cast<size_t>(tiles.forward_scratch(head)), kUnread);
  tiles.pack_forward(head, scratch.data());
  tiles.forward(head, 0, c.t, scratch.data(), t.result.data(), t.sums.data());
  scratch.assign(static_cast<size_t>(tiles.backward_scratch(head)), kUnread);
  tiles.pack_backward(head, scratch.data());
  tiles.backward(head, {{t.grad.data(), c.e}, {t.result.data(), c.e}, t.sums.data()},
                 scratch.data(), t.grad_query.data());
  tiles.finish_backward(head, scratch.data(), t.grad_key.data(), t.grad_value.data());
}

TEST(Attention, OfEveryInstructionSetIsNear) {
  for (Case c : cases()) {
    c.b = c.h = c.hk = 1;
    if (c.mask_sizes.rank() == 4) c.mask_sizes[0] = c.mask_sizes[1] = 1;
    Tensors<double> twice(c);
    twice.run();
    for (const attention::Tiles* tiles : all_tiles()) {
      Tensors<float> single(c);
      run_head(*tiles, single);
      expect_near(single, twice);
    }
  }
}

/// The first head of few queries beside the first part of its keys.
void run_few(const attention::Tiles& tiles, Tensors<float>& t) {
  const attention::Head head = head_of(t);
  std::vector<float> scratch(static_cast<size_t>(tiles.few_scratch(head, 1)));
  std::vector<float> partial(static_cast<size_t>(t.c.t * (t.c.e + 2)));
  tiles.few_forward(&head, 1, scratch.data(), partial.data());
  for (int64_t row = 0; row < t.c.t; ++row) {
    const float* const sums = partial.data() + row * (t.c.e + 2);
    const float total = sums[t.c.e + 1];
    for (int64_t i = 0; i < t.c.e; ++i)
      t.result[static_cast<size_t>(row * t.c.e + i)] = total == 0 ? 0 : sums[i] / total;
    t.sums[static_cast<size_t>(row)] = sums[t.c.e] + std::log(total);
  }
  const attention::HeadGradient gradient{
      {t.grad.data(), t.c.e}, {t.result.data(), t.c.e}, t.sums.data()};
  tiles.few_backward(&head, &gradient, 1, scratch.data(), t.grad_query.data(), t.grad_key.data(),
                     t.grad_value.data());
}

TEST(Attention, OfFewQueriesOfEveryInstructionSetIsNear) {
  for (Case c : cases()) {
    c.b = c.h = c.hk = 1;
    c.s = std::min(c.s, attention::kFewKeys);
    if (c.t > 8 || c.s == 0) continue;
    if (c.mask_sizes.rank() == 4) c.mask_sizes = {1, 1, c.mask_sizes[2], c.s};
    Tensors<double> twice(c);
    twice.run();
    for (const attention::Tiles* tiles : all_tiles()) {
      Tensors<float> single(c);
      run_few(*tiles, single);
      expect_near(single, twice);
    }
  }
}

TEST(Attention, BitsDoNotDependOnTheThreads) {
  const int before = num_threads();
  assume_processors(8);
  for (const Case& c : cases()) {
    std::vector<std::vector<float>> first;
    for (const int threads : {1, 2, 3, 8}) {
      set_num_threads(threads);
      Tensors<float> t(c);
      t.run();
      if (first.empty()) first = t.results();
      EXPECT_EQ(first, t.results()) << c.t << " " << threads;
    }
  }
  assume_processors(0);
  set_num_threads(before);
}

TEST(Attention, TilesThatRowsDoNotSeeLeaveThemAsTheyAre) {
  const Case c{1, 1, 1, 90, 150, 16, 24, MaskKind::Bool, {1, 1, 90, 150}};
  Tensors<float> single(c);
  Tensors<double> twice(c);
  for (int64_t i = 0; i < 90 * 150; ++i) {
    const int64_t row = i / 150, tile = i % 150 / attention::kTile;
    single.keep[static_cast<size_t>(i)] = twice.keep[static_cast<size_t>(i)] = row % 4 == tile;
  }
  single.run();
  twice.run();
  expect_near(single, twice);
}

TEST(Attention, NaNIsSeenByWhoLooksThere) {
  const Case c{1, 1, 1, 70, 70, 16, 16, MaskKind::Causal};
  Tensors<float> t(c);
  t.key[66 * 16] = std::numeric_limits<float>::quiet_NaN();
  t.run();
  for (int64_t i = 0; i < 70; ++i) EXPECT_EQ(i >= 66, std::isnan(t.result[i * 16])) << i;
}

}  // namespace
}  // namespace tandem::machine
