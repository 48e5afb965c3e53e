// Running a cut product. This file, block_primitive.cpp and matmul_job.h are all that matrix
// products know of oneDNN and OpenMP.
#include "machine/library/matmul.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "ir/base/error.h"
#include "machine/library/block_primitive.h"
#include "machine/library/exit_gate.h"
#include "machine/library/matmul_blocks.h"
#include "machine/library/matmul_job.h"
#include "machine/memory/arena.h"
#include "machine/memory/worker_memory.h"
#include "machine/products/panel_cut.h"
#include "machine/products/panels.h"
#include "machine/products/split_bf16.h"
#include "machine/products/tree_sum.h"
#include "machine/threads/fork_lock.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine {
namespace {

/// The block's rows of C become the bias, just before the product is added to them.
void start_with_bias(const MatmulJob& job, const MatmulBlock& x) {
  for (int64_t batch = x.batch; batch < x.batch + x.count; ++batch)
    for (int64_t i = x.i; i < x.i + x.m; ++i)
      std::copy_n(bias_at(job, x), x.n, row_of_c(job, batch, i) + x.j);
}

/// Elements of B that a block transposes itself, in 16 KiB of its stack: the library takes longer
/// for so few.
constexpr int64_t kTransposed = 4096;

using Vec4 = float __attribute__((vector_size(16)));

Vec4 load(const float* from) {
  Vec4 v;
  std::memcpy(&v, from, sizeof(v));
  return v;
}

void add_zero(const MatmulJob& job, const MatmulBlock& x) {
  for (int64_t i = x.i; i < x.i + x.m; ++i) {
    float* row = row_of_c(job, x.batch, i) + x.j;
    int64_t j = 0;
    for (; j + 4 <= x.n; j += 4) {
      const Vec4 sum = load(row + j) + Vec4{};
      std::memcpy(row + j, &sum, sizeof(sum));
    }
    for (; j < x.n; ++j) row[j] += 0.0f;
  }
}

/// Four columns of `from`, `ld` apart, as rows of four, `n` apart.
void transpose4(const float* from, int64_t ld, float* to, int64_t n) {
  const Vec4 a = load(from), b = load(from + ld), c = load(from + 2 * ld), d = load(from + 3 * ld);
  const Vec4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Vec4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Vec4 ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Vec4 cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Vec4 rows[] = {
      __builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
      __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5), __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7)};
  for (int64_t r = 0; r < 4; ++r) std::memcpy(to + r * n, &rows[r], sizeof(Vec4));
}

/// `from` [n, k], of rows `ld` apart, as `to` [k, n].
void transpose(const float* from, int64_t ld, int64_t n, int64_t k, float* to) {
  const int64_t n4 = n / 4 * 4, k4 = k / 4 * 4;
  for (int64_t j = 0; j < n4; j += 4)
    for (int64_t l = 0; l < k4; l += 4) transpose4(from + j * ld + l, ld, to + l * n + j, n);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t l = j < n4 ? k4 : 0; l < k; ++l) to[l * n + j] = from[j * ld + l];
}

/// A block whose sum is not split, of a product that may be of any strides.
void stride_free_block(MatmulJob& job, const MatmulBlock& x) {
  const bool transposes = job.b_layout.transposed && x.k * x.n <= kTransposed;
  std::array<float, kTransposed> packed;
  if (transposes) transpose(b_at(job, x), job.b_layout.ld, x.n, x.k, packed.data());
  const dnnl_status_t status = dnnl_sgemm(
      job.a_layout.transposed ? 'T' : 'N', job.b_layout.transposed && !transposes ? 'T' : 'N', x.m,
      x.n, x.k, 1.0f, a_at(job, x), job.a_layout.ld, transposes ? packed.data() : b_at(job, x),
      transposes ? x.n : job.b_layout.ld, 0.0f, row_of_c(job, x.batch, x.i) + x.j, job.c_layout.ld);
  if (status != dnnl_success) job.status = status;
  if (job.spec.plus_zero) add_zero(job, x);
}

void sgemm_block(MatmulJob& job, const MatmulBlock& x) {
  if (job.spec.stride_free) return stride_free_block(job, x);
  const BlockSums c = sums_of(job, x);
  const dnnl_status_t status =
      dnnl_sgemm(job.a_layout.transposed ? 'T' : 'N', job.b_layout.transposed ? 'T' : 'N', x.m, x.n,
                 x.k, 1.0f, a_at(job, x), job.a_layout.ld, b_at(job, x), job.b_layout.ld,
                 c.adds ? 1.0f : 0.0f, c.data, c.stride);
  if (status != dnnl_success) job.status = status;
}

/// Where B is packed ahead, each chunk lies by itself: what the chunks before the block's take.
int64_t place_of(const MatmulSpec& s, const MatmulBlock& x) {
  return products::panels()->packed_floats(s.n, x.l);
}

void panel_block(const MatmulJob& job, const MatmulBlock& x, float* memory) {
  const BlockSums c = sums_of(job, x);
  const products::Operand a{a_at(job, x), job.a_layout.ld, job.a_layout.transposed},
      b{b_at(job, x), job.b_layout.ld, job.b_layout.transposed};
  const float* bias = job.bias && job.blocks.grid_k == 1 ? bias_at(job, x) : nullptr;
  const products::Panels& panels = *products::panels();
  const products::PackedColumns packed =
      job.packed ? products::PackedColumns{job.packed + place_of(job.spec, x), job.spec.n, x.j}
                 : products::PackedColumns{};
  panels.multiply({x.m, x.n, x.k, a, b, c.data, c.stride, c.adds && !bias, bias, packed}, memory);
  if (job.spec.plus_zero) add_zero(job, x);
}

/// One matrix after the other, each by all threads.
void run_in_parts(const MatmulJob& job, int parts) {
  const MatmulSpec& s = job.spec;
  const products::SplitMemory memory(s.m, s.k, parts);
  for (int64_t matrix = 0; matrix < s.matrices(); ++matrix) {
    const MatmulBlock whole{.batch = matrix, .i = 0, .j = 0, .l = 0, .m = 1, .n = s.n};
    const products::Operand a{a_at(job, whole), job.a_layout.ld, job.a_layout.transposed},
        b{b_at(job, whole), job.b_layout.ld, job.b_layout.transposed};
    products::multiply_split({s.m, s.n, s.k, a, b, row_of_c(job, matrix, 0), job.c_layout.ld,
                              s.accumulate && !job.bias, job.bias},
                             parts, memory);
    if (!s.plus_zero) continue;
    parallel_for(s.m, 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        add_zero(job, {.batch = matrix, .i = i, .j = 0, .m = 1, .n = s.n});
    });
  }
}

void primitive_block(MatmulJob& job, const MatmulBlock& x) {
  const bool whole = x.count == job.blocks.batch && x.m == job.blocks.m;
  const int status =
      (whole ? job.full : job.last)->run(a_at(job, x), b_at(job, x), row_of_c(job, x.batch, x.i));
  if (status != dnnl_success) job.status = status;
}

/// By its first call an algorithm has made its static objects.
template <bool primitive>
void guard_exit() {
  [[maybe_unused]] static const bool guarded = (close_gate_at_exit(), true);
}

void run_in_library(MatmulJob& job) {
  const bool primitive = job.blocks.algorithm == BlockAlgorithm::Primitive;
  parallel_for(job.blocks.units(), job.blocks.grain, [&](int64_t begin, int64_t end, int) {
    const SingleOmpThread single;
    for_each_block(job, begin, end, [&](const MatmulBlock& x) {
      if (job.bias && job.blocks.grid_k == 1) start_with_bias(job, x);
      primitive ? primitive_block(job, x) : sgemm_block(job, x);
    });
    primitive ? guard_exit<true>() : guard_exit<false>();
  });
}

void run_in_panels(const MatmulJob& job) {
  const MatmulBlocks& b = job.blocks;
  const WorkerMemory memory(products::panels()->scratch(b.m, b.n, b.k));
  parallel_for(b.units(), b.grain, [&](int64_t begin, int64_t end, int worker) {
    for_each_block(job, begin, end,
                   [&](const MatmulBlock& x) { panel_block(job, x, memory.of(worker)); });
  });
}

/// Rows [begin, end) of the whole batch: the partial sums, added by the tree, go to C.
void combine_rows(MatmulJob& job, int64_t begin, int64_t end) {
  const MatmulSpec& s = job.spec;
  for (int64_t r = begin; r < end; ++r) {
    float* row = job.partials + r * s.n;
    add_by_tree(row, s.n, job.blocks.grid_k, s.matrices() * s.m * s.n);
    float* c = row_of_c(job, r / s.m, r % s.m);
    if (job.bias) {
      for (int64_t j = 0; j < s.n; ++j) c[j] = job.bias[j] + row[j];
    } else if (s.accumulate) {
      for (int64_t j = 0; j < s.n; ++j) c[j] += row[j];
    } else {
      std::memcpy(c, row, static_cast<size_t>(s.n) * sizeof(float));
    }
  }
}

void check_status(int status) {
  if (status == dnnl_success) return;
  if (status == dnnl_out_of_memory)
    ir::fail(ir::Errc::OutOfMemory, "matmul: no memory for the packing buffers");
  TANDEM_CHECK(false, "oneDNN refused a matmul with status " + std::to_string(status));
}

void fill(const MatmulSpec& s, float* c, float number) {
  for (int64_t r = 0; r < s.matrices() * s.m; ++r)
    std::fill_n(c + offset_of(s, s.c, r / s.m) + r % s.m * s.c.row, s.n, number);
}

std::string describe(const MatmulSpec& s) {
  const auto strides = [](const MatrixStrides& x) {
    return "(" + std::to_string(x.outer) + ", " + std::to_string(x.batch) + ", " +
           std::to_string(x.row) + ", " + std::to_string(x.col) + ")";
  };
  return "[" + std::to_string(s.outer) + ", " + std::to_string(s.batch) + ", " +
         std::to_string(s.m) + ", " + std::to_string(s.k) + "] x [" + std::to_string(s.k) + ", " +
         std::to_string(s.n) + "] with strides " + strides(s.a) + ", " + strides(s.b) + ", " +
         strides(s.c);
}

struct SpecHash {
  size_t operator()(const MatmulSpec& s) const {
    uint64_t h =
        s.accumulate + 2 * s.stride_free + 4 * s.plus_zero + 8 * static_cast<uint64_t>(s.precision);
    for (const int64_t v :
         {s.outer, s.batch, s.m, s.n, s.k, s.a.outer, s.a.batch, s.a.row, s.a.col, s.b.outer,
          s.b.batch, s.b.row, s.b.col, s.c.outer, s.c.batch, s.c.row, s.c.col}) {
      h = (h ^ static_cast<uint64_t>(v)) * 0x9e3779b97f4a7c15u;
      h ^= h >> 29;
    }
    return h;
  }
};

constexpr size_t kMostMatmuls = 1024;

using Cache = std::unordered_map<MatmulSpec, std::shared_ptr<const Matmul>, SpecHash>;

Cache& cache() {
  static Cache* c = new Cache;
  return *c;
}

/// Into how many bf16 numbers each f32 of the product is split; 0 if into none.
int parts_of(const MatmulSpec& s) {
  if (s.precision == MatmulPrecision::Highest) return 0;
  const int parts = s.precision == MatmulPrecision::High ? 3 : 2;
  return products::splits(s.m, s.n, s.k, parts) ? parts : 0;
}

/// (A product with a vector reads each element of the matrix once: nothing to pack, unless sums are
/// short.)
BlockAlgorithm algorithm_of(const MatmulSpec& s) {
  const bool is_of_vector = (s.m == 1) != (s.n == 1);
  if (!products::panels() || (is_of_vector && s.k > kFewProducts)) return BlockAlgorithm::Sgemm;
  return is_of_dots(s) ? BlockAlgorithm::Dots : BlockAlgorithm::Panels;
}

bool empty(const MatmulSpec& s) { return s.matrices() == 0 || s.m == 0 || s.n == 0; }

}  // namespace

MatmulSpec dense_matmul(int64_t batch, int64_t m, int64_t n, int64_t k, bool transpose_a,
                        bool transpose_b) {
  const auto strides = [](int64_t rows, int64_t cols, bool transposed) {
    return transposed ? MatrixStrides{rows * cols, 1, rows} : MatrixStrides{rows * cols, cols, 1};
  };
  return {
      batch, m, n, k, strides(m, k, transpose_a), strides(k, n, transpose_b), strides(m, n, false),
      false};
}

bool matmul_supports(const MatmulSpec& s) {
  return empty(s) || (blas_layout(s.c, s.m, s.n) &&
                      (s.k == 0 || (blas_layout(s.a, s.m, s.k) && blas_layout(s.b, s.k, s.n))));
}

Matmul::Matmul(const MatmulSpec& spec) : spec_(spec) {
  if (!matmul_supports(spec)) {
    ir::fail(ir::Errc::Unsupported,
             "matmul: no contiguous dimension; expected a row or column stride of 1 in each "
             "operand, got " +
                 describe(spec));
  }
  if (empty(spec)) return;
  TANDEM_CHECK(
      !spec.stride_free || (!spec.accumulate && can_be_stride_free(spec.m, spec.n, spec.k)),
      "matmul: bits that depend on strides");
  TANDEM_CHECK(!spec.plus_zero || spec.stride_free, "matmul: a zero that has no place");
  swapped_ = blas_layout(spec.c, spec.m, spec.n)->transposed;
  spec_ = fold_batch(merge_batches(swapped_ ? swapped(spec) : spec));
  if (products::panels() && is_column_of_few(spec_)) spec_ = swapped(spec_), swapped_ = true;
  if (spec.k == 0) return;
  split_parts_ = parts_of(spec_);
  if (split_parts_ > 0) return;
  const BlockAlgorithm algorithm = algorithm_of(spec_);
  blocks_ = choose_blocks(spec_, algorithm, true);
  if (blocks_.algorithm == BlockAlgorithm::Primitive) {
    full_ = block_primitive(spec_, blocks_.batch, blocks_.m);
    const int64_t rest = blocks_.batch > 1 ? spec_.batch % blocks_.batch : spec_.m % blocks_.m;
    if (rest > 0)
      last_ = blocks_.batch > 1 ? block_primitive(spec_, rest, blocks_.m)
                                : block_primitive(spec_, 1, rest);
    if (!full_ || (rest > 0 && !last_)) blocks_ = choose_blocks(spec_, algorithm, false);
  }
}

size_t Matmul::scratch_bytes() const {
  if (blocks_.grid_k <= 1) return 0;
  return static_cast<size_t>(blocks_.grid_k * spec_.matrices() * spec_.m * spec_.n) * sizeof(float);
}

int64_t Matmul::packed_floats() const {
  const bool is_whole = spec_.matrices() == 1 && !swapped_;
  if (blocks_.algorithm != BlockAlgorithm::Panels || !is_whole) return 0;
  const products::Panels& panels = *products::panels();
  return spec_.m > panels.block_rows ? 0 : panels.packed_floats(spec_.n, spec_.k);
}

void Matmul::pack(const float* b, float* to) const {
  const MatmulSpec& s = spec_;
  const BlasLayout layout = *blas_layout(s.b, s.k, s.n);
  const products::Panels& panels = *products::panels();
  const MatmulBlocks blocks = blocks_for(num_threads(), true);
  parallel_for(blocks.grid_k * blocks.grid_n, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t u = begin; u < end; ++u) {
      const MatmulBlock x = block_at(s, blocks, u * blocks.grid_m);
      const products::Operand chunk{b + x.l * s.b.row, layout.ld, layout.transposed};
      for (int64_t j = x.j; j < x.j + x.n; j += panels.panel_columns(s.n - j))
        panels.pack(chunk, s.n, x.k, j, to + place_of(s, x));
    }
  });
}

MatmulBlocks Matmul::blocks_for(int threads, bool b_packed) const {
  if (blocks_.algorithm != BlockAlgorithm::Panels) return blocks_;
  const MatmulSpec& s = spec_;
  const BlasLayout a = *blas_layout(s.a, s.m, s.k), b = *blas_layout(s.b, s.k, s.n);
  const products::PanelWork work{s.matrices(), s.m,          s.n,          s.k,     blocks_.grid_k,
                                 a.ld,         a.transposed, b.transposed, b_packed};
  const products::PanelCut cut = cut_.of(*products::panels(), work, threads);
  MatmulBlocks blocks = blocks_;
  blocks.m = cut.m;
  blocks.n = cut.n;
  blocks.grain = cut.grain;
  set_grid(blocks, s);
  return blocks;
}

void Matmul::run(const float* a, const float* b, float* c, void* scratch, const float* bias,
                 const float* packed) const {
  const MatmulSpec& s = spec_;
  const bool is_column = swapped_ && s.m == 1;
  TANDEM_CHECK(!bias || (s.accumulate && s.k > 0 && (!swapped_ || is_column)),
               "matmul: a bias that has no place");
  if (empty(s)) return;
  if (s.k == 0) {
    if (!s.accumulate) fill(s, c, 0);
    return;
  }
  if (swapped_) std::swap(a, b);
  if (bias && is_column) fill(s, c, *std::exchange(bias, nullptr));
  const MatmulBlocks blocks = blocks_for(num_threads(), packed != nullptr);
  MatmulJob job{s,
                blocks,
                *blas_layout(s.a, s.m, s.k),
                *blas_layout(s.b, s.k, s.n),
                *blas_layout(s.c, s.m, s.n),
                a,
                b,
                c,
                bias,
                packed,
                static_cast<float*>(scratch),
                full_.get(),
                last_.get()};
  if (split_parts_ > 0) return run_in_parts(job, split_parts_);
  if (blocks_.algorithm == BlockAlgorithm::Panels)
    run_in_panels(job);
  else if (blocks_.algorithm == BlockAlgorithm::Dots)
    run_in_dots(job);
  else
    run_in_library(job);
  check_status(job.status);
  if (blocks_.grid_k > 1) {
    const int64_t grain = std::max<int64_t>(1, 8192 / s.n);
    parallel_for(s.matrices() * s.m, grain,
                 [&job](int64_t begin, int64_t end, int) { combine_rows(job, begin, end); });
  }
}

void Matmul::run(const float* a, const float* b, float* c) const {
  const ArenaLease scratch = borrow_arena(scratch_bytes());
  run(a, b, c, scratch.data());
}

std::shared_ptr<const Matmul> shared_matmul(const MatmulSpec& spec) {
  std::mutex& mutex = fork_safe_mutex<Cache>();
  {
    const std::lock_guard guard(mutex);
    if (const auto found = cache().find(spec); found != cache().end()) return found->second;
  }
  auto made = std::make_shared<const Matmul>(spec);
  const std::lock_guard guard(mutex);
  if (cache().size() >= kMostMatmuls) cache().clear();
  return cache().emplace(spec, std::move(made)).first->second;
}

}  // namespace tandem::machine
