// Convolutions whose windows are single pixels (1 x 1), products of the weight [out, in] with the
// images [in, pixels]; or whole images, which are then pixels of more channels. Where products are
// ours (products/panels.h). No tensor changes its layout.
#ifndef TANDEM_MACHINE_WINDOWS_PIXEL_CONVOLUTION_H
#define TANDEM_MACHINE_WINDOWS_PIXEL_CONVOLUTION_H

#include "machine/windows/convolution.h"

namespace tandem::machine {

/// Whether a convolution is computed so: by its shape and the processor.
bool is_of_pixels(const ConvolutionSpec& spec);

/// Throws Error (out_of_memory).
void convolve_pixels(const ConvolutionSpec& spec, Sought sought,
                     const ConvolutionData<float>& data);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_PIXEL_CONVOLUTION_H
