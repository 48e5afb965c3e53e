// Whole programs through compile(): eager and compiled must agree on everything a caller can see.
#include <gtest/gtest.h>

#include <bit>

#include "tests/support/check_compiled.h"
#include "tests/support/threads.h"

namespace tandem::testing {
namespace {

/// Tensors of these sizes.
MakeInputs leaves(const std::vector<Shape>& sizes, DType dtype = f32) {
  return [=](Source& source) {
    Tensors t;
    for (size_t i = 0; i < sizes.size(); ++i) t.push_back(source.noise(sizes[i], i + 1, dtype));
    return t;
  };
}

const CheckOptions kAllPartitions{
    .partitions = {"default", "reference", "save-all", "recompute-all"},
    .settings = kLeavesInGradMode};

TEST(Programs, CosChain) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        Tensor x = in[0];
        for (int i = 0; i < 10; ++i) x = cos(x);
        return {sum(x)};
      },
      leaves({{1000}}), kAllPartitions);
}

TEST(Programs, Tiny) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        Tensor x = in[0];
        for (int i = 0; i < 5; ++i) x = tanh(x * in[1]);
        return {sum(x)};
      },
      leaves({{16}, {16}}), kAllPartitions);
}

TEST(Programs, Broadcasting) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        return {exp(in[0] * in[1] + in[2]) / (in[0] * in[0] + 1.5)};
      },
      leaves({{5, 7}, {7}, {5, 1}}), kAllPartitions);
}

TEST(Programs, Mlp) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        const Tensor h = relu(matmul(in[0], in[1]) + in[2]);
        const Tensor logits = matmul(h, in[3]) + in[4];
        return {cross_entropy(logits, arange(17).remainder(5)), h};
      },
      leaves({{17, 12}, {12, 9}, {9}, {9, 5}, {5}}), kAllPartitions);
}

TEST(Programs, SoftmaxAndLayerNorm) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        const Tensor h = layer_norm(gelu(in[0], "tanh"), {33}, in[1], in[2], 1e-5);
        return {softmax(h * 0.125, -1), log_softmax(h, 0)};
      },
      leaves({{6, 33}, {33}, {33}}, f64), kAllPartitions);
}

// What leads to the only element of the last vector, comparisons and masks among it.
TEST(Programs, OneElementBehindWholeVectors) {
  for (const DType dtype : {f32, f64})
    for (const int64_t n : {1, 2, 3, 5, 9, 17, 33, 65, 129, 257}) {
      SCOPED_TRACE(n);
      check_compiled(
          [](const Tensors& in) -> Tensors {
            const Tensor& x = in[0];
            const Tensor sizes = norm(x, 2, {1}, true), is_none = sizes == 0;
            const Tensor factors = where(sizes > 0.5, 1 / (sizes + 1e-7), 1);
            return {factors * x, where(is_none, 1, sqrt(where(is_none, 1, sizes))),
                    sum(factors * x), where(logical_and(x > 0, sizes < 0.9), exp(x), x)};
          },
          leaves({{n, 1}}, dtype), {.settings = kLeavesInGradMode});
    }
}

// The same of rows of which a vector has many, each column by itself.
TEST(Programs, OneRowBehindWholeVectors) {
  for (const DType dtype : {f32, f64})
    for (const int64_t n : {9, 17, 33, 65, 129}) {
      SCOPED_TRACE(n);
      check_compiled(
          [](const Tensors& in) -> Tensors {
            return {cosine_similarity(in[0], in[1], -1), normalize(in[0]) * in[1]};
          },
          leaves({{n, 2}, {n, 2}}, dtype), {.settings = kLeavesInGradMode});
    }
}

// 65536 numbers are summed in four blocks.
TEST(Programs, RowsAsShortAsLongOnesHaveBlocks) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        const Tensor shifts = sum(in[1], {1}, true);
        return {sum(in[0], {1}), amax(in[0] + shifts, {1})};
      },
      leaves({{5, 4}, {5, 65536}}), {.settings = kLeavesInGradMode});
}

TEST(Programs, Attention) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        return {scaled_dot_product_attention(in[0], in[1], in[2], {}, true)};
      },
      leaves({{2, 3, 8, 4}, {2, 3, 8, 4}, {2, 3, 8, 4}}), kAllPartitions);
}

TEST(Programs, AttentionOverTransposedHeads) {
  const auto head = [](const Tensor& t) { return t.view({2, 8, 3, 4}).transpose(1, 2); };
  check_compiled(
      [head](const Tensors& in) -> Tensors {
        return {scaled_dot_product_attention(head(in[0]), head(in[1]), head(in[2]), {}, true)};
      },
      leaves({{2, 8, 12}, {2, 8, 12}, {2, 8, 12}}), kAllPartitions);
}

/// Self-attention of `heads` heads on [batch, time, channels], q, k and v in one product.
Tensor attention(const Tensors& in, int64_t heads) {
  const Dim batch = in[0].size(0), time = in[0].size(1), channels = in[0].size(2);
  const Tensors parts = split(matmul(in[0], in[1]) + in[2], channels, 2);
  const auto head = [&](const Tensor& t) {
    return t.view({batch, time, heads, channels / heads}).transpose(1, 2);
  };
  const Tensor y =
      scaled_dot_product_attention(head(parts[0]), head(parts[1]), head(parts[2]), {}, true);
  return matmul(y.transpose(1, 2).reshape({batch, time, channels}), in[3]);
}

constexpr int64_t kLayers[][4] = {  // batch, time, heads, width of a head
    {2, 8, 3, 4}, {1, 7, 3, 2},  {3, 5, 1, 4}, {1, 5, 1, 3},
    {2, 1, 3, 4}, {2, 17, 5, 9}, {2, 3, 2, 1}};

std::vector<Shape> attention_sizes(const int64_t (&s)[4]) {
  const int64_t channels = s[2] * s[3];
  return {{s[0], s[1], channels}, {channels, 3 * channels}, {3 * channels}, {channels, channels}};
}

TEST(Programs, AttentionOfHeadsSideBySide) {
  for (const auto& sizes : kLayers)
    check_compiled([&](const Tensors& in) -> Tensors { return {attention(in, sizes[2])}; },
                   leaves(attention_sizes(sizes)), kAllPartitions);
}

std::vector<uint32_t> bits_of(const Tensor& t) {
  std::vector<uint32_t> bits;
  for (const float x : t.to_vector<float>()) bits.push_back(std::bit_cast<uint32_t>(x));
  return bits;
}

TEST(Programs, GradientsOfAttentionHaveTheSameBitsAtEveryPartition) {
  const Threads threads(1);
  for (const auto& sizes : kLayers) {
    Tensors in;
    for (const Shape& s : attention_sizes(sizes)) in.push_back(randn(s).requires_grad_(true));
    Tensors expected;
    for (const char* partition : {"default", "reference", "save-all", "recompute-all"}) {
      const auto f =
          compile([&](const Tensors& t) { return mean(square(attention(t, sizes[2]) + t[0])); },
                  {.partition = partition});
      for (const int count : {1, 2, 5}) {
        Threads::set(count);
        const Tensors grads = grad({f(in)}, in);
        if (expected.empty()) expected = grads;
        for (size_t i = 0; i < grads.size(); ++i)
          EXPECT_EQ(bits_of(grads[i]), bits_of(expected[i]))
              << partition << " " << count << " " << i;
      }
    }
  }
}

TEST(Programs, LossesOfStridedOperands) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        const Tensor labels = arange(10).remainder(5).view({5, 2}).select(1, 1);
        return {cross_entropy(in[0].t(), labels), embedding(in[0].t(), arange(4).view({2, 2}).t())};
      },
      leaves({{7, 5}}), kAllPartitions);
}

TEST(Programs, EmbeddingAccumulatesRepeatedRows) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        return {embedding(in[0], tensor({3, 1, 3, 0}, i64)) * 2.0};
      },
      leaves({{5, 6}}), kAllPartitions);
}

TEST(Programs, EmbeddingTiedToTheLogits) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        const Tensor tokens = tensor({3, 1, 3, 0, 6, 3}, i64),
                     targets = tensor({0, 5, 3, 3, 2, 1}, i64);
        const Tensor hidden = tanh(matmul(embedding(in[0], tokens), in[1]));
        return {cross_entropy(matmul(hidden, in[0].t()), targets)};
      },
      leaves({{7, 20}, {20, 20}}), kAllPartitions);
}

TEST(Programs, WriteThroughAView) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        const Tensor y = zeros({3, 3});
        y.select(1, 1).add_(in[0]);
        return {y};
      },
      leaves({{3}}), kAllPartitions);
}

TEST(Programs, InputMutation) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        in[0].view({-1}).add_(1.0);
        return {in[0] * 2.0};
      },
      leaves({{2, 3}}));
}

TEST(Programs, MutatedInputIsReturned) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        in[0].mul_(in[1]);
        return {in[0], in[0].t()};
      },
      leaves({{2, 3}, {2, 3}}));
}

TEST(Programs, NonLeafMutationCarriesGradient) {
  const auto inputs = [] {
    const Tensor x = noise({4}, 1).requires_grad_();
    return Tensors{x, x * 3.0};
  };
  check_compiled(
      [](const Tensors& in) -> Tensors {
        in[1].mul_(in[0]);
        return {in[1] + 1.0};
      },
      inputs);
}

TEST(Programs, ViewsOfInputs) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        return {in[0].transpose(0, 1), in[0].slice(0, 1, 3), in[0]};
      },
      leaves({{4, 5}}));
}

TEST(Programs, ReductionsInF64) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        return {sum(in[0], {0}),     mean(in[0], {1, 2}),   var(in[0], {2}),
                amax(in[0], {0, 1}), logsumexp(in[0], {1}), prod(in[0], {2})};
      },
      leaves({{4, 5, 6}}, f64), kAllPartitions);
}

TEST(Programs, MatmulInF64) {
  check_compiled(
      [](const Tensors& in) -> Tensors { return {matmul(in[0], in[1]), matmul(in[2], in[1].t())}; },
      leaves({{2, 7, 5}, {5, 9}, {3, 9}}, f64), kAllPartitions);
}

TEST(Programs, EmptyTensors) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        return {exp(in[0]) + 1.0, sum(in[0]), matmul(in[0], in[1])};
      },
      leaves({{0, 4}, {4, 3}}), kAllPartitions);
}

TEST(Programs, CatPadFlip) {
  check_compiled(
      [](const Tensors& in) -> Tensors {
        return {cat({in[0], in[1] * 2.0}, 1), flip(in[0], {0}), stack({in[0], in[0] + 1.0}, 0)};
      },
      leaves({{3, 4}, {3, 2}}), kAllPartitions);
}

}  // namespace
}  // namespace tandem::testing
