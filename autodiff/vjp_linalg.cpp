// Rules of factors and solutions of matrices. What they read of triangles and permutations are
// operations of their own, so that gradients are of any order.
#include "autodiff/matrix_terms.h"

namespace tandem::autodiff {
namespace {

std::optional<Term> gradient_of(Args a, size_t result) {
  if (!a.c.grads[result].valid()) return {};
  return Term{&a.b, a.c.grads[result]};
}

constexpr Reads kBothResults = kResult | kSecondResult;

}  // namespace

// L^-T phi(L^T g) L^-1, made symmetric; phi is the lower triangle with half of the diagonal
const VjpRule vjp_cholesky = rule(wrt<kResult>([](Args a) {
  const Term l = a.y, inner = lower(product(transposed(l), a.g));
  const Term halved = where(on_diagonal(inner), inner * 0.5, inner);
  const Term g = solved_right(solved(transposed(l), halved, true), l, false);
  return (g + transposed(g)) * 0.5;
}));

// --- P L U

namespace {

/// Of a square L U: L^-T (tril(L^T gL, -1) + triu(gU U^T)) U^-T.
Term square_gradient(Term l, Term u, Term g_l, Term g_u) {
  const Term inner = lower(product(transposed(l), g_l), -1) + upper(product(g_u, transposed(u)));
  return solved_right(solved(transposed(l), inner, true, true), transposed(u), false);
}

/// Rows at where the permutation of `pivots` takes them.
Term rows_back(Args a, Term g, Term pivots) {
  const Dim m = rows_of(g);
  const Shape sizes = a.b.sizes(g);
  const V order = a.b.emit(Op::lu_permutation, {pivots}, {m});
  const V places = a.b.emit(Op::argsort, {order}, {int64_t{a.b.rank(order) - 1}, false});
  const V index = a.b.expand(a.b.unsqueeze(places, -1), sizes);
  return {&a.b, a.b.gather(g, a.b.rank(g) - 2, index)};
}

/// Of the factors of a matrix of more columns than rows, A = P L [U1 U2].
Term wide_gradient(Term l, Term u, Term g) {
  const Dim m = rows_of(g), n = columns_of(g);
  const Term u2 = part(g, -1, m, n);  // its gradient
  const Term rest = solved(transposed(l), u2, true, true);
  const Term g_l = part(g, -1, 0, m) - product(rest, transposed(part(u, -1, m, n)));
  const Term first =
      square_gradient(l, part(u, -1, 0, m), lower(g_l, -1), upper(part(g, -1, 0, m)));
  return joined(first, rest, -1);
}

/// Of more rows than columns, A = P [L1; L2] U.
Term tall_gradient(Term l, Term u, Term g) {
  const Dim m = rows_of(g), n = columns_of(g);
  const Term rest = solved_right(part(g, -2, n, m), transposed(u), false);
  const Term g_u = part(g, -2, 0, n) - product(transposed(part(l, -2, n, m)), rest);
  const Term first =
      square_gradient(part(l, -2, 0, n), u, lower(part(g, -2, 0, n), -1), upper(g_u));
  return joined(first, rest, -2);
}

Term lu_gradient(Args a) {
  const Dim m = rows_of(a.y), n = columns_of(a.y), k = std::min(m, n);
  const Term l = with_diagonal(lower(part(a.y, -1, 0, k), -1), 1);
  const Term u = invertible(upper(part(a.y, -2, 0, k)));
  if (m < n) return wide_gradient(l, u, a.g);
  if (m > n) return tall_gradient(l, u, a.g);
  return square_gradient(l, u, lower(a.g, -1), upper(a.g));
}

}  // namespace

const VjpRule vjp_lu_factor =
    rule(wrt<kBothResults>([](Args a) { return rows_back(a, lu_gradient(a), a.result(1)); }));
const VjpRule vjp_lu_permutation = kZeroGradient;

// --- solutions: of a x = b, gb = a^-T g and ga = -gb x^T

namespace {

Term triangular_gradient(Args a) {
  return solved(transposed(a.x()), a.g, !a.attr<bool>(Attr::upper),
                a.attr<bool>(Attr::unitriangular));
}

Term lu_solve_gradient(Args a) {
  return {&a.b,
          a.b.emit(Op::lu_solve, {a.x(0), a.x(1), a.x(2), a.g}, {!a.attr<bool>(Attr::transposed)})};
}

constexpr Reads kFactors = kSelf | kOther | kThird;

}  // namespace

const VjpRule vjp_triangular_solve = rule(
    wrt < kSelf | kResult > ([](Args a) {
                    const Term g = -product(triangular_gradient(a), transposed(a.y));
                    const int64_t diagonal = a.attr<bool>(Attr::unitriangular) ? 1 : 0;
                    return a.attr<bool>(Attr::upper) ? upper(g, diagonal) : lower(g, -diagonal);
                  }),
    wrt<kSelf>([](Args a) { return triangular_gradient(a); }));

const VjpRule vjp_lu_solve =
    rule(wrt < kFactors | kResult > ([](Args a) {
                            const Term g = lu_solve_gradient(a);
                            return a.attr<bool>(Attr::transposed) ? -product(a.y, transposed(g))
                                                                  : -product(g, transposed(a.y));
                          }),
         NoGradient(), NoGradient(), wrt<kFactors>([](Args a) { return lu_solve_gradient(a); }));

// --- orthogonal factors

namespace {

/// Of at least as many rows as columns: (gQ + Q sym(R gR^T - gQ^T Q)) R^-T, where sym takes the
/// lower triangle for both.
Term tall_qr_gradient(Term q, Term r, std::optional<Term> g_q, std::optional<Term> g_r) {
  std::optional<Term> m;
  if (g_r) m = product(r, transposed(*g_r));
  if (g_q) {
    const Term turned = product(transposed(*g_q), q);
    m = m ? *m - turned : -turned;
  }
  const Term all = product(q, lower(*m) + transposed(lower(*m, -1)));
  return solved_right(g_q ? *g_q + all : all, transposed(r), false);
}

/// Of [X Y] = Q [U V]: Y = Q V.
Term wide_qr_gradient(Term q, Term r, std::optional<Term> g_q, std::optional<Term> g_r) {
  const Dim m = rows_of(r), n = columns_of(r);
  const Term u = part(r, -1, 0, m), v = part(r, -1, m, n);
  if (!g_r) return joined(tall_qr_gradient(q, u, g_q, {}), {q.b, q.b->zeros_like(v)}, -1);
  const Term g_v = part(*g_r, -1, m, n);
  const Term through_y = product(product(q, v), transposed(g_v));
  const Term first =
      tall_qr_gradient(q, u, g_q ? *g_q + through_y : through_y, part(*g_r, -1, 0, m));
  return joined(first, product(q, g_v), -1);
}

}  // namespace

const VjpRule vjp_qr = [] {
  VjpRule of_qr = rule(wrt<kBothResults>([](Args a) {
    const Term q = a.y, r = a.result(1);
    const auto g_q = gradient_of(a, 0), g_r = gradient_of(a, 1);
    return rows_of(q) < columns_of(r) ? wide_qr_gradient(q, r, g_q, g_r)
                                      : tall_qr_gradient(q, r, g_q, g_r);
  }));
  of_qr.refusal = [](const VjpContext& c) {
    return refusal_of_qr(c.b, c.operand(0), c.attr<bool>(Attr::full));
  };
  return of_qr;
}();

const VjpRule vjp_geqrf{.kind = VjpRule::Kind::NotDifferentiable, .reads = read_nothing};

// V (V^T gV / (w_j - w_i), with gw on the diagonal) V^T, made symmetric
const VjpRule vjp_eigh = rule(wrt<kBothResults>([](Args a) {
  const Term w = a.y, v = a.result(1);
  const auto g_w = gradient_of(a, 0), g_v = gradient_of(a, 1);
  if (!g_v) return product(scaled_columns(v, *g_w), transposed(v));
  const Term across{&a.b, a.b.unsqueeze(w, -2)}, down{&a.b, a.b.unsqueeze(w, -1)};
  const Term turned = product(transposed(v), *g_v) / with_diagonal(across - down, 1);
  const Term inner = g_w ? with_diagonal(turned, *g_w) : with_diagonal(turned, 0);
  return product(product(v, (inner + transposed(inner)) * 0.5), transposed(v));
}));

namespace {

/// u^T gA vh^T from the gradients in the space of the factors.
Term inner_svd_gradient(Term u, Term s, Term vh, std::optional<Term> g_u, std::optional<Term> g_s,
                        std::optional<Term> g_vh) {
  Builder& b = *s.b;
  const Term gaps = square_gaps(s);
  std::optional<Term> sum;
  if (g_u) sum = scaled_columns(skew(product(transposed(u), *g_u)) / gaps, s);
  if (g_vh) {
    const Term turned = scaled_rows(skew(product(vh, transposed(*g_vh))) / gaps, s);
    sum = sum ? *sum + turned : turned;
  }
  if (!sum) sum = Term{&b, b.zeros_like(gaps)};
  return g_s ? with_diagonal(*sum, *g_s) : *sum;
}

}  // namespace

const VjpRule vjp_svd =
    rule(wrt < kResult | kSecondResult |
         Reads{0, 4} > ([](Args a) {
           const Term s = a.result(1);
           const Dim k = columns_of(s);
           const Term u = part(a.y, -1, 0, k), vh = part(a.result(2), -2, 0, k);
           auto g_u = gradient_of(a, 0), g_vh = gradient_of(a, 2);
           if (g_u) g_u = part(*g_u, -1, 0, k);
           if (g_vh) g_vh = part(*g_vh, -2, 0, k);
           const auto g_s = gradient_of(a, 1);
           if (!g_u && !g_vh) return product(scaled_columns(u, *g_s), vh);
           Term g = product(product(u, inner_svd_gradient(u, s, vh, g_u, g_s, g_vh)), vh);
           if (g_u && rows_of(u) > k) {
             const Term inverse{&a.b, a.b.reciprocal(s)};
             g = g + product(outside(scaled_columns(*g_u, inverse), u), vh);
           }
           if (g_vh && columns_of(vh) > k) {
             const Term inverse{&a.b, a.b.reciprocal(s)}, v = transposed(vh);
             g = g + product(u, transposed(outside(scaled_columns(transposed(*g_vh), inverse), v)));
           }
           return g;
         }));

// the upper right of exp([a^T g; 0 a^T])
const VjpRule vjp_matrix_exp = rule(wrt<kSelf>([](Args a) {
  const Term x = transposed(a.x());
  return matrix_exp_along(x, a.g);
}));

namespace {

/// At constant rank (Golub and Pereyra).
Term pinv_gradient(Term x, Term p, Term g) {
  const Term pt = transposed(p);
  if (rows_of(x) <= columns_of(x)) {
    const Term k = product(g, p), kpt = product(k, pt);
    return -transposed(product(p, k)) + kpt - product(product(x, p), kpt) +
           product(product(pt, p), g - product(k, x));
  }
  const Term k = product(p, g), ptk = product(pt, k);
  return -transposed(product(k, p)) + product(product(g - product(x, k), p), pt) + ptk -
         product(product(ptk, p), x);
}

}  // namespace

const VjpRule vjp_pinv = rule(
    wrt < kSelf | kResult > ([](Args a) { return pinv_gradient(a.x(), a.y, transposed(a.g)); }),
    NoGradient(), NoGradient());

// (The derivative is its own adjoint.)
const VjpRule vjp_truncated_pinv =
    rule(wrt<kFactors>([](Args a) { return truncated_inverse_along(a, transposed(a.g)); }),
         NoGradient(), NoGradient());

}  // namespace tandem::autodiff
