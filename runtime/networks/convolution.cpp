// Convolutions and transposed ones of one to three spatial dimensions.
#include "ir/base/error.h"
#include "runtime/networks/images.h"

namespace tandem {
namespace {

using ir::Dims;
using ir::Op;
using runtime::Call;
using runtime::Images;
using runtime::V;
using runtime::window_numbers;

/// The attributes of a convolution.
struct Windows {
  Dims stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

Tensor convolve(Call& c, const Images& x, V weight, const Tensor& bias, const Windows& w) {
  const std::vector<ir::AttrValue> attrs{w.stride,     w.padding,        w.dilation,
                                         w.transposed, w.output_padding, w.groups};
  const DType dtype = c.b.dtype(x.v);
  std::vector<V> operands{x.v, weight};
  if (bias.defined()) operands.push_back(c.in(bias, "bias"));
  for (V& v : operands)
    if (c.b.dtype(v) == dtype) v = widened(c, v);
  return given_back(c, c.b.convert(c.b.emit(Op::convolution, operands, attrs), dtype), x);
}

/// So much padding that the result has the input's sizes: on both sides in `padding`, and where an
/// odd one is left over, at the end of what is returned.
V padded_to_same(Call& c, V x, V weight, const Windows& w, Dims& padding) {
  std::vector<Dim> more(2 * static_cast<size_t>(c.b.rank(x)), 0);
  bool any = false;
  for (size_t d = 0; d < padding.size(); ++d) {
    if (w.stride[d] != 1)
      ir::fail(Errc::Argument,
               fmt::format("{}: padding \"same\" beside a stride; expected a stride of 1, got {}",
                           ir::ErrorScope::function(), to_string(w.stride)));
    const Dim total = w.dilation[d] * (c.b.sizes(weight)[static_cast<int>(d) + 2] - 1);
    padding[d] = total / 2;
    more[2 * (d + 2) + 1] = total % 2;
    any = any || total % 2 != 0;
  }
  return any ? c.b.pad(x, more, 0) : x;
}

Tensor conv(Call&& c, int spatial, const Tensor& input, const Tensor& weight, const Tensor& bias,
            const ConvOptions& options) {
  Images x = images(c, input, spatial);
  const V w = c.in(weight, "weight");
  Windows windows{window_numbers(options.stride, spatial, "stride"),
                  window_numbers(options.padding.amount(), spatial, "padding"),
                  window_numbers(options.dilation, spatial, "dilation"),
                  Dims(static_cast<size_t>(spatial), Dim(0)),
                  false,
                  options.groups};
  const std::string& mode = options.padding.mode();
  if (mode == "same" && c.b.rank(w) == spatial + 2)
    x.v = padded_to_same(c, x.v, w, windows, windows.padding);
  else if (!mode.empty() && mode != "valid" && mode != "same")
    ir::fail(Errc::Argument, fmt::format("{}: unknown padding; expected numbers, \"valid\" or "
                                         "\"same\", got \"{}\"",
                                         ir::ErrorScope::function(), mode));
  return convolve(c, x, w, bias, windows);
}

Tensor conv_transpose(Call&& c, int spatial, const Tensor& input, const Tensor& weight,
                      const Tensor& bias, const ConvTransposeOptions& options) {
  const Images x = images(c, input, spatial);
  const Windows w{window_numbers(options.stride, spatial, "stride"),
                  window_numbers(options.padding, spatial, "padding"),
                  window_numbers(options.dilation, spatial, "dilation"),
                  window_numbers(options.output_padding, spatial, "output_padding"),
                  true,
                  options.groups};
  for (size_t d = 0; d < w.stride.size(); ++d)
    if (w.output_padding[d] >= w.stride[d] && w.output_padding[d] >= w.dilation[d])
      ir::fail(Errc::Argument,
               fmt::format("{}: output_padding out of range; expected less than the stride or the "
                           "dilation, got {}",
                           ir::ErrorScope::function(), to_string(w.output_padding)));
  return convolve(c, x, c.in(weight, "weight"), bias, w);
}

}  // namespace

#define TANDEM_CONV(spatial)                                                                       \
  Tensor conv##spatial##d(const Tensor& input, const Tensor& weight, const Tensor& bias,           \
                          const ConvOptions& options, SourceLocation at) {                         \
    return conv(Call(at), spatial, input, weight, bias, options);                                  \
  }                                                                                                \
  Tensor conv_transpose##spatial##d(const Tensor& input, const Tensor& weight, const Tensor& bias, \
                                    const ConvTransposeOptions& options, SourceLocation at) {      \
    return conv_transpose(Call(at), spatial, input, weight, bias, options);                        \
  }
TANDEM_CONV(1)
TANDEM_CONV(2)
TANDEM_CONV(3)
#undef TANDEM_CONV

}  // namespace tandem
