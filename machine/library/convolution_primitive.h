// Convolutions of f32 or bf16 through oneDNN: cut by shape alone into parts of the images and of
// the channels, each one single-threaded primitive between reorders into and out of the library's
// layouts. bf16 is summed in f32 and rounded once.
#ifndef TANDEM_MACHINE_LIBRARY_CONVOLUTION_PRIMITIVE_H
#define TANDEM_MACHINE_LIBRARY_CONVOLUTION_PRIMITIVE_H

#include <compare>
#include <memory>

#include "machine/windows/convolution.h"

namespace tandem::machine {

enum class ConvolutionElement : uint8_t { F32, Bf16 };

struct ConvolutionKind {
  ConvolutionSpec spec;
  Sought sought = Sought::Output;
  ConvolutionElement element = ConvolutionElement::F32;
  bool has_bias = false;
  auto operator<=>(const ConvolutionKind&) const = default;
};

class LibraryConvolution {
 public:
  virtual ~LibraryConvolution() = default;
  /// Tensors of the kind's elements, a bias where it has one. Safe to call from several threads.
  virtual void run(const ConvolutionData<void>& data) const = 0;
};

/// Made on first use and kept (up to a bound); null where the library has no fast kernel.
std::shared_ptr<const LibraryConvolution> shared_convolution(const ConvolutionKind& kind);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LIBRARY_CONVOLUTION_PRIMITIVE_H
