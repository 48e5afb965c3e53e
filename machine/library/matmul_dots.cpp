// Products of which C is one number, or has few rows or columns: sums along k.
#include "machine/library/matmul_job.h"
#include "machine/memory/worker_memory.h"
#include "machine/products/panels.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine {
namespace {

/// What a block's sums are added to, and how far its elements lie apart along rows and columns.
struct Start {
  const float* data = nullptr;
  int64_t row = 0, col = 0;
};

constexpr float kZero = 0;

Start start_of(const MatmulJob& job, const MatmulBlock& x, const BlockSums& c) {
  if (job.spec.plus_zero) return {&kZero, 0, 0};
  if (job.bias && job.blocks.grid_k == 1) return {bias_at(job, x), 0, 1};
  return c.adds ? Start{c.data, c.stride, 1} : Start{};
}

void one_number(const MatmulJob& job, const MatmulBlock& x) {
  const MatmulSpec& s = job.spec;
  const BlockSums c = sums_of(job, x);
  const Start start = start_of(job, x, c);
  const float sum = products::panels()->dot({a_at(job, x), s.a.col}, {b_at(job, x), s.b.row}, x.k);
  *c.data = start.data ? *start.data + sum : sum;
}

/// The lines, `apart` apart, of an operand whose elements along k are `step` apart: where they lie,
/// or side by side in `memory`.
products::Lines few_lines(const float* data, int64_t count, int64_t apart, int64_t k, int64_t step,
                          float* memory) {
  if (step == 1) return {data, count, apart};
  for (int64_t l = 0; l < k; ++l)
    for (int64_t i = 0; i < count; ++i) memory[i * k + l] = data[l * step + i * apart];
  return {memory, count, k};
}

/// `memory`: x.k floats for each line that is brought there.
void few_of_many(const MatmulJob& job, const MatmulBlock& x, float* memory) {
  const MatmulSpec& s = job.spec;
  const BlockSums c = sums_of(job, x);
  const Start start = start_of(job, x, c);
  if (has_few_columns(s)) {
    const products::Lines rows{a_at(job, x), x.m, s.a.row};
    const products::Lines few = few_lines(b_at(job, x), x.n, s.b.col, x.k, s.b.row, memory);
    products::panels()->dots(
        {rows, few, x.k, {c.data, c.stride, 1}, {start.data, start.row, start.col}});
  } else {
    const products::Lines columns{b_at(job, x), x.n, s.b.col};
    const products::Lines few = few_lines(a_at(job, x), x.m, s.a.row, x.k, s.a.col, memory);
    products::panels()->dots(
        {columns, few, x.k, {c.data, 1, c.stride}, {start.data, start.col, start.row}});
  }
}

}  // namespace

void run_in_dots(const MatmulJob& job) {
  const MatmulBlocks& b = job.blocks;
  const bool is_one = job.spec.m == 1 && job.spec.n == 1;
  const WorkerMemory memory(is_one ? 0 : kFewColumns * b.k);
  parallel_for(b.units(), b.grain, [&](int64_t begin, int64_t end, int worker) {
    for_each_block(job, begin, end, [&](const MatmulBlock& x) {
      is_one ? one_number(job, x) : few_of_many(job, x, memory.of(worker));
    });
  });
}

}  // namespace tandem::machine
