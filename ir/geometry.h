// Sizes and strides: where the result of an op lies, eager or traced, and what overlaps what.
#ifndef TANDEM_IR_GEOMETRY_H
#define TANDEM_IR_GEOMETRY_H

#include <optional>
#include <span>

#include "graph.h"

namespace tandem::ir {

/// Strides and first element (relative to operand 0's first) of a view.
struct ViewGeometry {
  Strides strides;
  Dim offset = 0;
};

/// The geometry of `op`'s result, with sizes `result`, over an operand of `sizes` and `strides`.
/// Error{Shape} if a `view` would need a copy, Error{Argument} for as_strided of a tensor that is
/// not contiguous.
ViewGeometry view_geometry(ir::Op op, const Shape& sizes, const Strides& strides,
                           std::span<const ir::AttrValue> attrs, const Shape& result);

/// The same with the offset from the storage's start, in elements of the result, for an operand of
/// `type` at `offset`.
ViewGeometry placed_view(ir::Op op, const ir::Type& type, const Strides& strides, Dim offset,
                         std::span<const ir::AttrValue> attrs, const ir::Type& result);

/// The input whose memory input `input` shows: itself, if it is an alias of none.
int memory_of(const Graph& graph, int input);

/// Whether `input` of the graph is overwritten by the call.
bool is_overwritten(const Graph& graph, int input);

/// Whether `op` writes into a part of its first operand: its result can lie as that does, wherever
/// the others lie.
bool writes_part(ir::Op op);

/// The strides of a tensor of `sizes` and `strides` seen as `wanted` sizes, if that needs no copy.
std::optional<Strides> strides_as(const Shape& sizes, const Strides& strides, const Shape& wanted);

/// True if a row-major walk over the elements is a walk over consecutive memory.
bool is_contiguous(const Shape& sizes, const Strides& strides);
struct Extent {
  const Shape& sizes;
  const Strides& strides;
};
/// Strides of the result of an op that is not a view, as ATen lays it out.
Strides result_strides(ir::Op op, std::span<const Extent> operands, const Shape& result);

/// The strides of a fresh tensor in the layout of `like`: its own if they are dense, else dense
/// ones in the same order.
Strides preserved_strides(const Extent& like);

}  // namespace tandem::ir

#endif  // TANDEM_IR_GEOMETRY_H
