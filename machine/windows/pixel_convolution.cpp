#include "machine/windows/pixel_convolution.h"

#include <algorithm>

#include "machine/library/matmul.h"
#include "machine/memory/arena.h"
#include "machine/products/panels.h"
#include "machine/products/tree_sum.h"
#include "machine/rounding.h"
#include "machine/threads/thread_pool.h"
#include "machine/windows/taps.h"

namespace tandem::machine {
namespace {

/// With fewer pixels in an image the library, which takes several together, is faster.
constexpr int64_t kFewestPixels = 128;

// A weight's gradient is summed over the images in at most so many parts, which together have no
// more elements than this, by a balanced tree.
constexpr int64_t kMostParts = 16, kMostElements = int64_t{1} << 20;

/// What each plane of the result starts with.
void start_with_bias(float* to, const float* bias, int64_t images, int64_t channels,
                     int64_t pixels) {
  const int64_t grain = std::max<int64_t>(1, 8192 / pixels);
  parallel_for(images * channels, grain, [=](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      std::fill_n(to + row * pixels, pixels, bias[row % channels]);
  });
}

/// to [images, m, pixels] = w [m, k] from [images, k, pixels], w with these strides.
void multiply_images(const ConvolutionSpec& s, int64_t m, int64_t k, MatrixStrides w_strides,
                     const float* w, const float* from, float* to, const float* bias) {
  const int64_t p = product(s.input);
  if (bias) start_with_bias(to, bias, s.images, m, p);
  shared_matmul({.batch = s.images,
                 .m = m,
                 .n = p,
                 .k = k,
                 .a = w_strides,
                 .b = {k * p, p, 1},
                 .c = {m * p, p, 1},
                 .accumulate = bias != nullptr})
      ->run(w, from, to);
}

/// w [out, in]: the sum of y [out, pixels] x^T [pixels, in] over the images.
void sum_over_images(const ConvolutionSpec& s, const ConvolutionData<float>& data) {
  const int64_t p = product(s.input), n = s.out * s.in, y_image = s.out * p, x_image = s.in * p;
  const int64_t most = std::clamp<int64_t>(kMostElements / n, 1, kMostParts);
  const int64_t each = ceil_div(s.images, most);  // images of a part
  const int64_t count = ceil_div(s.images, each);
  const ArenaLease lease =
      borrow_arena(count > 1 ? static_cast<size_t>(count * n) * sizeof(float) : 0);
  float* const parts = count > 1 ? reinterpret_cast<float*>(lease.data()) : data.w;
  for (int64_t i = 0; i < each; ++i) {
    const bool last_has_it = (count - 1) * each + i < s.images;
    shared_matmul({.batch = last_has_it ? count : count - 1,
                   .m = s.out,
                   .n = s.in,
                   .k = p,
                   .a = {each * y_image, p, 1},
                   .b = {each * x_image, 1, p},
                   .c = {n, s.in, 1},
                   .accumulate = i > 0})
        ->run(data.y + i * y_image, data.x + i * x_image, parts);
  }
  if (count == 1) return;
  parallel_for(n, 8192, [=](int64_t begin, int64_t end, int) {
    add_by_tree(parts + begin, end - begin, count, n);
  });
  std::copy_n(parts, n, data.w);
}

/// x [images, window], y [images, out], w [out, window].
void convolve_images(const ConvolutionSpec& s, Sought sought, const ConvolutionData<float>& d) {
  const int64_t pixels = product(s.input), window = s.in * pixels;
  const auto run = [&](MatmulSpec spec, const float* a, const float* b, float* c) {
    spec.accumulate = d.bias != nullptr;
    shared_matmul(spec)->run(a, b, c);
  };
  switch (sought) {
    case Sought::Output:
      if (d.bias) start_with_bias(d.y, d.bias, s.images, s.out, 1);
      return run(dense_matmul(1, s.images, s.out, window, false, true), d.x, d.w, d.y);
    case Sought::Input:
      if (d.bias) start_with_bias(d.x, d.bias, s.images, s.in, pixels);
      return run(dense_matmul(1, s.images, window, s.out), d.y, d.w, d.x);
    case Sought::Weight:
      return run(dense_matmul(1, s.out, window, s.images, true), d.y, d.x, d.w);
  }
}

}  // namespace

bool is_of_pixels(const ConvolutionSpec& s) {
  return products::panels() && s.groups == 1 &&
         (windows_are_images(s) || (windows_are_pixels(s) && product(s.input) >= kFewestPixels));
}

void convolve_pixels(const ConvolutionSpec& s, Sought sought, const ConvolutionData<float>& d) {
  if (windows_are_images(s)) return convolve_images(s, sought, d);
  switch (sought) {
    case Sought::Output:
      return multiply_images(s, s.out, s.in, {0, s.in, 1}, d.w, d.x, d.y, d.bias);
    case Sought::Input:
      return multiply_images(s, s.in, s.out, {0, 1, s.in}, d.w, d.y, d.x, d.bias);
    case Sought::Weight:
      return sum_over_images(s, d);
  }
}

}  // namespace tandem::machine
