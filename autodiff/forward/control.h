// Tangents through branches and loops: one equation, whose bodies move values and tangents along.
#ifndef TANDEM_AUTODIFF_FORWARD_CONTROL_H
#define TANDEM_AUTODIFF_FORWARD_CONTROL_H

#include "autodiff/forward/jvp.h"
#include "ir/build/rewrite.h"

namespace tandem::autodiff {

bool has_bodies(ir::Op op);

struct MovedEquation {
  ir::ValueList results;
  Tangents tangents;  // by result: invalid where nothing moves it
};
/// Equation `e` of the rewriter's source, a cond, while_loop or scan, with tangents of its operands
/// (values of the target; at least one is valid). Which carries move is what a step finds, until no
/// further one does.
MovedEquation move_bodies(ir::Rewriter& rewriter, ir::EquationId e,
                          std::span<const ir::ValueId> tangents);

}  // namespace tandem::autodiff

#endif  // TANDEM_AUTODIFF_FORWARD_CONTROL_H
