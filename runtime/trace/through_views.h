// View chains as operations: reading through one, and writing through one functionally.
#ifndef TANDEM_RUNTIME_TRACE_THROUGH_VIEWS_H
#define TANDEM_RUNTIME_TRACE_THROUGH_VIEWS_H

#include <span>
#include <vector>

#include "ir/build/builder.h"

namespace tandem::runtime {

/// From `base` to all of the memory that it lies in, `length` elements: a step of a chain though no
/// view, as there may be more than base shows. Gradients of the rest are zero.
ir::ViewStep memory_step(const ir::Shape& sizes, const ir::Strides& strides, ir::Dim offset,
                         ir::Dim length);
bool is_memory_step(const ir::ViewStep& step);
/// The equation that a memory step is: as_strided_scatter of base into a row of this type.
ir::AttrsRef scatter_attrs(const ir::ViewStep& memory_step);
ir::Type memory_type(const ir::ViewStep& memory_step, ir::DType dtype);

/// What is written through a chain of views: the chain with one element along each dimension that
/// repeats its elements, and the sizes with them.
struct WrittenPart {
  std::vector<ir::ViewStep> chain;
  ir::Shape sizes;
};
/// Of a tensor of type `base`. Error{Unsupported} if the views repeat elements and strides can't
/// say which.
WrittenPart written_part(const ir::Type& base, std::vector<ir::ViewStep> chain);

/// What the chain of views shows of `base`, whatever base's strides (a copy where it must be).
ir::ValueId read_view(ir::Builder& b, ir::ValueId base, std::span<const ir::ViewStep> chain);

/// `base` with zeros where the chain of views shows it.
ir::ValueId zero_viewed_part(ir::Builder& b, ir::ValueId base, std::span<const ir::ViewStep> chain);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TRACE_THROUGH_VIEWS_H
