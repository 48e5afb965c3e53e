// Products with matrices of i8 with what every processor has, as loops for the vectoriser.
#include "machine/products/int8_kernels.h"
#include "machine/products/int8_loops.inc"

namespace tandem::machine::products {
namespace {

int64_t integer_scratch(int64_t /*m*/, int64_t n, int64_t k) { return k + n; }

/// (Sums wrap: they are kept without signs.)
void multiply_row(const IntegerProduct& p, const int32_t* row, uint32_t* sums) {
  for (int64_t j = 0; j < p.n; ++j) sums[j] = 0;
  for (int64_t j = 0; p.b.transposed && j < p.n; ++j) {
    const int8_t* const column = p.b.data + j * p.b.stride;
    for (int64_t l = 0; l < p.k; ++l) sums[j] += static_cast<uint32_t>(row[l] * column[l]);
  }
  for (int64_t l = 0; !p.b.transposed && l < p.k; ++l) {
    const int8_t* const factors = p.b.data + l * p.b.stride;
    for (int64_t j = 0; j < p.n; ++j) sums[j] += static_cast<uint32_t>(row[l] * factors[j]);
  }
}

void multiply_integers(const IntegerProduct& p, int32_t* scratch) {
  auto* const sums = reinterpret_cast<uint32_t*>(scratch + p.k);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t l = 0; l < p.k; ++l)
      scratch[l] = p.a.data[p.a.transposed ? l * p.a.stride + i : i * p.a.stride + l];
    multiply_row(p, scratch, sums);
    for (int64_t j = 0; j < p.n; ++j) p.out[i * p.out_stride + j] = static_cast<int32_t>(sums[j]);
  }
}

}  // namespace

const WeightKernels kWeightsBase = {multiply_by_loops<float>, multiply_by_loops<double>, widen};
const IntegerKernels kIntegersBase = {1, 16, 256, 16, integer_scratch, multiply_integers};

}  // namespace tandem::machine::products
