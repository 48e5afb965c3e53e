// Convolutions and their gradients. Of y [images, out, output...] = x [images, in, input...] * w
// [out, in / groups, kernel...] each is computed from the other two, all contiguous: f32 as
// products where windows are single pixels (pixel_convolution.h), over interleaved images where
// planes are small (interleaved/), or over padded planes where rows are long, or channels few
// (sliding_convolution.h, sliding_weight.h) or by themselves (single_convolution.h,
// grouped_weight.h), or windows of signals far apart (signals/phased_gradient.h); f64 as products
// of strips (strip_convolution.h); f32, and bf16 where the processor has instructions for it, in
// oneDNN where that has a fast kernel; else by loops of ours. How the work is cut depends on the
// spec alone, so no bit depends on the number of threads.
#ifndef TANDEM_MACHINE_WINDOWS_CONVOLUTION_H
#define TANDEM_MACHINE_WINDOWS_CONVOLUTION_H

#include <array>
#include <cstdint>

#include "ir/dtype.h"
#include "machine/element.h"

namespace tandem::machine {

using Extents = std::array<int64_t, 3>;

inline int64_t product(const Extents& e) { return e[0] * e[1] * e[2]; }

/// Of one or two spatial dimensions the first ones are of size 1.
struct ConvolutionSpec {
  int64_t images = 0, in = 0, out = 0, groups = 1;
  Extents input{1, 1, 1}, kernel{1, 1, 1}, output{1, 1, 1};
  Extents stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  auto operator<=>(const ConvolutionSpec&) const = default;
};

/// Which of the three is computed.
enum class Sought : uint8_t { Output, Input, Weight };

/// What is sought is written, the others are read. bias: [channels of what is sought], or null; not
/// beside Weight.
template <class T>
struct ConvolutionData {
  T *x, *w, *y;
  const T* bias = nullptr;
};

/// Whether convolutions of bf16 are faster than those of their operands in f32: the processor has
/// instructions for them (AVX512_BF16, or AMX).
bool has_bf16_convolutions();

/// T: float, double, int64_t, or Bf16: summed in f32 and rounded once. Throws Error
/// (out_of_memory).
template <class T>
void convolve(const ConvolutionSpec& spec, Sought sought, const ConvolutionData<T>& data);
extern template void convolve(const ConvolutionSpec&, Sought, const ConvolutionData<Bf16>&);
extern template void convolve(const ConvolutionSpec&, Sought, const ConvolutionData<float>&);
extern template void convolve(const ConvolutionSpec&, Sought, const ConvolutionData<double>&);
extern template void convolve(const ConvolutionSpec&, Sought, const ConvolutionData<int64_t>&);

/// Multiplications and additions.
double flops(const ConvolutionSpec& spec);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_CONVOLUTION_H
