// Convolutions of f64: products by BLAS of the weight [out, in * taps] with the windows of a strip
// of an image's places [in * taps, places], which are brought side by side in cache; or of its
// transpose with a strip of y's gradient, and what comes of it is added to where the windows lie.
// Where a window reaches beyond the image it holds zeros, as in ATen's unfolding convolutions:
// there an infinite weight gives NaN.
#ifndef TANDEM_MACHINE_WINDOWS_STRIP_CONVOLUTION_H
#define TANDEM_MACHINE_WINDOWS_STRIP_CONVOLUTION_H

#include "machine/windows/convolution.h"

namespace tandem::machine {

/// Whether a convolution is computed so, by its shape: a group has enough channels to make products
/// of.
bool is_of_strips(const ConvolutionSpec& spec);

/// As convolve(). Throws Error (out_of_memory).
void convolve_strips(const ConvolutionSpec& spec, Sought sought,
                     const ConvolutionData<double>& data);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_STRIP_CONVOLUTION_H
