#include "runtime/eager/loops.h"

#include <algorithm>

#include "machine/memory/allocator.h"
#include "machine/threads/thread_pool.h"
#include "runtime/eager/kernels.h"

namespace tandem::runtime::eager {
namespace {

/// Dimensions of a loop nest over several views, outermost first; strides in bytes. Sizes and
/// strides beyond `rank` are not set.
struct Nest {
  int rank = 0;
  int count = 0;  // views
  std::array<int64_t, ir::kMaxRank> sizes;
  std::array<std::array<int64_t, kMaxOperands>, ir::kMaxRank> strides;
  std::array<char*, kMaxOperands> data{};
};

/// The output's dimensions by falling stride, those of one element left out.
std::array<int, ir::kMaxRank> order_dims(const BufferView& out, int* count) {
  const auto stride = [&](int d) { return std::abs(int64_t{out.strides[d]}); };
  std::array<int, ir::kMaxRank> order;
  *count = 0;
  for (int d = 0; d < out.sizes.rank(); ++d) {
    if (out.sizes[d] == 1) continue;
    int at = (*count)++;
    for (; at > 0 && stride(order[at - 1]) < stride(d); --at) order[at] = order[at - 1];
    order[at] = d;
  }
  return order;
}

/// True if dimension `outer` goes on where `inner` ends, in every view.
bool continues(const Nest& nest, const std::array<int64_t, kMaxOperands>& inner, int64_t size,
               const std::array<int64_t, kMaxOperands>& outer) {
  for (int i = 0; i < nest.count; ++i)
    if (outer[i] != inner[i] * size) return false;
  return true;
}

Nest make_nest(std::span<const BufferView* const> views) {
  Nest nest;
  nest.count = static_cast<int>(views.size());
  for (int i = 0; i < nest.count; ++i) nest.data[i] = static_cast<char*>(views[i]->data);
  int count = 0;
  const auto order = order_dims(*views[0], &count);
  for (int k = count - 1; k >= 0; --k) {  // innermost first, turned around below
    std::array<int64_t, kMaxOperands> strides{};
    for (int i = 0; i < nest.count; ++i)
      strides[i] =
          int64_t{views[i]->strides[order[k]]} * static_cast<int64_t>(ir::size_of(views[i]->dtype));
    const int64_t size = views[0]->sizes[order[k]];
    if (nest.rank > 0 &&
        continues(nest, nest.strides[nest.rank - 1], nest.sizes[nest.rank - 1], strides)) {
      nest.sizes[nest.rank - 1] *= size;
      continue;
    }
    nest.sizes[nest.rank] = size;
    nest.strides[nest.rank++] = strides;
  }
  if (nest.rank == 0) {
    nest.sizes[0] = 1;
    nest.strides[0] = {};
    nest.rank = 1;
  }
  std::reverse(nest.sizes.begin(), nest.sizes.begin() + nest.rank);
  std::reverse(nest.strides.begin(), nest.strides.begin() + nest.rank);
  return nest;
}

/// Runs units [begin, end) of a nest whose rows are cut into `chunks` parts of `chunk` elements.
void run_units(const Nest& nest, RowFunction row, int64_t chunk, int64_t chunks, int64_t begin,
               int64_t end) {
  const int inner = nest.rank - 1;
  for (int64_t unit = begin; unit < end; ++unit) {
    int64_t rest = unit / chunks;
    const int64_t start = unit % chunks * chunk;
    std::array<char*, kMaxOperands> data = nest.data;
    for (int i = 0; i < nest.count; ++i) data[i] += start * nest.strides[inner][i];
    for (int d = inner - 1; d >= 0; --d) {
      const int64_t index = rest % nest.sizes[d];
      rest /= nest.sizes[d];
      for (int i = 0; i < nest.count; ++i) data[i] += index * nest.strides[d][i];
    }
    row(data.data(), nest.strides[inner].data(), std::min(chunk, nest.sizes[inner] - start));
  }
}

}  // namespace

void for_each_row(std::span<const BufferView* const> views, RowFunction row) {
  const int64_t elements = ir::numel(views[0]->sizes);
  if (elements == 0) return;
  const Nest nest = make_nest(views);
  const int64_t inner = nest.sizes[nest.rank - 1], rows = elements / inner;
  const int64_t chunk = std::min(inner, kParallelElements / 2);
  const int64_t chunks = (inner + chunk - 1) / chunk;
  if (elements < kParallelElements) return run_units(nest, row, chunk, chunks, 0, rows * chunks);
  const int64_t grain = std::max<int64_t>(kParallelElements / 2 / chunk, 1);
  machine::parallel_for(rows * chunks, grain, [&](int64_t begin, int64_t end, int) {
    run_units(nest, row, chunk, chunks, begin, end);
  });
}

Packed::Packed(const Shape& sizes, DType dtype)
    : bytes_(static_cast<size_t>(int64_t{ir::numel(sizes)}) * ir::size_of(dtype)) {
  view_ = {machine::allocate(bytes_), dtype, sizes, ir::contiguous_strides(sizes)};
}
Packed::Packed(const BufferView& from) : Packed(from.sizes, from.dtype) {
  copy_elements(from, view_);
}
Packed::~Packed() { machine::release(view_.data, bytes_); }

}  // namespace tandem::runtime::eager
