// Programs over rows of few numbers (positions, classes, quaternions), whose vectors run along the
// rows in compiled code: as eager, and with the same bits on any number of threads and however many
// rows there are.
#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

Tensor length(const Tensor& x) { return sqrt(sum(x * x, {-1}, true) + 1e-3); }

/// x_i - x_j of all pairs.
Tensor differences(const Tensor& x) { return x.unsqueeze(1) - x.unsqueeze(0); }

/// The product of quaternions.
Tensor product(const Tensor& p, const Tensor& q) {
  const auto at = [](const Tensor& x, Dim i) { return x.select(-1, i); };
  return stack(
      {at(p, 0) * at(q, 0) - at(p, 1) * at(q, 1) - at(p, 2) * at(q, 2) - at(p, 3) * at(q, 3),
       at(p, 0) * at(q, 1) + at(p, 1) * at(q, 0) + at(p, 2) * at(q, 3) - at(p, 3) * at(q, 2),
       at(p, 0) * at(q, 2) - at(p, 1) * at(q, 3) + at(p, 2) * at(q, 0) + at(p, 3) * at(q, 1),
       at(p, 0) * at(q, 3) + at(p, 1) * at(q, 2) - at(p, 2) * at(q, 1) + at(p, 3) * at(q, 0)},
      -1);
}

Tensors normalized(const Tensors& in) { return {in[0] / length(in[0])}; }

const std::vector<Row> kRows{
    {"Normalized", tensors({{50, 3}}), normalized},
    {"NormalizedF64", tensors({{50, 3}}, f64), normalized},
    {"ColumnsOfWiderRows",
     views_of({50, 7}, [](const Tensor& x) { return Tensors{x.slice(1, 2, 5)}; }), normalized},
    {"EverySecondColumn",
     views_of({50, 8}, [](const Tensor& x) { return Tensors{x.slice(1, 1, 8, 2)}; }), normalized},
    {"Transposed", views_of({3, 50}, [](const Tensor& x) { return Tensors{x.transpose(0, 1)}; }),
     normalized},
    {"OneRowExpanded", views_of({1, 3}, [](const Tensor& x) { return Tensors{x.expand({50, 3})}; }),
     normalized},
    {"TwoPartsOfOneMemory",
     views_of({50, 6}, [](const Tensor& x) { return Tensors{x.slice(1, 0, 3), x.slice(1, 3, 6)}; }),
     [](const Tensors& in) -> Tensors {
       in[0].mul_(length(in[1]));
       return {in[0] + in[1]};
     }},
    {"TheInputIsWritten", tensors({{50, 3}}),
     [](const Tensors& in) -> Tensors {
       in[0].div_(length(in[0]));
       return {cross(in[0], in[0].roll({1}, {0}), 1)};
     }},
    {"Pairs", tensors({{40, 3}, {40}}),
     [](const Tensors& in) -> Tensors {
       const Tensor d = differences(in[0]), r = length(d);
       return {sum(d / (r * r * r) * in[1].view({1, 40, 1}), {1}), sum(1.0 / r)};
     }},
    {"Quaternions", tensors({{60, 4}, {60, 4}}),
     [](const Tensors& in) -> Tensors {
       return {product(in[0] / length(in[0]), in[1] / length(in[1]))};
     }},
    {"FewClasses", tensors({{70, 5}}),
     [](const Tensors& in) -> Tensors {
       return {log_softmax(in[0], -1), argmax(in[0], -1), amax(in[0], {-1})};
     }},
    {"NormsOfNarrowLayers", tensors({{64, 6}, {6}, {6}}),
     [](const Tensors& in) -> Tensors { return {gelu(layer_norm(in[0], {6}, in[1], in[2]))}; }},
    {"GatheredAndAdded", tensors({{9, 3}, {80, 1}}),
     [](const Tensors& in) -> Tensors {
       const Tensor i = arange(80) * 7 % 9, j = arange(80) * 5 % 9;
       const Tensor d = index_select(in[0], 0, i) - index_select(in[0], 0, j);
       return {index_add(zeros({9, 3}), 0, i, d * in[1] / length(d))};
     }},
};

TANDEM_CONTRACT(NarrowRows, kRows);

/// Of the first `rows` positions; the sums over all come last.
Tensors forces(Dim rows, DType dtype) {
  manual_seed(5);
  const Tensor x = randn({4000, 3}).to(dtype).slice(0, 0, rows).clone().requires_grad_(true),
               w = randn({3}).to(dtype).requires_grad_(true);
  static const auto compiled = compile(
      [](const Tensor& x, const Tensor& w) { return tanh(x / length(x)) * length(x * w) * w; });
  const Tensor y = compiled(x, w);
  Tensors all = grad({y}, {x, w}, {.grad_outputs = {ones_like(y)}});
  all.insert(all.begin(), y.detach());
  return all;
}

TEST(NarrowRows, HaveTheSameBitsOnAnyNumberOfThreadsAndInAnyCompany) {
  const int before = num_threads();
  for (const DType dtype : {f32, f64, bf16}) {
    set_num_threads(1);
    const Tensors alone = forces(4000, dtype), few = forces(7, dtype);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(equal(alone[i].slice(0, 0, 7), few[i])) << "value " << i;
    for (const int threads : {2, 3, 5}) {
      set_num_threads(threads);
      const Tensors together = forces(4000, dtype);
      for (size_t i = 0; i < alone.size(); ++i)
        EXPECT_TRUE(equal(alone[i], together[i])) << threads << " threads, value " << i;
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tandem::testing
