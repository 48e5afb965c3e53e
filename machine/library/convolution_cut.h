// How a convolution is cut into parts, by its shape alone.
#ifndef TANDEM_MACHINE_LIBRARY_CONVOLUTION_CUT_H
#define TANDEM_MACHINE_LIBRARY_CONVOLUTION_CUT_H

#include "machine/windows/convolution.h"

namespace tandem::machine {

/// Images and channels (of what is sought; groups, where there are several) of a part.
struct Cut {
  int64_t images = 1, channels = 1;
  int64_t image_parts = 1, channel_parts = 1;
};

Cut cut_of(const ConvolutionSpec& spec, Sought sought);
/// What channels are cut of: of what is sought, or groups, where there are several.
int64_t cut_extent(const ConvolutionSpec& spec, Sought sought);
/// `spec` for so many images, and channels or groups.
ConvolutionSpec part_spec(ConvolutionSpec spec, Sought sought, int64_t images, int64_t channels);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LIBRARY_CONVOLUTION_CUT_H
