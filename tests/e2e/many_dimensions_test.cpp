// Tensors of many dimensions, whose sizes and strides no longer lie inline, and of one more or less
// than where that begins.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <numeric>

#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

/// 2 in every third dimension, else 1.
Shape sizes_of(int rank) {
  Shape sizes;
  for (int d = 0; d < rank; ++d) sizes.push_back(d % 3 == 0 ? 2 : 1);
  return sizes;
}

Tensor reversed(const Tensor& x) {
  std::vector<int64_t> order(static_cast<size_t>(x.dim()));
  std::iota(order.rbegin(), order.rend(), 0);
  return x.permute(order);
}

Tensors of_elements(const Tensors& in) {
  const Tensor row = in[1].select(0, 0);
  return {sin(in[0]) * in[1] + row, where(in[0] > in[1], in[0], 0.5) * 2.0};
}

Tensors permuted(const Tensors& in) {
  const Tensor x = reversed(in[0]);
  return {x * 3.0, x + reversed(in[1]).contiguous(), in[0].transpose(0, -1).contiguous()};
}

Tensors reduced(const Tensors& in) {
  return {sum(in[0], {0, -1}), amax(in[0], {0}, true), mean(in[0] * in[1]), softmax(in[1], 0),
          cumsum(in[0], 3)};
}

Tensors reshaped(const Tensors& in) {
  const Tensor flat = in[0].reshape({-1}) * 2.0, x = in[1].squeeze();
  return {flat.reshape(in[0].sizes()), x * x, in[0].flatten(1, -2), in[0].expand(in[0].sizes())};
}

Tensors joined(const Tensors& in) {
  return {cat({in[0], in[1]}, -1), flip(in[0], {0, 3}), roll(in[1], {1}, {0}),
          matmul(in[0].transpose(-1, 3), in[1].transpose(-2, 3))};
}

// At most 16 dimensions: of one more both are the same Error.
Tensors stacked(const Tensors& in) { return {stack({in[0], in[1]}), in[0].unsqueeze(-1) * 2.0}; }

Tensors written(const Tensors& in) {
  in[0].mul_(in[1]);
  in[0].transpose(0, 3).add_(1.0);
  in[0].select(-1, 0).neg_();
  return {in[0] * in[1]};
}

class ManyDimensions : public ::testing::TestWithParam<int> {};

TEST_P(ManyDimensions, AreAsEager) {
  const Shape sizes = sizes_of(GetParam());
  for (const auto program : {of_elements, permuted, reduced, reshaped, joined, stacked, written})
    check_compiled(program, tensors({sizes, sizes}));
}

TEST_P(ManyDimensions, WithGapsAreAsEager) {
  Shape larger = sizes_of(GetParam());
  for (int d = 0; d < larger.rank(); d += 3) larger[d] = 4;
  const auto parts = views_of(larger, [](const Tensor& x) {
    Tensor part = x;
    for (int64_t d = 0; d < x.dim(); d += 3) part = part.slice(d, 1, 4, 2);
    return Tensors{part, part + 1.0};
  });
  for (const auto program : {of_elements, permuted, reduced, written})
    check_compiled(program, parts);
}

INSTANTIATE_TEST_SUITE_P(Ranks, ManyDimensions, ::testing::Values(5, 6, 7, 11, 16));

}  // namespace
}  // namespace tandem::testing
