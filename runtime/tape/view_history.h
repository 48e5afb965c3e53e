// What the tape asks of views; what others ask of them is in autograd.h.
#ifndef TANDEM_RUNTIME_TAPE_VIEW_HISTORY_H
#define TANDEM_RUNTIME_TAPE_VIEW_HISTORY_H

#include "runtime/tape/autograd.h"

namespace tandem::runtime {

/// Brings a view's history up to date with its base's. (One made under NoGrad never has any, and a
/// custom function's result has its own.)
void refresh_view(TensorImpl& impl);
/// Makes the history of a view that of its base, whatever it was.
void follow_base(TensorImpl& view);
/// If the base was rearranged (t_, squeeze_, ...) after the view was made: the steps from one to
/// the other start at what it is now.
void follow_arrangement(TensorImpl& view);

}  // namespace tandem::runtime

#endif  // TANDEM_RUNTIME_TAPE_VIEW_HISTORY_H
