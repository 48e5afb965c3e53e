// A cut product while it runs: what its workers share, and where its blocks are.
#ifndef TANDEM_MACHINE_LIBRARY_MATMUL_JOB_H
#define TANDEM_MACHINE_LIBRARY_MATMUL_JOB_H

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <atomic>

#include "machine/library/block_primitive.h"
#include "machine/library/matmul_blocks.h"

namespace tandem::machine {

/// One call of run: what the workers share.
struct MatmulJob {
  const MatmulSpec& spec;
  const MatmulBlocks& blocks;
  BlasLayout a_layout, b_layout, c_layout;
  const float* a;
  const float* b;
  float* c;
  const float* bias;    // [n], or null
  const float* packed;  // B in panels, or null
  float* partials;      // [grid_k, batch, m, n] when the sum is split
  const BlockPrimitive* full;
  const BlockPrimitive* last;
  std::atomic<int> status{dnnl_success};
};

/// Where block number `unit` begins, and how large it is.
struct MatmulBlock {
  int64_t batch, i, j, l, count, m, n, k, chunk;
};

inline MatmulBlock block_at(const MatmulSpec& s, const MatmulBlocks& b, int64_t unit) {
  const int64_t i = unit % b.grid_m * b.m;
  unit /= b.grid_m;
  const int64_t j = unit % b.grid_n * b.n;
  unit /= b.grid_n;
  const int64_t chunk = unit % b.grid_k, l = chunk * b.k, batch = unit / b.grid_k * b.batch;
  return {batch,
          i,
          j,
          l,
          std::min(b.batch, s.matrices() - batch),
          std::min(b.m, s.m - i),
          std::min(b.n, s.n - j),
          std::min(b.k, s.k - l),
          chunk};
}

/// Of the first element of matrix `matrix`.
inline int64_t offset_of(const MatmulSpec& spec, const MatrixStrides& s, int64_t matrix) {
  return matrix / spec.batch * s.outer + matrix % spec.batch * s.batch;
}

inline const float* a_at(const MatmulJob& job, const MatmulBlock& x) {
  const MatrixStrides& s = job.spec.a;
  return job.a + offset_of(job.spec, s, x.batch) + x.i * s.row + x.l * s.col;
}

inline const float* b_at(const MatmulJob& job, const MatmulBlock& x) {
  const MatrixStrides& s = job.spec.b;
  return job.b + offset_of(job.spec, s, x.batch) + x.l * s.row + x.j * s.col;
}

inline float* row_of_c(const MatmulJob& job, int64_t matrix, int64_t row) {
  return job.c + offset_of(job.spec, job.spec.c, matrix) + row * job.spec.c.row;
}

inline const float* bias_at(const MatmulJob& job, const MatmulBlock& x) { return job.bias + x.j; }

/// Where a block's sums go: a part of C, or of a chunk's partial sums.
struct BlockSums {
  float* data;
  int64_t stride;
  bool adds;
};

inline BlockSums sums_of(const MatmulJob& job, const MatmulBlock& x) {
  const MatmulSpec& s = job.spec;
  if (job.blocks.grid_k == 1)
    return {row_of_c(job, x.batch, x.i) + x.j, job.c_layout.ld, s.accumulate};
  const int64_t row = (x.chunk * s.matrices() + x.batch) * s.m + x.i;
  return {job.partials + row * s.n + x.j, s.n, false};
}

template <class Compute>
void for_each_block(const MatmulJob& job, int64_t begin, int64_t end, Compute compute) {
  for (int64_t unit = begin; unit < end; ++unit) compute(block_at(job.spec, job.blocks, unit));
}

/// Where C is one number, or has few rows or columns (BlockAlgorithm::Dots).
void run_in_dots(const MatmulJob& job);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LIBRARY_MATMUL_JOB_H
