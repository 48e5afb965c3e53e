// Views as functions, and their inverses: from a new value of what a view shows to a new value of
// what it is a view of.
#ifndef TANDEM_FUNCTIONALIZE_VIEW_INVERSE_H
#define TANDEM_FUNCTIONALIZE_VIEW_INVERSE_H

#include <optional>
#include <span>

#include "ir/build/builder.h"
#include "ir/geometry.h"

namespace tandem::functionalize {

/// What one View op does to its operand. `attrs` belong to the Traced graph (or to the tracker).
struct ViewOp {
  ir::Op op = ir::Op::alias;
  std::span<const ir::AttrValue> attrs;
};

/// What `view` shows of `parent`.
ir::ValueId apply(ir::Builder& b, const ViewOp& view, ir::ValueId parent);

/// Whether part of the parent lies outside what the view shows, so that the inverse needs the
/// parent's old value.
bool keeps_rest(ir::Op view, const ir::Type& shown);

/// `parent`, of `type`, with what `view` shows of it replaced by `value`, which is the same
/// wherever it shows the same element. Where keeps_rest is false, `parent` may be invalid.
ir::ValueId invert(ir::Builder& b, const ViewOp& view, const ir::Type& type, ir::ValueId parent,
                   ir::ValueId value);

/// What a chain of views shows of a contiguous tensor of type `base`, as strides over it; nothing
/// if strides can't say it.
std::optional<ir::ViewGeometry> as_one_view(const ir::Type& base, std::span<const ViewOp> chain);

/// `v`, of these strides, with one element along each dimension that repeats its elements.
ir::ValueId first_copies(ir::Builder& b, ir::ValueId v, const ir::Strides& strides);

/// Whether no gradient flows through the view.
bool cuts_history(ir::Op view);

/// Whether several elements of the view may be one element of the parent.
bool repeats_elements(const ViewOp& view, const ir::Type& parent, const ir::Type& result);

}  // namespace tandem::functionalize

#endif  // TANDEM_FUNCTIONALIZE_VIEW_INVERSE_H
