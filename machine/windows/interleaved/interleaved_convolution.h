// Convolutions of f32 over small planes: images are interleaved, a vector of them at each pixel, so
// that no tap is multiplied where it meets padding, and strides cost nothing.
#ifndef TANDEM_MACHINE_WINDOWS_INTERLEAVED_INTERLEAVED_CONVOLUTION_H
#define TANDEM_MACHINE_WINDOWS_INTERLEAVED_INTERLEAVED_CONVOLUTION_H

#include "machine/windows/convolution.h"
#include "machine/windows/slide_kernels.h"

namespace tandem::machine {

/// Whether convolve_interleaved can compute the output of a convolution, or the gradient of its
/// input: those of one group.
bool can_interleave(const ConvolutionSpec& spec, Sought sought);

/// Whether that is faster than all else, on this processor.
bool is_interleaved(const ConvolutionSpec& spec, Sought sought);

/// As convolve(). An element's sum has its order from the kernel and the channels alone: no bit
/// depends on images, threads or how planes are cut. Throws Error (out_of_memory).
void convolve_interleaved(const SlideKernels& kernels, const ConvolutionSpec& spec, Sought sought,
                          const ConvolutionData<float>& data);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_INTERLEAVED_INTERLEAVED_CONVOLUTION_H
