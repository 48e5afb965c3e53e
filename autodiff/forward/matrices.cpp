// Factors and solutions of matrices: what each factor's equation says when both sides move.
#include "autodiff/forward/rules.h"
#include "autodiff/matrix_terms.h"

namespace tandem::autodiff {
namespace {

/// Of a symmetric matrix, of which one triangle is read, as its gradient has it.
Term symmetric(Term t) { return (t + transposed(t)) * 0.5; }

}  // namespace

// L phi(L^-1 t L^-T); phi is the lower triangle with half of the diagonal
const JvpRule jvp_cholesky = formula([](Along a) {
  const Term l = a.y;
  const Term inner = lower(solved_right(solved(l, symmetric(a.t()), false), transposed(l), true));
  return results(product(l, where(on_diagonal(inner), inner * 0.5, inner)), V());
});

// --- P L U
namespace {

/// Rows as the permutation of `pivots` takes them.
Term rows_taken(Term t, Term pivots) {
  Builder& b = *t.b;
  const V order = b.emit(Op::lu_permutation, {pivots}, {rows_of(t)});
  const Shape sizes = b.sizes(t);
  const V index = b.expand(b.unsqueeze(order, -1), sizes);
  return {&b, b.gather(t, b.rank(t) - 2, index)};
}

/// Of the packed factors of a square L U, from L^-1 t U^-1.
struct SquareLu {
  SquareLu(Term l, Term u, Term t) {
    const Term inner = solved_right(solved(l, t, false, true), u, true);
    of_l = product(l, lower(inner, -1));
    of_u = product(upper(inner), u);
  }
  Term packed() const { return of_l + of_u; }
  Term of_l, of_u;
};

/// A = P L [U1 U2]
Term wide_lu(Term l, Term u, Term t) {
  const Dim m = rows_of(t), n = columns_of(t);
  const SquareLu first(l, part(u, -1, 0, m), part(t, -1, 0, m));
  const Term rest = part(t, -1, m, n) - product(first.of_l, part(u, -1, m, n));
  return joined(first.packed(), solved(l, rest, false, true), -1);
}

/// A = P [L1; L2] U
Term tall_lu(Term l, Term u, Term t) {
  const Dim m = rows_of(t), n = columns_of(t);
  const SquareLu first(part(l, -2, 0, n), u, part(t, -2, 0, n));
  const Term rest = part(t, -2, n, m) - product(part(l, -2, n, m), first.of_u);
  return joined(first.packed(), solved_right(rest, u, true), -2);
}

}  // namespace

const JvpRule jvp_lu_factor = formula([](Along a) {
  const Dim m = rows_of(a.y), n = columns_of(a.y), k = std::min(m, n);
  const Term l = with_diagonal(lower(part(a.y, -1, 0, k), -1), 1);
  const Term u = invertible(upper(part(a.y, -2, 0, k)));
  const Term t = rows_taken(a.t(), a.result(1));
  const Term packed = m < n   ? wide_lu(l, u, t)
                      : m > n ? tall_lu(l, u, t)
                              : SquareLu(l, u, t).packed();
  return results(packed, V(), V());
});
const JvpRule jvp_lu_permutation = kNoTangent;

// --- solutions: of a x = b, a^-1 (db - da x)

const JvpRule jvp_triangular_solve = formula([](Along a) {
  const bool is_upper = a.attr<bool>(Attr::upper), unit = a.attr<bool>(Attr::unitriangular);
  const auto triangle = [&](Term t) {
    return is_upper ? upper(t, unit ? 1 : 0) : lower(t, unit ? -1 : 0);
  };
  const auto moved = through_operands(
      a, [&](Term t) { return -product(triangle(t), a.y); }, [](Term t) { return t; });
  return solved(a.x(), *moved, is_upper, unit);
});

// The derivative is by self: the factors follow it.
const JvpRule jvp_lu_solve = formula([](Along a) {
  const bool is_transposed = a.attr<bool>(Attr::transposed);
  std::optional<Term> moved;
  if (a.moves(0)) moved = -product(is_transposed ? transposed(a.t(0)) : a.t(0), a.y);
  if (a.moves(3)) moved = moved ? *moved + a.t(3) : a.t(3);
  if (!moved) return V();
  return a.b.emit(Op::lu_solve, {a.x(0), a.x(1), a.x(2), *moved}, {is_transposed});
});

// --- orthogonal factors
namespace {

/// Of [X Y] = Q [U V], X square or tall: with W = dX U^-1 and S = Q^T W, whose strict lower
/// triangle is that of the skew Q^T dQ, dU = (S - Q^T dQ) U.
Tangents qr(const Along& a) {
  const Term q = a.y, r = a.result(1), t = a.t();
  const Dim m = rows_of(q), n = columns_of(r), k = std::min(m, n);
  if (const std::string why = refusal_of_qr(*q.b, a.x(), a.attr<bool>(Attr::full)); !why.empty())
    ir::fail(ir::Errc::Autograd, why);
  const Term u = part(r, -1, 0, k), w = solved_right(part(t, -1, 0, k), u, true);
  const Term s = product(transposed(q), w), rest = s - skew(lower(s, -1));
  const Term of_q = w - product(q, rest), of_u = product(rest, u);
  if (m >= n) return results(of_q, of_u);
  const Term moved = part(t, -1, m, n) - product(of_q, part(r, -1, m, n));
  return results(of_q, joined(of_u, product(transposed(q), moved), -1));
}

/// `v` with `count` columns of zeros behind it.
Term with_zero_columns(Term v, Dim count) {
  if (count == 0) return v;
  ir::Dims padding(static_cast<size_t>(2 * v.b->rank(v)), Dim(0));
  padding[padding.size() - 1] = count;
  return {v.b, v.b->pad(v, padding, 0)};
}

Term diagonal_of(Term matrix) { return {matrix.b, matrix.b->diagonal(matrix, 0, -2, -1)}; }

}  // namespace
const JvpRule jvp_qr = formula([](Along a) { return qr(a); });
const JvpRule jvp_geqrf = kNoTangent;

// M = V^T t V: its diagonal, and V (M / (w_j - w_i))
const JvpRule jvp_eigh = formula([](Along a) {
  const Term w = a.y, v = a.result(1);
  const Term m = product(product(transposed(v), symmetric(a.t())), v);
  const Term across{&a.b, a.b.unsqueeze(w, -2)}, down{&a.b, a.b.unsqueeze(w, -1)};
  const Term inner = with_diagonal(m / with_diagonal(across - down, 1), 0);
  return results(diagonal_of(m), product(v, inner));
});

// M = U^T t V: its diagonal, U ((M S + S M^T) / gaps) and V ((S M + M^T S) / gaps), and what of t
// leaves the space of the factors, through S^-1
const JvpRule jvp_svd = formula([](Along a) {
  const Term s = a.result(1);
  const Dim k = columns_of(s);
  const Term u = part(a.y, -1, 0, k), v = transposed(part(a.result(2), -2, 0, k));
  const Term m = product(product(transposed(u), a.t()), v), gaps = square_gaps(s);
  const auto turned = [&](Term basis, Term inner, Term moved) {
    const Term in_space = product(basis, with_diagonal((inner + transposed(inner)) / gaps, 0));
    if (rows_of(basis) == k) return in_space;
    return in_space + scaled_columns(outside(moved, basis), Term{&a.b, a.b.reciprocal(s)});
  };
  const Term of_u = turned(u, scaled_columns(m, s), product(a.t(), v));
  const Term of_v = turned(v, scaled_rows(m, s), product(transposed(a.t()), u));
  return results(with_zero_columns(of_u, columns_of(a.y) - k), diagonal_of(m),
                 transposed(with_zero_columns(of_v, rows_of(a.result(2)) - k)));
});

const JvpRule jvp_matrix_exp = formula([](Along a) { return matrix_exp_along(a.x(), a.t()); });

// At constant rank (Golub and Pereyra): -P t P + P P^T t^T (1 - X P) + (1 - P X) t^T P^T P. Nothing
// moves with the tolerances.
const JvpRule jvp_pinv = formula([](Along a) {
  if (!a.moves(0)) return V();
  const Term x = a.x(), p = a.y, pt = transposed(p), tt = transposed(a.t());
  const Term rows = product(product(p, pt), tt), columns = product(tt, product(pt, p));
  return V(rows - product(product(rows, x), p) + columns - product(p, product(x, columns)) -
           product(product(p, a.t()), p));
});
const JvpRule jvp_truncated_pinv = formula(
    [](Along a) { return a.moves(0) ? V(transposed(truncated_inverse_along(a, a.t()))) : V(); });

}  // namespace tandem::autodiff
