// Matrix products of few products each with a small matrix: batches of small matrices, as of
// filters and rotations, and many rows by one, as colours.
#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

Tensors product(const Tensors& in) { return {matmul(in[0], in[1])}; }

/// What a Kalman filter does to its covariance.
Tensors covariance(const Tensors& in) {
  const Tensor &f = in[0], &p = in[1], &h = in[2];
  const Tensor predicted = matmul(matmul(f, p), f.T());
  const Tensor gain = matmul(matmul(predicted, h.T()), matmul(matmul(h, predicted), h.T()) + 1.0);
  return {predicted - matmul(matmul(gain, h), predicted)};
}

/// Of images [n, c, h, w].
Tensors colours(const Tensors& in) { return {clamp(einsum("bchw,dc->bdhw", in), -0.5, 0.5)}; }

const std::vector<Row> kRows{
    {"Batches", tensors({{50, 2, 3}, {50, 3, 4}}), product},
    {"Squares", tensors({{9, 4, 4}, {9, 4, 4}}), product},
    {"LongestSums", tensors({{5, 8, 8}, {5, 8, 8}}), product},
    {"LongerSums", tensors({{5, 8, 9}, {5, 9, 8}}), product},
    {"OneProduct", tensors({{5, 3, 1}, {5, 1, 4}}), product},
    {"NoProduct", tensors({{5, 3, 0}, {5, 0, 4}}), product},
    {"Columns", tensors({{7, 4, 4}, {7, 4, 1}}), product},
    {"Rows", tensors({{7, 1, 4}, {7, 4, 4}}), product},
    {"ManyRows", tensors({{500, 3}, {3, 3}}), product},
    {"ManyColumns", tensors({{2, 5}, {5, 300}}), product},
    {"Shared", tensors({{6, 4, 3}, {3, 2}}), product},
    {"SharedLeft", tensors({{4, 3}, {6, 3, 2}}), product},
    {"BatchesOfBatches", tensors({{2, 1, 4, 3}, {1, 5, 3, 4}}), product},
    {"F64", tensors({{5, 3, 4}, {5, 4, 2}}, f64), product},
    {"Transposed", tensors({{5, 4, 3}, {5, 2, 4}}),
     [](const Tensors& in) -> Tensors {
       return {matmul(in[0].transpose(1, 2), in[1].transpose(1, 2))};
     }},
    {"WithBias", tensors({{40, 3}, {4, 3}, {4}}),
     [](const Tensors& in) -> Tensors { return {tanh(linear(in[0], in[1], in[2]))}; }},
    {"Covariance", tensors({{3, 3}, {8, 3, 3}, {2, 3}}), covariance},
    {"Colours", tensors({{2, 3, 5, 7}, {3, 3}}), colours},
};

TANDEM_CONTRACT(SmallProducts, kRows);

TEST(SmallProducts, OfHalvesAndIntegersAreAsEager) {
  const auto compiled = compile([](const Tensor& a, const Tensor& b) { return matmul(a, b); });
  for (const DType dtype : {bf16, f16, f64, i64, i32, i16, u8}) {
    const Tensor a = (noise({6, 3, 5}, 1) * 40).to(dtype), b = (noise({6, 5, 2}, 2) * 40).to(dtype);
    EXPECT_TRUE(equal(compiled(a, b), matmul(a, b))) << ir::name(dtype);
  }
}

}  // namespace
}  // namespace tandem::testing
