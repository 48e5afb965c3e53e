// Channels and pixels rearranged; windows as columns and back.
#include "ir/base/error.h"
#include "runtime/networks/images.h"

namespace tandem {
namespace {

using ir::Dims;
using runtime::Call;
using runtime::each;
using runtime::Images;
using runtime::V;
using runtime::window_numbers;

std::string function() { return ir::ErrorScope::function(); }

void require_factor(int64_t factor) {
  if (factor < 1)
    ir::fail(Errc::Argument,
             fmt::format("{}: expected a factor of at least 1, got {}", function(), factor));
}

/// [..., c, h, w] as one batch [n, c, h, w].
V as_batch(Call& c, V x) {
  const Shape& sizes = c.b.sizes(x);
  const int rank = sizes.rank();
  if (rank < 3)
    ir::fail(Errc::Shape, fmt::format("{}: expected at least 3 dimensions, got {}", function(),
                                      to_string(sizes)));
  Dim n = 1;
  for (int d = 0; d < rank - 3; ++d) n *= sizes[d];
  return c.b.reshape(x, {n, sizes[rank - 3], sizes[rank - 2], sizes[rank - 1]});
}

/// `x` [n, c, h, w] with the leading sizes of `like`.
Tensor with_leading(Call& c, V x, const Shape& like) {
  Shape sizes = like;
  for (int d = 1; d <= 3; ++d) sizes[like.rank() - d] = c.b.sizes(x)[4 - d];
  return c.out(c.b.reshape(x, sizes));
}

/// The numbers of im2col and col2im for images of `input` spatial sizes.
struct Blocks {
  Dims kernel, dilation, padding, stride, count;
};

Blocks blocks_of(const Dims& input, const Spatial& kernel_size, const BlockOptions& o) {
  Blocks b{window_numbers(kernel_size, 2, "kernel_size"),
           window_numbers(o.dilation, 2, "dilation"),
           window_numbers(o.padding, 2, "padding"),
           window_numbers(o.stride, 2, "stride"),
           {}};
  for (size_t d = 0; d < 2; ++d) {
    if (b.kernel[d] < 1 || b.dilation[d] < 1 || b.stride[d] < 1 || b.padding[d] < 0)
      ir::fail(Errc::Argument, fmt::format("{}: expected kernel_size, dilation and stride of at "
                                           "least 1 and padding of at least 0, got {}, {}, {} and "
                                           "{}",
                                           function(), to_string(b.kernel), to_string(b.dilation),
                                           to_string(b.stride), to_string(b.padding)));
    const Dim room = input[d] + 2 * b.padding[d] - b.dilation[d] * (b.kernel[d] - 1) - 1;
    if (room < 0)
      ir::fail(Errc::Shape, fmt::format("{}: the blocks do not fit into the padded images of {}, "
                                        "got {}",
                                        function(), to_string(input), to_string(b.kernel)));
    b.count.push_back(room / b.stride[d] + 1);
  }
  return b;
}

/// Calls f(tap, its slice along h, along w) for each element of a block: where it lies in padded
/// images.
template <class F>
void for_each_tap(const Blocks& b, F f) {
  const auto line = [&](size_t d, int64_t tap) {
    const Dim start = tap * b.dilation[d];
    return std::pair<Dim, Dim>(start, start + (b.count[d] - 1) * b.stride[d] + 1);
  };
  for (int64_t i = 0; i < b.kernel[0]; ++i)
    for (int64_t j = 0; j < b.kernel[1]; ++j) f(i * b.kernel[1] + j, line(0, i), line(1, j));
}

V padded(Call& c, V x, const Dims& padding) {
  const Dim none = 0;
  return c.b.pad(
      x, std::vector<Dim>{none, none, none, none, padding[0], padding[0], padding[1], padding[1]},
      0);
}

}  // namespace

// [n, c r r, h, w] to [n, c, h r, w r]
Tensor pixel_shuffle(const Tensor& self, int64_t r, SourceLocation at) {
  Call c(at);
  require_factor(r);
  const V given = c.in(self), x = as_batch(c, given);
  const Shape s = c.b.sizes(x);
  if (s[1] % (r * r) != 0)
    ir::fail(Errc::Shape, fmt::format("{}: expected channels that {} divides, got {}", function(),
                                      r * r, to_string(c.b.sizes(given))));
  const Dim channels = s[1] / (r * r);
  const V apart = c.b.reshape(x, {s[0], channels, r, r, s[2], s[3]});
  const V turned = c.b.permute(apart, {0, 1, 4, 2, 5, 3});
  return with_leading(c, c.b.reshape(turned, {s[0], channels, s[2] * r, s[3] * r}),
                      c.b.sizes(given));
}

Tensor pixel_unshuffle(const Tensor& self, int64_t r, SourceLocation at) {
  Call c(at);
  require_factor(r);
  const V given = c.in(self), x = as_batch(c, given);
  const Shape s = c.b.sizes(x);
  if (s[2] % r != 0 || s[3] % r != 0)
    ir::fail(Errc::Shape, fmt::format("{}: expected a height and width that {} divides, got {}",
                                      function(), r, to_string(c.b.sizes(given))));
  const V apart = c.b.reshape(x, {s[0], s[1], s[2] / r, r, s[3] / r, r});
  const V turned = c.b.permute(apart, {0, 1, 3, 5, 2, 4});
  return with_leading(c, c.b.reshape(turned, {s[0], s[1] * r * r, s[2] / r, s[3] / r}),
                      c.b.sizes(given));
}

Tensor channel_shuffle(const Tensor& self, int64_t groups, SourceLocation at) {
  Call c(at);
  require_factor(groups);
  const V x = c.in(self);
  const Shape s = c.b.sizes(x);
  if (s.rank() < 3 || s[1] % groups != 0)
    ir::fail(Errc::Shape, fmt::format("{}: expected [n, channels, ...] of channels that {} "
                                      "divides, got {}",
                                      function(), groups, to_string(s)));
  Shape apart = s;
  apart[1] = s[1] / groups;
  apart.insert(1, groups);
  return c.out(c.b.reshape(c.b.transpose(c.b.reshape(x, apart), 1, 2), s));
}

Tensor im2col(const Tensor& self, const Spatial& kernel_size, const BlockOptions& options,
              SourceLocation at) {
  Call c(at);
  const Images x = images(c, self, 2, "self");
  const Blocks b = blocks_of(spatial_sizes(c, x.v), kernel_size, options);
  const V in = padded(c, x.v, b.padding);
  std::vector<V> taps;
  for_each_tap(b, [&](int64_t, auto h, auto w) {
    const V rows = c.b.slice(in, 2, h.first, h.second, b.stride[0]);
    taps.push_back(c.b.slice(rows, 3, w.first, w.second, b.stride[1]));
  });
  const Shape s = c.b.sizes(x.v);
  const V columns = c.b.stack(taps, 2);  // [n, c, taps, h, w]
  const Dim each_block = b.kernel[0] * b.kernel[1];
  return given_back(c, c.b.reshape(columns, {s[0], s[1] * each_block, b.count[0] * b.count[1]}), x);
}

Tensor col2im(const Tensor& self, const Spatial& output_size, const Spatial& kernel_size,
              const BlockOptions& options, SourceLocation at) {
  Call c(at);
  const Images x = images(c, self, 1, "self");
  const Dims size = each(output_size, 2, "output_size");
  const Blocks b = blocks_of(size, kernel_size, options);
  const Shape s = c.b.sizes(x.v);
  const Dim taps = b.kernel[0] * b.kernel[1];
  if (s[1] % taps != 0 || s[2] != b.count[0] * b.count[1])
    ir::fail(
        Errc::Shape,
        fmt::format("{}: columns do not fit; expected channels that {} divides and {} "
                    "blocks, got {}",
                    function(), int64_t{taps}, int64_t{b.count[0] * b.count[1]}, to_string(s)));
  const Dim channels = s[1] / taps;
  const V columns = c.b.reshape(x.v, {s[0], channels, taps, b.count[0], b.count[1]});
  const Dim high = size[0] + 2 * b.padding[0], wide = size[1] + 2 * b.padding[1];
  V sum = c.b.full({s[0], channels, high, wide}, c.b.dtype(x.v), 0);
  for_each_tap(b, [&](int64_t tap, auto h, auto w) {
    const V rows = c.b.full({s[0], channels, b.count[0], wide}, c.b.dtype(x.v), 0);
    const V spread =
        c.b.slice_scatter(rows, c.b.select(columns, 2, tap), 3, w.first, w.second, b.stride[1]);
    const V zeros = c.b.zeros_like(sum);
    sum = c.b.add(sum, c.b.slice_scatter(zeros, spread, 2, h.first, h.second, b.stride[0]));
  });
  const V inner = c.b.slice(sum, 2, b.padding[0], b.padding[0] + size[0]);
  return given_back(c, c.b.slice(inner, 3, b.padding[1], b.padding[1] + size[1]), x);
}

Tensor fold(const Tensor& self, const Spatial& output_size, const Spatial& kernel_size,
            const BlockOptions& options, SourceLocation at) {
  const ir::ErrorScope errors(at);
  return col2im(self, output_size, kernel_size, options, at);
}

}  // namespace tandem
