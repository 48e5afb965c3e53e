// Random words, as ir/random.h defines them.
#include "ir/random.h"

#include <algorithm>

#include "machine/threads/thread_pool.h"
#include "runtime/eager/loops.h"

namespace tandem::runtime::eager::kernels {
namespace {

/// One counter gives a block of `per_block` elements.
template <class T, class Split>
void fill_words(const Args& a, int64_t per_block, Split split) {
  const auto* rng = static_cast<const int64_t*>(a.in[0].data);
  const auto key = static_cast<uint64_t>(rng[0]);
  const auto base = static_cast<uint64_t>(rng[int64_t{a.in[0].strides[0]}]) +
                    static_cast<uint64_t>(int64_t{a.attr<Dim>(ir::Attr::offset)});
  const int64_t n = ir::numel(a.out.sizes);
  auto* out = static_cast<T*>(a.out.data);
  machine::parallel_for(
      (n + per_block - 1) / per_block, kParallelElements / 8, [&](int64_t begin, int64_t end, int) {
        for (int64_t block = begin; block < end; ++block) {
          const auto words = split(ir::philox4x32_10(key, base + static_cast<uint64_t>(block)));
          const int64_t first = block * per_block;
          std::copy_n(words.begin(), std::min(per_block, n - first), out + first);
        }
      });
}

}  // namespace

void random_bits(const Args& a) {
  if (a.out.dtype == DType::I32)
    fill_words<int32_t>(a, 4, [](const std::array<uint32_t, 4>& w) { return w; });
  else
    fill_words<int64_t>(a, 2, [](const std::array<uint32_t, 4>& w) {
      return std::array<uint64_t, 2>{w[0] | uint64_t{w[1]} << 32, w[2] | uint64_t{w[3]} << 32};
    });
}

}  // namespace tandem::runtime::eager::kernels
