// How a convolution is cut into parts, by its shape alone.
#ifndef TANDEM_MACHINE_LIBRARY_CONVOLUTION_CUT_H
#define TANDEM_MACHINE_LIBRARY_CONVOLUTION_CUT_H

#include <vector>

#include "machine/windows/convolution.h"

namespace tandem::machine {

/// Images, channels (of what is sought; groups, where there are several) and rows are cut; of a
/// gradient of weights the rows are those of the output.
struct Cut {
  int64_t images = 1, channels = 1;  // of a part
  int64_t image_parts = 1, channel_parts = 1, row_parts = 1;
};

/// A convolution by itself, and where it begins in the whole.
struct ConvolutionPart {
  ConvolutionSpec spec;
  int64_t image = 0, channel = 0, x_row = 0, y_row = 0;
};

Cut cut_of(const ConvolutionSpec& spec, Sought sought);

/// All parts of a cut; `channel_parts` of other channels follow each other.
std::vector<ConvolutionPart> parts_of(const ConvolutionSpec& spec, Sought sought, const Cut& cut);

/// Rows are places along this spatial dimension: that which can be cut into the most parts.
size_t row_dim(const ConvolutionSpec& spec, Sought sought);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LIBRARY_CONVOLUTION_CUT_H
