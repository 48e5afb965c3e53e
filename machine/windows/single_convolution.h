// Convolutions of f32 of which each group makes a single channel, as where each channel is by
// itself: what a row that is read adds to the rows of the result around it is summed at once.
#ifndef TANDEM_MACHINE_WINDOWS_SINGLE_CONVOLUTION_H
#define TANDEM_MACHINE_WINDOWS_SINGLE_CONVOLUTION_H

#include "machine/windows/convolution.h"
#include "machine/windows/slide_kernels.h"

namespace tandem::machine {

/// Whether convolve_single can compute the output of a convolution, or the gradient of its input:
/// can_slide, and one channel of what is sought in each group.
bool can_convolve_single(const ConvolutionSpec& spec, Sought sought);

/// Whether that is faster than all else, on this processor.
bool is_single(const ConvolutionSpec& spec, Sought sought);

/// As convolve_sliding.
void convolve_single(const SlideKernels& kernels, const ConvolutionSpec& spec, Sought sought,
                     const ConvolutionData<float>& data);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_SINGLE_CONVOLUTION_H
