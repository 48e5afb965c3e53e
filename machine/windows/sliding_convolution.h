// Convolutions of f32 whose windows slide over padded planes: no layout but the tensors' own.
#ifndef TANDEM_MACHINE_WINDOWS_SLIDING_CONVOLUTION_H
#define TANDEM_MACHINE_WINDOWS_SLIDING_CONVOLUTION_H

#include "machine/windows/convolution.h"
#include "machine/windows/slide_kernels.h"

namespace tandem::machine {

/// Whether convolve_sliding can compute the output of a convolution, or the gradient of its input
/// where windows are one pixel apart: with no more padding than windows reach.
bool can_slide(const ConvolutionSpec& spec, Sought sought);

/// Whether that is faster than the library, on this processor.
bool is_sliding(const ConvolutionSpec& spec, Sought sought);

/// As convolve(). An element's sum has its order from the kernel and the channels alone: no bit
/// depends on images, threads or how planes are cut. Throws Error (out_of_memory).
void convolve_sliding(const SlideKernels& kernels, const ConvolutionSpec& spec, Sought sought,
                      const ConvolutionData<float>& data);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_SLIDING_CONVOLUTION_H
