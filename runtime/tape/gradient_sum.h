// What a result receives before its node is visited: whole gradients, and gradients of its parts.
#ifndef TANDEM_RUNTIME_TAPE_GRADIENT_SUM_H
#define TANDEM_RUNTIME_TAPE_GRADIENT_SUM_H

#include <vector>

#include "runtime/tape/autograd.h"

namespace tandem::runtime {

/// The gradient of a part of a tensor, which is zero elsewhere.
struct PartGradient {
  Tensor value;
  Part part;
  Dim end() const { return part.start + value.size(part.dim); }
};

/// The sum of gradients. Those of parts that lie beside each other (of a split, of the steps of a
/// loop) wait for one another and are brought together, so each is read once; the bits are those of
/// the sum of all, each between zeros.
class GradientSum {
 public:
  void add(Tensor gradient);
  void add(PartGradient gradient);
  /// The sum; undefined if there was nothing.
  Tensor take();

 private:
  void add_parts();

  Tensor sum_;
  std::vector<PartGradient> parts_;  // of one dim, by place, none over another
};

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TAPE_GRADIENT_SUM_H
