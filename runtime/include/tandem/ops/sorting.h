// Sorts, selections and searches, named and defined as in ATen: NaN counts as the largest, and of
// equal elements the first comes first.
#ifndef TANDEM_OPS_SORTING_H
#define TANDEM_OPS_SORTING_H

#include <tandem/ops.h>

namespace tandem {

#define TANDEM_AT SourceLocation at = SourceLocation::current()

/// Stable, be that asked for or not. Gradients go to where the values came from.
TANDEM_API ValuesAndIndices sort(const Tensor& self, int64_t dim = -1, bool descending = false,
                                 bool stable = false, TANDEM_AT);
TANDEM_API Tensor argsort(const Tensor& self, int64_t dim = -1, bool descending = false,
                          bool stable = false, TANDEM_AT);
/// Along the first dimension; the values alone.
TANDEM_API Tensor msort(const Tensor& self, TANDEM_AT);
/// The k largest (smallest) elements, in order, be that asked for or not.
TANDEM_API ValuesAndIndices topk(const Tensor& self, Dim k, int64_t dim = -1, bool largest = true,
                                 bool sorted = true, TANDEM_AT);
/// The k-th smallest, counted from 1.
TANDEM_API ValuesAndIndices kthvalue(const Tensor& self, Dim k, int64_t dim = -1,
                                     bool keepdim = false, TANDEM_AT);

/// right: behind elements that are equal, not before them.
struct SearchOptions {
  bool out_int32 = false, right = false;
  Tensor sorter = {};  // positions that would sort the sequence
};
/// Where in sorted_sequence, a vector or rows of its own for each of self's, each element of self
/// would stand.
TANDEM_API Tensor searchsorted(const Tensor& sorted_sequence, const Located& self,
                               const SearchOptions& options = {});
/// Which of the intervals between `boundaries`, a sorted vector, each element lies in.
TANDEM_API Tensor bucketize(const Located& self, const Tensor& boundaries,
                            const SearchOptions& options = {});
/// Whether each element is among the test elements; if `invert`, whether it is not.
TANDEM_API Tensor isin(const Tensor& elements, const Tensor& test_elements,
                       bool assume_unique = false, bool invert = false, TANDEM_AT);

/// The elements at positions in row-major order; they may count from the end.
TANDEM_API Tensor take(const Tensor& self, const Tensor& index, TANDEM_AT);
/// gather with self and indices broadcast to each other; without dim of all elements in row-major
/// order.
TANDEM_API Tensor take_along_dim(const Tensor& self, const Tensor& indices,
                                 std::optional<int64_t> dim = {}, TANDEM_AT);
/// self with source's elements at positions in row-major order, or added to what is there.
TANDEM_API Tensor put(const Tensor& self, const Tensor& index, const Tensor& source,
                      bool accumulate = false, TANDEM_AT);

// --- random
/// 0 to n - 1 in random order.
TANDEM_API Tensor randperm(Dim n, DType dtype = i64, TANDEM_AT);
/// 1 with the probability that each element is, or p.
TANDEM_API Tensor bernoulli(const Tensor& self, TANDEM_AT);
TANDEM_API Tensor bernoulli(const Tensor& self, double p, TANDEM_AT);
/// Of each row of weights `num_samples` positions.
TANDEM_API Tensor multinomial(const Tensor& self, Dim num_samples, bool replacement = false,
                              TANDEM_AT);
TANDEM_API Tensor normal(const Tensor& mean, const Tensor& std, TANDEM_AT);
TANDEM_API Tensor normal(const Tensor& mean, double std = 1, TANDEM_AT);
TANDEM_API Tensor normal(double mean, const Tensor& std, TANDEM_AT);
TANDEM_API Tensor normal(double mean, double std, const Shape& sizes, DType dtype = f32, TANDEM_AT);

#undef TANDEM_AT

}  // namespace tandem

#endif  // TANDEM_OPS_SORTING_H
