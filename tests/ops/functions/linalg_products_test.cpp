// Products of matrices beside what fixtures hold: what they refuse, what they write into, and
// chains of many operands.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include "tests/support/expect_error.h"

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
