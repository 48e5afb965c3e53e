// Convolutions of f32 of each channel by itself: what a row that is read adds to the rows of the
// result around it is summed at once.
#ifndef TANDEM_MACHINE_WINDOWS_DEPTHWISE_CONVOLUTION_H
#define TANDEM_MACHINE_WINDOWS_DEPTHWISE_CONVOLUTION_H

#include "machine/windows/convolution.h"
#include "machine/windows/slide_kernels.h"

namespace tandem::machine {

/// Whether convolve_depthwise can compute the output of a convolution, or the gradient of its
/// input: can_slide, and windows of 3, 5 or 7 rows of one channel.
bool can_convolve_depthwise(const ConvolutionSpec& spec, Sought sought);

/// Whether that is faster than all else, on this processor.
bool is_depthwise(const ConvolutionSpec& spec, Sought sought);

/// As convolve_sliding.
void convolve_depthwise(const SlideKernels& kernels, const ConvolutionSpec& spec, Sought sought,
                        const ConvolutionData<float>& data);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_DEPTHWISE_CONVOLUTION_H
