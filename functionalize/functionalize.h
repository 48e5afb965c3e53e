// Functionalization: a Traced graph (views that alias, equations that write) becomes a Functional
// one with the same meaning.
#ifndef TANDEM_FUNCTIONALIZE_FUNCTIONALIZE_H
#define TANDEM_FUNCTIONALIZE_FUNCTIONALIZE_H

#include "ir/graph.h"

namespace tandem::functionalize {

/// Traced -> Functional. Every write becomes the functional op; the written storage's base is
/// updated through view inverses and live aliases are regenerated from it on their next use. Final
/// contents of written inputs become MutatedInput outputs with an epilogue write; results that are
/// inputs or views of inputs or of other results become epilogue result sources. detach becomes
/// stop_gradient, what is made without grad mode stop_backward; a write that autograd does not see
/// keeps the written tensor's history (keep_history, keep_backward). Calls are inlined.
///
/// Results that share memory: one of them, or where none will do a hidden output, is an Output; the
/// others are views of it: ViewOfResult, or Output with a chain where what they are views of is no
/// earlier result. The same tensor twice is the same Output twice.
///
/// Inputs that overlap (alias_of): where the shared memory is written, all become views of one of
/// them that is contiguous and contains the others (and is then what the epilogue writes), else of
/// a buffer put together from all (and the epilogue writes those that the program wrote).
///
/// Error{Mutation} for writes that are not well defined (other than of one number, through a view
/// that overlaps itself).
ir::Graph functionalize(const ir::Graph& traced);

/// The same of the body of a branch or loop. A trace holds the equations of tangents as it holds
/// all others, but to a body they are added later (autodiff::jvp), whichever inputs move: it says
/// also where nothing but a tangent would be stopped.
ir::Graph functionalize_body(const ir::Graph& traced);

}  // namespace tandem::functionalize

#endif  // TANDEM_FUNCTIONALIZE_FUNCTIONALIZE_H
