#include "machine/library/bf16_matmul.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "ir/base/error.h"
#include "machine/cpu.h"
#include "machine/library/block_primitive.h"
#include "machine/products/bf16/bf16_product.h"
#include "machine/rounding.h"
#include "machine/threads/thread_pool.h"

namespace tandem::machine {
namespace {

constexpr int64_t kElement = 2;  // bytes
constexpr int64_t kUnit = 64;    // rows or columns of a block, or a multiple
constexpr int64_t kMostBlocks = 16;
constexpr double kLeastFlops = 2e6;  // of a block: some microseconds

/// Where a product is cut: its batch, or the larger of m and n.
struct Cut {
  int64_t DenseProduct::* along;
  int64_t extent, blocks;
};

Cut cut_of(const DenseProduct& p) {
  const auto along = p.batch > 1  ? &DenseProduct::batch
                     : p.m >= p.n ? &DenseProduct::m
                                  : &DenseProduct::n;
  const int64_t unit = p.batch > 1 ? 1 : kUnit, size = p.*along;
  const double flops = 2.0 * static_cast<double>(p.batch * p.m * p.n) * static_cast<double>(p.k);
  const auto wanted =
      std::clamp<int64_t>(static_cast<int64_t>(flops / kLeastFlops), 1, kMostBlocks);
  const int64_t extent = std::min(size, ceil_div(ceil_div(size, wanted), unit) * unit);
  return {along, extent, ceil_div(size, extent)};
}

struct Matrices {
  const char* a;
  const char* b;
  char* c;
};

/// Of the block that begins at `at` along the cut.
Matrices block_at(const DenseProduct& p, const Cut& cut, const Matrices& whole, int64_t at) {
  int64_t a = 0, b = 0, c = 0;  // elements
  if (cut.along == &DenseProduct::batch)
    a = at * p.m * p.k, b = at * p.k * p.n, c = at * p.m * p.n;
  else if (cut.along == &DenseProduct::m)
    a = p.transposed_a ? at : at * p.k, c = at * p.n;
  else
    b = p.transposed_b ? at * p.k : at, c = at;
  return {whole.a + a * kElement, whole.b + b * kElement, whole.c + c * kElement};
}

Bf16Block block_of(const DenseProduct& p, const Cut& cut, int64_t extent) {
  Bf16Block block{p, p};
  block.part.*cut.along = extent;
  return block;
}

void require_done(int status) {
  if (status == kBlockDone) return;
  if (status == kBlockWithoutMemory)
    ir::fail(ir::Errc::OutOfMemory, "matmul: no memory for the packing buffers");
  TANDEM_CHECK(false, "oneDNN refused a bf16 matmul with status " + std::to_string(status));
}

}  // namespace

bool has_bf16_products() { return cpu_features().avx512_bf16; }

namespace {

/// C transposed, where it is a column, as a row: of few rows the others' are read as they lie.
DenseProduct as_row(DenseProduct p) {
  std::swap(p.m, p.n);
  p.transposed_b = !std::exchange(p.transposed_a, false);
  return p;
}

}  // namespace

void multiply_bf16(const DenseProduct& p, const void* a, const void* b, void* c) {
  if (p.n == 1 && p.m > 1) return multiply_bf16(as_row(p), b, a, c);
  const int64_t results = p.batch * p.m * p.n;
  if (results == 0) return;
  if (p.k == 0) {
    if (!p.accumulate) std::memset(c, 0, static_cast<size_t>(results * kElement));
    return;
  }
  if (products::has_bf16_tiles())
    return products::multiply_bf16(p, static_cast<const uint16_t*>(a),
                                   static_cast<const uint16_t*>(b), static_cast<uint16_t*>(c));
  const Cut cut = cut_of(p);
  const int64_t rest = p.*cut.along % cut.extent;
  const auto full = block_primitive(block_of(p, cut, cut.extent));
  const auto last = rest > 0 ? block_primitive(block_of(p, cut, rest)) : full;
  const Matrices whole{static_cast<const char*>(a), static_cast<const char*>(b),
                       static_cast<char*>(c)};
  std::atomic<int> status{kBlockDone};
  parallel_for(cut.blocks, 1, [&](int64_t begin, int64_t end, int) {
    const SingleOmpThread single;
    for (int64_t i = begin; i < end; ++i) {
      const Matrices x = block_at(p, cut, whole, i * cut.extent);
      const int done = (i + 1 == cut.blocks ? last : full)->run(x.a, x.b, x.c);
      if (done != kBlockDone) status = done;
    }
  });
  require_done(status);
}

}  // namespace tandem::machine
