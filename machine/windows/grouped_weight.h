// Gradients of the f32 weight of a convolution in groups of few channels.
#ifndef TANDEM_MACHINE_WINDOWS_GROUPED_WEIGHT_H
#define TANDEM_MACHINE_WINDOWS_GROUPED_WEIGHT_H

#include "machine/windows/convolution.h"
#include "machine/windows/slide_kernels.h"

namespace tandem::machine {

/// Whether sum_grouped is faster than the library, on this processor.
bool is_weight_grouped(const ConvolutionSpec& spec);

/// As convolve(), of the weight. The order of the sums follows from the spec alone. Throws Error
/// (out_of_memory).
void sum_grouped(const SlideKernels& kernels, const ConvolutionSpec& spec,
                 const ConvolutionData<float>& data);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_GROUPED_WEIGHT_H
