// Convolutions of f32 of each channel by itself, with lanes along channels: rows may be as short,
// and windows as far apart, as they like.
#ifndef TANDEM_MACHINE_WINDOWS_INTERLEAVED_CHANNELWISE_H
#define TANDEM_MACHINE_WINDOWS_INTERLEAVED_CHANNELWISE_H

#include "machine/windows/convolution.h"
#include "machine/windows/slide_kernels.h"

namespace tandem::machine {

/// Whether convolve_channelwise can compute the output of a convolution, or the gradient of its
/// input, whose windows are one pixel apart: one whose groups are single channels, each of which
/// makes one.
bool can_be_channelwise(const ConvolutionSpec& spec, Sought sought);

/// Whether that is faster than all else, on this processor.
bool is_channelwise(const ConvolutionSpec& spec, Sought sought);

/// As convolve(). An element's sum has the order of the kernel's taps: no bit depends
/// on images, threads or how planes are cut. Throws Error (out_of_memory).
void convolve_channelwise(const SlideKernels& kernels, const ConvolutionSpec& spec, Sought sought,
                          const ConvolutionData<float>& data);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_WINDOWS_INTERLEAVED_CHANNELWISE_H
