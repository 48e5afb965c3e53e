// What the rules of matrices [..., rows, columns], of gradients and of tangents, are made of.
#ifndef TANDEM_AUTODIFF_MATRIX_TERMS_H
#define TANDEM_AUTODIFF_MATRIX_TERMS_H

#include "autodiff/rules.h"
#include "ir/base/error.h"

namespace tandem::autodiff {

inline Term transposed(Term v) { return {v.b, v.b->transpose(v, -2, -1)}; }
inline Term product(Term p, Term q) { return {p.b, p.b->matmul(p, q)}; }

inline Dim rows_of(Term v) { return v.b->sizes(v)[v.b->rank(v) - 2]; }
inline Dim columns_of(Term v) { return v.b->sizes(v).back(); }

inline Term lower(Term v, int64_t diagonal = 0) {
  return {v.b, v.b->pointwise(Op::tril, {v}, {Dim(diagonal)})};
}
inline Term upper(Term v, int64_t diagonal = 0) {
  return {v.b, v.b->pointwise(Op::triu, {v}, {Dim(diagonal)})};
}

/// True on the diagonal.
inline Term on_diagonal(Term matrix) {
  Builder& b = *matrix.b;
  const Dim m = rows_of(matrix), n = columns_of(matrix);
  const V row = b.view(b.iota(m, ir::DType::I64), {m, 1}),
          column = b.view(b.iota(n, ir::DType::I64), {1, n});
  return {&b, b.eq(row, column)};
}
/// With `values` on the diagonal.
inline Term with_diagonal(Term matrix, Term values) {
  return where(on_diagonal(matrix), Term{values.b, values.b->unsqueeze(values, -2)}, matrix);
}
inline Term with_diagonal(Term matrix, const Number& value) {
  return where(on_diagonal(matrix), value, matrix);
}
/// The sum of columns' multiples: v diag(factors); and of rows'.
inline Term scaled_columns(Term v, Term factors) {
  return v * Term{v.b, v.b->unsqueeze(factors, -2)};
}
inline Term scaled_rows(Term v, Term factors) { return v * Term{v.b, v.b->unsqueeze(factors, -1)}; }

inline Term part(Term v, int dim, Dim begin, Dim end) {
  return {v.b, v.b->slice(v, dim, begin, end)};
}
inline Term joined(Term p, Term q, int dim) {
  const V parts[] = {p, q};
  return {p.b, p.b->cat(parts, dim)};
}

/// a^-1 v, of a triangular a.
inline Term solved(Term a, Term v, bool is_upper, bool unit = false) {
  return {a.b, a.b->emit(Op::triangular_solve, {a, v}, {is_upper, unit})};
}
/// v a^-1
inline Term solved_right(Term v, Term a, bool is_upper, bool unit = false) {
  return transposed(solved(transposed(a), transposed(v), !is_upper, unit));
}

/// x - x^T
inline Term skew(Term x) { return x - transposed(x); }

/// Without what lies in the space of q's columns.
inline Term outside(Term x, Term q) { return x - product(q, product(transposed(q), x)); }

inline double smallest_pivot(Term v) {
  return v.b->dtype(v) == ir::DType::F32 ? 1.1920929e-07 : 2.220446049250313e-16;
}

/// U without zeros on its diagonal: where the matrix is singular, determinants have gradients.
inline Term invertible(Term u) {
  return where(on_diagonal(u) && equal(u, 0), smallest_pivot(u), u);
}

/// The squares of s, each less each other; 1 on the diagonal.
inline Term square_gaps(Term s) {
  const Term squares = s * s;
  return with_diagonal(
      Term{s.b, s.b->unsqueeze(squares, -2)} - Term{s.b, s.b->unsqueeze(squares, -1)}, 1);
}

/// The derivative of exp(x) along `direction`: the upper right of exp([x direction; 0 x]).
inline Term matrix_exp_along(Term x, Term direction) {
  const Dim n = rows_of(x);
  const Term zeros{x.b, x.b->zeros_like(x)};
  const Term blocks = joined(joined(x, direction, -1), joined(zeros, x, -1), -2);
  const Term exp{x.b, x.b->emit(Op::matrix_exp, {blocks}, {})};
  return part(part(exp, -2, 0, n), -1, n, 2 * n);
}

/// f(s) of a truncated pinv's singular values, 1 / s or 0, and its divided differences: less each
/// other, and of s and -s, f being odd.
struct TruncatedInverse {
  explicit TruncatedInverse(const Args& a, Term s);

  Term f, differences, sums;
};

inline TruncatedInverse::TruncatedInverse(const Args& a, Term s) : f(s), differences(s), sums(s) {
  Builder& b = a.b;
  const auto down = [&](V v) { return Term{&b, b.unsqueeze(v, -1)}; };
  const auto across = [&](V v) { return Term{&b, b.unsqueeze(v, -2)}; };
  const auto quotient = [](Term p, Term q) { return p / where(equal(q, 0), 1, q); };
  const Term counts{&b, b.counting(s, a.x(1), a.x(2))};
  f = where(counts, 1 / where(counts, s, 1), 0);
  differences = where(down(counts) && across(counts), -(down(f) * across(f)),
                      quotient(down(f) - across(f), down(s) - across(s)));
  sums = quotient(down(f) + across(f), down(s) + across(s));
}

/// The derivative of a truncated pinv, transposed, along `direction`. Of x = u diag(s) v^T that is
/// the derivative of u diag(f(s)) v^T (Noferini, "A formula for the Frechet derivative of a
/// generalized matrix function").
inline Term truncated_inverse_along(const Args& a, Term direction) {
  const Term given = a.x();
  if (a.b.numel(given) == 0) return {&a.b, a.b.zeros_like(given)};
  const Term x =
      a.attr<bool>(Attr::hermitian) ? lower(given) + transposed(lower(given, -1)) : given;
  const V self[] = {x};
  const ir::ValueList found = a.b.emit_all(Op::svd, self, {false});
  const Term u{&a.b, found[0]}, s{&a.b, found[1]}, vt{&a.b, found[2]}, v = transposed(vt);
  const TruncatedInverse inverse(a, s);
  const Term m = product(product(transposed(u), direction), v), squares = inverse.f * inverse.f;
  const Term inner = inverse.differences * (m + transposed(m)) + inverse.sums * skew(m);
  Term sum = product(product(u, inner * 0.5), vt);
  if (rows_of(u) > columns_of(u))
    sum = sum + product(outside(scaled_columns(product(direction, v), squares), u), vt);
  if (rows_of(v) > columns_of(v)) {
    const Term rest = scaled_columns(product(transposed(direction), u), squares);
    sum = sum + product(u, transposed(outside(rest, v)));
  }
  return sum;
}

/// Why `full` factors of `matrix` have no derivative: Q is more than its orthogonal factor. Else
/// "".
inline std::string refusal_of_qr(const Builder& b, V matrix, bool full) {
  const Shape& sizes = b.sizes(matrix);
  if (!full || sizes[sizes.rank() - 2] <= sizes[sizes.rank() - 1]) return "";
  return "qr: a complete Q of more rows than columns is not differentiable; expected mode "
         "\"reduced\", got \"complete\"";
}

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_MATRIX_TERMS_H
