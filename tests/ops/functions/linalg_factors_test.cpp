// Factors of matrices: what they give back, what they refuse, and where nothing is to be found.
#include <gtest/gtest.h>
#include <tandem/tandem.h>

#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/threads.h"

namespace tandem::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Tensor numbers(const Shape& sizes, DType dtype = f64) { return randn(sizes, dtype); }
Tensor symmetric(const Shape& sizes) {
  const Tensor x = numbers(sizes);
  return x + x.mT();
}
Tensor positive(const Shape& sizes, DType dtype = f64) {
  const Tensor x = numbers(sizes, dtype);
  return x.matmul(x.mT()) + eye(x.size(-1), {}, dtype);
}

void expect_near(const Tensor& got, const Tensor& expected, double tolerance = 1e-9) {
  ASSERT_EQ(got.sizes(), expected.sizes());
  EXPECT_TRUE(allclose(got, expected, tolerance, tolerance));
}

void expect_orthogonal(const Tensor& q, double tolerance = 1e-9) {
  expect_near(q.mT().matmul(q),
              eye(q.size(-1), {}, q.dtype()).expand({q.size(0), q.size(-1), q.size(-1)}),
              tolerance);
}

TEST(LinalgFactors, MultiplyToTheMatrix) {
  for (const Shape& sizes : {Shape{3, 5, 5}, Shape{2, 40, 7}, Shape{2, 6, 30}, Shape{1, 1, 1}})
    for (const DType dtype : {f32, f64}) {
      const double tolerance = dtype == f32 ? 1e-4 : 1e-9;
      const Tensor x = numbers(sizes, dtype);
      for (const char* mode : {"reduced", "complete"}) {
        const Qr f = linalg::qr(x, mode);
        expect_near(f.q.matmul(f.r), x, tolerance);
        expect_orthogonal(f.q, tolerance);
        expect_near(triu(f.r), f.r, 0);
      }
      const Svd s = linalg::svd(x, false);
      expect_near((s.u * s.s.unsqueeze(-2)).matmul(s.vh), x, tolerance);
      expect_orthogonal(s.u, tolerance);
      expect_orthogonal(linalg::svd(x).u, tolerance);
      expect_orthogonal(linalg::svd(x).vh.mT(), tolerance);
      const Lu lu = linalg::lu(x);
      expect_near(lu.p.matmul(lu.l).matmul(lu.u), x, tolerance);
    }
  const Tensor x = symmetric({4, 9, 9});
  for (const char* uplo : {"L", "U"}) {
    const Eigh f = linalg::eigh(x, uplo);
    expect_near((f.eigenvectors * f.eigenvalues.unsqueeze(-2)).matmul(f.eigenvectors.mT()), x);
    expect_orthogonal(f.eigenvectors);
  }
}

TEST(LinalgFactors, LeastSquaresAreWhatIsLeft) {
  const Tensor a = numbers({2, 7, 3}), b = numbers({2, 7, 2});
  const LeastSquares found = linalg::lstsq(a, b, {}, "gelsd");
  const Tensor rest = a.matmul(found.solution) - b;
  expect_near(a.mT().matmul(rest), zeros({2, 3, 2}, f64));
  expect_near(found.residuals, rest.square().sum({1}));
  EXPECT_EQ(linalg::lstsq(a.mT(), numbers({2, 3, 1}), {}, "gelsd").residuals.numel(), 0);
}

TEST(LinalgFactors, ReflectionsMakeTheMatrix) {
  for (const Shape& sizes : {Shape{3, 5, 5}, Shape{2, 7, 4}, Shape{2, 4, 7}, Shape{1, 1}}) {
    const Tensor x = numbers(sizes);
    const Reflections f = geqrf(x);
    const Dim k = std::min(sizes.back(), sizes[sizes.rank() - 2]);
    const Tensor q = linalg::householder_product(f.a.slice(-1, 0, k), f.tau);
    expect_near(q.matmul(triu(f.a).slice(-2, 0, k)), x);
    expect_near(ormqr(f.a, f.tau, x, true, true), triu(f.a));
  }
}

TEST(LinalgFactors, OfLowRankAreFoundBySamples) {
  for (const Shape& sizes : {Shape{2, 9, 6}, Shape{6, 9}}) {
    const Tensor x = linalg::svd(numbers(sizes))
                         .u.slice(-1, 0, 2)
                         .matmul(linalg::svd(numbers(sizes)).vh.slice(-2, 0, 2));
    const SvdOfV f = svd_lowrank(x, 3);
    expect_near((f.u * f.s.unsqueeze(-2)).matmul(f.v.mT()), x);
    const SvdOfV centred = pca_lowrank(x, 3);
    expect_near((centred.u * centred.s.unsqueeze(-2)).matmul(centred.v.mT()),
                x - x.mean({-2}, true));
  }
  expect_error(Errc::Argument, "svd_lowrank: q out of range; expected 0 to 2, got 3",
               [&] { svd_lowrank(numbers({2, 5}), 3); });
}

TEST(LinalgFactors, AreWrittenIntoTensors) {
  const Tensor x = positive({3, 3}), out = zeros({3, 3}, f64), empty = zeros({0}, f64);
  expect_near(linalg::inv_out(out, x), linalg::inv(x));
  expect_near(out, linalg::inv(x));
  const Qr written{zeros({3, 3}, f64), empty};
  linalg::qr_out(written, x);
  expect_near(written.q.matmul(empty), x);
  const Tensor before = out.clone();
  expect_error(Errc::DType, "eigh_out: the result does not fit the dtype of out",
               [&] { linalg::eigh_out({zeros({3}, i64), out}, x); });
  expect_error(Errc::Argument, "undefined tensor; expected a tensor for each result",
               [&] { linalg::svd_out({out, Tensor(), out}, x); });
  expect_error(Errc::Argument, "not positive definite", [&] { linalg::cholesky_out(out, x * -1); });
  expect_near(out, before, 0);
}

TEST(LinalgFactors, OfTensorsSayWhatDoesNotFit) {
  const Tensor x = numbers({2, 3, 6});
  expect_near(tensordot(linalg::tensorinv(x), x, 2), eye(6, {}, f64));
  expect_error(Errc::Shape,
               "tensorinv: not a square matrix; expected as many elements in [2] as in [3, 6]",
               [&] { linalg::tensorinv(x, 1); });
  expect_error(Errc::Argument, "tensorinv: ind out of range; expected 1 to 3, got 0",
               [&] { linalg::tensorinv(x, 0); });
  expect_error(Errc::Shape,
               "tensorsolve: other does not fit; expected as many elements as [2, 3], got [2, 4]",
               [&] { linalg::tensorsolve(x, numbers({2, 4})); });
  expect_error(Errc::Argument, "lstsq: driver is not there; expected \"gels\"",
               [&] { linalg::lstsq(x, x, {}, "qr"); });
  expect_error(Errc::Shape, "householder_product: more columns than rows",
               [&] { linalg::householder_product(numbers({2, 3}), numbers({2})); });
}

TEST(LinalgFactors, ReadOneTriangle) {
  const Tensor x = positive({3, 3}), half = tril(x) + triu(full({3, 3}, kNan, f64), 1);
  expect_near(cholesky(half), cholesky(x));
  expect_near(cholesky(half.mT(), true), cholesky(x, true));
  expect_near(linalg::eigvalsh(half), linalg::eigvalsh(x));
  expect_near(linalg::eigvalsh(half.mT(), "U"), linalg::eigvalsh(x));
  expect_near(linalg::solve_triangular(half, x, {.upper = false}),
              linalg::solve_triangular(tril(x), x, {.upper = false}));
}

TEST(LinalgFactors, SayWhichMatrixHasNone) {
  const Tensor x = stack({eye(3, {}, f64), eye(3, {}, f64) * -1, zeros({3, 3}, f64)});
  const auto refused = [&](const char* part, auto call) {
    expect_error(Errc::Argument, part, [&] { call(x); });
    const auto compiled = compile([=](const Tensor& t) { return Tensor(call(t)); });
    expect_error(Errc::Argument, part, [&] { compiled(x); });
    const Tensor nan = x * kNan;
    try {
      call(nan);
    } catch (const Error&) {  // it may fail, and must end
    }
  };
  refused("matrix 1 of the batch is not positive definite",
          [](const Tensor& t) { return cholesky(t); });
  refused("matrix 2 of the batch is singular", [](const Tensor& t) { return linalg::inv(t); });
  refused("matrix 2 of the batch is singular",
          [](const Tensor& t) { return linalg::solve(t, t + 1.0); });
  expect_error(Errc::Argument, "cholesky: the matrix is not positive definite",
               [&] { linalg::cholesky(x[1]); });
  expect_error(Errc::Argument, "inverse: the matrix is singular", [&] { x[2].inverse(); });
  expect_error(Errc::Argument, "svdvals: the matrix has elements that are not finite",
               [&] { linalg::svdvals(full({3, 3}, kNan, f64)); });
  expect_error(Errc::Argument, "eigh: the matrix has elements that are not finite",
               [&] { linalg::eigh(full({3, 3}, kNan, f64)); });
  EXPECT_EQ(linalg::cholesky_ex(x).info.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(linalg::inv_ex(x).info.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1}));
}

TEST(LinalgFactors, FailBeforeAnythingIsWritten) {
  const Tensor written = zeros({2, 2}, f64);
  const auto compiled = compile([](const Tensor& t, const Tensor& out) {
    out.add_(1);
    cholesky(t);
    return t + 1.0;
  });
  expect_error(Errc::Argument, "not positive definite",
               [&] { compiled(eye(2, {}, f64) * -1, written); });
  EXPECT_EQ(written.sum().item(), 0);
}

TEST(LinalgFactors, RefuseOtherDtypesAndSizes) {
  const Tensor x = eye(3);
  for (const DType dtype : {bf16, f16, i64})
    expect_error(Errc::DType, "inv: not defined for this dtype; expected f32 or f64",
                 [&] { linalg::inv(x.to(dtype)); });
  expect_error(Errc::Shape, "det: not a square matrix", [&] { det(x.slice(0, 0, 2)); });
  expect_error(Errc::Shape, "cholesky: not a square matrix", [&] { cholesky(x.slice(0, 0, 2)); });
  expect_error(Errc::Shape, "svd: self is not a matrix", [&] { linalg::svd(x[0]); });
  expect_error(Errc::Argument, "qr: mode is not there", [&] { linalg::qr(x, "full"); });
  expect_error(Errc::Autograd, "not differentiable", [&] {
    const Tensor leaf = ones({3, 2}, f64).requires_grad_();
    linalg::qr(leaf, "complete").q.sum().backward();
  });
}

TEST(LinalgFactors, DeterminantsOfSingularMatricesHaveGradients) {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}, {7, 8, 10}}, f64), other = x.clone();
  other[2].copy_(x[0] * 2);  // of rank 2
  const Tensor leaf = other.detach().requires_grad_();
  const Tensor gradient = grad({det(leaf)}, {leaf})[0];
  Tensor cofactors = zeros({3, 3}, f64);
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t c = 0; c < 3; ++c) {
      const Tensor changed = other.clone();
      changed[r].fill_(0);
      changed[r][c].fill_(1);
      cofactors[r][c].copy_(det(changed));
    }
  expect_near(gradient, cofactors, 1e-6);
}

/// By differences, the derivative of <weights, call(x)>.
template <class Call>
Tensor differences(const Call& call, const Tensor& x, const Tensor& weights) {
  constexpr double kStep = 1e-5;
  const Tensor result = zeros_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const Tensor step = (arange(x.numel()) == i).view(x.sizes()).to(f64) * kStep;
    const Tensor change = ((call(x + step) - call(x - step)) * weights).sum() / (2 * kStep);
    result.view({-1}).index_put_({tensor({i})}, change.view({1}));
  }
  return result;
}

/// A matrix of these singular values.
Tensor of_values(int64_t rows, int64_t columns, const Tensor& values) {
  const Svd s = linalg::svd(numbers({rows, columns}), false);
  return (s.u * values).matmul(s.vh);
}

void expect_gradient_of_pinv(const Tensor& x, const linalg::RankOptions& options) {
  const auto call = [&](const Tensor& t) {
    return linalg::pinv(options.hermitian ? (t + t.mT()) * 0.5 : t, options);
  };
  const Tensor weights = numbers({x.size(1), x.size(0)});
  const auto weighed = [&](const Tensor& t) { return (call(t) * weights).sum(); };
  const Tensor a = x.detach().requires_grad_(), b = x.detach().requires_grad_();
  const Tensor expected = differences(call, x, weights);
  expect_near(grad({weighed(a)}, {a})[0], expected, 1e-6);
  expect_near(grad({compile(weighed)(b)}, {b})[0], expected, 1e-6);
}

/// As in ATen whatever the order is, and with a gradient: there is nothing to be ill-conditioned.
TEST(LinalgFactors, TheConditionOfNothingIsZero) {
  for (const Shape& sizes : {Shape{0, 0}, Shape{2, 0, 0}, Shape{0, 3, 3}, Shape{2, 0, 3}})
    for (const double order : {1.0, -1.0, 2.0, -2.0, double{INFINITY}}) {
      const Tensor x = zeros(sizes, f64).requires_grad_();
      const auto f = [=](const Tensor& t) { return linalg::cond(t, order); };
      for (const Tensor& y : {f(x), compile(f)(x)}) {
        EXPECT_TRUE(equal(y, zeros(Shape(std::span(sizes.begin(), sizes.end() - 2)), f64)));
        EXPECT_EQ(grad({sum(y)}, {x})[0].sizes(), sizes);
      }
    }
}

// Above the tolerance, below it, and each of both more than once or 0; ATen's gradient is another.
TEST(LinalgFactors, TruncatedInversesHaveGradientsOfTheirOwn) {
  const Tensor values = tensor({5.0, 5.0, 3.0, 0.7, 0.7, 0.0}).to(f64);
  const Tensor q = linalg::qr(numbers({6, 6})).q;
  for (linalg::RankOptions options :
       {linalg::RankOptions{.rtol = 0.3}, linalg::RankOptions{.atol = 1.0},
        linalg::RankOptions{.atol = 4.0}, linalg::RankOptions{.atol = 9.0},
        linalg::RankOptions{.atol = tensor(1.0)}}) {
    for (const auto& [rows, columns] : {std::pair{6, 6}, std::pair{6, 8}, std::pair{9, 6}})
      expect_gradient_of_pinv(of_values(rows, columns, values), options);
    options.hermitian = true;
    expect_gradient_of_pinv((q * values).matmul(q.mT()), options);
  }
}

TEST(LinalgFactors, GradientsOfAnyOrderCompiled) {
  const Tensor x = positive({2, 3, 3});
  const auto call = [](const Tensor& t) {
    const Tensor l = cholesky(t);
    return linalg::solve(t, l).sum() + logdet(t).sum() + linalg::eigvalsh(t).square().sum();
  };
  const auto compiled = compile(call);
  const Tensor a = x.detach().requires_grad_(), b = x.detach().requires_grad_();
  expect_near(compiled(a), call(b));
  expect_near(grad({compiled(a)}, {a})[0], grad({call(b)}, {b})[0]);
}

TEST(LinalgFactors, HaveTheSameBitsOnAnyNumberOfThreads) {
  const Tensor x = numbers({64, 12, 12}), p = positive({64, 12, 12});
  const auto all = [&] {
    return cat({linalg::svdvals(x).flatten(), linalg::qr(x).r.flatten(), cholesky(p).flatten(),
                linalg::inv(x).flatten(), linalg::eigvalsh(p).flatten(), matrix_exp(x).flatten()});
  };
  const Threads threads(1);
  const Tensor one = all();
  Threads::set(4);
  EXPECT_TRUE(equal(all(), one));
}

TEST(LinalgFactors, OfManyAtOnceAreThoseOfOneAlone) {
  const Tensor x = numbers({80, 80}) + 80 * eye(80, {}, f64), p = positive({80, 80});
  const auto all = [&](const Shape& batch) {
    const Tensor xs = x.expand(batch), ps = p.expand(batch);
    return cat({linalg::qr(xs).r, linalg::inv(xs), cholesky(ps), matrix_exp(ps)}, -1);
  };
  const Threads threads(4);
  EXPECT_TRUE(equal(all({128, 80, 80}), all({80, 80}).expand({128, 80, 320})));
}

TEST(LinalgFactors, ATriangleIsSolvedWhereverItLies) {
  const Tensor b = numbers({5, 3});
  const Tensor wide = numbers({10, 10}) + 20 * eye(10, {}, f64);
  const Tensor row = numbers({1, 5}) + 7;
  for (const Tensor& a :
       {wide.narrow(0, 0, 5).narrow(1, 0, 5), wide.narrow(0, 5, 5).narrow(1, 5, 5).mT(),
        wide.index({Slice{0, {}, 2}, Slice{0, {}, 2}}), row.expand({5, 5}), row.expand({5, 5}).mT(),
        flip(wide, {0, 1}).narrow(0, 5, 5).narrow(1, 5, 5)})
    for (const bool upper : {false, true})
      for (const bool unit : {false, true}) {
        const Tensor triangle = upper ? triu(a, unit ? 1 : 0) : tril(a, unit ? -1 : 0);
        const Tensor x = linalg::solve_triangular(a, b, {.upper = upper, .unitriangular = unit});
        expect_near((unit ? triangle + eye(5, {}, f64) : triangle).matmul(x), b);
      }
}

/// The same values in row-major order, as columns, with gaps, and reversed in memory.
std::vector<Tensor> layouts_of(const Tensor& x) {
  const Tensor apart = stack({x, x}, -1).select(-1, 1);
  return {x, x.mT().contiguous().mT(), apart, flip(flip(x, {-1}).contiguous(), {-1})};
}

// Nobody asks for vectors, the tape does, a level does, or code does not.
void expect_same_values(const std::function<Tensor(const Tensor&)>& alone, const Tensor& x,
                        const Tensor& expected) {
  const double tolerance = x.dtype() == f32 ? 1e-4 : 1e-9;
  for (const Tensor& t : layouts_of(x)) {
    expect_near(alone(t), expected, tolerance);
    expect_near(alone(t.detach().requires_grad_()), expected, tolerance);
    EXPECT_TRUE(equal(compile(alone)(t), alone(t)));
  }
  expect_near(vmap(alone)(x.unsqueeze(0)), expected.unsqueeze(0), tolerance);
}

TEST(LinalgFactors, ValuesAloneAreThoseBesideVectors) {
  for (const DType dtype : {f32, f64})
    for (const Shape& sizes : {Shape{3, 5, 5}, Shape{2, 40, 7}, Shape{6, 30}, Shape{1, 1},
                               Shape{2, 0, 4}, Shape{4, 0}, Shape{0, 3, 3}}) {
      const Tensor x = numbers(sizes, dtype), square = x.mT().matmul(x);
      expect_same_values([](const Tensor& t) { return linalg::svdvals(t); }, x,
                         linalg::svd(x, false).s);
      expect_same_values([](const Tensor& t) { return linalg::eigvalsh(t); }, square,
                         linalg::eigh(square).eigenvalues);
    }
  const Tensor lopsided = numbers({17, 17});
  for (const char* uplo : {"L", "U"})
    expect_near(linalg::eigvalsh(lopsided, uplo), linalg::eigh(lopsided, uplo).eigenvalues);
}

// Where both halves of a graph compute them, the backward with vectors, so does the forward.
TEST(LinalgFactors, ValuesHaveTheSameBitsWhateverIsSaved) {
  const Tensor x = numbers({40, 40}).requires_grad_();
  const auto values = [](const Tensor& t) {
    return cat({linalg::svdvals(t), linalg::eigvalsh(t + t.mT())});
  };
  const Tensor eager = values(x);
  for (const char* partition : {"default", "save-all", "recompute-all", "reference"})
    EXPECT_TRUE(equal(compile(values, {.partition = partition})(x), eager)) << partition;
}

TEST(LinalgFactors, VectorsAloneAreThoseBesideValues) {
  const Tensor x = numbers({2, 9, 6}), square = x.mT().matmul(x);
  const auto of_u = compile([](const Tensor& t) { return linalg::svd(t, false).u; });
  const auto of_vh = compile([](const Tensor& t) { return linalg::svd(t).vh; });
  const auto of_eigh = compile([](const Tensor& t) { return linalg::eigh(t).eigenvectors; });
  EXPECT_TRUE(equal(of_u(x), linalg::svd(x, false).u));
  EXPECT_TRUE(equal(of_vh(x), linalg::svd(x).vh));
  EXPECT_TRUE(equal(of_eigh(square), linalg::eigh(square).eigenvectors));
}

TEST(LinalgFactors, SolutionsOfFullRankAreTheShortest) {
  for (const Shape& sizes : {Shape{2, 9, 4}, Shape{2, 4, 9}, Shape{5, 5}, Shape{3, 0}}) {
    const Tensor a = numbers(sizes).requires_grad_();
    Shape right = sizes;
    right[right.rank() - 1] = 3;
    const Tensor b = numbers(right).requires_grad_();
    const auto solution = [&](const char* driver) {
      return linalg::lstsq(a, b, {}, driver).solution;
    };
    const Tensor x = solution("gels"), expected = solution("gelsd");
    expect_near(x, expected, 1e-7);
    const auto got = grad({x.square().sum()}, {a, b}),
               wanted = grad({expected.square().sum()}, {a, b});
    for (size_t i = 0; i < 2; ++i) expect_near(got[i], wanted[i], 1e-6);
  }
}

// Reversed, blocks with zeros below them are blocks with zeros above.
TEST(LinalgFactors, ExponentialsOfBlocksAreThoseOfAny) {
  const auto reversed = [](const Tensor& t) { return flip(t, {-1, -2}); };
  for (const int64_t n : {4, 31, 32, 66}) {
    const Tensor x = numbers({2, n, n}), zeros_below = x.clone();
    zeros_below.narrow(-2, n / 2, n - n / 2).narrow(-1, 0, n / 2).zero_();
    for (const Tensor& t : {x, zeros_below})
      expect_near(matrix_exp(t * 0.3), reversed(matrix_exp(reversed(t) * 0.3)), 1e-7);
    zeros_below.index({0, 0, n - 1}).fill_(kNan);
    EXPECT_TRUE(isnan(matrix_exp(zeros_below)).index({0}).any().item<bool>());
  }
}

}  // namespace
}  // namespace tandem::testing
