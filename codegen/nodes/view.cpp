#include "codegen/nodes/view.h"

#include <algorithm>

namespace tandem::codegen {

Runs collapsed(const View& v) {
  Runs runs;
  for (int d = 0; d < v.sizes.rank(); ++d) {
    const int64_t size = v.sizes[d], stride = v.strides[d];
    if (size == 1) continue;
    if (!runs.empty() && runs.back().stride == stride * size)
      runs.back() = {runs.back().size * size, stride};
    else
      runs.push_back({size, stride});
  }
  return runs;
}

bool is_linear(const View& v) {
  const auto runs = collapsed(v);
  return v.offset == 0 && (runs.empty() || (runs.size() == 1 && runs[0].stride == 1));
}

std::optional<int64_t> repeated_rows(const View& v) {
  if (v.offset != 0) return std::nullopt;
  const auto runs = collapsed(v);
  if (runs.empty()) return 1;
  if (runs.size() == 1 && runs[0].stride == 0) return 1;
  if (runs[0].stride != 1) return std::nullopt;
  if (runs.size() == 1 || (runs.size() == 2 && runs[1].stride == 0)) return runs[0].size;
  return std::nullopt;
}

bool same_elements(const View& a, const View& b) {
  const Runs x = collapsed(a), y = collapsed(b);
  bool same = a.root == b.root && a.offset == b.offset && x.size() == y.size();
  for (size_t i = 0; same && i < x.size(); ++i)
    same = x[i].size == y[i].size && x[i].stride == y[i].stride;
  return same;
}

View without_repetition(const View& v) {
  View out{v.root, v.offset, {}, {}};
  for (int d = 0; d < v.sizes.rank(); ++d) {
    if (v.strides[d] == 0 || v.sizes[d] == 1) continue;
    out.sizes.push_back(v.sizes[d]);
    out.strides.push_back(v.strides[d]);
  }
  return out;
}

View permuted(const View& v, std::span<const ir::Axis> dims) {
  View out{v.root, v.offset, {}, {}};
  for (int64_t d : dims) {
    out.sizes.push_back(v.sizes[static_cast<int>(d)]);
    out.strides.push_back(v.strides[static_cast<int>(d)]);
  }
  return out;
}

View expanded(const View& v, const ir::Shape& sizes) {
  View out{v.root, v.offset, sizes, ir::Strides::filled(sizes.rank(), 0)};
  const int shift = sizes.rank() - v.sizes.rank();
  for (int d = 0; d < v.sizes.rank(); ++d)
    if (v.sizes[d] != 1 || sizes[d + shift] == 1) out.strides[d + shift] = v.strides[d];
  return out;
}

View sliced(const View& v, int dim, int64_t start, int64_t end, int64_t step) {
  View out = v;
  out.offset += start * int64_t{v.strides[dim]};
  out.sizes[dim] = end > start ? (end - start + step - 1) / step : 0;
  out.strides[dim] = v.strides[dim] * step;
  return out;
}

View diagonal(const View& v, int64_t offset, int dim0, int dim1) {
  const int64_t rows = v.sizes[dim0], cols = v.sizes[dim1];
  const int64_t row = std::max<int64_t>(-offset, 0), col = std::max<int64_t>(offset, 0);
  View out{v.root, v.offset, {}, {}};
  for (int d = 0; d < v.sizes.rank(); ++d) {
    if (d == dim0 || d == dim1) continue;
    out.sizes.push_back(v.sizes[d]);
    out.strides.push_back(v.strides[d]);
  }
  const int64_t length = std::max<int64_t>(std::min(rows - row, cols - col), 0);
  if (length > 0) out.offset += row * int64_t{v.strides[dim0]} + col * int64_t{v.strides[dim1]};
  out.sizes.push_back(length);
  out.strides.push_back(v.strides[dim0] + v.strides[dim1]);
  return out;
}

View flipped(const View& v, std::span<const ir::Axis> dims) {
  View out = v;
  for (int64_t wide : dims) {
    const int d = static_cast<int>(wide);
    if (v.sizes[d] > 0) out.offset += (v.sizes[d] - 1) * int64_t{v.strides[d]};
    out.strides[d] = v.strides[d] * -1;
  }
  return out;
}

std::optional<View> reshaped(const View& v, const ir::Shape& sizes) {
  View out{v.root, v.offset, sizes, ir::contiguous_strides(sizes)};
  if (v.numel() <= 1) return out;
  const auto runs = collapsed(v);
  int d = sizes.rank() - 1;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    int64_t left = run->size, stride = run->stride;
    for (; d >= 0 && (left > 1 || sizes[d] == 1); --d) {
      if (left % sizes[d] != 0) return std::nullopt;
      out.strides[d] = stride;
      stride *= sizes[d];
      left /= sizes[d];
    }
    if (left != 1) return std::nullopt;
  }
  return out;
}

std::optional<View> split_batch(const View& v, const ir::Shape& sizes) {
  if (sizes.rank() != 3) return std::nullopt;
  const int64_t batch = sizes[0];
  int64_t outer = 1;
  for (int d = 0; d < v.sizes.rank() && outer < batch && batch % outer == 0; ++d) {
    outer *= int64_t{v.sizes[d]};
    if (outer <= 1 || outer >= batch || batch % outer != 0) continue;
    if (auto split = reshaped(v, {outer, batch / outer, sizes[1], sizes[2]})) return split;
  }
  return std::nullopt;
}

View whole(RootId root, const ir::Shape& sizes) {
  return {root, 0, sizes, ir::contiguous_strides(sizes)};
}

}  // namespace tandem::codegen
