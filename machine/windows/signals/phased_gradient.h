// Gradients of inputs of f32 along one dim (of signals), whose windows are far apart: of few
// channels each place in a stride becomes a channel, whose windows are one place of y apart.
#ifndef TANDEM_MACHINE_WINDOWS_SIGNALS_PHASED_GRADIENT_H
#define TANDEM_MACHINE_WINDOWS_SIGNALS_PHASED_GRADIENT_H

#include "machine/windows/convolution.h"
#include "machine/windows/slide_kernels.h"

namespace tandem::machine {

/// Whether sum_in_phases can compute the gradient of the input: of signals in one group, undilated,
/// whose kernel is a whole number of strides, so that all phases have as many taps.
bool has_phases(const ConvolutionSpec& spec);

/// Whether that is faster than all else, on this processor.
bool is_phased(const ConvolutionSpec& spec, Sought sought);

/// data.x, from the others. An element's sum has its order from the kernel, the stride and the
/// channels alone: no bit depends on images, threads or how signals are cut. Throws Error
/// (out_of_memory).
void sum_in_phases(const SlideKernels& kernels, const ConvolutionSpec& spec,
                   const ConvolutionData<float>& data);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_SIGNALS_PHASED_GRADIENT_H
