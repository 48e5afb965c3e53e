// Gradients of a convolution's weight over small planes, of f32: images are interleaved, as for the
// convolution itself (interleaved_convolution.h).
#ifndef TANDEM_MACHINE_WINDOWS_INTERLEAVED_INTERLEAVED_WEIGHT_H
#define TANDEM_MACHINE_WINDOWS_INTERLEAVED_INTERLEAVED_WEIGHT_H

#include "machine/windows/convolution.h"
#include "machine/windows/slide_kernels.h"

namespace tandem::machine {

/// Whether sum_interleaved can compute it: of one group.
bool can_sum_interleaved(const ConvolutionSpec& spec);

/// Whether that is faster than all else, on this processor.
bool is_weight_interleaved(const ConvolutionSpec& spec);

/// As convolve() of Sought::Weight. An element's sum has its order from the spec alone. Throws
/// Error (out_of_memory).
void sum_interleaved(const SlideKernels& kernels, const ConvolutionSpec& spec,
                     const ConvolutionData<float>& data);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_INTERLEAVED_INTERLEAVED_WEIGHT_H
