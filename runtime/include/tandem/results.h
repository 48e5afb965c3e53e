// What functions of several results return: structures, so that compiled functions may return them
// too, and `auto [values, indices] = max(x, 0);` takes them apart.
#ifndef TANDEM_RESULTS_H
#define TANDEM_RESULTS_H

#include <tandem/structure.h>

namespace tandem {

/// Of max and min along a dimension, where the first of several extremes counts; of sorts and
/// selections.
struct ValuesAndIndices {
  Tensor values, indices;
  TANDEM_LAZY_FIELDS(ValuesAndIndices, values, indices)
};

/// inverse: where among the values each element is; counts: how often each value appears.
struct Unique {
  Tensor values, inverse, counts;
  TANDEM_LAZY_FIELDS(Unique, values, inverse, counts)
};

struct MinMax {
  Tensor min, max;
  TANDEM_LAZY_FIELDS(MinMax, min, max)
};

struct VarMean {
  Tensor var, mean;
  TANDEM_LAZY_FIELDS(VarMean, var, mean)
};

struct StdMean {
  Tensor std, mean;
  TANDEM_LAZY_FIELDS(StdMean, std, mean)
};

/// mantissa 2^exponent, the mantissa's magnitude from 1/2 on and below 1; exponent: i32.
struct MantissaAndExponent {
  Tensor mantissa, exponent;
  TANDEM_LAZY_FIELDS(MantissaAndExponent, mantissa, exponent)
};

/// values of i8, and the number that those of each channel are multiples of.
struct QuantizedInt8 {
  Tensor values, scale;
  TANDEM_LAZY_FIELDS(QuantizedInt8, values, scale)
};

struct Histogram {
  Tensor hist, bin_edges;
  TANDEM_LAZY_FIELDS(Histogram, hist, bin_edges)
};

/// Of several dimensions, each of which has edges.
struct Histograms {
  Tensor hist;
  std::vector<Tensor> bin_edges;
  TANDEM_LAZY_FIELDS(Histograms, hist, bin_edges)
};

/// rstd: one over the standard deviation. It and mean are f32 for bf16 and f16.
struct NormAndStatistics {
  Tensor result, mean, rstd;
  TANDEM_LAZY_FIELDS(NormAndStatistics, result, mean, rstd)
};

// --- of matrices; info: for each 0, or what failed, as LAPACK says it

struct Qr {
  Tensor q, r;
  TANDEM_LAZY_FIELDS(Qr, q, r)
};

/// u diag(s) vh
struct Svd {
  Tensor u, s, vh;
  TANDEM_LAZY_FIELDS(Svd, u, s, vh)
};

/// u diag(s) v^T
struct SvdOfV {
  Tensor u, s, v;
  TANDEM_LAZY_FIELDS(SvdOfV, u, s, v)
};

struct Eigh {
  Tensor eigenvalues, eigenvectors;
  TANDEM_LAZY_FIELDS(Eigh, eigenvalues, eigenvectors)
};

struct SignAndLogDet {
  Tensor sign, logabsdet;
  TANDEM_LAZY_FIELDS(SignAndLogDet, sign, logabsdet)
};

/// L below the diagonal and U; row i changed place with row pivots[i] - 1.
struct LuFactors {
  Tensor lu, pivots, info;
  TANDEM_LAZY_FIELDS(LuFactors, lu, pivots, info)
};

/// p @ l @ u
struct Lu {
  Tensor p, l, u;
  TANDEM_LAZY_FIELDS(Lu, p, l, u)
};

struct ResultAndInfo {
  Tensor result, info;
  TANDEM_LAZY_FIELDS(ResultAndInfo, result, info)
};

/// R, below its diagonal the vectors of reflections, and their scales.
struct Reflections {
  Tensor a, tau;
  TANDEM_LAZY_FIELDS(Reflections, a, tau)
};

struct TriangularSolution {
  Tensor solution, cloned_coefficient;
  TANDEM_LAZY_FIELDS(TriangularSolution, solution, cloned_coefficient)
};

struct LeastSquares {
  Tensor solution, residuals, rank, singular_values;
  TANDEM_LAZY_FIELDS(LeastSquares, solution, residuals, rank, singular_values)
};

}  // namespace tandem

#endif  // TANDEM_RESULTS_H
