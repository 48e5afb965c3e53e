#include "machine/linalg/f64_product.h"

#include <algorithm>
#include <limits>

#include "machine/cpu.h"
#include "machine/linalg/lapack.h"
#include "machine/parts.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine {
namespace {

// A block's sides, at most: each block brings its rows and columns into BLAS's panels again.
constexpr int64_t kRows = 384, kColumns = 768;

/// BLAS takes columns where we have rows: C^T = B^T A^T.
void multiply_block(const DenseProduct& p, const double* a, const double* b, double* c,
                    const Range& rows, const Range& columns) {
  const int64_t row = rows.begin, column = columns.begin;
  lapack::gemm<double>(
      {.m = columns.size(), .n = rows.size(), .k = p.k},
      {b + (p.transposed_b ? column * p.k : column), p.transposed_b ? p.k : p.n, p.transposed_b},
      {a + (p.transposed_a ? row : row * p.k), p.transposed_a ? p.m : p.k, p.transposed_a},
      {c + row * p.n + column, p.n, p.accumulate});
}

}  // namespace

// (One thread of a Zen 4 of 1 MB, quiet and beside others, 2026-11; Gflop/s of generated kernels
// and so. 512^3: 53, 30; 51, 49. 1024^3: 51, 20; 49, 48. 2048^3: 12, 5; 50, 49. 256^3: 59, 59;
// 52, 52. With AVX2, quiet: 256^3: 50, 53; 384^3: 44, 54; 512^3: 31, 50.)
bool is_large_f64_product(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kFewest = 32, kMost = std::numeric_limits<int>::max();
  const int64_t elements = int64_t{1} << (cpu_features().vector_bytes == 64 ? 18 : 16);
  return std::min({m, n, k}) >= kFewest && k * n > elements && m * n >= elements / 8 &&
         std::max({m, n, k}) <= kMost;
}

void multiply_f64(const DenseProduct& p, const double* a, const double* b, double* c) {
  if (p.batch * p.m * p.n == 0) return;
  const EvenParts rows(p.m, kRows), columns(p.n, kColumns);
  const int64_t blocks = rows.count * columns.count;
  parallel_for(p.batch * blocks, 1, [&](int64_t begin, int64_t end, int) {
    const lapack::Call in_library;
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t matrix = unit / blocks, block = unit % blocks;
      multiply_block(p, a + matrix * p.m * p.k, b + matrix * p.k * p.n, c + matrix * p.m * p.n,
                     rows[block / columns.count], columns[block % columns.count]);
    }
  });
}

}  // namespace tandem::machine
