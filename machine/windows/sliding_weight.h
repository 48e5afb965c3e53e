// Gradients of a convolution's weight from padded planes of its input: no layout but the tensors'
// own.
#ifndef TANDEM_MACHINE_WINDOWS_SLIDING_WEIGHT_H
#define TANDEM_MACHINE_WINDOWS_SLIDING_WEIGHT_H

#include "machine/windows/convolution.h"
#include "machine/windows/slide_kernels.h"

namespace tandem::machine {

/// Whether sum_sliding, which knows no groups, is faster than the library, on this processor.
bool is_weight_sliding(const ConvolutionSpec& spec);

/// As convolve() for Sought::Weight. The order of an element's sum follows from the spec. Throws
/// Error (out_of_memory).
void sum_sliding(const SlideKernels& kernels, const ConvolutionSpec& spec,
                 const ConvolutionData<float>& data);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_SLIDING_WEIGHT_H
