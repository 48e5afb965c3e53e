// The library's primitive for a part of a convolution, and how the part's tensors come into its
// layouts and out of them.
#ifndef TANDEM_MACHINE_LIBRARY_CONVOLUTION_KERNEL_H
#define TANDEM_MACHINE_LIBRARY_CONVOLUTION_KERNEL_H

#include <optional>

#include "machine/library/convolution_primitive.h"
#include "machine/library/engine.h"

namespace tandem::machine {

/// `bytes` in whole pages, which the library's kernels like.
size_t in_pages(size_t bytes);

/// One of the three tensors: as a part has it (images contiguous, weights in the whole), and as the
/// library wants it.
struct ConvolutionSide {
  dnnl::memory::desc plain, inner;
  std::optional<dnnl::reorder> reorder;  // none: it is as wanted
  dnnl::memory::desc scratchpad;         // of the reorder
  size_t bytes() const { return reorder ? in_pages(inner.get_size()) : 0; }
};

/// The convolution of a part. A weight that is sought is f32 inside.
struct ConvolutionKernel {
  dnnl::primitive primitive;
  ConvolutionSide x, w, y;
  dnnl::memory::desc bias, scratchpad;
  size_t scratch() const;
};

/// Of a part of `whole`; nothing where the library has no fast kernel. Throws dnnl::error.
std::optional<ConvolutionKernel> make_kernel(const ConvolutionSpec& part,
                                             const ConvolutionKind& whole);

}  // namespace tandem::machine

#endif  // TANDEM_MACHINE_LIBRARY_CONVOLUTION_KERNEL_H
