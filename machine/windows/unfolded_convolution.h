// Convolutions of many channels over few pixels: one product of the weight [out, in * taps], which
// is read once and where it lies, with the windows of all images [in * taps, places], which are
// small beside it. (The library would bring the weight into a layout of its own in each call, which
// takes longer than the sums.) Where a window reaches beyond the image it holds zeros, as in ATen's
// unfolding convolutions: there an infinite weight gives NaN.
#ifndef TANDEM_MACHINE_WINDOWS_UNFOLDED_CONVOLUTION_H
#define TANDEM_MACHINE_WINDOWS_UNFOLDED_CONVOLUTION_H

#include "machine/windows/convolution.h"

namespace tandem::machine {

/// Whether a convolution is computed so: by its shape and the processor.
bool is_unfolded(const ConvolutionSpec& spec, Sought sought);

/// Throws Error (out_of_memory).
void convolve_unfolded(const ConvolutionSpec& spec, Sought sought,
                       const ConvolutionData<float>& data);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_UNFOLDED_CONVOLUTION_H
