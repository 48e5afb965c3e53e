// f32 convolutions through oneDNN: cut by shape alone into parts of the images and of the channels,
// each one single-threaded primitive between reorders into and out of the library's layouts.
#ifndef TANDEM_MACHINE_LIBRARY_CONVOLUTION_PRIMITIVE_H
#define TANDEM_MACHINE_LIBRARY_CONVOLUTION_PRIMITIVE_H

#include <compare>
#include <memory>

#include "machine/windows/convolution.h"

namespace tandem::machine {

struct ConvolutionKind {
  ConvolutionSpec spec;
  Sought sought = Sought::Output;
  bool has_bias = false;
  auto operator<=>(const ConvolutionKind&) const = default;
};

class LibraryConvolution {
 public:
  virtual ~LibraryConvolution() = default;
  /// With a bias where the kind has one. Safe to call from several threads.
  virtual void run(const ConvolutionData<float>& data) const = 0;
};

/// Made on first use and kept (up to a bound); null where the library has no fast kernel.
std::shared_ptr<const LibraryConvolution> shared_convolution(const ConvolutionKind& kind);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LIBRARY_CONVOLUTION_PRIMITIVE_H
