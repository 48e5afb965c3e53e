// Products of matrices beside what fixtures hold: what they refuse, what they write into, and
// chains of many operands.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <limits>
#include <tuple>

#include "tests/support/expect_error.h"
#include "tests/support/threads.h"

namespace tandem::testing {
namespace {

Tensor numbers(const Shape& sizes) { return randn(sizes, f64); }

void expect_near(const Tensor& got, const Tensor& expected) {
  EXPECT_EQ(got.sizes(), expected.sizes());
  EXPECT_TRUE(allclose(got, expected, 1e-10, 1e-10));
}

TEST(LinalgProducts, RefuseWhatDoesNotFit) {
  const Tensor a = numbers({2, 3}), b = numbers({3, 4}), v = numbers({3});
  expect_error(Errc::Shape, "mv: sizes do not fit", [&] { mv(a, numbers({2})); });
  expect_error(Errc::Shape, "dot: self has the wrong number of dimensions", [&] { dot(a, v); });
  expect_error(Errc::Shape, "vdot: lengths differ", [&] { vdot(v, numbers({4})); });
  expect_error(Errc::DType, "dot: tensor has another dtype", [&] { dot(v, v.to(f32)); });
  expect_error(Errc::Shape, "addbmm: batch1", [&] { addbmm(a, a, b); });
  expect_error(Errc::Argument, "addmm: alpha is floating",
               [&] { addmm(arange(2), ones({2, 2}, i64), ones({2, 2}, i64), {.alpha = 0.5}); });
  expect_error(Errc::Shape, "tensordot: summed dimensions differ", [&] { tensordot(a, a, 1); });
  expect_error(Errc::Argument, "tensordot: dims out of range", [&] { tensordot(a, b, 3); });
  expect_error(Errc::Shape, "cross: expected a dimension of size 3",
               [&] { cross(numbers({2, 2}), numbers({2, 2})); });
  expect_error(Errc::Argument, "multi_dot: too few", [&] { linalg::multi_dot({a}); });
  expect_error(Errc::Shape, "chain_matmul: operand 1 does not fit", [&] { chain_matmul({a, a}); });
  expect_error(Errc::Argument, "cdist: compute_mode", [&] { cdist(a, a, 2, "fast"); });
  expect_error(Errc::Shape, "bilinear: sizes do not fit",
               [&] { bilinear(a, a, numbers({5, 2, 3})); });
}

/// x as it is, and where its rows lie across memory, and with gaps.
std::vector<Tensor> in_layouts(const Tensor& x) {
  const Shape gaps{x.size(0) * 2, x.size(1) * 3};
  Tensor gapped = full(gaps, 7, x.dtype()).index({Slice{0, {}, 2}, Slice{0, {}, 3}});
  gapped.copy_(x);
  return {x, x.t().contiguous().t(), gapped};
}

/// The sums of products of whole numbers, which no order rounds.
void expect_products_of_vectors(DType dtype, Dim m, Dim k, Dim n) {
  const Tensor a = randint(-9, 9, {m, k}).to(dtype), b = randint(-9, 9, {k, n}).to(dtype);
  const Tensor expected = sum(unsqueeze(a, 2) * unsqueeze(b, 0), {1}).to(dtype);
  const auto product = [](const Tensor& x, const Tensor& y) { return matmul(x, y); };
  const auto compiled = compile(product);
  const auto added =
      compile([](const Tensor& c, const Tensor& x, const Tensor& y) { return addmm(c, x, y); });
  const Tensor c = randint(-9, 9, {m, n}).to(dtype);
  for (const Tensor& x : in_layouts(a))
    for (const Tensor& y : in_layouts(b)) {
      EXPECT_TRUE(equal(product(x, y), expected)) << m << " " << k << " " << n;
      EXPECT_TRUE(equal(compiled(x, y), expected)) << m << " " << k << " " << n;
      EXPECT_TRUE(equal(added(c, x, y), expected + c)) << m << " " << k << " " << n;
    }
}

TEST(LinalgProducts, OfVectorsInAnyLayout) {
  for (const DType dtype : {f64, f32, i64, i32})
    for (const auto& [m, k, n] : {std::tuple<Dim, Dim, Dim>{1, 70, 1},
                                  {1, 300, 90},
                                  {90, 300, 1},
                                  {1, 1, 5},
                                  {130, 1, 140},
                                  {1, 0, 3},
                                  {0, 4, 1},
                                  {1, 40000, 1}})
      expect_products_of_vectors(dtype, m, k, n);
}

TEST(LinalgProducts, OfVectorsKeepNanAndHaveNoNegativeZero) {
  const auto product = compile([](const Tensor& x, const Tensor& y) { return matmul(x, y); });
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Tensor a = zeros({3, 40}, f64), v = full({40, 1}, -1.0, f64);
  a.index({1, 7}).fill_(nan);
  for (const Tensor& got : {product(a, v), product(v.t(), a.t()).t()}) {
    EXPECT_FALSE(signbit(got[0]).item<bool>());
    EXPECT_TRUE(isnan(got[1]).item<bool>());
    EXPECT_FALSE(signbit(got[2]).item<bool>());
  }
  EXPECT_FALSE(any(signbit(product(v, zeros({1, 40}, f64)))).item<bool>());
}

TEST(LinalgProducts, OfVectorsHaveTheSameBitsOnAnyNumberOfThreads) {
  const Tensor a = numbers({300, 1000}), v = numbers({1000}), x = numbers({100000});
  const auto products = [&] {
    return cat({mv(a, v), mv(a.t(), ones({300}, f64)), matmul(v, a.t()), dot(x, x).reshape({1})});
  };
  const Tensor one = [&] {
    const Threads threads(1);
    return products();
  }();
  const Threads threads(3);
  EXPECT_TRUE(equal(products(), one));
}

TEST(LinalgProducts, EinsumSaysWhatItDoesNotUnderstand) {
  const Tensor a = numbers({2, 3});
  const auto refused = [&](Errc code, const char* part, const char* equation,
                           const std::vector<Tensor>& operands) {
    expect_error(code, part, [&] { einsum(equation, operands); });
  };
  refused(Errc::Argument, "einsum: there are not as many operands", "ij,jk->ik", {a});
  refused(Errc::Argument, "einsum: there are not as many operands", "ij", {});
  refused(Errc::Argument, "einsum: subscripts are not understood", "i1->i", {a});
  refused(Errc::Argument, "einsum: subscripts are not understood", "i..->i", {a});
  refused(Errc::Argument, "einsum: subscripts are not understood", "......->", {a});
  refused(Errc::Shape, "einsum: subscripts do not fit operand 0", "ijk->i", {a});
  refused(Errc::Shape, "einsum: i stands for two sizes", "ii->i", {a});
  refused(Errc::Shape, "einsum: sizes of j do not broadcast", "ij,jk->ik", {a, a});
  refused(Errc::Argument, "einsum: k of the output is in no operand", "ij->k", {a});
  refused(Errc::Argument, "einsum: i is twice in the output", "ij->ii", {a});
  refused(Errc::DType, "einsum: operand 1 has another dtype", "ij,ij->", {a, a.to(f32)});
}

TEST(LinalgProducts, EinsumOfManyIsTheProductInAnyOrder) {
  std::vector<Tensor> chain;
  std::string terms;
  for (int i = 0; i < 11; ++i) {
    chain.push_back(numbers({i % 3 + 2, (i + 1) % 3 + 2}));
    terms += std::string(i == 0 ? "" : ",") + static_cast<char>('a' + i) +
             static_cast<char>('a' + i + 1);
  }
  expect_near(einsum(terms + "->al", chain), chain_matmul(chain));
  expect_near(compile([&](const Tensor& x) {
                std::vector<Tensor> all = chain;
                all[0] = x;
                return einsum(terms + "->al", all);
              })(chain[0]),
              chain_matmul(chain));
}

TEST(LinalgProducts, TakeExpandedOperands) {
  const Tensor row = numbers({1, 3, 1}), wide = row.expand({4, 3, 5}), dense = wide.clone();
  const Tensor other = numbers({4, 5, 2});
  expect_near(einsum("bij,bjk->ik", {wide, other}), einsum("bij,bjk->ik", {dense, other}));
  expect_near(baddbmm(ones({}, f64), wide, other), baddbmm(ones({}, f64), dense, other));
  expect_near(tensordot(wide, other, {0, 2}, {0, 1}), tensordot(dense, other, {0, 2}, {0, 1}));
  expect_near(kron(wide, other), kron(dense, other));
}

/// A row of the product at a time is too little to be compiled, and gives the same.
Tensor by_rows(const Tensor& a, const Tensor& b) {
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < a.size(0); ++i)
    rows.push_back(matmul(a.narrow(0, i, 1).clone(), b.clone()));
  return cat(rows, 0);
}

/// Of many elements, wherever they lie.
TEST(LinalgProducts, OfManyElementsInEveryDType) {
  for (const DType dtype : {f64, i64, i32, i16, i8, u8}) {
    const auto given = [&](const Shape& sizes) {
      return dtype == f64 ? randn(sizes, f64) : randint(-90, 90, sizes).to(dtype);
    };
    const Tensor dense = given({140, 130}), b = given({130, 9});
    for (const Tensor& a : {dense, given({130, 140}).t(), given({140, 260}).slice(1, 0, 260, 2),
                            given({1, 130}).expand({140, 130})}) {
      const Tensor expected = by_rows(a, b);
      EXPECT_TRUE(allclose(matmul(a, b).to(f64), expected.to(f64), 1e-10, 1e-10));
      const Tensor sum = ones({140, 9}, dtype);
      EXPECT_TRUE(allclose(sum.addmm_(a, b).to(f64), (expected + 1).to(f64), 1e-10, 1e-10));
      EXPECT_TRUE(allclose(
          bmm(a.unsqueeze(0).expand({3, 140, 130}), b.expand({3, 130, 9})).select(0, 2).to(f64),
          expected.to(f64), 1e-10, 1e-10));
    }
    EXPECT_EQ(matmul(dense, given({130, 0})).sizes(), Shape({140, 0}));
    EXPECT_EQ(matmul(given({140, 0}), given({0, 140})).abs().sum().to(f64).item(), 0);
  }
  Tensor a = numbers({140, 130});
  a[3][5].fill_(std::numeric_limits<double>::quiet_NaN());
  const Tensor nan = isnan(matmul(a, ones({130, 9}, f64)));
  EXPECT_EQ(nan.sum().item(), 9);
  EXPECT_TRUE(nan[3].all().item() != 0);
}

TEST(LinalgProducts, OfARowByAColumnHaveGradients) {
  const auto as_matrices = [](const Tensor& v, const Tensor& w) {
    return bmm(v.view({1, 1, v.size(0)}), w.reshape({1, w.size(0), 1})).sum() * 3;
  };
  const auto compiled = compile(as_matrices);
  for (const DType dtype : {f32, f64, bf16})
    for (const int64_t n : {1, 40, 40'000}) {
      const Tensor x = randn({n}, dtype).requires_grad_(),
                   y = randn({2 * n}, dtype).slice(0, 0, 2 * n, 2).requires_grad_();
      for (const Tensor& z : {dot(x, y) * 3, as_matrices(x, y), compiled(x, y)}) {
        const std::vector<Tensor> got = grad({z}, {x, y});
        EXPECT_TRUE(equal(got[0], y.detach() * 3));
        EXPECT_TRUE(equal(got[1], x.detach() * 3));
      }
    }
}

TEST(LinalgProducts, WriteIntoGivenTensors) {
  const Tensor a = numbers({2, 3}), b = numbers({3, 4}), v = numbers({3});
  const Tensor out = empty({0}, f64);
  expect_near(mv_out(out, a, v), mv(a, v));
  expect_near(outer_out(empty({0}, f64), v, v), outer(v, v));
  expect_near(addmm_out(empty({0}, f64), numbers({}) * 0, a, b, {.alpha = 2}), matmul(a, b) * 2);
  expect_near(linalg::multi_dot_out(empty({0}, f64), {a, b}), matmul(a, b));
  expect_error(Errc::DType, "dot_out", [&] { dot_out(empty({}, i64), v, v); });
}

}  // namespace
}  // namespace tandem::testing
