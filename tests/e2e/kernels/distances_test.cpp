// Distances of all pairs of rows: those of the rows gathered pair by pair, with gradients of both
// orders, whatever the rows are and however they lie.
#include <cmath>
#include <limits>

#include "tests/e2e/contract.h"

namespace tandem::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Program distances(double p) {
  return [=](const Tensors& in) -> Tensors { return {pdist(in[0], p)}; };
}
MakeInputs seen_as(const Shape& memory, const std::function<Tensor(const Tensor&)>& view) {
  return views_of(memory, [=](const Tensor& x) { return Tensors{view(x)}; });
}

const std::vector<Row> kRows{
    {"Euclidean", tensors({{37, 5}}), distances(2)},
    {"Manhattan", tensors({{37, 5}}), distances(1)},
    {"Cubic", tensors({{37, 5}}), distances(3)},
    {"ByRoots", tensors({{9, 3}}), distances(0.5)},
    {"HowManyDiffer", tensors({{37, 5}}), distances(0)},
    {"Largest", tensors({{37, 5}}), distances(kInf)},
    {"ManyRows", tensors({{150, 3}}), distances(2)},
    {"LongRows", tensors({{5, 300}}), distances(2)},
    {"OneColumn", tensors({{40, 1}}), distances(2)},
    {"NoColumns", tensors({{4, 0}}), distances(kInf)},
    {"OneRow", tensors({{1, 3}}), distances(2)},
    {"NoRows", tensors({{0, 3}}), distances(kInf)},
    {"F64", tensors({{37, 5}}, f64), distances(2)},
    {"BF16", tensors({{37, 5}}, bf16),  // sums of gradients differ in halves' last bits
     [](const Tensors& in) -> Tensors { return {pdist(in[0].detach())}; }},
    {"Transposed", seen_as({5, 37}, [](const Tensor& x) { return x.T(); }), distances(2)},
    {"WithGaps",
     seen_as({80, 11}, [](const Tensor& x) { return x.slice(0, 3, 79, 2).slice(1, 1, 11, 3); }),
     distances(2)},
    {"EqualRows", seen_as({1, 5}, [](const Tensor& x) { return x.expand({35, 5}); }), distances(2)},
    {"OfComputedRows", tensors({{40, 6}, {6, 3}}),
     [](const Tensors& in) -> Tensors { return {exp(-pdist(matmul(in[0], in[1])))}; }},
};

TANDEM_CONTRACT(Distances, kRows);

/// Of rows gathered pair by pair, without what pdist is made of.
Tensor gathered(const Tensor& x, double p) {
  const Tensor pairs = triu_indices(x.size(0), x.size(0), 1);
  const Tensor d = abs(x.index_select(0, pairs[0]) - x.index_select(0, pairs[1]));
  return p == kInf ? amax(d, {1}) : pow(sum(pow(d, p), {1}), 1 / p);
}

/// Values and gradients of both orders.
Tensors derived(const std::function<Tensor(const Tensor&)>& f, const Tensor& rows) {
  const Tensor x = rows.clone().requires_grad_();
  const Tensor y = f(x), weights = noise(y.sizes(), 3, rows.dtype());
  const Tensor first = grad({y}, {x}, {.grad_outputs = {weights}, .create_graph = true})[0];
  const Tensor second = grad({sum(first * noise(first.sizes(), 4, rows.dtype()))}, {x})[0];
  return {y, first, second};
}

TEST(Distances, AreThoseOfGatheredRows) {
  for (const int64_t rows : {2, 3, 31, 32, 33, 64, 129, 200})
    for (const double p : {1.5, 2.0, 3.0}) {
      const Tensor x = noise({rows, 4}, 1, f64);
      const Tensors expected = derived([&](const Tensor& t) { return gathered(t, p); }, x);
      const Tensors got = derived([&](const Tensor& t) { return pdist(t, p); }, x);
      const Tensors compiled = derived(compile([=](const Tensor& t) { return pdist(t, p); }), x);
      for (size_t i = 0; i < expected.size(); ++i) {
        const std::string what = std::to_string(rows) + " rows, p " + std::to_string(p);
        expect_close(expected[i], got[i], 1e-9, what);
        expect_close(expected[i], compiled[i], 1e-9, what + ", compiled");
      }
    }
}

// What is not finite in a row reaches its own distances, and no gradient of an element whose
// differences are finite.
TEST(Distances, OfInfiniteRows) {
  for (const int64_t rows : {3, 150}) {
    Tensor x = noise({rows, 4}, 1);
    x[1][2] = kInf;
    x.requires_grad_();
    const Tensor y = pdist(x);
    EXPECT_EQ(isinf(y).sum().item(), rows - 1);
    const Tensor g = grad({sum(y)}, {x})[0];
    EXPECT_EQ(isnan(g).sum().item(), rows);  // column 2
    EXPECT_TRUE(equal(g[1].slice(0, 0, 2), zeros({2})));
  }
}

TEST(Distances, OfOneRowHaveNoGradient) {
  const Tensor x = full({1, 3}, NAN).requires_grad_();
  EXPECT_TRUE(equal(grad({sum(pdist(x))}, {x})[0], zeros({1, 3})));
}

}  // namespace
}  // namespace tandem::testing
