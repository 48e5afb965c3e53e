// Clean-up passes on Core graphs. All preserve every bit of every output, but for put_parts_back,
// move_out_of_loops, scatter_into_sums, sum_windows_by_slices, undo_permutations,
// split_reductions and form_fma, which therefore run once, before the partition.
#ifndef TANDEM_DECOMPS_SIMPLIFY_H
#define TANDEM_DECOMPS_SIMPLIFY_H

#include "ir/graph.h"

namespace tandem::decomps {

/// A part that is set to zero and then added to, as the gradient of a write that changes what was
/// there does, is written over. May change the sign of zeros.
ir::Graph put_parts_back(ir::Graph graph);

/// What reads a part of a value that parts were written into reads what was written there, or what
/// was there before, if nobody needs the whole or more has been written over it since; values that
/// are written slice by slice become concatenations or paddings.
ir::Graph see_through_writes(ir::Graph graph);

/// Bit-preserving algebra (x * 1, convert to the same type, view of view, expand of full, ...) to a
/// fixed point.
ir::Graph simplify(ir::Graph graph);

/// Merges equal equations (same op, operands, attributes). Forward and backward copies merge;
/// random values never differ by it since they are functions of (rng, offset). What runs once
/// stays.
ir::Graph eliminate_common_subexpressions(ir::Graph graph);

/// Sums of parts that were padded with zeros along one dim, and of values as large as the sum (the
/// gradient of what was split, or read here and there), become concatenations of what each piece of
/// the dim is.
ir::Graph join_parts(ir::Graph graph);

/// Views of concatenations that lead nowhere but into further concatenations become concatenations
/// of views.
ir::Graph nest_concatenations(ir::Graph graph);

/// Scattered additions to zeros (index_add, scatter_add) that are then added to something else add
/// to that instead. Changes the order of the additions to an element. Those of one to each line, in
/// backward, are selected by comparing positions.
ir::Graph scatter_into_sums(ir::Graph graph);

/// What a scan or cond computes again that one before it computed (a gradient does, of the steps
/// that it goes back over) is given by that one as a further result, if products are part of it.
ir::Graph share_between_bodies(ir::Graph graph);

/// Of scans, what need not be done step by step is done for all steps at once before or after the
/// loop, and what nobody reads not at all. Changes the order of the additions to an element.
ir::Graph move_out_of_loops(ir::Graph graph);

/// Sums of short windows become sums of slices; so does what is spread over windows one element
/// apart, and over windows side by side it is repeated. Changes the order of the additions to an
/// element.
ir::Graph sum_windows_by_slices(ir::Graph graph);

/// What is computed of permuted values, or of inputs whose rows do not lie in memory, or of parts
/// of such, element by element or along single dims, and then only reduced, permuted back or a
/// result that lies as they do, is computed in the order in which the values lie. Changes the order
/// of the additions to an element.
ir::Graph undo_permutations(ir::Graph graph);

/// Reductions over dims that what is reduced steps unevenly through, as it is repeated, sliced or
/// permuted there, reduce the rows behind first. Changes the order of the additions to an element.
ir::Graph split_reductions(ir::Graph graph);

/// mul feeding one add or sub becomes fma where the product has no other use. Changes rounding.
ir::Graph form_fma(ir::Graph graph);

}  // namespace tandem::decomps

#endif  // TANDEM_DECOMPS_SIMPLIFY_H
